# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""One run at a time works on a snapshot, also where hosts share its folder. The kernel drops a dead one's lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Callable

from .._errors import LlmHostError

POLL_S = 0.5


def path_for(folder: str) -> str:
    """Beside the folder and not in it: it must outlive what it guards."""
    parent, name = os.path.split(folder)
    return os.path.join(parent, f".{name}.llmhost-lock")


@contextlib.contextmanager
def hold(
    path: str,
    timeout_s: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """Hold the lock; its descriptor can be handed to a program that must not outlive it."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise LlmHostError("write_failed", f"{path} cannot be made: {error.strerror}", file=path) from None
    try:
        deadline = now() + timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if now() >= deadline:
                    holder = _holder(handle)
                    raise LlmHostError(
                        "locked",
                        f"another run works on it (process {holder.get('pid', 'unknown')} on "
                        f"{holder.get('host', 'unknown')}): wait for it to end, or raise lock_timeout_s",
                        holder=holder,
                        file=path,
                    ) from None
                sleep(POLL_S)
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
        yield handle
    finally:
        os.close(handle)


def _holder(handle: int) -> dict[str, object]:
    try:
        found = json.loads(os.pread(handle, 4096, 0).decode("utf-8", "replace"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
