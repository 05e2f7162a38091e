# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells, states and pools."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import resolve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.cells import (
    cells,
    draft_cell_bytes,
    slots_per_request,
    state_bytes,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.pools import Memory, Model, Pools, solve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.units import GIB, MIB
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import (
    DEEPSEEK,
    FOUNDING_ARGUMENTS,
    GRANITE,
    LLAMA,
    QWEN_LINEAR,
)

GEMMA4 = "google/gemma-4-31B"
V32 = "deepseek-ai/DeepSeek-V3.2-Exp"


def _solve(model: str, version: str, memory: Memory, chunk_tokens: int = 0, **arguments: Any) -> Pools:
    geometry = from_config(memory_facts.config_of(model))
    launch = resolve(arguments, geometry, parse(version))
    return solve(launch, Model(geometry), parse(version), memory, chunk_tokens)


@pytest.mark.parametrize(
    ("model", "arguments", "full", "window"),
    [
        (LLAMA, {}, 8 * 256 * 32 * 2, 0),
        (LLAMA, {"tp_size": 4}, 2 * 256 * 32 * 2, 0),
        (LLAMA, {"tp_size": 16}, 1 * 256 * 32 * 2, 0),
        (LLAMA, {"pp_size": 2}, 8 * 256 * 16 * 2, 0),
        (LLAMA, {"kv_cache_dtype": "fp8_e4m3"}, 8 * 256 * 32, 0),
        (LLAMA, {"kv_cache_dtype": "fp4_e2m1"}, 8 * 256 * 32 * 9 / 16, 0),
        (QWEN_LINEAR, {"tp_size": 2}, 32768, 0),
        (DEEPSEEK, {"tp_size": 8}, 576 * 61 * 2, 0),
        (V32, {"tp_size": 8}, (576 * 2 + 132) * 61, 0),
        (V32, {"kv_cache_dtype": "fp8_e4m3"}, (512 + 16 + 128 + 132) * 61, 0),
        (GEMMA4, {"tp_size": 2}, 10 * 2 * 1024 * 2, 50 * 8 * 512 * 2),
        (GRANITE, {}, 4 * 8 * 128 * 2, 0),
    ],
)
def test_bytes_of_a_token(model: str, arguments: dict[str, Any], full: float, window: float) -> None:
    geometry = from_config(memory_facts.config_of(model))
    cell = cells(resolve(arguments, geometry, (0, 5, 12), generation=9), geometry, (0, 5, 12))
    assert (cell.full_bytes, cell.window_bytes) == (full, window)


def test_window_layers_count_as_full_ones_where_the_version_or_the_user_says_so() -> None:
    config = memory_facts.config_of("poolside/Laguna-S-2.1")
    geometry = from_config(config)
    old = cells(resolve({}, geometry, (0, 5, 11)), geometry, (0, 5, 11))
    new = cells(resolve({}, geometry, (0, 5, 12)), geometry, (0, 5, 12))
    switched = cells(resolve({"disable_hybrid_swa_memory": True}, geometry, (0, 5, 12)), geometry, (0, 5, 12))
    assert old.window_bytes == switched.window_bytes == 0
    assert old.full_bytes == switched.full_bytes == new.full_bytes + new.window_bytes


@pytest.mark.parametrize(
    ("arguments", "mebibytes"),
    [
        ({}, 146.81),
        ({"tp_size": 2}, 73.41),
        ({"mamba_ssm_dtype": "bfloat16"}, 74.81),
        ({"tp_size": 2, "mamba_ssm_dtype": "bfloat16"}, 37.41),
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, 146.81),
    ],
)
def test_bytes_of_a_state(arguments: dict[str, Any], mebibytes: float) -> None:
    geometry = from_config(memory_facts.config_of(QWEN_LINEAR))
    assert state_bytes(resolve(arguments, geometry, (0, 5, 9)), geometry).total / MIB == pytest.approx(
        mebibytes, abs=0.01
    )


def test_groups_that_do_not_divide_are_padded() -> None:
    geometry = from_config(memory_facts.config_of(GRANITE))  # one group
    one = state_bytes(resolve({}, geometry, (0, 5, 9)), geometry)
    four = state_bytes(resolve({"tp_size": 4}, geometry, (0, 5, 9)), geometry)
    assert one.conv == (4096 + 2 * 128) * 3 * 2 * 36
    assert four.conv == (4096 + 2 * 4 * 128) // 4 * 3 * 2 * 36
    assert four.recurrent == one.recurrent // 4


