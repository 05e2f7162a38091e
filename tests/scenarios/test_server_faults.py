# SPDX-License-Identifier: GPL-3.0-or-later
"""A server whose surroundings or whose play misbehave: others on its port, frozen, cut, two plays, two on a card.

Servers are replays of recorded starts, or the real one with ``script/test full``.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest
import test_server_lab
from conftest import FULL, Controller, Lab
from scenario_support import (
    PORT,
    READY_S,
    STATE,
    TINY,
    Bench,
    Task,
    info,
    probe,
    replayed,
    server,
    wait,
)
from test_server_lab import family

# the same container, and the same cleaning after each test
bench, fresh, leave_nothing = test_server_lab.bench, test_server_lab.fresh, test_server_lab.leave_nothing

URL = f"http://127.0.0.1:{PORT}"

# Asks for two answers at once, and says what came of both and when.
ASK = """
import json, sys, threading, time, urllib.request
wanted = {"max_new_tokens": 400, "ignore_eos": True}
body = json.dumps({"text": "hi", "sampling_params": wanted, **json.loads(sys.argv[2])})
told = []
def ask():
    request = urllib.request.Request(sys.argv[1] + "/generate", body.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            told.append((answer.status, bool(json.loads(answer.read())["text"]), time.time()))
    except OSError as error:
        told.append((str(error), False, time.time()))
threads = [threading.Thread(target=ask) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with open("/run/told/answers.json", "w") as out:
    json.dump(told, out)
"""


def ready(bench: Bench, **more: Any) -> dict[str, Any]:
    found = bench.server(**replayed(**more))
    wait(lambda: bench.answers(more.get("port", PORT)), READY_S)
    return found


def launchers(bench: Bench) -> list[str]:
    return bench.sh("pgrep -f -- '-m sglang.launch[_]server' || true").split()


def test_a_port_that_another_sglang_holds_is_refused(bench: Bench) -> None:
    """Its health endpoint would answer for ours, and the real server would even say that it is fired up."""
    words = " ".join(replayed()["argv"])
    pairs = " ".join(f"{key}={value}" for key, value in replayed()["environment"].items())
    bench.sh(f"setsid -f env {pairs} {words} > /tmp/other.log 2>&1 < /dev/null")
    try:
        wait(bench.answers, READY_S)
        [other] = launchers(bench)
        refused, here = bench.run(server(fails=True, **replayed()), probe(fails=True, url=URL, instance="chat"))
        assert refused["reason"] == "port_in_use" and f"PID {other}" in refused["msg"]
        assert [str(one["pid"]) for one in refused["holders"]] == [other]
        assert (here["stage"], here["reason"]) == ("owner", "wrong_owner")
        assert bench.show("chat", "ActiveState") == "inactive" and launchers(bench) == [other]
    finally:
        bench.sh("pkill -KILL -f '[-]m sglang.launch_server'; true")


def test_two_requests_in_flight_are_answered_before_it_stops(bench: Bench) -> None:
    first = ready(bench, speed=4)
    bench.write("/srv/ask.py", ASK)
    more = "{}" if FULL else json.dumps({"replay_seconds": 16})  # four seconds at this speed
    bench.sh(f"rm -f /run/told/answers.json; setsid -f python3 /srv/ask.py {URL} '{more}' > /dev/null 2>&1 < /dev/null")
    flying = f"ss -Htn state established '( sport = :{PORT} )' | wc -l"
    wait(lambda: int(bench.sh(flying)) >= 2)
    began = float(bench.sh("date +%s.%N"))
    stopped = bench.server(name="chat", state="stopped", drain_timeout_s=60)
    wait(lambda: bench.sh("test -s /run/told/answers.json && echo yes || true").strip() == "yes")
    told = json.loads(bench.sh("cat /run/told/answers.json"))
    assert [(status, text) for status, text, _at in told] == [(200, True)] * 2
    assert all(at > began for _status, _text, at in told), "they were answered before the stop: this showed nothing"
    assert stopped["stop"]["drained"] is True and stopped["stop"]["result"] == "success" and stopped["ended"] == []
    assert launchers(bench) == [] and bench.show("chat", "ActiveState") == "inactive"
    assert first["main_pid"]


def test_a_frozen_scheduler_is_told_and_stopped_in_bounded_time(bench: Bench) -> None:
    ready(bench, speed=4)
    [scheduler] = bench.sh("pgrep -x sglang::schedul").split()
    bench.sh(f"kill -STOP {scheduler}")
    began = time.monotonic()
    looked, stopped = bench.run(info(name="chat"), server(name="chat", state="stopped", drain_timeout_s=5))
    assert time.monotonic() - began < 60
    assert looked["instances"][0]["health"] == "frozen"
    assert stopped["active"] is False and stopped["stop"]["seconds"] < 15
    alive = "pgrep -f 'sglang.launch[_]server|sglang:[:]' || true"
    assert bench.sh(alive).split() == [], "a frozen process hears no SIGTERM, and SIGKILL reaches it"


def test_a_server_that_is_killed_answers_again(bench: Bench) -> None:
    ready(bench, restart_delay_s=1)
    old = bench.show("chat", "MainPID")
    bench.sh(f"kill -9 {old}")
    wait(lambda: bench.show("chat", "MainPID") not in ("0", old) and bench.answers(), READY_S)
    assert bench.show("chat", "NRestarts") == "1" and len(launchers(bench)) == 1
    assert bench.server(**replayed(restart_delay_s=1))["changed"] is False


def test_the_api_key_guards_the_server_and_is_shown_nowhere(bench: Bench) -> None:
    key = f"s3cr3t-of-{os.getpid()}"
    wanted = replayed(config_file='api-key: "@llmhost-secret:api_key@"\n', secrets={"api_key": key})
    started = bench.one(server(diff=True, **wanted), "-vvv")
    seen = bench.text + json.dumps(started)
    wait(bench.answers, READY_S)
    asked = {"url": URL, "instance": "chat", "allow_replacement": FULL}
    calls = [info(name="chat"), probe(api_key=key, **asked), probe(fails=True, **asked), server(diff=True, **wanted)]
    looked, answer, refused, again = shown = bench.run(*calls, options=("-vvv",))
    seen += bench.text + json.dumps(shown)
    assert "ESTABLISH" in bench.text, "this was to be -vvv"
    assert looked["instances"][0]["health"] == "ready" and looked["instances"][0]["version"]
    assert answer["text"].strip() and again["changed"] is False
    assert refused["reason"] == "unauthorized", "the key guards it"
    processes = bench.sh("ps -eo args; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "sglang.launch_server" in processes
    for where, text in (
        ("returns or play output", seen),
        ("the processes", processes),
        ("the unit", bench.sh("systemctl cat sglang-chat; systemctl show sglang-chat")),
        ("its state", bench.sh(f"cat {STATE}/chat/start.json {STATE}/chat/lock")),
    ):
        assert key not in text, f"{where} shows the key"
    assert bench.sh(f"stat -c %a {started['config_path']}").strip() == "600"


def test_two_plays_on_one_instance_wait_or_name_who_works_on_it(bench: Bench) -> None:
    bench.server(**family("deaf", drain_timeout_s=200))
    bench.children()
    stop = server(name="family", state="stopped")
    first = bench.beside(stop)
    wait(lambda: bench.show("family", "ActiveState") == "deactivating", 60)
    impatient = bench.one(server(name="family", state="stopped", lock_timeout_s=1, fails=True))
    second = bench.beside(stop)
    modules = "pgrep -fc '^[^ ]*python3 .*AnsiballZ_serve[r]' || true"
    wait(lambda: int(bench.sh(modules)) == 2, 60)
    bench.sh("pkill -KILL -f 'family[.]py'")  # what the first waits for
    [stopped], [patient] = first.results(), second.results()
    assert impatient["reason"] == "locked" and str(impatient["holder"]["pid"]) in impatient["msg"]
    assert impatient["holder"]["since"] and impatient["changed"] is False
    assert stopped["changed"] and stopped["actions"] == ["stop"] and stopped["active"] is False
    assert patient["changed"] is False and patient["active"] is False


# Where a play is cut, by the task that runs then; it is the third that waits for the server.
CUTS = [("Task 0", 0.0), ("Task 1", 0.5), ("Task 2", 1.0)] + ([("Task 1", 0.0), ("Task 1", 2.0)] if FULL else [])


@pytest.mark.parametrize("changed", [True, *([False] if FULL else [])])
def test_a_play_that_is_killed_can_be_run_again(bench: Bench, changed: bool) -> None:
    """SIGKILL to the controller's whole group: no task ends, no lock is let go of by anybody but the kernel."""
    old = replayed(speed=4)
    new = replayed(speed=4, arguments=["--max-running-requests", "7"])
    wait_for = Task("server_wait", {"name": "chat", "port": PORT, "timeout_s": READY_S})
    steps = [server(**{**(new if changed else old), "state": "present"}), server(**(new if changed else old)), wait_for]
    if changed:
        ready(bench, speed=4)
    for task, delay in CUTS:
        play = bench.beside(*steps)
        try:
            play.until(f"TASK [{task}]")
            time.sleep(delay)  # somewhere in that task
        finally:
            play.kill()
    *_done, verdict = bench.run(*steps)
    assert verdict["outcome"] == "ready" and bench.answers()
    assert len(launchers(bench)) == 1 and launchers(bench) == [bench.show("chat", "MainPID")]
    told = bench.sh("tr '\\0' ' ' < /proc/%s/cmdline" % bench.show("chat", "MainPID"))
    assert ("--max-running-requests" in told) is changed
    present, started, _ready = bench.run(*steps)
    assert present["changed"] is started["changed"] is False
    left = f"find {STATE}/chat /etc/systemd/system -name '.*.????????'"
    assert bench.sh(left).split() == [], "a file that was never finished lies about"


def cards_of(lab: Lab) -> dict[str, list[str]]:
    """PID of the node -> the cards on which it is listed."""
    text = lab.node("nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        pid, uuid = (word.strip() for word in line.split(","))
        found.setdefault(pid, []).append(uuid[-1])
    return found


@pytest.mark.skipif(not FULL, reason="two plays of the whole role with two starts each: with script/test full")
def test_two_instances_on_a_card_each_and_both_on_one(bench: Bench, controller: Controller, lab: Lab) -> None:
    lab.model("tiny")
    driver = "/etc/llmhost-sim/gpu.state"
    before = lab.node("cat", driver)

    def holds(card_of_b: int) -> None:
        lines = ["gpu 0 total=49140", "gpu 1 total=49140", "release_ms 500"]
        for name, card in (("a", 0), ("b", card_of_b)):
            lines.append(f"hold gpu={card} mem=9000 comm=^sglang::schedul unit=sglang-{name}.service")
        lab.node("sh", "-c", f"cat > {driver}.new && mv {driver}.new {driver}", stdin="\n".join(lines) + "\n")

    def play(card_of_b: int, **arguments: Any) -> Any:
        plain = {"device": "cpu", "max_total_tokens": 4096, **({"sleep_on_idle": True} if FULL else {})}
        replay = {"LLMHOST_REPLAY_SPEED": "10"}
        one = {
            "model": TINY,
            "arguments": plain,
            "environment": {"SGLANG_USE_CPU_ENGINE": "1"} if FULL else replay,
            "probe": {"allow_replacement": True},
        }
        instances = {
            "a": {**one, "port": PORT + 6, "gpus": [0]},
            "b": {**one, "port": PORT + 7, "gpus": [card_of_b], "arguments": {**plain, **arguments}},
        }
        runtime = {} if FULL else {"sglang_server_runtime": "/opt/llmhost/replay"}
        return controller.play("servers.yml", variables={"sglang_server_instances": instances, **runtime})

    try:
        holds(1)
        first = play(1)
        assert first.status == "successful", first.text()
        assert sorted(cards_of(lab).values()) == [["0"], ["1"]]
        pids = {name: bench.show(name, "MainPID") for name in "ab"}
        # another argument, and another card: where the neighbour is
        holds(0)
        second = play(0, max_running_requests=3)
        assert second.status == "successful", second.text()
        assert sorted(cards_of(lab).values()) == [["0"], ["0"]]
        assert bench.show("a", "MainPID") == pids["a"] != "0", "the neighbour was disturbed"
        assert bench.show("b", "MainPID") not in (pids["b"], "0")
        cleaned = second.result("gpu_clean")
        assert [one["unit"] for one in cleaned["tolerated"] if one["kinds"]] == ["sglang-a.service"]
    finally:
        lab.node("sh", "-c", f"cat > {driver}.new && mv {driver}.new {driver}", stdin=before)
