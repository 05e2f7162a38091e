# SPDX-License-Identifier: GPL-3.0-or-later
"""The tarball of a release: built from a folder, the same bytes each time, and held against what may be in it.

ansible-galaxy writes the time of the build and the order of the file system into what it builds. So its tarball is
packed again: members sorted, one time for all, the list of files sorted and its checksum renewed.

Usage: release.py build FOLDER INTO     prints the path of the tarball
       release.py check TARBALL         prints its size and what is in it; fails on what may not be there
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

LIMIT_KIB = 4096  # a bound to be kept, far below the 20 MB that Galaxy takes
# What a user gets. tests/lab is part of it: others test their own roles with it.
TOP = {
    "CHANGELOG.md", "CHANGELOG.rst", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "FILES.json", "LICENSES", "MANIFEST.json",
    "README.md", "REUSE.toml", "SECURITY.md", "changelogs", "docs", "extensions", "inventories", "meta", "playbooks",
    "plugins", "roles", "tests",
}  # fmt: skip
TESTS = {"config.yml", "lab"}
# What looks like a secret or like somebody's home. The folders and hosts of the machine that builds come on top.
PRIVATE = re.compile(
    rb"/(?:home|Users)/(?!(?:user|alice|bob)\b)\w+/"
    rb"|-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:hf|ghp|glpat)[_-][A-Za-z0-9]{30,}"
)


def of_this_machine() -> list[bytes]:
    """The checkout, the cache, the package index."""
    root = str(Path(__file__).resolve().parents[2])
    names = [
        root,
        os.environ.get("LLMHOST_CACHE", ""),
        os.environ.get("UV_DEFAULT_INDEX", "").split("//")[-1].split("/")[0],
    ]
    return [name.encode() for name in names if len(name) > 4]


def epoch() -> int:
    """SOURCE_DATE_EPOCH, as reproducible builds have it; 2026-01-01 without one."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or 1767225600)


def repacked(tarball: bytes, moment: int) -> bytes:
    """The same collection, whatever the time and the order that it was built in."""
    members: dict[str, bytes | None] = {}
    modes: dict[str, int] = {}
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if not (member.isfile() or member.isdir()):
                raise SystemExit("%s is neither a file nor a folder" % member.name)
            members[member.name] = file.read() if file else None
            modes[member.name] = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    listing = json.loads(members["FILES.json"] or b"")
    listing["files"].sort(key=lambda entry: entry["name"])
    members["FILES.json"] = json.dumps(listing, indent=True).encode()
    manifest = json.loads(members["MANIFEST.json"] or b"")
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(members["FILES.json"]).hexdigest()
    members["MANIFEST.json"] = json.dumps(manifest, indent=True).encode()
    plain = io.BytesIO()
    # MANIFEST.json and FILES.json first, as Galaxy's own order has it
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ["MANIFEST.json", "FILES.json", *sorted(set(members) - {"MANIFEST.json", "FILES.json"})]:
            content = members[name]
            info = tarfile.TarInfo(name)
            info.mtime, info.mode = moment, modes[name]
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            archive.addfile(info, io.BytesIO(content or b""))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=moment) as file:
        file.write(plain.getvalue())
    return packed.getvalue()


def build(folder: str, into: str) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        command = ["ansible-galaxy", "collection", "build", folder, "--output-path", scratch]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        built = next(Path(scratch).glob("*.tar.gz"))
        target = Path(into) / built.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(repacked(built.read_bytes(), epoch()))
    return target


def wrong(tarball: bytes) -> list[str]:
    """What may not be in a release."""
    found = []
    if len(tarball) > LIMIT_KIB * 1024:
        found.append("%d KiB are more than %d" % (len(tarball) // 1024, LIMIT_KIB))
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        for member in archive:
            parts = member.name.split("/")
            if parts[0] not in TOP or (parts[0] == "tests" and len(parts) > 1 and parts[1] not in TESTS):
                found.append("%s does not belong into a release" % member.name)
            if member.issym() or member.islnk():
                found.append("%s is a link" % member.name)
            file = archive.extractfile(member) if member.isfile() else None
            content = file.read() if file else b""
            if parts[-1].endswith((".pyc", ".so", ".o", ".log", ".key")) or content[:4] == b"\x7fELF":
                found.append("%s is no source" % member.name)
            hits = set(PRIVATE.findall(content)) | {name for name in of_this_machine() if name in content}
            found += ["%s: %s" % (member.name, hit.decode(errors="replace")) for hit in sorted(hits)]
    return found


def main(verb: str, *arguments: str) -> int:
    if verb == "build":
        print(build(*arguments))
        return 0
    tarball = Path(arguments[0]).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(tarball)) as archive:
        members = archive.getmembers()
        unpacked = sum(member.size for member in members) // 1024
    print("%s: %d KiB, %d files, %d KiB unpacked" % (arguments[0], len(tarball) // 1024, len(members), unpacked))
    print("sha256 %s" % hashlib.sha256(tarball).hexdigest())
    found = wrong(tarball)
    print("\n".join("FAILED: " + line for line in found) or "nothing in it that does not belong there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
