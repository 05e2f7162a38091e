# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool of recurrent states, held against the source of 20 releases (benchmarks/memory_states_by_source.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.pools import Memory, Model, solve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.units import GIB, MIB
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse, rule
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts, memory_state_grid


def _releases() -> list[dict[str, Any]]:
    with open(memory_facts.DATA / "states_by_source.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("release", _releases(), ids=lambda release: str(release["version"]))
def test_slots_and_what_is_left_are_equal(release: dict[str, Any]) -> None:
    version = parse(release["version"])
    model = Model(memory_state_grid.geometry())
    reserve_gib = int(rule("multimodal_reserve_mib", version)) * MIB / GIB
    planned = []
    for launch, left_gib in memory_state_grid.starts(version):
        # No slack: everything that is left after loading is left for the pools.
        pools = solve(launch, model, version, Memory(100.0, left_gib + reserve_gib, 1.0))
        is_refused = pools.stop is not None and pools.stop.stage == "state"
        slots = pools.states.slots if pools.states is not None else 0
        planned.append(None if is_refused else [slots, round(pools.kv_budget_bytes / GIB, 4)])
    assert len(planned) == len(release["results"]) >= 200
    for mine, real in zip(planned, release["results"]):  # noqa: B905
        if real is None:
            assert mine is None
        else:
            assert mine == pytest.approx(real, abs=0.0002)
