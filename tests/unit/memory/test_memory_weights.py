# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bytes of a checkpoint a rank holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import expected, headers, weights
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import Launch, resolve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import Geometry, from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.headers import Tensor
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.weights import SPLIT_RULES, SplitRule
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import (
    DEEPSEEK,
    GRANITE,
    LLAMA,
    QWEN_LINEAR,
    dense_checkpoint,
    write_sharded,
)

SMALL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 6,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 640,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
BYTES = {"BF16": 2.0, "F16": 2.0, "F32": 4.0}


def _launch(geometry: Geometry, **arguments: Any) -> Launch:
    return resolve(arguments, geometry, (0, 5, 23))


def _read(directory: Path, config: dict[str, Any], dtype: str, linear_dtype: str, shards: int) -> tuple[Tensor, ...]:
    write_sharded(str(directory), dense_checkpoint(config, dtype, linear_dtype), shards)
    return headers.read(str(directory)).tensors


@pytest.mark.parametrize("row", SPLIT_RULES, ids=lambda row: row.example)
def test_a_row_has_an_example_that_hits_it_and_only_it(row: SplitRule) -> None:
    assert weights.rule_for(row.example) is row


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_a_rank_holds_what_it_loads(tmp_path: Path, dtype: str, shards: int, tp: int) -> None:
    """Counted independently: projections by rank, keys and values at least one head, norms whole."""
    geometry = from_config(SMALL)
    held = weights.per_rank(_read(tmp_path, SMALL, dtype, "", shards), geometry, _launch(geometry, tp_size=tp))
    hidden, inter, head_dim = 256, 640, 32
    kv_heads_on_rank = max(1, 2 // tp)
    layer = (2 * 256 * hidden + 3 * inter * hidden) / tp + 2 * kv_heads_on_rank * head_dim * hidden + 2 * hidden
    vocabulary = 2 * 1024 * hidden / tp
    count = 6 * layer + vocabulary + hidden
    assert held.target_bytes == pytest.approx(count * BYTES[dtype], rel=1e-9)


@pytest.mark.parametrize("tp", [1, 2])
def test_fp8_blocks_with_their_scales(tmp_path: Path, tp: int) -> None:
    geometry = from_config(SMALL)
    tensors = _read(tmp_path, SMALL, "BF16", "F8_E4M3", 2)
    held = weights.per_rank(tensors, geometry, _launch(geometry, tp_size=tp))
    stored = sum(
        tensor.size_bytes for tensor in tensors if "layernorm" not in tensor.name and "norm" not in tensor.name
    )
    whole = sum(tensor.size_bytes for tensor in tensors if "norm" in tensor.name)
    assert held.target_bytes == pytest.approx(stored / tp + whole, rel=1e-9)


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("quantised", [False, True])
def test_headers_and_config_agree_within_one_percent(tmp_path: Path, tp: int, quantised: bool) -> None:
    config = {**SMALL, "num_hidden_layers": 4, "hidden_size": 1024, "intermediate_size": 2816, "vocab_size": 4096}
    if quantised:
        config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    geometry = from_config(config)
    launch = _launch(geometry, tp_size=tp)
    from_headers = weights.per_rank(_read(tmp_path, config, "BF16", "F8_E4M3" * quantised, 2), geometry, launch)
    from_numbers = weights.per_rank(expected.tensors(geometry), geometry, launch, "config")
    assert from_numbers.target_bytes == pytest.approx(from_headers.target_bytes, rel=0.01)


def test_quantised_bytes_count_as_they_are_stored() -> None:
    geometry = from_config(SMALL)
    prefix = "model.layers.0.mlp.up_proj"
    packed = (
        Tensor(f"{prefix}.qweight", "I32", (256, 80), 256 * 80 * 4.0),
        Tensor(f"{prefix}.qzeros", "I32", (2, 80), 2 * 80 * 4.0),
        Tensor(f"{prefix}.scales", "F16", (2, 640), 2 * 640 * 2.0),
        Tensor(f"{prefix}.g_idx", "I32", (256,), 1024.0),
    )
    held = weights.per_rank(packed, geometry, _launch(geometry, tp_size=2))
    assert held.target_bytes == sum(tensor.size_bytes for tensor in packed) / 2


def test_tied_embeddings_are_held_once() -> None:
    geometry = from_config({**SMALL, "tie_word_embeddings": True})
    both = (
        Tensor("model.embed_tokens.weight", "BF16", (1024, 256), 524288.0),
        Tensor("lm_head.weight", "BF16", (1024, 256), 524288.0),
    )
    assert weights.per_rank(both, geometry, _launch(geometry)).target_bytes == 524288


def test_vocabularies_are_padded_for_all_ranks() -> None:
    geometry = from_config(SMALL)
    odd = (Tensor("lm_head.weight", "BF16", (1000, 256), 1000 * 512.0),)
    assert weights.per_rank(odd, geometry, _launch(geometry, tp_size=4)).target_bytes == 1024 * 512 / 4


def test_a_fused_projection_keeps_a_head_on_every_rank() -> None:
    geometry = from_config(SMALL)
    fused = (Tensor("model.layers.0.self_attn.qkv_proj.weight", "BF16", (384, 256), 384 * 512.0),)
    held = weights.per_rank(fused, geometry, _launch(geometry, tp_size=8))
    assert held.target_bytes == pytest.approx((256 / 8 + 2 * 32) * 512)


def test_data_parallel_attention_keeps_attention_whole() -> None:
    geometry = from_config(memory_facts.config_of(DEEPSEEK))
    plain = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry, tp_size=8))
    spread = _launch(geometry, tp_size=8, dp_size=8, enable_dp_attention=True)
    replicated = weights.per_rank(expected.tensors(geometry), geometry, spread)
    assert replicated.items["experts"] == plain.items["experts"]
    assert replicated.items["attention"] > 4 * plain.items["attention"]


