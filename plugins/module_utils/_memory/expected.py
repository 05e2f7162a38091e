# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The tensors that a config.json promises: what to plan with where the checkpoint itself is not at hand.

Only for checkpoints that store what the config says: 16-bit or 32-bit weights, and FP8 with 128 x 128 blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from .geometry import Experts, Geometry, Latent, LinearState
from .headers import Tensor

_DTYPE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
_FP8_BLOCK_BYTES = 1 + 4 / (128 * 128)  # one float32 scale a block
_PLAIN_BYTES = 2.0


def can_expect(geometry: Geometry) -> bool:
    """Does the config alone tell the size of the weights?"""
    if not geometry.hidden or not geometry.vocab or geometry.quantization not in (None, "fp8"):
        return False
    return geometry.weight_dtype in _DTYPE_BYTES


def tensors(geometry: Geometry) -> list[Tensor]:
    """One entry a matrix (all experts of a layer in one)."""
    return list(_all(geometry))


def _all(geometry: Geometry) -> Iterator[Tensor]:
    plain = _DTYPE_BYTES[geometry.weight_dtype]
    linear = _FP8_BLOCK_BYTES if geometry.quantization == "fp8" else plain
    builder = _Builder(geometry, linear, plain)
    yield builder.plain("model.embed_tokens.weight", geometry.vocab, geometry.hidden)
    if not geometry.tied_embeddings:
        yield builder.plain("lm_head.weight", geometry.vocab, geometry.hidden)
    recurrent = geometry.linear.layers if geometry.linear is not None else 0
    attended = geometry.attention.layers
    for layer in range(geometry.layers):
        prefix = f"model.layers.{layer}"
        if geometry.linear is not None and layer < recurrent:
            yield from builder.recurrent(prefix, geometry.linear)
        if layer >= geometry.layers - attended:
            yield from builder.attention(prefix)
        yield from builder.feed_forward(prefix, layer)
        yield builder.plain(f"{prefix}.input_layernorm.weight", 4, geometry.hidden)
    yield from builder.vision()
    for layer in range(geometry.draft_layers):
        prefix = f"mtp.layers.{layer}"
        yield from builder.attention(prefix)
        yield from builder.feed_forward(prefix, geometry.layers)
        yield builder.plain(f"{prefix}.mlp.fc.weight", geometry.hidden, 2 * geometry.hidden)


class _Builder:
    """Shapes of one model, with bytes per element of its linear layers and of everything else."""

    def __init__(self, geometry: Geometry, linear_bytes: float, plain_bytes: float) -> None:
        self.geometry = geometry
        self.linear_bytes = linear_bytes
        self.plain_bytes = plain_bytes

    def linear(self, name: str, rows: int, columns: int) -> Tensor:
        return Tensor(name, "linear", (rows, columns), rows * columns * self.linear_bytes)

    def plain(self, name: str, rows: int, columns: int) -> Tensor:
        return Tensor(name, "plain", (rows, columns), rows * columns * self.plain_bytes)

    def attention(self, prefix: str) -> Iterator[Tensor]:
        geometry, hidden = self.geometry, self.geometry.hidden
        if geometry.latent is not None:
            yield from self._latent(prefix, geometry.latent)
            return
        heads = geometry.attention
        gate = 2 if geometry.gated_attention else 1
        yield self.linear(f"{prefix}.self_attn.q_proj.weight", geometry.heads * heads.head_dim * gate, hidden)
        yield self.linear(f"{prefix}.self_attn.k_proj.weight", heads.kv_heads * heads.head_dim, hidden)
        yield self.linear(f"{prefix}.self_attn.v_proj.weight", heads.kv_heads * heads.v_head_dim, hidden)
        yield self.linear(f"{prefix}.self_attn.o_proj.weight", hidden, geometry.heads * heads.v_head_dim)

    def _latent(self, prefix: str, latent: Latent) -> Iterator[Tensor]:
        hidden, heads = self.geometry.hidden, self.geometry.heads
        query_dim = latent.nope_head_dim + latent.rope_head_dim
        attention = f"{prefix}.self_attn"
        if latent.q_lora_rank:
            yield self.linear(f"{attention}.q_a_proj.weight", latent.q_lora_rank, hidden)
            yield self.linear(f"{attention}.q_b_proj.weight", heads * query_dim, latent.q_lora_rank)
        else:
            yield self.linear(f"{attention}.q_proj.weight", heads * query_dim, hidden)
        yield self.linear(f"{attention}.kv_a_proj_with_mqa.weight", latent.kv_lora_rank + latent.rope_head_dim, hidden)
        wide = heads * (latent.nope_head_dim + latent.v_head_dim)
        yield self.linear(f"{attention}.kv_b_proj.weight", wide, latent.kv_lora_rank)
        yield self.linear(f"{attention}.o_proj.weight", hidden, heads * latent.v_head_dim)

    def recurrent(self, prefix: str, state: LinearState) -> Iterator[Tensor]:
        hidden = self.geometry.hidden
        keys = state.groups * state.state_size
        if state.kind == "delta":
            module = f"{prefix}.linear_attn"
            yield self.linear(f"{module}.in_proj_qkvz.weight", 2 * keys + 2 * state.inner_size, hidden)
            yield self.plain(f"{module}.in_proj_ba.weight", 2 * state.heads, hidden)
        else:
            module = f"{prefix}.mamba"
            yield self.linear(f"{module}.in_proj.weight", 2 * state.inner_size + 2 * keys + state.heads, hidden)
        yield self.plain(f"{module}.conv1d.weight", state.inner_size + 2 * keys, state.conv_kernel)
        yield self.linear(f"{module}.out_proj.weight", hidden, state.inner_size)

    def feed_forward(self, prefix: str, layer: int) -> Iterator[Tensor]:
        experts, hidden = self.geometry.experts, self.geometry.hidden
        if experts is None or layer < experts.dense_layers:
            if self.geometry.intermediate:
                yield self.linear(f"{prefix}.mlp.up_proj.weight", 3 * self.geometry.intermediate, hidden)
            return
        yield from self._experts(prefix, experts)

    def _experts(self, prefix: str, experts: Experts) -> Iterator[Tensor]:
        hidden = self.geometry.hidden
        yield self.linear(f"{prefix}.mlp.experts.all.weight", experts.count * 3 * experts.intermediate, hidden)
        yield self.plain(f"{prefix}.mlp.gate.weight", experts.count, hidden)
        if experts.shared_intermediate:
            yield self.linear(f"{prefix}.mlp.shared_experts.all.weight", 3 * experts.shared_intermediate, hidden)

    def vision(self) -> Iterator[Tensor]:
        vision = self.geometry.vision
        if vision is None:
            return
        block = 4 * vision.hidden + 2 * vision.intermediate
        for layer in range(vision.depth):
            yield Tensor(f"visual.blocks.{layer}.weight", "BF16", (block, vision.hidden), 2.0 * block * vision.hidden)
        patch = 3 * vision.temporal_patch * vision.patch**2
        yield Tensor("visual.patch_embed.weight", "BF16", (vision.hidden, patch), 2.0 * vision.hidden * patch)
        positions = vision.positions * vision.hidden
        yield Tensor("visual.pos_embed.weight", "BF16", (vision.positions, vision.hidden), 2.0 * positions)
        out_hidden = vision.out_hidden or self.geometry.hidden
        wide = vision.hidden * (vision.merge**2 if vision.merge else 1)
        merger = (wide**2 if vision.merge else 0) + wide * out_hidden
        yield Tensor("visual.merger.weight", "BF16", (merger, 1), 2.0 * merger)
