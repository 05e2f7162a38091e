# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Launch arguments as SGLang will understand them, with everything that it fills in by itself and that costs memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError
from .geometry import Geometry
from .versions import Version, rule

ALIASES: dict[str, str] = {
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "attention_context_parallel_size": "attn_cp_size",
    "decode_context_parallel_size": "dcp_size",
    "cuda_graph_max_bs_decode": "cuda_graph_max_bs",
    "cuda_graph_bs_decode": "cuda_graph_bs",
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
    "speculative_algo": "speculative_algorithm",
}

# Speculation that ends up as another algorithm.
_SAME_ALGORITHM = {"NEXTN": "EAGLE", "EAGLE3": "EAGLE"}
ALGORITHMS = ("EAGLE", "STANDALONE", "NGRAM", "DFLASH", "DSPARK")
# Steps, top-k and draft tokens that differ from the default shape.
_SHAPES: dict[str, tuple[int, int, int]] = {
    "LlamaForCausalLM": (5, 4, 8),
    "Grok1ForCausalLM": (5, 4, 8),
    "DeepseekV2ForCausalLM": (3, 1, 4),
    "DeepseekV3ForCausalLM": (3, 1, 4),
}
REQUESTS_WITH_SPECULATION = 48
STATE_RATIO = 0.9
WINDOW_RATIO = 0.8
MAX_PREFILL_TOKENS = 16384


class ArgumentsRefused(Exception):
    """SGLang refuses these arguments before it touches a GPU; ``str()`` is its message."""


@dataclass(frozen=True)
class HiddenDefault:
    """A value that nobody gave and that SGLang sets."""

    option: str
    value: Any
    why: str

    def as_dict(self) -> dict[str, Any]:
        return {"option": self.option, "value": self.value, "why": self.why}


@dataclass(frozen=True)
class Speculation:
    algorithm: str
    given_as: str
    steps: int
    top_k: int
    draft_tokens: int

    @property
    def has_draft_model(self) -> bool:
        return self.algorithm != "NGRAM"

    @property
    def is_dflash(self) -> bool:
        return self.algorithm in ("DFLASH", "DSPARK")


