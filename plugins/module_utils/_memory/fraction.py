# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""``mem_fraction_static``: the value that SGLang picks, and what it makes of a given one."""

from __future__ import annotations

from dataclasses import dataclass

from .architectures import LATENT
from .arguments import Launch
from .geometry import Geometry
from .units import KIB
from .versions import Version, rule

# Prefill graphs are captured for these token counts: (last, step), each range from the one before.
_BUCKETS = ((32, 4), (256, 16), (512, 32), (1024, 64), (4096, 256))
_LAST_BUCKET_STEP = 512


@dataclass(frozen=True)
class WorkSizes:
    """What the card's size decides where nobody gave a value."""

    chunk_tokens: int
    graph_batch: int


def work_sizes(launch: Launch, version: Version, smallest_total_mib: int) -> WorkSizes:
    chunk_tokens, graph_batch = 0, 0
    for limit_mib, chunk, small_tp_batch, large_tp_batch in rule("capacity_defaults", version):
        if smallest_total_mib < limit_mib:
            chunk_tokens, graph_batch = chunk, small_tp_batch if launch.tp < 4 else large_tp_batch
            break
    requests = launch.given.get("max_running_requests")  # the one that speculation sets comes too late
    if requests is not None and rule("graph_batch_capped", version):
        graph_batch = min(graph_batch, int(requests))
    if launch.chunked_prefill_tokens is not None:
        chunk_tokens = launch.chunked_prefill_tokens
    if launch.decode_graph_batch is not None:
        graph_batch = launch.decode_graph_batch
    return WorkSizes(chunk_tokens, graph_batch)


def automatic(launch: Launch, geometry: Geometry, version: Version, smallest_total_mib: int) -> float:
    """The fraction that SGLang picks where none is given."""
    kind = rule("fraction_rule", version)
    if kind == "parallel_size":
        fraction = _by_parallel_size(launch, version, smallest_total_mib)
    else:
        reserve = (
            _card_reserve_mib(launch, version, smallest_total_mib)
            if kind == "card_reserve"
            else _work_reserve_mib(launch, geometry, version, smallest_total_mib)
        )
        fraction = round((smallest_total_mib - reserve) / smallest_total_mib, 3)
    return fraction * _vision_factor(launch, geometry, version)


def effective(fraction: float, launch: Launch, geometry: Geometry, version: Version, rocm: bool) -> float:
    """What SGLang makes of a fraction, given or picked."""
    if launch.multimodal:
        fraction *= float(rule("multimodal_explicit_factor", version))
    if rocm and launch.context_length > 8192 and _runs_on_aiter(launch, geometry, version):
        fraction *= float(rule("aiter_factor", version))
    return fraction


def _by_parallel_size(launch: Launch, version: Version, total_mib: int) -> float:
    ranks = launch.tp * launch.pp
    fraction = 0.88
    if total_mib <= 80 * KIB:
        steps = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
        fraction = next((value for least, value in steps if ranks >= least), fraction)
    return _for_large_card(fraction, launch, version, total_mib)


def _for_large_card(fraction: float, launch: Launch, version: Version, total_mib: int) -> float:
    kind = rule("fraction_large_card", version)
    drafts = kind == "raised_less" and launch.speculation is not None
    if kind == "raised_less" and total_mib > 180_000:
        return 0.79
    if kind != "none" and total_mib > 96 * KIB:
        reserve_mib = (20 if drafts else 18) * KIB
        return min(fraction + 48 * KIB * (1 - fraction) / total_mib, (total_mib - reserve_mib) / total_mib)
    return fraction * 0.95 if drafts else fraction


def _card_reserve_mib(launch: Launch, version: Version, total_mib: int) -> float:
    ranks = launch.tp * launch.pp
    if total_mib < 35 * KIB:
        reserve_gib = 2.8 + ranks / 10
    elif total_mib < 90 * KIB:
        reserve_gib = 9.5 + ranks / 2
    elif total_mib < 160 * KIB:
        reserve_gib = 12 + ranks / 2
    else:
        reserve_gib = 32.0
    reserve_mib = reserve_gib * KIB + speculation_reserve_mib(launch, version)
    if launch.attention_dp > 1:
        reserve_mib += 4 * KIB
    return reserve_mib


