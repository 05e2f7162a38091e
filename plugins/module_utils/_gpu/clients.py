# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""From a driver's process list to people: who is behind a PID, and what else a look needs from the host."""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import replace
from typing import Callable

from .._errors import LlmHostError
from .._process import identity
from . import xid
from .model import Client, Entry, Gpu, Snapshot, pci_key, version_tuple
from .query import run_with_deadline

# Which driver tells host PIDs to a container, and which its own: up to the first the host's, from the second on
# memory by process is right again (between them it reads 0).
OWN_PIDS_FROM = (535, 113, 1)
RIGHT_MEMORY_FROM = (565, 57, 1)


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # of a container, or of nobody any more
        return str(uid)


def problem_of(entry: Entry, pid_max: int, total_mib: int | None) -> str | None:
    """Why an entry cannot be what it says; None where it can."""
    if not 1 < entry.pid <= pid_max:
        return f"{entry.pid} is no possible PID (2 to {pid_max}): the driver and who reads it disagree on the layout"
    if entry.memory_mib is not None and total_mib is not None and entry.memory_mib > total_mib:
        return f"PID {entry.pid} would hold {entry.memory_mib} MiB of a GPU that has {total_mib} MiB"
    return None


def identify(gpu: Gpu, nested: bool, driver: tuple[int, ...], proc: str = "/proc") -> Gpu:
    """The GPU with the processes behind its entries; memory that such a driver cannot know becomes ``None``."""
    found = []
    most = identity.pid_max(proc)
    for entry in gpu.entries or ():
        problem = problem_of(entry, most, gpu.memory.total)
        if nested and entry.memory_mib == 0 and driver < RIGHT_MEMORY_FROM:
            entry = replace(entry, memory_mib=None)
        process = None
        if problem is None and nested and driver < OWN_PIDS_FROM:
            problem = "this driver tells the host's PIDs to a container: whose it is cannot be known here"
        elif problem is None:
            try:
                process = identity.read(entry.pid, proc)
            except ProcessLookupError:
                problem = "no such process is visible here: it ended, or it is in another PID namespace"
            except OSError as error:
                problem = f"it cannot be read: {error.strerror or error}"
        user = user_name(process.uid) if process else None
        found.append(Client(entry, gpu.uuid or f"index {gpu.index}", process, problem, user))
    return replace(gpu, clients=tuple(found))


def kernel_log(
    timeout_s: float, run: Callable[..., tuple[int, str, str]] = run_with_deadline
) -> tuple[list[str], str | None]:
    """Lines of the kernel log since boot that the driver wrote, and why there are none where it cannot be read."""
    tried = []
    for command in (
        ["dmesg"],
        ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-monotonic", "--grep=NVRM: Xid"],
    ):
        if shutil.which(command[0]) is None:
            tried.append(f"{command[0]} is not installed")
            continue
        try:
            code, out, err = run(command, timeout_s, command[0])
        except LlmHostError as error:
            tried.append(f"{command[0]}: {error.message.split('.')[0]}")
            continue
        lines = [line for line in out.splitlines() if "NVRM" in line]
        if lines or code == 0:
            return lines, None
        tried.append(f"{command[0]}: {(err.strip() or 'nothing').splitlines()[0]}")
    return [], "; ".join(tried)


def numa_node(pci_bus_id: str | None, sysfs: str = "/sys") -> int | None:
    """The host's NUMA node that a card is close to; None where the host has but one."""
    if pci_bus_id is None:
        return None
    try:
        with open(f"{sysfs}/bus/pci/devices/{pci_key(pci_bus_id)}/numa_node", encoding="ascii") as handle:
            node = int(handle.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def memory_numa_node(pci_bus_id: str | None, proc: str = "/proc") -> int | None:
    """The NUMA node that the card's own memory is, on hosts where CPU and GPU share one address space."""
    if pci_bus_id is None:
        return None
    try:
        with open(f"{proc}/driver/nvidia/gpus/{pci_key(pci_bus_id)}/numa_status", encoding="ascii") as handle:
            fields = dict(line.split(":", 1) for line in handle.read().splitlines() if ":" in line)
        node = int(fields.get("Node", "-1"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 and "online" in fields.get("Status", "") else None


def enrich(
    snapshot: Snapshot,
    want: set[str],
    nested: bool,
    capabilities: dict[str, str],
    timeout_s: float,
    proc: str = "/proc",
) -> Snapshot:
    """The snapshot with what the driver does not know: processes, kernel log, the host's nodes."""
    driver = version_tuple(snapshot.driver_version)
    warnings = list(snapshot.warnings)
    events: dict[str, list[dict[str, object]]] = {}
    if "xid" in want:
        lines, why = kernel_log(timeout_s)
        events = xid.parse(lines)
        if why:
            warnings.append(f"the kernel log cannot be read, so Xid events are not known: {why}")
    gpus = []
    for gpu in snapshot.gpus:
        gpu = replace(
            gpu,
            compute_capability=gpu.compute_capability or capabilities.get(gpu.uuid or ""),
            numa_node=numa_node(gpu.pci_bus_id),
            memory_numa_node=gpu.memory_numa_node
            if gpu.memory_numa_node is not None
            else memory_numa_node(gpu.pci_bus_id, proc),
            xids=tuple(events.get(pci_key(gpu.pci_bus_id), ())) if gpu.pci_bus_id else (),
        )
        if "clients" in want:
            gpu = identify(gpu, nested, driver, proc)
        gpus.append(gpu)
    if nested and "clients" in want:
        warnings.append(
            "this is not the host's first PID namespace (a container): clients outside it may be missing from the lists"
        )
    return replace(snapshot, gpus=tuple(gpus), warnings=tuple(warnings))


def is_root() -> bool:
    return os.geteuid() == 0
