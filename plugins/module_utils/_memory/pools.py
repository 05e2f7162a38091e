# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The pool arithmetic: from free memory before and after loading to tokens and requests, as SGLang computes them.

Exact, given the two memory figures and the version. Where SGLang would stop, ``Pools.stop`` says with what text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .architectures import DELTA
from .arguments import Launch
from .cells import Cells, StateBytes, cells, draft_cell_bytes, has_window_pool, slots_per_request, state_bytes
from .geometry import Geometry
from .units import GIB, MIB
from .versions import Version, rule

_WINDOW_EVICTION_TOKENS = 128
_FEATURE_TRANSPORT_MIB = 1024
_CUDA_TRANSPORTS = ("cuda_ipc", "cuda_vmm")


@dataclass(frozen=True)
class Memory:
    """One rank, GiB: free after the distributed start-up, free after loading, and the share that is static."""

    before_load_gib: float
    after_load_gib: float
    fraction: float

    @property
    def slack_gib(self) -> float:
        return self.before_load_gib * (1 - self.fraction)


@dataclass(frozen=True)
class Stop:
    """Where SGLang would stop, and the text it prints."""

    stage: str
    message: str


@dataclass(frozen=True)
class States:
    """The pool of recurrent states. ``slots`` is what SGLang calls max_mamba_cache_size."""

    slots: int
    slots_per_request: int
    slot_bytes: StateBytes
    pool_bytes: float
    draft_bytes: float


@dataclass(frozen=True)
class Pools:
    """What would be allocated on one rank."""

    multimodal_bytes: float
    static_bytes: float
    states: States | None
    kv_budget_bytes: float
    cells: Cells
    full_tokens: int
    window_tokens: int
    requests: int
    kv_bytes: float
    window_bytes: float
    draft_kv_bytes: float
    request_table_bytes: float
    stop: Stop | None

    @property
    def max_total_num_tokens(self) -> int:
        return self.full_tokens


@dataclass(frozen=True)
class Model:
    """The target, its draft model if it has a config of its own, and the platform's layout."""

    geometry: Geometry
    draft: Geometry | None = None
    ascend: bool = False


def solve(launch: Launch, model: Model, version: Version, memory: Memory, chunk_tokens: int = 0) -> Pools:
    """All pools of one rank. ``chunk_tokens`` is the prefill chunk (it caps a window pool)."""
    geometry = model.geometry
    multimodal = _multimodal_reserve_bytes(launch, model, version)
    static_bytes = (memory.after_load_gib - memory.slack_gib) * GIB - multimodal
    cell = _cells_with_draft(launch, model, version)
    empty = Pools(multimodal, static_bytes, None, static_bytes, cell, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, None)
    states, rest, stop = _states(launch, geometry, version, static_bytes)
    pools = replace(empty, states=states, kv_budget_bytes=rest)
    if stop is None and rest <= 0 and rule("weights_error", version):
        stop = _weights_stop(memory, static_bytes)
    if stop is not None:
        return replace(pools, stop=stop)
    pools = _token_pools(launch, model, version, pools, chunk_tokens)
    if pools.stop is None and pools.full_tokens <= 0:
        stage = "weights" if static_bytes <= 0 else "kv"
        text = str(rule("no_memory_message", version)).format(fraction=_shown(memory.fraction))
        pools = replace(pools, stop=Stop(stage, text))
    if pools.stop is not None:
        return pools
    return _with_requests(launch, geometry, version, pools)


def _shown(fraction: float) -> str:
    return f"{round(fraction, 6):g}"


def _multimodal_reserve_bytes(launch: Launch, model: Model, version: Version) -> float:
    if not launch.multimodal or model.ascend:
        return 0.0
    reserve_mib = int(rule("multimodal_reserve_mib", version))
    if reserve_mib and launch.feature_transport in _CUDA_TRANSPORTS:
        reserve_mib += _FEATURE_TRANSPORT_MIB
    return float(reserve_mib * MIB)


