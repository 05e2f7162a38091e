# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Where the output of one start is read from: the journal of a unit's invocation, or a file from a given point on.

A source gives pieces of bytes, each with the moment in which it was written where that is known. Nothing of an
earlier start, nothing twice, nothing lost at a rotation.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Protocol

from .journal import NativeJournal

PIECE = 256 * 1024
MEMORY = 64  # bytes before the offset by which a file is known again
RENAMED = 4
Piece = tuple[bytes, "float | None"]


class Source(Protocol):
    """What a watch reads from."""

    def fileno(self) -> int | None:
        """Something to wait on, or None: then the source has to be asked again and again."""

    def read(self) -> list[Piece]:
        """What has come since the last call; never blocks."""

    def finish(self) -> list[Piece]:
        """What is still to come after the writer has died."""

    def close(self) -> None:
        """Let go of everything."""


class FileSource:
    """A log file from ``offset`` on. Follows rename, truncation and copytruncate; the file may come later."""

    def __init__(self, path: str, offset: int = 0, inode: int | None = None) -> None:
        self.path = path
        self._offset = offset
        self._inode = inode
        self._descriptor: int | None = None
        self._last = b""  # the bytes before the offset
        self._renamed: list[int] = []  # files that lay here, whose writer may go on
        self._open()

    def fileno(self) -> int | None:
        return None

    def _open(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return
        found = os.fstat(descriptor)
        if (self._inode is not None and found.st_ino != self._inode) or found.st_size < self._offset:
            self._offset = 0  # another file than the one that was there when the start began, or cut since
        self._inode = found.st_ino
        self._descriptor = descriptor
        self._last = b""
        os.lseek(descriptor, self._offset, os.SEEK_SET)

    def _drain(self) -> Iterator[Piece]:
        if self._descriptor is None:
            return
        size = os.fstat(self._descriptor).st_size
        if size < self._offset or (size > self._offset and self._regrown(self._descriptor)):  # copytruncate
            self._offset, self._last = 0, b""
            os.lseek(self._descriptor, 0, os.SEEK_SET)
        # At most 16 pieces at once, so that a flood does not keep the watch from looking at the processes.
        for _count in range(16):
            try:
                data = os.read(self._descriptor, PIECE)
            except OSError:
                return
            if not data:
                return
            self._offset += len(data)
            self._last = (self._last + data)[-MEMORY:]
            yield data, None

    def _regrown(self, descriptor: int) -> bool:
        """Whether the file was cut and has grown beyond the offset since: other bytes lie before it."""
        try:
            found = os.pread(descriptor, len(self._last), self._offset - len(self._last))
        except OSError:
            return False
        return found != self._last and found.strip(b"\0") != b""  # zeros: a writer that goes on at its own place

    def read(self) -> list[Piece]:
        out = list(self._drain())
        for descriptor in self._renamed:
            with contextlib.suppress(OSError):
                data = os.read(descriptor, PIECE)
                if data:
                    out.append((data, None))
        if out:
            return out
        try:
            found = os.stat(self.path)
        except OSError:
            return out
        if self._descriptor is None or (found.st_ino != self._inode):
            if self._descriptor is not None:
                out.extend(self._drain())  # what was written between the read and the rename
                self._renamed.append(self._descriptor)  # and whoever has it open goes on to write there
                for old in self._renamed[:-RENAMED]:
                    os.close(old)
                del self._renamed[:-RENAMED]
                self._descriptor = None
                self._offset, self._inode = 0, None
            self._open()
            out.extend(self._drain())
        return out

    def finish(self) -> list[Piece]:
        out: list[Piece] = []
        while True:
            more = self.read()
            if not more:
                return out
            out.extend(more)

    def close(self) -> None:
        for descriptor in self._renamed:
            os.close(descriptor)
        self._renamed = []
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class JournalSource:
    """The journal of one invocation of a unit. Through libsystemd where that works, else through ``journalctl``."""

    def __init__(
        self, unit: str, invocation_id: str, command: tuple[str, ...] = ("journalctl",), native: bool = True
    ) -> None:
        self.unit = unit
        self.invocation_id = invocation_id
        self._command = command
        self._cursor = ""
        self._held = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._native: NativeJournal | None = None
        if native:
            with contextlib.suppress(OSError, AttributeError, UnicodeError):
                self._native = NativeJournal(invocation_id)

    def _arguments(self, *more: str) -> list[str]:
        return [
            *self._command,
            "--no-pager",
            "--quiet",
            "--all",
            "--output=json",
            "--output-fields=MESSAGE",
            *more,
            "_SYSTEMD_INVOCATION_ID=" + self.invocation_id,
        ]

    def _start(self) -> None:
        more = ["--follow", "--lines=all"]
        if self._cursor:
            more.append("--after-cursor=" + self._cursor)
        self._held = b""
        self._process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            self._arguments(*more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def fileno(self) -> int | None:
        if self._native is not None or self._process is None or self._process.stdout is None:
            return None
        return self._process.stdout.fileno()

    def read(self) -> list[Piece]:
        if self._native is not None:
            return self._native.read()
        if self._process is None:
            self._start()
        process = self._process
        if process is None or process.stdout is None:
            return []
        out: list[Piece] = []
        for _count in range(16):
            try:
                data = os.read(process.stdout.fileno(), PIECE)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                # journalctl ended (its journal was rotated away, or it was killed): go on behind the last entry
                self._stop()
                break
            out.extend(self._entries(data))
        return out

    def _entries(self, data: bytes) -> Iterator[Piece]:
        lines = (self._held + data).split(b"\n")
        self._held = lines.pop()
        for line in lines:
            if not line:
                continue
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            cursor = entry.get("__CURSOR")
            if cursor:
                self._cursor = cursor
            yield _message(entry.get("MESSAGE")) + b"\n", _seconds(entry.get("__REALTIME_TIMESTAMP"))

    def finish(self) -> list[Piece]:
        """Everything up to now: what the follower holds, then what it has not been told of yet."""
        out: list[Piece] = []
        if self._native is None:
            out.extend(self.read() if self._process is not None else [])
            self._stop()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            # journald may not have read the last words of a dead process yet
            subprocess.run(  # pylint: disable=ansible-bad-function
                [*self._command, "--sync"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=5,
                check=False,
            )
        if self._native is not None:
            more_pieces = self._native.read()
            while more_pieces:
                out.extend(more_pieces)
                more_pieces = self._native.read()
            return out
        more = ["--after-cursor=" + self._cursor] if self._cursor else []
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                self._arguments(*more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=60,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
            self._held = b""
            out.extend(self._entries(done.stdout))
        return out

    def _stop(self) -> None:
        process, self._process, self._held = self._process, None, b""
        if process is None:
            return
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        process.wait()

    def close(self) -> None:
        self._stop()
        if self._native is not None:
            self._native.close()


def _message(value: object) -> bytes:
    """A journal message: text, a list of bytes where it is not UTF-8, or nothing."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list):
        with contextlib.suppress(ValueError, TypeError):
            return bytes(value)
        return b"\n".join(_message(one) for one in value)
    return b""


def _seconds(value: object) -> float | None:
    return int(value) / 1e6 if isinstance(value, str) and value.isdigit() else None
