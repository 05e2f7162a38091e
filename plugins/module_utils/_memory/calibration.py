# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Numbers of an earlier start on this host: how they are stored, how the next plan uses them, how far a plan was off.

JSON shape (one document per host, model, version and parallel layout)::

    {"schema": 1,
     "key": {"host": "gpu1", "model": "/opt/models/a", "sglang_version": "0.5.23", "layout": "tp2-dp1-pp1-ep1"},
     "measured_at": "2026-11-29T20:00:00Z",
     "numbers": {"free_before_gib": 47.4, "before_load_gib": 46.9, "weights_gib": 25.7, "load_drop_gib": 0.02, ...},
     "observed": {"max_total_num_tokens": 372110, "max_running_requests": 8}}

``numbers`` holds what SGLang logged for the fullest rank; a number that was not logged is left out.
A document lies below ``<state_dir>/calibration/``. A later start, good or bad, replaces the numbers that it logged and
leaves the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError

SCHEMA = 1
DRIFT_LIMIT = 0.03

NUMBERS: dict[str, str] = {
    "free_before_gib": "free memory that the driver reported before the start",
    "before_load_gib": "free memory at the beginning of loading",
    "weights_gib": "memory that loading the target took",
    "draft_weights_gib": "memory that loading the draft model took",
    "load_drop_gib": "free memory lost between the end of loading and the sizing of the pools",
    "decode_graphs_gib": "memory that capturing decode graphs took",
    "prefill_graphs_gib": "memory that capturing prefill graphs took",
    "draft_graphs_gib": "memory that capturing graphs of the draft model took",
    "workspace_gib": "memory taken between the end of the pools and the first capture",
    "left_gib": "free memory when the server was ready",
}
OBSERVED = ("max_total_num_tokens", "max_running_requests")
KEY_PARTS = ("host", "model", "sglang_version", "layout")
_PAIR = ("free_before_gib", "before_load_gib")
MOST_STARTUP_LOSS_GIB = 8.0  # more than any driver and NCCL take: the card was not free when it was looked at


@dataclass(frozen=True)
class Calibration:
    key: dict[str, str]
    measured_at: str
    numbers: dict[str, float]
    observed: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "key": dict(self.key),
            "measured_at": self.measured_at,
            "numbers": dict(self.numbers),
            "observed": dict(self.observed),
        }

    def get(self, name: str) -> float | None:
        return self.numbers.get(name)

    @property
    def startup_loss_gib(self) -> float | None:
        """From the driver's free memory to the free memory before loading; known where both were measured."""
        before, free = self.get("before_load_gib"), self.get("free_before_gib")
        return free - before if before is not None and free is not None else None


@dataclass(frozen=True)
class Drift:
    """One item of a plan that was further off than allowed."""

    item: str
    planned: float
    actual: float

    @property
    def share(self) -> float:
        return (self.planned - self.actual) / self.actual if self.actual else float("inf")

    def as_dict(self) -> dict[str, Any]:
        off_percent = round(100 * self.share, 2) if self.actual else None
        return {"item": self.item, "planned": self.planned, "actual": self.actual, "off_percent": off_percent}


def layout(tp: int, dp: int, pp: int, ep: int) -> str:
    """The parallel layout as it stands in a key and in a file name."""
    return f"tp{tp}-dp{dp}-pp{pp}-ep{ep}"


def from_dict(document: Mapping[str, Any]) -> Calibration:
    """Read the JSON shape; raises ``calibration_invalid``."""
    if document.get("schema") != SCHEMA:
        raise _invalid(f"schema is {document.get('schema')!r}, expected {SCHEMA}")
    numbers = document.get("numbers")
    if not isinstance(numbers, Mapping):
        raise _invalid("'numbers' is missing")
    unknown = sorted(set(numbers) - set(NUMBERS))
    if unknown:
        raise _invalid(f"'numbers' holds the unknown {', '.join(unknown)}")
    observed = document.get("observed") or {}
    key = document.get("key") or {}
    if not isinstance(observed, Mapping) or not isinstance(key, Mapping):
        raise _invalid("'key' and 'observed' must be mappings")
    try:
        return Calibration(
            {part: str(key[part]) for part in KEY_PARTS if key.get(part) is not None},
            str(document.get("measured_at") or ""),
            {name: float(value) for name, value in numbers.items() if value is not None},
            {name: int(observed[name]) for name in OBSERVED if observed.get(name) is not None},
        )
    except (TypeError, ValueError) as error:
        raise _invalid("a number in it is not a number") from error


def from_log_numbers(key: Mapping[str, str], measured_at: str, logged: Mapping[str, Any]) -> Calibration:
    """Build it from what the startup watch read; derived numbers are filled in, unknown names are ignored."""
    numbers = {name: float(logged[name]) for name in NUMBERS if logged.get(name) is not None}
    after = logged.get("after_load_gib")
    if "weights_gib" not in numbers and after is not None and "before_load_gib" in numbers:
        numbers["weights_gib"] = numbers["before_load_gib"] - float(after)
    observed = {name: int(logged[name]) for name in OBSERVED if logged.get(name) is not None}
    return Calibration({part: str(key[part]) for part in KEY_PARTS if part in key}, measured_at, numbers, observed)


