# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a start took, held against what the memory plan had said, item by item.

``ITEMS`` is the table. SGLang prints gigabytes of 2^30 bytes with two decimals; all ranks are sized by the one that had
least free memory before loading, so that one is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

LIMIT = 0.03
ROUNDING = {"GiB": 0.02, "tokens": 0.0}  # the log is no finer than that

Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Item:
    """One number: how the plan tells it, how the log does. None means that it does not."""

    id: str
    text: str
    unit: str
    planned: Callable[[Mapping[str, Any]], float | None]
    actual: Callable[[Entries], float | None]


def compare(plan: Mapping[str, Any], entries: Entries) -> list[dict[str, Any]]:
    """Every item that both sides know, both numbers, and whether they are too far apart."""
    rank = _fullest_rank(entries)
    mine = [entry for entry in entries if entry.get("rank") == rank]
    found = []
    for item in ITEMS:
        planned, actual = item.planned(plan), item.actual(mine)
        if planned is None or actual is None:
            continue
        off = planned - actual
        far = abs(off) > LIMIT * abs(actual) and abs(off) > ROUNDING[item.unit]
        found.append(
            {
                "item": item.id,
                "text": item.text,
                "unit": item.unit,
                "planned": round(planned, 3),
                "actual": round(actual, 3),
                "off_percent": round(100 * off / actual, 1) if actual else None,
                "drift": far,
            }
        )
    return found


def warning(compared: Sequence[Mapping[str, Any]]) -> str:
    """One sentence on what is further off than allowed; empty where nothing is."""
    words = [
        "%s (planned %s %s, was %s)" % (one["text"], one["planned"], one["unit"], one["actual"])
        for one in compared
        if one["drift"]
    ]
    if not words:
        return ""
    return "The memory plan was off by more than %d %% in %s." % (round(100 * LIMIT), ", ".join(words))


# -- the plan ---------------------------------------------------------------------------------------------------------


def _size(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda plan: _float(_mapping(plan.get("sizes")).get(name))


def _budget(*items: str) -> Callable[[Mapping[str, Any]], float | None]:
    """The sum of some items on the card that is left with least; None where the plan has none of them."""

    def planned(plan: Mapping[str, Any]) -> float | None:
        sizes = [found for found in (_card(card) for card in plan.get("budget") or ()) if found]
        if not sizes:
            return None
        card = min(sizes, key=lambda one: one.get("unassigned", 0.0))
        there = [card[item] for item in items if item in card]
        return sum(there) if there else None

    return planned


def _card(card: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for row in _mapping(card).get("entries") or ():
        size = _float(_mapping(row).get("gib"))
        if size is not None:
            found[str(row.get("item"))] = size
    return found


def _tokens(plan: Mapping[str, Any]) -> float | None:
    return _float(plan.get("max_total_num_tokens"))


# -- the log ----------------------------------------------------------------------------------------------------------


def _fullest_rank(entries: Entries) -> Any:
    begun = [entry for entry in entries if entry.get("at") == "load_begin" and "avail_mem_gb" in entry]
    return min(begun, key=lambda entry: float(entry["avail_mem_gb"])).get("rank") if begun else None


def _first(at: str, name: str) -> Callable[[Entries], float | None]:
    return lambda entries: next((_float(one[name]) for one in entries if one.get("at") == at and name in one), None)


def _sum(at: str, *names: str) -> Callable[[Entries], float | None]:
    """All of these numbers together: a model has one pool or several, and captures once or more often."""

    def actual(entries: Entries) -> float | None:
        sizes = [_float(one.get(name)) for one in entries if one.get("at") == at for name in names]
        known = [size for size in sizes if size is not None]
        return sum(known) if known else None

    return actual


def _weights(entries: Entries) -> float | None:
    """What the first load took: printed by newer versions, else the difference of free memory."""
    printed = _first("load_end", "mem_usage_gb")(entries)
    if printed is not None:
        return printed
    before, after = _first("load_begin", "avail_mem_gb")(entries), _first("load_end", "avail_mem_gb")(entries)
    return before - after if before is not None and after is not None else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


ITEMS = (
    Item("weights", "weights", "GiB", _size("weights_gib"), _weights),
    Item(
        "kv_pool",
        "KV pool",
        "GiB",
        _budget("kv_cache", "window_cache", "draft_kv_cache"),
        _sum("kv_cache", "k_size_gb", "v_size_gb", "kv_size_gb"),
    ),
    Item(
        "state_pool",
        "state pool",
        "GiB",
        _budget("states", "draft_states"),
        _sum(
            "state_pool",
            "conv_state_size_gb",
            "ssm_state_size_gb",
            "intermediate_ssm_state_cache_size_gb",
            "intermediate_conv_window_cache_size_gb",
        ),
    ),
    Item(
        "graphs",
        "graphs",
        "GiB",
        _budget("decode_graphs", "draft_graphs", "prefill_graphs"),
        _sum("capture_end", "mem_usage_gb"),
    ),
    # Activations are planned for, and nobody has asked for them yet when the server becomes ready.
    Item(
        "left",
        "left free when ready",
        "GiB",
        _budget("unassigned", "activations", "vision"),
        _first("tokens", "available_gpu_mem_gb"),
    ),
    Item("tokens", "tokens of context", "tokens", _tokens, _first("tokens", "max_total_num_tokens")),
)
