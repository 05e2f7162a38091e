# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The process side of a start: the state of a systemd unit, its processes, what the kernel says of its memory."""

from __future__ import annotations

import contextlib
import os
import re
import select
import time
from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError
from .._process import identity, systemd

COMPILERS = (
    "nvcc",
    "cicc",
    "ptxas",
    "ninja",
    "gcc",
    "g++",
    "cc1plus",
    "cc1",
    "ld",
    "clang",
    "hipcc",
    "cudafe++",
    "fatbinary",
    "c++",
    "lld",
    "triton",
)
SPAWNED = "multiprocessing.spawn import spawn_main"
SEEN_LIMIT = 20000
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class State:
    """A unit at one moment."""

    load: str
    active: str  # active, activating, deactivating, failed, inactive
    sub: str
    result: str
    main_pid: int
    invocation_id: str
    restarts: int
    control_group: str
    exit_code: int | None  # of the last main process that ended
    signal: int | None

    @property
    def running(self) -> bool:
        return self.active in ("active", "activating", "reloading") and self.sub not in ("auto-restart",)

    @property
    def stopped(self) -> bool:
        """Ended because somebody stopped it; systemd forgets how a unit ended that did not fail."""
        well = self.signal in (None, 15) and self.exit_code in (None, 0) and self.result in ("success", "")
        return well and self.active in ("inactive", "deactivating")


