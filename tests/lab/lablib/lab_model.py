# SPDX-License-Identifier: GPL-3.0-or-later
"""A tiny chat model with random weights, written with the standard library alone, and its broken variants.

About 140,000 parameters: what it says is noise, but it loads, has a tokenizer and a chat template, and answers. The
same call writes the same bytes. A larger ``inner`` size makes weights of any size, where their size is the question.
"""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

from lab_common import LabError, make_folder, put_owner

VOCAB, HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 512, 64, 128, 2, 4, 2, 16
CONTEXT = 512
SPECIAL = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
WORDS = ("hello", "world", "the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog")
WORDS += ("system", "user", "assistant", "answer", "name", "is", "yes", "no")

# How a model can be broken, and what the real SGLang 0.5.23 makes of it (exit code, root cause).
BROKEN = {
    "corrupt": "the header of the weights is no JSON (safetensors: 'Error while deserializing header')",
    "truncated": "the second half of the weights is missing ('incomplete metadata, file not fully covered')",
    "zero": "the weights are an empty file ('header too small')",
    "noweights": "no weights at all ('Cannot find any model weights')",
    "unreadable": "the weights have mode 0600, so only root reads them (safetensors says 'No such file or directory')",
    "badarch": "an architecture that nobody knows ('not a registered model')",
    "noconfig": "no config.json ('Unrecognized model')",
}


def make(folder: Path, kind: str = "llama", broken: str = "", inner: int = INNER) -> None:
    if kind not in ARCHITECTURES:
        raise LabError(f"model '{kind}': choose one of {', '.join(ARCHITECTURES)}")
    if broken and broken not in BROKEN:
        raise LabError(f"--break {broken}: choose one of {', '.join(BROKEN)}")
    make_folder(folder.absolute())
    config = model_config(kind, inner)
    if broken == "badarch":
        config["architectures"] = ["NoSuchForCausalLM"]
    put_json(folder / "config.json", config)
    put_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 4, "pad_token_id": 0})
    put_json(folder / "tokenizer.json", tokenizer())
    put_json(folder / "tokenizer_config.json", tokenizer_config())
    weights = safetensors(shapes(kind, inner))
    if broken == "corrupt":
        weights = weights[:8] + b"\xff" * 64 + weights[72:]
    elif broken == "truncated":
        weights = weights[: len(weights) // 2]
    elif broken == "zero":
        weights = b""
    put(folder / "model.safetensors", weights)
    put_owner(folder)
    if broken == "noweights":
        (folder / "model.safetensors").unlink()
    elif broken == "unreadable":
        (folder / "model.safetensors").chmod(0o600)
    elif broken == "noconfig":
        (folder / "config.json").unlink()
    print(
        f"{folder}: {kind}, {sum(a * (b or 1) for a, b in shapes(kind, inner).values())} parameters"
        + f" ({broken})" * bool(broken)
    )


def put(place: Path, data: bytes) -> None:
    """World-readable, whatever the umask: an unreadable model has its own variant."""
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    aside.write_bytes(data)
    aside.chmod(0o644)
    aside.rename(place)


def put_json(place: Path, what: object) -> None:
    put(place, (json.dumps(what, indent=2, ensure_ascii=False) + "\n").encode())


def model_config(kind: str, inner: int = INNER) -> dict[str, object]:
    config: dict[str, object] = {
        "architectures": [ARCHITECTURES[kind]],
        "model_type": kind,
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": inner,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": CONTEXT,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "initializer_range": 0.02,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 4,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
        "use_cache": True,
        "torch_dtype": "bfloat16",
    }
    if kind != "qwen2":
        config["head_dim"] = HEAD
    if kind == "llama":
        config["mlp_bias"] = False
    if kind == "qwen2":
        config["use_sliding_window"] = False
    return config


def shapes(kind: str, inner: int = INNER) -> dict[str, tuple[int, int]]:
    """Names and shapes of the tensors; a second size of 0 is a vector."""
    out: dict[str, tuple[int, int]] = {"model.embed_tokens.weight": (VOCAB, HIDDEN)}
    for number in range(LAYERS):
        layer = f"model.layers.{number}."
        out[layer + "input_layernorm.weight"] = (HIDDEN, 0)
        out[layer + "post_attention_layernorm.weight"] = (HIDDEN, 0)
        for name, rows in (("q", HEADS * HEAD), ("k", KV_HEADS * HEAD), ("v", KV_HEADS * HEAD)):
            out[layer + f"self_attn.{name}_proj.weight"] = (rows, HIDDEN)
            if kind == "qwen2":
                out[layer + f"self_attn.{name}_proj.bias"] = (rows, 0)
        out[layer + "self_attn.o_proj.weight"] = (HIDDEN, HEADS * HEAD)
        if kind == "qwen3":
            out[layer + "self_attn.q_norm.weight"] = (HEAD, 0)
            out[layer + "self_attn.k_norm.weight"] = (HEAD, 0)
        out[layer + "mlp.gate_proj.weight"] = (inner, HIDDEN)
        out[layer + "mlp.up_proj.weight"] = (inner, HIDDEN)
        out[layer + "mlp.down_proj.weight"] = (HIDDEN, inner)
    out["model.norm.weight"] = (HIDDEN, 0)
    out["lm_head.weight"] = (VOCAB, HIDDEN)
    return out


def safetensors(tensors: dict[str, tuple[int, int]]) -> bytes:
    """Eight bytes of length, a JSON header, the numbers: bfloat16 is the upper half of a float32."""
    noise = random.Random(0)
    many = 1 << 20  # so many are zeros: random ones take minutes
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, (rows, columns) in sorted(tensors.items()):
        count = rows * (columns or 1)
        begin = len(body)
        if count >= many:
            body += bytes(2 * count)
        else:
            norm = name.endswith("norm.weight")
            values = [1.0] * count if norm else [noise.gauss(0.0, 0.02) for dummy in range(count)]
            body += b"".join(struct.pack("<f", value)[2:] for value in values)
        shape = [rows, columns] if columns else [rows]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, len(body)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(body)


# ---------------------------------------------------------------- the tokenizer
def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in byte-level BPE: printable ones for themselves, others from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {}, 256
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(extra)
            extra += 1
    return [table[byte] for byte in range(256)]


def tokenizer() -> dict[str, object]:
    """Byte-level BPE: 5 special tokens, 256 bytes, merges that build some words letter by letter, then a filler."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL)}
    for letter in byte_alphabet():
        vocabulary.setdefault(letter, len(vocabulary))
    space, merges = byte_alphabet()[32], []
    for word in WORDS:
        for prefix in ("", space):
            so_far = (prefix + word)[0]
            for letter in (prefix + word)[1:]:
                if so_far + letter not in vocabulary and len(vocabulary) < VOCAB:
                    vocabulary[so_far + letter] = len(vocabulary)
                    merges.append([so_far, letter])
                so_far += letter
                if so_far not in vocabulary:
                    break
    for token in range(len(vocabulary), VOCAB):
        vocabulary[f"<|unused{token}|>"] = token
    added = [
        {
            "id": n,
            "content": t,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for n, t in enumerate(SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocabulary,
        "merges": merges,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": model,
    }


def tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "<|im_end|>",
        "pad_token": "<pad>",
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