@pytest.mark.parametrize(
    ("version", "arguments", "slots"),
    [
        ("0.5.9", {"disable_radix_cache": True}, 1),
        ("0.5.6", {}, 3),
        ("0.5.7", {}, 5),
        ("0.5.8", {}, 3),
        ("0.5.9", {"mamba_scheduler_strategy": "extra_buffer"}, 5),
        ("0.5.9", {"mamba_scheduler_strategy": "extra_buffer", "speculative_algorithm": "NEXTN"}, 4),
        ("0.5.11", {"mamba_scheduler_strategy": "extra_buffer", "speculative_algorithm": "NEXTN"}, 5),
        ("0.5.11", {"mamba_scheduler_strategy": "extra_buffer", "disable_overlap_schedule": True}, 4),
        ("0.5.23", {}, 5),
        ("0.5.23", {"disable_overlap_schedule": True}, 3),
        ("0.5.23", {"mamba_radix_cache_strategy": "extra_buffer_lazy"}, 4),
    ],
)
def test_states_of_a_request(version: str, arguments: dict[str, Any], slots: int) -> None:
    geometry = from_config(memory_facts.config_of(QWEN_LINEAR))
    assert slots_per_request(resolve(arguments, geometry, parse(version)), parse(version)) == slots


def test_a_draft_adds_its_share_of_layers() -> None:
    geometry = from_config(memory_facts.config_of(QWEN_LINEAR))
    launch = resolve({"tp_size": 2, "speculative_algorithm": "NEXTN"}, geometry, (0, 5, 23))
    assert draft_cell_bytes(launch, geometry, None, cells(launch, geometry, (0, 5, 23))) == 32768 / 16
    plain = resolve({"tp_size": 2}, geometry, (0, 5, 23))
    assert draft_cell_bytes(plain, geometry, None, cells(plain, geometry, (0, 5, 23))) == 0


def test_the_core_equation() -> None:
    """slack = pre (1 - f); what is left of the free memory goes to tokens."""
    pools = _solve(LLAMA, "0.5.23", Memory(78.0, 63.0, 0.85), tp_size=1)
    left = (63.0 - 78.0 * 0.15) * GIB
    assert pools.full_tokens == int(left) // 131072
    assert pools.kv_bytes == (pools.full_tokens + 1) * 131072


@pytest.mark.parametrize("page", [1, 16, 64, 128])
def test_tokens_fill_whole_pages(page: int) -> None:
    assert _solve(LLAMA, "0.5.23", Memory(78.0, 63.0, 0.85), page_size=page).full_tokens % page == 0


def test_a_user_may_ask_for_fewer_tokens() -> None:
    assert _solve(LLAMA, "0.5.23", Memory(78.0, 63.0, 0.85), max_total_tokens=10_000).full_tokens == 10_000


def test_the_table_of_requests() -> None:
    pools = _solve("Qwen/Qwen3-0.6B", "0.4.6", Memory(3.25, 2.05, 0.88))
    assert pools.requests == 2048
    assert pools.request_table_bytes / GIB == pytest.approx(0.3127, abs=0.001)


@pytest.mark.parametrize(("ratio", "tokens"), [(0.8, 24418), (0.25, 62790), (0.1, 109884), (0.03, 169052)])
def test_a_smaller_window_share_gives_more_tokens(ratio: float, tokens: int) -> None:
    """Two cards of 24 GB with Gemma 4 31B, as logged within one percent."""
    start = next(row for row in memory_facts.starts() if row["id"] == f"3090x2-gemma-4-31B-AWQ-f0.85-r{ratio}-auto")
    memory = Memory(start["observed"]["load_begin_avail_gb"], start["observed"]["load_end_avail_gb"] - 0.02, 0.85)
    pools = _solve(GEMMA4, "0.5.12", memory, tp_size=2, swa_full_tokens_ratio=ratio)
    assert pools.full_tokens == tokens
    assert pools.full_tokens == pytest.approx(start["observed"]["max_total_num_tokens"], rel=0.01)
    assert pools.window_tokens == int(tokens * ratio)


