# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The answer of the planner, and how it looks as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .arguments import HiddenDefault, Launch
from .budget import GpuBudget
from .fraction import WorkSizes
from .late import Late
from .pools import Memory, Pools
from .units import GIB
from .weights import Weights

OK, TIGHT, FAIL, UNKNOWN = "ok", "tight", "fail", "unknown"


@dataclass(frozen=True)
class Loaded:
    """One rank before and after loading, GiB; the target's own share and the draft's."""

    before_gib: float
    after_target_gib: float
    after_gib: float
    weights_gib: float
    draft_gib: float
    margin_gib: float


@dataclass(frozen=True)
class Plan:
    """The answer. Numbers are None where SGLang would not get that far, or where they are not known."""

    verdict: str
    stage: str | None
    message: str | None
    version: str
    unknown: tuple[str, ...]
    hidden_defaults: tuple[HiddenDefault, ...]
    launch: Launch | None = None
    fraction_given: float | None = None
    fraction_automatic: float | None = None
    fraction_effective: float | None = None
    fraction_low: float | None = None
    fraction_high: float | None = None
    sizes: WorkSizes | None = None
    held: Weights | None = None
    loaded: Loaded | None = None
    memory: Memory | None = None
    pools: Pools | None = None
    late: Late | None = None
    budget: tuple[GpuBudget, ...] = ()
    wanted_context: int | None = None
    wanted_requests: int | None = None
    free_before_gib: float | None = None  # of the fullest used card, where the driver told
    confidence: str = "low"
    empirical: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        return self.verdict in (OK, TIGHT)

    @property
    def tokens(self) -> int | None:
        return self.pools.max_total_num_tokens if self.pools is not None and self.starts else None

    @property
    def requests(self) -> int | None:
        return self.pools.requests if self.pools is not None and self.starts else None

    @property
    def useful(self) -> bool | None:
        """Does the wanted context fit into the pool?"""
        if self.verdict == UNKNOWN or self.wanted_context is None:
            return None
        return self.tokens is not None and self.tokens >= self.wanted_context

    @property
    def window(self) -> tuple[float, float] | None:
        low, high = self.fraction_low, self.fraction_high
        return (low, high) if low is not None and high is not None and low <= high else None

    def proof(self) -> dict[str, Any]:
        """What a remedy shows of the plan that proved it."""
        return {
            "verdict": self.verdict,
            "stage": self.stage,
            "sglang_version": self.version,
            "fraction_effective": _rounded(self.fraction_effective, 4),
            "fraction_window": list(self.window) if self.window is not None else None,
            "max_total_num_tokens": self.tokens,
            "max_running_requests": self.requests,
            "useful": self.useful,
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as the module returns it."""
        return {
            **self.proof(),
            "message_expected": self.message,
            "unknown": list(self.unknown),
            "fraction_given": self.fraction_given,
            "fraction_automatic": _rounded(self.fraction_automatic, 4),
            "fraction_lowest": self.fraction_low,
            "fraction_highest": self.fraction_high,
            "wanted_context": self.wanted_context,
            "wanted_requests": self.wanted_requests,
            "hidden_defaults": [default.as_dict() for default in self.hidden_defaults],
            "budget": [card.as_dict() for card in self.budget],
            "sizes": self._sizes(),
            "late_need": self._late_need(),
            "confidence": self.confidence,
            "empirical": list(self.empirical),
            "notes": list(self.notes),
        }

    def _sizes(self) -> dict[str, Any] | None:
        if self.pools is None or self.loaded is None or self.memory is None or self.held is None:
            return None
        cell, states = self.pools.cells, self.pools.states
        return {
            "before_load_gib": _rounded(self.loaded.before_gib, 3),
            "weights_gib": _rounded(self.loaded.weights_gib, 3),
            "draft_weights_gib": _rounded(self.loaded.draft_gib, 3),
            "weights_from": self.held.source,
            "weights_by_item_gib": {name: round(size / GIB, 3) for name, size in sorted(self.held.items.items())},
            "after_load_gib": _rounded(self.loaded.after_gib, 3),
            "slack_gib": _rounded(self.memory.slack_gib, 3),
            "static_gib": _rounded(self.pools.static_bytes / GIB, 3),
            "kv_budget_gib": _rounded(self.pools.kv_budget_bytes / GIB, 3),
            "kv_bytes_per_token": cell.full_bytes,
            "window_bytes_per_token": cell.window_bytes,
            "draft_bytes_per_token": cell.draft_bytes,
            "window_tokens": self.pools.window_tokens,
            "state_slots": states.slots if states is not None else None,
            "state_slots_per_request": states.slots_per_request if states is not None else None,
            "state_bytes_per_slot": states.slot_bytes.total if states is not None else None,
        }

    def _late_need(self) -> dict[str, Any] | None:
        if self.late is None or self.memory is None:
            return None
        return {
            "expected_gib": _rounded(self.late.expected_gib, 2),
            "least_gib": _rounded(self.late.least_gib, 2),
            "most_gib": _rounded(self.late.most_gib, 2),
            "slack_gib": _rounded(self.memory.slack_gib, 2),
        }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
