# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules server, server_info and completion_probe in a container with a real systemd.

Most servers here are replays of recorded starts of SGLang (tests/lab/replay) with real processes, ports and signals.
``script/test full`` takes the real server in their place.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from typing import Any

import pytest
from conftest import FULL, VMID, Controller, Lab
from scenario_support import ACCOUNT, HOST, PORT, READY_S, STATE, Bench, Task, info, probe, replayed, server, wait  # noqa: F401

# Tells what it received, then waits.
TELL = """
import json, os, sys, time
told = {"argv": [os.fsencode(word).hex() for word in sys.argv], "environ": {k: v for k, v in os.environ.items()}}
with open("/run/told/out.json.new", "w") as out:
    json.dump(told, out)
os.rename("/run/told/out.json.new", "/run/told/out.json")
time.sleep(3600)
"""

# A launcher with two children that do not listen to SIGTERM, as SGLang's while they import.
FAMILY = """
import os, signal, subprocess, sys, time
mode = sys.argv[1]
if mode == "child":
    signal.signal(signal.SIGTERM, lambda *_: print("child was told to stop", flush=True))
    while True:
        time.sleep(60)
children = [subprocess.Popen([sys.executable, __file__, "child", "spawn_main"]) for _ in range(2)]
def stop(*_):
    if mode == "deaf":
        return
    print("draining", flush=True)
    time.sleep(1.5)
    print("drained", flush=True)
    for child in children:
        child.kill()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("children run", flush=True)
while True:
    time.sleep(60)
"""

LISTENER = """
import http.server
http.server.HTTPServer(("127.0.0.1", %d), http.server.SimpleHTTPRequestHandler).serve_forever()
"""

# What systemd treats specially somewhere, what a shell would, and every byte.
NASTY = [
    "", " ", "a  b", "tab\t", "line\nbreak", "cr\r", "\\", "end\\", "\\n", "\\x41", '"', "'", "it's \"both\"",
    "%", "%%", "%n %i", "$", "$$", "$HOME", "${HOME}", "a${b}$c", ";", "a;b", "\\;", "#c", ";c", "-", "--",
    "--a=b c", '{"a": "b %s", "c": [1]}', "@-:+!|", "~", "*?[x]", "\u00e4\u65e5\U0001f600", "\u0085\u00a0\u2028\ufeff",
    "\x01\x1b[0m\x7f", "[Service]", "`id`", "|", ">", bytes(range(1, 256)).decode("latin-1"), "x" * 100000,
]  # fmt: skip


def told(**more: Any) -> dict[str, Any]:
    return {"name": "told", "argv": ["/usr/bin/python3", "/srv/tell.py"], "port": PORT + 1, **more}


def family(mode: str = "obedient", **more: Any) -> dict[str, Any]:
    argv = ["/usr/bin/python3", "/srv/family.py", mode]
    return {"name": "family", "argv": argv, "port": PORT + 2, "drain_timeout_s": 4, **more}


@pytest.fixture(scope="module")
def fresh(lab: Lab, controller: Controller, work: pathlib.Path) -> Bench:
    """The container as it is: nothing of ours was made for it yet."""
    return Bench(lab, controller, work)


@pytest.fixture(scope="module")
def bench(fresh: Bench, request: pytest.FixtureRequest) -> Bench:
    if FULL:
        request.getfixturevalue("runtime")
    fresh.lab("replay-runtime", str(fresh.lab.data / "replay"))
    fresh.sh(f"{ACCOUNT}; mkdir -p /run/told && chown sglang /run/told")
    fresh.write("/srv/tell.py", TELL)
    fresh.write("/srv/family.py", FAMILY)
    return fresh