def test_without_radix_cache_the_window_pool_is_capped_by_requests() -> None:
    config = memory_facts.config_of("poolside/Laguna-S-2.1")
    config["sliding_window"] = 512
    geometry = from_config(config)
    arguments = {"disable_radix_cache": True, "max_running_requests": 8}
    launch = resolve(arguments, geometry, (0, 5, 16))
    pools = solve(launch, Model(geometry), (0, 5, 16), Memory(78.0, 40.0, 0.85), 8192)
    assert pools.window_tokens == (512 + 128 + 1 + 1) * 8 + 2 * 8192 + 1
    small = solve(launch, Model(geometry), (0, 5, 16), Memory(78.0, 12.0, 0.85), 8192)
    assert small.stop is not None
    assert small.stop.message.startswith("SWA pool cap (21521 tokens,")


def test_a_window_pool_below_one_window_is_refused() -> None:
    config = memory_facts.config_of("poolside/Laguna-S-2.1")
    config["sliding_window"] = 4096
    geometry = from_config(config)
    launch = resolve({"swa_full_tokens_ratio": 0.01}, geometry, (0, 5, 16))
    memory = Memory(78.0, 14.0, 0.85)
    assert solve(launch, Model(geometry), (0, 5, 15), memory, 8192).stop is None
    stop = solve(launch, Model(geometry), (0, 5, 16), memory, 8192).stop
    assert stop is not None
    assert "cannot hold even one request" in stop.message


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, -97689),
        ({"max_running_requests": 8}, 372110),
        ({"max_running_requests": 16}, 278150),
        ({"max_running_requests": 24}, 184190),
        ({"max_running_requests": 32}, 90230),
        ({"mamba_ssm_dtype": "bfloat16"}, 178790),
        ({"speculative_num_steps": 1, "speculative_num_draft_tokens": 2}, 127814),
        ({"speculative_num_steps": 2, "speculative_num_draft_tokens": 3}, 15062),
    ],
)
def test_the_founding_arithmetic(changes: dict[str, Any], tokens: int) -> None:
    """The table of section 10 of the design, from its own figures: 46.9 GiB before, 21.26 GiB after loading."""
    pools = _solve(QWEN_LINEAR, "0.5.9", Memory(46.9, 21.26, 0.85), **{**FOUNDING_ARGUMENTS, **changes})
    assert pools.full_tokens == pytest.approx(tokens, abs=450)


@pytest.mark.parametrize(
    ("version", "arguments", "stage", "said"),
    [
        ("0.5.9", {"speculative_algorithm": "NEXTN"}, "kv", "self.server_args.mem_fraction_static=0.85"),
        ("0.5.2", {}, "kv", "Not enough memory. Please try to increase --mem-fraction-static."),
        ("0.5.13", {"speculative_algorithm": "NEXTN", "disable_radix_cache": True}, "kv", "Current value: mem_frac"),
        ("0.5.14", {"max_mamba_cache_size": 200}, "kv", "Loaded weights leave no GPU memory for the KV cache under"),
        ("0.5.23", {"max_mamba_cache_size": 3}, "slots", "too small to serve any requests. max_mamba_cache_size=3"),
    ],
)
def test_where_it_stops_and_what_it_says(version: str, arguments: dict[str, Any], stage: str, said: str) -> None:
    stop = _solve(QWEN_LINEAR, version, Memory(46.9, 21.26, 0.85), tp_size=2, **arguments).stop
    assert stop is not None
    assert stop.stage == stage
    assert said in stop.message


def test_too_few_states_on_a_full_card() -> None:
    stop = _solve(QWEN_LINEAR, "0.5.17", Memory(111.0, 34.0, 0.5)).stop
    assert stop is not None
    assert stop.stage == "state"
    assert stop.message.startswith(
        "Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max"
    )


def test_weights_alone_may_be_too_much() -> None:
    stop = _solve(LLAMA, "0.5.14", Memory(20.0, 1.0, 0.8)).stop
    assert stop is not None
    assert stop.stage == "weights"
    assert "Raise --mem-fraction-static above 0.950 (minimum viable = 1 - available/pre = 0.9500)" in stop.message
