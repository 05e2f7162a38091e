# SPDX-License-Identifier: GPL-3.0-or-later
"""Models, cards and checkpoints that several tests use."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.headers import DTYPE_BITS
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.problem import Gpu, Problem
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
QWEN_LINEAR = "Qwen/Qwen3.6-27B"
DEEPSEEK = "deepseek-ai/DeepSeek-R1"
GRANITE = "ibm-granite/granite-4.0-h-micro"

# The start that this planner was built for: two cards of 48 GB, and an error that blames the fraction.
FOUNDING_ARGUMENTS: dict[str, Any] = {
    "tp_size": 2,
    "mem_fraction_static": 0.85,
    "context_length": 65536,
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "enable_torch_compile": True,
}


def cards(count: int, total_mib: int, name: str = "NVIDIA RTX A6000", free_mib: int | None = None) -> tuple[Gpu, ...]:
    return tuple(Gpu(index, name, total_mib, free_mib) for index in range(count))


def problem(model: str, version: str, arguments: dict[str, Any], gpus: tuple[Gpu, ...], **more: Any) -> Problem:
    return Problem(from_config(memory_facts.config_of(model)), arguments, parse(version), gpus, **more)


def founding(version: str, **changes: Any) -> Problem:
    arguments = {name: value for name, value in {**FOUNDING_ARGUMENTS, **changes}.items() if value is not None}
    return problem(QWEN_LINEAR, version, arguments, cards(2, 49140))


def write_safetensors(path: str, tensors: dict[str, tuple[str, list[int]]]) -> int:
    """A file with these tensors, all zero; the data is a hole. Returns the bytes of tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        elements = 1
        for size in shape:
            elements *= size
        end = offset + (elements * DTYPE_BITS[dtype] + 7) // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
    return offset


def write_sharded(directory: str, tensors: dict[str, tuple[str, list[int]]], shards: int) -> int:
    """The same tensors in several files with an index. Returns the bytes of tensors."""
    weight_map = {}
    total = 0
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        total += write_safetensors(os.path.join(directory, name), part)
        weight_map.update({tensor: name for tensor in part})
    with open(os.path.join(directory, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file)
    return total


def dense_checkpoint(config: dict[str, Any], dtype: str, linear_dtype: str = "") -> dict[str, tuple[str, list[int]]]:
    """What a dense decoder with these numbers stores, as Hugging Face writes it."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim", hidden // heads)
    kv_rows, inter = config["num_key_value_heads"] * head_dim, config["intermediate_size"]
    shapes = {
        "self_attn.q_proj": [heads * head_dim, hidden],
        "self_attn.k_proj": [kv_rows, hidden],
        "self_attn.v_proj": [kv_rows, hidden],
        "self_attn.o_proj": [hidden, heads * head_dim],
        "mlp.gate_proj": [inter, hidden],
        "mlp.up_proj": [inter, hidden],
        "mlp.down_proj": [hidden, inter],
    }
    tensors: dict[str, tuple[str, list[int]]] = {"model.embed_tokens.weight": (dtype, [config["vocab_size"], hidden])}
    if not config.get("tie_word_embeddings"):
        tensors["lm_head.weight"] = (dtype, [config["vocab_size"], hidden])
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        for name, shape in shapes.items():
            tensors[f"{prefix}.{name}.weight"] = (linear_dtype or dtype, shape)
            if linear_dtype:
                tensors[f"{prefix}.{name}.weight_scale_inv"] = ("F32", [-(-shape[0] // 128), -(-shape[1] // 128)])
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}.{norm}.weight"] = (dtype, [hidden])
    tensors["model.norm.weight"] = (dtype, [hidden])
    return tensors
