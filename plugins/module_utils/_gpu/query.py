# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Asking the driver without being hung by it: every query has a deadline and runs in a child that can be abandoned.

``Driver`` is the seam for other vendors' back ends, six calls: ``look`` (devices, their memory, clients, recovery
state), ``used_memory``, ``capabilities``, ``device_files``, ``close``, and errors as ``LlmHostError``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
import subprocess
import time
from dataclasses import replace
from typing import Any, Protocol

from .._errors import LlmHostError
from . import nvml, smi
from .model import Memory, Snapshot

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
SOURCES = ("auto", "nvml", "smi")


class Driver(Protocol):
    """What a back end can do. Each call keeps the deadline."""

    nested: bool

    def look(self) -> Snapshot:
        """Every GPU, its memory and its clients."""

    def used_memory(self, uuids: list[str]) -> dict[str, Memory]:
        """Memory of some GPUs, by UUID: a short call for the wait."""

    def capabilities(self, uuids: list[str]) -> dict[str, str]:
        """Compute capability by UUID."""

    def device_files(self, minor: int | None) -> list[str]:
        """The device files that a client of a GPU holds."""

    def close(self) -> None:
        """Let go of the driver."""


def nested(proc: str = "/proc") -> bool:
    """Whether this is another PID namespace than the host's first: then not every client can be seen."""
    try:
        return os.readlink(proc + "/self/ns/pid") != INITIAL_PID_NAMESPACE
    except OSError:
        return True


def hung(what: str, timeout_s: float) -> LlmHostError:
    return LlmHostError(
        "driver_hung",
        f"{what} gave no answer within {timeout_s:g} s. The NVIDIA driver hangs: processes that touch it cannot be "
        "stopped. Read the kernel log (NVRM, Xid), then reboot the host. Where the driver is merely slow (many GPUs, "
        "persistence mode off), raise query_timeout_s.",
    )


def versions(proc: str = "/proc") -> str:
    """The version of the loaded kernel module, for a message; empty where there is none."""
    try:
        with open(proc + "/driver/nvidia/version", encoding="utf-8", errors="replace") as handle:
            return "loaded module: " + handle.readline().strip()
    except OSError:
        return ""


def device_files(minor: int | None) -> list[str]:
    """The device files of a GPU."""
    return [f"/dev/nvidia{minor}"] if minor is not None else []


def readable(fds: list[int], timeout_s: float) -> list[int]:
    """Those that can be read. Not by select(), which knows no descriptor above 1023."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _event in poll.poll(max(0, int(timeout_s * 1000)))]


def run_with_deadline(command: list[str], timeout_s: float, what: str) -> tuple[int, str, str]:
    """Run a program; where it does not end in time it is killed, and left behind if even that does not end it."""
    try:
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        raise LlmHostError("driver_error", f"{what} could not be started: {error}") from None
    streams = [child.stdout, child.stderr]
    chunks: dict[int, list[bytes]] = {stream.fileno(): [] for stream in streams if stream}
    waiting = list(chunks)
    deadline = time.monotonic() + timeout_s
    while waiting:
        ready = readable(waiting, deadline - time.monotonic())
        if not ready:
            break
        for fd in ready:
            data = os.read(fd, 65536)
            chunks[fd].append(data)
            if not data:
                waiting.remove(fd)
    try:
        code = child.wait(timeout=0 if waiting else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # in uninterruptible sleep nobody can end it: left behind
            child.wait(timeout=0.5)
        raise hung(what, timeout_s) from None
    finally:
        for stream in streams:
            if stream:
                stream.close()
    out, err = (b"".join(part).decode("utf-8", "replace") for part in chunks.values())
    return code, out, err


class SmiDriver:
    """nvidia-smi, run anew for each question."""

    def __init__(self, program: str, timeout_s: float, proc: str = "/proc") -> None:
        self._program = program
        self._timeout_s = timeout_s
        self._proc = proc
        self.nested = nested(proc)

    def _run(self, arguments: list[str]) -> tuple[int, str, str]:
        what = "'" + " ".join(["nvidia-smi", *arguments[:3]]) + "'"
        return run_with_deadline([self._program, *arguments], self._timeout_s, what)

    def look(self) -> Snapshot:
        return smi.look(self._run, self.nested)

    def used_memory(self, uuids: list[str]) -> dict[str, Memory]:
        return smi.used_memory(self._run, uuids, self.nested)

    def capabilities(self, uuids: list[str]) -> dict[str, str]:
        return smi.capabilities(self._run, uuids)

    def device_files(self, minor: int | None) -> list[str]:
        return device_files(minor)

    def close(self) -> None:
        return None


class NvmlDriver:
    """nvidia-ml-py in one child that stays for the whole run, asked through a pipe."""

    def __init__(self, timeout_s: float, proc: str = "/proc") -> None:
        self._timeout_s = timeout_s
        self.nested = nested(proc)
        self._child, self._requests, self._answers = _fork_worker(self.nested)
        self._buffer = b""

    def _ask(self, name: str, *arguments: Any) -> Any:
        deadline = time.monotonic() + self._timeout_s
        try:
            os.write(self._requests, _frame((name, arguments)))
            size = struct.unpack("!I", self._read(4, deadline))[0]
            kind, value = pickle.loads(self._read(size, deadline))
        except BrokenPipeError:
            raise LlmHostError("driver_error", "the child that asks NVML ended: the driver's library crashed") from None
        if kind == "failed":
            raise LlmHostError(value[0], value[1], **value[2])
        return value

    def _read(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            if not readable([self._answers], deadline - time.monotonic()):
                self.close()
                raise hung("NVML", self._timeout_s)
            data = os.read(self._answers, 65536)
            if not data:
                raise BrokenPipeError
            self._buffer += data
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def start(self) -> None:
        """Start NVML in the child; raises why it cannot be."""
        self._ask("start")

    def look(self) -> Snapshot:
        found: Snapshot = self._ask("look")
        return found

    def used_memory(self, uuids: list[str]) -> dict[str, Memory]:
        found: dict[str, Memory] = self._ask("used_memory", uuids)
        return found

    def capabilities(self, uuids: list[str]) -> dict[str, str]:
        return {}  # look() has them

    def device_files(self, minor: int | None) -> list[str]:
        return device_files(minor)

    def close(self) -> None:
        """End the child; one that hangs in the kernel is left behind."""
        child, self._child = self._child, None
        if child is None:
            return
        os.close(self._requests)
        os.close(self._answers)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            child.kill()
            child.wait(timeout=0.5)


class _Forked:
    """A forked child of our own, with the verbs of ``Popen`` that are used here."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)
        self._pid = pid

    def kill(self) -> None:
        signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def wait(self, timeout: float) -> None:
        if not readable([self._fd], timeout):
            raise subprocess.TimeoutExpired("NVML", timeout)
        os.waitpid(self._pid, 0)
        os.close(self._fd)


