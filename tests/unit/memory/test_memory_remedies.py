# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies: their order, and that each was proven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.plan import evaluate
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.problem import Gpu, Problem
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.remedies import ROWS, plan
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import (
    LLAMA,
    QWEN_LINEAR,
    cards,
    founding,
    problem,
)

RTX4090 = cards(1, 24564, "NVIDIA GeForce RTX 4090")
L40S_HELD = (Gpu(0, "NVIDIA L40S", 46068, 16000, 0, ("PID 4711 python3 (29000 MiB)",)),)

# A problem that each row helps with.
EXAMPLES: dict[str, Problem] = {
    "free_gpu_memory": problem(LLAMA, "0.5.23", {}, L40S_HELD),
    "fewer_requests": founding("0.5.9"),
    "state_buffer": founding("0.5.13"),
    "fewer_draft_tokens": founding("0.5.9"),
    "smaller_states": founding("0.5.9"),
    "newer_sglang": founding("0.5.9"),
    "no_speculation": founding("0.5.9"),
    "fewer_states": problem(
        QWEN_LINEAR, "0.5.23", {"mem_fraction_static": 0.73}, cards(1, 81559, "NVIDIA H100"), wanted_context=60000
    ),
    "smaller_window_share": problem(
        "google/gemma-4-31B",
        "0.5.12",
        {"tp_size": 2, "mem_fraction_static": 0.85},
        cards(2, 24576, "RTX 3090"),
        wanted_context=65536,
    ),
    "fp8_kv_cache": problem(LLAMA, "0.5.23", {"mem_fraction_static": 0.85}, RTX4090, wanted_context=50000),
    "shorter_context": problem(LLAMA, "0.5.23", {"mem_fraction_static": 0.85}, RTX4090),
    "smaller_chunk": problem(
        LLAMA, "0.5.9", {"mem_fraction_static": 0.80, "chunked_prefill_size": 16384}, RTX4090, wanted_context=8192
    ),
    "fewer_graphs": problem(
        LLAMA,
        "0.5.9",
        {"mem_fraction_static": 0.84, "cuda_graph_max_bs": 512, "chunked_prefill_size": 1024, "context_length": 8192},
        RTX4090,
        wanted_context=8192,
    ),
    "no_torch_compile": founding("0.5.9", max_running_requests=8, mem_fraction_static=0.83),
    "fraction_in_window": problem(LLAMA, "0.5.23", {"mem_fraction_static": 0.68}, RTX4090, wanted_context=16384),
    "more_gpus": problem(QWEN_LINEAR, "0.5.23", {}, cards(2, 49140)),
}
# The facts of Gemma 4 do not tell its weights: the size as it was logged.
_MEASURED_WEIGHTS = {"smaller_window_share": 10.5}


def _example(name: str) -> Problem:
    from ansible_collections.llmhost.sglang.plugins.module_utils._memory.calibration import Calibration

    asked = EXAMPLES[name]
    weights_gib = _MEASURED_WEIGHTS.get(name)
    return (
        asked if weights_gib is None else replace(asked, calibration=Calibration({}, "", {"weights_gib": weights_gib}))
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_has_an_example_that_it_helps_with(row: Any) -> None:
    _, found = plan(_example(row.id))
    assert row.id in [remedy.id for remedy in found]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_remedies_are_proven_by_the_same_plan(name: str) -> None:
    asked = _example(name)
    _, found = plan(asked)
    assert found
    for remedy in found:
        assert remedy.proven_by is not None
        assert remedy.proven_by["verdict"] in ("ok", "tight")
        if remedy.host_action is None:
            assert evaluate(asked.with_changes(remedy.arguments)).proof() == remedy.proven_by
        else:
            assert not remedy.safe


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_remedies_come_in_the_order_of_the_table(name: str) -> None:
    order = [row.id for row in ROWS]
    _, found = plan(_example(name))
    places = [order.index(remedy.id) for remedy in found]
    assert places == sorted(places)


def test_founding_allows_eight_requests_first() -> None:
    answer, found = plan(founding("0.5.9"))
    assert answer.verdict == "fail"
    first = found[0]
    assert first.id == "fewer_requests"
    assert first.arguments == {"max_running_requests": 8}
    assert first.safe
    assert first.proven_by is not None
    assert first.proven_by["max_total_num_tokens"] == pytest.approx(372_000, rel=0.005)
    assert first.proven_by["fraction_window"] is not None
    assert first.proven_by["useful"] is True


def test_founding_never_asks_for_a_higher_fraction() -> None:
    _, found = plan(founding("0.5.9"))
    assert all("mem_fraction_static" not in remedy.arguments for remedy in found)


def test_the_largest_number_of_requests_that_can_use_half_of_what_they_were_promised() -> None:
    tokens = {
        requests: evaluate(founding("0.5.9", max_running_requests=requests)).tokens or 0
        for requests in (1, 2, 4, 8, 12, 16, 24, 32)
    }
    best = max(requests for requests, count in tokens.items() if count >= requests * 65536 / 2)
    assert best == 8


@pytest.mark.parametrize("version", ["0.5.14", "0.5.23"])
def test_a_good_plan_has_no_remedies(version: str) -> None:
    answer, found = plan(founding(version))
    assert answer.verdict == "ok"
    assert found == []


def test_foreign_memory_is_named_with_its_processes() -> None:
    _, found = plan(_example("free_gpu_memory"))
    assert found[0].id == "free_gpu_memory"
    assert found[0].host_action == "gpu_clean"
    assert "PID 4711 python3 (29000 MiB)" in found[0].text


def test_a_wish_for_requests_is_kept() -> None:
    _, found = plan(replace(founding("0.5.9"), wanted_requests=12))
    proven = [remedy.proven_by["max_running_requests"] for remedy in found if remedy.proven_by is not None]
    assert proven
    assert all(requests >= 12 for requests in proven)


def test_what_is_unknown_has_no_remedies() -> None:
    assert plan(replace(founding("0.5.9"), device="cpu"))[1] == []


def test_a_fraction_is_raised_only_inside_the_window() -> None:
    answer, found = plan(_example("fraction_in_window"))
    raised = next(remedy for remedy in found if remedy.id == "fraction_in_window")
    assert answer.window is not None
    assert answer.window[0] <= raised.arguments["mem_fraction_static"] <= answer.window[1]
