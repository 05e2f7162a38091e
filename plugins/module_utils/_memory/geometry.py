# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""config.json -> the numbers that decide memory: layers, heads, dimensions, states, experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import architectures
from .architectures import DELTA, LATENT, MAMBA2, UNCOVERED, WINDOW
from .config import (
    Config,
    context_length,
    declares_fp8_kv,
    dtype,
    integer,
    invalid,
    optional,
    quantization,
    text_config,
)


@dataclass(frozen=True)
class Heads:
    """Layers of one kind and what each stores per token."""

    layers: int
    kv_heads: int
    head_dim: int
    v_head_dim: int


@dataclass(frozen=True)
class Latent:
    """MLA: one row per token and layer, the same on every rank; ``index_head_dim`` is 0 without a sparse indexer."""

    kv_lora_rank: int
    rope_head_dim: int
    nope_head_dim: int
    v_head_dim: int
    q_lora_rank: int
    index_head_dim: int


@dataclass(frozen=True)
class Windowed:
    """Window layers beside full ones; ``window_tokens`` is 0 where the config does not say."""

    full: Heads
    window: Heads
    window_tokens: int


@dataclass(frozen=True)
class LinearState:
    """Recurrent layers: one convolution and one recurrent state per request slot."""

    kind: str
    layers: int
    inner_size: int
    groups: int
    heads: int
    head_dim: int
    state_size: int
    conv_kernel: int
    state_dtype: str


@dataclass(frozen=True)
class Experts:
    count: int
    intermediate: int
    shared_intermediate: int
    dense_layers: int


@dataclass(frozen=True)
class Vision:
    """``declared_layers`` is None where the config calls them ``depth``: SGLang then assumes 24."""

    declared_layers: int | None
    depth: int
    hidden: int
    intermediate: int
    out_hidden: int
    patch: int
    temporal_patch: int
    merge: int
    positions: int


@dataclass(frozen=True)
class Geometry:
    """Everything about a model that the planner needs. ``hidden`` is 0 where the config does not carry it."""

    architecture: str
    family: str
    multimodal: bool
    multimodal_on_request: bool
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab: int
    tied_embeddings: bool
    gated_attention: bool
    context_length: int
    attention: Heads
    latent: Latent | None
    windowed: Windowed | None
    linear: LinearState | None
    experts: Experts | None
    vision: Vision | None
    draft_layers: int
    weight_dtype: str
    quantization: str | None
    fp8_kv_checkpoint: bool
    not_covered: str


_KV_HEAD_KEYS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_DRAFT_LAYER_KEYS = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_layers")
_EXPERT_KEYS = ("n_routed_experts", "num_experts", "num_local_experts")


def from_config(config: Config) -> Geometry:
    """The geometry of the model that this config.json describes; raises ``model_config_invalid``."""
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise invalid("it names no 'architectures'")
    row = architectures.find(names[0])
    text = text_config(config)
    family = row.family if row is not None else UNCOVERED
    if family == UNCOVERED:
        why_not = row.why_not if row is not None else "this planner does not know it"
        return _uncovered_geometry(names[0], config, text, f"architecture {names[0]}: {why_not}")
    layers = integer(text, "num_hidden_layers", "n_layer", "num_layers")
    latent = _latent(text) if family == LATENT else None
    linear = _linear_state(text, config, family, layers)
    return Geometry(
        architecture=names[0],
        family=family,
        multimodal=row is not None and row.multimodal,
        multimodal_on_request=row is not None and row.on_request,
        layers=layers,
        hidden=optional(text, "hidden_size", "n_embd", "d_model"),
        heads=optional(text, "num_attention_heads", "n_head"),
        intermediate=optional(text, "intermediate_size", "n_inner", "ffn_hidden_size"),
        vocab=optional(text, "vocab_size") or optional(config, "vocab_size"),
        tied_embeddings=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        gated_attention=bool(text.get("attn_output_gate")),
        context_length=context_length(text),
        attention=_full_heads(text, family, layers),
        latent=latent,
        windowed=_windowed(text, family, layers),
        linear=linear,
        experts=_experts(text, layers),
        vision=_vision(config),
        draft_layers=optional(text, *_DRAFT_LAYER_KEYS),
        weight_dtype=dtype(config, text),
        quantization=quantization(config),
        fp8_kv_checkpoint=declares_fp8_kv(config),
        not_covered=_detail_not_covered(text),
    )


