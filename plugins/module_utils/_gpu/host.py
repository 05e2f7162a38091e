# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What the release of a GPU needs of the host: processes, units, the clock. One object, so that a test can turn it."""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Sequence

from .._errors import LlmHostError
from .._process import identity, signals, systemd
from .._process.identity import Process
from .._process.signals import Handle
from . import policy
from .query import readable

HEALTH_TIMEOUT_S = 25.0  # SGLang answers 503 itself after 20 s
CLONE_NEWNET = 0x40000000
MPS_CONTROL = "nvidia-cuda-mps-control"
ACTIVE = ("active", "activating", "reloading", "deactivating", "refreshing", "maintenance")


class Host:
    """The real one."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self._units: dict[str, bool | None] = {}
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):  # one descriptor a process, and a driver lists up to 950
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    # -- time ---------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def age(self, process: Process) -> float:
        """How many seconds a process lives. Not by /proc/uptime: a container's counts from its own start."""
        ticks = process.start_time / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks)

    # -- processes ----------------------------------------------------------------------------------------------

    def euid(self) -> int:
        return os.geteuid()

    def own(self) -> set[int]:
        """This process and its ancestors."""
        return set(identity.ancestors(os.getpid(), self.proc))

    def pid_max(self) -> int:
        return identity.pid_max(self.proc)

    def pids(self) -> list[int]:
        return identity.pids(self.proc)

    def read(self, pid: int) -> Process:
        return identity.read(pid, self.proc)

    def group(self, pid: int) -> tuple[int, int]:
        """Session and process group."""
        found = identity.stat(pid, self.proc)
        return found.session, found.group

    def open(self, pid: int) -> Handle:
        return signals.open_handle(pid, self.proc)

    def wait(self, handles: Sequence[Handle], timeout_s: float) -> list[Handle]:
        """Those that still run when all have ended or the time is over."""
        return signals.wait(handles, timeout_s)

    def wait_channel(self, pid: int) -> str | None:
        """Where in the kernel a process sleeps."""
        try:
            with open(f"{self.proc}/{pid}/wchan", encoding="ascii") as handle:
                return handle.read().strip() or None
        except OSError:
            return None

    def holds(self, pid: int, devices: Sequence[str]) -> bool:
        """Whether a process has one of the device files open or mapped."""
        folder = f"{self.proc}/{pid}"
        wanted = set(devices)
        with contextlib.suppress(OSError):
            for name in os.listdir(folder + "/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"{folder}/fd/{name}") in wanted:
                        return True
        with contextlib.suppress(OSError), open(folder + "/maps", encoding="utf-8", errors="replace") as handle:
            return any(line.rstrip().rsplit(None, 1)[-1] in wanted for line in handle if "/dev/" in line)
        return False

    def shared_memory(self, pid: int) -> set[str]:
        """Files in /dev/shm that a process of this mount namespace maps."""
        try:
            if os.readlink(f"{self.proc}/{pid}/ns/mnt") != os.readlink(f"{self.proc}/self/ns/mnt"):
                return set()
            with open(f"{self.proc}/{pid}/maps", encoding="utf-8", errors="replace") as handle:
                return {line.split(None, 5)[5].strip() for line in handle if " /dev/shm/" in line}
        except (OSError, IndexError):
            return set()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    # -- units --------------------------------------------------------------------------------------------------

    def unit_active(self, process: Process) -> bool | None:
        """Whether the unit that manages a process on this host is active; None where that cannot be known."""
        unit = policy.managing_unit(process)
        if unit is None or process.container is not None or "/user@" in process.cgroup:
            return None
        if unit not in self._units:
            try:
                shown = systemd.show(unit, ("LoadState", "ActiveState"))
                self._units[unit] = shown.get("ActiveState", "active") in ACTIVE
            except LlmHostError:
                self._units[unit] = None
        return self._units[unit]

    def unit_is_active(self, unit: str) -> bool:
        return systemd.show(unit, ("ActiveState",)).get("ActiveState") in ACTIVE

    def stop_unit(self, unit: str, timeout_s: float) -> None:
        systemd.systemctl("stop", "--", unit, timeout_s=timeout_s)

    # -- a live server ------------------------------------------------------------------------------------------

    def answers(self, process: Process) -> str | None:
        """The URL at which a server says that it is well; None where nothing answers with 200."""
        if process.zombie:
            return None
        found = identity.listening_ports(process.pid, self.proc)
        said = re.search(r"--port[= ](\d{1,5})\b", process.cmdline)
        asked = [item for item in found if item[1] == (int(said.group(1)) if said else 30000)]
        deadline = self.now() + HEALTH_TIMEOUT_S
        for address, port in asked or found:
            where = _address(address)
            left = deadline - self.now()
            if where and left > 0 and _healthy(process.pid, where, port, "--ssl-" in process.cmdline, left, self.proc):
                return f"http://{where}:{port}/health"
        return None

    # -- MPS ----------------------------------------------------------------------------------------------------

    def mps_control(self, command: str, timeout_s: float = 20.0) -> str | None:
        """What the MPS control daemon answers; None where there is none."""
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                [MPS_CONTROL],
                input=command.encode() + b"\n",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _address(text: str) -> str | None:
    """An address as the kernel prints it -> one to connect to; that of all interfaces becomes the loopback."""
    try:
        raw = b"".join(struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
        family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
        if not any(raw):
            return "127.0.0.1" if family == socket.AF_INET else "::1"
        return socket.inet_ntop(family, raw)
    except (ValueError, struct.error):
        return None


def _healthy(pid: int, address: str, port: int, tls: bool, timeout_s: float, proc: str) -> bool:
    """GET /health in the network namespace of a process, from a child that may enter it and is gone afterwards."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _probe(pid, address, port, tls, timeout_s, proc)
        except BaseException:  # the child must not run the parent's code on
            code = 1
        finally:
            os._exit(code)
    fd = os.pidfd_open(child)
    try:
        if not readable([fd], timeout_s + 2.0):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    finally:
        os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _probe(pid: int, address: str, port: int, tls: bool, timeout_s: float, proc: str) -> int:
    if os.readlink(f"{proc}/{pid}/ns/net") != os.readlink(f"{proc}/self/ns/net"):
        fd = os.open(f"{proc}/{pid}/ns/net", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) != 0:
            return 1
    connection: http.client.HTTPConnection
    if tls:
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(address, port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    connection.request("GET", "/health")
    return 0 if connection.getresponse().status == 200 else 1