def _cells_with_draft(launch: Launch, model: Model, version: Version) -> Cells:
    target = cells(launch, model.geometry, version)
    dflash = launch.speculation is not None and launch.speculation.is_dflash
    counted = "dflash_draft_cell" if dflash else "window_draft_cell" if target.window_bytes else "draft_before_pools"
    if not rule(counted, version):
        return target
    return replace(target, draft_bytes=draft_cell_bytes(launch, model.geometry, model.draft, target))


# --- recurrent states -------------------------------------------------------------------------------------------


def _states(
    launch: Launch, geometry: Geometry, version: Version, rest: float
) -> tuple[States | None, float, Stop | None]:
    """(states, what is left for keys and values, where it stops)"""
    slot = state_bytes(launch, geometry)
    if not slot.total:
        return None, rest, None
    per_request = slots_per_request(launch, version)
    padding = int(rule("state_padding_slots", version))
    if rule("state_solver", version) == "joint":
        slots, drafts = _joint_slots(launch, version, rest, slot.total, per_request, padding)
    else:
        slots, drafts = _early_slots(launch, geometry, version, rest, slot.total)
    rest_before_states = rest - drafts
    pool = (slots + padding) * slot.total
    states = States(slots, per_request, slot, pool, drafts)
    if slots <= 0 and rule("state_errors", version):
        return states, rest_before_states, Stop("state", _state_message(slots, rest_before_states, slot))
    return states, rest_before_states - pool, None


def _state_message(slots: int, rest: float, slot: StateBytes) -> str:
    return (
        "Not enough GPU memory for hybrid (mamba/linear-attention) state cache. "
        f"Computed max_mamba_cache_size={slots} (total_rest_memory={rest / GIB:.2f} GB, "
        f"mamba_cache_per_req={slot.total / MIB:.2f} MB)."
    )


def _draft_states(launch: Launch) -> int:
    """Intermediate states a request keeps while drafts are verified."""
    return launch.speculation.draft_tokens if launch.speculation is not None else 0