def from_watch(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Numbers by the names above, from the memory entries of the startup watch ("GB" in SGLang's log is GiB).

    The rank that had least before loading counts: SGLang sizes all ranks by it. Captures are told apart only where
    there was one.
    """
    rank = _fullest_rank(entries)
    mine = [entry for entry in entries if entry.get("rank") == rank]
    loads = [entry for entry in mine if entry.get("at") == "load_end" and "mem_usage_gb" in entry]
    captures = [entry for entry in mine if entry.get("at") == "capture_end" and "mem_usage_gb" in entry]
    found: dict[str, float | None] = {
        "before_load_gib": _value(mine, "load_begin", "avail_mem_gb"),
        "after_load_gib": _value(mine, "load_end", "avail_mem_gb"),
        "weights_gib": float(loads[0]["mem_usage_gb"]) if loads else None,
        "draft_weights_gib": float(loads[1]["mem_usage_gb"]) if len(loads) > 1 else None,
        "decode_graphs_gib": float(captures[0]["mem_usage_gb"]) if len(captures) == 1 else None,
        "left_gib": _value(mine, "tokens", "available_gpu_mem_gb"),
        "max_total_num_tokens": _value(mine, "tokens", "max_total_num_tokens"),
    }
    pools, capture = _value(mine, "pool_end", "avail_mem_gb"), _value(mine, "capture_begin", "avail_mem_gb")
    if pools is not None and capture is not None and pools >= capture:
        found["workspace_gib"] = round(pools - capture, 3)
    return {name: value for name, value in found.items() if value is not None}


def _fullest_rank(entries: Sequence[Mapping[str, Any]]) -> Any:
    begun = [entry for entry in entries if entry.get("at") == "load_begin" and "avail_mem_gb" in entry]
    return min(begun, key=lambda entry: float(entry["avail_mem_gb"])).get("rank") if begun else None


def _value(entries: Sequence[Mapping[str, Any]], at: str, name: str) -> float | None:
    return next((float(entry[name]) for entry in entries if entry.get("at") == at and name in entry), None)


# --- on disk ----------------------------------------------------------------------------------------------------


def path_of(state_dir: str, key: Mapping[str, str]) -> str:
    """The file of one host, model, version and layout: a name for people, and a digest that tells them apart."""
    words = [os.path.basename(key["model"].rstrip("/")), key["sglang_version"], key["layout"]]
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(words))[:120]
    told = json.dumps([key[part] for part in KEY_PARTS]).encode()
    return f"{state_dir.rstrip('/')}/calibration/{name}-{hashlib.sha256(told).hexdigest()[:8]}.json"


def load(state_dir: str, key: Mapping[str, str]) -> Calibration | None:
    """What is stored; ``None`` where there is nothing. Raises ``calibration_invalid``."""
    path = path_of(state_dir, key)
    try:
        with open(path, encoding="utf-8") as handle:
            document = json.load(handle)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _invalid(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise _invalid(f"{path} holds no mapping")
    return from_dict(document)


def of_start(plan: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Calibration | None:
    """What a start taught that was planned so (a result of ``memory_plan_info``); ``None`` where it told nothing."""
    known = plan.get("calibration")
    key = known.get("key") if isinstance(known, Mapping) else None
    logged: dict[str, Any] = from_watch(entries)
    if not isinstance(known, Mapping) or not isinstance(key, Mapping) or not logged:
        return None
    free, before = known.get("free_before_gib"), logged.get("before_load_gib")
    if free is not None and before is not None and 0 <= free - before <= MOST_STARTUP_LOSS_GIB:
        logged["free_before_gib"] = free
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return from_log_numbers({part: str(key[part]) for part in KEY_PARTS if part in key}, now, logged)


def store(state_dir: str, measured: Calibration) -> dict[str, Any]:
    """Keep the numbers: ``path``, and ``stored`` where they are news. A folder that cannot be written is no failure."""
    path = path_of(state_dir, measured.key)
    earlier = None
    with contextlib.suppress(LlmHostError):  # what cannot be read is replaced
        earlier = load(state_dir, measured.key)
    merged = measured
    if earlier is not None:
        numbers = {**earlier.numbers, **measured.numbers}
        if "free_before_gib" in earlier.numbers and "free_before_gib" not in measured.numbers:
            # both belong to one moment: their difference is what a start loses
            numbers.update({name: earlier.numbers[name] for name in _PAIR if name in earlier.numbers})
        observed = {**earlier.observed, **measured.observed}
        if (numbers, observed) == (earlier.numbers, earlier.observed):
            return {"path": path, "stored": False}
        merged = Calibration(measured.key, measured.measured_at, numbers, observed)
    try:
        _write(path, json.dumps(merged.as_dict(), indent=1, sort_keys=True) + "\n")
    except OSError as error:
        return {"path": path, "stored": False, "problem": str(error)}
    return {"path": path, "stored": True}


def _write(path: str, text: str) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".calibration-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# --- compared ---------------------------------------------------------------------------------------------------


def matches(calibration: Calibration, wanted: Mapping[str, str]) -> bool:
    """Were the numbers taken with this model, version and layout? A part that one side lacks does not count."""
    parts = ("model", "sglang_version", "layout")
    return all(calibration.key[part] == wanted[part] for part in parts if part in calibration.key and part in wanted)


def drift(planned: Mapping[str, float | None], actual: Mapping[str, float | None]) -> list[Drift]:
    """Items that both sides know and that differ by more than 3 percent, the furthest first."""
    found = []
    for item, value in planned.items():
        measured = actual.get(item)
        if value is None or measured is None:
            continue
        entry = Drift(item, value, measured)
        if value != measured and abs(entry.share) > DRIFT_LIMIT:
            found.append(entry)
    return sorted(found, key=lambda entry: -abs(entry.share))


def _invalid(what: str) -> LlmHostError:
    return LlmHostError(
        "calibration_invalid", f"The calibration cannot be used: {what}. Leave it out or measure again."
    )
