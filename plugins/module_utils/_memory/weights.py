# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""How many bytes of a checkpoint one rank holds: which tensors are divided, replicated, or not loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .arguments import Launch
from .geometry import Geometry
from .headers import Tensor
from .units import GIB

# How a tensor is spread over the ranks.
WHOLE = "whole"  # every rank holds all of it
RANKS = "ranks"  # divided by all ranks
ATTENTION = "attention"  # divided by the attention ranks (fewer with DP attention)
KEY_VALUE = "key_value"  # by the attention ranks, but never below one head
FUSED_QKV = "fused_qkv"  # query rows like ATTENTION, key and value rows like KEY_VALUE
EMBEDDING = "embedding"  # rows padded, then divided by the attention ranks
HEAD = "head"  # rows padded, then divided by all ranks; nothing where it is tied
VISION = "vision"  # divided by all ranks, not loaded by a text-only start
VISION_WHOLE = "vision_whole"
SKIPPED = "skipped"  # not loaded

_VOCABULARY_ROWS = 64


@dataclass(frozen=True)
class SplitRule:
    """The first row whose pattern is found in the tensor's name decides."""

    pattern: str
    split: str
    item: str
    example: str


_VISION_NAME = r"(^|\.)(visual|vision_tower|vision_model|vision_encoder|vit|audio_tower|vision_embed_tokens)\."

SPLIT_RULES: tuple[SplitRule, ...] = (
    SplitRule(
        r"rotary_emb\.|\.masked_bias$|\.attn\.bias$", SKIPPED, "other", "model.layers.0.attn.rotary_emb.inv_freq"
    ),
    SplitRule(
        _VISION_NAME + r".*(patch_embed|patch_embedding|pos_embed|position_embedding|norm)",
        VISION_WHOLE,
        "vision",
        "visual.patch_embed.proj.weight",
    ),
    SplitRule(_VISION_NAME, VISION, "vision", "visual.blocks.0.attn.qkv.weight"),
    SplitRule(r"(multi_modal_projector|mm_projector|mlp1)\.", VISION_WHOLE, "vision", "multi_modal_projector.a.weight"),
    SplitRule(
        r"(embed_tokens|word_embeddings|\.wte|tok_embeddings)\.", EMBEDDING, "embedding", "model.embed_tokens.weight"
    ),
    SplitRule(r"(^|\.)(lm_head|embed_out)\.", HEAD, "head", "lm_head.weight"),
    SplitRule(r"(layernorm|_norm|\.norm\d?|\.ln_\w+)(\.|$)", WHOLE, "norms", "model.layers.0.input_layernorm.weight"),
    SplitRule(r"\.indexer\.", WHOLE, "attention", "model.layers.0.self_attn.indexer.wk.weight"),
    SplitRule(
        r"\.(q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj)",
        WHOLE,
        "attention",
        "model.layers.0.self_attn.q_a_proj.weight",
    ),
    SplitRule(r"\.(k_proj|v_proj|wk|wv)\.", KEY_VALUE, "attention", "model.layers.0.self_attn.k_proj.weight"),
    SplitRule(
        r"\.(qkv_proj|query_key_value|Wqkv|c_attn|wqkv|W_pack)\.",
        FUSED_QKV,
        "attention",
        "model.layers.0.self_attn.qkv_proj.weight",
    ),
    SplitRule(
        r"(self_attn|attention|attn)\.(o_proj|dense|out_proj|wo|c_proj)\.bias$",
        WHOLE,
        "attention",
        "model.layers.0.self_attn.o_proj.bias",
    ),
    SplitRule(r"(self_attn|attention|\.attn)\.", ATTENTION, "attention", "model.layers.0.self_attn.q_proj.weight"),
    SplitRule(r"\.(linear_attn|mamba|mixer)\.", ATTENTION, "linear", "model.layers.0.linear_attn.in_proj_qkvz.weight"),
    SplitRule(r"\.shared_expert_gate\.", WHOLE, "router", "model.layers.0.mlp.shared_expert_gate.weight"),
    SplitRule(r"\.(gate|router)(\.|$)", WHOLE, "router", "model.layers.0.mlp.gate.weight"),
    SplitRule(r"\.shared_experts?\.", RANKS, "mlp", "model.layers.0.mlp.shared_expert.up_proj.weight"),
    SplitRule(r"\.experts\.", RANKS, "experts", "model.layers.0.mlp.experts.7.up_proj.weight"),
    SplitRule(r"\.(down_proj|fc2|w2|c_proj)\.bias$", WHOLE, "mlp", "model.layers.0.mlp.down_proj.bias"),
    SplitRule(
        r"\.(mlp|shared_mlp|feed_forward|block_sparse_moe|ffn)\.", RANKS, "mlp", "model.layers.0.mlp.up_proj.weight"
    ),
)
_COMPILED = tuple((re.compile(row.pattern), row) for row in SPLIT_RULES)
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_DRAFT = re.compile(r"(^|\.)mtp\.")
UNNAMED_RULE = SplitRule("", WHOLE, "other", "something.else")


@dataclass(frozen=True)
class Weights:
    """Bytes on the fullest rank. ``draft_peak_bytes`` also holds what is loaded before it is shared."""

    target_bytes: float
    draft_bytes: float
    draft_peak_bytes: float
    items: dict[str, float] = field(default_factory=dict)
    source: str = "headers"
    unnamed: tuple[str, ...] = ()

    @property
    def target_gib(self) -> float:
        return self.target_bytes / GIB


