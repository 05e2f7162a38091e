# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans as a whole: the founding case, every stage, the window, the budget, what is not covered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import coverage
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.answer import Plan
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.calibration import Calibration
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.plan import evaluate
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.problem import Gpu, Problem
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import (
    DEEPSEEK,
    LLAMA,
    QWEN_LINEAR,
    cards,
    founding,
    problem,
)

H100 = cards(1, 81559, "NVIDIA H100 80GB HBM3")


def _hidden(plan: Plan) -> dict[str, Any]:
    return {default.option: default.value for default in plan.hidden_defaults}


# --- the founding case ------------------------------------------------------------------------------------------


def test_founding_fails_at_the_cache_and_names_the_hidden_requests() -> None:
    plan = evaluate(founding("0.5.9"))
    assert (plan.verdict, plan.stage) == ("fail", "kv")
    assert plan.message == (
        "Not enough memory. Please try to increase --mem-fraction-static. "
        "Current value: self.server_args.mem_fraction_static=0.85"
    )
    assert _hidden(plan)["max_running_requests"] == 48
    assert _hidden(plan)["disable_radix_cache"] is True
    assert plan.window is None
    assert plan.tokens is None
    assert plan.useful is False


def test_founding_needs_a_fraction_that_leaves_no_room() -> None:
    plan = evaluate(founding("0.5.9"))
    assert plan.fraction_low == pytest.approx(0.96, abs=0.006)
    assert evaluate(founding("0.5.9", mem_fraction_static=0.96)).stage == "late"
    assert evaluate(founding("0.5.9", mem_fraction_static=0.90)).stage == "kv"


def test_founding_with_eight_requests() -> None:
    plan = evaluate(founding("0.5.9", max_running_requests=8))
    assert plan.verdict in ("ok", "tight")
    assert plan.tokens == pytest.approx(372_000, rel=0.005)
    assert plan.requests == 8
    assert plan.window is not None
    assert plan.window[0] == pytest.approx(0.66, abs=0.01)
    assert plan.window[1] == pytest.approx(0.87, abs=0.03)


@pytest.mark.parametrize("version", ["0.5.10", "0.5.11", "0.5.12", "0.5.13"])
def test_founding_is_refused_by_some_versions(version: str) -> None:
    plan = evaluate(founding(version))
    assert (plan.verdict, plan.stage) == ("fail", "args")
    assert plan.message is not None
    assert "no_buffer" in plan.message


@pytest.mark.parametrize(
    ("version", "tokens", "requests"), [("0.5.14", 226_727, 10), ("0.5.18", 228_137, 9), ("0.5.23", 228_137, 9)]
)
def test_founding_starts_with_newer_versions(version: str, tokens: int, requests: int) -> None:
    plan = evaluate(founding(version))
    assert plan.verdict == "ok"
    assert plan.tokens == pytest.approx(tokens, rel=0.005)
    assert plan.requests == requests
    assert plan.useful is True


def test_founding_comes_back_where_the_radix_cache_is_off() -> None:
    assert evaluate(founding("0.5.23", disable_radix_cache=True)).verdict == "fail"


@pytest.mark.parametrize(("fraction", "stage"), [(0.85, "kv"), (0.96, "kv")])
def test_founding_with_error_correction_has_less_memory(fraction: float, stage: str) -> None:
    smaller = replace(founding("0.5.9", mem_fraction_static=fraction), gpus=cards(2, 46068))
    assert evaluate(smaller).stage == stage


# --- stages -----------------------------------------------------------------------------------------------------


def test_a_model_that_fits() -> None:
    plan = evaluate(problem(LLAMA, "0.5.23", {"context_length": 32768}, H100))
    assert plan.verdict == "ok"
    assert plan.stage is None
    assert plan.message is None
    assert plan.tokens is not None
    assert plan.tokens > 300_000


@pytest.mark.parametrize(
    ("version", "error"), [("0.5.6", "ValueError: The memory"), ("0.5.7", "RuntimeError: The memory")]
)
def test_unbalanced_cards(version: str, error: str) -> None:
    gpus = (Gpu(0, "NVIDIA L40S", 46068, 45500), Gpu(1, "NVIDIA L40S", 46068, 20000))
    plan = evaluate(problem(LLAMA, version, {"tp_size": 2}, gpus))
    assert (plan.verdict, plan.stage) == ("fail", "imbalance")
    assert plan.message is not None
    assert plan.message.startswith(error)


