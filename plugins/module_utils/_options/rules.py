# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Rules between options, and against the model and the GPUs: a table, one row a rule.

A rule speaks only where SGLang would refuse to start or fail later (``error``), or would do something else than was
asked (``note``). It holds from ``since`` on and before ``until``; the versions are those whose sources say so, in
doubt the narrower span. What a rule needs to know and nobody said, it takes as fine: SGLang decides those values later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import hidden
from .facts import Facts
from .model import Problem, in_range

SPEC_DETAILS = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
COMPATIBLE_QUANTIZATION = {
    "auto-round-int8": ("compressed-tensors", "compressed_tensors"),
    "minimax_m3_nvfp4": ("mxfp8",),
    "modelopt_fp4": ("modelopt", "fp8"),
    "modelopt_fp8": ("modelopt",),
    "modelopt_mixed": ("modelopt",),
    "nvfp4_online": ("fp8", "modelopt_fp8"),
    "petit_nvfp4": ("modelopt",),
    "w8a8_fp8": ("compressed-tensors", "compressed_tensors"),
    "w8a8_int8": ("compressed-tensors", "compressed_tensors"),
}
# Methods whose names in config.json and on the command line differ more than by a suffix are left to SGLang.
PLAIN_QUANTIZATION = ("awq", "gptq", "fp8", "compressed-tensors", "bitsandbytes", "modelopt", "mxfp4", "mxfp8")


@dataclass(frozen=True)
class Rule:
    id: str
    options: tuple[str, ...]  # all of them must exist in the version; the first that was given is blamed
    broken: Callable[[Facts], Any]
    message: str
    cure: str
    since: str | None = None
    until: str | None = None
    kind: str = "error"

    def applies(self, facts: Facts) -> bool:
        return in_range(facts.version, self.since, self.until) and facts.has(*self.options)


@dataclass
class Checked:
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hidden_defaults: list[dict[str, Any]] = field(default_factory=list)


def check(facts: Facts, ignore: Sequence[str] = ()) -> Checked:
    """Every broken rule, except those whose id is in ``ignore``."""
    checked = Checked(hidden_defaults=hidden.defaults(facts))
    known = {rule.id for rule in RULES}
    for name in ignore:
        if name not in known:
            message = f"there is no rule '{name}' to ignore"
            cure = "take the id from 'rule' of an error"
            checked.problems.append(Problem("ignore_rules", "unknown", message, cure, "parameters"))
    for rule in RULES:
        if rule.id in ignore or not rule.applies(facts) or not rule.broken(facts):
            continue
        message, cure = rule.message.format_map(facts), rule.cure.format_map(facts)
        if rule.kind == "note":
            checked.notes.append(f"{message}: {cure}")
            continue
        blamed = next((option for option in rule.options if option in facts.given), rule.options[0])
        origin = facts.origins.get(blamed, "sglang default")
        checked.problems.append(Problem(blamed, "rule", message, cure, origin, {"rule": rule.id}))
    return checked


def _is_loopback(host: Any) -> bool:
    return host is None or str(host) in ("localhost", "::1", "[::1]") or str(host).startswith("127.")


def _above(facts: Facts, key: str, limit: int = 1) -> bool:
    return facts.number(key, limit) > limit


def _below(facts: Facts, key: str, limit: float) -> bool:
    value = facts[key]
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value < limit


def _outside(facts: Facts, key: str, low: float, high: float, closed: bool = True) -> bool:
    value = facts[key]
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return not (low < value <= high if closed else low < value < high)


def _indivisible(value: int | None, by: int) -> bool:
    return value is not None and by > 0 and value % by != 0


def _paged(facts: Facts) -> bool:
    return _above(facts, "page_size")


def _tree(facts: Facts) -> bool:
    """More than one draft branch."""
    return _above(facts, "speculative_eagle_topk")


def _backends(facts: Facts) -> set[Any]:
    names = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
    return {facts[name] for name in names} - {None}


def _buffered(facts: Facts) -> bool:
    return str(facts.strategy).startswith("extra_buffer")


def _kv_heads_do_not_fit(facts: Facts) -> bool:
    heads, ways = facts.model_kv_heads, facts.attn_tp
    if not facts.on_gpu or facts.linear_model or heads is None or heads < 1:
        return False
    return heads % ways != 0 if heads >= ways else ways % heads != 0


def _quantization_differs(facts: Facts) -> bool:
    wanted, stored = facts["quantization"], facts.model_quantization
    if not wanted or stored is None or stored not in PLAIN_QUANTIZATION or wanted not in PLAIN_QUANTIZATION:
        return False
    return bool(stored != wanted and stored not in COMPATIBLE_QUANTIZATION.get(wanted, ()))


def _longer_than_model(facts: Facts) -> bool:
    limit = facts.model_context
    return limit is not None and facts["context_length"] is not None and facts.number("context_length", 0) > limit


def _capability(facts: Facts) -> tuple[int, int]:
    return facts.capability or (0, 0)


def _speculation_only_details(facts: Facts) -> bool:
    return facts.algorithm is None and any(name in facts.given for name in SPEC_DETAILS)


def _speculation_incomplete(facts: Facts) -> bool:
    """SGLang chooses all three or none; with one branch it can do without the number of draft tokens."""
    if not facts.eagle or facts["speculative_adaptive"]:
        return False
    steps, branches, tokens = (facts[name] for name in SPEC_DETAILS)
    if steps is None:
        return branches is not None or tokens is not None
    return branches is None or (tokens is None and branches != 1)


def _may_have_states(facts: Facts) -> bool:
    """A model with recurrent states, or one that nobody looked at."""
    return facts.model is None or facts.linear_model


def _unbuffered(facts: Facts) -> bool:
    """The strategy no_buffer was asked for, and takes effect."""
    return facts.strategy == "no_buffer" and not facts["disable_radix_cache"] and _may_have_states(facts)


def _pp_speculation(facts: Facts) -> bool:
    if not _above(facts, "pp_size") or facts.algorithm is None:
        return False
    return not (facts.algorithm in ("EAGLE", "DSPARK") and facts["disaggregation_mode"] == "prefill")


def _lora_count(facts: Facts) -> int:
    paths = facts["lora_paths"]
    return len(paths) if isinstance(paths, list) else 0


