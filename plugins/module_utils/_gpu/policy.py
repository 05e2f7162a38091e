# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Who may be stopped. Pure: facts about one process and the scope of the task -> a class and why.

A name is necessary and never enough: container, user, unit and GPU must fit too. What no rule names stays alive.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from re import Pattern
from typing import Any

from .._process.identity import Process
from .model import GRAPHICS, MPS

# Classes.
TARGET = "target"  # may be stopped
TOLERATED = "tolerated"  # stays, its memory belongs to the baseline
BLOCKER = "blocker"  # stays, and nothing is done at all
ZOMBIE = "zombie"  # dead already, its parent must reap it
IGNORED = "ignored"  # no client of these GPUs and none of ours


@dataclass(frozen=True)
class Protected:
    """A name that is never signalled; ``prefix``: and whatever begins with it."""

    name: str
    why: str
    prefix: bool = False


PROTECTED: tuple[Protected, ...] = (
    Protected("systemd", "init and its helpers", prefix=True),
    Protected("init", "init"),
    Protected("(sd-pam)", "a login"),
    Protected("dbus-daemon", "system bus"),
    Protected("dbus-broker", "system bus", prefix=True),
    Protected("login", "a login"),
    Protected("sshd", "remote access", prefix=True),
    Protected("dropbear", "remote access"),
    Protected("lxc-start", "the monitor of a container"),
    Protected("lxc-monitord", "container daemon"),
    Protected("lxcfs", "container daemon"),
    Protected("lxd", "container daemon"),
    Protected("incusd", "container daemon"),
    Protected("dockerd", "container daemon"),
    Protected("docker-proxy", "container daemon"),
    Protected("containerd", "container daemon", prefix=True),
    Protected("podman", "container engine"),
    Protected("conmon", "container monitor"),
    Protected("crio", "container daemon"),
    Protected("kubelet", "Kubernetes"),
    Protected("runc", "container runtime"),
    Protected("crun", "container runtime"),
    Protected("pve", "Proxmox daemon", prefix=True),
    Protected("pmxcfs", "Proxmox daemon"),
    Protected("pct", "Proxmox tool"),
    Protected("qm", "Proxmox tool"),
    Protected("corosync", "cluster daemon"),
    Protected("qemu-system-", "a virtual machine", prefix=True),
    Protected("kvm", "a virtual machine"),
    Protected("Xorg", "display server"),
    Protected("Xwayland", "display server"),
    Protected("X", "display server"),
    Protected("gnome-shell", "compositor"),
    Protected("mutter", "compositor", prefix=True),
    Protected("kwin_", "compositor", prefix=True),
    Protected("plasmashell", "desktop"),
    Protected("weston", "compositor"),
    Protected("sway", "compositor"),
    Protected("Hyprland", "compositor"),
    Protected("gdm", "display manager", prefix=True),
    Protected("sddm", "display manager", prefix=True),
    Protected("lightdm", "display manager"),
    Protected("nvidia-persistenced", "keeps the driver loaded"),
    Protected("nv-hostengine", "DCGM: killing it can wedge the GPU"),
    Protected("dcgm", "DCGM and its exporter: killing them can wedge the GPU", prefix=True),
    Protected("nv-fabricmanager", "NVSwitch fabric"),
    Protected("nvidia-imex", "NVLink domain"),
    Protected("nvidia-cuda-mps-", "MPS control and server", prefix=True),
    Protected("nvidia-powerd", "driver daemon"),
    Protected("nvidia-smi", "monitoring"),
    Protected("nvtop", "monitoring"),
    Protected("nvitop", "monitoring"),
    Protected("gpustat", "monitoring"),
    Protected("nvidia_gpu_exporter", "monitoring"),
    Protected("node_exporter", "monitoring"),
    Protected("prometheus", "monitoring", prefix=True),
    Protected("telegraf", "monitoring"),
    Protected("netdata", "monitoring"),
    Protected("zabbix_agent", "monitoring", prefix=True),
    Protected("gpud", "monitoring"),
)
COMM_LENGTH = 15  # the kernel cuts a process's name there