def _head_dim(text: Config) -> int:
    if text.get("head_dim"):
        return integer(text, "head_dim")
    return integer(text, "hidden_size", "n_embd") // integer(text, "num_attention_heads", "n_head")


def _kv_heads(text: Config) -> int:
    if text.get("multi_query"):
        return 1
    return optional(text, *_KV_HEAD_KEYS) or integer(text, "num_attention_heads", "n_head")


def _full_heads(text: Config, family: str, layers: int) -> Heads:
    """The layers that store every token, as if none had a window."""
    if family == LATENT:
        return Heads(layers, optional(text, "num_attention_heads"), 0, 0)
    if text.get("global_head_dim"):  # Gemma 4: base values are the window layers'
        head_dim = integer(text, "global_head_dim")
        return Heads(layers, optional(text, "num_global_key_value_heads") or _kv_heads(text), head_dim, head_dim)
    head_dim = _head_dim(text)
    value_dim = head_dim if family in (DELTA, MAMBA2) else optional(text, "v_head_dim") or head_dim
    return Heads(_full_attention_layers(text, family, layers), _kv_heads(text), head_dim, value_dim)


def _full_attention_layers(text: Config, family: str, layers: int) -> int:
    if family == DELTA:
        kinds = _layer_types(text)
        if kinds:
            return sum(kind in ("full_attention", "attention") for kind in kinds)
        return layers // (optional(text, "full_attention_interval") or 4)
    if family == MAMBA2:
        return layers - _mamba_layers(text, layers) if not _parallel_hybrid(text) else layers
    return layers


def _layer_types(text: Config) -> list[str]:
    kinds = text.get("layer_types") or text.get("layers_block_type") or []
    return [str(kind) for kind in kinds] if isinstance(kinds, list) else []


def _parallel_hybrid(text: Config) -> bool:
    """Falcon-H1: attention and Mamba in every layer."""
    return text.get("model_type") == "falcon_h1"


def _mamba_layers(text: Config, layers: int) -> int:
    if _parallel_hybrid(text):
        return layers
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern.count("M")
    kinds = _layer_types(text)
    if not kinds:
        raise invalid("neither 'layer_types' nor 'hybrid_override_pattern' says which layers are Mamba layers")
    return sum(kind == "mamba" for kind in kinds)


def _latent(text: Config) -> Latent:
    indexed = text.get("index_topk") is not None or text.get("index_head_dim") is not None
    return Latent(
        kv_lora_rank=integer(text, "kv_lora_rank"),
        rope_head_dim=integer(text, "qk_rope_head_dim"),
        nope_head_dim=optional(text, "qk_nope_head_dim"),
        v_head_dim=optional(text, "v_head_dim"),
        q_lora_rank=optional(text, "q_lora_rank"),
        index_head_dim=(optional(text, "index_head_dim") or 128) if indexed else 0,
    )


def _windowed(text: Config, family: str, layers: int) -> Windowed | None:
    if family != WINDOW:
        return None
    full_layers, window_layers = _window_split(text, layers)
    if not window_layers:
        return None
    full = _full_heads(text, family, full_layers)
    gemma = bool(text.get("global_head_dim"))
    head_dim = _head_dim(text) if gemma else optional(text, "swa_head_dim") or full.head_dim
    value_dim = (
        head_dim
        if gemma
        else optional(text, "swa_v_head_dim") or (head_dim if text.get("swa_head_dim") else full.v_head_dim)
    )
    kv_heads = _kv_heads(text) if gemma else optional(text, "swa_num_key_value_heads") or full.kv_heads
    window_tokens = optional(text, "sliding_window", "attention_chunk_size", "sliding_window_size")
    return Windowed(
        Heads(full_layers, full.kv_heads, full.head_dim, full.v_head_dim),
        Heads(window_layers, kv_heads, head_dim, value_dim),
        window_tokens,
    )


