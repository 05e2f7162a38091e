# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Constants that were measured, not derived. Calibration replaces them with numbers from this very host."""

from __future__ import annotations

from .units import KIB

# What the driver keeps of an idle card: its total minus its free memory.
DRIVER_GIB = 0.55
# CUDA context, libraries, and what a few ranks need to talk to each other.
CONTEXT_GIB = 0.55
MANY_RANKS_GIB = 1.4  # eight ranks or more on large cards
BLACKWELL_CONSUMER_GIB = 0.5  # RTX 5090, RTX PRO 6000
SMALL_CARD_CONTEXT_GIB = 0.25
SMALL_CARD_MIB = 20 * KIB
LARGE_CARD_MIB = 60 * KIB

# Free memory lost between the end of loading and the sizing of the pools.
LOAD_DROP_GIB = 0.02


def load_extra_gib(tp: int) -> float:
    """What loading takes beyond the tensors: allocator rounding, rotary tables, workspaces."""
    return 0.06 + 0.04 * tp


def startup_loss_gib(gpu_name: str, total_mib: int, tp: int) -> float:
    """From the free memory that the driver reports to the free memory at "Load weight begin"."""
    name = gpu_name.upper()
    if name.startswith("ASCEND"):
        return 3.22 - DRIVER_GIB
    if "MI3" in name:
        return (0.7 if tp == 1 else 4.0) - DRIVER_GIB
    loss = SMALL_CARD_CONTEXT_GIB if total_mib < SMALL_CARD_MIB else CONTEXT_GIB
    if tp >= 8 and total_mib > LARGE_CARD_MIB:
        loss += MANY_RANKS_GIB
    if "5090" in name or "PRO 6000" in name:
        loss += BLACKWELL_CONSUMER_GIB
    return loss


def has_unified_memory(gpu_name: str) -> bool:
    """Cards that share the host's memory: what is free moves by gigabytes while a model loads."""
    name = gpu_name.upper()
    return any(part in name for part in ("GB10", "DGX SPARK", "JETSON", "ORIN", "THOR", "TEGRA"))


def before_load_from_total_gib(gpu_name: str, total_mib: int | None, tp: int) -> float | None:
    """Free memory at "Load weight begin" on an idle card of this size, None where it cannot be told."""
    if not total_mib or has_unified_memory(gpu_name):
        return None
    return total_mib / KIB - DRIVER_GIB - startup_loss_gib(gpu_name, total_mib, tp)
