# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Looks at one Proxmox container from its node, and at what only its inside tells."""

from __future__ import annotations

import json
import re
from typing import Any

from .._proxmox import container
from .facts import CONTAINER, NODE, Unread
from .look import Look, Scene

PENDING = re.compile(r"^(?P<word>new|del) (?P<key>\w+):")


def config(scene: Scene) -> dict[str, Any] | None:
    """The container's configuration: settings in order, and those of each section; None where it is not here."""
    text = scene.reader.text(f"/etc/pve/lxc/{scene.ask.vmid}.conf")
    if text is None:
        return None
    parsed = container.parse(text)
    return {
        "main": [[line.key, line.value] for line in parsed.entries],
        "sections": {
            section.name: [[line.key, line.value] for line in section.entries]
            for section in parsed.sections
            if section.header is not None
        },
    }


def elsewhere(scene: Scene) -> list[str]:
    """Where in the cluster the number is in use."""
    reader, found = scene.reader, []
    for node in reader.names("/etc/pve/nodes"):
        for kind in ("lxc", "qemu-server"):
            if reader.exists(f"/etc/pve/nodes/{node}/{kind}/{scene.ask.vmid}.conf"):
                found.append(f"nodes/{node}/{kind}/{scene.ask.vmid}")
    return found


def _on_this_node(scene: Scene) -> None:
    if scene.need("config") is None:
        raise Unread("the container is not on this node")


def guest_status(scene: Scene) -> str:
    _on_this_node(scene)
    out = scene.reader.told(["pct", "status", str(scene.ask.vmid)])
    hit = re.search(r"^status: (\w+)", out, re.M)
    if hit is None:
        raise Unread(f"pct status says {out.strip()[:80]!r}")
    return hit.group(1)


def pending(scene: Scene) -> list[str]:
    """Keys whose change waits for the next start."""
    _on_this_node(scene)
    lines = scene.reader.told(["pct", "pending", str(scene.ask.vmid)]).splitlines()
    return [hit.group("key") for hit in map(PENDING.match, lines) if hit]


def active_tasks(scene: Scene) -> list[str]:
    """Tasks of the container that run on this node now."""
    node = scene.reader.text("/etc/hostname") or ""
    path = f"/nodes/{node.strip().split('.')[0]}/tasks"
    out = scene.reader.told(["pvesh", "get", path, "--source", "active", "--output-format", "json"])
    return [task["upid"] for task in json.loads(out or "[]") if str(task.get("id")) == str(scene.ask.vmid)]


def ha(scene: Scene) -> bool:
    text = scene.reader.text("/etc/pve/ha/resources.cfg") or ""
    return re.search(rf"^ct: {scene.ask.vmid}\s*$", text, re.M) is not None


def quorate(scene: Scene) -> bool | None:
    """Whether the cluster has quorum; None where the node is in none."""
    if not scene.reader.exists("/etc/pve/corosync.conf"):
        return None
    said = scene.reader.run(["pvecm", "status"])
    hit = re.search(r"^Quorate:\s*(\w+)", said.out, re.M)
    if hit is None:
        raise Unread(f"pvecm status: {said.text}")
    return hit.group(1) == "Yes"


def guest_memory(scene: Scene) -> dict[str, Any]:
    """The container's control group as the node sees it: inside, its limit is not shown."""
    _on_this_node(scene)
    folder = f"/sys/fs/cgroup/lxc/{scene.ask.vmid}"
    text = scene.reader.text(f"{folder}/memory.events")
    if text is None:
        raise Unread(f"{folder}/memory.events is missing: the container does not run, or its memory is not controlled")
    hit = re.search(r"^full avg10=([\d.]+)", scene.reader.text(f"{folder}/memory.pressure") or "", re.M)
    return {
        "events": {words[0]: int(words[1]) for words in map(str.split, text.splitlines()) if len(words) == 2},
        "pressure_full_avg10": float(hit.group(1)) if hit else None,
        "current": _bytes(scene, f"{folder}/memory.current"),
        "high": _bytes(scene, f"{folder}/memory.high"),
        "max": _bytes(scene, f"{folder}/memory.max"),
    }


def _bytes(scene: Scene, path: str) -> int | None:
    words = (scene.reader.text(path) or "").split()
    return int(words[0]) if words and words[0].isdigit() else None


def systemd_version(scene: Scene) -> int:
    out = scene.reader.told(["systemctl", "--version"])
    hit = re.match(r"systemd (\d+)", out)
    if hit is None:
        raise Unread(f"systemctl --version says {out[:60]!r}")
    return int(hit.group(1))


def exec_status(scene: Scene) -> dict[str, int]:
    """Unit -> exit status of its last run, for units that failed."""
    out = scene.reader.told(["systemctl", "show", "--state=failed", "--property=Id,ExecMainStatus", "*.service"])
    found = {}
    for block in out.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id") and fields.get("ExecMainStatus", "").isdigit():
            found[fields["Id"]] = int(fields["ExecMainStatus"])
    return found


LOOKS = (
    Look("config", ("container", "memory", "devices"), config, (NODE,), guest=True),
    Look("elsewhere", ("container",), elsewhere, (NODE,), guest=True),
    Look("guest_status", ("container",), guest_status, (NODE,), guest=True),
    Look("pending", ("container",), pending, (NODE,), guest=True),
    Look("active_tasks", ("container",), active_tasks, (NODE,), guest=True),
    Look("ha", ("container",), ha, (NODE,), guest=True),
    Look("quorate", ("container",), quorate, (NODE,)),
    Look("guest_memory", ("memory",), guest_memory, (NODE,), guest=True),
    Look("systemd_version", ("container",), systemd_version, (CONTAINER,)),
    Look("exec_status", ("container",), exec_status, (CONTAINER,)),
)
