# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Who a process is: what ``/proc`` says of a PID. Reads only, and never its environment.

A PID is a number that the kernel hands out again, so a process is told apart by ``(pid, start_time)``
and signalled through the descriptor of ``signals.Handle`` alone. Every function takes the folder ``proc``
so that a test can turn it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError

MASK = "********"
MAX_CMDLINE = 4096  # characters of a command line that are kept

_HEX = re.compile(r"[0-9a-f]{12,64}")
_VMID = re.compile(r"[1-9][0-9]{0,8}")

# Components of a cgroup path that name a container: expression on ONE whole component -> kind.
_RUNTIME_COMPONENTS = (
    (re.compile(r"docker-([0-9a-f]{64})\.scope"), "docker"),
    (re.compile(r"libpod-([0-9a-f]{64})(?:\.scope)?"), "podman"),
    (re.compile(r"nerdctl-([0-9a-f]{64})\.scope"), "containerd"),
    (re.compile(r"machine-([A-Za-z0-9_.\\-]+)\.scope"), "nspawn"),
    (re.compile(r"systemd-nspawn@([A-Za-z0-9_.\\-]+)\.service"), "nspawn"),
)
_RUNTIME_PARENTS = {"docker": "docker", "libpod_parent": "podman", "actions_job": "docker"}
_POD = re.compile(r"(?:kubepods(?:-[a-z]+)?-)?pod([0-9a-f]{8}[0-9a-f_-]+)(?:\.slice)?")
_POD_CONTAINER = re.compile(r"(?:cri-containerd-|crio-|docker-)?([0-9a-f]{64})(?:\.scope)?")

# Options whose value is a secret; an option that merely ends in "tokens" or begins with "tokenizer" is none.
# Every repetition is bounded: a line of "a-a-a-..." must not cost the square of its length.
_PREFIX = r"(?:[a-z0-9]{1,40}[-_]){0,8}"
_SECRET_OPTION = re.compile(r"--?" + _PREFIX + r"(?:api[-_]?key|key|token|secret|passwd|password|credentials?)", re.I)
_SECRET_NAME = _PREFIX + r"(?:api[-_]?key|access[-_]?key|private[-_]?key|secret|passwd|password)"
_TOKEN_NAME = _PREFIX + r"token"
# "api_key=None" hides nothing, and "#new-token: 12" counts.
_NO_VALUE = r"(?!(?:None|null|True|False)(?![^\s,;}\])]))"
_NO_COUNT = r"(?!-?[0-9]{1,7}(?:\.[0-9]+)?(?![^\s,;}\])]))"
_VALUE = r"(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|[^\s,;}\]]+)"
_MASKS = (
    (
        re.compile(
            r"(--?" + _PREFIX + r"(?:api[-_]?key|key|token|secret|passwd|password|credentials?)(?:=|\s+))"
            r"(?!-)" + _VALUE,
            re.I,
        ),
        r"\1" + MASK,
    ),
    (re.compile(r"(\b" + _SECRET_NAME + r"[\"']?\s{0,8}[=:]\s{0,8})" + _NO_VALUE + _VALUE, re.I), r"\1" + MASK),
    (
        re.compile(r"(\b" + _TOKEN_NAME + r"[\"']?\s{0,8}[=:]\s{0,8})" + _NO_VALUE + _NO_COUNT + _VALUE, re.I),
        r"\1" + MASK,
    ),
    (re.compile(r"(\b[A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD)=)" + _VALUE), r"\1" + MASK),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", re.I), r"\1 " + MASK),
    (re.compile(r"\bhf_[A-Za-z0-9]{6,}"), "hf_" + MASK),
    (re.compile(r"\b(sk|nvapi|glpat|ghp|gho|github_pat)([-_])[A-Za-z0-9_-]{8,}"), r"\1\2" + MASK),
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,40}://[^/\s:@]*):[^/\s@]+@", re.I), r"\1:" + MASK + "@"),
)