@pytest.fixture(autouse=True)
def leave_nothing(request: pytest.FixtureRequest):
    yield
    if "bench" in request.fixturenames:
        bench: Bench = request.getfixturevalue("bench")
        bench.sh(
            "for unit in $(cd /etc/systemd/system && ls -d sglang-*.service 2>/dev/null); do "
            'systemctl disable -q --now "$unit" || true; rm -rf "/etc/systemd/system/$unit"*; done; '
            "systemctl daemon-reload; systemctl reset-failed; "
            f"rm -rf {STATE} /var/cache/llmhost /run/told/* /srv/closed"
        )


def test_a_dry_run_on_a_fresh_host_tells_all_and_touches_nothing(fresh: Bench) -> None:
    look = "ls -R /etc/systemd/system /var/lib /var/cache"
    before = fresh.sh(look)
    nobody = {"user": "llmnobody", "group": "llmnobody"}  # other scenarios have made sglang
    found = fresh.server(
        check=True,
        diff=True,
        **replayed(argv=["/opt/nowhere/bin/python", "-m", "x"], required_paths=["/srv/no-model"], **nobody),
    )
    assert found["changed"] and found["active"]
    assert found["actions"] == ["make_folder", "write", "daemon_reload", "enable", "start"]
    for word in ("user 'llmnobody'", "/opt/nowhere/bin/python", "/srv/no-model"):
        assert word in "\n".join(found["notes"])
    assert "ExecStart=:/opt/nowhere/bin/python" in json.dumps(found["diff"])
    assert fresh.sh(look) == before


def test_start_then_nothing_to_do_then_one_restart(bench: Bench) -> None:
    wanted = replayed(arguments=["--mem-fraction-static", "0.7"])
    first, again, dry, due, back = bench.run(
        server(**replayed()),
        server(diff=True, **replayed()),
        server(check=True, **wanted),
        server(**{**wanted, "state": "present"}),
        server(**{**replayed(), "state": "present"}),
    )
    assert first["changed"] and first["active"]
    assert first["invocation_id"] == bench.show("chat", "InvocationID")
    assert str(first["main_pid"]) == bench.show("chat", "MainPID")
    assert bench.show("chat", "UnitFileState") == "enabled"
    marker = json.loads(bench.sh(f"cat {STATE}/chat/start.json"))
    assert marker["invocation_id"] == first["invocation_id"]
    assert marker["argv_sha256"] == first["argv_sha256"]
    assert marker["boot_id"] == bench.sh("cat /proc/sys/kernel/random/boot_id").strip()

    assert (again["changed"], again["actions"], again["changes"], again["diff"]) == (False, [], [], [])
    assert dry["changes"] == ["arguments"] and dry["actions"] == ["write", "daemon_reload", "stop", "start"]
    assert (due["changed"], due["start_needed"], due["restart_needed"]) == (True, True, True)
    assert (back["changed"], back["start_needed"], back["restart_needed"]) == (True, False, False)
    for one in (again, dry, due, back):
        assert one["invocation_id"] in (first["invocation_id"], None), "nothing was started"

    starts = "journalctl -q -o cat -u sglang-chat -b _PID=1 | grep -c ^Started"
    before = int(bench.sh(starts))
    changed, after = bench.run(server(diff=True, **wanted), server(check=True, **wanted))
    assert changed["changes"] == ["arguments"] and changed["stop"]["result"]
    lines = "\n".join(entry["after"] for entry in changed["diff"])
    assert "--mem-fraction-static 0.7" in lines and "LLMHOST_START" not in lines
    assert changed["invocation_id"] == bench.show("chat", "InvocationID") != first["invocation_id"]
    assert int(bench.sh(starts)) == before + 1, "one restart"
    assert after["changed"] is False


