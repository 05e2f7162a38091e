# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""A start that prints nothing: whether it works all the same, and if not, which process is stuck.

Three signs of life beside the output: processor time, running compilers, and memory of the GPUs that grows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Callable, Protocol

from .analysis import Analysis
from .evidence import Outside
from .verdict import mask

BUSY_SHARE = 0.02  # of one core, over the silence
GROWTH_MIB = 16  # a driver's numbers are rounded
GROWTH_HOLDS_S = 60.0  # so long after it grew a start counts as alive
STEP_S = 20.0  # between two looks at the GPUs; only a start that is silent is looked at
LEAST_STEP_S = 0.5
STACK_LIMIT = 12 * 1024
RANKS_LISTED = 64


class Processes(Protocol):
    """What is asked of the processes of a unit."""

    schedulers: dict[int, str]

    def cpu_seconds(self) -> float:
        """CPU seconds that they have used, all of them."""

    def compiling(self) -> bool:
        """Whether one of them is a compiler."""


class Life:
    """Signs of life since the last output."""

    def __init__(self, processes: Processes, gpu_mib: Callable[[], int | None]) -> None:
        self._processes = processes
        self._gpu_mib = gpu_mib
        self._cpu: float | None = None  # at the last output
        self._mib: int | None = None
        self._sampled_at: float | None = None
        self._grew_at: float | None = None
        self.grown_mib = 0

    def heard(self) -> None:
        """There was output: what was seen before it counts no more."""
        self._cpu = None
        self._mib = self._sampled_at = self._grew_at = None
        self.grown_mib = 0

    def look(self, now: float, silent: float, limit: float) -> None:
        """Called every second or so. ``limit`` is the silence after which this phase counts as stalled."""
        if self._cpu is None:
            self._cpu = self._processes.cpu_seconds()
        step = max(LEAST_STEP_S, min(STEP_S, limit / 8))
        if silent < min(limit / 4, 2 * STEP_S) or (self._sampled_at is not None and now - self._sampled_at < step):
            return
        self._sampled_at = now
        found = self._gpu_mib()
        if found is None:
            return
        if self._mib is not None and found >= self._mib + GROWTH_MIB:
            self._grew_at = now
            self.grown_mib += found - self._mib
        self._mib = found

    def signs(self, now: float, silent: float) -> list[str]:
        """What this start shows; empty where it shows nothing."""
        found = []
        if self._cpu is not None and self._processes.cpu_seconds() - self._cpu > BUSY_SHARE * silent:
            found.append("processor time")
        if self._processes.compiling():
            found.append("compilers")
        if self._grew_at is not None and now - self._grew_at <= GROWTH_HOLDS_S:
            found.append("GPU memory grew by %d MiB" % self.grown_mib)
        return found


def stuck(analysis: Analysis, processes: Processes, main_pid: int, outside: Outside | None) -> dict[str, Any]:
    """For ``detail``: where each rank is, which process is the one that lags, and what it is doing."""
    tracker = analysis.tracker
    found: dict[str, Any] = {}
    named = {name: rank.phase for name, rank in tracker.ranks.items() if name}
    if named:
        found["ranks"] = dict(sorted(named.items())[:RANKS_LISTED])
    pid, title = culprit(processes.schedulers, _lagging(named, tracker.slowest()), main_pid)
    if not pid:
        return found
    found["stuck_process"] = {"pid": pid, "title": title}
    if outside is None:
        return found
    found["stuck_process"].update(outside.state(pid))
    answer = outside.stack(pid)
    if answer.value is None:
        found["stack_missing"] = mask(answer.why)
    else:
        found["stack"] = mask(str(answer.value))[:STACK_LIMIT]
    return found


def _lagging(named: Mapping[str, str], phase: str) -> list[str]:
    return sorted(name for name, where in named.items() if where == phase)


def culprit(schedulers: Mapping[int, str], lagging: list[str], main_pid: int) -> tuple[int, str]:
    """The process of the first rank that lags, else a scheduler, else the launcher."""
    words = {pid: set(re.split(r"[_\s]+", title)) for pid, title in schedulers.items()}
    for rank in lagging:
        for pid in sorted(words):
            if set(rank.split()) <= words[pid]:
                return pid, schedulers[pid]
    for pid in sorted(schedulers):
        if "scheduler" in schedulers[pid]:
            return pid, schedulers[pid]
    return main_pid, "launcher"
