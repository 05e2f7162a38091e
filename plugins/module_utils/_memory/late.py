# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What has to fit after the pools: request table, workspaces, graphs, activations, and older versions' draft model.

The request table and the draft model are arithmetic; everything else was measured and comes with a band.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import fraction
from .arguments import Launch
from .calibration import Calibration
from .cells import draft_cell_bytes
from .fraction import WorkSizes
from .pools import Pools
from .problem import Problem
from .units import GIB, KIB
from .versions import rule
from .weights import Weights

BAND = 0.4
ATTENTION_WORKSPACE_GIB = 0.45
DECODE_GRAPHS_GIB = 0.06
DECODE_GRAPH_GIB_PER_REQUEST = 0.005
DRAFT_GRAPHS_GIB = 0.3
PREFILL_GRAPH_GIB_PER_BUCKET = 0.04  # at a hidden size of 4096 and more; in proportion below, a quarter at least
ACTIVATION_MIB_PER_TOKEN = 0.33  # at a hidden size of 4096
ACTIVATION_HIDDEN = 4096
VISION_GIB = 0.5
TORCH_COMPILE_GIB = 1.0


@dataclass(frozen=True)
class Late:
    """GiB by item. ``exact`` is arithmetic, ``measured`` has a band, ``at_work`` is needed once requests arrive."""

    exact: dict[str, float]
    measured: dict[str, float]
    at_work: dict[str, float]

    @property
    def expected_gib(self) -> float:
        return sum(self.exact.values()) + sum(self.measured.values()) + sum(self.at_work.values())

    @property
    def least_gib(self) -> float:
        """Below this the start itself cannot succeed: workspaces and activations may come later."""
        graphs = sum(size for item, size in self.measured.items() if item != "attention_workspace")
        return sum(self.exact.values()) + (1 - BAND) * graphs

    @property
    def most_gib(self) -> float:
        return sum(self.exact.values()) + (1 + BAND) * (sum(self.measured.values()) + sum(self.at_work.values()))

    @property
    def items(self) -> dict[str, float]:
        return {**self.exact, **self.measured, **self.at_work}


def need(problem: Problem, launch: Launch, sizes: WorkSizes, pools: Pools, held: Weights) -> Late:
    """What the slack must hold for these pools."""
    exact = {"request_table": pools.request_table_bytes / GIB}
    draft_gib = _late_draft_gib(problem, launch, pools, held)
    if draft_gib:
        exact["draft_model"] = draft_gib
    measured = _graphs(problem, launch, sizes, problem.calibrated(launch))
    if launch.torch_compile:
        measured["torch_compile"] = TORCH_COMPILE_GIB
    tokens = sizes.chunk_tokens if sizes.chunk_tokens > 0 else launch.max_prefill_tokens
    hidden = problem.geometry.hidden or ACTIVATION_HIDDEN
    activations_gib = ACTIVATION_MIB_PER_TOKEN * tokens * hidden / ACTIVATION_HIDDEN / KIB
    # A captured prefill keeps its activations inside the graphs' memory.
    at_work = {"activations": max(0.0, activations_gib - measured.get("prefill_graphs", 0.0))}
    if launch.multimodal and not launch.language_only:
        at_work["vision"] = VISION_GIB
    return Late(exact, measured, at_work)


def _late_draft_gib(problem: Problem, launch: Launch, pools: Pools, held: Weights) -> float:
    """What of the draft model comes after the pools: its KV cache, its weights, or the peak while it loads."""
    if launch.speculation is None or not launch.speculation.has_draft_model:
        return 0.0
    cell_bytes = 0.0
    if not pools.cells.draft_bytes:
        cell_bytes = draft_cell_bytes(launch, problem.geometry, problem.draft, pools.cells)
    cache_bytes = cell_bytes * pools.full_tokens
    if rule("draft_before_pools", problem.version):
        return cache_bytes / GIB
    return max(held.draft_peak_bytes, held.draft_bytes + cache_bytes) / GIB


def _graphs(problem: Problem, launch: Launch, sizes: WorkSizes, calibration: Calibration | None) -> dict[str, float]:
    items = {"attention_workspace": ATTENTION_WORKSPACE_GIB}
    if launch.decode_graph:
        requests = sizes.graph_batch
        if launch.max_running_requests is not None:
            requests = min(requests, launch.max_running_requests)
        items["decode_graphs"] = DECODE_GRAPHS_GIB + DECODE_GRAPH_GIB_PER_REQUEST * requests
        if launch.speculation is not None and launch.speculation.has_draft_model:
            items["draft_graphs"] = DRAFT_GRAPHS_GIB + items["decode_graphs"]
    if fraction.prefill_graph_on(launch, problem.geometry, problem.version):
        buckets = fraction.prefill_buckets(launch, problem.geometry, problem.version, sizes)
        share = min(1.0, max(0.25, (problem.geometry.hidden or ACTIVATION_HIDDEN) / ACTIVATION_HIDDEN))
        items["prefill_graphs"] = PREFILL_GRAPH_GIB_PER_BUCKET * share * buckets
    if calibration is not None:
        names = {"attention_workspace": "workspace_gib"}
        for item in items:
            known = calibration.get(names.get(item, f"{item}_gib"))
            if known is not None and known > 0:
                items[item] = known
    return items