def test_the_process_receives_what_was_asked_for(bench: Bench) -> None:
    open_variables = {
        "A": "b c",
        "PERCENT": "%n%%",
        "QUOTES": "\"'\\",
        "LINES": "a\nb\tc",
        "DOLLAR": "$HOME${X}",
        "U": "\u00e4",
    }
    hidden = {"SHELL_LIKE": 'a"b`c$d\\e\\n #;', "MULTI": "x\ny"}
    argv = ["/usr/bin/python3", "/srv/tell.py", *NASTY]
    bench.server(**told(argv=argv, environment=open_variables, secret_environment=hidden))
    found = bench.told()
    assert [bytes.fromhex(word) for word in found["argv"][1:]] == [word.encode("utf-8") for word in NASTY]
    for name, value in {**open_variables, **hidden}.items():
        assert found["environ"][name] == value
    assert found["environ"]["HOME"].startswith("/var/cache/llmhost/told")
    assert bench.show("told", "User") == "sglang"


def test_systemd_finds_no_fault_with_the_unit(bench: Bench) -> None:
    bench.server(**told(state="present"))
    path = "/etc/systemd/system/sglang-told.service"
    verify, security = f"systemd-analyze verify {path} 2>&1", "systemd-analyze security --no-pager sglang-told.service"
    assert bench.sh(verify).strip() == ""
    exposure = bench.sh(f"{security} | tail -1")
    assert float(exposure.split(":")[1].split()[0]) < 5.5, exposure


def test_a_stop_drains_and_leaves_no_process(bench: Bench) -> None:
    bench.server(**family())
    bench.children()
    stop = {"name": "family", "state": "stopped", "drain_timeout_s": 10}
    found, again = bench.run(server(**stop), server(**stop))
    assert found["stop"]["drained"] and found["stop"]["seconds"] > 1.4 and found["ended"] == []
    log = bench.sh("journalctl -q -o cat -u sglang-family")
    assert "drained" in log
    assert "child was told to stop" not in log, "KillMode=mixed: the launcher alone is told"
    assert bench.family() == set()
    assert again["changed"] is False
    assert bench.show("family", "ActiveState") == "inactive"


def test_a_server_that_does_not_drain_is_killed_and_said_so(bench: Bench) -> None:
    bench.server(**{**family("deaf"), "drain_timeout_s": 300})
    bench.children()
    found = bench.server(name="family", state="stopped", drain_timeout_s=4)
    assert bench.show("family", "TimeoutStopUSec") == "5min", "the other time was for this stop alone"
    assert found["stop"]["result"] == "timeout" and found["stop"]["drained"] is False
    assert 3.5 < found["stop"]["seconds"] < 10
    assert bench.family() == set()
    assert bench.show("family", "ActiveState") == "inactive", "a stop that was asked for is no failure"


def test_children_of_a_launcher_that_was_killed_do_not_outlive_it(bench: Bench) -> None:
    bench.server(**family(restart_delay_s=1))
    old = bench.children()
    bench.sh(f"kill -9 {bench.show('family', 'MainPID')}")
    wait(lambda: bench.show("family", "NRestarts") == "1" and bench.show("family", "ActiveState") == "active")
    assert not old & bench.children()
    # systemd started it anew with the same: nothing to do, and the marker follows
    found = bench.server(**family(restart_delay_s=1))
    assert (found["changed"], found["changes"]) == (False, [])
    marker = json.loads(bench.sh(f"cat {STATE}/family/start.json"))
    assert marker["invocation_id"] == bench.show("family", "InvocationID") == found["invocation_id"]


def test_children_that_somebody_s_drop_in_left_alive_are_ended(bench: Bench) -> None:
    bench.server(**family(restart="no"))
    old = bench.children()
    folder = "/etc/systemd/system/sglang-family.service.d"
    bench.sh(f"mkdir -p {folder}; printf '[Service]\\nKillMode=process\\n' > {folder}/x.conf; systemctl daemon-reload")
    bench.sh(f"kill -9 {bench.show('family', 'MainPID')}")
    wait(lambda: bench.show("family", "ActiveState") == "failed")
    assert bench.family() == old, "the drop-in lets them live"
    found = bench.server(**family(restart="no"))
    assert {str(one["pid"]) for one in found["ended"]} == old
    assert found["actions"] == ["end_leftovers", "start"]
    assert not old & bench.children()


