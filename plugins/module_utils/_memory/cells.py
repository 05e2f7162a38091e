# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Bytes per token of context and per recurrent state, on one rank."""

from __future__ import annotations

from dataclasses import dataclass

from .arguments import Launch
from .geometry import Geometry, Heads
from .versions import Version, rule

_FP4 = 0.5
_FP4_SCALE_BLOCK = 16
_INDEX_QUANT_BLOCK = 128
_STATE_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_CONV_ELEMENT_BYTES = 2


@dataclass(frozen=True)
class Cells:
    """``window_bytes`` is 0 for models without a window pool; ``draft_bytes`` is what a draft model adds."""

    full_bytes: float
    window_bytes: float
    draft_bytes: float


@dataclass(frozen=True)
class StateBytes:
    """One request slot of all linear-attention layers of one rank."""

    conv: int
    recurrent: int

    @property
    def total(self) -> int:
        return self.conv + self.recurrent


def has_window_pool(launch: Launch, geometry: Geometry, version: Version) -> bool:
    known = geometry.architecture in rule("swa_architectures", version)
    return geometry.windowed is not None and launch.window_pool and known


def cells(launch: Launch, geometry: Geometry, version: Version, ascend: bool = False) -> Cells:
    """Bytes per token of the target's pools, without any draft model.

    Ascend sizes its pools like a GPU and then allocates a little more for a sparse index: ``ascend`` gives that.
    """
    if has_window_pool(launch, geometry, version) and geometry.windowed is not None:
        full = _heads_bytes(_of_stage(geometry.windowed.full, launch), launch)
        return Cells(full, _heads_bytes(_of_stage(geometry.windowed.window, launch), launch), 0.0)
    if geometry.latent is not None:
        return Cells(_latent_bytes(launch, geometry, ascend), 0.0, 0.0)
    return Cells(_heads_bytes(_of_stage(geometry.attention, launch), launch), 0.0, 0.0)


def layers_of_stage(layers: int, launch: Launch) -> int:
    """The largest number of layers that one pipeline stage holds."""
    return -(-layers // launch.pp)


def _of_stage(heads: Heads, launch: Launch) -> Heads:
    return Heads(layers_of_stage(heads.layers, launch), heads.kv_heads, heads.head_dim, heads.v_head_dim)


def _heads_bytes(heads: Heads, launch: Launch) -> float:
    per_rank = max(1, heads.kv_heads // launch.attention_tp)
    elements = per_rank * (heads.head_dim + heads.v_head_dim) * heads.layers
    size = elements * launch.kv_element_bytes
    if launch.kv_element_bytes == _FP4:
        size += elements // _FP4_SCALE_BLOCK
    return size


def _latent_bytes(launch: Launch, geometry: Geometry, ascend: bool) -> float:
    latent = geometry.latent
    if latent is None:
        return 0.0
    layers = layers_of_stage(geometry.layers, launch)
    elements = latent.kv_lora_rank + latent.rope_head_dim
    size = elements * layers * launch.kv_element_bytes
    if launch.kv_element_bytes == _FP4:
        size += elements // _FP4_SCALE_BLOCK * layers
    if not latent.index_head_dim:
        return size
    if ascend:
        return size + 2 * latent.index_head_dim * layers
    if launch.kv_element_bytes == 1:  # FP8 rows carry float32 scales, the rotary part stays 16-bit
        scales = latent.kv_lora_rank // _INDEX_QUANT_BLOCK * 4
        size = (latent.kv_lora_rank + scales + 2 * latent.rope_head_dim) * layers
    index = latent.index_head_dim + latent.index_head_dim // _INDEX_QUANT_BLOCK * 4
    return size + index * layers


def draft_cell_bytes(launch: Launch, geometry: Geometry, draft: Geometry | None, target: Cells) -> float:
    """What the draft model's keys and values cost per token of the target's pool."""
    speculation = launch.speculation
    if speculation is None or not speculation.has_draft_model:
        return 0.0
    if speculation.is_dflash:
        return _heads_bytes(draft.attention, launch) if draft is not None else 0.0
    layers = draft.layers if draft is not None else geometry.draft_layers
    stored = geometry.layers if geometry.latent is not None else geometry.attention.layers
    if target.window_bytes and geometry.windowed is not None:
        stored = geometry.windowed.full.layers
    if not layers or not stored:
        return 0.0
    return float(int(target.full_bytes * layers / layers_of_stage(stored, launch)))


def state_bytes(launch: Launch, geometry: Geometry) -> StateBytes:
    linear = geometry.linear
    if linear is None:
        return StateBytes(0, 0)
    tp = launch.attention_tp
    groups = linear.groups if linear.groups % tp == 0 else tp
    layers = layers_of_stage(linear.layers, launch)
    conv_channels = (linear.inner_size + 2 * groups * linear.state_size) // tp
    conv = conv_channels * (linear.conv_kernel - 1) * _CONV_ELEMENT_BYTES * layers
    element_bytes = _STATE_DTYPE_BYTES.get(launch.state_dtype or linear.state_dtype, 4)
    recurrent = linear.heads // tp * linear.head_dim * linear.state_size * element_bytes * layers
    return StateBytes(conv, recurrent)


def slots_per_request(launch: Launch, version: Version) -> int:
    """State slots that one running request needs."""
    if not launch.radix_cache:
        return 1
    kind = rule("state_slots_per_request", version)
    extra = launch.state_strategy != "no_buffer"
    if kind == "three":
        return 3
    if kind == "first_extra_buffer":
        return 4 if extra and launch.speculation is not None else 5
    if not extra:
        return 3
    if kind == "by_speculation":
        return 4 if launch.speculation is not None else 5
    if launch.state_strategy == "extra_buffer_lazy":
        return 4
    return 5 if launch.overlap else 4
