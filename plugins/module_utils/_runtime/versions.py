# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What each version of SGLang needs of a host: the table.

Pythons, wheels and CUDA were read from the published metadata of the versions that the rows begin with; what lies
between two rows is like the lower one. Drivers are NVIDIA's minimum for a CUDA release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .._errors import LlmHostError


@dataclass(frozen=True)
class Needs:
    since: str
    python: tuple[int, int]
    glibc: tuple[int, int]
    cuda: str  # of the torch that it pins
    kernel: str  # name of the package with its kernels
    compute_capability: float
    disk_gib: float  # download and installation together, about


TABLE: tuple[Needs, ...] = (
    Needs("0.4.4", (3, 9), (2, 28), "12.4", "sgl-kernel", 7.5, 11),
    Needs("0.4.9", (3, 9), (2, 28), "12.6", "sgl-kernel", 7.5, 11),
    Needs("0.5.3", (3, 10), (2, 28), "12.8", "sgl-kernel", 7.5, 12),
    Needs("0.5.10", (3, 10), (2, 28), "12.8", "sglang-kernel", 7.5, 12),
    Needs("0.5.11", (3, 10), (2, 34), "13.0", "sglang-kernel", 7.5, 14),
    Needs("0.5.22", (3, 11), (2, 34), "13.0", "sglang-kernel", 7.5, 14),
)
# CUDA -> the oldest driver that runs it at all (minor version compatibility), and the one that it came with.
DRIVERS: dict[str, tuple[str, str]] = {
    "12.4": ("525.60.13", "550.54.14"),
    "12.6": ("525.60.13", "560.28.03"),
    "12.8": ("525.60.13", "570.26"),
    "13.0": ("580.65.06", "580.65.06"),
}
_BY_MAJOR = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
NEWEST_PYTHON = (3, 14)


def numbers(version: str) -> tuple[int, ...]:
    """What a version counts as: 0.5.6.post2 -> (0, 5, 6, 2). Only the beginning that is made of numbers."""
    found = re.match(r"^\d+(?:\.(?:post)?\d+)*", version)
    return tuple(int(part.replace("post", "")) for part in found.group().split(".")) if found else ()


def needs(version: str) -> Needs | None:
    """The row of a version; ``None`` for one that is older than the table."""
    wanted = numbers(version)
    if not wanted:
        raise LlmHostError("bad_version", f"{version!r} is no version of SGLang, such as 0.5.23")
    found = None
    for row in TABLE:
        if numbers(row.since) <= wanted:
            found = row
    return found


def driver_minimum(cuda: str) -> str | None:
    """The oldest driver that runs a CUDA release, also one that the table does not name."""
    if cuda in DRIVERS:
        return DRIVERS[cuda][0]
    major = numbers(cuda)[:1]
    return _BY_MAJOR.get(major[0]) if major else None
