# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a silent process is doing: its Python stack by py-spy, and what the kernel says of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

from .._errors import LlmHostError
from .._gpu.query import run_with_deadline
from .._process import identity
from .._startup.evidence import Answer

TIMEOUT_S = 10.0
LIMIT = 16 * 1024
STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible sleep (a device or a file system does not answer)",
    "T": "halted (SIGSTOP)",
    "t": "halted by a debugger",
    "Z": "dead",
    "X": "dead",
    "I": "idle",
}


def program(pid: int, proc: str = "/proc") -> str | None:
    """py-spy beside the Python that runs the server (SGLang depends on it), or in PATH."""
    with contextlib.suppress(OSError), open("%s/%d/environ" % (proc, pid), "rb") as handle:
        for word in handle.read().split(b"\0"):
            if word.startswith(b"VIRTUAL_ENV="):
                found = _executable(os.path.join(word[12:].decode("utf-8", "replace"), "bin/py-spy"))
                if found:
                    return found
    for one in [pid, *_ancestors(pid, proc)]:
        with contextlib.suppress(OSError), open("%s/%d/cmdline" % (proc, one), "rb") as handle:
            first = handle.read(4096).split(b"\0")[0].decode("utf-8", "replace")
            if first.startswith("/"):
                found = _executable(os.path.join(os.path.dirname(first), "py-spy"))
                if found:
                    return found
    return shutil.which("py-spy")


def _ancestors(pid: int, proc: str) -> list[int]:
    try:
        return list(identity.ancestors(pid, proc))[:8]
    except (OSError, LlmHostError):
        return []


def _executable(path: str) -> str | None:
    return path if os.path.isfile(path) and os.access(path, os.X_OK) else None


def take(pid: int, timeout_s: float = TIMEOUT_S, proc: str = "/proc") -> Answer:
    """The stack of one process as text. It is not halted for it, so a snapshot of a busy one may be crooked."""
    spy = program(pid, proc)
    if spy is None:
        return Answer(None, "py-spy is not installed, neither beside the server's Python nor in PATH.")
    try:
        code, out, err = run_with_deadline(
            [spy, "dump", "--nonblocking", "--pid", str(pid)], timeout_s, "'py-spy dump'"
        )
    except LlmHostError as error:
        gone = error.reason == "driver_hung"
        return Answer(None, "py-spy gave no answer within %g s." % timeout_s if gone else error.message)
    if code != 0 or not out.strip():
        return Answer(None, "py-spy failed (%d): %s" % (code, (err.strip() or "no message").splitlines()[-1][:300]))
    return Answer(out[:LIMIT])


def state(pid: int, proc: str = "/proc") -> dict[str, Any]:
    """How the kernel sees a process: its state in words, and where in the kernel it waits."""
    found: dict[str, Any] = {"pid": pid}
    with contextlib.suppress(OSError, LlmHostError):
        letter = identity.stat(pid, proc).state
        found["state"] = STATES.get(letter, letter)
    with contextlib.suppress(OSError), open("%s/%d/wchan" % (proc, pid), encoding="ascii", errors="replace") as handle:
        where = handle.read().strip()
        if where not in ("", "0"):
            found["waits_in"] = where
    return found