@dataclass(frozen=True)
class Launch:
    """Resolved arguments. ``None`` means: not given, and decided later (by the card or by the model)."""

    tp: int
    dp: int
    pp: int
    ep: int
    attention_dp: int
    page_tokens: int
    context_length: int
    kv_element_bytes: float
    kv_dtype: str
    mem_fraction_static: float | None
    max_running_requests: int | None
    max_total_tokens: int | None
    chunked_prefill_tokens: int | None
    max_prefill_tokens: int
    decode_graph_batch: int | None
    decode_graph: bool
    prefill_graph: str
    radix_cache: bool
    overlap: bool
    speculation: Speculation | None
    state_strategy: str
    state_dtype: str | None
    state_slots: int | None
    state_ratio: float
    window_ratio: float
    window_pool: bool
    torch_compile: bool
    multimodal: bool
    cuda: bool
    aiter: bool | None
    language_only: bool
    deepep: bool
    hierarchical_cache: bool
    hicache_ratio: float
    hicache_gb: float
    feature_transport: str
    given: Mapping[str, Any]
    hidden_defaults: tuple[HiddenDefault, ...]

    @property
    def attention_tp(self) -> int:
        return max(1, self.tp // self.attention_dp)


def canonical(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Option names with underscores, aliases resolved, options that are off left out."""
    result: dict[str, Any] = {}
    for name, value in arguments.items():
        key = str(name).lstrip("-").replace("-", "_")
        if value is None or value is False or value == "":
            continue
        result[ALIASES.get(key, key)] = value
    return result


def resolve(
    arguments: Mapping[str, Any],
    geometry: Geometry,
    version: Version,
    device: str = "cuda",
    generation: int | None = None,
) -> Launch:
    """Fill in what SGLang fills in; raises ``ArgumentsRefused`` where it stops.

    ``generation`` is the major number of the cards' compute capability; None where it is not known.
    """
    given = canonical(arguments)
    hidden: list[HiddenDefault] = []
    speculation = _speculation(given, geometry, version, hidden)
    requests = _positive(given, "max_running_requests")
    if requests is None and speculation is not None:
        requests = REQUESTS_WITH_SPECULATION
        why = f"{speculation.given_as} without max_running_requests"
        hidden.append(HiddenDefault("max_running_requests", requests, why))
    radix_cache = not _flag(given, "disable_radix_cache")
    overlap = _overlap(given, speculation, version)
    strategy = _state_strategy(given, geometry, version, overlap)
    if geometry.linear is not None and radix_cache:
        radix_cache, overlap = _without_state_buffer(
            strategy, speculation, radix_cache, overlap, geometry, version, hidden
        )
        if "mamba_radix_cache_strategy" not in given or given["mamba_radix_cache_strategy"] == "auto":
            hidden.append(HiddenDefault("mamba_radix_cache_strategy", strategy, "automatic for linear attention"))
    tp, dp = _size(given, "tp_size"), _size(given, "dp_size")
    attention_dp = dp if _flag(given, "enable_dp_attention") else _size(given, "attn_dp_size")
    kv_dtype, kv_element_bytes = _kv_element(given, geometry, hidden, device, generation)
    context = _positive(given, "context_length")
    if context is None:
        context = geometry.context_length
        hidden.append(HiddenDefault("context_length", context, "the model's own"))
    return Launch(
        tp=tp,
        dp=dp,
        pp=_size(given, "pp_size"),
        ep=_size(given, "ep_size"),
        attention_dp=attention_dp,
        page_tokens=_size(given, "page_size"),
        context_length=context,
        kv_element_bytes=kv_element_bytes,
        kv_dtype=kv_dtype,
        mem_fraction_static=_fraction(given),
        max_running_requests=requests,
        max_total_tokens=_positive(given, "max_total_tokens"),
        chunked_prefill_tokens=_whole(given, "chunked_prefill_size"),
        max_prefill_tokens=_positive(given, "max_prefill_tokens") or MAX_PREFILL_TOKENS,
        decode_graph_batch=_graph_batch(given),
        decode_graph=not (_flag(given, "disable_cuda_graph") or given.get("cuda_graph_backend_decode") == "disabled"),
        prefill_graph=_prefill_graph(given, version),
        radix_cache=radix_cache,
        overlap=overlap,
        speculation=speculation,
        state_strategy=strategy,
        state_dtype=given.get("mamba_ssm_dtype"),
        state_slots=_positive(given, "max_mamba_cache_size"),
        state_ratio=float(given.get("mamba_full_memory_ratio") or STATE_RATIO),
        window_ratio=float(given.get("swa_full_tokens_ratio") or WINDOW_RATIO),
        window_pool=not _flag(given, "disable_hybrid_swa_memory"),
        torch_compile=_flag(given, "enable_torch_compile"),
        multimodal=_multimodal(given, geometry),
        cuda=device == "cuda",
        aiter=None if given.get("attention_backend") is None else given["attention_backend"] == "aiter",
        language_only=_flag(given, "language_only") or _flag(given, "language_model_only"),
        deepep=given.get("moe_a2a_backend") == "deepep" or _flag(given, "enable_deepep_moe"),
        hierarchical_cache=_flag(given, "enable_hierarchical_cache"),
        hicache_ratio=float(given.get("hicache_ratio") or 2.0),
        hicache_gb=float(given.get("hicache_size") or 0),
        feature_transport=str(given.get("mm_feature_transport") or "auto"),
        given=given,
        hidden_defaults=tuple(hidden),
    )


def context_length(arguments: Mapping[str, Any], geometry: Geometry) -> int:
    """The context that the server promises: the given one, or the model's own."""
    return _positive(canonical(arguments), "context_length") or geometry.context_length


def _speculation(
    given: Mapping[str, Any], geometry: Geometry, version: Version, hidden: list[HiddenDefault]
) -> Speculation | None:
    name = given.get("speculative_algorithm")
    if name is None:
        return None
    given_as = str(name).upper()
    algorithm = _SAME_ALGORITHM.get(given_as, given_as)
    if algorithm == "NGRAM":
        draft_tokens = _positive(given, "speculative_num_draft_tokens") or 12
        return Speculation(algorithm, given_as, 1, _positive(given, "speculative_eagle_topk") or 10, draft_tokens)
    steps = _positive(given, "speculative_num_steps")
    top_k = _positive(given, "speculative_eagle_topk")
    draft_tokens = _positive(given, "speculative_num_draft_tokens") or 0
    if algorithm in ("DFLASH", "DSPARK"):
        return Speculation(algorithm, given_as, steps or 1, top_k or 1, draft_tokens)
    if steps is None:
        steps, top_k, draft_tokens = _SHAPES.get(geometry.architecture, rule("speculation_shape", version))
        if algorithm == "STANDALONE":
            steps, top_k, draft_tokens = 3, 1, 4
        why = f"{given_as} without speculative_num_steps"
        hidden.append(HiddenDefault("speculative_num_steps", steps, why))
        hidden.append(HiddenDefault("speculative_eagle_topk", top_k, why))
        hidden.append(HiddenDefault("speculative_num_draft_tokens", draft_tokens, why))
    top_k = top_k or 1
    if top_k == 1 and draft_tokens != steps + 1:
        draft_tokens = steps + 1
        hidden.append(HiddenDefault("speculative_num_draft_tokens", draft_tokens, "top-k 1: steps + 1"))
    return Speculation(algorithm, given_as, steps, top_k, draft_tokens)


def _overlap(given: Mapping[str, Any], speculation: Speculation | None, version: Version) -> bool:
    if _flag(given, "disable_overlap_schedule"):
        return False
    if speculation is None:
        return True
    return bool(rule("speculation_overlap", version)) and (speculation.top_k == 1 or not speculation.has_draft_model)


def _state_strategy(given: Mapping[str, Any], geometry: Geometry, version: Version, overlap: bool) -> str:
    strategy = str(given.get("mamba_radix_cache_strategy") or "auto")
    if geometry.linear is None or strategy != "auto":
        return strategy
    automatic = str(rule("state_strategy_auto", version))
    wants_buffer = overlap or _size(given, "page_size") > 1
    return automatic if wants_buffer else "no_buffer"


def _without_state_buffer(
    strategy: str,
    speculation: Speculation | None,
    radix_cache: bool,
    overlap: bool,
    geometry: Geometry,
    version: Version,
    hidden: list[HiddenDefault],
) -> tuple[bool, bool]:
    """(radix cache, overlap) for a linear-attention model with the radix cache wanted."""
    if strategy != "no_buffer":
        return radix_cache, overlap
    if speculation is None or rule("state_no_buffer_speculation", version) == "allowed":
        if overlap:
            hidden.append(HiddenDefault("disable_overlap_schedule", True, "mamba strategy no_buffer"))
        return radix_cache, False
    if rule("state_no_buffer_speculation", version) == "radix_off":
        why = f"{speculation.given_as} with mamba strategy no_buffer"
        hidden.append(HiddenDefault("disable_radix_cache", True, why))
        return False, overlap
    raise ArgumentsRefused(
        f"Speculative decoding for {geometry.architecture} is not compatible with radix cache when using "
        "--mamba-scheduler-strategy no_buffer."
    )


_KV_BYTES: dict[str, float] = {
    "bf16": 2,
    "bfloat16": 2,
    "fp16": 2,
    "float16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp4_e2m1": 0.5,
}
_WEIGHT_KV_BYTES = {"float32": 4.0}
# From this generation on SGLang keeps the cache of sparse attention (DSA) in FP8 where nothing is said: source of
# 0.5.3 to 0.5.23, and two public logs of 0.5.3 on such cards.
_SPARSE_FP8_GENERATION = 10


def _kv_element(
    given: Mapping[str, Any], geometry: Geometry, hidden: list[HiddenDefault], device: str, generation: int | None
) -> tuple[str, float]:
    """Name and bytes of a number in the cache; "auto" and 0 where it depends on a card that is not known."""
    name = str(given.get("kv_cache_dtype") or "auto")
    if name != "auto":
        return name, _KV_BYTES.get(name, 0.0)
    if geometry.fp8_kv_checkpoint:
        hidden.append(HiddenDefault("kv_cache_dtype", "fp8_e4m3", "the checkpoint declares it"))
        return "fp8_e4m3", 1
    if device == "cuda" and geometry.latent is not None and geometry.latent.index_head_dim:
        if generation is None:
            return "auto", 0.0
        chosen = "fp8_e4m3" if generation >= _SPARSE_FP8_GENERATION else "bfloat16"
        why = f"sparse attention on a card of compute capability {generation}"
        hidden.append(HiddenDefault("kv_cache_dtype", chosen, why))
        return chosen, _KV_BYTES[chosen]
    dtype = str(given.get("dtype") or "auto")
    if dtype == "auto":
        return "bfloat16", 2
    return dtype, _WEIGHT_KV_BYTES.get(dtype, 2.0)


def _graph_batch(given: Mapping[str, Any]) -> int | None:
    sizes = given.get("cuda_graph_bs")
    if isinstance(sizes, list) and sizes:
        return max(int(size) for size in sizes)
    return _positive(given, "cuda_graph_max_bs")


def _multimodal(given: Mapping[str, Any], geometry: Geometry) -> bool:
    return geometry.multimodal and (not geometry.multimodal_on_request or _flag(given, "enable_multimodal"))


def _prefill_graph(given: Mapping[str, Any], version: Version) -> str:
    """``on``, ``off`` or ``default``"""
    backend = given.get("cuda_graph_backend_prefill")
    if backend is not None:
        return "off" if backend == "disabled" else "on"
    if _flag(given, "disable_piecewise_cuda_graph") or _flag(given, "disable_prefill_cuda_graph"):
        return "off"
    if _flag(given, "disable_cuda_graph") and rule("graph_switch_for_prefill", version):
        return "off"
    if _flag(given, "enable_piecewise_cuda_graph") or _flag(given, "enforce_piecewise_cuda_graph"):
        return "on"
    return "default"


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if isinstance(value, str):
        return value.lower() in ("true", "yes", "1")
    return bool(value)


def _whole(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise _bad_argument(name, value, "a whole number") from None


def _positive(given: Mapping[str, Any], name: str) -> int | None:
    value = _whole(given, name)
    if value is not None and value <= 0:
        raise _bad_argument(name, value, "a positive whole number")
    return value


def _size(given: Mapping[str, Any], name: str) -> int:
    return _positive(given, name) or 1


def _fraction(given: Mapping[str, Any]) -> float | None:
    value = given.get("mem_fraction_static")
    if value is None:
        return None
    try:
        fraction = float(value)
    except (TypeError, ValueError):
        raise _bad_argument("mem_fraction_static", value, "a number between 0 and 1") from None
    if not 0 < fraction < 1:
        raise _bad_argument("mem_fraction_static", value, "a number between 0 and 1")
    return fraction


def _bad_argument(name: str, value: Any, wanted: str) -> LlmHostError:
    return LlmHostError("arguments_invalid", f"args.{name} is {value!r}; it must be {wanted}.", option=name)
