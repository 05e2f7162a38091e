# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Is a folder a whole model? Looks at every file; reads their contents only where it is asked to."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from .._errors import LlmHostError
from .._memory import headers
from .manifest import Entry, Manifest
from .model import MANIFEST_NAME, STAGING_NAME, Problem

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
CONFIGS = ("config.json", "params.json")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
POINTER = b"version https://git-lfs.github.com/spec/"
BLOCK_BYTES = 1 << 22
# What is told first where several things are wrong: the cause before what follows from it.
ORDER = (
    "not_present",
    "unreadable",
    "missing_file",
    "missing_shard",
    "lfs_pointer",
    "zero_bytes",
    "truncated",
    "size_mismatch",
    "hash_mismatch",
    "header_corrupt",
    "index_invalid",
    "index_mismatch",
    "config_missing",
    "config_invalid",
    "no_weights",
)


def names(folder: str) -> list[str]:
    """Every file below a folder, relative, without what is ours and what the hub's tools leave behind."""
    found = []
    for top, folders, files in os.walk(folder):
        inside = os.path.relpath(top, folder)
        folders[:] = sorted(
            name for name in folders if not (inside == "." and name in (STAGING_NAME, ".cache", ".git"))
        )
        for name in files:
            if not (inside == "." and name.startswith(MANIFEST_NAME)):
                found.append(name if inside == "." else os.path.join(inside, name))
    return sorted(found)


def is_weights(name: str) -> bool:
    return name.endswith(WEIGHTS)


def model(folder: str, whole: bool = True) -> list[Problem]:
    """What is wrong with the model in a folder, by its own words: indexes, headers, sizes that they tell.

    Without ``whole`` a part of a model is fine, such as a tokenizer alone.
    """
    if not os.path.isdir(folder):
        return [Problem("not_present", "", f"{folder} is not there")]
    present = names(folder)
    problems = [problem for name in present for problem in file(folder, name)]
    bad = {problem.file for problem in problems}
    if whole:
        problems += _config(folder, present, bad)
        if not any(is_weights(name) for name in present):
            problems.append(Problem("no_weights", "", f"{folder} holds no weights ({', '.join(WEIGHTS)})"))
    for name in INDEXES:
        if name in present and name not in bad:
            problems += _index(folder, name, set(present), bad)
    return sorted(problems, key=lambda problem: ORDER.index(problem.reason))


def file(folder: str, name: str) -> list[Problem]:
    """What is wrong with one file by itself."""
    path = os.path.join(folder, name)
    try:
        size = os.stat(path).st_size
        with open(path, "rb") as content:
            start = content.read(len(POINTER))
    except OSError as error:
        return [Problem("unreadable", name, f"cannot be read ({error.strerror})")]
    if start == POINTER:
        text = "is a pointer of git-lfs and not the file itself: fetch the content (git lfs pull), or let this module"
        return [Problem("lfs_pointer", name, text)]
    if size == 0 and (is_weights(name) or name.endswith((".json", ".model"))):
        return [Problem("zero_bytes", name, "is empty")]
    if name.endswith(".safetensors"):
        try:
            headers.read_file(path)
        except LlmHostError as error:
            kind = getattr(error, "problem", "")
            if kind == "unknown_type":  # newer than this collection, and no fault of the file
                return []
            said = error.message.partition(": ")[2]
            return [Problem("truncated" if kind == "truncated" else "header_corrupt", name, said)]
    return []


def _config(folder: str, present: Sequence[str], bad: set[str]) -> list[Problem]:
    found = next((name for name in CONFIGS if name in present), None)
    if found is None:
        if any(name.endswith(".gguf") for name in present):
            return []  # it carries its configuration
        return [Problem("config_missing", CONFIGS[0], "is not there")]
    if found in bad:
        return []
    document, error = _json(os.path.join(folder, found))
    if error or not isinstance(document, dict):
        return [Problem("config_invalid", found, error or "holds no mapping")]
    return []


def _json(path: str) -> tuple[Any, str]:
    try:
        with open(path, encoding="utf-8") as text:
            return json.load(text), ""
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"
    except ValueError:
        return None, "is not valid JSON"


def _index(folder: str, name: str, present: set[str], bad: set[str]) -> list[Problem]:
    document, error = _json(os.path.join(folder, name))
    table = document.get("weight_map") if isinstance(document, dict) else None
    if error or not isinstance(table, dict) or not table:
        return [Problem("index_invalid", name, error or "has no weight_map")]
    shards: dict[str, set[str]] = {}
    for tensor, shard in table.items():
        shards.setdefault(str(shard), set()).add(str(tensor))
    problems = []
    for shard in sorted(shards):
        if shard not in present:
            problems.append(Problem("missing_shard", shard, f"is named by {name} and is not there"))
        elif shard not in bad and shard.endswith(".safetensors"):
            problems += _tensors(folder, shard, shards[shard], name)
    return problems


def _tensors(folder: str, shard: str, wanted: set[str], index: str) -> list[Problem]:
    try:
        inside = {tensor.name for tensor in headers.read_file(os.path.join(folder, shard))}
    except LlmHostError:
        return []  # an unknown type: told nowhere, for nothing is wrong
    missing = sorted(wanted - inside)
    if not missing:
        return []
    what = f"lacks {len(missing)} tensors that {index} promises, such as {missing[0]}"
    return [Problem("index_mismatch", shard, what)]


def recorded(folder: str, manifest: Manifest, by_hash: bool) -> list[Problem]:
    """Where a folder is no longer what was recorded. By size and time of change, or by every byte."""
    problems = []
    for name, entry in manifest.files.items():
        state = compare(folder, name, entry, by_hash)
        if state == "missing":
            problems.append(Problem("missing_file", name, "is recorded and not there"))
        elif state == "size":
            problems.append(Problem("size_mismatch", name, f"does not have its {entry.size} bytes any more"))
        elif state == "hash":
            problems.append(Problem("hash_mismatch", name, "holds other bytes than were recorded"))
    return sorted(problems, key=lambda problem: ORDER.index(problem.reason))


def compare(folder: str, name: str, entry: Entry, by_hash: bool) -> str:
    """``same``, ``missing``, ``size`` or ``hash``. A file that was touched is read, whatever was asked."""
    path = os.path.join(folder, name)
    try:
        found = os.stat(path)
    except OSError:
        return "missing"
    if not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
        return "size"
    if not by_hash and found.st_mtime_ns == entry.mtime_ns:
        return "same"
    return "same" if holds(path, entry.size, entry.sha256, entry.git_sha1) else "hash"


def holds(path: str, size: int | None, sha256: str | None, git_sha1: str | None) -> bool:
    """Whether a file holds the bytes that were published. Without a hash only the size can tell."""
    found = os.stat(path).st_size
    if size is not None and found != size:
        return False
    if sha256:
        return digest(path) == sha256
    if git_sha1:
        return git_digest(path, found) == git_sha1
    return True


def digest(path: str) -> str:
    total = hashlib.sha256()
    for block in _blocks(path):
        total.update(block)
    return total.hexdigest()


def git_digest(path: str, size: int) -> str:
    """How git names a file's content. It is no protection against an attacker, and it is what the hub publishes."""
    total = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in _blocks(path):
        total.update(block)
    return total.hexdigest()


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as content:
        while True:
            block = content.read(BLOCK_BYTES)
            if not block:
                return
            yield block
