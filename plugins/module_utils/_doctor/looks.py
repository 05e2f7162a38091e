# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""All looks, and where a run is: on a Proxmox node, in a container, or on a machine without either."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from . import looks_devices, looks_driver, looks_guest, looks_server, looks_system
from .check import Ask
from .facts import BARE_METAL, CONTAINER, NODE, Facts, Unread
from .look import Look, Scene, take
from .reader import Reader

LOOKS: tuple[Look, ...] = (
    looks_driver.LOOKS + looks_devices.LOOKS + looks_server.LOOKS + looks_guest.LOOKS + looks_system.LOOKS
)


def place_of(reader: Reader) -> str:
    """A node has Proxmox's configuration, which no container of it has; a container says so itself."""
    if reader.exists("/etc/pve/lxc") or reader.exists("/etc/pve/nodes"):
        return NODE
    environ = ""
    with contextlib.suppress(Unread):  # not root: the other marks tell
        environ = reader.text("/proc/1/environ") or ""
    marks = ("/run/systemd/container", "/run/.containerenv", "/.dockerenv")
    if any(part.startswith("container=") for part in environ.split("\0")) or any(map(reader.exists, marks)):
        return CONTAINER
    return BARE_METAL


def look(reader: Reader, ask: Ask, place: str, families: Collection[str]) -> Facts:
    """Everything that the checks of these families need of this host. Changes nothing."""
    return take(Scene(reader, ask, place), LOOKS, families)