def test_equally_loaded_cards_pass_the_balance_and_have_less() -> None:
    free = tuple(Gpu(index, "NVIDIA L40S", 46068, 30000) for index in range(2))
    plan = evaluate(problem(LLAMA, "0.5.23", {"tp_size": 2, "mem_fraction_static": 0.8}, free))
    empty = evaluate(problem(LLAMA, "0.5.23", {"tp_size": 2, "mem_fraction_static": 0.8}, cards(2, 46068)))
    assert plan.stage is None
    assert plan.tokens is not None and empty.tokens is not None
    assert plan.tokens < empty.tokens * 0.7


def test_reclaimable_memory_counts_as_free() -> None:
    held = Gpu(0, "NVIDIA L40S", 46068, 5000)
    wanted = {"mem_fraction_static": 0.8}
    assert evaluate(problem(LLAMA, "0.5.23", wanted, (held,))).stage == "weights"
    freed = replace(held, reclaimable_mib=40000)
    assert evaluate(problem(LLAMA, "0.5.23", wanted, (freed,))).verdict in ("ok", "tight")


def test_weights_that_are_larger_than_the_card() -> None:
    plan = evaluate(problem(QWEN_LINEAR, "0.5.23", {"mem_fraction_static": 0.9}, cards(1, 49140)))
    assert (plan.verdict, plan.stage) == ("fail", "weights")
    assert plan.message == "torch.OutOfMemoryError: CUDA out of memory."


def test_weights_that_leave_nothing() -> None:
    plan = evaluate(problem(LLAMA, "0.5.23", {"mem_fraction_static": 0.6}, cards(1, 24564, "NVIDIA GeForce RTX 4090")))
    assert (plan.verdict, plan.stage) == ("fail", "weights")
    assert plan.message is not None
    assert plan.message.startswith("Loaded weights leave no GPU memory for the KV cache under")


def test_too_few_state_slots() -> None:
    plan = evaluate(problem(QWEN_LINEAR, "0.5.17", {"mem_fraction_static": 0.652}, H100))
    assert (plan.verdict, plan.stage) == ("fail", "state")


def test_no_request_fits() -> None:
    arguments = {"max_mamba_cache_size": 3, "mem_fraction_static": 0.85}
    plan = evaluate(problem(QWEN_LINEAR, "0.5.23", arguments, H100))
    assert (plan.verdict, plan.stage) == ("fail", "slots")


def test_nothing_left_for_graphs() -> None:
    plan = evaluate(problem(LLAMA, "0.5.23", {"mem_fraction_static": 0.985}, H100))
    assert (plan.verdict, plan.stage) == ("fail", "late")


def test_not_enough_host_memory() -> None:
    arguments = {"enable_hierarchical_cache": True, "hicache_ratio": 2.0, "mem_fraction_static": 0.8}
    small = evaluate(problem(LLAMA, "0.5.23", arguments, H100, host_available_gib=64.0))
    assert (small.verdict, small.stage) == ("fail", "host")
    large = evaluate(problem(LLAMA, "0.5.23", arguments, H100, host_available_gib=256.0))
    assert large.stage is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tp_size": 3}, "32 attention heads cannot be divided by 3"),
        ({"context_length": 1_000_000}, "is greater than the derived context_length (131072)"),
        ({"chunked_prefill_size": 1000, "page_size": 64}, "must be divisible by page_size 64"),
    ],
)
def test_arguments_that_do_not_fit_the_model(arguments: dict[str, Any], said: str) -> None:
    plan = evaluate(problem(LLAMA, "0.5.23", arguments, cards(4, 81559)))
    assert (plan.verdict, plan.stage) == ("fail", "args")
    assert plan.message is not None
    assert said in plan.message


def test_too_few_cards_are_a_fault_of_the_input() -> None:
    with pytest.raises(LlmHostError) as caught:
        evaluate(problem(LLAMA, "0.5.23", {"tp_size": 4}, cards(2, 81559)))
    assert caught.value.reason == "gpus_missing"
    assert (caught.value.details["needed"], caught.value.details["given"]) == (4, 2)


def test_replicas_need_cards_of_their_own() -> None:
    with pytest.raises(LlmHostError):
        evaluate(problem(LLAMA, "0.5.23", {"dp_size": 4}, cards(2, 81559)))
    spread = {"tp_size": 2, "dp_size": 2, "enable_dp_attention": True}
    assert len(evaluate(problem(LLAMA, "0.5.23", spread, cards(2, 81559))).budget) == 2