def state(unit: str) -> State:
    """Ask systemd."""
    found = systemd.show(unit)
    code, status = found.get("ExecMainCode", "0"), _number(found.get("ExecMainStatus"))
    return State(
        found.get("LoadState", ""),
        found.get("ActiveState", ""),
        found.get("SubState", ""),
        found.get("Result", ""),
        _number(found.get("MainPID")),
        found.get("InvocationID", ""),
        _number(found.get("NRestarts")),
        found.get("ControlGroup", ""),
        status if code == "1" else None,
        status if code in ("2", "3") else None,
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


class Processes:
    """The processes of a control group: who is there, who vanished, how much processor time they took."""

    def __init__(self, control_group: str) -> None:
        self.control_group = control_group
        self.schedulers: dict[int, str] = {}  # pid -> title of the processes whose death ends the server
        self._handles: dict[int, int] = {}
        self.gone: dict[int, str] = {}
        self.importing: set[int] = set()  # children without a title yet
        self.pids: list[int] = []
        self.seen: set[int] = set()  # also those that are gone

    def look(self) -> None:
        """See who is there now."""
        self.pids = self.living()
        if len(self.seen) < SEEN_LIMIT:  # a compilation has thousands
            self.seen.update(self.pids)
        for pid in self.pids:
            if pid in self.schedulers:
                continue
            title = _title(pid)
            if (title.startswith("sglang::") or SPAWNED in title) and _is_fork(pid, title):
                continue
            if title.startswith("sglang::"):
                self.schedulers[pid] = title
                self.importing.discard(pid)
                self._open(pid)
            elif SPAWNED in title and pid not in self.importing:
                self.importing.add(pid)
                self._open(pid)

    def living(self) -> list[int]:
        """Who is in the control group at this moment."""
        return systemd.cgroup_pids(self.control_group)

    def _open(self, pid: int) -> None:
        if pid in self._handles:
            return
        opener = getattr(os, "pidfd_open", None)
        if opener is not None:
            with contextlib.suppress(OSError):
                self._handles[pid] = opener(pid)

    def watch_main(self, pid: int) -> None:
        """Be woken when the main process ends."""
        if pid and pid not in self._handles:
            self._open(pid)

    def descriptors(self) -> list[int]:
        return list(self._handles.values())

    def dead(self) -> dict[int, str]:
        """Schedulers (and the like) that were there and are not any more."""
        for pid, title in list(self.schedulers.items()):
            if not _alive(pid):
                self.gone[pid] = title
                del self.schedulers[pid]
                self._close(pid)
        for pid in list(self.importing):  # one that ends well is a helper; its parent looks for schedulers alone
            if not _alive(pid):
                if _exit_status(pid):
                    self.gone[pid] = "a child that was still importing"
                self.importing.discard(pid)
                self._close(pid)
        return self.gone

    def _close(self, pid: int) -> None:
        handle = self._handles.pop(pid, None)
        if handle is not None:
            os.close(handle)

    def corpses(self, main_pid: int) -> None:
        """Children of the launcher that died before they were seen alive, and that it has not reaped."""
        for pid, parent in identity.parents().items() if main_pid else ():
            if parent != main_pid or pid in self.gone:
                continue
            with contextlib.suppress(OSError, LlmHostError):
                found = identity.stat(pid)
                if found.state in ("Z", "X", "x") and found.comm.startswith("sglang::"):
                    self.schedulers.setdefault(pid, found.comm)

    def halted(self) -> dict[int, str]:
        """Processes of the server that are stopped (SIGSTOP, a debugger) and that nobody has continued."""
        found = {}
        for pid in self.pids:
            with contextlib.suppress(OSError, LlmHostError):
                if identity.stat(pid).state in ("T", "t"):
                    found[pid] = self.schedulers.get(pid) or _title(pid).split(" ")[0].rsplit("/", 1)[-1]
        return found

    def ended(self, pid: int) -> bool:
        """Whether a process that is watched has ended."""
        handle = self._handles.get(pid)
        if handle is not None:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            return bool(poll.poll(0))
        return not _alive(pid)

    def cpu_seconds(self) -> float:
        total = 0.0
        for pid in self.pids:
            with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/%d/stat" % pid, "rb") as handle:
                words = handle.read().rpartition(b")")[2].split()
                total += (int(words[11]) + int(words[12])) / _TICKS
        return total

    def compiling(self) -> bool:
        for pid in self.pids:
            comm = ""
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid, "rb") as handle:
                comm = handle.read().decode("utf-8", "replace").strip()
            if comm in COMPILERS:
                return True
        return False

    def close(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()


def _title(pid: int) -> str:
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as handle:
            return handle.read(200).replace(b"\x00", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _is_fork(pid: int, title: str) -> bool:
    """Whether it has its title from its parent: a program that a rank is about to run, whose end means nothing."""
    try:
        return _title(identity.stat(pid).ppid) == title
    except (OSError, LlmHostError):
        return True


def _exit_status(pid: int) -> int:
    """How a process ended that its parent has not reaped; 0 where it ended well or that cannot be seen."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as handle:
            return int(handle.read().rpartition(b")")[2].split()[49])
    except (OSError, ValueError, IndexError):
        return 0


def _alive(pid: int) -> bool:
    try:
        return identity.stat(pid).state not in ("Z", "X", "x")
    except (OSError, LlmHostError):
        return False


def memory_events(control_group: str) -> int | None:
    """How often the kernel killed a process of this control group for want of memory; None where it cannot be known."""
    paths = [folder + "/memory.events" for folder in systemd.cgroup_dirs(control_group)]
    if control_group.strip("/"):
        paths.append("/sys/fs/cgroup/memory/%s/memory.oom_control" % control_group.strip("/"))  # cgroup v1
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as handle:
            found = re.search(r"^oom_kill (\d+)", handle.read(), re.M)
            if found:
                return int(found.group(1))
    return None


def host_kills(path: str = "/proc/vmstat") -> int | None:
    """How many processes the kernel of this host has killed for want of memory since it started, in any container."""
    try:
        with open(path, encoding="ascii") as handle:
            found = re.search(r"^oom_kill (\d+)$", handle.read(), re.M)
    except (OSError, ValueError):
        return None
    return int(found.group(1)) if found else None


def memory_is_watched() -> bool:
    """Whether systemd would have seen the kernel kill a process of a service for want of memory (Result=oom-kill)."""
    try:
        with open("/sys/fs/cgroup/system.slice/cgroup.subtree_control", encoding="ascii") as handle:
            return "memory" in handle.read().split()
    except OSError:
        return False


def between(unit: str) -> tuple[float | None, float | None]:
    """When a unit's main process was started last and when it ended, in seconds since boot."""
    names = ("ExecMainStartTimestampMonotonic", "ExecMainExitTimestampMonotonic")
    found = systemd.show(unit, names)
    began, ended = (_number(found.get(name)) / 1e6 or None for name in names)
    return began, ended if began and ended and ended >= began else None


def path_state(path: str, uid: int | None, gid: int | None, working_directory: str = "/") -> dict[str, Any]:
    """Whether a path exists, and whether the service's user may read it (asked as that user in a child)."""
    full = path if os.path.isabs(path) else os.path.join(working_directory or "/", path)
    try:
        found = os.stat(full)
    except PermissionError:
        return {"path": full, "exists": None, "readable": False}
    except OSError:
        return {"path": full, "exists": False, "readable": False}
    answer: dict[str, Any] = {
        "path": full,
        "exists": True,
        "mode": "%04o" % (found.st_mode & 0o7777),
        "owner": found.st_uid,
        "readable": None,
    }
    if uid is None or uid == os.geteuid():
        answer["readable"] = os.access(full, os.R_OK)
    elif os.geteuid() == 0:
        answer["readable"] = _readable_as(full, uid, gid if gid is not None else uid)
    return answer


def _readable_as(path: str, uid: int, gid: int) -> bool | None:
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups(_groups(uid, gid))
            os.setgid(gid)
            os.setuid(uid)
            code = 0 if os.access(path, os.R_OK) else 1
        except BaseException:
            code = 2
        finally:
            os._exit(code)
    _pid, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 2
    return {0: True, 1: False}.get(code)


def _groups(uid: int, gid: int) -> list[int]:
    try:
        import pwd

        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except (KeyError, ImportError, OSError):
        return [gid]


def user_of(unit: str) -> tuple[int | None, int | None, str]:
    """(uid, gid, working directory) of a unit's service."""
    found = systemd.show(unit, ("User", "Group", "WorkingDirectory"))
    name = found.get("User", "")
    folder = found.get("WorkingDirectory", "").lstrip("!-") or "/"
    if not name:
        return 0, 0, folder
    try:
        import grp
        import pwd

        entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
        group = found.get("Group", "")
        gid = entry.pw_gid
        if group:
            gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
        return entry.pw_uid, gid, folder
    except (KeyError, ImportError):
        return None, None, folder


def monotonic() -> float:
    return time.monotonic()
