# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What is asked for, from a module's parameters, with everything wrong in it told before anything is touched."""

from __future__ import annotations

import os
import posixpath
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from .model import File, Source, safe_name
from .transfer import OFFICIAL, Way, any_python

REPO_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$")
COMMIT = re.compile(r"^[0-9a-f]{40}$")
# Where a slip would take more than a model.
NEVER = {"", "bin", "boot", "dev", "etc", "home", "lib", "opt", "proc", "root", "run", "srv", "sys", "usr", "var"}


@dataclass(frozen=True)
class Wish:
    path: str
    state: str
    source: Source | None
    way: Way
    files: tuple[File, ...] = ()  # of URLs
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    update: bool = False
    by_hash: bool = False
    reader: str | None = None
    reserve_gib: float = 1.0
    lock_timeout_s: float = 7200.0
    check_mode: bool = False
    patterns: dict[str, list[str]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether what is asked for must be a model that SGLang can load."""
        return not self.allow and not (self.source is not None and self.source.kind == "urls")


def read(params: Mapping[str, Any], environment: Mapping[str, str], check_mode: bool) -> Wish:
    path = params["path"].rstrip("/")
    if not path.startswith("/") or posixpath.normpath(path) != path or path[1:] in NEVER:
        raise LlmHostError("bad_path", f"path {params['path']!r} must be absolute, plain, and a folder of its own")
    source, files = _source(params, environment)
    if params["state"] == "present" and source is None:
        raise LlmHostError(
            "no_source", "state=present needs a source: repo_id, urls or source_path (state=verified needs none)"
        )
    token = _token(params, environment)
    python = os.path.join(params["venv"], "bin/python") if source and source.kind == "hub" else any_python()
    way = Way(
        python=python,
        token=token if source and source.kind == "hub" else None,
        workers=params["workers"],
        timeout_s=params["timeout_s"],
        stall_s=params["stall_s"],
        slice_s=params["slice_s"],
        retries=params["retries"],
        retry_delay_s=params["retry_delay_s"],
        environment=dict(environment),
    )
    patterns = {key: list(params[key]) for key in ("allow_patterns", "ignore_patterns") if params[key]}
    return Wish(
        path=path,
        state=params["state"],
        source=source,
        way=way,
        files=files,
        allow=tuple(params["allow_patterns"]),
        ignore=tuple(params["ignore_patterns"]),
        update=params["update"],
        by_hash=params["verify"] == "hash",
        reader=params["reader"],
        reserve_gib=params["reserve_gib"],
        lock_timeout_s=params["lock_timeout_s"],
        check_mode=check_mode,
        patterns=patterns,
    )


def _source(params: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[Source | None, tuple[File, ...]]:
    given = [name for name in ("repo_id", "urls", "source_path") if params[name]]
    if len(given) > 1:
        raise LlmHostError("no_source", f"there is one source, not {' and '.join(given)}: drop all but one")
    if params["repo_id"]:
        if not REPO_ID.match(params["repo_id"]):
            raise LlmHostError("repo_id_invalid", f"repo_id {params['repo_id']!r} is not of the form owner/name")
        endpoint = (params["endpoint"] or environment.get("HF_ENDPOINT") or OFFICIAL).rstrip("/")
        return Source("hub", params["repo_id"], params["revision"], endpoint), ()
    if params["urls"]:
        return Source("urls"), tuple(_url(item) for item in params["urls"])
    if params["source_path"]:
        folder = params["source_path"].rstrip("/")
        if not os.path.isdir(folder):
            raise LlmHostError("source_missing", f"source_path {folder} is no folder on this host")
        return Source("folder", folder=folder), ()
    return None, ()


def _url(item: Mapping[str, Any]) -> File:
    parts = urllib.parse.urlsplit(item["url"])
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise LlmHostError("bad_url", f"urls: {item['url']!r} is no http or https address")
    if parts.username or parts.password:
        raise LlmHostError("bad_url", "urls: an address holds a password, which logs would show: use a mirror without")
    name = item.get("filename") or posixpath.basename(urllib.parse.unquote(parts.path))
    sha256 = (item.get("sha256") or "").lower() or None
    if sha256 and not re.match(r"^[0-9a-f]{64}$", sha256):
        raise LlmHostError("bad_url", f"urls: the sha256 of {name} is not 64 hexadecimal digits")
    return File(safe_name(name), item.get("size"), sha256, None, item["url"])


def _token(params: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    if params["token"]:
        return str(params["token"]).strip()
    if params["token_file"]:
        try:
            with open(params["token_file"], encoding="utf-8") as text:
                found = text.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LlmHostError("token_file", f"token_file {params['token_file']} cannot be read: {error}") from None
        if not found:
            raise LlmHostError("token_file", f"token_file {params['token_file']} is empty")
        return found
    return environment.get("HF_TOKEN", "").strip() or None