def test_the_first_card_may_be_another() -> None:
    plan = evaluate(problem(LLAMA, "0.5.23", {"base_gpu_id": 1, "gpu_id_step": 2, "tp_size": 2}, cards(4, 81559)))
    assert [card.index for card in plan.budget] == [1, 3]


# --- window, certainty, context ---------------------------------------------------------------------------------


def test_the_window_holds_the_wanted_context() -> None:
    plan = evaluate(problem(LLAMA, "0.5.23", {}, cards(1, 24564, "NVIDIA GeForce RTX 4090"), wanted_context=32768))
    assert plan.window is not None
    for share in plan.window:
        arguments = {"mem_fraction_static": share}
        tried = evaluate(problem(LLAMA, "0.5.23", arguments, cards(1, 24564, "NVIDIA GeForce RTX 4090")))
        assert tried.tokens is not None
        assert tried.tokens >= 32768
    below = {"mem_fraction_static": round(plan.window[0] - 0.005, 3)}
    tried = evaluate(problem(LLAMA, "0.5.23", below, cards(1, 24564, "NVIDIA GeForce RTX 4090")))
    assert (tried.tokens or 0) < 32768


def test_starting_and_being_useful_are_two_things() -> None:
    arguments = {"context_length": 131072, "mem_fraction_static": 0.85}
    plan = evaluate(problem(LLAMA, "0.5.23", arguments, cards(1, 24564, "NVIDIA GeForce RTX 4090")))
    assert plan.verdict in ("ok", "tight")
    assert plan.useful is False


def test_calibration_replaces_constants() -> None:
    numbers = {"free_before_gib": 78.9, "before_load_gib": 78.4, "weights_gib": 20.0, "load_drop_gib": 0.1}
    measured = Calibration({}, "", numbers)
    free = cards(1, 81559, "NVIDIA H100 80GB HBM3", free_mib=80794)
    guessed = evaluate(problem(LLAMA, "0.5.23", {"mem_fraction_static": 0.85}, free))
    plan = evaluate(problem(LLAMA, "0.5.23", {"mem_fraction_static": 0.85}, free, calibration=measured))
    assert plan.loaded is not None and guessed.loaded is not None
    assert plan.loaded.weights_gib == 20.0
    assert plan.loaded.before_gib == pytest.approx(78.4, abs=0.01)
    assert plan.loaded.after_gib == pytest.approx(58.3, abs=0.01)
    assert plan.tokens is not None and guessed.tokens is not None
    assert plan.tokens < guessed.tokens
    assert (plan.confidence, guessed.confidence) == ("high", "low")
    assert {row["item"] for row in plan.empirical} == {"late_need"}


def test_a_newer_version_says_so() -> None:
    plan = evaluate(problem(LLAMA, "0.6.1", {}, H100))
    assert plan.notes == ("SGLang 0.6.1 is newer than 0.5.23, whose rules were used.",)
    assert plan.confidence == "low"


# --- budget -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        founding("0.5.9"),
        founding("0.5.9", max_running_requests=8),
        founding("0.5.23"),
        problem(LLAMA, "0.5.23", {}, cards(1, 24564)),
        problem(LLAMA, "0.5.23", {"tp_size": 2}, (Gpu(0, "A", 46068, 45000), Gpu(1, "A", 46068, 44000))),
        problem(DEEPSEEK, "0.5.23", {"tp_size": 8}, cards(8, 143771, "NVIDIA H200")),
        problem(QWEN_LINEAR, "0.5.23", {}, cards(1, 24564)),
    ],
)
def test_a_budget_sums_up_to_the_card(asked: Problem) -> None:
    plan = evaluate(asked)
    assert plan.budget
    for card in plan.budget:
        assert sum(card.items.values()) == pytest.approx(card.total_gib, abs=1e-6)
        shown = card.as_dict()
        assert sum(row["gib"] for row in shown["entries"]) == pytest.approx(shown["total_gib"], abs=0.02)


def test_a_budget_names_what_ate_the_card() -> None:
    items = evaluate(founding("0.5.9")).budget[0].items
    assert items["draft_states"] == pytest.approx(13.76, abs=0.05)
    assert items["states"] == pytest.approx(3.44, abs=0.02)
    assert items["weights"] == pytest.approx(25.6, abs=0.1)
    assert items["slack"] == pytest.approx(7.03, abs=0.01)
    assert items["unassigned"] == pytest.approx(-2.98, abs=0.05)