def test_orphans_of_a_launcher_killed_while_its_children_import(bench: Bench) -> None:
    wanted = replayed(speed=2, restart="no")
    bench.server(**wanted)
    imports = "pgrep -f 'multiprocessing.spawn import spawn[_]main' || true"
    wait(lambda: len(bench.sh(imports).split()) >= 2)
    old = set(bench.sh(imports).split())
    bench.sh(f"kill -9 {bench.show('chat', 'MainPID')}")
    wait(lambda: bench.show("chat", "ActiveState") == "failed")
    found = bench.server(**wanted)
    assert found["active"] and found["main_pid"]
    alive = set(bench.sh("ps -eo pid=").split())
    assert not old & alive, "orphans of the earlier start live on"


def test_a_port_that_another_server_holds_is_refused_before_anything_is_stopped(bench: Bench) -> None:
    running = bench.server(**replayed())
    bench.sh(f"systemd-run -q --unit=foreign python3 -c '{LISTENER % (PORT + 5)}'")
    try:
        wait(lambda: f":{PORT + 5}" in bench.sh("ss -ltn"))
        wanted = replayed(port=PORT + 5)
        found, dry, as_it_is = bench.run(
            server(fails=True, **wanted), server(check=True, fails=True, **wanted), server(check=True, **replayed())
        )
        assert found["reason"] == dry["reason"] == "port_in_use"
        assert found["holders"][0]["unit"] == "foreign.service" and str(PORT + 5) in found["msg"]
        assert bench.show("chat", "InvocationID") == running["invocation_id"]
        assert as_it_is["changed"] is False, "nothing was written either"
    finally:
        bench.sh("systemctl stop foreign.service")


def test_a_start_that_systemd_cannot_make_says_why(bench: Bench) -> None:
    bench.sh("printf '#!/nonexistent/python\\n' > /srv/broken; chmod 0755 /srv/broken")
    found = bench.one(server(fails=True, **told(argv=["/srv/broken"], restart="no")))
    assert found["reason"] == "start_failed" and found["exit_status"] == "203"
    assert "/srv/broken" in "\n".join(found["log_tail"])


def test_a_start_waits_for_the_devices_and_says_which_did_not_come(bench: Bench) -> None:
    wanted = {"wait_devices": ["/dev/null", "/run/told/node"], "wait_timeout_s": 3, "restart": "no"}
    found = bench.one(server(fails=True, **told(**wanted)))
    assert found["reason"] == "start_failed"
    assert "/run/told/node: No such file" in "\n".join(found["log_tail"])
    bench.sh("touch /run/told/node")
    assert bench.server(**told(**wanted))["active"] is True
    bench.told()


LOCKED = "mkdir -p /srv/locked; chmod 0700 /srv/locked; ln -sf /usr/bin/python3 /srv/locked/python"
FOREIGN = "printf '[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/sglang-told.service"
MASKED = "ln -sf /dev/null /etc/systemd/system/sglang-told.service; systemctl daemon-reload"


@pytest.mark.parametrize(
    ("spoil", "more", "reason", "word"),
    [
        ("mkdir -p -m 0700 /srv/closed", {"required_paths": ["/srv/closed"]}, "path_unreadable", "/srv/closed"),
        ("true", {"required_paths": ["/srv/nowhere"]}, "path_missing", "/srv/nowhere"),
        (LOCKED, {"argv": ["/srv/locked/python", "x"]}, "runtime_missing", "/srv/locked/python"),
        ("true", {"argv": ["/srv/nowhere/python"]}, "runtime_missing", "/srv/nowhere/python"),
        ("true", {"user": "nobody-here"}, "user_missing", "nobody-here"),
        (FOREIGN, {}, "foreign_unit", "sglang-told"),
        (MASKED, {}, "masked", "unmask"),
    ],
)
def test_what_a_start_needs_is_checked_first(bench: Bench, spoil: str, more: dict, reason: str, word: str) -> None:
    bench.sh(spoil)
    found = bench.one(server(fails=True, **told(**more)))
    assert found["reason"] == reason and word in found["msg"]


