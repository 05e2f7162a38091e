# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook ``diagnose``: the last start of an instance and a log that was handed in, with a page for each.

Also what is looked at beside the log, on a real host: a full /dev/shm, the holder of a port, a start that stands still.
Starts are replays of recorded ones.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import FULL, ROOT, Controller, Lab
from scenario_support import ACCOUNT, PYTHON, Bench, Task, server

NAME = "patient"
PORT = 30070
DROP_IN = "/etc/systemd/system/sglang-%s.service.d" % NAME
CORRUPT = ROOT / "tests/corpus/sglang_cpu/f15-corrupt-header.log"


@pytest.fixture(scope="module")
def bench(lab: Lab, controller: Controller, work: pathlib.Path) -> Iterator[Bench]:
    lab("replay-runtime", str(lab.data / "replay"))
    one = Bench(lab, controller, work)
    one.sh(ACCOUNT)
    one.sh("mkdir -p " + DROP_IN)
    one.write(DROP_IN + "/once.conf", "[Service]\nRestart=no\n")  # or the last start is another one at each look
    one.sh("systemctl daemon-reload")
    yield one
    one.run(server(name=NAME, state="absent"))
    one.sh("rm -r %s && systemctl daemon-reload" % DROP_IN)


def start(recording: str, speed: float = 20) -> Task:
    return server(
        name=NAME,
        state="restarted",
        argv=[PYTHON, "-m", "sglang.launch_server", "--model-path", "/srv/model", "--port", str(PORT)],
        environment={"LLMHOST_REPLAY": recording, "LLMHOST_REPLAY_SPEED": str(speed)},
        port=PORT,
        required_paths=["/srv/model"],
    )


def wait(**more: object) -> Task:
    return Task("server_wait", {"name": NAME, "port": PORT, "timeout_s": 120, "fail": False, **more})


def variables(folder: pathlib.Path) -> dict[str, object]:
    return {
        "sglang_server_instances": {NAME: {"model": "/srv/model"}, "never": {"model": "/srv/model"}},
        "llmhost_report_dir": str(folder),
    }


def test_the_last_start_of_each_instance(bench: Bench, controller: Controller, tmp_path: pathlib.Path) -> None:
    _started, watched = bench.run(start("f15-corrupt-header"), wait())
    assert watched["cause"] == "weights_corrupt"
    folder = tmp_path / "re ports"
    play = controller.play("llmhost.sglang.diagnose", variables=variables(folder))
    assert play.status == "successful", play.text()
    assert set(play.artifacts["llmhost_diagnosis"]) == {"ct129/" + NAME}
    told = play.artifacts["llmhost_diagnosis"]["ct129/" + NAME]
    assert (told["outcome"], told["cause"], told["message"]) == ("failed", "weights_corrupt", watched["message"])
    assert told["docs"] == "catalogue.html#weights-corrupt"
    assert "never: no start of it is known here" in play.text()
    assert [one.name for one in folder.iterdir()] == ["ct129-%s.html" % NAME]
    page = (folder / ("ct129-%s.html" % NAME)).read_text(encoding="utf-8")
    assert "<h1>patient on ct129</h1>" in page and "weights_corrupt" in page and "<svg" in page
    again = controller.play("llmhost.sglang.diagnose", variables=variables(folder))
    assert again.status == "successful" and again.changed() == []


def test_a_log_file_on_the_controller_needs_no_host(controller: Controller, tmp_path: pathlib.Path) -> None:
    given = {"llmhost_log": str(CORRUPT), "llmhost_log_on": "controller", "llmhost_report_dir": str(tmp_path)}
    play = controller.play("llmhost.sglang.diagnose", variables=given)
    assert play.status == "successful", play.text()
    assert {one["host"] for one in play.tasks} == {"localhost"}
    assert play.artifacts["llmhost_diagnosis"]["localhost/" + CORRUPT.name]["cause"] == "weights_corrupt"
    assert (tmp_path / ("localhost-%s.html" % CORRUPT.name)).exists()


@pytest.mark.skipif(not FULL, reason="script/test full: the same module on another file")
def test_a_log_file_on_the_target(bench: Bench, controller: Controller) -> None:
    bench.write("/srv/given.log", CORRUPT.read_text(encoding="utf-8", errors="replace"))
    play = controller.play("llmhost.sglang.diagnose", variables={"llmhost_log": "/srv/given.log"})
    assert play.status == "successful", play.text()
    assert play.artifacts["llmhost_diagnosis"]["ct129/given.log"]["cause"] == "weights_corrupt"


