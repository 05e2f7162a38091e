# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a small model: config.json, two safetensors files that are holes behind their headers, and their index."""

from __future__ import annotations

import json
import os
import struct
import sys

LAYERS, HIDDEN, INTERMEDIATE, VOCABULARY = 4, 256, 512, 1024
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": INTERMEDIATE,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


def shapes() -> dict[str, tuple[int, int]]:
    tensors = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "lm_head.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for name, rows in (("q_proj", HIDDEN), ("k_proj", 64), ("v_proj", 64), ("o_proj", HIDDEN)):
            tensors[f"{prefix}.self_attn.{name}.weight"] = (rows, HIDDEN)
        for name in ("gate_proj", "up_proj", "down_proj"):
            tensors[f"{prefix}.mlp.{name}.weight"] = (INTERMEDIATE, HIDDEN)
    return tensors


def write(path: str, tensors: dict[str, tuple[int, int]]) -> None:
    header, end = {}, 0
    for name, (rows, columns) in tensors.items():
        start, end = end, end + rows * columns * 2
        header[name] = {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def main(directory: str) -> None:
    tensors = list(shapes().items())
    weight_map = {}
    for number, part in ((1, dict(tensors[::2])), (2, dict(tensors[1::2]))):
        name = f"model-{number:05d}-of-00002.safetensors"
        write(os.path.join(directory, name), part)
        weight_map.update(dict.fromkeys(part, name))
    for name, document in (("config.json", CONFIG), ("model.safetensors.index.json", {"weight_map": weight_map})):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            json.dump(document, file)


if __name__ == "__main__":
    main(sys.argv[1])
