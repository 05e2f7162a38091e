# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a snapshot is: its files, where they come from, what is wrong with them."""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError

MANIFEST_NAME = ".llmhost-snapshot.json"
STAGING_NAME = ".llmhost-partial"
GIB = 1 << 30


@dataclass(frozen=True)
class File:
    """One file of a snapshot, as its source describes it. What the source does not tell is ``None``."""

    name: str
    size: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None
    url: str | None = None

    @property
    def key(self) -> str:
        """Names what this file must hold: another revision of it has another key."""
        content = self.sha256 or self.git_sha1 or f"{self.url}:{self.size}"
        return hashlib.sha256(f"{self.name}\0{content}".encode()).hexdigest()[:32]

    @property
    def published(self) -> bool:
        """Whether the source tells what the bytes are, and not only how many."""
        return bool(self.sha256 or self.git_sha1)


@dataclass(frozen=True)
class Source:
    """Where the files come from: ``kind`` is ``hub``, ``urls`` or ``folder``."""

    kind: str
    repo_id: str | None = None
    revision: str | None = None
    endpoint: str | None = None
    folder: str | None = None

    def as_dict(self) -> dict[str, Any]:
        values = {
            "kind": self.kind,
            "repo_id": self.repo_id,
            "revision": self.revision,
            "endpoint": self.endpoint,
            "folder": self.folder,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True)
class Listing:
    """All files of a source at one moment; ``commit`` pins that moment where the source has such a thing."""

    commit: str | None
    files: tuple[File, ...]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with one file."""

    reason: str
    file: str
    message: str
    detail: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {**self.detail, "file": self.file, "reason": self.reason, "message": self.message}


def safe_name(name: str) -> str:
    """A relative path that stays below the snapshot's folder and is none of ours."""
    parts = name.split("/")
    if (
        not name
        or name.startswith("/")
        or "\0" in name
        or posixpath.normpath(name) != name
        or ".." in parts
        or parts[0] in (MANIFEST_NAME, STAGING_NAME)
    ):
        raise LlmHostError(
            "bad_file_name", f"the source names a file {name!r}, which leaves the folder: it is not taken"
        )
    return name


def gib(size_bytes: float) -> float:
    return round(size_bytes / GIB, 3)
