# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The record of a snapshot, written last: where it came from and what each file must be."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from .model import MANIFEST_NAME, Source

FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """What is known of one file. ``verified`` is ``hash`` where its bytes were held against a published hash."""

    size: int
    mtime_ns: int
    sha256: str | None = None
    git_sha1: str | None = None
    verified: str = "size"
    url: str | None = None

    def as_dict(self) -> dict[str, Any]:
        values = {
            "size": self.size,
            "mtime_ns": self.mtime_ns,
            "sha256": self.sha256,
            "git_sha1": self.git_sha1,
            "verified": self.verified,
            "url": self.url,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True)
class Manifest:
    source: Source
    commit: str | None
    files: dict[str, Entry]
    fetched_at: str
    patterns: dict[str, list[str]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(entry.size for entry in self.files.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "source": self.source.as_dict(),
            "commit": self.commit,
            "fetched_at": self.fetched_at,
            "size_bytes": self.size_bytes,
            "patterns": self.patterns,
            "files": {name: self.files[name].as_dict() for name in sorted(self.files)},
        }


def read(folder: str) -> Manifest | None:
    """The record in a folder; ``None`` where there is none or it is not one: then nothing is taken as known."""
    try:
        with open(os.path.join(folder, MANIFEST_NAME), encoding="utf-8") as text:
            document = json.load(text)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise LlmHostError(
            "permission_denied",
            f"{folder}/{MANIFEST_NAME} cannot be read ({error.strerror}): run as a user who may (become)",
            file=MANIFEST_NAME,
        ) from None
    return _parse(document)


def _parse(document: Any) -> Manifest | None:
    try:
        if document["format"] != FORMAT:
            return None
        source = Source(**document["source"])
        files = {str(name): Entry(**entry) for name, entry in document["files"].items()}
        patterns = {str(key): [str(word) for word in words] for key, words in document.get("patterns", {}).items()}
        return Manifest(source, document["commit"], files, str(document["fetched_at"]), patterns)
    except (KeyError, TypeError, AttributeError):
        return None


def write(folder: str, manifest: Manifest) -> None:
    """Put the record in its place in one step."""
    text = json.dumps(manifest.as_dict(), indent=2, sort_keys=True) + "\n"
    handle, temporary = tempfile.mkstemp(prefix=MANIFEST_NAME + ".", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, os.path.join(folder, MANIFEST_NAME))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def remove(folder: str) -> None:
    """Take the record away before something that it describes is touched."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, MANIFEST_NAME))
        sync_folder(folder)


def sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def summary(manifest: Manifest) -> Mapping[str, Any]:
    """The record without its list of files, for a result."""
    return {key: value for key, value in manifest.as_dict().items() if key not in ("files", "format")}
