# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts beside these tests: geometry of public models, and starts of real servers with what they logged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"

# Which model's geometry a logged start has, where the names differ.
SAME_GEOMETRY = {
    "Qwen3-32B-w8a8-MindIE": "Qwen/Qwen3-32B",
    "Qwen3-32B": "Qwen/Qwen3-32B",
    "Qwen3-235B-A22B-W8A8": "Qwen/Qwen3-235B-A22B",
    "Qwen3-235B-A22B": "Qwen/Qwen3-235B-A22B",
    "Qwen3-30B-A3B-w8a8": "Qwen/Qwen3-30B-A3B",
    "Qwen3-Next-80B-A3B-Instruct-W8A8": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "DeepSeek-R1-0528-w8a8": "deepseek-ai/DeepSeek-R1",
    "DeepSeek-R1-0528-w4a8-per-channel": "deepseek-ai/DeepSeek-R1",
    "DeepSeek-V3.2-Exp-W8A8": "deepseek-ai/DeepSeek-V3.2-Exp",
    "Qwen3-Coder-480B-A35B-Instruct-w8a8-QuaRot": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "Qwen/Qwen3-30B-A3B-FP8": "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B",
    "Qwen/Qwen3.8-27B-FP8": "Qwen/Qwen3.8-27B",
    "nvidia/Qwen3.8-27B-NVFP4": "Qwen/Qwen3.8-27B",
    "Qwen3.8-27B-NVFP4": "Qwen/Qwen3.8-27B",
    "deepreinforce-ai/Ornith-1.0-9B": "Qwen/Qwen3.5-9B",
    "poolside/Laguna-S-2.1-NVFP4": "poolside/Laguna-S-2.1",
    "poolside/Laguna-S-2.1-INT4": "poolside/Laguna-S-2.1",
    "google/gemma-4-26B-A4B": "google/gemma-4-26B-A4B-it",
}
_QUANTISED_NAMES = ("NVFP4", "AWQ", "AutoRound", "INT4", "Kimi", "w8a8", "W8A8", "w4a8", "FP8-DYNAMIC")
_PLAIN = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "inter": "intermediate_size",
    "vocab": "vocab_size",
    "experts": "num_experts",
    "moe_inter": "moe_intermediate_size",
    "shared_inter": "shared_expert_intermediate_size",
    "shared_experts": "n_shared_experts",
    "first_k_dense": "first_k_dense_replace",
    "max_pos": "max_position_embeddings",
    "mtp_layers": "mtp_num_hidden_layers",
    "full_attention_interval": "full_attention_interval",
    "attn_output_gate": "attn_output_gate",
    "sliding_window": "sliding_window",
    "index_head_dim": "index_head_dim",
}
_DELTA = {
    "num_v_heads": "linear_num_value_heads",
    "num_k_heads": "linear_num_key_heads",
    "head_k_dim": "linear_key_head_dim",
    "head_v_dim": "linear_value_head_dim",
    "conv_kernel": "linear_conv_kernel_dim",
}
_MAMBA2 = {
    "num_heads": "mamba_n_heads",
    "head_dim": "mamba_d_head",
    "state": "mamba_d_state",
    "n_groups": "mamba_n_groups",
    "conv_kernel": "mamba_d_conv",
}
_LATENT = {
    "kv_lora": "kv_lora_rank",
    "rope": "qk_rope_head_dim",
    "nope": "qk_nope_head_dim",
    "v": "v_head_dim",
    "q_lora": "q_lora_rank",
}
_VISION = {
    "depth": "depth",
    "hidden": "hidden_size",
    "inter": "intermediate_size",
    "out_hidden": "out_hidden_size",
    "patch": "patch_size",
    "temporal_patch": "temporal_patch_size",
    "merge": "spatial_merge_size",
    "pos": "num_position_embeddings",
}


