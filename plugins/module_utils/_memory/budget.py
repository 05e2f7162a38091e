# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Where the memory of one card goes: every item named, in GiB, summing up to the card's total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import overheads
from .late import Late
from .pools import Pools
from .problem import Gpu
from .units import GIB, KIB

_NOTHING_GIB = 1e-6

# Items in the order of a start, with the words for people.
ITEMS: dict[str, str] = {
    "driver": "driver",
    "foreign": "other processes",
    "startup": "CUDA context and communication",
    "weights": "weights",
    "draft_weights": "draft weights",
    "load_drop": "left over from loading",
    "multimodal": "multimodal buffers",
    "states": "recurrent states",
    "draft_states": "recurrent states of drafts",
    "kv_cache": "KV cache",
    "window_cache": "KV cache of window layers",
    "draft_kv_cache": "KV cache of the draft",
    "slack": "kept free by the fraction",
    "request_table": "request table",
    "draft_model": "draft model, loaded late",
    "attention_workspace": "attention workspace",
    "decode_graphs": "decode graphs",
    "draft_graphs": "draft graphs",
    "prefill_graphs": "prefill graphs",
    "torch_compile": "torch.compile",
    "activations": "activations of one chunk",
    "vision": "images",
    "unassigned": "not assigned",
}


@dataclass(frozen=True)
class GpuBudget:
    """``items`` sum up to ``total_gib``; a negative ``unassigned`` is what is missing."""

    index: int
    name: str
    total_gib: float
    items: dict[str, float]

    @property
    def missing_gib(self) -> float:
        return max(0.0, -self.items["unassigned"])

    def as_dict(self) -> dict[str, Any]:
        return {
            "gpu": self.index,
            "name": self.name,
            "total_gib": round(self.total_gib, 3),
            "missing_gib": round(self.missing_gib, 3),
            "entries": [
                {"item": item, "text": ITEMS[item], "gib": round(size, 3)} for item, size in self.items.items()
            ],
        }


def table(cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """The budgets as lines for people; ``cards`` as the plan returns them."""
    lines = []
    for card in cards:
        lines.append(f"GPU {card['gpu']} {card['name']}: {card['total_gib']:.2f} GiB")
        lines.extend(f"  {row['text']:<34} {row['gib']:>8.2f}" for row in card["entries"])
        if card["missing_gib"] > 0:
            lines.append(f"  {'missing':<34} {card['missing_gib']:>8.2f}")
    return lines


def of_gpu(
    gpu: Gpu, pools: Pools | None, needed: Late | None, before_pools: Mapping[str, float], slack_gib: float = 0.0
) -> GpuBudget:
    """The budget of one card; what does not fit shows up as negative ``unassigned``.

    Where the pools are what does not fit, the slack is one item: SGLang never touches it for pools.
    """
    total_gib = gpu.total_mib / KIB
    driver_gib = min(overheads.DRIVER_GIB, total_gib - gpu.free_gib)
    sizes = {"driver": driver_gib, "foreign": total_gib - gpu.free_gib - driver_gib, **before_pools}
    if pools is not None:
        sizes.update(_of_pools(pools))
    if needed is not None:
        sizes.update(needed.items)
    elif pools is not None:
        sizes["slack"] = slack_gib
    items = {name: sizes[name] for name in ITEMS if abs(sizes.get(name, 0.0)) > _NOTHING_GIB}
    items["unassigned"] = total_gib - sum(items.values())
    return GpuBudget(gpu.index, gpu.name, total_gib, items)


def _of_pools(pools: Pools) -> dict[str, float]:
    states = pools.states
    return {
        "multimodal": pools.multimodal_bytes / GIB,
        "states": max(0.0, states.pool_bytes) / GIB if states is not None else 0.0,
        "draft_states": max(0.0, states.draft_bytes) / GIB if states is not None else 0.0,
        "kv_cache": pools.kv_bytes / GIB,
        "window_cache": pools.window_bytes / GIB,
        "draft_kv_cache": pools.draft_kv_bytes / GIB,
    }