def test_many_starts_in_a_row_do_not_hit_the_limit_for_crashes(bench: Bench) -> None:
    found = bench.run(*[server(**told(restart_limit=1, state="restarted"))] * 3)
    assert len({one["invocation_id"] for one in found}) == 3


def test_secrets_are_nowhere(bench: Bench) -> None:
    secret, token, extra = (word + str(os.getpid()) for word in ("s3cr3t-word-", "hf_abcdefgh", "x7ra-hidden-"))
    wanted = told(
        argv=["/usr/bin/python3", "/srv/tell.py", "--port", "1"],
        environment={"HF_TOKEN": token},
        secret_environment={"MINE": extra},
        config_file='api-key: "@llmhost-secret:api_key@"\n',
        secrets={"api_key": secret},
    )
    found = bench.one(server(diff=True, **wanted), "-vvv")
    heard = bench.told()
    assert (heard["environ"]["HF_TOKEN"], heard["environ"]["MINE"]) == (token, extra)
    path = found["config_path"]
    assert bytes.fromhex(heard["argv"][-1]).decode() == path
    assert bench.sh(f"cat {path}") == f'api-key: "{secret}"\n'
    modes = bench.sh(f"stat -c '%a %U' {path} {STATE}/told/environment {STATE}/told/key").splitlines()
    assert modes == ["600 sglang", "600 root", "600 root"]
    printed = bench.text
    assert "ESTABLISH" in printed, "this was to be -vvv"
    look = "systemctl cat sglang-told; systemctl show sglang-told; ps -eo args; journalctl -u sglang-told"
    seen = printed + json.dumps(found) + bench.sh(f"{look}; cat {STATE}/told/start.json {STATE}/told/lock")
    for value in (secret, token, extra):
        assert value not in seen
    assert "<hidden" in json.dumps(found["diff"])

    same, other, gone, missing = bench.run(
        server(check=True, **wanted),
        server(check=True, **{**wanted, "secrets": {"api_key": secret + "2"}}),
        server(**told(argv=wanted["argv"])),
        server(fails=True, **{**wanted, "secrets": {}}),
    )
    assert same["changed"] is False
    assert other["changes"] == ["config_file"]
    assert set(gone["changes"]) == {"unit", "arguments", "environment", "config_file"} and gone["config_path"] is None
    assert bench.sh(f"ls {STATE}/told").split() == ["lock", "start.json"]
    assert missing["reason"] == "secret_missing"


def test_two_runs_on_one_instance_do_not_interleave(bench: Bench) -> None:
    bench.server(**told())
    lock = f"{STATE}/told/lock"
    holder = f'import fcntl, time; f = open("{lock}", "r+"); fcntl.flock(f, 2); time.sleep(600)'
    bench.sh(f"systemd-run -q --unit=holder python3 -c '{holder}'")
    try:
        wait(lambda: bench.sh(f"flock -n {lock} true && echo free || echo held").strip() == "held")
        found = bench.one(server(fails=True, **told(lock_timeout_s=1, state="restarted")))
        assert found["reason"] == "locked" and found["holder"]["since"]
    finally:
        bench.sh("systemctl stop holder.service")
    assert bench.server(**told(lock_timeout_s=1))["changed"] is False


