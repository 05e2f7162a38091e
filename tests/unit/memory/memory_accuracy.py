# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the planner is from what real servers logged. The benchmark prints it, a test holds it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._memory import expected, fraction, late, overheads, weights
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import ArgumentsRefused, Launch, resolve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.cells import cells, has_window_pool, state_bytes
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import Geometry, from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.pools import Memory, Model, Pools, solve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.problem import Gpu, Problem
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.units import GIB
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import Version, parse, rule
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts

# Starts that cannot be compared, and why.
FRACTION_NOT_LOGGED = {"mi355x-kimi-k2.5", "gb10-gemma4-26b-bf16"}
MODEL_NOT_IDENTIFIED = {"rtxpro6000-dflash-oom-capture"}
# A development build that stored keys and values for all layers of this model.
_BROKEN_LAYOUT = "Qwen3-Next-80B-A3B-Instruct-W8A8"
# A logged size is rounded to 0.01 GiB; below this, that alone is more than half a percent.
_READABLE_GIB = 1.0


@dataclass(frozen=True)
class Case:
    """One start with everything the planner needs."""

    start: dict[str, Any]
    geometry: Geometry
    launch: Launch | None
    version: Version
    ascend: bool
    rocm: bool

    @property
    def observed(self) -> dict[str, Any]:
        observed: dict[str, Any] = self.start["observed"]
        return observed


@dataclass
class Table:
    """Relative errors by what was compared; names of wrong verdicts."""

    errors: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    verdicts: list[tuple[str, str, str]] = field(default_factory=list)
    late: list[tuple[str, str]] = field(default_factory=list)

    def add(self, what: str, name: str, planned: float, observed: float) -> None:
        self.errors.setdefault(what, []).append((name, (planned - observed) / observed))

    def sizes(self, what: str) -> list[float]:
        return sorted(abs(error) for _, error in self.errors.get(what, []))

    def median(self, what: str) -> float:
        return statistics.median(self.sizes(what))

    def ninetieth(self, what: str) -> float:
        """The 90th percentile, between neighbours where it falls there."""
        return statistics.quantiles(self.sizes(what), n=10, method="inclusive")[8]

    def wrong(self) -> list[tuple[str, str, str]]:
        return [row for row in self.verdicts if row[1] != row[2]]


def cases() -> list[Case]:
    result = []
    for start in memory_facts.starts():
        name = memory_facts.model_of(start)
        if name is None or start["id"] in MODEL_NOT_IDENTIFIED or _BROKEN_LAYOUT in start["model"]:
            continue
        version = parse(memory_facts.version_of(start))
        geometry = from_config(memory_facts.config_of(name, fp8_weights="FP8" in start["model"]))
        try:
            device = "npu" if memory_facts.is_ascend(start) else "rocm" if memory_facts.is_rocm(start) else "cuda"
            launch: Launch | None = resolve(memory_facts.arguments_of(start), geometry, version, device)
        except ArgumentsRefused:
            launch = None
        result.append(
            Case(start, geometry, launch, version, memory_facts.is_ascend(start), memory_facts.is_rocm(start))
        )
    return result


def measure() -> Table:
    table = Table()
    for case in cases():
        if case.launch is None:
            continue
        _compare_cells(table, case, case.launch)
        _compare_states(table, case, case.launch)
        loaded_gib = _compare_weights(table, case, case.launch)
        _compare_tokens(table, case, case.launch, loaded_gib)
    return table


def _compare_cells(table: Table, case: Case, launch: Launch) -> None:
    window = has_window_pool(launch, case.geometry, case.version)
    for position, pool in enumerate(case.observed.get("kv_pools", [])[:2]):
        if position == 1 and not window:
            continue
        pool_gib = pool.get("kv_gb", (pool.get("k_gb") or 0) + (pool.get("v_gb") or 0))
        if pool_gib < _READABLE_GIB:
            continue
        if "float8" in str(pool.get("dtype")) or pool.get("dtype") == "fp8":
            launch = replace(launch, kv_element_bytes=1)
        cell = cells(launch, case.geometry, case.version, case.ascend)
        planned = cell.window_bytes if window and position == 0 else cell.full_bytes
        rows = pool["tokens"] + launch.page_tokens
        table.add("KV bytes per token", case.start["id"], planned, pool_gib * GIB / rows)


def _compare_states(table: Table, case: Case, launch: Launch) -> None:
    mamba = case.observed.get("mamba")
    if not mamba or case.geometry.linear is None:
        return
    slot = state_bytes(launch, case.geometry)
    rows = mamba["max_mamba_cache_size"] + 1
    pool_gib = mamba["conv_state_gb"] + mamba["ssm_state_gb"]
    if pool_gib >= _READABLE_GIB:
        table.add("state per slot", case.start["id"], slot.total * rows / GIB, pool_gib)
    drafts_gib = mamba.get("intermediate_ssm_gb") or 0
    if drafts_gib >= _READABLE_GIB and launch.speculation is not None:
        rows = ((launch.max_running_requests or 0) + 1) * launch.speculation.draft_tokens
        table.add("state per slot", case.start["id"], slot.recurrent * rows / GIB, drafts_gib)


