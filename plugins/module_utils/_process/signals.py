# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Signals to a process that cannot hit another one.

The descriptor (pidfd) is opened first and the identity read after: whoever then still lives behind the
descriptor is the process whose identity was read. The same descriptor serves SIGTERM and SIGKILL, so a PID that is
handed out again in between is never hit. Nothing here sends a signal to a number.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Iterable, Sequence
from typing import Any

from .._errors import LlmHostError
from . import identity
from .identity import Process


class Handle:
    """An open descriptor of one process, and the identity that was read behind it."""

    def __init__(self, fd: int, process: Process) -> None:
        self._fd = fd
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    def fileno(self) -> int:
        return self._fd

    def exited(self) -> bool:
        """Whether the process has ended (a zombie has)."""
        return bool(exited([self]))

    def send(self, number: int) -> bool:
        """Send a signal; ``False`` where the process was gone. ``PermissionError`` where we may not."""
        if self._fd < 0:
            raise ValueError(f"the handle of process {self.pid} is closed")
        try:
            signal.pidfd_send_signal(self._fd, number)
        except ProcessLookupError:
            return False
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.close()


def open_handle(pid: int, proc: str = "/proc") -> Handle:
    """Open the process behind a PID, then read who it is.

    Raises ``ProcessLookupError`` where there is none (or it ended meanwhile), ``PermissionError`` where the kernel
    refuses, ``LlmHostError`` with reason ``pidfd_unavailable`` where kernel or Python are too old.
    """
    if pid < 1:
        raise ProcessLookupError(errno.ESRCH, "not a PID", str(pid))
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        raise LlmHostError(
            "pidfd_unavailable",
            "this Python has no os.pidfd_open: processes are stopped only through pidfds, which need Python 3.9 "
            "and Linux 5.3 or newer",
        )
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ESRCH:
            raise ProcessLookupError(errno.ESRCH, "no such process", str(pid)) from None
        if error.errno in (errno.EINVAL, errno.ENOENT):  # a thread's number, not a process's
            raise ProcessLookupError(errno.ESRCH, "not the number of a process", str(pid)) from None
        if error.errno == errno.ENOSYS:
            raise LlmHostError(
                "pidfd_unavailable",
                "this kernel has no pidfd_open: processes are stopped through pidfds only, which need Linux 5.3",
            ) from None
        raise
    try:
        process = identity.read(pid, proc)
        handle = Handle(fd, process)
        if handle.exited() and not process.zombie:
            raise ProcessLookupError(errno.ESRCH, "the process ended while it was read", str(pid))
    except BaseException:
        os.close(fd)
        raise
    return handle


def exited(handles: Iterable[Handle]) -> list[Handle]:
    """Those whose process has ended; one call of the kernel for all of them."""
    return _ended(list(handles), 0.0)


def _ended(handles: Sequence[Handle], timeout_s: float) -> list[Handle]:
    """Wait until one of them has ended; those that have."""
    poll = select.poll()
    closed = any(handle.fileno() < 0 for handle in handles)
    for handle in handles:
        if handle.fileno() >= 0:
            poll.register(handle.fileno(), select.POLLIN)
    ready = {fd for fd, _event in poll.poll(0 if closed else max(0, int(timeout_s * 1000)))}
    return [handle for handle in handles if handle.fileno() < 0 or handle.fileno() in ready]


def wait(handles: Sequence[Handle], timeout_s: float) -> list[Handle]:
    """Wait until all have ended or the time is over; those that still run."""
    deadline = time.monotonic() + timeout_s
    left = list(handles)
    pause = 0.0
    while True:
        gone = {id(handle) for handle in _ended(left, pause)}
        left = [handle for handle in left if id(handle) not in gone]
        pause = max(0.001, deadline - time.monotonic())
        if not left or deadline <= time.monotonic():
            return left