def _window_split(text: Config, layers: int) -> tuple[int, int]:
    """(full layers, window layers)"""
    pattern = text.get("hybrid_layer_pattern")
    if isinstance(pattern, list):
        return pattern.count(0), pattern.count(1)
    if text.get("attention_chunk_size"):  # Llama 4: every fourth layer is full
        return layers // 4, layers - layers // 4
    kinds = _layer_types(text)
    if not kinds:
        raise invalid("'layer_types' is missing, so window and full layers cannot be told apart")
    return kinds.count("full_attention"), kinds.count("sliding_attention")


def _linear_state(text: Config, config: Config, family: str, layers: int) -> LinearState | None:
    state_dtype = str(text.get("mamba_ssm_dtype") or config.get("mamba_ssm_dtype") or "float32")
    if family == DELTA:
        value_heads = integer(text, "linear_num_value_heads")
        value_dim = integer(text, "linear_value_head_dim")
        return LinearState(
            kind=DELTA,
            layers=layers - _full_attention_layers(text, family, layers),
            inner_size=value_heads * value_dim,
            groups=integer(text, "linear_num_key_heads"),
            heads=value_heads,
            head_dim=value_dim,
            state_size=integer(text, "linear_key_head_dim"),
            conv_kernel=integer(text, "linear_conv_kernel_dim"),
            state_dtype=state_dtype,
        )
    if family == MAMBA2:
        heads = integer(text, "mamba_n_heads", "mamba_num_heads")
        head_dim = integer(text, "mamba_d_head", "mamba_head_dim")
        return LinearState(
            kind=MAMBA2,
            layers=_mamba_layers(text, layers),
            inner_size=optional(text, "mamba_d_ssm") or heads * head_dim,
            groups=integer(text, "mamba_n_groups", "n_groups"),
            heads=heads,
            head_dim=head_dim,
            state_size=integer(text, "mamba_d_state", "ssm_state_size"),
            conv_kernel=integer(text, "mamba_d_conv", "conv_kernel"),
            state_dtype=state_dtype,
        )
    return None


def _experts(text: Config, layers: int) -> Experts | None:
    count = optional(text, *_EXPERT_KEYS)
    if count <= 1:
        return None
    intermediate = optional(text, "moe_intermediate_size") or integer(text, "intermediate_size")
    shared = optional(text, "shared_expert_intermediate_size")
    if not shared:
        shared = optional(text, "n_shared_experts", "num_shared_experts") * intermediate
    dense_layers = optional(text, "first_k_dense_replace")
    return Experts(count, intermediate, shared, min(dense_layers, layers))


def _vision(config: Config) -> Vision | None:
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping) or not vision.get("hidden_size"):
        return None
    return Vision(
        declared_layers=optional(vision, "num_hidden_layers") or None,
        depth=optional(vision, "num_hidden_layers", "depth") or 24,
        hidden=integer(vision, "hidden_size"),
        intermediate=optional(vision, "intermediate_size") or 4 * integer(vision, "hidden_size"),
        out_hidden=optional(vision, "out_hidden_size"),
        patch=optional(vision, "patch_size") or 14,
        temporal_patch=optional(vision, "temporal_patch_size") or 1,
        merge=optional(vision, "spatial_merge_size"),
        positions=optional(vision, "num_position_embeddings") or 4096,
    )


def _detail_not_covered(text: Config) -> str:
    """A covered architecture with a detail that is not."""
    if optional(text, "num_kv_shared_layers"):
        return "num_kv_shared_layers: some layers share keys and values"
    pattern = text.get("index_topk_pattern")
    if optional(text, "index_topk_freq") > 1 or (isinstance(pattern, str) and "S" in pattern):
        return "index_topk_freq: some layers share their sparse index"
    return ""


def _uncovered_geometry(name: str, config: Config, text: Config, why_not: str) -> Geometry:
    return Geometry(
        architecture=name,
        family=UNCOVERED,
        multimodal=False,
        multimodal_on_request=False,
        layers=optional(text, "num_hidden_layers", "n_layer", "num_layers"),
        hidden=0,
        heads=0,
        intermediate=0,
        vocab=0,
        tied_embeddings=False,
        gated_attention=False,
        context_length=context_length(text),
        attention=Heads(0, 0, 0, 0),
        latent=None,
        windowed=None,
        linear=None,
        experts=None,
        vision=None,
        draft_layers=0,
        weight_dtype=dtype(config, text),
        quantization=quantization(config),
        fp8_kv_checkpoint=False,
        not_covered=why_not,
    )
