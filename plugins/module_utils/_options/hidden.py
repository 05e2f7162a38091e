# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What SGLang sets by itself, silently, and what matters for memory, speed or meaning: a table, one row a default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .facts import Facts
from .model import in_range


@dataclass(frozen=True)
class Hidden:
    id: str
    option: str
    when: Callable[[Facts], Any]
    value: Callable[[Facts], Any]
    why: str
    since: str | None = None
    until: str | None = None


def defaults(facts: Facts) -> list[dict[str, Any]]:
    """The rows that take effect with these arguments; never one for an option that the user gave."""
    return [
        {"option": row.option, "value": row.value(facts), "why": row.why.format_map(facts)}
        for row in HIDDEN
        if in_range(facts.version, row.since, row.until)
        and row.option not in facts.given
        and facts.has(row.option)
        and row.when(facts)
    ]


def _speculates(facts: Facts) -> bool:
    return facts.algorithm is not None


HIDDEN: tuple[Hidden, ...] = (
    Hidden(
        "speculation_requests",
        "max_running_requests",
        _speculates,
        lambda f: 48,
        "speculative decoding without max_running_requests; models with recurrent states reserve memory for each of "
        "the 48, so a smaller number is often what lets them start",
    ),
    Hidden(
        "speculation_radix",
        "disable_radix_cache",
        lambda f: _speculates(f) and f.linear_model and not str(f.strategy).startswith("extra_buffer"),
        lambda f: True,
        "speculation with a model that keeps recurrent states, and no extra_buffer: prefixes are not reused",
        since="0.5.2",
        until="0.5.10",
    ),
    Hidden(
        "speculation_overlap",
        "disable_overlap_schedule",
        lambda f: f.eagle or f.algorithm == "NGRAM",
        lambda f: True,
        "speculative decoding, unless SGLANG_ENABLE_SPEC_V2 is set",
        until="0.5.10",
    ),
    Hidden(
        "pipeline_overlap",
        "disable_overlap_schedule",
        lambda f: f.number("pp_size") > 1,
        lambda f: True,
        "pipeline parallelism",
    ),
    Hidden(
        "draft_tokens",
        "speculative_num_draft_tokens",
        lambda f: f.eagle and f["speculative_eagle_topk"] == 1 and f["speculative_num_steps"] is not None,
        lambda f: f.number("speculative_num_steps") + 1,
        "speculative_eagle_topk 1: steps + 1",
    ),
    Hidden(
        "speculation_details",
        "speculative_num_steps",
        lambda f: f.eagle and f["speculative_eagle_topk"] is None and f["speculative_num_draft_tokens"] is None,
        lambda f: None,
        "SGLang chooses steps, branches and draft tokens by the architecture of the model; they decide how much state "
        "memory each request takes, so write them",
    ),
    Hidden(
        "dp_attention_schedule",
        "schedule_conservativeness",
        lambda f: f.attn_dp > 1,
        lambda f: 0.3,
        "data parallel attention: the schedule is less conservative and chunked_prefill_size is divided by {attn_dp}",
    ),
    Hidden(
        "flashmla_page",
        "page_size",
        lambda f: f["attention_backend"] == "flashmla",
        lambda f: 64,
        "attention_backend flashmla",
    ),
    Hidden(
        "cutlass_mla_page",
        "page_size",
        lambda f: f["attention_backend"] == "cutlass_mla",
        lambda f: 128,
        "attention_backend cutlass_mla",
    ),
    Hidden(
        "linear_memory_ratio",
        "mamba_full_memory_ratio",
        lambda f: f.linear_model,
        lambda f: 0.9,
        "a model that keeps recurrent states: their pool gets 0.9 parts of memory to 1 part of KV cache",
        since="0.5.4",
    ),
    Hidden(
        "swa_ratio",
        "swa_full_tokens_ratio",
        lambda f: bool(f.text_model.get("sliding_window")) and f["swa_full_tokens_ratio"] is None,
        lambda f: 0.8,
        "a model with sliding windows: their pool holds 0.8 of the tokens of the full one",
        since="0.5.20",
    ),
    Hidden(
        "model_context",
        "context_length",
        lambda f: f.model_context is not None,
        lambda f: f.model_context,
        "config.json of the model; each request slot reserves room for it",
    ),
    Hidden(
        "fraction",
        "mem_fraction_static",
        lambda f: True,
        lambda f: None,
        "SGLang computes it from the memory of the GPU, the chunk and graph sizes and tp_size",
    ),
    Hidden(
        "served_name",
        "served_model_name",
        lambda f: f["model_path"],
        lambda f: f["model_path"],
        "clients must ask for the model by its path",
    ),
    Hidden(
        "decode_radix",
        "disable_radix_cache",
        lambda f: f["disaggregation_mode"] == "decode" and not f["disaggregation_decode_enable_radix_cache"],
        lambda f: True,
        "a decode server keeps no prefixes",
    ),
)
