# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for the ranks of one server: whoever waits for a rank that has failed is given up after a while."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.action import server_wait
from ansible_collections.llmhost.sglang.plugins.plugin_utils._ranks import GRACE_S, Ranks
from test_action_server_wait import WATCHER, Target, run, shown, status

__all__ = ["shown"]  # a fixture

FAILED = {"outcome": "failed", "failed": False}


def test_a_failure_of_another_rank_ends_the_wait_after_its_grace(tmp_path: pathlib.Path) -> None:
    first, second = (Ranks(str(tmp_path), "start 7", host) for host in ("gpu1", "gpu2"))
    assert not first.lost(0.0)
    second.tell(FAILED)
    assert not first.lost(10.0) and first.since == 10.0
    assert not first.lost(10.0 + GRACE_S - 0.1)
    assert first.lost(10.0 + GRACE_S)


def test_nobody_is_lost_for_its_own_failure_or_for_a_good_end(tmp_path: pathlib.Path) -> None:
    first, second = (Ranks(str(tmp_path), "start 7", host) for host in ("gpu1", "gpu2"))
    first.tell(FAILED)
    second.tell({"outcome": "ready"})
    second.tell({"outcome": "skipped"})
    assert not first.lost(0.0) and first.since is None
    # a wait that broke is a failure by any outcome
    second.tell({"failed": True, "msg": "the unit is not there"})
    assert not first.lost(0.0) and first.since == 0.0


def test_other_starts_and_waits_without_a_word_in_common_are_not_heard(tmp_path: pathlib.Path) -> None:
    Ranks(str(tmp_path), "start 6", "gpu2").tell(FAILED)
    Ranks(str(tmp_path), "", "gpu2").tell(FAILED)
    for together in ("start 7", ""):
        one = Ranks(str(tmp_path), together, "gpu1")
        assert not one.lost(0.0) and not one.lost(1000.0)
    assert len(list(tmp_path.iterdir())) == 1


def follow(target: Target, ranks: pathlib.Path, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> dict[str, Any]:
    """The action on gpu1, in a run whose temporary folder is this one."""
    monkeypatch.setattr(server_wait.constants, "DEFAULT_LOCAL_TMP", str(ranks))
    return run(target, monkeypatch, **arguments)


def test_the_wait_returns_what_it_knows_by_then(
    shown: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    Ranks(str(tmp_path), "start 7", "gpu2").tell(FAILED)
    target = Target(WATCHER, [status("init_distributed", second) for second in range(500)], {"outcome": "timeout"})
    result = follow(target, tmp_path, monkeypatch, together="start 7", timeout_s=3600)
    assert result["outcome"] == "timeout"
    # not the watcher's verdict, which is not there yet: the module looks by itself, and shortly
    assert target.module_calls[-1] == {"name": "a", "together": "start 7", "timeout_s": server_wait.LAST_LOOK_S}
    assert GRACE_S <= 500 - len(target.polls) <= GRACE_S + 3


def test_a_wait_that_failed_is_heard_by_the_others(
    shown: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    done = {"state": "done", "outcome": "failed"}
    follow(Target(WATCHER, [done], {"outcome": "ready"}), tmp_path, monkeypatch, together="start 7")
    other = Ranks(str(tmp_path), "start 7", "gpu2")
    assert not other.lost(0.0) and other.since is None
    follow(Target(WATCHER, [done], {"outcome": "failed"}), tmp_path, monkeypatch, together="start 7")
    assert not other.lost(0.0) and other.since == 0.0
