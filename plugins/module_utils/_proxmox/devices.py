# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""GPUs of a node and the device files that a container needs for them."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from .._errors import LlmHostError
from .node import Node

CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
OPTIONAL = ("/dev/nvidia-uvm-tools",)
# Of a container's devN entries, those that are a GPU's. /dev/nvidia-modeset and /dev/dri are not for computing.
OURS = re.compile(r"/dev/nvidia(?:\d+|ctl|-uvm|-uvm-tools|-caps/nvidia-cap\d+)\Z")
CARD = re.compile(r"/dev/nvidia(\d+)\Z")
CURE = (
    "load the driver and make its nodes on the node (nvidia-smi -L; nvidia-modprobe -c 0 -u), "
    "and have them made at boot before guests start"
)


@dataclass(frozen=True)
class Card:
    """One GPU as the driver of the node knows it; ``caps`` are the device files of its MIG slices."""

    minor: int
    uuid: str = ""
    pci: str = ""
    caps: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return f"/dev/nvidia{self.minor}"

    def as_dict(self) -> dict[str, object]:
        return {"uuid": self.uuid, "pci_bus_id": self.pci, "minor": self.minor, "path": self.path}


def cards(node: Node) -> list[Card]:
    """From the driver's folder in /proc, else from nvidia-smi, else from the device files alone."""
    return _from_proc(node) or _from_smi(node) or _from_dev(node)


def _from_proc(node: Node) -> list[Card]:
    found = []
    for path in glob.glob(node.proc + "/driver/nvidia/gpus/*/information"):
        with open(path, encoding="utf-8", errors="replace") as handle:
            facts = {key.strip(): value.strip() for key, _colon, value in (line.partition(":") for line in handle)}
        if facts.get("Device Minor", "").isdigit():
            minor = int(facts["Device Minor"])
            pci = facts.get("Bus Location", os.path.basename(os.path.dirname(path)))
            found.append(Card(minor, facts.get("GPU UUID", ""), pci, caps(node, minor)))
    return sorted(found, key=lambda card: card.minor)


def _from_smi(node: Node) -> list[Card]:
    code, stdout, _stderr = node.call("nvidia-smi", "-q", "-x")
    if code:
        return []
    try:
        tree = ElementTree.fromstring(re.sub(r"<!DOCTYPE[^>]*>", "", stdout))
    except ElementTree.ParseError:
        return []
    found = []
    for gpu in tree.iter("gpu"):
        minor = (gpu.findtext("minor_number") or "").strip()
        if minor.isdigit():
            uuid = (gpu.findtext("uuid") or "").strip()
            found.append(Card(int(minor), uuid, gpu.get("id", ""), caps(node, int(minor))))
    return sorted(found, key=lambda card: card.minor)


def _from_dev(node: Node) -> list[Card]:
    numbers = [CARD.match(path[len(node.root) :]) for path in glob.glob(node.root + "/dev/nvidia[0-9]*")]
    return sorted((Card(int(match.group(1))) for match in numbers if match), key=lambda card: card.minor)


def caps(node: Node, minor: int) -> tuple[str, ...]:
    """Device files of the MIG slices that exist on a card."""
    top = f"{node.proc}/driver/nvidia/capabilities/gpu{minor}/mig"
    numbers = set()
    for path in glob.glob(top + "/gi*/access") + glob.glob(top + "/gi*/ci*/access"):
        with open(path, encoding="ascii", errors="replace") as handle:
            match = re.search(r"^DeviceFileMinor:\s*(\d+)", handle.read(), re.MULTILINE)
        if match:
            numbers.add(int(match.group(1)))
    return tuple(f"/dev/nvidia-caps/nvidia-cap{number}" for number in sorted(numbers))


def choose(found: Sequence[Card], wanted: Sequence[str]) -> list[Card]:
    """By UUID (or its beginning), PCI address or minor number; ``all`` for every one."""
    if [word.lower() for word in wanted] == ["all"]:
        if not found:
            raise LlmHostError("gpu_missing", f"this node has no GPU that its driver knows: {CURE}", gpus=[])
        return list(found)
    chosen: list[Card] = []
    for word in wanted:
        match = [card for card in found if _is(card, word)]
        if len(match) != 1:
            there = (
                ", ".join(f"{card.uuid or 'no UUID'} at {card.pci or '?'} ({card.path})" for card in found) or "none"
            )
            what = "names no GPU" if not match else "names more than one GPU"
            raise LlmHostError(
                "gpu_missing",
                f"gpus: {word!r} {what} of this node; there are: {there}",
                gpus=[card.as_dict() for card in found],
            )
        chosen += [card for card in match if card not in chosen]
    return sorted(chosen, key=lambda card: card.minor)


def _is(card: Card, word: str) -> bool:
    if word.isdigit():
        return card.minor == int(word)
    if ":" in word:
        return _pci(card.pci) == _pci(word)
    return bool(card.uuid) and len(word) >= 8 and card.uuid.lower().startswith(word.lower())


def _pci(address: str) -> str:
    """0000:01:00.0 whether the domain is written with four digits, eight or none."""
    parts = address.lower().split(":")
    return ":".join(parts[-2:]) if len(parts) < 3 or not parts[-3].strip("0") else address.lower().lstrip("0")


def paths(node: Node, chosen: Sequence[Card]) -> list[str]:
    """Every device file that a container needs for these cards, in the order of their entries."""
    if not chosen:
        return []
    wanted = [card.path for card in chosen] + list(CONTROL)
    wanted += [path for path in OPTIONAL if os.path.exists(node.root + path)]
    wanted += [path for card in chosen for path in card.caps]
    for path in wanted:
        check(node, path)
    return wanted


def check(node: Node, path: str) -> None:
    """A device file that is missing, or is a plain file, would let the container's start fail."""
    try:
        mode = node.mode(path)
    except FileNotFoundError:
        raise LlmHostError("device_missing", f"the node has no {path}: {CURE}", device=path) from None
    if not stat.S_ISCHR(mode):
        raise LlmHostError(
            "device_invalid",
            f"{path} on the node is no device but a plain file (made by a mount with create=file, or by a failed "
            f"installation): remove it, then {CURE}",
            device=path,
        )


def majors(node: Node) -> dict[int, str]:
    """Numbers of the character devices that the kernel knows now, by /proc/devices."""
    found: dict[int, str] = {}
    try:
        with open(node.proc + "/devices", encoding="ascii", errors="replace") as handle:
            for line in handle:
                match = re.match(r"\s*(\d+) (\S+)$", line.rstrip())
                if line.startswith("Block devices"):
                    break
                if match:
                    found.setdefault(int(match.group(1)), match.group(2))
    except OSError:
        pass
    return found