# SGLang's processes. A title (setproctitle) replaces the whole command line.
TITLE = re.compile(r"(?:sglang|sgl_diffusion)::\S")
_INTERPRETER = re.compile(r"(?:\S*/)?(?:python[0-9.]*|pypy[0-9.]*)")
_LAUNCH = re.compile(
    r"\s-m\s+sglang(?:\.\S+)?(?:\s|$)"  # python -m sglang.launch_server
    r"|^\s+(?:-\S+\s+)*\S*/sglang(?:\s|$)"  # python /venv/bin/sglang serve
    r"|^\s+(?:-\S+\s+)*\S*/sglang/(?:launch_server|srt/\S+)\.py(?:\s|$)"
)
_SERVE = re.compile(r"(?:\S*/)?sglang\s+(?:serve|launch_server|generate)(?:\s|$)")
SPAWNED = re.compile(r"multiprocessing\.(?:spawn|forkserver|resource_tracker)\b")  # a child that has no title yet
OUR_RUNTIME = re.compile(r"/opt/llmhost/runtimes?/")

# Scopes that hold whatever somebody started by hand: no manager restarts them.
_LOOSE_SCOPES = re.compile(r"(?:session-[^/]*|app-[^/]*|tmux-spawn-[^/]*|init|vte-spawn-[^/]*|user@?[^/]*)\.scope")


def first_word(process: Process) -> str:
    words = process.cmdline.split(None, 1)
    return words[0] if words else ""


def protected_by(process: Process, extra: tuple[Pattern[str], ...] = ()) -> str | None:
    """Why a process is never signalled; None where no rule protects it."""
    program = os.path.basename(first_word(process)).rstrip(":")
    for row in PROTECTED:
        for name in (process.comm, program):
            cut = row.name[:COMM_LENGTH] if name is process.comm else row.name
            if name == cut or (row.prefix and name.startswith(cut)):
                return f"'{row.name}' is protected: {row.why}"
    for pattern in extra:
        if pattern.search(process.comm) or pattern.search(process.cmdline):
            return f"protected by the task: {pattern.pattern}"
    return None


def titled(process: Process) -> bool:
    """Whether it calls itself a child of SGLang; the kernel's short name is cut, so both are looked at."""
    return bool(TITLE.match(process.cmdline) or TITLE.match(process.comm))


def launcher(process: Process) -> bool:
    """Whether it is SGLang's launcher; a shell that merely mentions it is none."""
    first = first_word(process)
    rest = process.cmdline[len(first) :]
    return bool(_SERVE.match(process.cmdline) or (_INTERPRETER.fullmatch(first) and _LAUNCH.search(rest)))


def interpreter(process: Process) -> bool:
    return bool(_INTERPRETER.fullmatch(first_word(process)))


def sglang(process: Process) -> bool:
    return titled(process) or launcher(process) or (spawned(process) and bool(OUR_RUNTIME.match(first_word(process))))


def spawned(process: Process) -> bool:
    """A Python child of multiprocessing before it takes a title: whose it is, only its relatives tell."""
    return interpreter(process) and bool(SPAWNED.search(process.cmdline))


def managing_unit(process: Process) -> str | None:
    """The unit that would miss this process; None where it was started by hand, from a login or a terminal."""
    unit = process.unit
    if unit is None or _LOOSE_SCOPES.fullmatch(unit):
        return None
    return unit


@dataclass(frozen=True)
class Scope:
    """What the task asked for."""

    match: tuple[Pattern[str], ...] = ()
    users: frozenset[int] | None = None
    units: frozenset[str] = frozenset()
    vmid: int | None = None
    force: bool = False
    protected: tuple[Pattern[str], ...] = ()
    exclude_vmids: frozenset[int] = frozenset()
    exclude_units: frozenset[str] = frozenset()
    exclude_uids: frozenset[int] = frozenset()
    euid: int = 0


