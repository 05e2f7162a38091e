# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The folder of the runtimes: each environment with its marker, the link to the one in use, what was in use before."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError

MARKER = ".llmhost-runtime.json"
HISTORY = ".history.json"
LOCK = ".lock"
NAME = re.compile(r"^\d[\w.!+]*-[0-9a-f]{8}$")
REMEMBERED = 50


@dataclass(frozen=True)
class Runtime:
    """One environment. Without a marker it was never finished, whatever else is in it."""

    name: str
    path: str
    marker: dict[str, Any] | None

    @property
    def ready(self) -> bool:
        return self.marker is not None and os.access(os.path.join(self.path, "bin/python"), os.X_OK)

    @property
    def version(self) -> str | None:
        return str(self.marker["sglang_version"]) if self.marker else None

    @property
    def finished_at(self) -> float:
        if self.marker and isinstance(self.marker.get("finished_at"), (int, float)):
            return float(self.marker["finished_at"])
        try:
            return os.stat(os.path.join(self.path, MARKER)).st_mtime
        except OSError:
            return 0.0


class Layout:
    def __init__(self, root: str, link: str) -> None:
        self.root = root
        self.link = link

    # ------------------------------------------------------------ looking
    def runtime(self, name: str) -> Runtime:
        path = os.path.join(self.root, name)
        return Runtime(name, path, _marker(path))

    def all(self) -> list[Runtime]:
        try:
            names = sorted(os.listdir(self.root))
        except FileNotFoundError:
            return []
        return [self.runtime(name) for name in names if NAME.match(name) and os.path.isdir(f"{self.root}/{name}")]

    def current(self) -> str | None:
        """Name of the runtime that the link names; ``None`` where there is no link, or it leads elsewhere."""
        try:
            target = os.readlink(self.link)
        except FileNotFoundError:
            return None
        except OSError:
            raise LlmHostError(
                "link_is_no_link", f"{self.link} is no link: move it away, or give another link", path=self.link
            ) from None
        folder, name = os.path.split(os.path.join(os.path.dirname(self.link), target).rstrip("/"))
        return name if os.path.normpath(folder) == os.path.normpath(self.root) else None

    def history(self) -> list[dict[str, Any]]:
        """What was switched to, oldest first."""
        try:
            with open(os.path.join(self.root, HISTORY), encoding="utf-8") as text:
                found = json.load(text)
        except (OSError, ValueError):
            return []
        return (
            [item for item in found if isinstance(item, dict) and "runtime" in item] if isinstance(found, list) else []
        )

    def previous(self) -> str | None:
        """The last one before the current that is still whole and was not left because it is broken."""
        seen = {self.current()}
        for item in reversed(self.history()):
            name = str(item["runtime"])
            if name not in seen and not item.get("broken") and self.runtime(name).ready:
                return name
            seen.add(name)
        return None

    def newest_first(self) -> list[Runtime]:
        """Ready runtimes, the last used first, then by when they were finished."""
        order = {str(item["runtime"]): number for number, item in enumerate(self.history())}
        ready = [runtime for runtime in self.all() if runtime.ready]
        return sorted(ready, key=lambda each: (order.get(each.name, -1), each.finished_at), reverse=True)

    # ------------------------------------------------------------ changing
    def switch(self, name: str, now: float | None = None, broken: bool = False) -> None:
        """Turn the link in one step, and remember it; also that what it leaves is ``broken``."""
        before = self.current()
        aside = f"{self.link}.llmhost-{os.getpid()}"
        os.makedirs(os.path.dirname(self.link), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        os.symlink(os.path.join(self.root, name), aside)
        os.replace(aside, self.link)
        history = self.history()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        if before and (not history or history[-1]["runtime"] != before):
            history.append({"runtime": before, "at": stamp})  # from before there was a history
        if before and broken:
            history[-1]["broken"] = True
        history.append({"runtime": name, "at": stamp})
        write_json(os.path.join(self.root, HISTORY), history[-REMEMBERED:])

    def finish(self, name: str, marker: dict[str, Any]) -> None:
        """The last step of a build: what the marker says is on the disk by now, also after a power cut."""
        os.sync()
        write_json(os.path.join(self.root, name, MARKER), marker)


def _marker(path: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(path, MARKER), encoding="utf-8") as text:
            found = json.load(text)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("sglang_version") else None


def write_json(path: str, value: dict[str, Any] | Sequence[Any]) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_text(path: str, text: str) -> None:
    """Write beside and put in place in one step."""
    handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