def test_other_processes_have_an_item() -> None:
    gpus = (Gpu(0, "NVIDIA L40S", 46068, 30000),)
    items = evaluate(problem(LLAMA, "0.5.23", {}, gpus)).budget[0].items
    assert items["foreign"] == pytest.approx((46068 - 30000) / 1024 - 0.55, abs=0.01)


# --- what is not covered ----------------------------------------------------------------------------------------

_SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "intermediate_size": 128,
    "vocab_size": 100,
}
_UNKNOWN = from_config({**_SMALL, "architectures": ["NobodyKnowsForCausalLM"]})
_GAPS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # id: (config, arguments, version); devices, cards and drafts are set below
    "device": ({}, {}, "0.5.23"),
    "architecture": ({"architectures": ["DeepseekV4ForCausalLM"]}, {}, "0.5.23"),
    "unified_memory_card": ({}, {}, "0.5.23"),
    "linear_attention_version": ({}, {}, "0.5.1"),
    "unified_pool": ({}, {"enable_unified_memory": True}, "0.5.23"),
    "hisparse": ({}, {"enable_hisparse": True}, "0.5.23"),
    "cpu_offload": ({}, {"cpu_offload_gb": 4}, "0.5.23"),
    "offload_groups": ({}, {"offload_group_size": 2}, "0.5.23"),
    "disaggregation": ({}, {"disaggregation_mode": "prefill"}, "0.5.23"),
    "memory_saver": ({}, {"enable_memory_saver": True}, "0.5.23"),
    "lora": ({}, {"lora_paths": ["a"]}, "0.5.23"),
    "lora_switch": ({}, {"enable_lora": True}, "0.5.23"),
    "replay_state": ({}, {"enable_linear_replayssm_spec": True}, "0.5.23"),
    "decode_context_parallel": ({}, {"dcp_size": 2}, "0.5.23"),
    "context_parallel": ({}, {"attn_cp_size": 2}, "0.5.23"),
    "kv_dtype": ({}, {"kv_cache_dtype": "mxfp8"}, "0.5.23"),
    "speculative_algorithm": (
        {"num_nextn_predict_layers": 1},
        {"speculative_algorithm": "UNO", "speculative_num_steps": 1, "speculative_num_draft_tokens": 2},
        "0.5.23",
    ),
    "draft_geometry": ({}, {"speculative_algorithm": "EAGLE"}, "0.5.23"),
    "draft_architecture": ({}, {"speculative_algorithm": "EAGLE"}, "0.5.23"),
    "draft_tokens": ({}, {"speculative_algorithm": "DFLASH"}, "0.5.23"),
    "weights": ({"quantization_config": {"quant_method": "awq"}}, {}, "0.5.23"),
}


def _gap_problem(name: str) -> Problem:
    config, arguments, version = _GAPS[name]
    geometry = from_config({**_SMALL, **config})
    if name == "linear_attention_version":
        geometry = from_config(memory_facts.config_of(QWEN_LINEAR))
    gpus = cards(2, 81559, "NVIDIA GB10" if name == "unified_memory_card" else "NVIDIA H100")
    asked = Problem(geometry, arguments, parse(version), gpus, device="cpu" if name == "device" else "cuda")
    if name == "draft_architecture":
        return replace(asked, draft=_UNKNOWN)
    if name == "draft_tokens":
        return replace(asked, draft=from_config({**_SMALL, "architectures": ["DFlashDraftModel"]}))
    return asked


@pytest.mark.parametrize("gap", coverage.GAPS, ids=lambda gap: gap.id)
def test_a_gap_is_unknown_with_its_reason_and_without_a_number(gap: coverage.Gap) -> None:
    asked = _gap_problem(gap.id)
    plan = evaluate(asked)
    assert plan.verdict == "unknown"
    assert len(plan.unknown) == 1
    assert plan.launch is not None
    assert gap.found(asked, plan.launch) == plan.unknown[0]
    assert plan.tokens is None
    assert plan.requests is None
    assert plan.useful is None
    assert plan.budget == ()
    shown = plan.as_dict()
    assert shown["max_total_num_tokens"] is None
    assert shown["sizes"] is None


def test_a_cpu_is_unknown() -> None:
    assert evaluate(problem(LLAMA, "0.5.23", {}, H100, device="cpu")).unknown == ("device cpu",)


def test_without_a_gap_there_is_a_number() -> None:
    plan = evaluate(Problem(from_config(_SMALL), {}, (0, 5, 23), H100))
    assert plan.verdict == "ok"
    assert plan.unknown == ()