@dataclass(frozen=True)
class Process:
    """One process at one moment. ``(pid, start_time)`` is its identity, the rest describes it."""

    pid: int
    start_time: int  # clock ticks since boot
    uid: int  # effective
    comm: str
    cmdline: str  # secrets masked
    state: str  # one letter, as in ps
    ppid: int
    cgroup: str = "/"
    unit: str | None = None  # the innermost .service or .scope, inside a container too
    container: dict[str, Any] | None = None  # kind, and vmid or id
    ns_pid: list[int] = field(default_factory=list)  # its PID in each namespace, outermost first

    @property
    def vmid(self) -> int | None:
        return (self.container or {}).get("vmid")

    @property
    def zombie(self) -> bool:
        return self.state in ("Z", "X", "x")

    def same(self, other: Process) -> bool:
        return self.pid == other.pid and self.start_time == other.start_time

    def as_dict(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "start_time": self.start_time,
            "uid": self.uid,
            "comm": self.comm,
            "cmdline": self.cmdline,
            "state": self.state,
            "ppid": self.ppid,
            "cgroup": self.cgroup,
            "unit": self.unit,
            "container": dict(self.container) if self.container else None,
            "ns_pid": list(self.ns_pid),
        }


@dataclass(frozen=True)
class Stat:
    """The fields of ``/proc/PID/stat`` that are read here."""

    comm: str
    state: str
    ppid: int
    group: int
    session: int
    start_time: int
    threads: int


def mask(text: str) -> str:
    """The text with its secrets replaced: values of secret options and variables, known token shapes."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def mask_arguments(arguments: Iterable[str]) -> list[str]:
    """A command line with its secrets replaced, argument by argument: a secret may hold a space."""
    masked: list[str] = []
    secret = False
    for argument in arguments:
        if secret and not argument.startswith("-"):
            masked.append(MASK)
        elif "=" in argument and _SECRET_OPTION.fullmatch(argument.split("=", 1)[0]):
            masked.append(argument.split("=", 1)[0] + "=" + MASK)
        else:
            masked.append(mask(argument))
        secret = _SECRET_OPTION.fullmatch(argument) is not None
    return masked


def parse_stat(text: str) -> Stat:
    """Fields of ``/proc/PID/stat``. The name may hold spaces and brackets: fields start after the LAST ')'."""
    first, last = text.find("("), text.rfind(")")
    fields = text[last + 1 :].split()
    if first < 0 or last < first or len(fields) < 20:
        raise ValueError(f"not a line of /proc/PID/stat: {text[:80]!r}")
    return Stat(
        comm=text[first + 1 : last],
        state=fields[0],
        ppid=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_time=int(fields[19]),
        threads=int(fields[17]),
    )


def cgroup_paths(text: str) -> list[str]:
    """The paths in ``/proc/PID/cgroup`` other than '/': ``0::`` first, then v1's of systemd, then the controllers'."""
    unified: list[str] = []
    named: list[str] = []
    others: list[str] = []
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        path = parts[2]
        if path.endswith(" (deleted)"):  # the group is gone, its last process is not
            path = path[: -len(" (deleted)")]
        if path.strip("/"):
            (unified if parts[1] == "" else named if parts[1] == "name=systemd" else others).append(path)
    return unified + named + others


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", "..")]


def unit_of(path: str) -> str | None:
    """The innermost systemd unit of a cgroup path: its last ``.service`` or ``.scope`` component."""
    for part in reversed(_components(path)):
        if len(part) > 8 and part.endswith(".service") or len(part) > 6 and part.endswith(".scope"):
            return part
    return None


def container_of(path: str) -> dict[str, Any] | None:
    """The outermost container (or Proxmox VM) of a cgroup path, by whole components; what is nested is ``inner``."""
    return _container(_components(path))


def _container(parts: list[str]) -> dict[str, Any] | None:
    if not parts:
        return None
    # At the root of the tree only: whoever may make groups elsewhere could call one "lxc" too.
    if parts[0] == "lxc" and len(parts) > 1:
        return _lxc(parts[1], parts[2:])
    if parts[0].startswith("lxc.payload.") and len(parts[0]) > len("lxc.payload."):
        return _lxc(parts[0][len("lxc.payload.") :], parts[1:])
    if parts[0] == "qemu.slice" and len(parts) > 1 and parts[1].endswith(".scope"):
        name = parts[1][: -len(".scope")]
        if _VMID.fullmatch(name):
            return {"kind": "qemu", "vmid": int(name)}
    pod: dict[str, Any] | None = None
    for index, part in enumerate(parts):
        if part.startswith("kubepods"):
            pod = pod or {"kind": "k8s", "id": None}
        if pod is not None:
            named = _POD.fullmatch(part)
            held = _POD_CONTAINER.fullmatch(part)
            if named:
                pod["pod"] = named.group(1).replace("_", "-")
            elif held:
                pod["id"] = held.group(1)
            continue
        for pattern, kind in _RUNTIME_COMPONENTS:
            found = pattern.fullmatch(part)
            if found:
                return {"kind": kind, "id": found.group(1)}
        if part in _RUNTIME_PARENTS and index + 1 < len(parts) and _HEX.fullmatch(parts[index + 1]):
            return {"kind": _RUNTIME_PARENTS[part], "id": parts[index + 1]}
    return pod


def _lxc(name: str, rest: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": "lxc", "vmid": int(name)} if _VMID.fullmatch(name) else {"kind": "lxc", "id": name}
    inner = _container(rest[1:] if rest[:1] == ["ns"] else rest)
    if inner:
        found["inner"] = inner
    return found


def _read_bytes(path: str) -> bytes:
    """A file of ``/proc``; a process that is gone is ``ProcessLookupError`` whatever the kernel calls it."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR):
            raise ProcessLookupError(errno.ESRCH, "no such process", path) from None
        raise