def rule_for(name: str) -> SplitRule:
    for pattern, row in _COMPILED:
        if pattern.search(name):
            return row
    return UNNAMED_RULE


def is_draft(name: str, geometry: Geometry) -> bool:
    """Next-token layers belong to the draft model, not to the target."""
    if _DRAFT.search(name):
        return True
    layer = _LAYER.search(name)
    in_text = rule_for(name).split not in (VISION, VISION_WHOLE)
    return layer is not None and in_text and geometry.layers > 0 and int(layer.group(1)) >= geometry.layers


def per_rank(tensors: Iterable[Tensor], geometry: Geometry, launch: Launch, source: str = "headers") -> Weights:
    """What the fullest rank holds of these tensors."""
    stages: list[dict[str, float]] = [{} for _stage in range(launch.pp)]
    draft_bytes = vocabulary_bytes = 0.0
    unnamed = []
    draft_has_vocabulary = False
    for tensor in tensors:
        row = rule_for(tensor.name)
        size = _bytes_on_rank(tensor, row, geometry, launch)
        if is_draft(tensor.name, geometry):
            draft_bytes += size
            draft_has_vocabulary = draft_has_vocabulary or row.split in (EMBEDDING, HEAD)
            continue
        if row is UNNAMED_RULE and tensor.size_bytes >= 1 << 20:
            unnamed.append(tensor.name)
        if row.split in (EMBEDDING, HEAD):
            vocabulary_bytes += size
        for stage in _stages_of(tensor.name, row, geometry, launch):
            stages[stage][row.item] = stages[stage].get(row.item, 0.0) + size
    if geometry.latent is not None:
        for items in stages:
            items["absorbed"] = _absorbed_bytes(geometry, launch)
    fullest = max(stages, key=lambda stage: sum(stage.values()))
    peak = draft_bytes + (0.0 if draft_has_vocabulary or not draft_bytes else vocabulary_bytes)
    return Weights(sum(fullest.values()), draft_bytes, peak, fullest, source, tuple(unnamed[:10]))


def _stages_of(name: str, row: SplitRule, geometry: Geometry, launch: Launch) -> list[int]:
    """Pipeline stages that load this tensor."""
    last = launch.pp - 1
    if last == 0:
        return [0]
    layer = _LAYER.search(name)
    if layer is not None and row.split not in (VISION, VISION_WHOLE):
        return [_stage_of_layer(int(layer.group(1)), geometry.layers, launch.pp)]
    if row.split == EMBEDDING:
        return [0, last] if geometry.tied_embeddings else [0]
    return [last] if row.split == HEAD else [0]


def _stage_of_layer(layer: int, layers: int, stages: int) -> int:
    """Equal shares; what is left over goes to the stages before the last."""
    shares = [layers // stages] * stages
    for extra in range(layers % stages):
        shares[-(extra + 2)] += 1
    end = 0
    for stage, share in enumerate(shares):
        end += share
        if layer < end:
            return stage
    return stages - 1


def _bytes_on_rank(tensor: Tensor, row: SplitRule, geometry: Geometry, launch: Launch) -> float:
    size, split = tensor.size_bytes, row.split
    if split == SKIPPED or (split == HEAD and geometry.tied_embeddings):
        return 0.0
    if split in (VISION, VISION_WHOLE) and launch.language_only:
        return 0.0
    if split in (WHOLE, VISION_WHOLE):
        return size
    if split == EMBEDDING:
        return _padded(tensor, launch.attention_tp) / launch.attention_tp
    if split == HEAD:
        return _padded(tensor, launch.tp) / launch.tp
    if split == KEY_VALUE:
        return size / _kv_shares(geometry, launch)
    if split == FUSED_QKV:
        return _fused_bytes(size, geometry, launch)
    if split == ATTENTION:
        return size / launch.attention_tp
    if split == RANKS and row.item == "mlp" and launch.attention_dp > 1 and ".shared_expert" not in tensor.name:
        return size / launch.attention_tp if launch.given.get("moe_dense_tp_size") == 1 else size / launch.tp
    return size / launch.tp


def _padded(tensor: Tensor, shares: int) -> float:
    rows = tensor.shape[0] if tensor.shape else 1
    step = _VOCABULARY_ROWS * shares
    padded_rows = -(-rows // step) * step
    return tensor.size_bytes * padded_rows / rows if rows else 0.0


def _kv_shares(geometry: Geometry, launch: Launch) -> int:
    """By how many the key and value projections are divided: a rank never holds less than one head."""
    return max(1, min(launch.attention_tp, geometry.attention.kv_heads or launch.attention_tp))


def _fused_bytes(size: float, geometry: Geometry, launch: Launch) -> float:
    query = geometry.heads * (2 if geometry.gated_attention else 1)
    kv_part = 2 * geometry.attention.kv_heads / (query + 2 * geometry.attention.kv_heads)
    return size * ((1 - kv_part) / launch.attention_tp + kv_part / _kv_shares(geometry, launch))


def _absorbed_bytes(geometry: Geometry, launch: Launch) -> float:
    """16-bit copies of the key/value up-projection that MLA keeps for decoding."""
    latent = geometry.latent
    if latent is None:
        return 0.0
    layers = -(-geometry.layers // launch.pp)
    wide = geometry.heads * (latent.nope_head_dim + latent.v_head_dim)
    return 2.0 * latent.kv_lora_rank * wide * layers / launch.attention_tp
