# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The nouns: a GPU, its memory, who uses it, and one look at all of them. ``None`` is "not known" and never 0."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from .._process.identity import Process

ROUNDING_MIB = 4  # nvidia-smi rounds each number to MiB
COMPUTE, GRAPHICS, MPS = "compute", "graphics", "mps"

# Recovery actions that a driver may ask for: NVML's number -> the words that are returned.
RECOVERY = (
    "none",
    "reset",
    "reboot",
    "drain_p2p",
    "drain_and_reset",
    "recover_imex_domain",
    "bus_reset",
    "system_reboot",
)


@dataclass(frozen=True)
class Memory:
    """Memory in MiB; ``used`` is without what the driver reserves, where that is told apart."""

    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    note: str | None = None  # why something is not known

    def as_dict(self) -> dict[str, Any]:
        return {"total": self.total, "used": self.used, "free": self.free, "reserved": self.reserved}


def memory(total: int | None, used: int | None, free: int | None, reserved: int | None, note: str = "") -> Memory:
    """Numbers of a driver, checked. Some versions count the reserved part as used, some do not: both are tried, and
    numbers that fit neither are not believed."""
    if total is None or used is None or free is None:
        return Memory(note=note or "the driver gives no memory for it")
    if total <= 0 or used < 0 or free < 0 or used > total or free > total or (used == 0 and free == 0):
        return Memory(note=f"the driver's numbers are impossible (total {total}, used {used}, free {free} MiB)")
    if reserved is None:
        if abs(total - used - free) > ROUNDING_MIB:
            return Memory(note=f"the driver's numbers do not add up (total {total}, used {used}, free {free} MiB)")
        return Memory(total, used, free, None)
    if abs(total - used - free - reserved) <= ROUNDING_MIB:
        return Memory(total, used, free, reserved)
    if abs(total - used - free) <= ROUNDING_MIB and used + ROUNDING_MIB >= reserved:
        return Memory(total, max(0, used - reserved), free, reserved)
    return Memory(
        note=f"the driver's numbers do not add up (total {total}, used {used}, free {free}, reserved {reserved} MiB)"
    )


@dataclass(frozen=True)
class Entry:
    """One line of a driver's process list, as it came: its PID proves nothing yet."""

    pid: int
    kinds: tuple[str, ...]  # compute, graphics, mps
    memory_mib: int | None = None
    gpu_instance: int | None = None

    @property
    def kind(self) -> str:
        return next(kind for kind in (MPS, COMPUTE, GRAPHICS) if kind in self.kinds)


def merged(entries: list[Entry]) -> tuple[Entry, ...]:
    """One entry for each PID and instance: a process may be on several lists."""
    found: dict[tuple[int, int | None], Entry] = {}
    for entry in entries:
        key = (entry.pid, entry.gpu_instance)
        old = found.get(key)
        if old is None:
            found[key] = entry
        else:
            known = [size for size in (old.memory_mib, entry.memory_mib) if size is not None]
            kinds = old.kinds + tuple(kind for kind in entry.kinds if kind not in old.kinds)
            found[key] = replace(old, kinds=kinds, memory_mib=max(known) if known else None)
    return tuple(found.values())


@dataclass(frozen=True)
class Client:
    """Who uses a GPU: a driver's entry and the process behind it, or why that is not known (``problem``)."""

    entry: Entry
    gpu: str
    process: Process | None = None
    problem: str | None = None
    user: str | None = None

    def as_dict(self) -> dict[str, Any]:
        process = self.process
        return {
            "pid": self.entry.pid,
            "kind": self.entry.kind,
            "memory_mib": self.entry.memory_mib,
            "gpu_instance": self.entry.gpu_instance,
            "identified": process is not None,
            "problem": self.problem,
            "user": self.user,
            "uid": process.uid if process else None,
            "comm": process.comm if process else None,
            "cmdline": process.cmdline if process else None,
            "start_time": process.start_time if process else None,
            "state": process.state if process else None,
            "ppid": process.ppid if process else None,
            "cgroup": process.cgroup if process else None,
            "unit": process.unit if process else None,
            "container": dict(process.container) if process and process.container else None,
            "ns_pid": list(process.ns_pid) if process else [],
        }