def _frame(value: Any) -> bytes:
    data = pickle.dumps(value)
    return struct.pack("!I", len(data)) + data


def _fork_worker(is_nested: bool) -> tuple[_Forked | None, int, int]:
    request_read, request_write = os.pipe()
    answer_read, answer_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(request_read)
        os.close(answer_write)
        return _Forked(pid), request_write, answer_read
    try:  # the child: it never returns
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(request_write)
        os.close(answer_read)
        _serve(request_read, answer_write, is_nested)
    finally:
        os._exit(0)


def _serve(requests: int, answers: int, is_nested: bool) -> None:
    library: nvml.Nvml | None = None
    with os.fdopen(requests, "rb") as source:
        while True:
            head = source.read(4)
            if len(head) < 4:
                return
            name, arguments = pickle.loads(source.read(struct.unpack("!I", head)[0]))
            answer: tuple[str, Any]
            try:
                library = library or nvml.Nvml(is_nested)
                answer = ("ok", getattr(library, name)(*arguments))
            except LlmHostError as error:
                answer = ("failed", (error.reason, error.message, error.details))
            except Exception as error:  # whatever it was, the parent must be told
                answer = ("failed", ("driver_error", f"NVML: {type(error).__name__}: {error}", {}))
            data = _frame(answer)
            while data:
                data = data[os.write(answers, data) :]


def open_driver(source: str = "auto", timeout_s: float = 20.0, proc: str = "/proc") -> tuple[Driver, str, str]:
    """The back end to use -> (driver, its name, why it and not the other); reason ``no_driver`` where none is."""
    program = smi.program()
    refused = "source is smi" if source == "smi" else nvml.refusal()
    if source == "nvml" and refused:
        raise LlmHostError(
            "source_unavailable",
            f"source is nvml, but {refused}: install nvidia-ml-py >= 12.535.108 for the interpreter of this task, "
            "or use source: smi",
        )
    if refused is None:
        driver = NvmlDriver(timeout_s, proc)
        try:
            driver.start()
            return driver, "nvml", "nvidia-ml-py is usable, so nvidia-smi is not needed"
        except LlmHostError as error:
            driver.close()
            if source == "nvml" or error.reason not in ("library_missing", "struct_mismatch"):
                raise
            refused = f"nvidia-ml-py cannot be used: {error.message}"
    if program is not None:
        return SmiDriver(program, timeout_s, proc), "smi", refused
    raise LlmHostError(
        "no_driver",
        f"there is no NVIDIA driver here to ask: nvidia-smi is not installed and {refused.rstrip('.')}. "
        "Install the NVIDIA driver (in a container its user space, of the host's version); "
        "where the host has no GPU and needs none, say so (gpu_info: required: false; gpu_clean: gpus: []).",
    )


def look(driver: Driver, name: str, note: str, proc: str = "/proc") -> Snapshot:
    """One look, with where it came from; a version mismatch names both versions."""
    try:
        found = driver.look()
    except LlmHostError as error:
        if error.reason == "version_mismatch":
            known = versions(proc)
            raise LlmHostError(
                error.reason, f"{error.message} [{known or 'no module is loaded'}]", **error.details
            ) from None
        raise
    warnings = [
        f"persistence mode is off on GPU {gpu.index}: the first client pays seconds; 'nvidia-smi -pm 1' or "
        "nvidia-persistenced turns it on"
        for gpu in found.gpus
        if gpu.persistence is False
    ]
    return replace(found, source=name, source_note=note, warnings=found.warnings + tuple(warnings))