def starts() -> list[dict[str, Any]]:
    with open(DATA / "starts.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def facts() -> dict[str, dict[str, Any]]:
    with open(DATA / "model_facts.json", encoding="utf-8") as text:
        result: dict[str, dict[str, Any]] = json.load(text)
    return result


def model_of(start: dict[str, Any]) -> str | None:
    """The model whose geometry this start has, or None where it is not known."""
    name = start["model"].split(" (")[0]
    known = SAME_GEOMETRY.get(name, name)
    return known if known in facts() else None


def is_quantised(start: dict[str, Any]) -> bool:
    return any(name in start["model"] for name in _QUANTISED_NAMES)


def config_of(name: str, fp8_weights: bool = False) -> dict[str, Any]:
    """A config.json as it would be written for these facts."""
    fact = facts()[name]
    text: dict[str, Any] = {theirs: fact[ours] for ours, theirs in _PLAIN.items() if ours in fact}
    text["tie_word_embeddings"] = fact.get("tied", False)
    text.update({theirs: fact["mla"][ours] for ours, theirs in _LATENT.items()} if "mla" in fact else {})
    linear = fact.get("linear")
    if linear is not None:
        names = _DELTA if linear["kind"] == "gdn" else _MAMBA2
        text.update({theirs: linear[ours] for ours, theirs in names.items()})
    if "full_attention_layers" in fact:
        mamba_layers = fact["layers"] - fact["full_attention_layers"]
        text["layer_types"] = ["mamba"] * mamba_layers + ["attention"] * fact["full_attention_layers"]
    if "swa" in fact:
        text.update(_window_config(fact["arch"], fact["swa"]))
    config: dict[str, Any] = {"architectures": [fact["arch"]], "torch_dtype": "bfloat16"}
    if fp8_weights:
        config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    if "vision" in fact:
        vision = {theirs: fact["vision"][ours] for ours, theirs in _VISION.items() if ours in fact["vision"]}
        if fact["vision"].get("kind") == "siglip":
            vision["num_hidden_layers"] = vision.pop("depth")
        return {**config, "text_config": text, "vision_config": vision}
    return {**config, **text}


def _window_config(architecture: str, swa: dict[str, int]) -> dict[str, Any]:
    layers = ["sliding_attention"] * swa["swa_layers"] + ["full_attention"] * swa["full_layers"]
    common = {"num_hidden_layers": len(layers), "layer_types": layers, "max_position_embeddings": 131072}
    if architecture.startswith("Gemma4"):
        return {
            **common,
            "head_dim": swa["swa_head_dim"],
            "num_key_value_heads": swa["swa_kv_heads"],
            "global_head_dim": swa["full_head_dim"],
            "num_global_key_value_heads": swa["full_kv_heads"],
        }
    return {
        **common,
        "head_dim": swa["full_head_dim"],
        "num_key_value_heads": swa["full_kv_heads"],
        "swa_head_dim": swa["swa_head_dim"],
        "swa_num_key_value_heads": swa["swa_kv_heads"],
    }


def version_of(start: dict[str, Any]) -> str:
    """The release that this start ran or, for builds without one, the release of its time."""
    said = start["sglang_version"]
    if "0.5.2x" in said:
        return "0.5.20"
    if start["id"].startswith("4090x2-qwen3.5-9b"):
        return "0.5.10"
    match = re.search(r"0\.\d+\.\d+", said)
    if match and match.group(0) != "0.0.0":
        return match.group(0)
    return "0.5.10" if "2026-04" in str(start.get("date")) else "0.5.20"


def arguments_of(start: dict[str, Any]) -> dict[str, Any]:
    return {**start["args"], "tp_size": start["tp"], "dp_size": start["dp"]}


def is_ascend(start: dict[str, Any]) -> bool:
    return bool(start["gpu"].startswith("Ascend"))


def is_rocm(start: dict[str, Any]) -> bool:
    return bool(start["gpu"].startswith("MI3"))
