# SPDX-License-Identifier: GPL-3.0-or-later
"""config.json to geometry."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.architectures import (
    ARCHITECTURES,
    UNCOVERED,
    Architecture,
    find,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import Heads, from_config
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts

PLAIN: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "vocab_size": 100,
}


def test_no_architecture_is_listed_twice() -> None:
    names = [row.name for row in ARCHITECTURES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ARCHITECTURES, ids=lambda row: row.name)
def test_an_architecture_is_found_and_says_why_where_it_is_not_covered(row: Architecture) -> None:
    assert find(row.name) == row
    assert bool(row.why_not) == (row.family == UNCOVERED)


@pytest.mark.parametrize("name", sorted(memory_facts.facts()))
def test_the_models_of_the_facts_are_read(name: str) -> None:
    fact = memory_facts.facts()[name]
    geometry = from_config(memory_facts.config_of(name))
    assert geometry.not_covered == ""
    assert geometry.layers == fact.get("layers") or "swa" in fact
    if "linear" in fact and geometry.linear is not None:
        assert geometry.linear.layers == fact["linear"]["layers"]
        assert geometry.attention.layers == geometry.layers - geometry.linear.layers
    if "mla" in fact and geometry.latent is not None:
        assert geometry.latent.kv_lora_rank == 512
        assert geometry.latent.index_head_dim == fact.get("index_head_dim", 0)
    if "swa" in fact and geometry.windowed is not None:
        swa = fact["swa"]
        assert geometry.windowed.full.layers == swa["full_layers"]
        assert geometry.windowed.window == Heads(
            swa["swa_layers"], swa["swa_kv_heads"], swa["swa_head_dim"], swa["swa_head_dim"]
        )


def test_what_a_config_leaves_out_is_derived() -> None:
    geometry = from_config(PLAIN)
    assert geometry.attention == Heads(4, 8, 8, 8)
    assert geometry.context_length == 2048


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        ({}, 4096),
        ({"factor": 4.0, "rope_type": "yarn"}, 16384),
        ({"factor": 4.0, "rope_type": "yarn", "original_max_position_embeddings": 4096}, 4096),
        ({"factor": 8.0, "rope_type": "llama3"}, 4096),
    ],
)
def test_a_stretched_context(scaling: dict[str, Any], context: int) -> None:
    config = {**PLAIN, "max_position_embeddings": 4096, "rope_scaling": scaling or None}
    assert from_config(config).context_length == context


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config"])
def test_numbers_of_the_language_part_count(part: str) -> None:
    inner = {name: value for name, value in PLAIN.items() if name != "architectures"}
    config = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], part: inner, "hidden_size": 1}
    assert from_config(config).hidden == 64


def test_a_hybrid_pattern_is_counted() -> None:
    config = {
        **PLAIN,
        "architectures": ["NemotronHForCausalLM"],
        "num_hidden_layers": 8,
        "hybrid_override_pattern": "M-M*M-M*",
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 2,
        "ssm_state_size": 32,
        "conv_kernel": 4,
    }
    geometry = from_config(config)
    assert geometry.linear is not None
    assert geometry.linear.layers == 4
    assert geometry.linear.inner_size == 64


def test_both_kinds_in_every_layer() -> None:
    config = {
        **PLAIN,
        "architectures": ["FalconH1ForCausalLM"],
        "model_type": "falcon_h1",
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_n_groups": 2,
        "mamba_d_state": 32,
        "mamba_d_conv": 4,
        "mamba_d_ssm": 96,
    }
    geometry = from_config(config)
    assert geometry.linear is not None
    assert (geometry.linear.layers, geometry.attention.layers, geometry.linear.inner_size) == (4, 4, 96)


def test_llama_4_keeps_every_fourth_layer_whole() -> None:
    inner = {**PLAIN, "num_hidden_layers": 48, "attention_chunk_size": 8192, "num_key_value_heads": 8}
    geometry = from_config({"architectures": ["Llama4ForConditionalGeneration"], "text_config": inner})
    assert geometry.windowed is not None
    assert (geometry.windowed.full.layers, geometry.windowed.window.layers) == (12, 36)
    assert geometry.windowed.window_tokens == 8192


@pytest.mark.parametrize(
    "section",
    [
        {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"},
        {"quant_method": "compressed-tensors", "kv_cache_scheme": {"type": "float", "num_bits": 8}},
    ],
)
def test_a_checkpoint_may_ask_for_an_fp8_cache(section: dict[str, Any]) -> None:
    assert from_config({**PLAIN, "quantization_config": section}).fp8_kv_checkpoint
    assert not from_config({**PLAIN, "quantization_config": {"quant_method": "fp8"}}).fp8_kv_checkpoint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": []}, "architectures"),
        ({"architectures": None}, "architectures"),
        ({"num_hidden_layers": None}, "'num_hidden_layers' is missing"),
        ({"num_hidden_layers": "four"}, "'num_hidden_layers' is 'four'"),
        ({"num_attention_heads": -8}, "'num_attention_heads' is -8"),
        ({"architectures": ["GptOssForCausalLM"]}, "'layer_types' is missing"),
        ({"architectures": ["DeepseekV3ForCausalLM"]}, "'kv_lora_rank' is missing"),
    ],
)
def test_a_config_that_cannot_be_planned_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(LlmHostError) as caught:
        from_config({**PLAIN, **change})
    assert caught.value.reason == "model_config_invalid"
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["NobodyKnowsForCausalLM"]}, "NobodyKnowsForCausalLM"),
        ({"architectures": ["DeepseekV4ForCausalLM"]}, "compressed attention"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
    ],
)
def test_what_is_not_covered_says_so(change: dict[str, Any], said: str) -> None:
    assert said in from_config({**PLAIN, **change}).not_covered