def _compare_weights(table: Table, case: Case, launch: Launch) -> float | None:
    """Weights as planned from config.json, GiB, where that can be compared."""
    start, logged = case.start, case.observed.get("weights_mem_usage_gb")
    usable = start["outcome"] in ("ok", "ok_but_starved", "fail_mamba") and not memory_facts.is_quantised(start)
    contaminated = "contaminated" in (start.get("note") or "")
    if not logged or not usable or contaminated or case.ascend or not expected.can_expect(case.geometry):
        return None
    held = weights.per_rank(expected.tensors(case.geometry), case.geometry, launch, "config")
    loaded_gib = held.target_gib + overheads.load_extra_gib(launch.tp)
    table.add("weights from config.json", start["id"], loaded_gib, logged)
    return loaded_gib


def fraction_of(case: Case, launch: Launch) -> float | None:
    total_mib = case.start.get("gpu_total_mib")
    given = launch.mem_fraction_static
    if given is None:
        if not total_mib or case.start["id"] in FRACTION_NOT_LOGGED:
            return None
        given = fraction.automatic(launch, case.geometry, case.version, total_mib)
    return fraction.effective(given, launch, case.geometry, case.version, case.rocm)


def solve_case(case: Case, launch: Launch, before_gib: float, after_gib: float, share: float) -> Pools:
    memory = Memory(before_gib, after_gib - overheads.LOAD_DROP_GIB, share)
    return solve(launch, Model(case.geometry, ascend=case.ascend), case.version, memory)


def _compare_tokens(table: Table, case: Case, launch: Launch, loaded_gib: float | None) -> None:
    observed, start = case.observed, case.start
    share = fraction_of(case, launch)
    before_gib = observed.get("load_begin_avail_gb")
    after_gib = observed.get("load_end_avail_gb")
    if share is None or not before_gib or after_gib is None:
        return
    if rule("draft_before_pools", case.version):
        after_gib = observed.get("draft_load_end_avail_gb", after_gib)
    pools = solve_case(case, launch, before_gib, after_gib, share)
    if start["outcome"] != "oom_runtime":
        truth = "ok" if start["outcome"].startswith(("ok", "unknown_after_pool")) else "fail"
        table.verdicts.append((start["id"], truth, "fail" if pools.stop is not None else "ok"))
    if start["outcome"].startswith("ok") and pools.stop is None and launch.speculation is None:
        table.late.append((start["id"], late_verdict(case, launch, pools, before_gib * (1 - share))))
    tokens = observed.get("max_total_num_tokens")
    if not tokens or not start["outcome"].startswith("ok") or launch.max_total_tokens is not None:
        return
    table.add("tokens, measured memory", start["id"], pools.full_tokens, tokens)
    group = "Ascend" if case.ascend else "ROCm" if case.rocm else "NVIDIA"
    table.add(f"tokens, measured memory, {group}", start["id"], pools.full_tokens, tokens)
    table.add(f"tokens, measured memory, {case.geometry.family}", start["id"], pools.full_tokens, tokens)
    automatic = "automatic" if launch.mem_fraction_static is None else "given"
    table.add(f"tokens, measured memory, fraction {automatic}", start["id"], pools.full_tokens, tokens)
    idle_gib = overheads.before_load_from_total_gib(start["gpu"], start.get("gpu_total_mib"), launch.tp)
    if loaded_gib is not None and idle_gib is not None and launch.speculation is None:
        offline = solve_case(case, launch, idle_gib, idle_gib - loaded_gib, share)
        table.add("tokens, fully offline", start["id"], offline.full_tokens, tokens)


def late_verdict(case: Case, launch: Launch, pools: Pools, slack_gib: float) -> str:
    """What is planned for everything after the pools of a start that succeeded."""
    total_mib = case.start.get("gpu_total_mib") or int(case.observed["load_begin_avail_gb"] * 1024)
    device = "npu" if case.ascend else "rocm" if case.rocm else "cuda"
    asked = Problem(case.geometry, {}, case.version, (Gpu(0, case.start["gpu"], total_mib),), device=device)
    sizes = fraction.work_sizes(launch, case.version, total_mib)
    needed = late.need(asked, launch, sizes, pools, weights.Weights(0.0, 0.0, 0.0))
    if slack_gib < needed.least_gib:
        return "fail"
    return "ok" if slack_gib >= needed.most_gib else "tight"
