# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What changed in SGLang's memory arithmetic, and when. One table, one look-up.

A row says: from ``since`` on, ``topic`` has this value, until a later row of the same topic. The code asks for a
topic and never compares a version itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError

Version = tuple[int, int, int]

OLDEST: Version = (0, 4, 3)
NEWEST: Version = (0, 5, 23)


@dataclass(frozen=True)
class Rule:
    """One fact: from ``since`` on, ``topic`` is ``value``."""

    topic: str
    since: Version
    value: Any
    note: str


# Sliding-window architectures whose windowed layers get a pool of their own, by the version that added them.
_SWA_0_5_7 = frozenset({"MiMoV2FlashForCausalLM", "MiMoV2MTP"})
_SWA_0_5_8 = _SWA_0_5_7 | {"Llama4ForConditionalGeneration", "GptOssForCausalLM"}
_SWA_0_5_9 = _SWA_0_5_8 | {"Step3p5ForCausalLM", "Step3p5MTP"}
_SWA_0_5_11 = _SWA_0_5_9 | {"MiMoV2ForCausalLM", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"}
_SWA_0_5_12 = _SWA_0_5_11 | {"LagunaForCausalLM", "DeepseekV4ForCausalLM", "Gemma4UnifiedForConditionalGeneration"}
_SWA_0_5_13 = _SWA_0_5_12 | {"Step3p7ForConditionalGeneration"}
_SWA_0_5_16 = _SWA_0_5_13 | {"MellumForCausalLM", "InklingForConditionalGeneration", "UnlimitedOCRForCausalLM"}
_SWA_0_5_18 = _SWA_0_5_16 | {"MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration"}
_SWA_0_5_22 = _SWA_0_5_18 | {"EmbeddingGemma2Model", "DiffusionGemmaForBlockDiffusion"}
_SWA_0_5_23 = _SWA_0_5_22 | {"BeamForCausalLM"}

# Multimodal architectures for which the prefill graph stays on.
_GRAPH_0_5_16 = frozenset({"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"})
_GRAPH_0_5_18 = _GRAPH_0_5_16 | {"KimiK25ForConditionalGeneration", "MuseGlimmerForConditionalGeneration"}
_GRAPH_0_5_20 = _GRAPH_0_5_18 | {"Cohere2VisionForConditionalGeneration", "PaddleOCRVLForConditionalGeneration"}

# Defaults by card size: (smaller than MiB, chunked prefill tokens, decode graph batch for tp < 4, for tp >= 4).
_NO_LIMIT_MIB = 1 << 40
_CAPACITY_0_4 = ((25_000, 2048, 8, 80), (_NO_LIMIT_MIB, 8192, 160, 160))
_CAPACITY_0_4_7 = ((25_000, 2048, 8, 80), (180_001, 8192, 160, 160), (_NO_LIMIT_MIB, 16384, 160, 160))
_CAPACITY_0_4_8 = ((35 << 10, 2048, 8, 80), (160 << 10, 8192, 160, 160), (_NO_LIMIT_MIB, 16384, 160, 160))
_CAPACITY_LARGE = ((60 << 10, 4096, 32, 160), (160 << 10, 8192, 256, 512), (_NO_LIMIT_MIB, 16384, 512, 512))
_CAPACITY_0_5_3 = ((20 << 10, 2048, 8, 8), (35 << 10, 2048, 16, 80)) + _CAPACITY_LARGE
_CAPACITY_0_5_5 = ((20 << 10, 2048, 8, 8), (35 << 10, 2048, 24, 80)) + _CAPACITY_LARGE
_CAPACITY_0_5_20 = ((20 << 10, 2048, 8, 8), (35 << 10, 4096, 48, 160)) + _CAPACITY_LARGE

NO_MEMORY = "Not enough memory. Please try to increase --mem-fraction-static."

RULES: tuple[Rule, ...] = (
    # The fraction.
    Rule("fraction_rule", (0, 4, 3), "parallel_size", "automatic fraction from a table by the number of ranks"),
    Rule("fraction_rule", (0, 4, 8), "card_reserve", "automatic fraction from a reserve by card size"),
    Rule("fraction_rule", (0, 5, 3), "work_reserve", "automatic fraction from chunk, graph batch and ranks"),
    Rule("fraction_without_total", (0, 4, 3), 0.88, "automatic fraction where the card's size is not known"),
    Rule("fraction_without_total", (0, 5, 20), 0.95, "the same, raised"),
    Rule("fraction_large_card", (0, 4, 3), "none", "no adjustment for large cards"),
    Rule("fraction_large_card", (0, 4, 6), "raised", "cards above 96 GiB get a larger automatic fraction"),
    Rule("fraction_large_card", (0, 4, 7), "raised_less", "less above 96 GiB with speculation, 0.79 above 180 000 MiB"),
    Rule("multimodal_explicit_factor", (0, 4, 3), 0.95, "multimodal models shrink even a given fraction"),
    Rule("multimodal_explicit_factor", (0, 4, 6), 0.90, "the same, stronger"),
    Rule("multimodal_explicit_factor", (0, 4, 9), 1.0, "a given fraction is left alone"),
    Rule("multimodal_automatic_factor", (0, 4, 3), "none", "automatic fraction ignores the vision tower"),
    Rule("multimodal_automatic_factor", (0, 4, 9), "flat", "automatic fraction shrinks by a tenth"),
    Rule("multimodal_automatic_factor", (0, 4, 10), "by_tower", "automatic fraction shrinks with the vision tower"),
    Rule("aiter_factor", (0, 4, 3), 1.0, "no ROCm factor"),
    Rule("aiter_factor", (0, 4, 7), 0.85, "ROCm's aiter backend multiplies even a given fraction for long contexts"),
    Rule("aiter_for_mla_dp", (0, 4, 3), True, "MLA with DP attention always runs on aiter under ROCm"),
    Rule("aiter_for_mla_dp", (0, 5, 3), False, "only where the heads per rank suit it"),
    Rule("capacity_defaults", (0, 4, 3), _CAPACITY_0_4, "chunk and graph batch by card size"),
    Rule("capacity_defaults", (0, 4, 7), _CAPACITY_0_4_7, "a third class above 180 000 MiB"),
    Rule("capacity_defaults", (0, 4, 8), _CAPACITY_0_4_8, "classes up to 35 and 160 GiB"),
    Rule("capacity_defaults", (0, 5, 3), _CAPACITY_0_5_3, "five classes"),
    Rule("capacity_defaults", (0, 5, 5), _CAPACITY_0_5_5, "graph batch 24 on 20 to 35 GiB cards"),
    Rule("capacity_defaults", (0, 5, 20), _CAPACITY_0_5_20, "chunk 4096, graph batch 48 on 20 to 35 GiB cards"),
    Rule("graph_batch_capped", (0, 4, 3), False, "default graph batch ignores max_running_requests"),
    Rule("graph_batch_capped", (0, 5, 22), True, "default graph batch is capped by max_running_requests"),
    Rule("speculative_reserve_mib", (0, 4, 3), 0, "automatic fraction ignores speculation"),
    Rule("speculative_reserve_mib", (0, 4, 8), 2048, "automatic fraction leaves room for a draft model"),
    Rule("speculative_reserve_mib", (0, 5, 10), 4096, "more room for a draft model"),
    Rule("speculative_reserve_mib", (0, 5, 14), 0, "draft weights are loaded before the pools, no reserve"),
    Rule("standalone_reserve_mib", (0, 4, 3), 0, "automatic fraction ignores speculation"),
    Rule("standalone_reserve_mib", (0, 4, 8), 2048, "a standalone draft model counts like any other"),
    Rule("standalone_reserve_mib", (0, 5, 2), 6144, "a standalone draft model needs more"),
    Rule("standalone_reserve_mib", (0, 5, 14), 0, "loaded before the pools, no reserve"),
    Rule("graph_reserve_when_off", (0, 4, 3), True, "the decode graphs' share is reserved even when they are off"),
    Rule("graph_reserve_when_off", (0, 5, 15), False, "only when they are on"),
    Rule("deepep_reserve_mib", (0, 4, 3), 0, "no reserve for DeepEP"),
    Rule("deepep_reserve_mib", (0, 5, 15), 2048, "DeepEP's buffers are reserved"),
    # The prefill graph.
    Rule("prefill_graph", (0, 4, 3), "none", "no prefill graph"),
    Rule("prefill_graph", (0, 5, 6), "opt_in_quarter", "when asked for; a quarter of its tokens in MiB is reserved"),
    Rule("prefill_graph", (0, 5, 7), "opt_in_eighth", "when asked for; an eighth of its tokens in MiB is reserved"),
    Rule("prefill_graph", (0, 5, 8), "opt_in", "when asked for; 8 MiB a bucket are reserved"),
    Rule("prefill_graph", (0, 5, 10), "piecewise", "on by default, off for a long list of features"),
    Rule("prefill_graph", (0, 5, 14), "piecewise_spec", "the same, also with speculation"),
    Rule("prefill_graph", (0, 5, 16), "breakable", "on by default, off for a short list of features"),
    Rule("graph_switch_for_prefill", (0, 4, 3), False, "disable_cuda_graph leaves the prefill graph on"),
    Rule("graph_switch_for_prefill", (0, 5, 14), True, "disable_cuda_graph switches both off"),
    Rule("prefill_graph_mla_tokens", (0, 4, 3), 2048, "MLA models capture up to 2048 tokens"),
    Rule("prefill_graph_mla_tokens", (0, 5, 23), 8192, "MLA models capture up to 8192 tokens"),
    Rule("prefill_graph_context_cap", (0, 4, 3), False, "buckets ignore the context length"),
    Rule("prefill_graph_context_cap", (0, 5, 13), True, "buckets end at a given context length"),
    Rule("prefill_graph_context_cap", (0, 5, 17), False, "buckets ignore the context length again"),
    Rule("prefill_graph_multimodal", (0, 4, 3), frozenset(), "no multimodal model captures prefill"),
    Rule("prefill_graph_multimodal", (0, 5, 16), _GRAPH_0_5_16, "two validated ones do"),
    Rule("prefill_graph_multimodal", (0, 5, 18), _GRAPH_0_5_18, "more validated ones"),
    Rule("prefill_graph_multimodal", (0, 5, 20), _GRAPH_0_5_20, "more validated ones"),
    # The imbalance check.
    Rule("imbalance_error", (0, 4, 3), "ValueError", "unbalanced cards raise ValueError"),
    Rule("imbalance_error", (0, 5, 7), "RuntimeError", "unbalanced cards raise RuntimeError"),
    # Draft models.
    Rule("speculation_shape", (0, 4, 3), (5, 4, 8), "steps, top-k and draft tokens where none are given"),
    Rule("speculation_shape", (0, 5, 9), (3, 1, 4), "a chain of three steps"),
    Rule("speculation_overlap", (0, 4, 3), False, "speculation switches the overlap schedule off"),
    Rule("speculation_overlap", (0, 5, 11), True, "speculation with top-k 1 keeps it"),
    Rule("draft_before_pools", (0, 4, 3), False, "draft weights and draft KV come out of the slack"),
    Rule("draft_before_pools", (0, 5, 14), True, "draft weights are loaded and draft KV counted before the pools"),
    Rule("window_draft_cell", (0, 4, 3), False, "beside window layers, a draft takes its KV from the slack"),
    Rule("window_draft_cell", (0, 5, 15), True, "beside window layers, a draft's KV is counted in the pool"),
    Rule("dflash_draft_cell", (0, 4, 3), False, "DFLASH drafts take their KV from the slack"),
    Rule("dflash_draft_cell", (0, 5, 11), True, "DFLASH drafts' KV is counted in the pool"),
    Rule("speculative_extra_tokens", (0, 4, 3), True, "speculation adds tokens to the pool after sizing"),
    Rule("speculative_extra_tokens", (0, 5, 7), False, "it does not"),
    # State of linear-attention layers.
    Rule("state_solver", (0, 4, 3), "unsupported", "no linear-attention models"),
    Rule("state_solver", (0, 5, 2), "fixed", "a fixed number of state slots"),
    Rule("state_solver", (0, 5, 4), "share_with_drafts", "a share of the budget, drafts multiplied in"),
    Rule(
        "state_solver", (0, 5, 7), "share_after_drafts", "draft states first (not when slots are given), then a share"
    ),
    Rule("state_solver", (0, 5, 8), "drafts_first", "draft states of every allowed request first, then a share"),
    Rule("state_solver", (0, 5, 13), "joint", "states and draft states solved together"),
    Rule("state_padding_slots", (0, 4, 3), 0, "the padding slot is not budgeted"),
    Rule("state_padding_slots", (0, 5, 17), 1, "the padding slot is budgeted"),
    Rule("state_requests_of_a_rank", (0, 4, 3), 0, "fewer requests than attention ranks leave a rank without states"),
    Rule("state_requests_of_a_rank", (0, 5, 23), 1, "every attention rank has states for one request at least"),
    Rule(
        "state_pinned_by_requests", (0, 4, 3), "or_512", "radix cache off pins the slots, 512 without a request limit"
    ),
    Rule(
        "state_pinned_by_requests", (0, 5, 9), "when_given", "radix cache off pins the slots only with a request limit"
    ),
    Rule("state_errors", (0, 4, 3), False, "too few state slots show up later"),
    Rule("state_errors", (0, 5, 13), True, "too few state slots are an error of their own"),
    Rule("state_strategy_auto", (0, 4, 3), "no_buffer", "one state a request and its branch points"),
    Rule("state_strategy_auto", (0, 5, 14), "extra_buffer", "extra states so that overlap and paging work"),
    Rule("state_slots_per_request", (0, 4, 3), "three", "three states a request"),
    Rule("state_slots_per_request", (0, 5, 7), "first_extra_buffer", "four or five states a request"),
    Rule("state_slots_per_request", (0, 5, 8), "by_speculation", "extra_buffer: one more with speculation, else two"),
    Rule("state_slots_per_request", (0, 5, 10), "by_overlap", "extra_buffer: two more with overlap, else one"),
    Rule("state_no_buffer_speculation", (0, 4, 3), "radix_off", "no_buffer with speculation switches radix cache off"),
    Rule("state_no_buffer_speculation", (0, 5, 10), "error", "no_buffer with speculation is refused"),
    Rule("state_no_buffer_speculation", (0, 5, 14), "allowed", "no_buffer with speculation runs"),
    # Sliding windows.
    Rule("swa_architectures", (0, 4, 3), frozenset(), "every layer is stored as full attention"),
    Rule("swa_architectures", (0, 5, 7), _SWA_0_5_7, "first architectures with a window pool"),
    Rule("swa_architectures", (0, 5, 8), _SWA_0_5_8, "Llama 4 and gpt-oss"),
    Rule("swa_architectures", (0, 5, 9), _SWA_0_5_9, "Step 3.5"),
    Rule("swa_architectures", (0, 5, 11), _SWA_0_5_11, "Gemma 4"),
    Rule("swa_architectures", (0, 5, 12), _SWA_0_5_12, "Laguna, DeepSeek V4"),
    Rule("swa_architectures", (0, 5, 13), _SWA_0_5_13, "Step 3.7"),
    Rule("swa_architectures", (0, 5, 16), _SWA_0_5_16, "Mellum and others"),
    Rule("swa_architectures", (0, 5, 18), _SWA_0_5_18, "Muse Glimmer"),
    Rule("swa_architectures", (0, 5, 22), _SWA_0_5_22, "EmbeddingGemma 2 and others"),
    Rule("swa_architectures", (0, 5, 23), _SWA_0_5_23, "Beam"),
    Rule("swa_solver", (0, 4, 3), "two_steps", "tokens at ratio 1 first, then shifted by the ratio"),
    Rule("swa_solver", (0, 5, 11), "direct", "tokens directly from the ratio"),
    Rule("swa_floor_check", (0, 4, 3), False, "a window pool below one window is not noticed"),
    Rule("swa_floor_check", (0, 5, 16), True, "a window pool below one window is refused"),
    Rule("swa_request_cap", (0, 4, 3), False, "the window pool follows the ratio alone"),
    Rule("swa_request_cap", (0, 5, 14), True, "radix cache off with a request limit caps the window pool"),
    # The rest of the pool arithmetic.
    Rule("multimodal_reserve_mib", (0, 4, 3), 0, "multimodal buffers come out of the slack"),
    Rule("multimodal_reserve_mib", (0, 5, 18), 100, "multimodal buffers are reserved before the pools"),
    Rule("estimated_requests_capped", (0, 4, 3), False, "the estimated request limit ignores the tokens"),
    Rule("estimated_requests_capped", (0, 5, 10), True, "the estimated request limit is at most half the tokens"),
    Rule("given_requests_capped", (0, 4, 3), False, "a given request limit is capped by the estimate"),
    Rule("given_requests_capped", (0, 5, 14), True, "a given request limit is capped by half the tokens"),
    Rule("weights_error", (0, 4, 3), False, "weights that leave nothing end in the general message"),
    Rule("weights_error", (0, 5, 14), True, "weights that leave nothing are an error of their own"),
    Rule("no_memory_message", (0, 4, 3), NO_MEMORY, "no value in the message"),
    Rule(
        "no_memory_message",
        (0, 5, 3),
        NO_MEMORY + " Current value: self.server_args.mem_fraction_static={fraction}",
        "the value, with the name of the variable",
    ),
    Rule("no_memory_message", (0, 5, 10), NO_MEMORY + " Current value: mem_fraction_static={fraction}", "the value"),
)


def parse(text: str) -> Version:
    """``0.5.9``, ``v0.5.9.post1``, ``0.4.6.post5`` and the like as three numbers."""
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text.strip())
    if match is None:
        raise LlmHostError(
            "version_unknown", f"sglang_version '{text}' is not a version such as 0.5.23; give the installed one."
        )
    major, minor, patch = (int(part) for part in match.groups())
    version = (major, minor, patch)
    if version < OLDEST:
        raise LlmHostError(
            "version_unknown",
            f"sglang_version '{text}' is older than {show(OLDEST)}, the oldest that can be planned; use a newer one.",
        )
    return version


def show(version: Version) -> str:
    return ".".join(str(part) for part in version)


def rule(topic: str, version: Version) -> Any:
    """The value of ``topic`` in this version."""
    value: Any = None
    found = False
    for row in RULES:
        if row.topic == topic and row.since <= version:
            value, found = row.value, True
    if not found:
        raise KeyError(f"no rule for {topic} in {show(version)}")
    return value