@dataclass(frozen=True)
class MigDevice:
    index: int
    uuid: str | None
    gpu_instance: int | None
    compute_instance: int | None
    memory: Memory
    profile: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "uuid": self.uuid,
            "gpu_instance": self.gpu_instance,
            "compute_instance": self.compute_instance,
            "profile": self.profile,
            "memory_mib": self.memory.as_dict(),
        }


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str | None
    name: str | None = None
    pci_bus_id: str | None = None
    minor: int | None = None
    memory: Memory = field(default_factory=Memory)
    entries: tuple[Entry, ...] | None = ()  # None: the driver would not say
    utilization: int | None = None
    memory_utilization: int | None = None
    compute_capability: str | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    display_active: bool | None = None
    mig_mode: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    addressing_mode: str | None = None
    memory_numa_node: int | None = None  # its memory is that NUMA node of the host
    numa_node: int | None = None  # the host's node that it is close to
    recovery_action: str | None = None
    errors: tuple[dict[str, Any], ...] = ()  # {call, reason, message}
    xids: tuple[dict[str, Any], ...] = ()
    clients: tuple[Client, ...] = ()

    @property
    def unified(self) -> bool:
        """Whether its memory is the host's, so that what is used says nothing of its clients."""
        return (
            self.addressing_mode == "ats"
            or self.memory_numa_node is not None
            or (self.memory.total is None and not self.mig_mode and self.memory.note == NO_OWN_MEMORY)
        )

    @property
    def lost(self) -> bool:
        return any(error["reason"] == "gpu_lost" for error in self.errors)

    def health(self) -> tuple[str, list[str]]:
        """``ok``, ``degraded`` or ``unusable``, and why."""
        bad: list[str] = []
        worse: list[str] = []
        for error in self.errors:
            (worse if error["reason"] in ("gpu_lost", "reset_required", "driver_error") else bad).append(
                error["message"]
            )
        if self.recovery_action not in (None, "none"):
            worse.append(f"the driver asks for the recovery action '{self.recovery_action}'")
        for xid in self.xids:
            if xid["class"] in ("fatal", "reset"):
                bad.append(f"Xid {xid['xid']} in the kernel log: {xid['meaning']}")
        return ("unusable" if worse else "degraded" if bad else "ok"), worse + bad

    def as_dict(self) -> dict[str, Any]:
        health, reasons = self.health()
        return {
            "index": self.index,
            "uuid": self.uuid,
            "name": self.name,
            "pci_bus_id": self.pci_bus_id,
            "minor": self.minor,
            "memory_mib": self.memory.as_dict(),
            "memory_note": self.memory.note,
            "utilization_percent": self.utilization,
            "memory_utilization_percent": self.memory_utilization,
            "compute_capability": self.compute_capability,
            "persistence": self.persistence,
            "ecc": self.ecc,
            "display_active": self.display_active,
            "mig_mode": self.mig_mode,
            "mig_devices": [device.as_dict() for device in self.mig_devices],
            "unified_memory": self.unified,
            "numa_node": self.numa_node,
            "memory_numa_node": self.memory_numa_node,
            "recovery_action": self.recovery_action,
            "health": health,
            "health_reasons": reasons,
            "errors": [dict(error) for error in self.errors],
            "xids": [dict(xid) for xid in self.xids],
            "clients_known": self.entries is not None,
            "clients": [client.as_dict() for client in self.clients],
        }


NO_OWN_MEMORY = "the driver says that it has no memory of its own"


@dataclass(frozen=True)
class Snapshot:
    """One look at all GPUs of this host."""

    source: str  # nvml or smi
    source_note: str  # why this one and not the other
    driver_version: str | None
    cuda_version: str | None
    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...] = ()

    @property
    def simulated(self) -> bool:
        return "sim" in (self.driver_version or "").lower()


def pci_key(text: str) -> str:
    """A PCI address in one spelling: ``0000:01:00.0``."""
    parts = text.strip().lower().split(":")
    if len(parts) == 2:
        parts.insert(0, "0")
    domain = int(parts[0], 16) if len(parts) == 3 and re.fullmatch(r"[0-9a-f]+", parts[0]) else 0
    return f"{domain:04x}:{':'.join(parts[1:])}"


def version_tuple(text: str | None) -> tuple[int, ...]:
    """``535.113.01`` -> (535, 113, 1); what is no number ends it."""
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(part) for part in found.group().split(".")) if found else ()
