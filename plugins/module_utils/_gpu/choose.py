# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Which GPUs are meant: index, UUID, PCI address, MIG UUID, or ``all`` -> GPUs of a snapshot.

CUDA's own variables are not looked at, and a name that fits two GPUs is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .._errors import LlmHostError
from .model import Gpu, Snapshot, pci_key

_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.I)
_MIN_PREFIX = 8  # characters of a UUID after its "GPU-" or "MIG-"


@dataclass(frozen=True)
class Target:
    """A GPU, or one MIG device of it."""

    gpu: Gpu
    mig_uuid: str | None = None

    @property
    def uuid(self) -> str:
        return self.mig_uuid or self.gpu.uuid or f"index {self.gpu.index}"


def choose(snapshot: Snapshot, wanted: Sequence[str], by_name: bool = False) -> list[Target]:
    """The targets in the order of their indexes, each once. Raises reason ``gpu_unknown`` or ``gpu_ambiguous``."""
    found: dict[tuple[int, str | None], Target] = {}
    for word in wanted:
        for target in _resolve(snapshot, str(word).strip(), by_name):
            found[(target.gpu.index, target.mig_uuid)] = target
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or ""))]


def _resolve(snapshot: Snapshot, word: str, by_name: bool) -> list[Target]:
    gpus = snapshot.gpus
    if word.lower() == "all":
        return [Target(gpu) for gpu in gpus]
    hits: list[Target] = []
    if re.fullmatch(r"\d{1,4}", word):
        hits = [Target(gpu) for gpu in gpus if gpu.index == int(word)]
    elif _PCI.fullmatch(word):
        hits = [Target(gpu) for gpu in gpus if gpu.pci_bus_id and pci_key(gpu.pci_bus_id) == pci_key(word)]
    elif word.upper().startswith(("GPU-", "MIG-")):
        key = word.lower()
        if len(key) < 4 + _MIN_PREFIX:
            raise LlmHostError(
                "gpu_ambiguous", f"'{word}' is too short a part of a UUID: give at least {_MIN_PREFIX} characters of it"
            )
        hits = [Target(gpu) for gpu in gpus if gpu.uuid and gpu.uuid.lower().startswith(key)]
        hits += [
            Target(gpu, device.uuid)
            for gpu in gpus
            for device in gpu.mig_devices
            if device.uuid and device.uuid.lower().startswith(key)
        ]
        if len(hits) > 1:
            raise LlmHostError(
                "gpu_ambiguous", f"'{word}' fits {', '.join(hit.uuid for hit in hits)}: give the whole UUID"
            )
    elif by_name:
        hits = [Target(gpu) for gpu in gpus if gpu.name and word.lower() in gpu.name.lower()]
    if not hits:
        known = "; ".join(f"{gpu.index} = {gpu.uuid or gpu.pci_bus_id or 'lost'} ({gpu.name or '?'})" for gpu in gpus)
        raise LlmHostError(
            "gpu_unknown",
            f"no GPU of this host is '{word}'. It has: {known or 'none'}. Use index, UUID, PCI address or 'all'.",
            gpu=word,
        )
    return hits


def mixed(snapshot: Snapshot) -> bool:
    """Whether the host has different models: then CUDA's order is another than this one."""
    return len({gpu.name for gpu in snapshot.gpus if gpu.name}) > 1