def _work_reserve_mib(launch: Launch, geometry: Geometry, version: Version, total_mib: int) -> float:
    sizes = work_sizes(launch, version, total_mib)
    activation_tokens = sizes.chunk_tokens if sizes.chunk_tokens > 0 else launch.max_prefill_tokens
    reserve_mib = 512 + 1.5 * max(activation_tokens, 2048) + launch.tp * launch.pp / 8 * KIB
    if launch.decode_graph or rule("graph_reserve_when_off", version):
        reserve_mib += 2 * sizes.graph_batch
    if launch.attention_dp > 1:
        reserve_mib += 3 * sizes.graph_batch * launch.attention_dp
        if sizes.graph_batch > 300:
            reserve_mib += 1.5 * sizes.graph_batch * launch.attention_dp
    reserve_mib += prefill_graph_reserve_mib(launch, geometry, version, sizes)
    if total_mib > 60 * KIB:
        reserve_mib = max(reserve_mib, 10 * KIB)
    if launch.deepep and launch.decode_graph:
        reserve_mib += int(rule("deepep_reserve_mib", version))
    return reserve_mib + speculation_reserve_mib(launch, version)


def speculation_reserve_mib(launch: Launch, version: Version) -> int:
    if launch.speculation is None or not launch.speculation.has_draft_model:
        return 0
    standalone = launch.speculation.algorithm == "STANDALONE"
    return int(rule("standalone_reserve_mib" if standalone else "speculative_reserve_mib", version))


def prefill_graph_on(launch: Launch, geometry: Geometry, version: Version) -> bool:
    """Will this start capture graphs for prefill?"""
    mode = rule("prefill_graph", version)
    if mode == "none" or launch.prefill_graph == "off":
        return False
    if launch.prefill_graph == "on":
        return True
    if mode.startswith("opt_in"):
        return False
    if launch.multimodal and geometry.architecture not in rule("prefill_graph_multimodal", version):
        return False
    if launch.pp > 1 or not launch.cuda:
        return False
    if mode == "breakable":
        return True
    blocked_by_speculation = mode == "piecewise" and launch.speculation is not None
    arguments = (
        "enable_lora",
        "lora_paths",
        "enable_hierarchical_cache",
        "enable_deterministic_inference",
        "enable_symm_mem",
        "enable_eplb",
        "moe_a2a_backend",
    )
    blocked_by_argument = any(launch.given.get(name) not in (None, False, "none") for name in arguments)
    return not (
        blocked_by_speculation
        or blocked_by_argument
        or launch.attention_dp > 1
        or launch.torch_compile
        or geometry.architecture in ("Qwen3NextForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")
    )


def prefill_buckets(launch: Launch, geometry: Geometry, version: Version, sizes: WorkSizes) -> int:
    """How many prefill graphs are captured."""
    most_tokens = _largest_bucket_tokens(launch, geometry, version, sizes)
    count, start = 0, 0
    for last, step in _BUCKETS:
        count += max(0, (min(last, most_tokens) - start) // step)
        start = last
    return count + max(0, (most_tokens - start) // _LAST_BUCKET_STEP)


def _largest_bucket_tokens(launch: Launch, geometry: Geometry, version: Version, sizes: WorkSizes) -> int:
    most_tokens = sizes.chunk_tokens
    if geometry.family == LATENT:
        limit = int(rule("prefill_graph_mla_tokens", version))
        most_tokens = min(limit, most_tokens) if limit > 2048 else limit
    if launch.max_total_tokens is not None:
        most_tokens = min(most_tokens, launch.max_total_tokens)
    if rule("prefill_graph_context_cap", version) and launch.given.get("context_length") is not None:
        most_tokens = min(most_tokens, launch.context_length)
    return most_tokens


def prefill_graph_reserve_mib(launch: Launch, geometry: Geometry, version: Version, sizes: WorkSizes) -> float:
    if not prefill_graph_on(launch, geometry, version):
        return 0.0
    mode = rule("prefill_graph", version)
    if mode == "opt_in_quarter":
        return int(launch.given.get("piecewise_cuda_graph_max_tokens") or 4096) // 4
    if mode == "opt_in_eighth":
        return _largest_bucket_tokens(launch, geometry, version, sizes) // 8
    if geometry.family == LATENT and mode != "opt_in":
        return 1.5 * KIB
    return 8.0 * prefill_buckets(launch, geometry, version, sizes)


def _vision_factor(launch: Launch, geometry: Geometry, version: Version) -> float:
    kind = rule("multimodal_automatic_factor", version)
    if not launch.multimodal or launch.language_only or kind == "none":
        return 1.0
    vision = geometry.vision
    if kind == "flat" or vision is None:
        return 0.9 if kind == "flat" else 1.0
    size = (vision.declared_layers or 24) * vision.hidden**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * (size - 1)))


def _runs_on_aiter(launch: Launch, geometry: Geometry, version: Version) -> bool:
    if launch.aiter is not None:
        return launch.aiter
    if geometry.latent is None:
        return True
    if launch.attention_dp > 1 and rule("aiter_for_mla_dp", version):
        return True
    return geometry.heads // launch.tp in (16, 128)