@dataclass(frozen=True)
class Facts:
    """What is known of one process."""

    process: Process
    kinds: frozenset[str] = frozenset()  # how it uses the chosen GPUs; empty where it does not
    own: bool = False  # this task, or an ancestor of it
    unit_active: bool | None = None  # of its managing unit on this host; None is "not known"
    relative: bool = False  # SGLang's by its relatives and not by its name
    dead: bool = False  # every thread of it has ended: a zombie


@dataclass(frozen=True)
class Verdict:
    kind: str
    why: str
    details: dict[str, Any] = field(default_factory=dict)


# What every host runs: a pattern that fits one of these names nobody in particular.
ANYBODY = ("python", "python3", "/usr/bin/python3", "bash", "/bin/bash", "sh", "/bin/sh")


def named(process: Process, scope: Scope, sure: bool = False) -> bool:
    """Whether ``match`` names it; with ``sure``, by a pattern that fits no bare interpreter."""
    return any(
        (pattern.search(process.comm) or pattern.search(process.cmdline))
        and not (sure and any(pattern.search(word) for word in ANYBODY))
        for pattern in scope.match
    )


def home(process: Process) -> str:
    """Where a process lives, in words."""
    container = process.container
    if container is None:
        return "this host"
    inner = container.get("inner")
    name = f"{container['kind']} {container.get('vmid') or container.get('id') or container.get('pod') or '?'}"
    return f"{name}, {inner['kind']} inside" if inner else name


def in_place(process: Process, scope: Scope) -> bool:
    """Whether it lives where the task looks: in that container, or on the host itself."""
    container = process.container
    if scope.vmid is None:
        return container is None
    return (
        container is not None
        and container.get("kind") == "lxc"
        and container.get("vmid") == scope.vmid
        and "inner" not in container
    )


def excluded(process: Process, scope: Scope) -> str | None:
    if process.vmid is not None and process.vmid in scope.exclude_vmids:
        return f"container {process.vmid} is excluded by the task"
    unit = managing_unit(process)
    if unit in scope.exclude_units and in_place(process, scope):
        return f"unit {unit} is excluded by the task"
    if process.uid in scope.exclude_uids:
        return f"user {process.uid} is excluded by the task"
    return None


def classify(facts: Facts, scope: Scope) -> Verdict:
    """The class of one process; the first rule that fits decides."""
    process = facts.process
    client = bool(facts.kinds)
    outside = BLOCKER if client else IGNORED
    if process.pid <= 1:
        return Verdict(TOLERATED, "PID 1 is never signalled")
    if facts.own:
        return Verdict(TOLERATED, "this task itself, or what started it")
    why = protected_by(process, scope.protected)
    if why:
        return Verdict(TOLERATED, why)
    why = excluded(process, scope)
    if why:
        return Verdict(TOLERATED, why)
    ours = sglang(process) or facts.relative or named(process, scope, sure=not client)
    unit = managing_unit(process)
    chosen_unit = unit is not None and unit in scope.units and in_place(process, scope)
    if client and facts.kinds == {GRAPHICS} and not named(process, scope):
        return Verdict(TOLERATED, "graphics alone, no compute")
    if facts.dead:
        return Verdict(ZOMBIE if ours or client else IGNORED, "a zombie: only its parent can end it")
    if not in_place(process, scope):
        return Verdict(outside, f"it belongs to {home(process)}")
    if scope.users is not None and process.uid not in scope.users:
        return Verdict(outside, f"it belongs to user {process.uid}")
    if unit is not None and not chosen_unit and facts.unit_active is not False and not scope.force:
        return Verdict(outside, f"it belongs to the unit {unit}, which is active and not named in 'units'")
    if not (ours or chosen_unit or (scope.force and client)):
        return Verdict(outside, "it is not SGLang's, and the task does not name it in 'match'")
    if scope.euid != 0 and process.uid != scope.euid:
        return Verdict(BLOCKER, f"user {scope.euid} may not stop a process of user {process.uid}: run with become")
    return Verdict(
        TARGET, "named unit" if chosen_unit else "stale SGLang" if ours else "forced", {"mps": MPS in facts.kinds}
    )
