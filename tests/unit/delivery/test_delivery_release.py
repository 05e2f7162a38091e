# SPDX-License-Identifier: GPL-3.0-or-later
"""The tarball of a release: the same bytes from the same files, and nothing in it that does not belong there."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "script/lib"))

import release  # noqa: E402 (found by the line above)


def tarball(files: dict[str, bytes], moment: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """As ansible-galaxy builds it: in any order, with the time of the build."""
    listing = json.dumps({"files": [{"name": name} for name in files], "format": 1}).encode()
    manifest = json.dumps({"file_manifest_file": {"name": "FILES.json", "chksum_sha256": sha256(listing).hexdigest()}})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in {**files, "FILES.json": listing, "MANIFEST.json": manifest.encode()}.items():
            info = tarfile.TarInfo(name)
            info.mtime, info.size, info.type = moment, len(content), kind if name in files else tarfile.REGTYPE
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def test_time_and_order_of_a_build_leave_no_trace() -> None:
    files = {"README.md": b"one\n", "plugins/b.py": b"two\n", "meta/a.yml": b"three\n"}
    first = release.repacked(tarball(files, 1), 1767225600)
    second = release.repacked(tarball(dict(reversed(files.items())), 2), 1767225600)
    assert first == second
    assert first != release.repacked(tarball(files, 1), 1767225601)
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        names = archive.getnames()
        assert names[:2] == ["MANIFEST.json", "FILES.json"] and names[2:] == sorted(files)
        listing = archive.extractfile("FILES.json").read()
        manifest = json.loads(archive.extractfile("MANIFEST.json").read())
    assert manifest["file_manifest_file"]["chksum_sha256"] == sha256(listing).hexdigest()
    assert gzip.decompress(first)


def test_what_belongs_there_passes() -> None:
    assert (
        release.wrong(tarball({"README.md": b"x", "tests/lab/lab": b"#!/bin/sh\n", "plugins/modules/a.py": b"x"}, 1))
        == []
    )


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("script/test", b"x", "does not belong"),
        ("tests/unit/x.py", b"x", "does not belong"),
        (".cache/x", b"x", "does not belong"),
        ("plugins/a.pyc", b"x", "no source"),
        ("plugins/a", b"\x7fELF", "no source"),
        ("README.md", b"see /home/somebody/secret", "/home/somebody/"),
        ("README.md", b"-----BEGIN OPENSSH " + b"PRIVATE KEY-----", "PRIVATE KEY"),
        ("README.md", b"hf_" + b"a" * 34, "hf_aaa"),
        ("README.md", str(ROOT).encode(), str(ROOT)),
    ],
)
def test_what_does_not_is_seen(name: str, content: bytes, word: str) -> None:
    assert word in "\n".join(release.wrong(tarball({name: content}, 1)))


def test_a_link_is_seen() -> None:
    assert "is a link" in "\n".join(release.wrong(tarball({"README.md": b""}, 1, tarfile.SYMTYPE)))


def test_a_large_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "LIMIT_KIB", 0)
    assert "are more than" in "\n".join(release.wrong(tarball({"README.md": b"x"}, 1)))
