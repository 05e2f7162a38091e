# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of server_wait: what it shows, when, and what it does where the watcher is not there."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.llmhost.sglang.plugins.action import server_wait
from ansible_collections.llmhost.sglang.plugins.action.server_wait import ActionModule, Progress


class Target:
    """Stands for the machine: what each status poll and each module call finds there."""

    def __init__(self, started: dict[str, Any], polls: list[Any], verdict: dict[str, Any]) -> None:
        self.started, self.polls, self.verdict = started, polls, verdict
        self.module_calls: list[dict[str, Any]] = []
        self.commands: list[str] = []

    def execute_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        assert module_name == "llmhost.sglang.server_wait"
        self.module_calls.append(module_args)
        return dict(self.started) if module_args.get("watcher") == "start" else dict(self.verdict)

    def command(self, command: str, sudoable: bool = True) -> dict[str, Any]:
        self.commands.append(command)
        found = self.polls.pop(0)
        if isinstance(found, Exception):
            raise found
        return {"rc": 0, "stdout": json.dumps(found)} if isinstance(found, dict) else {"rc": 1, "stdout": str(found)}


WATCHER = {
    "detached": {
        "status_path": "/var/lib/x y/status.json",
        "verdict_path": "/var/lib/x y/verdict.json",
        "joined": False,
    },
    "unit": "sglang-a.service",
}
READY = {"outcome": "ready", "changed": False, "unit": "sglang-a.service"}


