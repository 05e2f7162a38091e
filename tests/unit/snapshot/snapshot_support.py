# SPDX-License-Identifier: GPL-3.0-or-later
"""A tiny sharded model, the lab's hub, and wishes as the module makes them."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import struct
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lab/hub"))

import hub as lab_hub  # noqa: E402
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError  # noqa: E402
from ansible_collections.llmhost.sglang.plugins.module_utils._snapshot import snapshot, wish  # noqa: E402

REPO = "owner/tiny"
HAS_CLIENT = bool(os.environ.get("LLMHOST_HUB_VENV")) or importlib.util.find_spec("huggingface_hub") is not None
WHY_NOT = "this Python has no huggingface_hub; the one of the stage 'unit' has"
# the environment whose huggingface_hub is used: another version by LLMHOST_HUB_VENV
VENV = os.environ.get("LLMHOST_HUB_VENV") or sys.prefix
DEFAULTS: dict[str, Any] = {
    "state": "present",
    "repo_id": None,
    "revision": "main",
    "endpoint": None,
    "urls": [],
    "source_path": None,
    "venv": VENV,
    "token": None,
    "token_file": None,
    "allow_patterns": [],
    "ignore_patterns": [],
    "update": False,
    "verify": "size",
    "reader": None,
    "workers": 2,
    "timeout_s": 60.0,
    "stall_s": 20.0,
    "slice_s": 0.0,
    "retries": 2,
    "retry_delay_s": 0.05,
    "reserve_gib": 0.0,
    "lock_timeout_s": 10.0,
}
__all__ = ["LlmHostError", "lab_hub", "snapshot"]


def shard(tensors: dict[str, int]) -> bytes:
    """A safetensors file with F32 vectors of these lengths."""
    header, offset, data = {}, 0, b""
    for number, (name, length) in enumerate(tensors.items()):
        header[name] = {"dtype": "F32", "shape": [length], "data_offsets": [offset, offset + 4 * length]}
        offset += 4 * length
        data += bytes((number + place) % 251 for place in range(4 * length))
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def model_files(length: int = 150000) -> dict[str, bytes]:
    """Two shards, an index, a configuration and a tokenizer."""
    names = {
        "model-00001-of-00002.safetensors": {"a": length, "b": 10},
        "model-00002-of-00002.safetensors": {"c": length},
    }
    index = {"metadata": {}, "weight_map": {tensor: name for name, inside in names.items() for tensor in inside}}
    return {
        "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
        "tokenizer.json": b'{"version": "1.0"}',
        "original/notes.txt": b"kept by its maker",
        "model.safetensors.index.json": json.dumps(index).encode(),
        **{name: shard(tensors) for name, tensors in names.items()},
    }


def write(folder: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def run(
    path: pathlib.Path | str, check_mode: bool = False, environment: dict[str, str] | None = None, **given: Any
) -> Any:
    """What the module does, without Ansible around it."""
    params = {**DEFAULTS, "path": str(path), **given}
    return snapshot.run(wish.read(params, {**os.environ, **(environment or {})}, check_mode))


def content(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".llmhost")
    }