def test_next_token_layers_belong_to_the_draft() -> None:
    geometry = from_config(memory_facts.config_of(QWEN_LINEAR))
    held = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry, tp_size=2))
    without = [tensor for tensor in expected.tensors(geometry) if not tensor.name.startswith("mtp.")]
    assert held.target_bytes == weights.per_rank(without, geometry, _launch(geometry, tp_size=2)).target_bytes
    assert held.draft_bytes / 2**30 == pytest.approx(0.395, abs=0.01)
    assert held.draft_peak_bytes / 2**30 == pytest.approx(2.75, abs=0.03)


def test_layers_beyond_the_last_belong_to_the_draft() -> None:
    geometry = from_config(memory_facts.config_of(DEEPSEEK))
    assert weights.is_draft("model.layers.61.mlp.experts.3.up_proj.weight", geometry)
    assert not weights.is_draft("model.layers.60.mlp.experts.3.up_proj.weight", geometry)
    assert not weights.is_draft("visual.blocks.99.attn.qkv.weight", geometry)


def test_pictures_are_not_loaded_by_a_text_only_start() -> None:
    geometry = from_config(memory_facts.config_of(QWEN_LINEAR))
    all_of_it = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry))
    text_only = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry, language_only=True))
    assert all_of_it.target_bytes - text_only.target_bytes == all_of_it.items["vision"]


def test_stages_share_layers_and_the_ends_hold_the_vocabulary() -> None:
    geometry = from_config(memory_facts.config_of(LLAMA))
    one = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry))
    two = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry, pp_size=2))
    assert two.target_bytes == pytest.approx(one.target_bytes / 2, rel=1e-6)


def test_layers_that_do_not_divide_go_to_the_stages_before_the_last() -> None:
    stages = [weights._stage_of_layer(layer, 10, 4) for layer in range(10)]
    assert [stages.count(stage) for stage in range(4)] == [2, 3, 3, 2]


def test_mixers_of_hybrid_models_are_divided() -> None:
    geometry = from_config(memory_facts.config_of(GRANITE))
    one = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry))
    two = weights.per_rank(expected.tensors(geometry), geometry, _launch(geometry, tp_size=2))
    assert two.items["linear"] == pytest.approx(one.items["linear"] / 2)


def test_what_has_no_rule_is_held_whole_and_named() -> None:
    geometry = from_config(SMALL)
    strange = (Tensor("something.new", "BF16", (1024, 1024), float(2 << 20)),)
    held = weights.per_rank(strange, geometry, _launch(geometry, tp_size=2))
    assert held.target_bytes == 2 << 20
    assert held.unnamed == ("something.new",)


@pytest.mark.parametrize("method", ["awq", "gptq", "compressed-tensors", "modelopt"])
def test_a_quantised_config_alone_does_not_tell_the_size(method: str) -> None:
    assert not expected.can_expect(from_config({**SMALL, "quantization_config": {"quant_method": method}}))