RULES: tuple[Rule, ...] = (
    # -- plain ranges ----------------------------------------------------------------------------------------
    Rule(
        "size_positive",
        ("tp_size",),
        lambda f: any(_below(f, key, 1) for key in ("tp_size", "pp_size", "dp_size", "ep_size", "nnodes")),
        "tp_size, pp_size, dp_size, ep_size and nnodes count things: each is at least 1",
        "write 1 or more",
    ),
    Rule(
        "attn_dp_positive",
        ("attn_dp_size",),
        lambda f: _below(f, "attn_dp_size", 1),
        "attn_dp_size is {attn_dp_size}",
        "write 1 or more",
    ),
    Rule(
        "dcp_positive",
        ("dcp_size",),
        lambda f: _below(f, "dcp_size", 1),
        "dcp_size is {dcp_size}",
        "write 1 or more",
    ),
    Rule("port_range", ("port",), lambda f: _outside(f, "port", 0, 65535), "port is {port}", "write 1 to 65535"),
    Rule(
        "grpc_port_range",
        ("grpc_port",),
        lambda f: _outside(f, "grpc_port", 0, 65535),
        "grpc_port is {grpc_port}",
        "write 1 to 65535",
    ),
    Rule(
        "fraction_range",
        ("mem_fraction_static",),
        lambda f: _outside(f, "mem_fraction_static", 0, 1, closed=False),
        "mem_fraction_static is {mem_fraction_static}: it is the share of the free memory for weights and cache",
        "write a number between 0 and 1, such as 0.85",
    ),
    Rule(
        "swa_ratio_range",
        ("swa_full_tokens_ratio",),
        lambda f: _outside(f, "swa_full_tokens_ratio", 0, 1),
        "swa_full_tokens_ratio is {swa_full_tokens_ratio}",
        "write a number above 0, at most 1",
        since="0.5.9",
    ),
    Rule(
        "context_positive",
        ("context_length",),
        lambda f: f["context_length"] is not None and f.number("context_length", 1) < 1,
        "context_length is {context_length}",
        "leave it out for the model's own, or write a positive number",
    ),
    Rule(
        "page_size_positive",
        ("page_size",),
        lambda f: _below(f, "page_size", 1),
        "page_size is {page_size}",
        "write 1 or more",
    ),
    Rule(
        "requests_positive",
        ("max_running_requests",),
        lambda f: _below(f, "max_running_requests", 1),
        "max_running_requests is {max_running_requests}: no request could run",
        "write 1 or more, or leave it out",
    ),
    Rule(
        "base_gpu_not_negative",
        ("base_gpu_id",),
        lambda f: _below(f, "base_gpu_id", 0),
        "base_gpu_id is {base_gpu_id}",
        "write 0 or more",
    ),
    Rule(
        "gpu_step_positive",
        ("gpu_id_step",),
        lambda f: _below(f, "gpu_id_step", 1),
        "gpu_id_step is {gpu_id_step}",
        "write 1 or more",
    ),
    Rule(
        "conservativeness_not_negative",
        ("schedule_conservativeness",),
        lambda f: _below(f, "schedule_conservativeness", 0),
        "schedule_conservativeness is {schedule_conservativeness}",
        "write 0 or more (1 is the default)",
        since="0.5.9",
    ),
    Rule(
        "tokenizer_workers_positive",
        ("tokenizer_worker_num",),
        lambda f: _below(f, "tokenizer_worker_num", 1),
        "tokenizer_worker_num is {tokenizer_worker_num}",
        "write 1 or more",
        since="0.5.9",
    ),
    Rule(
        "detokenizer_workers_positive",
        ("detokenizer_worker_num",),
        lambda f: _below(f, "detokenizer_worker_num", 1),
        "detokenizer_worker_num is {detokenizer_worker_num}",
        "write 1 or more",
        since="0.5.20",
    ),
    Rule(
        "gc_threshold_length",
        ("gc_threshold",),
        lambda f: isinstance(f["gc_threshold"], list) and len(f["gc_threshold"]) > 3,
        "gc_threshold has more than three numbers",
        "write one to three",
        since="0.5.18",
    ),
    Rule(
        "served_name_colon",
        ("served_model_name",),
        lambda f: ":" in str(f["served_model_name"] or "") and "://" not in str(f["served_model_name"]),
        "served_model_name has a colon, which SGLang keeps for LoRA adapters (model:adapter)",
        "use another character",
        since="0.5.9",
    ),
    # -- parallelism -----------------------------------------------------------------------------------------
    Rule(
        "nodes_divide_ranks",
        ("nnodes", "tp_size", "pp_size"),
        lambda f: _indivisible(f.number("tp_size") * f.number("pp_size"), f.number("nnodes")),
        "tp_size x pp_size ({tp_size} x {pp_size}) can't be spread evenly over {nnodes} nodes",
        "make it a multiple of nnodes",
    ),
    Rule(
        "node_rank_range",
        ("node_rank", "nnodes"),
        lambda f: f.number("nnodes") >= 1 and _outside(f, "node_rank", -1, f.number("nnodes") - 1),
        "node_rank is {node_rank} of {nnodes} nodes",
        "write 0 to nnodes - 1",
    ),
    Rule(
        "nodes_need_address",
        ("nnodes", "dist_init_addr"),
        lambda f: _above(f, "nnodes") and not f["dist_init_addr"],
        "{nnodes} nodes have no address to find each other",
        "give dist_init_addr: host:port of the node with node_rank 0",
    ),
    Rule(
        "replicas_over_nodes",
        ("dp_size", "nnodes"),
        lambda f: f.replicas > 1 and _above(f, "nnodes"),
        "replicas (dp_size {dp_size}) can't span {nnodes} nodes",
        "use data parallel attention over the nodes, or one server a node behind a router",
    ),
    Rule(
        "dp_and_attn_dp",
        ("dp_size", "attn_dp_size"),
        lambda f: _above(f, "dp_size") and _above(f, "attn_dp_size"),
        "dp_size {dp_size} and attn_dp_size {attn_dp_size} can't be combined",
        "use one of them",
    ),
    Rule(
        "attn_dp_divides_tp",
        ("tp_size",),
        lambda f: f.attn_dp > 1 and _indivisible(f.number("tp_size"), f.attn_dp),
        "tp_size {tp_size} is not a multiple of the {attn_dp} attention groups",
        "make it one",
    ),
    Rule(
        "attn_cp_divides_tp",
        ("attn_cp_size", "tp_size"),
        lambda f: (
            _above(f, "attn_cp_size")
            and not _indivisible(f.number("tp_size"), f.attn_dp)
            and _indivisible(f.number("tp_size"), f.attn_dp * f.number("attn_cp_size"))
        ),
        "tp_size {tp_size} is not a multiple of attention groups x attn_cp_size ({attn_dp} x {attn_cp_size})",
        "make it one",
        since="0.5.9",
    ),
    Rule(
        "dp_attention_alone",
        ("enable_dp_attention",),
        lambda f: f["enable_dp_attention"] and f.number("dp_size") == 1 and f.number("attn_dp_size") == 1,
        "enable_dp_attention does nothing with dp_size 1",
        "set dp_size, at most tp_size",
        kind="note",
    ),
    Rule(
        "dp_lm_head_needs_dp_attention",
        ("enable_dp_lm_head", "enable_dp_attention"),
        lambda f: f["enable_dp_lm_head"] and not f["enable_dp_attention"] and _above(f, "dp_size"),
        "enable_dp_lm_head needs data parallel attention",
        "set enable_dp_attention as well",
        until="0.5.18",
    ),
    Rule(
        "moe_dp_divides_tp",
        ("moe_dp_size", "tp_size"),
        lambda f: _above(f, "moe_dp_size") and _indivisible(f.number("tp_size"), f.number("moe_dp_size")),
        "tp_size {tp_size} is not a multiple of moe_dp_size {moe_dp_size}",
        "make it one",
        since="0.5.9",
    ),
    Rule(
        "ep_moe_dp_within_tp",
        ("moe_dp_size", "ep_size", "tp_size"),
        lambda f: (
            _above(f, "moe_dp_size")
            and not _indivisible(f.number("tp_size"), f.number("moe_dp_size"))
            and (
                f.number("ep_size") * f.number("moe_dp_size") != f.number("tp_size")
                if _above(f, "ep_size")
                else f.number("moe_dp_size") > f.number("tp_size")
            )
        ),
        "ep_size x moe_dp_size ({ep_size} x {moe_dp_size}) must be tp_size ({tp_size})",
        "change one of the three",
        since="0.5.9",
    ),
    Rule(
        "moe_dp_without_pp",
        ("moe_dp_size", "pp_size"),
        lambda f: _above(f, "moe_dp_size") and _above(f, "pp_size"),
        "moe_dp_size and pp_size can't both be above 1",
        "set one of them to 1",
        since="0.5.9",
    ),
    Rule(
        "cp_equals_moe_dp",
        ("attn_cp_size", "moe_dp_size"),
        lambda f: _above(f, "moe_dp_size") and f.number("attn_cp_size") != f.number("moe_dp_size"),
        "moe_dp_size {moe_dp_size} must equal attn_cp_size {attn_cp_size}, or be 1",
        "set both to the same",
        since="0.5.13",
    ),
    Rule(
        "ep_for_flashinfer_moe",
        ("moe_runner_backend", "ep_size"),
        lambda f: (
            f["moe_runner_backend"] in ("flashinfer_cutlass", "flashinfer_cutedsl")
            and f.number("ep_size") not in (1, f.number("tp_size"))
        ),
        "with moe_runner_backend {moe_runner_backend}, ep_size must be 1 or tp_size ({tp_size})",
        "change ep_size",
        since="0.5.9",
    ),
    Rule(
        "moe_dense_tp_one",
        ("moe_dense_tp_size",),
        lambda f: f["moe_dense_tp_size"] not in (None, 1),
        "moe_dense_tp_size can only be 1",
        "write 1, or leave it out",
        until="0.5.10",
    ),
    Rule(
        "moe_dense_tp",
        ("moe_dense_tp_size", "tp_size"),
        lambda f: f["moe_dense_tp_size"] not in (None, 1, f.number("tp_size")),
        "moe_dense_tp_size can only be 1 or tp_size ({tp_size})",
        "write one of those, or leave it out",
        since="0.5.10",
    ),
    Rule(
        "cp_strategy_missing",
        ("enable_prefill_cp", "cp_strategy"),
        lambda f: f["enable_prefill_cp"] and not f["cp_strategy"],
        "enable_prefill_cp needs cp_strategy",
        "set cp_strategy: zigzag or interleave",
        since="0.5.14",
    ),
    Rule(
        "dcp_without_prefill_cp",
        ("dcp_size", "enable_prefill_cp"),
        lambda f: _above(f, "dcp_size") and f["enable_prefill_cp"],
        "dcp_size above 1 does not go with enable_prefill_cp",
        "drop one of them",
        since="0.5.20",
    ),
    Rule(
        "dcp_backend_needs_dcp",
        ("dcp_comm_backend", "dcp_size"),
        lambda f: f["dcp_comm_backend"] in ("a2a", "fi_a2a") and f.number("dcp_size") <= 1,
        "dcp_comm_backend {dcp_comm_backend} needs dcp_size above 1",
        "set dcp_size, or leave dcp_comm_backend out",
        since="0.5.20",
    ),
    Rule(
        "dwdp_equals_tp",
        ("dwdp_size", "tp_size"),
        lambda f: _above(f, "dwdp_size") and f.number("dwdp_size") != f.number("tp_size"),
        "dwdp_size {dwdp_size} must be tp_size ({tp_size})",
        "set both to the same",
        since="0.5.18",
    ),
    Rule(
        "quant_communications_tp",
        ("enable_quant_communications", "tp_size"),
        lambda f: f["enable_quant_communications"] and f.number("tp_size") == 1,
        "enable_quant_communications needs tp_size above 1",
        "leave it out",
        since="0.5.18",
    ),
    # -- pipeline parallelism --------------------------------------------------------------------------------
    Rule(
        "pp_speculation",
        ("pp_size", "speculative_algorithm"),
        lambda f: _above(f, "pp_size") and f.algorithm is not None,
        "speculative decoding does not go with pipeline parallelism (pp_size {pp_size})",
        "set pp_size: 1, or leave speculative_algorithm out",
        until="0.5.20",
    ),
    Rule(
        "pp_speculation_prefill_only",
        ("pp_size", "speculative_algorithm"),
        _pp_speculation,
        "with pp_size {pp_size}, speculation works on prefill servers with EAGLE or DSPARK only",
        "set pp_size: 1, or leave speculative_algorithm out",
        since="0.5.20",
    ),
    Rule(
        "pp_mixed_chunk",
        ("pp_size", "enable_mixed_chunk"),
        lambda f: _above(f, "pp_size") and f["enable_mixed_chunk"],
        "enable_mixed_chunk does not go with pipeline parallelism (pp_size {pp_size})",
        "drop one of them",
        until="0.5.10",
    ),
    Rule(
        "pp_micro_batch",
        ("pp_max_micro_batch_size",),
        lambda f: _below(f, "pp_max_micro_batch_size", 1),
        "pp_max_micro_batch_size is {pp_max_micro_batch_size}",
        "write 1 or more, or leave it out",
        since="0.5.13",
    ),
    Rule(
        "pp_free_slots_delay",
        ("pp_size", "min_free_slots_delay"),
        lambda f: _above(f, "pp_size") and f["min_free_slots_delay"] is not None,
        "min_free_slots_delay does not go with pipeline parallelism (pp_size {pp_size})",
        "drop one of them",
        since="0.5.18",
    ),
    # -- scheduling ------------------------------------------------------------------------------------------
    Rule(
        "chunk_multiple_of_page",
        ("chunked_prefill_size", "page_size"),
        lambda f: (
            f.number("chunked_prefill_size", 0) > 0
            and f.number("page_size") >= 1
            and f["disaggregation_mode"] != "decode"
            and _indivisible(f.number("chunked_prefill_size"), f.number("page_size"))
        ),
        "chunked_prefill_size {chunked_prefill_size} is not a multiple of page_size {page_size}",
        "make it one",
    ),
    Rule(
        "priority_policy",
        ("enable_priority_scheduling", "schedule_policy"),
        lambda f: f["enable_priority_scheduling"] and f["schedule_policy"] not in ("fcfs", "lof"),
        "enable_priority_scheduling needs schedule_policy fcfs or lof, not {schedule_policy}",
        "change schedule_policy",
        since="0.5.9",
    ),
    Rule(
        "retraction_needs_priority",
        ("retraction_policy", "enable_priority_scheduling"),
        lambda f: f["retraction_policy"] == "priority" and not f["enable_priority_scheduling"],
        "retraction_policy priority needs enable_priority_scheduling",
        "set it as well",
        since="0.5.20",
    ),
    Rule(
        "mixed_chunk_speculation",
        ("enable_mixed_chunk", "speculative_algorithm"),
        lambda f: f["enable_mixed_chunk"] and f.eagle and not _above(f, "pp_size"),
        "SGLang switches enable_mixed_chunk off with speculative decoding",
        "leave one of them out",
        kind="note",
    ),
    Rule(
        "two_batch_overlap_backend",
        ("enable_two_batch_overlap", "moe_a2a_backend"),
        lambda f: f["enable_two_batch_overlap"] and f["moe_a2a_backend"] in (None, "none"),
        "enable_two_batch_overlap needs a moe_a2a_backend other than none",
        "set for example moe_a2a_backend: deepep",
        since="0.5.9",
        until="0.5.18",
    ),
    Rule(
        "two_batch_overlap_attention",
        ("enable_two_batch_overlap", "moe_a2a_backend"),
        lambda f: f["enable_two_batch_overlap"] and f["moe_a2a_backend"] in (None, "none") and f.attn_dp == 1,
        "enable_two_batch_overlap needs a moe_a2a_backend or data parallel attention",
        "set moe_a2a_backend, or attn_dp_size",
        since="0.5.20",
    ),
    Rule(
        "padding_with_compile",
        ("disable_cuda_graph_padding", "enable_torch_compile"),
        lambda f: f["disable_cuda_graph_padding"] and f["enable_torch_compile"],
        "disable_cuda_graph_padding and enable_torch_compile together compile for every batch size",
        "drop one of them",
        since="0.5.13",
    ),
    Rule(
        "multi_item_scoring",
        ("multi_item_scoring_delimiter", "disable_radix_cache", "chunked_prefill_size"),
        lambda f: (
            f["multi_item_scoring_delimiter"] is not None
            and not (f["disable_radix_cache"] and f["chunked_prefill_size"] == -1)
        ),
        "multi_item_scoring_delimiter needs the radix cache and chunked prefill off",
        "set disable_radix_cache: true and chunked_prefill_size: -1",
        since="0.5.9",
        until="0.5.13",
    ),
    # -- caches ----------------------------------------------------------------------------------------------
    Rule(
        "hicache_needs_radix",
        ("enable_hierarchical_cache", "disable_radix_cache"),
        lambda f: f["enable_hierarchical_cache"] and f["disable_radix_cache"],
        "enable_hierarchical_cache and disable_radix_cache exclude each other",
        "drop one of them",
        since="0.5.9",
    ),
    Rule(
        "lmcache_or_hicache",
        ("enable_lmcache", "enable_hierarchical_cache"),
        lambda f: f["enable_lmcache"] and f["enable_hierarchical_cache"],
        "enable_lmcache and enable_hierarchical_cache exclude each other",
        "drop one of them",
        since="0.5.20",
    ),
    Rule(
        "lmcache_needs_radix",
        ("enable_lmcache", "disable_radix_cache"),
        lambda f: f["enable_lmcache"] and f["disable_radix_cache"],
        "enable_lmcache needs the radix cache",
        "leave disable_radix_cache out",
        since="0.5.20",
    ),
    Rule(
        "lmcache_speculation",
        ("enable_lmcache", "speculative_algorithm"),
        lambda f: f["enable_lmcache"] and f.algorithm is not None,
        "enable_lmcache does not go with speculative decoding",
        "drop one of them",
        since="0.5.20",
    ),
    Rule(
        "lmcache_dp_attention",
        ("enable_lmcache",),
        lambda f: f["enable_lmcache"] and f.attn_dp > 1,
        "enable_lmcache does not go with data parallel attention",
        "drop one of them",
        since="0.5.20",
    ),
    Rule(
        "linker_needs_radix",
        ("enable_unified_cache_external_linker", "disable_radix_cache"),
        lambda f: (
            f["enable_unified_cache_external_linker"]
            and (f["disable_radix_cache"] or f["radix_cache_backend"] is not None)
        ),
        "enable_unified_cache_external_linker needs SGLang's own radix cache",
        "leave disable_radix_cache and radix_cache_backend out",
    ),
    Rule(
        "linker_or_hicache",
        ("enable_unified_cache_external_linker", "enable_hierarchical_cache"),
        lambda f: f["enable_unified_cache_external_linker"] and f["enable_hierarchical_cache"],
        "enable_unified_cache_external_linker and enable_hierarchical_cache exclude each other",
        "drop one of them",
    ),
    Rule(
        "linker_or_lmcache",
        ("enable_unified_cache_external_linker", "enable_lmcache"),
        lambda f: f["enable_unified_cache_external_linker"] and f["enable_lmcache"],
        "enable_unified_cache_external_linker and enable_lmcache exclude each other",
        "drop one of them",
    ),
    Rule(
        "linker_without_storage",
        ("enable_unified_cache_external_linker", "hicache_storage_backend"),
        lambda f: f["enable_unified_cache_external_linker"] and f["hicache_storage_backend"] is not None,
        "enable_unified_cache_external_linker has no use for hicache_storage_backend",
        "leave hicache_storage_backend out",
    ),
    Rule(
        "hicache_buffer_storage",
        ("hicache_host_memory_mode", "hicache_storage_backend"),
        lambda f: (
            f["enable_hierarchical_cache"]
            and f["hicache_host_memory_mode"] == "buffer_only"
            and f["hicache_storage_backend"] is None
        ),
        "hicache_host_memory_mode buffer_only keeps everything in a storage backend, and none is set",
        "set hicache_storage_backend, or write hicache_host_memory_mode: cache",
    ),
    Rule(
        "hicache_buffer_decode",
        ("hicache_host_memory_mode", "disaggregation_mode"),
        lambda f: f["hicache_host_memory_mode"] == "buffer_only" and f["disaggregation_mode"] == "decode",
        "hicache_host_memory_mode buffer_only does not work on a decode server",
        "write hicache_host_memory_mode: cache",
    ),
    Rule(
        "hicache_fraction_range",
        ("hicache_host_memory_fraction",),
        lambda f: _outside(f, "hicache_host_memory_fraction", 0, 1),
        "hicache_host_memory_fraction is {hicache_host_memory_fraction}",
        "write a number above 0, at most 1",
    ),
    Rule(
        "decode_offload_side",
        ("disaggregation_decode_enable_offload_kvcache", "disaggregation_mode"),
        lambda f: f["disaggregation_decode_enable_offload_kvcache"] and f["disaggregation_mode"] != "decode",
        "disaggregation_decode_enable_offload_kvcache is for decode servers",
        "write disaggregation_mode: decode, or leave it out",
        since="0.5.9",
    ),
    Rule(
        "decode_offload_storage",
        ("disaggregation_decode_enable_offload_kvcache", "hicache_storage_backend"),
        lambda f: (
            f["disaggregation_decode_enable_offload_kvcache"]
            and f["disaggregation_mode"] == "decode"
            and f["hicache_storage_backend"] is None
        ),
        "disaggregation_decode_enable_offload_kvcache needs hicache_storage_backend",
        "set it",
        since="0.5.20",
    ),
    Rule(
        "ple_offload_exclusive",
        ("ple_offload_embedding", "cpu_offload_gb"),
        lambda f: (
            f["ple_offload_embedding"] and (f.number("cpu_offload_gb", 0) > 0 or f.number("offload_group_size", 0) > 0)
        ),
        "ple_offload_embedding does not go with cpu_offload_gb or offload_group_size",
        "drop one of them",
    ),
    # -- speculative decoding --------------------------------------------------------------------------------
    Rule(
        "speculation_details_alone",
        ("speculative_algorithm",),
        _speculation_only_details,
        "speculative_num_steps, speculative_eagle_topk and speculative_num_draft_tokens do nothing by themselves",
        "set speculative_algorithm, or leave them out",
        kind="note",
    ),
    Rule(
        "speculation_all_three",
        ("speculative_algorithm", *SPEC_DETAILS),
        _speculation_incomplete,
        "speculative_num_steps, speculative_eagle_topk and speculative_num_draft_tokens belong together",
        "give all three, or none and SGLang chooses",
    ),
    Rule(
        "draft_tokens_corrected",
        SPEC_DETAILS,
        lambda f: (
            f.eagle
            and f["speculative_eagle_topk"] == 1
            and f["speculative_num_steps"] is not None
            and f["speculative_num_draft_tokens"] not in (None, f.number("speculative_num_steps") + 1)
        ),
        "with speculative_eagle_topk 1 SGLang makes {speculative_num_draft_tokens} draft tokens into steps + 1",
        "write speculative_num_draft_tokens as speculative_num_steps + 1",
        kind="note",
    ),
    Rule(
        "topk_page_corrected",
        ("speculative_eagle_topk", "page_size"),
        lambda f: f.eagle and _tree(f) and _paged(f),
        "SGLang sets speculative_eagle_topk to 1 with page_size above 1",
        "write one of the two as 1",
        until="0.4.7",
        kind="note",
    ),
    Rule(
        "topk_page_backend",
        ("speculative_eagle_topk", "page_size", "attention_backend"),
        lambda f: (
            f.eagle
            and _tree(f)
            and _paged(f)
            and f["attention_backend"] not in (None, "flashinfer", "fa3", "trtllm_mha")
        ),
        "speculative_eagle_topk above 1 with page_size above 1 needs attention_backend flashinfer or fa3",
        "write page_size: 1 or speculative_eagle_topk: 1, or change the backend",
        since="0.5.9",
        until="0.5.13",
    ),
    Rule(
        "topk_page_backend_triton",
        ("speculative_eagle_topk", "page_size", "attention_backend"),
        lambda f: (
            f.eagle
            and _tree(f)
            and _paged(f)
            and f["attention_backend"] not in (None, "flashinfer", "fa3", "triton", "trtllm_mha")
        ),
        "speculative_eagle_topk above 1 with page_size above 1 needs attention_backend flashinfer, fa3 or triton",
        "write page_size: 1 or speculative_eagle_topk: 1, or change the backend",
        since="0.5.13",
    ),
    Rule(
        "trtllm_mha_topk",
        ("speculative_eagle_topk", "attention_backend"),
        lambda f: f.eagle and _tree(f) and "trtllm_mha" in _backends(f),
        "trtllm_mha supports speculative_eagle_topk 1 only",
        "write speculative_eagle_topk: 1, or change the backend",
        since="0.5.9",
    ),
    Rule(
        "rejection_sampling_topk",
        ("speculative_use_rejection_sampling", "speculative_eagle_topk"),
        lambda f: f["speculative_use_rejection_sampling"] and f.eagle and _tree(f),
        "speculative_use_rejection_sampling needs speculative_eagle_topk 1",
        "write speculative_eagle_topk: 1",
    ),
    Rule(
        "standalone_dp_attention",
        ("speculative_algorithm",),
        lambda f: f.algorithm == "STANDALONE" and f.attn_dp > 1,
        "speculative_algorithm STANDALONE does not go with data parallel attention",
        "drop one of them",
        since="0.5.9",
        until="0.5.20",
    ),
    Rule(
        "ngram_dp_attention",
        ("speculative_algorithm",),
        lambda f: f.algorithm == "NGRAM" and f.attn_dp > 1,
        "speculative_algorithm NGRAM does not go with data parallel attention",
        "drop one of them",
        since="0.5.9",
    ),
    Rule(
        "ngram_needs_gpu",
        ("speculative_algorithm", "device"),
        lambda f: f.algorithm == "NGRAM" and f["device"] not in (None, "cuda"),
        "speculative_algorithm NGRAM runs on CUDA devices only",
        "leave it out",
        since="0.5.9",
        until="0.5.18",
    ),
    Rule(
        "ngram_corpus_budget",
        ("speculative_ngram_external_corpus_path", "speculative_ngram_external_sam_budget"),
        lambda f: (
            f["speculative_ngram_external_corpus_path"] is not None
            and f.number("speculative_ngram_external_sam_budget", 0) <= 0
        ),
        "speculative_ngram_external_corpus_path needs a speculative_ngram_external_sam_budget above 0",
        "set it",
    ),
    Rule(
        "ngram_corpus_budget_limit",
        ("speculative_ngram_external_corpus_path", "speculative_ngram_external_sam_budget"),
        lambda f: (
            f["speculative_ngram_external_corpus_path"] is not None
            and f.number("speculative_ngram_external_sam_budget", 0) > f.number("speculative_num_draft_tokens", 12) - 1
        ),
        "speculative_ngram_external_sam_budget {speculative_ngram_external_sam_budget} is not below "
        "speculative_num_draft_tokens (12 if left out)",
        "lower it",
        since="0.5.20",
    ),
    Rule(
        "dflash_needs_draft",
        ("speculative_draft_model_path", "speculative_algorithm"),
        lambda f: f.algorithm == "DFLASH" and not f["speculative_draft_model_path"],
        "speculative_algorithm DFLASH needs a draft model",
        "give speculative_draft_model_path",
        since="0.5.11",
    ),
    Rule(
        "dflash_block_size",
        ("speculative_dflash_block_size", "speculative_num_draft_tokens"),
        lambda f: (
            f.algorithm == "DFLASH"
            and f["speculative_dflash_block_size"] is not None
            and f["speculative_num_draft_tokens"] not in (None, f["speculative_dflash_block_size"])
        ),
        "speculative_dflash_block_size {speculative_dflash_block_size} and speculative_num_draft_tokens "
        "{speculative_num_draft_tokens} differ",
        "leave one of them out",
        since="0.5.11",
    ),
    Rule(
        "dspark_block_size",
        ("speculative_dspark_block_size", "speculative_num_draft_tokens"),
        lambda f: (
            f.algorithm == "DSPARK"
            and f["speculative_dspark_block_size"] is not None
            and f["speculative_num_draft_tokens"] not in (None, f.number("speculative_dspark_block_size") + 1)
        ),
        "with DSPARK, speculative_num_draft_tokens must be speculative_dspark_block_size + 1",
        "leave speculative_num_draft_tokens out",
    ),
    Rule(
        "uno_needs_lora",
        ("uno_lora_path", "speculative_algorithm"),
        lambda f: f.algorithm == "UNO" and not f["uno_lora_path"],
        "speculative_algorithm UNO needs uno_lora_path",
        "give it",
    ),
    Rule(
        "uno_needs_width",
        ("uno_lora_path", "speculative_num_draft_tokens"),
        lambda f: f.algorithm == "UNO" and f["uno_lora_path"] and f["speculative_num_draft_tokens"] is None,
        "speculative_algorithm UNO needs speculative_num_draft_tokens",
        "set it",
    ),
    Rule(
        "uno_single_gpu",
        ("uno_lora_path", "speculative_algorithm"),
        lambda f: f.algorithm == "UNO" and (f.number("tp_size"), f.number("pp_size")) != (1, 1),
        "speculative_algorithm UNO needs tp_size 1 and pp_size 1",
        "change them",
    ),
    Rule(
        "uno_without_draft",
        ("uno_lora_path", "speculative_draft_model_path"),
        lambda f: f.algorithm == "UNO" and f["speculative_draft_model_path"],
        "speculative_algorithm UNO takes no draft model",
        "leave speculative_draft_model_path out",
    ),
    Rule(
        "draft_sink_needs_window",
        ("speculative_draft_sink_size", "speculative_draft_window_size"),
        lambda f: f["speculative_draft_sink_size"] is not None and f["speculative_draft_window_size"] is None,
        "speculative_draft_sink_size needs speculative_draft_window_size",
        "set both",
    ),
    Rule(
        "decode_radix_speculation",
        ("disaggregation_decode_enable_radix_cache", "speculative_algorithm"),
        lambda f: (
            f["disaggregation_mode"] == "decode"
            and f["disaggregation_decode_enable_radix_cache"]
            and f.algorithm is not None
        ),
        "disaggregation_decode_enable_radix_cache does not go with speculative decoding",
        "drop one of them",
        since="0.5.13",
        until="0.5.20",
    ),
    Rule(
        "decode_radix_speculation_kind",
        ("disaggregation_decode_enable_radix_cache", "speculative_algorithm"),
        lambda f: (
            f["disaggregation_mode"] == "decode"
            and f["disaggregation_decode_enable_radix_cache"]
            and f.algorithm not in (None, "EAGLE", "EAGLE3", "DSPARK")
        ),
        "disaggregation_decode_enable_radix_cache goes with EAGLE, EAGLE3 and DSPARK only",
        "drop one of them",
        since="0.5.20",
    ),
    # -- linear attention ------------------------------------------------------------------------------------
    Rule(
        "no_buffer_page_size",
        ("page_size", "mamba_radix_cache_strategy"),
        lambda f: _unbuffered(f) and _paged(f),
        "mamba_radix_cache_strategy no_buffer needs page_size 1",
        "write page_size: 1, or mamba_radix_cache_strategy: extra_buffer",
        since="0.5.14",
    ),
    Rule(
        "no_buffer_overlap",
        ("disable_overlap_schedule", "mamba_radix_cache_strategy"),
        lambda f: _unbuffered(f) and not f["disable_overlap_schedule"] and not _above(f, "pp_size"),
        "mamba_radix_cache_strategy no_buffer needs the overlap schedule off",
        "set disable_overlap_schedule: true, or leave the strategy to SGLang",
        since="0.5.14",
    ),
    Rule(
        "no_buffer_trtllm_mha",
        ("attention_backend", "mamba_radix_cache_strategy"),
        lambda f: _unbuffered(f) and "trtllm_mha" in _backends(f),
        "mamba_radix_cache_strategy no_buffer does not work with trtllm_mha",
        "change the attention backend, or write mamba_radix_cache_strategy: extra_buffer",
        since="0.5.14",
    ),
    Rule(
        "extra_buffer_track_draft",
        ("mamba_track_interval", "speculative_num_draft_tokens"),
        lambda f: (
            _buffered(f)
            and f["speculative_num_draft_tokens"] is not None
            and f.number("mamba_track_interval", 1 << 30) < f.number("speculative_num_draft_tokens")
        ),
        "mamba_track_interval {mamba_track_interval} is below speculative_num_draft_tokens "
        "{speculative_num_draft_tokens}",
        "raise mamba_track_interval",
        since="0.5.9",
    ),
    Rule(
        "extra_buffer_track_page",
        ("mamba_track_interval", "page_size"),
        lambda f: (
            _buffered(f)
            and f["page_size"] is not None
            and f["mamba_track_interval"] is not None
            and f.number("page_size") >= 1
            and _indivisible(f.number("mamba_track_interval"), f.number("page_size"))
        ),
        "mamba_track_interval {mamba_track_interval} is not a multiple of page_size {page_size}",
        "make it one",
        since="0.5.9",
    ),
    Rule(
        "extra_buffer_lazy_disaggregation",
        ("mamba_radix_cache_strategy", "disaggregation_mode"),
        lambda f: f.strategy == "extra_buffer_lazy" and f.disaggregated,
        "mamba_radix_cache_strategy extra_buffer_lazy does not work with disaggregation",
        "write extra_buffer",
        since="0.5.18",
    ),
    Rule(
        "extra_buffer_needs_radix",
        ("mamba_scheduler_strategy", "disable_radix_cache"),
        lambda f: _buffered(f) and f["disable_radix_cache"],
        "mamba_scheduler_strategy extra_buffer needs the radix cache",
        "write no_buffer, or leave disable_radix_cache out",
        since="0.5.13",
        until="0.5.14",
    ),
    Rule(
        "extra_buffer_needs_states",
        ("mamba_radix_cache_strategy",),
        lambda f: _buffered(f) and not _may_have_states(f),
        "mamba_radix_cache_strategy {strategy} is for models that keep recurrent states, which this one does not",
        "leave it out",
        since="0.5.20",
    ),
    Rule(
        "linear_speculation_no_buffer",
        ("speculative_algorithm", "mamba_scheduler_strategy"),
        lambda f: f.linear_model and f.algorithm is not None and not _buffered(f) and not f["disable_radix_cache"],
        "this model keeps recurrent states: speculation with the radix cache needs mamba_scheduler_strategy "
        "extra_buffer in SGLang {version}",
        "write mamba_scheduler_strategy: extra_buffer, or disable_radix_cache: true, or install 0.5.14 or later",
        since="0.5.10",
        until="0.5.14",
    ),
    Rule(
        "replayssm_exclusive",
        ("enable_linear_replayssm", "enable_linear_replayssm_spec"),
        lambda f: f["enable_linear_replayssm"] and f["enable_linear_replayssm_spec"],
        "enable_linear_replayssm and enable_linear_replayssm_spec exclude each other",
        "drop one of them",
    ),
    Rule(
        "replayssm_buffer",
        ("enable_linear_replayssm", "mamba_radix_cache_strategy"),
        lambda f: (
            f["enable_linear_replayssm"]
            and _may_have_states(f)
            and (_buffered(f) or (f.strategy == "auto" and not f["disable_overlap_schedule"]))
        ),
        "enable_linear_replayssm needs mamba_radix_cache_strategy no_buffer, not {strategy}",
        "write no_buffer, with disable_overlap_schedule: true",
        since="0.5.20",
    ),
    Rule(
        "replayssm_disaggregation",
        ("enable_linear_replayssm", "disaggregation_mode"),
        lambda f: f["enable_linear_replayssm"] and f.disaggregated,
        "enable_linear_replayssm does not work with disaggregation",
        "drop it",
        since="0.5.20",
    ),
    Rule(
        "replayssm_spec_topk",
        ("enable_linear_replayssm_spec", "speculative_eagle_topk"),
        lambda f: f["enable_linear_replayssm_spec"] and _tree(f),
        "enable_linear_replayssm_spec needs speculative_eagle_topk 1",
        "write speculative_eagle_topk: 1",
    ),
    Rule(
        "replayssm_spec_prefill",
        ("enable_linear_replayssm_spec", "disaggregation_mode"),
        lambda f: f["enable_linear_replayssm_spec"] and f["disaggregation_mode"] == "prefill",
        "enable_linear_replayssm_spec does not work on a prefill server",
        "drop it",
        since="0.5.20",
    ),
    Rule(
        "stochastic_rounding_state",
        ("enable_mamba_cache_stochastic_rounding", "mamba_ssm_dtype"),
        lambda f: f["enable_mamba_cache_stochastic_rounding"] and f["mamba_ssm_dtype"] != "float16",
        "enable_mamba_cache_stochastic_rounding needs mamba_ssm_dtype float16",
        "set it",
        since="0.5.18",
    ),
    Rule(
        "int8_checkpoint_hicache",
        ("enable_int8_mamba_checkpoint", "enable_hierarchical_cache"),
        lambda f: f["enable_int8_mamba_checkpoint"] and f["enable_hierarchical_cache"],
        "enable_int8_mamba_checkpoint does not go with enable_hierarchical_cache",
        "drop one of them",
    ),
    # -- LoRA ------------------------------------------------------------------------------------------------
    Rule(
        "lora_batch_positive",
        ("max_loras_per_batch",),
        lambda f: _below(f, "max_loras_per_batch", 1),
        "max_loras_per_batch is {max_loras_per_batch}",
        "write 1 or more",
    ),
    Rule(
        "lora_needs_radix_off",
        ("lora_paths", "disable_radix_cache"),
        lambda f: _lora_count(f) and not f["disable_radix_cache"],
        "lora_paths needs the radix cache off in SGLang {version}",
        "set disable_radix_cache: true",
        until="0.4.7",
    ),
    Rule(
        "lora_needs_shape",
        ("enable_lora", "max_lora_rank", "lora_target_modules"),
        lambda f: f["enable_lora"] and not _lora_count(f) and not (f["max_lora_rank"] and f["lora_target_modules"]),
        "enable_lora without lora_paths needs max_lora_rank and lora_target_modules",
        "give both, or lora_paths",
        since="0.5.9",
    ),
    Rule(
        "lora_loaded_below_batch",
        ("max_loaded_loras", "max_loras_per_batch"),
        lambda f: (
            (f["enable_lora"] or _lora_count(f))
            and f["max_loaded_loras"] is not None
            and f.number("max_loaded_loras") < f.number("max_loras_per_batch")
        ),
        "max_loaded_loras {max_loaded_loras} is below max_loras_per_batch {max_loras_per_batch}",
        "raise it",
        since="0.5.9",
    ),
    Rule(
        "lora_more_paths_than_loaded",
        ("lora_paths", "max_loaded_loras"),
        lambda f: (
            f["max_loaded_loras"] is not None
            and f.number("max_loaded_loras") >= f.number("max_loras_per_batch")
            and _lora_count(f) > f.number("max_loaded_loras")
        ),
        "lora_paths names more adapters than max_loaded_loras ({max_loaded_loras})",
        "raise max_loaded_loras",
        since="0.5.9",
    ),
    Rule(
        "lora_all_alone",
        ("lora_target_modules",),
        lambda f: (
            (f["enable_lora"] or _lora_count(f))
            and isinstance(f["lora_target_modules"], list)
            and "all" in f["lora_target_modules"]
            and len(f["lora_target_modules"]) > 1
        ),
        "lora_target_modules has all beside other modules",
        "write [all]",
        since="0.5.9",
    ),
    Rule(
        "lora_overlap_loaded",
        ("enable_lora_overlap_loading", "max_loaded_loras", "max_loras_per_batch"),
        lambda f: (
            f["enable_lora_overlap_loading"]
            and (f["enable_lora"] or _lora_count(f))
            and (f["max_loaded_loras"] is None or f.number("max_loaded_loras") > 2 * f.number("max_loras_per_batch"))
        ),
        "enable_lora_overlap_loading needs max_loaded_loras of at most twice max_loras_per_batch",
        "set max_loaded_loras",
        since="0.5.9",
    ),
    # -- TLS and listeners -----------------------------------------------------------------------------------
    Rule(
        "tls_key_without_certificate",
        ("ssl_keyfile", "ssl_certfile"),
        lambda f: f["ssl_keyfile"] and not f["ssl_certfile"],
        "ssl_keyfile needs ssl_certfile",
        "give both",
    ),
    Rule(
        "tls_certificate_without_key",
        ("ssl_certfile", "ssl_keyfile"),
        lambda f: f["ssl_certfile"] and not f["ssl_keyfile"],
        "ssl_certfile needs ssl_keyfile",
        "give both",
    ),
    Rule(
        "tls_ca_alone",
        ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"),
        lambda f: f["ssl_ca_certs"] and not f["ssl_certfile"] and not f["ssl_keyfile"],
        "ssl_ca_certs does nothing without ssl_certfile and ssl_keyfile",
        "give all three, or leave it out",
    ),
    Rule(
        "tls_password_alone",
        ("ssl_keyfile_password", "ssl_certfile", "ssl_keyfile"),
        lambda f: f["ssl_keyfile_password"] and not f["ssl_certfile"] and not f["ssl_keyfile"],
        "ssl_keyfile_password does nothing without ssl_certfile and ssl_keyfile",
        "give all three, or leave it out",
    ),
    Rule(
        "tls_refresh_alone",
        ("enable_ssl_refresh", "ssl_certfile", "ssl_keyfile"),
        lambda f: f["enable_ssl_refresh"] and not f["ssl_certfile"] and not f["ssl_keyfile"],
        "enable_ssl_refresh needs ssl_certfile and ssl_keyfile",
        "give both",
    ),
    Rule(
        "tls_refresh_http2",
        ("enable_ssl_refresh", "enable_http2"),
        lambda f: f["enable_ssl_refresh"] and f["enable_http2"],
        "enable_ssl_refresh does not go with enable_http2",
        "drop one of them",
    ),
    Rule(
        "grpc_port_differs",
        ("grpc_port", "port"),
        lambda f: f["grpc_port"] is not None and f["grpc_port"] == f["port"],
        "grpc_port and port are both {port}",
        "change one of them",
    ),
    Rule(
        "grpc_with_key",
        ("grpc_port", "api_key"),
        lambda f: f["grpc_port"] is not None and (f["api_key"] or f["admin_api_key"]),
        "grpc_port would be open beside the API key: SGLang refuses both together",
        "drop one of them",
    ),
    Rule(
        "grpc_tokenizer_workers",
        ("grpc_port", "tokenizer_worker_num"),
        lambda f: f["grpc_port"] is not None and _above(f, "tokenizer_worker_num"),
        "grpc_port needs tokenizer_worker_num 1",
        "change it",
    ),
    Rule(
        "sidecar_needs_grpc",
        ("sidecar", "grpc_port"),
        lambda f: f["sidecar"] and f["grpc_port"] is None,
        "sidecar needs grpc_port",
        "set it",
    ),
    Rule(
        "sidecar_args_alone",
        ("sidecar_args", "sidecar"),
        lambda f: f["sidecar_args"] is not None and f["sidecar"] is None,
        "sidecar_args needs sidecar",
        "set it",
    ),
    Rule(
        "open_without_key",
        ("host", "api_key"),
        lambda f: not _is_loopback(f["host"]) and not f["api_key"],
        "the server would listen on {host} without an API key: whoever reaches it uses it",
        "give secrets.api_key, write host: 127.0.0.1, or accept that with allow_open: true",
    ),
    # -- disaggregation --------------------------------------------------------------------------------------
    Rule(
        "encoder_or_language",
        ("encoder_only", "language_only"),
        lambda f: f["encoder_only"] and f["language_only"],
        "encoder_only and language_only exclude each other",
        "drop one of them",
        since="0.5.9",
    ),
    Rule(
        "encoder_disaggregation",
        ("encoder_only", "disaggregation_mode"),
        lambda f: f["encoder_only"] and f.disaggregated,
        "encoder_only does not go with disaggregation_mode {disaggregation_mode}",
        "drop one of them",
        since="0.5.9",
    ),
    Rule(
        "prefix_cache_needs_encoder",
        ("enable_prefix_mm_cache", "encoder_only"),
        lambda f: f["enable_prefix_mm_cache"] and not f["encoder_only"],
        "enable_prefix_mm_cache needs encoder_only",
        "set both, or leave it out",
        since="0.5.9",
    ),
    Rule(
        "prefill_fake_transfer",
        ("disaggregation_mode", "disaggregation_transfer_backend"),
        lambda f: f["disaggregation_mode"] == "prefill" and f["disaggregation_transfer_backend"] == "fake",
        "a prefill server can't use disaggregation_transfer_backend fake",
        "change it",
        since="0.5.13",
    ),
    Rule(
        "decode_radix_fake",
        ("disaggregation_decode_enable_radix_cache", "disaggregation_transfer_backend"),
        lambda f: (
            f["disaggregation_mode"] == "decode"
            and f["disaggregation_decode_enable_radix_cache"]
            and f["disaggregation_transfer_backend"] == "fake"
        ),
        "disaggregation_decode_enable_radix_cache does not go with the transfer backend fake",
        "change disaggregation_transfer_backend",
        since="0.5.14",
    ),
    Rule(
        "retraction_backup_side",
        ("disaggregation_decode_retraction_backup", "disaggregation_mode"),
        lambda f: f["disaggregation_decode_retraction_backup"] == "host_pool" and f["disaggregation_mode"] != "decode",
        "disaggregation_decode_retraction_backup host_pool is for decode servers",
        "write disaggregation_mode: decode, or leave it out",
    ),
    Rule(
        "response_store_disaggregation",
        ("enable_response_store", "disaggregation_mode"),
        lambda f: f["enable_response_store"] and f.disaggregated,
        "enable_response_store does not work with disaggregation_mode {disaggregation_mode}",
        "drop one of them",
        since="0.5.20",
    ),
    Rule(
        "pdmux_pipeline",
        ("enable_pdmux", "pp_size"),
        lambda f: f["enable_pdmux"] and _above(f, "pp_size"),
        "enable_pdmux needs pp_size 1",
        "change it",
        since="0.5.9",
    ),
    Rule(
        "pdmux_chunked_prefill",
        ("enable_pdmux", "chunked_prefill_size"),
        lambda f: f["enable_pdmux"] and f["chunked_prefill_size"] != -1,
        "enable_pdmux needs chunked prefill off",
        "write chunked_prefill_size: -1",
        since="0.5.9",
    ),
    Rule(
        "pdmux_disaggregation",
        ("enable_pdmux", "disaggregation_mode"),
        lambda f: f["enable_pdmux"] and f.disaggregated,
        "enable_pdmux does not work with disaggregation_mode {disaggregation_mode}",
        "drop one of them",
        since="0.5.9",
    ),
    Rule(
        "pdmux_overlap",
        ("enable_pdmux", "disable_overlap_schedule"),
        lambda f: f["enable_pdmux"] and not f["disable_overlap_schedule"] and not _above(f, "pp_size"),
        "enable_pdmux needs the overlap schedule off",
        "set disable_overlap_schedule: true",
        since="0.5.9",
    ),
    Rule(
        "role_switch",
        ("enable_pd_role_switch", "disaggregation_mode"),
        lambda f: (
            f["enable_pd_role_switch"]
            and f.disaggregated
            and (_above(f, "ep_size") or _above(f, "pp_size") or _above(f, "dcp_size") or f.algorithm is not None)
        ),
        "enable_pd_role_switch does not work with expert, pipeline or context parallelism, nor with speculation",
        "drop those, or the switch",
    ),
    # -- metrics, debugging, watermark -----------------------------------------------------------------------
    Rule(
        "metrics_labels_header",
        ("tokenizer_metrics_allowed_custom_labels", "tokenizer_metrics_custom_labels_header"),
        lambda f: f["tokenizer_metrics_allowed_custom_labels"] and not f["tokenizer_metrics_custom_labels_header"],
        "tokenizer_metrics_allowed_custom_labels needs tokenizer_metrics_custom_labels_header",
        "set it",
        since="0.5.9",
    ),
    Rule(
        "metrics_file_folder",
        ("export_metrics_to_file", "export_metrics_to_file_dir"),
        lambda f: f["export_metrics_to_file"] and f["export_metrics_to_file_dir"] is None,
        "export_metrics_to_file needs export_metrics_to_file_dir",
        "set it",
        since="0.5.9",
    ),
    Rule(
        "canary_sweep",
        ("kv_canary_sweep_interval", "kv_canary"),
        lambda f: f.number("kv_canary_sweep_interval", 0) > 0 and f["kv_canary"] == "none",
        "kv_canary_sweep_interval needs kv_canary log or raise",
        "set kv_canary",
        since="0.5.18",
    ),
    Rule(
        "watermark_config_alone",
        ("watermark_config", "enable_watermark"),
        lambda f: f["watermark_config"] is not None and not f["enable_watermark"],
        "watermark_config needs enable_watermark",
        "set it",
    ),
    Rule(
        "watermark_logit_processor",
        ("enable_watermark", "enable_custom_logit_processor"),
        lambda f: f["enable_watermark"] and f["enable_custom_logit_processor"],
        "enable_watermark does not go with enable_custom_logit_processor",
        "drop one of them",
    ),
    # -- attention backends ----------------------------------------------------------------------------------
    Rule(
        "trtllm_mla_kv_dtype_fp4",
        ("kv_cache_dtype", "attention_backend"),
        lambda f: (
            f["attention_backend"] == "trtllm_mla"
            and f["kv_cache_dtype"] not in ("fp8_e4m3", "fp4_e2m1", "bf16", "auto")
        ),
        "trtllm_mla supports kv_cache_dtype fp8_e4m3, fp4_e2m1, bf16 and auto, not {kv_cache_dtype}",
        "change one of them",
        since="0.5.9",
        until="0.5.20",
    ),
    Rule(
        "trtllm_mla_kv_dtype",
        ("kv_cache_dtype", "attention_backend"),
        lambda f: (
            "trtllm_mla" in {f["attention_backend"], f["decode_attention_backend"]}
            and f["kv_cache_dtype"] not in ("fp8_e4m3", "bf16", "auto")
        ),
        "trtllm_mla supports kv_cache_dtype fp8_e4m3, bf16 and auto, not {kv_cache_dtype}",
        "change one of them",
        since="0.5.20",
    ),
    Rule(
        "fa3_kv_dtype",
        ("kv_cache_dtype", "attention_backend"),
        lambda f: f["attention_backend"] == "fa3" and f["kv_cache_dtype"] == "fp8_e5m2",
        "fa3 can't read kv_cache_dtype fp8_e5m2, so SGLang takes triton instead",
        "write kv_cache_dtype: fp8_e4m3",
        since="0.5.9",
        until="0.5.10",
        kind="note",
    ),
    Rule(
        "fa3_capability",
        ("attention_backend",),
        lambda f: "fa3" in _backends(f) and f.on_gpu and f.capability and not (8, 0) <= _capability(f) < (10, 0),
        "attention_backend fa3 runs on compute capability 8.0 to 9.x, not on {gpu_name}",
        "leave attention_backend out",
    ),
    Rule(
        "blackwell_backend",
        ("attention_backend",),
        lambda f: (
            _backends(f) & {"trtllm_mla", "cutlass_mla"} and f.on_gpu and f.capability and _capability(f) < (10, 0)
        ),
        "attention_backend trtllm_mla and cutlass_mla need a Blackwell GPU, not {gpu_name}",
        "leave attention_backend out",
    ),
    # -- the model -------------------------------------------------------------------------------------------
    Rule(
        "heads_by_tp",
        ("tp_size",),
        lambda f: f.on_gpu and _indivisible(f.model_heads, f.attn_tp),
        "the {model_heads} attention heads of this model can't be split {attn_tp} ways",
        "choose a tp_size that divides {model_heads}",
    ),
    Rule(
        "kv_heads_by_tp",
        ("tp_size",),
        lambda f: not _indivisible(f.model_heads, f.attn_tp) and _kv_heads_do_not_fit(f),
        "the {model_kv_heads} KV heads of this model can't be split or copied evenly {attn_tp} ways",
        "choose a tp_size that divides {model_kv_heads} or is a multiple of it",
    ),
    Rule(
        "layers_by_pp",
        ("pp_size",),
        lambda f: f.model_layers is not None and f.number("pp_size") > f.model_layers,
        "pp_size {pp_size} is more than the {model_layers} layers of this model",
        "lower it",
    ),
    Rule(
        "context_beyond_model",
        ("context_length",),
        _longer_than_model,
        "context_length {context_length} is more than this model's {model_context}",
        "lower it; to stretch a model set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 in the server's environment "
        "and ignore this rule",
    ),
    Rule(
        "quantization_differs",
        ("quantization",),
        _quantization_differs,
        "quantization {quantization} is not how these weights are stored ({model_quantization})",
        "leave quantization out: SGLang reads it from the model",
    ),
    # -- the host --------------------------------------------------------------------------------------------
    Rule(
        "gpus_too_few",
        ("tp_size",),
        lambda f: f.on_gpu and f.gpu_count is not None and f.gpus_needed > f.gpu_count,
        "tp_size, pp_size and dp_size need {gpus_needed} GPUs on this node, and there are {gpu_count}",
        "lower them, or give this server more GPUs",
    ),
    Rule(
        "gpus_out_of_reach",
        ("base_gpu_id", "gpu_id_step"),
        lambda f: (
            f.on_gpu
            and f.gpu_count is not None
            and f.gpus_needed <= f.gpu_count
            and f.number("gpu_id_step") >= 1
            and f.last_gpu >= f.gpu_count
        ),
        "base_gpu_id and gpu_id_step lead to GPU {last_gpu}, and there are {gpu_count} (they count from 0 among the "
        "GPUs of this server)",
        "leave them out: 'gpus' chooses the GPUs already",
    ),
    Rule(
        "gpus_idle",
        ("tp_size",),
        lambda f: f.on_gpu and f.gpu_count is not None and f.gpus_needed < f.gpu_count and bool(f.gpus),
        "{gpu_count} GPUs are set aside for this server and it uses {gpus_needed}",
        "raise tp_size, or list fewer GPUs",
        kind="note",
    ),
)