def _read_text(path: str) -> str:
    return _read_bytes(path).decode("utf-8", "replace")


def _optional(path: str) -> str:
    """A file that may be unreadable or absent while the process lives (hidepid, old kernel): empty then."""
    try:
        return _read_text(path)
    except OSError:
        return ""


def stat(pid: int, proc: str = "/proc") -> Stat:
    """``/proc/PID/stat``; ``ProcessLookupError`` where there is no such process here."""
    try:
        return parse_stat(_read_text(f"{proc}/{pid}/stat"))
    except ValueError:
        raise ProcessLookupError(errno.ESRCH, "no such process", str(pid)) from None


def read(pid: int, proc: str = "/proc") -> Process:
    """The identity of a PID in this namespace; ``ProcessLookupError`` where there is none, or it changed meanwhile."""
    folder = f"{proc}/{pid}"
    before = stat(pid, proc)
    uid, ns_pid = _status(_optional(folder + "/status"), folder)
    raw = _optional(folder + "/cmdline").split("\0")
    while raw and not raw[-1]:
        raw.pop()
    paths = cgroup_paths(_optional(folder + "/cgroup"))
    after = stat(pid, proc)
    if after.start_time != before.start_time:
        raise ProcessLookupError(errno.ESRCH, "the PID was taken over while it was read", str(pid))
    return Process(
        pid=pid,
        start_time=after.start_time,
        uid=uid,
        comm=after.comm,
        cmdline=" ".join(mask_arguments(raw))[:MAX_CMDLINE],
        state=after.state,
        ppid=after.ppid,
        cgroup=paths[0] if paths else "/",
        unit=next((unit for unit in map(unit_of, paths) if unit), None),
        container=next((found for found in map(container_of, paths) if found), None),
        ns_pid=ns_pid,
    )


def _status(text: str, folder: str) -> tuple[int, list[int]]:
    """Effective user and PIDs by namespace from ``/proc/PID/status``; ``NSpid`` is missing before kernel 4.1."""
    uid = -1
    ns_pid: list[int] = []
    for line in text.splitlines():
        key, _colon, value = line.partition(":")
        words = value.split()
        if key == "Uid" and len(words) > 1 and words[1].isdigit():
            uid = int(words[1])
        elif key == "NSpid":
            ns_pid = [int(word) for word in words if word.isdigit()]
    if uid < 0:
        try:
            uid = os.stat(folder).st_uid
        except OSError:
            raise ProcessLookupError(errno.ESRCH, "no such process", folder) from None
    return uid, ns_pid


