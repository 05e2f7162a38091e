# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of model_snapshot: calls until it is done, a line after each, and when it does neither."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.llmhost.sglang.plugins.action import model_snapshot
from ansible_collections.llmhost.sglang.plugins.action.model_snapshot import ActionModule, slice_s

GIB = 1 << 30
DONE = {"changed": True, "moved_bytes": GIB, "moved_gib": 1.0, "retried": [], "seconds": 1.0, "fetched": ["a"]}


class Target:
    """Stands for the machine: a gibibyte comes in each call, until ``size_gib`` are there."""

    def __init__(self, size_gib: int, clock: dict[str, float]) -> None:
        self.size_gib, self.clock, self.came = size_gib, clock, 0
        self.calls: list[dict[str, Any]] = []

    def execute_module(self, module_name: str, module_args: dict[str, Any], **more: Any) -> dict[str, Any]:
        assert module_name == "llmhost.sglang.model_snapshot"
        self.calls.append({**module_args, **{key: more[key] for key in ("wrap_async",) if key in more}})
        self.clock["now"] += module_args.get("slice_s") or 1.0
        self.came += 1
        if self.came >= self.size_gib or not module_args.get("slice_s"):
            return dict(DONE)
        unfinished = {"unfinished": True, "came_bytes": self.came * GIB, "all_bytes": self.size_gib * GIB}
        return {**unfinished, "changed": True, "moved_bytes": GIB, "retried": ["interrupted"]}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []

    def display(text: str, stderr: bool = False) -> None:
        assert stderr  # stdout belongs to JSON callbacks
        lines.append(text)

    monkeypatch.setattr(model_snapshot.display, "display", display)
    return lines


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    clock = {"now": 0.0}
    monkeypatch.setattr(model_snapshot.time, "monotonic", lambda: clock["now"])
    return clock


def run(target: Target, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> dict[str, Any]:
    about = {name: arguments.pop(name, 0) for name in ("no_log", "async_val")}
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"path": "/srv/m", **arguments}, **about)
    action._connection = SimpleNamespace(has_native_async=False)
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(action, "_execute_module", target.execute_module, raising=False)
    return dict(action.run(None, {"inventory_hostname": "gpu7"}))


def test_each_call_goes_on_and_tells_how_far_it_is(
    shown: list[str], clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(4, clock)
    result = run(target, monkeypatch)
    assert [call["slice_s"] for call in target.calls] == [20.0] * 4
    assert shown[0] == "[gpu7] /srv/m: 1.0 of 4.0 GiB (25 %), 51.2 MiB/s, 20 s so far, about 60 s left"
    assert len(shown) == 3 and "3.0 of 4.0 GiB (75 %)" in shown[-1]
    assert result["moved_bytes"] == 4 * GIB and result["moved_gib"] == 4.0 and result["seconds"] == 80.0
    assert result["retried"] == ["interrupted"] * 3 and result["fetched"] == ["a"] and "unfinished" not in result


def test_what_is_there_is_one_call_without_a_line(
    shown: list[str], clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(1, clock)
    assert run(target, monkeypatch)["changed"] and len(target.calls) == 1 and not shown


def test_the_lines_of_hours_are_few(shown: list[str], clock: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(10**9, clock)
    target.size_gib = 10**9
    while clock["now"] < 3 * 3600:
        target.execute_module(ActionModule.module, {"slice_s": slice_s(clock["now"])})
    assert len(target.calls) < 120
    assert max(call["slice_s"] for call in target.calls) == 120.0


@pytest.mark.parametrize(
    ("given", "wrapped"), [({"progress": "no"}, None), ({"no_log": True}, None), ({"async_val": 60}, 60)]
)
def test_where_nothing_is_shown_it_is_one_call(
    shown: list[str],
    clock: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    wrapped: int | None,
) -> None:
    target = Target(4, clock)
    run(target, monkeypatch, slice_s=3, **given)  # of no use in a playbook
    assert len(target.calls) == 1 and "slice_s" not in target.calls[0] and not shown
    assert target.calls[0].get("wrap_async") == wrapped


def test_the_limit_is_one_for_all_calls(
    shown: list[str], clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(4, clock)
    run(target, monkeypatch, timeout_s="70")
    assert [call["timeout_s"] for call in target.calls] == [70.0, 50.0, 30.0, 10.0]
    target = Target(1, clock)
    run(target, monkeypatch, timeout_s="soon")
    assert target.calls[0]["timeout_s"] == "soon", "the module says what is wrong"


def test_a_failure_is_the_modules_own(
    shown: list[str], clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(4, clock)
    monkeypatch.setattr(target, "execute_module", lambda **_call: {"failed": True, "reason": "no_room", "msg": "full"})
    assert run(target, monkeypatch) == {"failed": True, "reason": "no_room", "msg": "full"}


def test_a_source_without_sizes(shown: list[str]) -> None:
    answer = {"came_bytes": GIB, "all_bytes": 0, "moved_bytes": GIB}
    assert model_snapshot.told(answer, 10.0, 20.0) == "1.0 GiB, 102.4 MiB/s, 20 s so far"
    small = {"came_bytes": GIB // 4, "all_bytes": GIB // 2, "moved_bytes": 0}
    assert model_snapshot.told(small, 10.0, 20.0) == "256.0 of 512.0 MiB (50 %), 0.0 MiB/s, 20 s so far"
