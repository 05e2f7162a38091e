# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""One cleaner for a GPU at a time: a file for each UUID, locked by the kernel, so that a dead owner holds nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Callable

from .._errors import LlmHostError

POLL_S = 0.25


def folder() -> str:
    """Where the locks are: of root for all, of another user for itself alone."""
    return "/run/llmhost" if os.geteuid() == 0 else f"/tmp/llmhost-{os.geteuid()}"


@contextlib.contextmanager
def hold(
    uuids: Sequence[str],
    timeout_s: float,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    where: str | None = None,
) -> Iterator[None]:
    """Hold the locks of some GPUs. Raises reason ``locked``, with the owner named, where the time is over."""
    where = where or folder()
    try:
        os.makedirs(where, mode=0o755, exist_ok=True)
        if os.stat(where).st_uid != os.geteuid():
            raise LlmHostError("lock_failed", f"{where} belongs to another user, so its locks mean nothing: remove it")
    except OSError as error:
        raise LlmHostError("lock_failed", f"{where} cannot be made: {error.strerror}") from None
    deadline = now() + timeout_s
    with contextlib.ExitStack() as stack:
        for uuid in sorted(set(uuids)):  # one order for all: two tasks never wait for each other
            path = os.path.join(where, "gpu-" + re.sub(r"[^A-Za-z0-9-]", "_", uuid) + ".lock")
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            stack.callback(os.close, fd)
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if now() >= deadline:
                        owner, _space, since = os.pread(fd, 200, 0).decode("utf-8", "replace").strip().partition(" ")
                        raise LlmHostError(
                            "locked",
                            f"another task cleans {uuid} since {since or 'an unknown time'} (process "
                            f"{owner or 'unknown'}; {path}): wait for it to end, then run again",
                            owner=owner,
                            since=since,
                            gpu=uuid,
                        ) from None
                    sleep(POLL_S)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n".encode(), 0)
        yield