def pids(proc: str = "/proc") -> list[int]:
    """All processes that this PID namespace shows, sorted."""
    return sorted(int(name) for name in os.listdir(proc) if name.isdigit())


def pid_max(proc: str = "/proc") -> int:
    """The largest PID that the kernel hands out; 4194304, the kernel's own limit, where it cannot be read."""
    words = _optional(proc + "/sys/kernel/pid_max").split()
    return int(words[0]) if words and words[0].isdigit() else 4194304


def parents(proc: str = "/proc") -> dict[int, int]:
    """PID -> parent of every process that can be read."""
    found: dict[int, int] = {}
    for pid in pids(proc):
        try:
            found[pid] = stat(pid, proc).ppid
        except OSError:
            continue
    return found


def children(pid: int, proc: str = "/proc") -> list[int]:
    """All descendants of a process, sorted (its children, theirs, and so on)."""
    below: dict[int, list[int]] = {}
    for child, parent in parents(proc).items():
        below.setdefault(parent, []).append(child)
    found: set[int] = set()
    todo = list(below.get(pid, ()))
    while todo:
        child = todo.pop()
        if child != pid and child not in found:
            found.add(child)
            todo.extend(below.get(child, ()))
    return sorted(found)


def ancestors(pid: int, proc: str = "/proc") -> list[int]:
    """The process itself, its parent, and so on up to PID 1 (or 0, the edge of the namespace, left out)."""
    found: list[int] = []
    while pid > 0 and pid not in found:
        found.append(pid)
        try:
            pid = stat(pid, proc).ppid
        except OSError:
            break
    return found


def _listening(folder: str) -> dict[str, tuple[str, int]]:
    """Socket inode -> (address in hexadecimal, port) of the TCP sockets that listen, IPv4 and IPv6."""
    found: dict[str, tuple[str, int]] = {}
    for name in ("tcp", "tcp6"):
        for line in _optional(folder + "/" + name).splitlines()[1:]:
            words = line.split()
            if len(words) < 10 or words[3] != "0A":
                continue
            address, _colon, port = words[1].rpartition(":")
            try:
                found[words[9]] = (address, int(port, 16))
            except ValueError:
                continue
    return found


def _socket_inodes(pid: int, proc: str) -> set[str]:
    """Inodes of the sockets that a process holds; ``OSError`` where they cannot be read."""
    folder = f"{proc}/{pid}/fd"
    found = set()
    for name in os.listdir(folder):
        try:
            target = os.readlink(folder + "/" + name)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def listeners(port: int, proc: str = "/proc") -> list[int]:
    """PIDs that listen on a TCP port in this network namespace, sorted; empty where nobody listens.

    Raises ``LlmHostError`` with reason ``owner_unknown`` where a socket listens but its owner cannot be seen
    (not root, or the owner lives in another PID namespace).
    """
    wanted = {inode for inode, (_address, number) in _listening(proc + "/net").items() if number == port}
    if not wanted:
        return []
    owners: set[int] = set()
    seen: set[str] = set()
    for pid in pids(proc):
        try:
            held = _socket_inodes(pid, proc) & wanted
        except OSError:
            continue
        if held:
            owners.add(pid)
            seen |= held
    if wanted - seen:
        raise LlmHostError(
            "owner_unknown",
            f"TCP port {port} is taken, but not every owner of its listening socket can be seen from here: "
            "run as root, and on the host whose process it is",
            port=port,
            owners=sorted(owners),
        )
    return sorted(owners)


def listening_ports(pid: int, proc: str = "/proc") -> list[tuple[str, int]]:
    """(address in hexadecimal as the kernel prints it, port) of each TCP socket that a process listens on, in its
    own network namespace; empty where its descriptors cannot be read."""
    sockets = _listening(f"{proc}/{pid}/net")
    try:
        held = _socket_inodes(pid, proc)
    except OSError:
        return []
    return sorted({sockets[inode] for inode in held if inode in sockets})
