# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Safetensors headers: names, types and shapes of all tensors of a checkpoint, without reading the tensors.

A file starts with eight bytes (little endian: the length of the header), then the header in JSON, then the data.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError

INDEX_NAME = "model.safetensors.index.json"
_LENGTH_BYTES = 8
_LARGEST_HEADER_BYTES = 100_000_000

# Bits per element of the types that the format knows.
DTYPE_BITS: dict[str, int] = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
    "C64": 64,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: float


@dataclass(frozen=True)
class Checkpoint:
    tensors: tuple[Tensor, ...]
    files: tuple[str, ...]

    @property
    def size_bytes(self) -> float:
        return sum(tensor.size_bytes for tensor in self.tensors)


def read(directory: str) -> Checkpoint:
    """All tensors of the checkpoint in ``directory``; raises ``weights_unreadable`` with the file's name."""
    names = _file_names(directory)
    tensors: dict[str, Tensor] = {}
    for name in names:
        for tensor in read_file(os.path.join(directory, name)):
            tensors[tensor.name] = tensor
    return Checkpoint(tuple(tensors.values()), tuple(names))


class Unreadable(LlmHostError):
    """Weights that cannot be taken. ``problem`` tells what is wrong: ``truncated``, ``unknown_type`` or ``corrupt``."""

    def __init__(self, path: str, what: str, problem: str = "corrupt") -> None:
        super().__init__("weights_unreadable", f"{path}: {what}", path=path)
        self.problem = problem


def _unreadable(path: str, what: str, problem: str = "corrupt") -> LlmHostError:
    return Unreadable(path, what, problem)


def _file_names(directory: str) -> list[str]:
    try:
        present = sorted(os.listdir(directory))
    except OSError as error:
        raise _unreadable(directory, f"cannot be listed ({error.strerror})") from error
    if INDEX_NAME in present:
        return _indexed_names(os.path.join(directory, INDEX_NAME), set(present))
    names = [name for name in present if name.endswith(".safetensors")]
    model_names = [name for name in names if not name.startswith("consolidated")]
    if not names:
        raise _unreadable(directory, "holds no .safetensors file; other formats are not read. Check model_path.")
    return model_names or names


def _indexed_names(index_path: str, present: set[str]) -> list[str]:
    try:
        with open(index_path, encoding="utf-8") as text:
            index = json.load(text)
    except OSError as error:
        raise _unreadable(index_path, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _unreadable(index_path, "is not valid JSON; download it again") from error
    weight_map = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(weight_map, Mapping) or not weight_map:
        raise _unreadable(index_path, "has no weight_map; download it again")
    names = sorted({str(name) for name in weight_map.values()})
    missing = [name for name in names if name not in present]
    if missing:
        listed = ", ".join(missing[:3]) + (" and more" if len(missing) > 3 else "")
        raise LlmHostError(
            "weights_unreadable",
            f"{index_path}: {len(missing)} of {len(names)} files that it names are missing: {listed}. "
            "Finish the download.",
            path=index_path,
            missing=missing,
        )
    return names


def read_file(path: str) -> list[Tensor]:
    """The tensors of one file."""
    try:
        file_bytes = os.stat(path).st_size
        with open(path, "rb") as data:
            prefix = data.read(_LENGTH_BYTES)
            if len(prefix) < _LENGTH_BYTES:
                raise _unreadable(path, f"is truncated ({file_bytes} bytes, no header); download it again", "truncated")
            header_bytes = struct.unpack("<Q", prefix)[0]
            if header_bytes > _LARGEST_HEADER_BYTES:
                raise _unreadable(path, "is corrupt (no safetensors header); download it again")
            header = data.read(header_bytes)
    except OSError as error:
        raise _unreadable(path, f"cannot be read ({error.strerror})") from error
    if len(header) < header_bytes:
        raise _unreadable(path, "is truncated inside its header; download it again", "truncated")
    return _tensors(path, header, file_bytes - _LENGTH_BYTES - header_bytes)


def _tensors(path: str, header: bytes, data_bytes: int) -> list[Tensor]:
    try:
        entries = json.loads(header)
    except ValueError as error:
        raise _unreadable(path, "is corrupt (its header is not valid JSON); download it again") from error
    if not isinstance(entries, Mapping):
        raise _unreadable(path, "is corrupt (its header is not a mapping); download it again")
    tensors = []
    last_byte = 0
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        tensor, end = _tensor(path, name, entry)
        last_byte = max(last_byte, end)
        tensors.append(tensor)
    if last_byte > data_bytes:
        raise _unreadable(
            path, f"is truncated: {last_byte - data_bytes} bytes of tensors are missing; download it again", "truncated"
        )
    return tensors


def _tensor(path: str, name: str, entry: Any) -> tuple[Tensor, int]:
    """(tensor, where its data ends)"""
    try:
        dtype, shape = str(entry["dtype"]), tuple(int(size) for size in entry["shape"])
        start, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, f"is corrupt (tensor {name} is not described); download it again") from error
    if dtype not in DTYPE_BITS:
        what = f"tensor {name} has the unknown type {dtype}; this planner cannot size it"
        raise _unreadable(path, what, "unknown_type")
    elements = 1
    for size in shape:
        elements *= size
    size_bytes = (elements * DTYPE_BITS[dtype] + 7) // 8
    if min(shape, default=0) < 0 or start < 0 or end - start != size_bytes:
        raise _unreadable(path, f"is corrupt (tensor {name} does not fill its place); download it again")
    return Tensor(name, dtype, shape, float(size_bytes)), end
