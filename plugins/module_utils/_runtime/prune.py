# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What may go: runtimes beyond those kept, builds that were never finished, caches that no kept runtime wrote."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .layout import NAME, Layout

UNITS = "/etc/systemd/system/sglang-*.service"


@dataclass(frozen=True)
class Waste:
    path: str
    kind: str  # runtime, unfinished, download_cache, jit_cache
    size: int

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "kind": self.kind, "bytes": self.size}


def find(
    layout: Layout, keep: int, spare: Sequence[str], cache_folders: Sequence[str], proc: str = "/proc"
) -> tuple[list[Waste], list[str]]:
    """(what may go, runtimes that would go and are in use). ``spare`` are names that stay whatever their age."""
    current = layout.current()
    stays = {name for name in (current, *spare) if name}
    kept = 0
    old = []
    for runtime in layout.newest_first():
        if runtime.name in stays:
            continue
        if kept < keep:
            kept += 1
            stays.add(runtime.name)
        else:
            old.append(runtime)
    unfinished = [runtime for runtime in layout.all() if not runtime.ready and runtime.name not in stays]
    busy = in_use([runtime.path for runtime in [*old, *unfinished]], proc) if old or unfinished else set()
    waste = [Waste(each.path, "runtime", size(each.path)) for each in old if each.path not in busy]
    waste += [Waste(each.path, "unfinished", size(each.path)) for each in unfinished if each.path not in busy]
    for name in (".cache", ".tmp"):
        path = os.path.join(layout.root, name)
        found = size(path)
        if found:
            waste.append(Waste(path, "download_cache", found))
    since = min((layout.runtime(name).finished_at for name in stays if layout.runtime(name).ready), default=0.0)
    if since:
        waste += _stale_caches(cache_folders, since)
    return waste, sorted(os.path.basename(path) for path in busy)


def _stale_caches(folders: Sequence[str], since: float) -> list[Waste]:
    """Compiled kernels older than every runtime that stays: none of these wrote them."""
    waste = []
    for folder in folders:
        for name in _names(folder):  # one folder an instance, below it one a library
            for cache in _names(os.path.join(folder, name)):
                path = os.path.join(folder, name, cache)
                if os.path.isdir(path) and not os.path.islink(path) and 0 < newest(path) < since:
                    waste.append(Waste(path, "jit_cache", size(path)))
    return waste


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def newest(path: str) -> float:
    """When anything in a folder was last written. A folder without files counts as new."""
    times = [0.0]
    for top, _folders, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                times.append(os.lstat(os.path.join(top, name)).st_mtime)
    return max(times)


def size(path: str) -> int:
    """Bytes on the disk, each file once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for top, _folders, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(top, name))
                if (found.st_dev, found.st_ino) not in seen:
                    seen.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * 512
    return total


def in_use(paths: Sequence[str], proc: str = "/proc") -> set[str]:
    """Those of some runtimes that a process has open, or that a unit of an instance names."""
    found: set[str] = set()
    for unit in glob.glob(UNITS):
        with contextlib.suppress(OSError), open(unit, encoding="utf-8", errors="replace") as text:
            content = text.read()
            found.update(path for path in paths if path + "/" in content)
    for pid in _names(proc):
        if not pid.isdigit():
            continue
        for name in ("cmdline", "maps"):
            with contextlib.suppress(OSError), open(f"{proc}/{pid}/{name}", "rb") as data:
                content_bytes = data.read()
                found.update(path for path in paths if (path + "/").encode() in content_bytes)
    return found


def remove(waste: Sequence[Waste]) -> list[Waste]:
    """Take it away; a runtime loses its marker first, so that half of one is never taken for whole."""
    gone = []
    for item in waste:
        if item.kind == "runtime" and not NAME.match(os.path.basename(item.path)):
            continue
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(item.path, ".llmhost-runtime.json"))
        shutil.rmtree(item.path, ignore_errors=True)
        if not os.path.exists(item.path):
            gone.append(item)
    return gone