def _allowed_requests(launch: Launch) -> int:
    return max(1, (launch.max_running_requests or 0) // launch.attention_dp)


def _joint_slots(
    launch: Launch, version: Version, rest: float, slot_bytes: int, per_request: int, padding: int
) -> tuple[int, float]:
    """0.5.13 and newer: (slots, bytes of draft states), both from one budget."""
    drafts = _draft_states(launch)
    least = int(rule("state_requests_of_a_rank", version))
    allowed = max(least, (launch.max_running_requests or 0) // launch.attention_dp)
    if launch.state_slots is not None:
        slots = launch.state_slots // launch.attention_dp
        requests = min(allowed, slots // per_request)
    elif not launch.radix_cache and launch.max_running_requests is not None:
        slots = requests = allowed
    else:
        budget = rest * launch.state_ratio / (1 + launch.state_ratio)
        per_slot = slot_bytes * (1 + drafts / per_request)
        slots = int((budget - padding * slot_bytes * (1 + drafts)) // per_slot)
        requests = min(allowed, slots // per_request)
    return slots, float(slot_bytes * (requests + padding) * drafts)


def _early_slots(
    launch: Launch, geometry: Geometry, version: Version, rest: float, slot_bytes: int
) -> tuple[int, float]:
    """Up to 0.5.12: (slots, bytes of draft states)."""
    solver = rule("state_solver", version)
    drafts = _draft_states(launch)
    pinned = _pinned_slots(launch, version)
    share = launch.state_ratio / (1 + launch.state_ratio)
    if solver in ("unsupported", "fixed"):
        return pinned if pinned is not None else launch.max_running_requests or 512, 0.0
    if solver == "share_with_drafts":
        # With the radix cache on, a given number of slots is not looked at.
        is_pinned = pinned is not None and not launch.radix_cache
        slots = pinned or 0 if is_pinned else int(rest * share // slot_bytes // (1 + drafts))
        if geometry.family == DELTA:
            slots //= launch.attention_dp
        return slots, float(slots * slot_bytes * drafts)
    draft_bytes = 0.0
    if solver == "drafts_first":
        draft_bytes = float(slot_bytes * ((launch.max_running_requests or 0) // launch.attention_dp) * drafts)
    elif pinned is None:
        draft_bytes = float(slot_bytes * (launch.max_running_requests or 0) * drafts)
    slots = pinned // launch.attention_dp if pinned is not None else int((rest - draft_bytes) * share // slot_bytes)
    return slots, draft_bytes


def _pinned_slots(launch: Launch, version: Version) -> int | None:
    if launch.state_slots is not None:
        return launch.state_slots
    if launch.radix_cache:
        return None
    if launch.max_running_requests is not None:
        return launch.max_running_requests
    return 512 if rule("state_pinned_by_requests", version) == "or_512" else None


# --- keys and values --------------------------------------------------------------------------------------------


def _weights_stop(memory: Memory, static_bytes: float) -> Stop:
    least = 1 - memory.after_load_gib / memory.before_load_gib
    suggested = math.ceil(least * 1000) / 1000
    text = (
        f"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={_shown(memory.fraction)}. "
        f"Raise --mem-fraction-static above {suggested:.3f} (minimum viable = 1 - available/pre = {least:.4f})."
    )
    return Stop("weights" if static_bytes <= 0 else "kv", text)


def _token_pools(launch: Launch, model: Model, version: Version, pools: Pools, chunk_tokens: int) -> Pools:
    page, cell = launch.page_tokens, pools.cells
    if has_window_pool(launch, model.geometry, version):
        return _window_pools(launch, model.geometry, version, pools, chunk_tokens)
    per_token = int(cell.full_bytes + cell.draft_bytes)
    budget = int(pools.kv_budget_bytes)
    tokens = budget // per_token if budget > 0 else -(-budget // per_token)
    tokens += _speculative_extra(launch, version, tokens)
    if launch.max_total_tokens is not None:
        tokens = min(tokens, launch.max_total_tokens)
    tokens = tokens // page * page
    rows = tokens + page if tokens > 0 else 0
    stored_bytes = cells(launch, model.geometry, version, model.ascend).full_bytes
    return replace(pools, full_tokens=tokens, kv_bytes=rows * stored_bytes, draft_kv_bytes=rows * cell.draft_bytes)


def _speculative_extra(launch: Launch, version: Version, tokens: int) -> int:
    speculation = launch.speculation
    if speculation is None or tokens <= 0 or not rule("speculative_extra_tokens", version):
        return 0
    requests = launch.max_running_requests or _estimated_requests(tokens, launch)
    return requests * (speculation.steps * speculation.top_k + speculation.draft_tokens) + 100


def _window_pools(launch: Launch, geometry: Geometry, version: Version, pools: Pools, chunk_tokens: int) -> Pools:
    page, cell, budget = launch.page_tokens, pools.cells, pools.kv_budget_bytes
    full_bytes = cell.full_bytes + cell.draft_bytes
    per_token = full_bytes + launch.window_ratio * cell.window_bytes
    cap_tokens = _window_cap_tokens(launch, geometry, version, chunk_tokens)
    if cap_tokens:
        fixed = cap_tokens * cell.window_bytes
        full_tokens = int((budget - fixed) // full_bytes) // page * page
        if full_tokens <= 0:
            text = (
                f"SWA pool cap ({cap_tokens} tokens, {fixed / GIB:.2f} GiB) leaves no room for the full KV pool "
                f"within the available {budget / GIB:.2f} GiB."
            )
            return replace(pools, full_tokens=full_tokens, stop=Stop("kv", text))
    elif rule("swa_solver", version) == "direct":
        full_tokens = int(budget // per_token) // page * page
    else:
        even_tokens = int(budget) // int(full_bytes + cell.window_bytes) // page * page
        full_tokens = int(even_tokens * (full_bytes + cell.window_bytes) / per_token) // page * page
    if launch.max_total_tokens is not None:
        full_tokens = min(full_tokens, launch.max_total_tokens) // page * page
    window_tokens = cap_tokens or int(full_tokens * launch.window_ratio) // page * page
    sized = replace(
        pools,
        full_tokens=full_tokens,
        window_tokens=window_tokens,
        kv_bytes=(full_tokens + page) * cell.full_bytes if full_tokens > 0 else 0.0,
        window_bytes=(window_tokens + page) * cell.window_bytes if full_tokens > 0 else 0.0,
        draft_kv_bytes=(full_tokens + page) * cell.draft_bytes if full_tokens > 0 else 0.0,
    )
    window = geometry.windowed.window_tokens if geometry.windowed is not None else 0
    if full_tokens > 0 and rule("swa_floor_check", version) and 0 < window_tokens <= window + page and window:
        text = (
            f"SWA pool ({window_tokens} tokens) cannot hold even one request: the prefill admission floor is "
            f"sliding_window_size ({window}) + page_size ({page})."
        )
        return replace(sized, stop=Stop("kv", text))
    return sized


def _window_cap_tokens(launch: Launch, geometry: Geometry, version: Version, chunk_tokens: int) -> int:
    """The window pool of a start without radix cache and with a request limit; 0 where the ratio rules."""
    window = geometry.windowed.window_tokens if geometry.windowed is not None else 0
    applies = rule("swa_request_cap", version) and not launch.radix_cache and launch.max_running_requests is not None
    if not applies or not window or chunk_tokens <= 0:
        return 0
    page, speculation = launch.page_tokens, launch.speculation
    drafts = speculation.draft_tokens if speculation is not None else 1
    decode = page
    if speculation is not None:
        step = max(speculation.steps * speculation.top_k, speculation.draft_tokens)
        decode = 2 * step if launch.overlap else step
    per_request = window + _WINDOW_EVICTION_TOKENS * drafts + page + decode
    chunks = 2 if launch.overlap else 1
    tokens = per_request * _allowed_requests(launch) + chunks * chunk_tokens + page
    return -(-tokens // page) * page


# --- requests ---------------------------------------------------------------------------------------------------


def _estimated_requests(tokens: int, launch: Launch) -> int:
    return max(min(int(tokens / launch.context_length * 512), 4096), 2048)


def _with_requests(launch: Launch, geometry: Geometry, version: Version, pools: Pools) -> Pools:
    tokens = pools.full_tokens
    estimate = _estimated_requests(tokens, launch)
    if launch.max_running_requests is not None:
        limit = tokens // 2 if rule("given_requests_capped", version) else estimate
        requests = min(_allowed_requests(launch), limit)
    else:
        requests = min(estimate, tokens // 2) if rule("estimated_requests_capped", version) else estimate
    states = pools.states
    if states is not None:
        requests = min(requests, states.slots // states.slots_per_request)
    drafts = launch.speculation.draft_tokens if launch.speculation is not None else 0
    table = (requests + 1) * (launch.context_length + 4 + drafts) * 4.0
    pools = replace(pools, requests=requests, request_table_bytes=table if requests > 0 else 0.0)
    if requests <= 0:
        return replace(pools, stop=_slots_stop(states, requests, version))
    if min(launch.context_length, tokens) - 1 <= 0:
        return replace(pools, stop=Stop("slots", "Memory pool size is too small"))
    return pools


def _slots_stop(states: States | None, requests: int, version: Version) -> Stop:
    if states is not None and rule("state_errors", version):
        return Stop(
            "slots",
            "Hybrid (mamba/linear-attention) state cache is too small to serve any requests. "
            f"max_mamba_cache_size={states.slots}, mamba_ratio={states.slots_per_request}, "
            f"resulting max_num_reqs={requests}.",
        )
    return Stop("slots", "max_running_request is zero")
