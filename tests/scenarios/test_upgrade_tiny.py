# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrade and rollback with wheels of a few kilobytes: the installation, the switch and the units are real, the servers
replay recorded starts of the real one."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT, UNIT, Controller, Lab, Play

sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402

OLD, BROKEN, NEW = "0.5.18", "0.5.22", "0.5.23"
HOME = "/opt/llmhost/tiny"
UPGRADE = "llmhost.sglang.upgrade"


def variables(version: str, **more: Any) -> dict[str, Any]:
    return {
        "sglang_runtime_version": version,
        "sglang_runtime_wheelhouse": HOME + "/wheels",
        "sglang_runtime_lock_file": f"{HOME}/wheels/lock-{version}.txt",
        "sglang_runtime_root": HOME + "/runtimes",
        "sglang_runtime_link": HOME + "/runtime",
        "sglang_runtime_reserve_gib": 0,
        "sglang_server_environment": {"LLMHOST_REPLAY_SPEED": "20"},
        **more,
    }


@pytest.fixture(scope="module")
def tiny(lab: Lab) -> Iterator[pathlib.Path]:
    lab.model("tiny")
    recipes = (lab_tiny.Recipe(OLD), lab_tiny.Recipe(BROKEN, plays="f12-bad-arch"), lab_tiny.Recipe(NEW))
    lab_tiny.make(lab.data / "tiny/wheels", recipes)
    yield lab.data / "tiny"
    lab.ct("systemctl", "stop", UNIT, check=False)
    lab.ct("sh", "-c", f"rm -f /etc/systemd/system/{UNIT} && systemctl daemon-reload")
    lab.ct("rm", "-rf", HOME)


def upgrade(controller: Controller, version: str, *options: str, **more: Any) -> Play:
    return controller.play(UPGRADE, *options, variables=variables(version, **more))


def main_pid(lab: Lab) -> str:
    return lab.ct("systemctl", "show", "--property=MainPID", "--value", UNIT).strip()


def in_use(lab: Lab) -> str:
    return lab.ct("readlink", HOME + "/runtime").strip().rpartition("/")[2].partition("-")[0]


def runs(lab: Lab) -> str:
    """The version that the running server is started from."""
    return lab.ct("sh", "-c", f"tr '\\0' ' ' < /proc/{main_pid(lab)}/cmdline").split("/runtimes/")[1].partition("-")[0]


def answers(lab: Lab) -> bool:
    body = json.dumps({"text": "hi", "sampling_params": {"max_new_tokens": 4}})
    code = (
        "import urllib.request as u; r = u.Request('http://127.0.0.1:30000/generate', %r.encode(), "
        "{'Content-Type': 'application/json'}); print(u.urlopen(r, timeout=20).status)" % body
    )
    return lab.ct("python3", "-c", code).strip() == "200"


def test_check_mode_on_a_fresh_host_finishes(lab: Lab, controller: Controller, tiny: pathlib.Path) -> None:
    play = upgrade(controller, OLD, "--check", "--diff")
    assert play.status == "successful", play.text()
    assert not (tiny / "runtimes").exists()
    assert any("Build the runtime" in task for task in play.changed())


def test_the_first_version(lab: Lab, controller: Controller, tiny: pathlib.Path) -> None:
    play = upgrade(controller, OLD)
    assert play.status == "successful", play.text()
    assert in_use(lab) == runs(lab) == OLD and answers(lab)
    assert play.artifacts["llmhost_runtimes"]["ct129"]["outcome"] == "upgraded"


def test_an_option_that_is_gone_is_told_before_anything_is_switched(
    lab: Lab, controller: Controller, tiny: pathlib.Path
) -> None:
    pid = main_pid(lab)
    dropped = {"keep_mm_feature_on_device": True}
    # open to all, with its key among the secrets: that is no fault, and the key is nowhere
    secret = {"sglang_server_host": "0.0.0.0", "sglang_server_secrets": {"demo": {"api_key": "key-of-this-test"}}}
    play = upgrade(controller, NEW, sglang_server_arguments=dropped, **secret)
    assert play.status == "failed"
    told = play.text().replace("-", "_")
    assert "api_key" not in play.result("fail")["msg"] and "key-of-this-test" not in play.text()
    assert "keep_mm_feature_on_device" in told and "nothing was switched" in told, play.text()
    assert main_pid(lab) == pid != "0" and in_use(lab) == OLD


def test_a_version_that_does_not_come_up_is_rolled_back_and_the_old_one_answers(
    lab: Lab, controller: Controller, tiny: pathlib.Path
) -> None:
    play = upgrade(controller, BROKEN)
    assert play.status == "failed"
    assert "is in use again and answers" in play.text(), play.text()
    assert in_use(lab) == runs(lab) == OLD and answers(lab)
    assert play.artifacts["llmhost_runtimes"]["ct129"]["outcome"] == "rolled_back"


def test_the_new_version_and_again(lab: Lab, controller: Controller, tiny: pathlib.Path) -> None:
    play = upgrade(controller, NEW)
    assert play.status == "successful", play.text()
    assert in_use(lab) == runs(lab) == NEW and answers(lab)
    pid = main_pid(lab)
    again = upgrade(controller, NEW)
    assert again.status == "successful" and again.changed() == [] and main_pid(lab) == pid


def test_back(lab: Lab, controller: Controller, tiny: pathlib.Path) -> None:
    play = controller.play("llmhost.sglang.rollback", variables=variables(NEW))
    assert play.status == "successful", play.text()
    assert in_use(lab) == runs(lab) != NEW and answers(lab)
    assert "sglang_runtime_version" in play.text()


def test_a_server_that_dies_before_it_is_asked_is_told_by_its_end(
    lab: Lab, controller: Controller, tiny: pathlib.Path
) -> None:
    watched = "/var/lib/llmhost/instances/demo/watch"
    killer = f"""touch /run/before
    until find {watched} -name '*.verdict.json' -newer /run/before | grep -q .; do sleep 0.02; done
    kill -9 $(systemctl show --value --property=MainPID {UNIT})"""
    lab.ct("systemd-run", "--quiet", "--collect", "--unit=killer", "sh", "-c", killer)
    play = controller.play("llmhost.sglang.restart", variables=variables(in_use(lab)))
    assert play.status == "failed", play.text()
    told = play.artifacts["llmhost_servers"]["ct129/demo"]
    assert told["reason"] in ("connection_refused", "connection_lost") and told["cause"] == "scheduler_killed", told
    assert "It was ready before" in told["message"] and "ended by signal 9" in told["message"], told
