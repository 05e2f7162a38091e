# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What became of options between versions: renames (both ways), replacements that need a decision, and who has what."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from . import tables

# Same meaning, same values: (old, new). Whichever of the two a version has is rendered.
RENAMED: tuple[tuple[str, str], ...] = (
    ("attention_context_parallel_size", "attn_cp_size"),
    ("cuda_graph_bs", "cuda_graph_bs_decode"),
    ("cuda_graph_max_bs", "cuda_graph_max_bs_decode"),
    ("data_parallel_size", "dp_size"),
    ("enable_gdn_replayssm_spec", "enable_linear_replayssm_spec"),
    ("expert_parallel_size", "ep_size"),
    ("hierarchical_sparse_attention_extra_config", "hisparse_config"),
    ("mamba_scheduler_strategy", "mamba_radix_cache_strategy"),
    ("max_micro_batch_size", "pp_max_micro_batch_size"),
    ("moe_data_parallel_size", "moe_dp_size"),
    ("nsa_decode_backend", "dsa_decode_backend"),
    ("nsa_prefill_backend", "dsa_prefill_backend"),
    ("piecewise_cuda_graph_compiler", "cuda_graph_tc_compiler"),
    ("piecewise_cuda_graph_max_tokens", "cuda_graph_max_bs_prefill"),
    ("piecewise_cuda_graph_tokens", "cuda_graph_bs_prefill"),
    ("pipeline_parallel_size", "pp_size"),
    ("speculative_dflash_draft_window_size", "speculative_draft_window_size"),
    ("stream_output", "incremental_streaming_output"),
    ("tensor_parallel_size", "tp_size"),
)


@dataclass(frozen=True)
class Replacement:
    """What to write instead where the meaning or the values changed, so that nothing is rewritten silently."""

    option: str
    cure: str


REPLACED: tuple[Replacement, ...] = (
    Replacement("collect_tokens_histogram", "leave it out: it has no effect any more"),
    Replacement("cuda_graph_tc_compiler", "leave it out: the compiled piecewise graphs are gone"),
    Replacement("disable_piecewise_cuda_graph", "write cuda_graph_backend_prefill: disabled"),
    Replacement("dsa_prefill_cp_mode", "use cp_strategy"),
    Replacement("enable_breakable_cuda_graph", "write cuda_graph_backend_prefill: breakable"),
    Replacement("enable_deepep_moe", "write moe_a2a_backend: deepep"),
    Replacement("enable_deepep_waterfill", "use enable_waterfill"),
    Replacement("enable_double_sparsity", "leave it out: double sparsity is gone"),
    Replacement("enable_dsa_prefill_context_parallel", "use enable_prefill_cp, with cp_strategy"),
    Replacement("enable_ep_moe", "use ep_size"),
    Replacement("enable_expert_distribution_metrics", "use expert_balancedness_report_mode"),
    Replacement("enable_flashinfer_mla", "write attention_backend: flashinfer"),
    Replacement("enable_flashmla", "write attention_backend: flashmla"),
    Replacement("enable_nsa_prefill_context_parallel", "use enable_prefill_cp, with cp_strategy"),
    Replacement("enable_piecewise_cuda_graph", "leave it out, or set cuda_graph_backend_prefill"),
    Replacement("enable_prefill_context_parallel", "use enable_prefill_cp, with cp_strategy"),
    Replacement("enforce_piecewise_cuda_graph", "leave it out, or write cuda_graph_backend_prefill: breakable"),
    Replacement("hybrid_kvcache_ratio", "use swa_full_tokens_ratio"),
    Replacement("nsa_prefill_cp_mode", "use cp_strategy"),
    Replacement("prefill_cp_mode", "use cp_strategy"),
    Replacement("prefill_round_robin_balance", "leave it out, or set load_balance_method"),
    Replacement("speculative_ngram_branch_length", "use speculative_ngram_max_trie_depth"),
    Replacement("torchao_config", "use quantization, or weights that are quantised already"),
)


def partners(key: str) -> list[str]:
    """The other names of an option, newest first."""
    newer = [new for old, new in RENAMED if old == key]
    older = [old for old, new in RENAMED if new == key]
    return newer + older


def cure(key: str) -> str | None:
    return next((row.cure for row in REPLACED if row.option == key), None)


def versions_with(spelling: str) -> list[str]:
    """The recorded versions that know a spelling such as ``--tp-size``. Reads every shipped table: for errors only."""
    return [version for version in tables.AVAILABLE if spelling in _spellings(version)]


@functools.cache
def _spellings(version: str) -> frozenset[str]:
    return frozenset(spelling for option in tables.load(version) for spelling in option.spellings)