def status(phase: str, seconds: float, bar: str = "", state: str = "watching") -> dict[str, Any]:
    return {
        "state": state,
        "phase": phase,
        "seconds": seconds,
        "phase_seconds": seconds,
        "bar": bar,
        "updated": seconds,
    }


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []

    def display(text: str, stderr: bool = False, **_more: Any) -> None:
        assert stderr  # stdout belongs to JSON callbacks
        lines.append(text)

    clock = {"now": 0.0}
    monkeypatch.setattr(server_wait.display, "display", display)
    monkeypatch.setattr(server_wait.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(server_wait.time, "sleep", lambda seconds: clock.__setitem__("now", clock["now"] + seconds))
    return lines


def run(target: Target, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> dict[str, Any]:
    no_log = arguments.pop("no_log", False)
    task = SimpleNamespace(args={"name": "a", **arguments}, no_log=no_log, async_val=0)
    action = ActionModule.__new__(ActionModule)
    action._task = task
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(action, "_execute_module", target.execute_module, raising=False)
    monkeypatch.setattr(action, "_low_level_execute_command", target.command, raising=False)
    return action.run(None, {"inventory_hostname": "gpu7"})


def test_shows_changes_and_ends_with_one_module_call(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    polls = [
        status("args", 1),
        status("args", 2),
        status("load_weights", 3, "weights 37 %"),
        status("load_weights", 4, "weights 81 %"),
        status("graph_capture", 5, "graph 12/52"),
        {"state": "done", "outcome": "ready", "cause": None, "seconds": 6.2},
    ]
    target = Target(WATCHER, polls, READY)
    result = run(target, monkeypatch)
    assert result["outcome"] == "ready"
    assert target.module_calls == [
        {"name": "a", "watcher": "start"},
        {"name": "a", "watcher": "/var/lib/x y/verdict.json"},
    ]
    assert set(target.commands) == {server_wait.LOOK % {"path": "'/var/lib/x y/status.json'"}}
    assert all(line.startswith("[gpu7] sglang-a.service: ") for line in shown)
    text = "\n".join(shown)
    assert "weights 37 %" in text and "weights 81 %" in text and "graph 12/52" in text
    assert text.count("reading arguments and configuration (") == 1  # nothing new, nothing shown
    assert shown[-1].endswith("ready after 6 s")


def test_a_look_waits_for_the_end_of_the_watch_and_for_nothing_else(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a b.json"
    command = server_wait.LOOK % {"path": shlex.quote(str(path))}

    def look() -> tuple[int, str, float]:
        began = time.monotonic()
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, time.monotonic() - began

    assert look()[0] == 1
    path.write_text(json.dumps(status("args", 1)))
    code, text, seconds = look()
    assert (code, json.loads(text)["phase"]) == (0, "args") and seconds >= 0.9
    path.write_text(json.dumps({"state": "done", "outcome": "ready"}))
    code, text, seconds = look()
    assert (code, json.loads(text)["outcome"]) == (0, "ready") and seconds < 0.9


def test_progress_false_is_quiet(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (False, "no"):
        run(Target(WATCHER, [status("args", 1), {"state": "done"}], READY), monkeypatch, progress=value)
    assert shown == []


def test_no_log_is_quiet(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run(Target(WATCHER, [status("args", 1), {"state": "done"}], READY), monkeypatch, no_log=True)
    assert shown == []


def test_a_verdict_at_once_needs_no_watcher(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target({"failed": True, "reason": "unit_not_found", "msg": "no"}, [], READY)
    assert run(target, monkeypatch)["reason"] == "unit_not_found"
    assert len(target.module_calls) == 1


def test_without_systemd_run_the_module_waits(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target({"detached": {"why_not": "systemd-run is not on this host"}}, [], READY)
    assert run(target, monkeypatch)["outcome"] == "ready"
    assert target.module_calls == [{"name": "a", "watcher": "start"}, {"name": "a"}]


def test_a_connection_that_comes_back(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[Any] = [AnsibleConnectionFailure("gone")] * 5 + ["cat: no", {"state": "done", "outcome": "ready"}]
    target = Target(WATCHER, polls, READY)
    assert run(target, monkeypatch)["outcome"] == "ready"
    assert target.module_calls[-1]["watcher"] == "/var/lib/x y/verdict.json"


def test_a_watcher_that_is_lost(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(WATCHER, ["cat: no such file"] * 100, READY)
    run(target, monkeypatch)
    assert target.module_calls[-1] == {"name": "a"}
    assert len(target.polls) == 100 - server_wait.LOST_LIMIT


def test_a_watcher_that_says_nothing_any_more(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(WATCHER, [status("args", 1)] * 500, READY)
    run(target, monkeypatch)
    assert target.module_calls[-1] == {"name": "a"}
    assert 500 - len(target.polls) <= server_wait.SILENT_S / server_wait.POLL_S + 3


def test_arguments_of_the_module_itself_cannot_be_given(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(WATCHER, [{"state": "done"}], READY)
    run(target, monkeypatch, watcher="/etc/shadow")
    assert all(call.get("watcher") != "/etc/shadow" for call in target.module_calls)


def test_a_phase_that_lasts_is_shown_again_before_a_job_counts_as_idle(shown: list[str]) -> None:
    progress = Progress("h", "u", True)
    for second in range(120):
        progress(status("load_weights", second), float(second))
    assert 4 <= len(shown) <= 5


@pytest.mark.parametrize(
    "found",
    [{}, {"state": "watching"}, {"state": "done", "outcome": "failed", "cause": "port_in_use", "seconds": None}],
)
def test_odd_status_files(shown: list[str], found: dict[str, Any]) -> None:
    Progress("h", "u", True)(found, 0.0)


def test_in_the_background_the_module_waits_by_itself(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def execute(**call: Any) -> dict[str, Any]:
        calls.append(call)
        return {"ansible_job_id": "j1.1", "started": 1, "finished": 0}

    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"name": "a"}, no_log=False, async_val=60)
    action._connection = SimpleNamespace(has_native_async=False)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(action, "_execute_module", execute, raising=False)
    assert action.run(None, {"inventory_hostname": "gpu7"})["ansible_job_id"] == "j1.1"
    assert [(call["module_args"], call["wrap_async"]) for call in calls] == [({"name": "a"}, 60)]
    assert shown == []
