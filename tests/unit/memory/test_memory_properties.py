# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold for any machine and any arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.plan import evaluate
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.problem import Gpu, Problem
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.remedies import plan
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

MODELS = {
    name: from_config(memory_facts.config_of(name))
    for name in (
        "meta-llama/Llama-3.1-8B-Instruct",
        "Qwen/Qwen3-30B-A3B",
        "Qwen/Qwen3.5-9B",
        "Qwen/Qwen3.6-27B",
        "ibm-granite/granite-4.0-h-micro",
        "google/gemma-3-4b-it",
    )
}
VERSIONS = ("0.4.6", "0.4.9", "0.5.3", "0.5.6", "0.5.7", "0.5.9", "0.5.12", "0.5.13", "0.5.14", "0.5.18", "0.5.23")
LATE = ("late", "host")
SLOW = [HealthCheck.too_slow]
FEW = settings(max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
FEWER = settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)


@st.composite
def problems(draw: Any) -> Problem:
    tp = draw(st.sampled_from([1, 2, 4]))
    total_mib = draw(st.sampled_from([24564, 32607, 49140, 81559, 143771]))
    arguments: dict[str, Any] = {"tp_size": tp, "mem_fraction_static": draw(st.integers(400, 980)) / 1000}
    for name, values in {
        "page_size": st.sampled_from([1, 16, 64]),
        "context_length": st.sampled_from([4096, 8192, 32768]),
        "max_running_requests": st.integers(1, 300),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8_e4m3"]),
        "disable_radix_cache": st.just(True),
        "enable_torch_compile": st.just(True),
        "chunked_prefill_size": st.sampled_from([2048, 4096, 8192]),
    }.items():
        if draw(st.booleans()):
            arguments[name] = draw(values)
    geometry = MODELS[draw(st.sampled_from(sorted(MODELS)))]
    if geometry.draft_layers and draw(st.booleans()):
        arguments.update(speculative_algorithm="NEXTN", speculative_num_steps=draw(st.integers(1, 5)))
    free = draw(st.one_of(st.none(), st.integers(total_mib // 2, total_mib)))
    gpus = tuple(Gpu(index, "NVIDIA RTX A6000", total_mib, free) for index in range(tp))
    wanted = draw(st.one_of(st.none(), st.sampled_from([2048, 4096])))
    version = parse(draw(st.sampled_from(VERSIONS)))
    return Problem(geometry, arguments, version, gpus, wanted_context=wanted)


def _tokens(asked: Problem) -> int | None:
    """Tokens that the pools would hold, None where it does not get as far as the pools."""
    answer = evaluate(asked)
    if answer.pools is None or (answer.pools.stop is not None and answer.stage not in LATE):
        return None
    return answer.pools.full_tokens


def _step(asked: Problem) -> int:
    """Tokens that one more state slot costs: slots are whole, so the cache shrinks a little where one is added."""
    pools = evaluate(asked).pools
    if pools is None or pools.states is None:
        return 0
    drafts = int(asked.arguments.get("speculative_num_steps") or 0) + 1
    slot_bytes = pools.states.slot_bytes.total * (1 + drafts)
    return int(slot_bytes / pools.cells.full_bytes) + int(asked.arguments.get("page_size") or 1)


@FEW
@given(problems(), st.integers(100, 8000))
def test_tokens_grow_with_free_memory(asked: Problem, more_mib: int) -> None:
    free = [gpu.free_mib if gpu.free_mib is not None else int(gpu.idle_free_gib * 1024) for gpu in asked.gpus]
    less = tuple(replace(gpu, free_mib=size - more_mib) for gpu, size in zip(asked.gpus, free))  # noqa: B905
    before, after = _tokens(replace(asked, gpus=less)), _tokens(asked)
    if before is not None:
        assert after is not None
        assert after + _step(asked) >= before


@FEW
@given(problems(), st.integers(5, 100))
def test_tokens_grow_with_the_fraction_until_the_late_stage(asked: Problem, thousandths: int) -> None:
    share = asked.arguments["mem_fraction_static"]
    higher = asked.with_changes({"mem_fraction_static": min(0.99, share + thousandths / 1000)})
    before, after = _tokens(asked), _tokens(higher)
    if before is not None:
        assert after is not None
        assert after + _step(asked) >= before


@FEW
@given(problems())
def test_a_budget_sums_up_to_the_total(asked: Problem) -> None:
    for card in evaluate(asked).budget:
        assert sum(card.items.values()) == pytest.approx(card.total_gib, abs=1e-6)


@FEW
@given(problems())
def test_what_starts_has_tokens_and_requests(asked: Problem) -> None:
    answer = evaluate(asked)
    if answer.starts:
        assert (answer.tokens or 0) > 0
        assert (answer.requests or 0) > 0
        assert answer.stage is None
        assert answer.message is None
    elif answer.verdict == "fail":
        assert answer.stage is not None
        assert answer.message


@FEW
@given(problems())
def test_the_window_is_what_it_says(asked: Problem) -> None:
    answer = evaluate(asked)
    if answer.window is None:
        return
    for share in answer.window:
        inside = evaluate(asked.with_changes({"mem_fraction_static": share}))
        assert inside.starts
        assert inside.useful


@FEWER
@given(problems())
def test_a_remedy_that_is_returned_plans_to_a_start(asked: Problem) -> None:
    answer, found = plan(asked)
    for remedy in found:
        assert remedy.proven_by is not None
        assert remedy.proven_by["verdict"] in ("ok", "tight")
        if remedy.host_action is None:
            again = evaluate(asked.with_changes(remedy.arguments))
            assert again.proof() == remedy.proven_by
        if "mem_fraction_static" in remedy.arguments:
            assert answer.window is not None
            assert answer.window[0] <= remedy.arguments["mem_fraction_static"] <= answer.window[1]
