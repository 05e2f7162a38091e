# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading safetensors headers, whole and broken."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import headers
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import write_safetensors, write_sharded


@pytest.mark.parametrize("dtype", sorted(headers.DTYPE_BITS))
def test_every_type_is_sized(tmp_path: Path, dtype: str) -> None:
    written = write_safetensors(str(tmp_path / "model.safetensors"), {"a": (dtype, [3, 8]), "b": (dtype, [])})
    checkpoint = headers.read(str(tmp_path))
    assert checkpoint.size_bytes == written
    assert {tensor.name: tensor.shape for tensor in checkpoint.tensors} == {"a": (3, 8), "b": ()}


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_shards_add_up(tmp_path: Path, shards: int) -> None:
    tensors = {f"model.layers.{layer}.mlp.up_proj.weight": ("BF16", [64, 32]) for layer in range(7)}
    written = write_sharded(str(tmp_path), tensors, shards)
    checkpoint = headers.read(str(tmp_path))
    assert checkpoint.size_bytes == written == 7 * 64 * 32 * 2
    assert len(checkpoint.tensors) == 7
    assert len(checkpoint.files) == shards


def test_only_files_of_the_index_count(tmp_path: Path) -> None:
    written = write_sharded(str(tmp_path), {"a": ("F32", [4])}, 1)
    write_safetensors(str(tmp_path / "adapter.safetensors"), {"b": ("F32", [400])})
    assert headers.read(str(tmp_path)).size_bytes == written


def test_the_second_copy_of_some_checkpoints_does_not_count(tmp_path: Path) -> None:
    written = write_safetensors(str(tmp_path / "model.safetensors"), {"a": ("BF16", [4])})
    write_safetensors(str(tmp_path / "consolidated.safetensors"), {"b": ("BF16", [4])})
    assert headers.read(str(tmp_path)).size_bytes == written


def test_tensors_are_not_read(tmp_path: Path) -> None:
    path = str(tmp_path / "model.safetensors")
    write_safetensors(path, {"big": ("BF16", [1 << 20, 1 << 20])})  # two tebibytes of hole
    assert headers.read(str(tmp_path)).size_bytes == 2 << 40


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _with_header(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, object]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "truncated"),
        (b"1234", "truncated"),
        (struct.pack("<Q", 1000) + b"{}", "truncated inside its header"),
        (struct.pack("<Q", 1 << 60), "corrupt (no safetensors header)"),
        (struct.pack("<Q", 3) + b"abc", "not valid JSON"),
        (_with_header([1, 2]), "not a mapping"),
        (_with_header({"a": {"dtype": "BF16"}}), "tensor a is not described"),
        (_with_header(_entry("Q9", [4], 0, 8)), "unknown type Q9"),
        (_with_header(_entry("BF16", [4], 0, 9), b"123456789"), "does not fill its place"),
        (_with_header(_entry("BF16", [-4], 0, 8), b"12345678"), "does not fill its place"),
        (_with_header(_entry("BF16", [4], 0, 8), b"1234"), "4 bytes of tensors are missing"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "model.safetensors"
    _write(path, data)
    with pytest.raises(LlmHostError) as caught:
        headers.read(str(tmp_path))
    assert caught.value.reason == "weights_unreadable"
    assert said in caught.value.message
    assert caught.value.details["path"] == str(path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_sharded(str(tmp_path), {"a": ("F32", [4]), "b": ("F32", [4])}, 2)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(LlmHostError) as caught:
        headers.read(str(tmp_path))
    assert caught.value.reason == "weights_unreadable"
    assert caught.value.details["missing"] == ["model-00002-of-00002.safetensors"]
    assert "1 of 2 files" in caught.value.message


@pytest.mark.parametrize(("index", "said"), [("{", "not valid JSON"), ("{}", "no weight_map"), ("[]", "no weight_map")])
def test_a_broken_index_is_named(tmp_path: Path, index: str, said: str) -> None:
    (tmp_path / headers.INDEX_NAME).write_text(index)
    with pytest.raises(LlmHostError) as caught:
        headers.read(str(tmp_path))
    assert caught.value.reason == "weights_unreadable"
    assert said in caught.value.message


def test_a_folder_without_safetensors_is_named(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(LlmHostError) as caught:
        headers.read(str(tmp_path))
    assert "holds no .safetensors file" in caught.value.message


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LlmHostError) as caught:
        headers.read(str(tmp_path / "absent"))
    assert caught.value.reason == "weights_unreadable"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_must_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(str(path), {"a": ("F32", [4])})
    path.chmod(0)
    with pytest.raises(LlmHostError) as caught:
        headers.read(str(tmp_path))
    assert "Permission denied" in caught.value.message


def test_a_directory_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(LlmHostError) as caught:
        headers.read(str(tmp_path))
    assert "cannot be read" in caught.value.message
