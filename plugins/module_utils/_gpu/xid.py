# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Xid events in the kernel log: what the driver reported since boot, by GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .model import pci_key

# class: fatal (the GPU is gone), reset (the GPU needs a reset), app (restart the program), info (nothing to do)


@dataclass(frozen=True)
class Xid:
    number: int
    kind: str
    meaning: str


XIDS: tuple[Xid, ...] = (
    Xid(13, "app", "graphics engine exception, mostly of the program"),
    Xid(31, "app", "memory page fault of the program"),
    Xid(32, "app", "invalid or corrupted push buffer"),
    Xid(43, "app", "the program's GPU work stopped"),
    Xid(45, "app", "the driver ended the program's work"),
    Xid(48, "reset", "double-bit ECC error"),
    Xid(56, "reset", "display engine error"),
    Xid(57, "reset", "error in the memory or the display interface"),
    Xid(58, "reset", "unstable video memory interface"),
    Xid(61, "reset", "breakpoint in the internal microcontroller"),
    Xid(62, "reset", "the internal microcontroller halted"),
    Xid(63, "info", "a memory row was remapped"),
    Xid(64, "reset", "remapping a memory row failed"),
    Xid(68, "app", "NVDEC exception"),
    Xid(69, "app", "graphics engine class error"),
    Xid(73, "app", "NVENC exception"),
    Xid(74, "reset", "NVLink error"),
    Xid(79, "fatal", "the GPU fell off the bus"),
    Xid(92, "info", "many single-bit ECC errors"),
    Xid(94, "app", "contained ECC error"),
    Xid(95, "reset", "uncontained ECC error"),
    Xid(109, "app", "context switch timed out"),
    Xid(119, "reset", "the GPU system processor does not answer"),
    Xid(120, "reset", "error of the GPU system processor"),
    Xid(140, "reset", "unrecovered ECC error"),
    Xid(143, "reset", "the GPU could not be initialised"),
    Xid(149, "reset", "NVLink error"),
    Xid(154, "info", "the recovery action that the GPU asks for has changed"),
)
BY_NUMBER = {row.number: row for row in XIDS}

# A line of the kernel log, the time and all that an output format puts before it left open.
LINE = re.compile(
    r"NVRM: Xid \(PCI:(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)\): (?P<xid>\d+),?\s*(?P<text>.*)", re.I
)
_TIME = re.compile(r"^\[\s*(\d+\.\d+)\]|^(\d+\.\d+)\s")
MOST = 10  # events that are kept for a GPU, the newest


def parse(lines: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """PCI address -> its Xid events, oldest first: ``xid``, ``class``, ``meaning``, ``time_s``, ``text``."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        hit = LINE.search(line)
        if not hit:
            continue
        number = int(hit.group("xid"))
        row = BY_NUMBER.get(number, Xid(number, "unknown", "not in this collection's table"))
        when = _TIME.match(line)
        bus = hit.group("pci")
        found.setdefault(pci_key(bus if "." in bus else bus + ".0"), []).append(
            {
                "xid": number,
                "class": row.kind,
                "meaning": row.meaning,
                "time_s": float(when.group(1) or when.group(2)) if when else None,
                "text": hit.group("text")[:200],
            }
        )
    return {pci: events[-MOST:] for pci, events in found.items()}