def test_absent_leaves_nothing(bench: Bench) -> None:
    gone = {"name": "told", "state": "absent"}
    _started, dry, absent = bench.run(
        server(**told(config_file="a: 1\n")), server(check=True, **gone, purge=True), server(**gone)
    )
    assert dry["actions"] == ["stop", "disable", "remove_unit", "daemon_reload", "remove_state", "purge_caches"]
    assert absent["changed"] and absent["active"] is False
    assert bench.sh("ls -d /var/cache/llmhost/told").strip() == "/var/cache/llmhost/told", "caches stay without purge"
    purged, nothing = bench.run(server(**gone, purge=True), server(**gone, purge=True))
    assert purged["actions"] == ["purge_caches"] and nothing["changed"] is False
    left = f"ls -d {STATE}/told /var/cache/llmhost/told /etc/systemd/system/*/sglang-told* 2>/dev/null || true"
    assert bench.sh(left).strip() == ""
    assert bench.show("told", "LoadState") == "not-found"


def test_a_reboot_brings_it_back_with_the_same(bench: Bench) -> None:
    before = bench.server(**replayed())
    bench.lab("run", "pct", "reboot", str(VMID))
    up = "systemctl is-system-running || true"
    wait(lambda: bench.sh(up, check=False).strip() in ("running", "degraded"), 60)
    bench.sh("mkdir -p /run/told && chown sglang /run/told")
    assert bench.show("chat", "ActiveState") == "active"
    found = bench.server(**replayed())
    assert (found["changed"], found["changes"]) == (False, [])
    assert found["invocation_id"] != before["invocation_id"]
    assert json.loads(bench.sh(f"cat {STATE}/chat/start.json"))["invocation_id"] == found["invocation_id"]
    wait(bench.answers, READY_S)


def test_info_and_probe(bench: Bench) -> None:
    url = f"http://127.0.0.1:{PORT}"
    said = "." if FULL else "hello"  # the real model's weights are random
    nobody, _started, early = bench.run(info(name="nobody"), server(**replayed(speed=4)), info())
    assert (nobody["instances"][0]["exists"], nobody["instances"][0]["health"]) == (False, "down")
    assert early["instances"][0]["health"] == "starting", early["instances"][0]["health_detail"]
    ask = f"python3 -c 'import urllib.request as r; r.urlopen(\"{url}/health\", timeout=5)' 2>&1 || true"
    wait(lambda: bench.sh(ask).strip() == "", 200)

    looked, answer, never, wrong, _present, older = bench.run(
        info(name="chat"),
        probe(url=url, instance="chat", expect_regex=said, allow_replacement=FULL),
        probe(fails=True, url=url, expect_regex="^never$", allow_replacement=FULL),
        probe(fails=True, url=url, instance="other"),
        server(**{**replayed(speed=4, arguments=["--tp", "2"]), "state": "present"}),
        info(name="chat"),
    )
    one = looked["instances"][0]
    assert one["health"] == "ready", one["health_detail"]
    assert {"launcher", "scheduler", "detokenizer"} <= {process["role"] for process in one["processes"]}
    assert one["outdated"] == []
    assert answer["text"].strip() and answer["first_token_s"] >= 0
    assert never["reason"] == "no_match"
    assert (wrong["stage"], wrong["reason"]) == ("owner", "wrong_owner")
    assert wrong["holders"][0]["unit"] == "sglang-chat.service"
    assert older["instances"][0]["outdated"] == ["arguments"]

    [scheduler] = [process["pid"] for process in one["processes"] if process["role"] == "scheduler"]
    bench.sh(f"kill -STOP {scheduler}")
    began = time.monotonic()
    frozen = bench.one(info(name="chat"))["instances"][0]
    assert frozen["health"] == "frozen" and time.monotonic() - began < 30
    bench.sh(f"kill -CONT {scheduler}")

    _stopped, down, dead = bench.run(
        server(name="chat", state="stopped"), info(name="chat"), probe(fails=True, url=url)
    )
    assert down["instances"][0]["health"] == "down" and down["instances"][0]["processes"] == []
    assert (dead["stage"], dead["reason"]) == ("connect", "connection_refused")