def test_the_holder_of_a_port_is_named_and_when_it_has_gone_that_is_said(bench: Bench) -> None:
    # only once it runs: module server refuses to start on a port that is held
    hold = "until systemctl is-active -q sglang-%s; do sleep 0.1; done; exec python3 -m http.server %d --bind 127.0.0.1"
    bench.sh("systemd-run --quiet --collect --unit=port-holder sh -c '%s'" % (hold % (NAME, PORT)))
    try:
        _started, seen = bench.run(start("ok-clean-recipe", speed=4), wait())
    finally:
        bench.sh("systemctl stop port-holder")
    assert seen["cause"] == "port_in_use", json.dumps(seen, indent=1)
    rows = {one["rule"]: one for one in seen["evidence"]["outside"]}
    assert "python3" in rows["port_held"]["says"]
    bench.sh("systemctl stop sglang-%s.service" % NAME)
    late = bench.one(Task("log_diagnosis_info", {"unit": "sglang-%s.service" % NAME}))
    assert late["cause"] == "port_in_use"
    assert {one["rule"]: one["effect"] for one in late["evidence"]["outside"]} == {"port_free_by_now": "contradicts"}
    assert late["retryable"] is True


def test_what_became_of_a_start_that_was_ready(bench: Bench) -> None:
    def look(invocation: str) -> dict[str, Any]:
        given = {"unit": "sglang-%s.service" % NAME, "invocation": invocation}
        return dict(bench.one(Task("log_diagnosis_info", given)))

    _started, first = bench.run(start("ok-clean-recipe"), wait())
    assert first["outcome"] == "ready", json.dumps(first, indent=1)
    assert look(first["invocation_id"])["message"] == "The server is ready."
    bench.sh("kill -9 $(systemctl show --value --property=MainPID sglang-%s.service)" % NAME)
    killed = look(first["invocation_id"])
    assert (killed["outcome"], killed["cause"]) == ("crashed_after_ready", "scheduler_killed")
    assert killed["detail"]["signal"] == 9
    _started, second = bench.run(start("ok-clean-recipe"), wait())
    assert second["outcome"] == "ready" and second["invocation_id"] != first["invocation_id"]
    again = look(first["invocation_id"])  # by now systemd itself has forgotten it
    assert (again["outcome"], again["detail"]["signal"]) == ("crashed_after_ready", 9), json.dumps(again, indent=1)
    bench.sh("systemctl stop sglang-%s.service" % NAME)
    stopped = look(second["invocation_id"])
    assert (stopped["outcome"], stopped["cause"], stopped["detail"]["ended"]) == ("ready", None, True)
    assert "stopped since" in stopped["message"]


def test_a_start_that_stands_still_tells_where(bench: Bench) -> None:
    _started, seen = bench.run(start("ok-clean-recipe", speed=0.05), wait(stall_s=4))
    assert seen["outcome"] == "stalled", json.dumps(seen, indent=1)
    assert seen["detail"]["signs_of_life"] == []
    assert seen["detail"]["stuck_process"]["pid"] > 1
    assert "py-spy is not installed" in seen["detail"]["stack_missing"]
    spy = "#!/bin/sh\necho \"Process $4: sglang\"; echo '  wait (threading.py:355)'\n"
    bench.write("/opt/llmhost/replay/bin/py-spy", spy)
    bench.sh("chmod 0755 /opt/llmhost/replay/bin/py-spy")
    try:
        again = bench.one(wait(stall_s=3))
    finally:
        bench.sh("rm /opt/llmhost/replay/bin/py-spy")
    assert "wait (threading.py:355)" in again["detail"]["stack"], json.dumps(again["detail"], indent=1)
    bench.sh("systemctl stop sglang-%s.service" % NAME)  # as the role does it after such a verdict
    late = bench.one(Task("log_diagnosis_info", {"unit": "sglang-%s.service" % NAME}))
    assert (late["outcome"], late["cause"]) == (again["outcome"], again["cause"])
    assert late["detail"]["told_by_the_watch"] is True
