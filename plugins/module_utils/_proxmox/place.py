# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Where a number of the cluster lives: a container here, one on another node, a virtual machine, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NODES = "/etc/pve/nodes"
_FILE = re.compile(r"/nodes/([^/]+)/(lxc|qemu-server)/(\d+)\.conf\Z")


@dataclass(frozen=True)
class Place:
    """Where VMID is, seen from ``here``; ``node`` and ``kind`` are empty where no node has it."""

    vmid: str
    here: str
    node: str = ""
    kind: str = ""  # lxc, qemu

    @property
    def ours(self) -> bool:
        return self.kind == "lxc" and self.node == self.here

    def reason(self) -> str | None:
        """Why it cannot be worked on from here; ``None`` where it can."""
        if self.ours:
            return None
        if self.kind == "qemu":
            return "virtual_machine"
        return "container_elsewhere" if self.node else "container_missing"

    def sentence(self) -> str:
        if self.kind == "qemu":
            return (
                f"{self.vmid} on node {self.node} is a virtual machine and no container: "
                "reach it by ssh as any other host, or name another number"
            )
        if self.node and self.node != self.here:
            return (
                f"container {self.vmid} is on node {self.node}, not on {self.here}: "
                f"connect to {self.node}, or migrate the container back"
            )
        if not self.node:
            return (
                f"there is no container {self.vmid} on node {self.here}, nor on any other that it knows: "
                "check the number (pct list), or create the container"
            )
        return f"container {self.vmid} is on node {self.here}"


def place(vmid: str | int, here: str, paths: Iterable[str]) -> Place:
    """Read it from the paths of configuration files that exist; a container here wins over what else has its number."""
    vmid, here = str(vmid), here.split(".")[0]
    found = []
    for path in paths:
        match = _FILE.search(path)
        if match and match.group(3) == vmid:
            found.append(Place(vmid, here, match.group(1), "lxc" if match.group(2) == "lxc" else "qemu"))
    found.sort(key=lambda one: (not one.ours, one.kind != "lxc", one.node))
    return found[0] if found else Place(vmid, here)
