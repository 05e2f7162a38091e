# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Looks at the system: limits, memory, shared memory, disks, the model's files, package sources."""

from __future__ import annotations

import re
from typing import Any

from .check import EVERYWHERE, HERE, HOST
from .facts import Unread
from .look import Look, Scene

LEFTOVERS = re.compile(r"^(?:nccl-|sglang|psm_|torch_|sem\.|cuda\.shm)")
SOURCE_S = 8.0


def limits(scene: Scene) -> dict[str, int | None]:
    """Hard limits of process 1, which everything started by it can have at most; None: no limit."""
    text = scene.reader.text("/proc/1/limits")
    if text is None:
        raise Unread("/proc/1/limits is missing")
    found: dict[str, int | None] = {}
    for name, words in (("memlock", "Max locked memory"), ("nofile", "Max open files")):
        hit = re.search(rf"^{words}\s+\S+\s+(\S+)", text, re.M)
        if hit is None:
            raise Unread(f"/proc/1/limits has no line '{words}'")
        found[name] = int(hit.group(1)) if hit.group(1).isdigit() else None
    return found


def memory_total(scene: Scene) -> int:
    hit = re.search(r"^MemTotal:\s+(\d+) kB", scene.reader.text("/proc/meminfo") or "", re.M)
    if hit is None:
        raise Unread("/proc/meminfo has no MemTotal")
    return int(hit.group(1)) << 10


def arc(scene: Scene) -> dict[str, int] | None:
    """The cache of ZFS; None where there is no ZFS."""
    text = scene.reader.text("/proc/spl/kstat/zfs/arcstats")
    if text is None:
        return None
    return {name: int(re.findall(rf"^{name}\s+\d+\s+(\d+)", text, re.M)[0]) for name in ("size", "c_max")}


def shm(scene: Scene) -> dict[str, Any] | None:
    """/dev/shm; None where it is no file system of its own."""
    mounts = scene.reader.text("/proc/self/mounts") or ""
    if not re.search(r"^\S+ /dev/shm tmpfs ", mounts, re.M):
        return None
    room = scene.reader.room("/dev/shm")
    names = [name for name in scene.reader.names("/dev/shm") if LEFTOVERS.match(name)]
    return {"total_mib": room["total_mib"], "free_mib": room["free_mib"], "leftovers": names[:20]}


def rooms(scene: Scene) -> dict[str, Any]:
    return {path: scene.reader.room(path) for path in dict.fromkeys([*scene.ask.paths, "/tmp"])}


def models(scene: Scene) -> list[dict[str, Any]]:
    """Each model's folder, and the first file of it that the server's user cannot read."""
    found = []
    for path in scene.ask.model_paths:
        node = scene.reader.node(path)
        refused = scene.reader.refused(path, scene.ask.user) if node else None
        found.append(
            {"path": path, "exists": node is not None, "uid": node["uid"] if node else None, "refused": refused}
        )
    return found


def synchronised(scene: Scene) -> bool:
    out = scene.reader.told(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    return out.strip() == "yes"


def sources(scene: Scene) -> dict[str, str]:
    """Package source -> 'ok' or why it did not answer."""
    texts = [scene.reader.text("/etc/apt/sources.list") or ""]
    folder = "/etc/apt/sources.list.d"
    texts += [scene.reader.text(f"{folder}/{name}") or "" for name in scene.reader.names(folder)]
    found = set()
    for text in texts:
        for line in text.splitlines():
            hit = re.match(r"^(?:deb\s+(?:\[[^\]]*\]\s+)?|URIs:\s*)(https?://[^\s]+)", line)
            if hit:
                found.add(hit.group(1).rstrip("/") + "/")
    return {uri: scene.reader.reaches(uri, SOURCE_S) for uri in sorted(found)[:20]}


LOOKS = (
    Look("clock", ("system",), lambda scene: scene.reader.clock(), EVERYWHERE),
    Look("synchronised", ("system",), synchronised, HOST),
    Look("limits", ("limits",), limits, HERE),
    Look("infiniband", ("limits",), lambda scene: bool(scene.reader.names("/sys/class/infiniband")), HERE),
    Look("memory_total", ("memory",), memory_total, HOST),
    Look("arc", ("memory",), arc, HOST),
    Look("shm", ("storage",), shm, HERE),
    Look("rooms", ("storage",), rooms, EVERYWHERE),
    Look("models", ("storage",), models, HERE),
    Look("sources", ("network",), sources, HERE),
)
