# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The schema of an SGLang: from the venv that holds it, from the cache beside that venv, or from a shipped table."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import stat
import tempfile
from typing import Any

from .._errors import LlmHostError
from . import tables
from .extract import FIELDS, extract
from .model import Option, Schema, public_version

CACHE_FORMAT = 1
CACHE_FOLDER = ".llmhost-cache"
OLDEST = "0.4.6"


def load(venv: str | None, version: str | None = None, write_cache: bool = True, absent_ok: bool = False) -> Schema:
    """The schema for ``venv``, or for ``version`` where no venv is given.

    ``absent_ok`` (check mode: the venv may be made by an earlier task) falls back to ``version`` when the venv or the
    SGLang in it is missing. Raises ``LlmHostError``: ``venv_missing``, ``sglang_missing``, ``schema_unreadable``.
    """
    if not venv:
        if not version:
            raise LlmHostError("venv_missing", "Give 'venv' (where SGLang is installed) or 'sglang_version'")
        return shipped(version)
    try:
        packages, installed = find(venv)
    except LlmHostError as error:
        if not (absent_ok and version):
            raise
        schema = shipped(version)
        schema.notes.insert(0, f"{error}; in check mode the options of 'sglang_version' {version} stand in")
        return schema
    if not os.path.isfile(os.path.join(packages, "sglang", "srt", "server_args.py")):
        schema = shipped(installed)
        schema.notes.insert(
            0, f"The sglang in {os.path.realpath(venv)} has no srt/server_args.py; the shipped options stand in"
        )
        return schema
    return installed_schema(venv, packages, installed, write_cache)


def find(venv: str) -> tuple[str, str]:
    """The ``site-packages`` with SGLang in it and the version, without running anything of the venv."""
    if not os.path.isdir(venv):
        raise LlmHostError(
            "venv_missing",
            f"There is no venv at {venv}: install SGLang there (role sglang_runtime), or correct 'venv'",
            venv=venv,
        )
    patterns = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "local/lib*/python3*/dist-packages")
    folders: list[str] = []
    for pattern in patterns:
        for folder in sorted(glob.glob(os.path.join(glob.escape(venv), pattern))):
            if os.path.realpath(folder) not in [os.path.realpath(seen) for seen in folders]:
                folders.append(folder)
    for folder in folders:
        version = version_in(folder)
        if version:
            return folder, version
    raise LlmHostError(
        "sglang_missing",
        "SGLang is not installed in {} (looked in {}): install it there, or correct 'venv'".format(
            venv, ", ".join(folders) or "lib/python3*/site-packages, which does not exist"
        ),
        venv=venv,
    )


def version_in(packages: str) -> str | None:
    """The version of the ``sglang`` in a ``site-packages``: its metadata first, then its own version file."""
    for info in sorted(glob.glob(os.path.join(glob.escape(packages), "sglang-*.dist-info"))):
        try:
            with open(os.path.join(info, "METADATA"), encoding="utf-8", errors="replace") as handle:
                for line in handle:
                    if line.startswith("Version:"):
                        return line.split(":", 1)[1].strip()
                    if not line.strip():
                        break
        except OSError:
            continue
    for name in ("_version.py", "version.py"):
        try:
            with open(os.path.join(packages, "sglang", name), encoding="utf-8", errors="replace") as handle:
                text = handle.read()
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith("__version__") and "=" in line and line.rstrip()[-1] in "'\"":
                return line.rsplit("=", 1)[1].strip().strip("'\"")
    return None


def shipped(version: str) -> Schema:
    """The table of exactly this version, else of the nearest older one with a note."""
    wanted = public_version(version)
    if wanted in tables.AVAILABLE:
        return Schema(version, tables.load(wanted), "shipped")
    base = tables.nearest(wanted)
    note = (
        f"No option table of SGLang {version} is shipped; the one of {base} stands in, so newer options are unknown. "
        "Run this where the venv can be read for the exact ones"
    )
    return Schema(version, tables.load(base), "shipped", [note])


# -- the installed one, with its cache -----------------------------------------------------------------------


def installed_schema(venv: str, packages: str, version: str, write_cache: bool) -> Schema:
    path = cache_path(venv, version)
    options = read_cache(path, packages, version)
    if options is None:
        try:
            options, digests = extract(packages)
        except LlmHostError as error:
            if public_version(version) not in tables.AVAILABLE:
                raise
            schema = shipped(version)
            schema.notes.insert(0, f"{error}; the shipped options of exactly this version stand in")
            return schema
        if write_cache:
            store_cache(path, packages, version, options, digests)
    return Schema(version, options, "venv")


def cache_path(venv: str, version: str) -> str:
    """Beside the venv, so that the venv stays as its installer left it; two venvs do not share a file."""
    real = os.path.realpath(venv)
    mark = hashlib.sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    name = "options-{}-{}.json".format("".join(c if c.isalnum() or c in ".+-" else "_" for c in version), mark)
    return os.path.join(os.path.dirname(real), CACHE_FOLDER, name)


def read_cache(path: str, packages: str, version: str) -> list[Option] | None:
    """The cached options, or ``None`` where there are none that fit what is installed now."""
    if not (_ours(os.path.dirname(path)) and _ours(path)):
        return None
    try:
        with open(path, encoding="utf-8") as handle:
            content = json.load(handle)
        if content["format"] != CACHE_FORMAT or content["version"] != version:
            return None
        if content["fields"] != _field_files(packages) or not content["digests"]:
            return None
        for name, digest in content["digests"].items():
            with open(os.path.join(packages, name), "rb") as source:
                if hashlib.sha256(source.read()).hexdigest() != digest:
                    return None
        options = [Option.from_dict(row) for row in content["options"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return options if any(option.name == "--model-path" for option in options) else None


def store_cache(path: str, packages: str, version: str, options: list[Option], digests: dict[str, str]) -> bool:
    """Write the cache in one step; ``False`` where the place can't be written (then the next run reads again)."""
    content: dict[str, Any] = {
        "format": CACHE_FORMAT,
        "version": version,
        "digests": digests,
        "fields": _field_files(packages),
        "options": [option.as_dict() for option in options],
    }
    folder = os.path.dirname(path)
    temporary = None
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        if not _ours(folder):
            return False
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".options-")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return False
    return True


def _field_files(packages: str) -> list[str]:
    """The files that a changed installation could add without touching one that was read."""
    folder = os.path.join(packages, *FIELDS.split("."))
    return sorted(name for name in os.listdir(folder) if name.endswith(".py")) if os.path.isdir(folder) else []


def _ours(path: str) -> bool:
    """Nobody but root and ourselves can have put something there: a cache decides what a server is started with."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode) or found.st_mode & 0o022:
        return False
    return found.st_uid in (0, os.geteuid())
