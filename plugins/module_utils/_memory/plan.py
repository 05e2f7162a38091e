# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Will it start, with how many tokens, and where does the memory go? ``evaluate`` answers for one set of arguments.

The order is SGLang's own: arguments, balance of the cards, weights, pools, what comes after them, host memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._errors import LlmHostError
from . import budget as budgets
from . import coverage, fraction, late, overheads
from .answer import FAIL, OK, TIGHT, UNKNOWN, Loaded, Plan
from .arguments import ArgumentsRefused, HiddenDefault, Launch, context_length
from .fraction import WorkSizes
from .pools import Memory, Model, Pools, Stop, solve
from .problem import Gpu, Problem, ranks_on_host
from .units import GIB
from .versions import NEWEST, rule, show
from .weights import Weights

# Uncertainty of free memory and weights together.
MARGIN_GIB = 0.5
CALIBRATED_MARGIN_GIB = 0.1
BALANCE = 0.9
HICACHE_HOST_RESERVE_GIB = 10.0
_FRACTIONS = tuple(thousandths / 1000 for thousandths in range(300, 996, 5))

IMBALANCE_MESSAGE = "The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
OUT_OF_MEMORY_MESSAGE = "torch.OutOfMemoryError: CUDA out of memory."


def evaluate(problem: Problem) -> Plan:
    """Plan one set of arguments; raises only for input that makes no sense."""
    version = show(problem.version)
    try:
        launch = problem.resolve()
    except ArgumentsRefused as refusal:
        return _with_wishes(problem, Plan(FAIL, "args", str(refusal), version, (), (), confidence="high"))
    plan = Plan(UNKNOWN, None, None, version, (), launch.hidden_defaults, launch)
    plan = _with_wishes(problem, plan)
    unknown = coverage.reasons(problem, launch)
    if unknown:
        return replace(plan, unknown=tuple(unknown))
    refused = _refusal(problem, launch)
    if refused is not None:
        return replace(plan, verdict=FAIL, stage="args", message=refused, confidence="high")
    return _with_memory(problem, launch, plan)


def _with_wishes(problem: Problem, plan: Plan) -> Plan:
    context = problem.wanted_context or context_length(problem.arguments, problem.geometry)
    notes = []
    if problem.version > NEWEST:
        notes.append(f"SGLang {plan.version} is newer than {show(NEWEST)}, whose rules were used.")
    return replace(plan, wanted_context=context, wanted_requests=problem.wanted_requests, notes=tuple(notes))


def _refusal(problem: Problem, launch: Launch) -> str | None:
    """Checks that SGLang makes on arguments and config.json before it loads anything."""
    heads = problem.geometry.heads
    if heads and heads % launch.attention_tp:
        return f"{heads} attention heads cannot be divided by {launch.attention_tp} attention ranks."
    if launch.tp % launch.attention_dp:
        return f"tp_size {launch.tp} cannot be divided by the {launch.attention_dp} ranks of DP attention."
    given_context = launch.given.get("context_length")
    model_context = problem.geometry.context_length
    if given_context is not None and launch.context_length > model_context:
        return (
            f"User-specified context_length ({launch.context_length}) is greater than the derived context_length "
            f"({model_context})."
        )
    chunk = launch.chunked_prefill_tokens
    if chunk is not None and chunk > 0 and chunk % launch.page_tokens:
        return f"chunked_prefill_size {chunk} must be divisible by page_size {launch.page_tokens}."
    return None


def _with_memory(problem: Problem, launch: Launch, plan: Plan) -> Plan:
    used = problem.used_gpus(launch)
    if len(used) < ranks_on_host(launch):
        raise LlmHostError(
            "gpus_missing",
            f"These arguments need {ranks_on_host(launch)} GPUs on this host, {len(used)} were given. "
            "Lower tp_size (or dp_size, pp_size), or give all GPUs.",
            needed=ranks_on_host(launch),
            given=len(used),
        )
    sizes = fraction.work_sizes(launch, problem.version, problem.smallest_total_mib)
    automatic = None
    given = launch.mem_fraction_static
    if given is None:
        automatic = fraction.automatic(launch, problem.geometry, problem.version, problem.smallest_total_mib)
    plan = replace(
        plan,
        sizes=sizes,
        fraction_given=given,
        fraction_automatic=automatic,
        hidden_defaults=plan.hidden_defaults + _decided_by_card(launch, sizes, automatic),
        free_before_gib=_free_before(used),
        confidence=_confidence(problem, launch, used),
        empirical=_empirical(problem, launch, used),
    )
    if _is_unbalanced(used, launch):
        error = rule("imbalance_error", problem.version)
        message = f"{error}: {IMBALANCE_MESSAGE}"
        return _with_budget(problem, used, replace(plan, verdict=FAIL, stage="imbalance", message=message))
    held = problem.weights(launch) or Weights(0.0, 0.0, 0.0, source="calibration")
    loaded = _load(problem, launch, used, held)
    plan = replace(plan, held=held, loaded=loaded, notes=plan.notes + _about_weights(held))
    chosen = given if given is not None else automatic
    decided = _decide(problem, plan, chosen if chosen is not None else 0.0)
    return _with_budget(problem, used, _with_window(problem, decided))


def _free_before(used: tuple[Gpu, ...]) -> float | None:
    if any(gpu.free_mib is None for gpu in used):
        return None
    return round(min(gpu.free_gib for gpu in used), 3)


def _decided_by_card(launch: Launch, sizes: WorkSizes, automatic: float | None) -> tuple[HiddenDefault, ...]:
    found = []
    if launch.chunked_prefill_tokens is None:
        found.append(HiddenDefault("chunked_prefill_size", sizes.chunk_tokens, "by the smallest card's size"))
    if launch.decode_graph_batch is None and launch.decode_graph:
        found.append(HiddenDefault("cuda_graph_max_bs", sizes.graph_batch, "by the smallest card's size and tp_size"))
    if automatic is not None:
        found.append(HiddenDefault("mem_fraction_static", round(automatic, 4), "automatic"))
    return tuple(found)


def _about_weights(held: Weights) -> tuple[str, ...]:
    if not held.unnamed:
        return ()
    return (f"Tensors without a rule were counted whole on every rank: {', '.join(held.unnamed)}.",)


def _is_unbalanced(used: tuple[Gpu, ...], launch: Launch) -> bool:
    if ranks_on_host(launch) < 2 or launch.tp * launch.pp < 2:
        return False
    free = [gpu.free_gib for gpu in used]
    return min(free) < BALANCE * max(free)


# --- loading ----------------------------------------------------------------------------------------------------


def _load(problem: Problem, launch: Launch, used: tuple[Gpu, ...], held: Weights) -> Loaded:
    calibration = problem.calibrated(launch)
    before = min(gpu.free_gib - startup_loss_gib(problem, launch, gpu) for gpu in used)
    weights_gib = held.target_gib + overheads.load_extra_gib(launch.tp)
    draft_gib, peak_gib = held.draft_bytes / GIB, held.draft_peak_bytes / GIB
    drop_gib = overheads.LOAD_DROP_GIB
    if calibration is not None:
        weights_gib = calibration.numbers.get("weights_gib", weights_gib)
        drop_gib = calibration.numbers.get("load_drop_gib", drop_gib)
        draft_gib = calibration.numbers.get("draft_weights_gib", draft_gib)
    early = rule("draft_before_pools", problem.version)
    speculation = launch.speculation
    if speculation is None or not speculation.has_draft_model or not early:
        draft_gib = peak_gib = 0.0
    after_target = before - weights_gib - drop_gib
    margin = MARGIN_GIB if calibration is None else CALIBRATED_MARGIN_GIB
    after = after_target - draft_gib
    if after_target - peak_gib <= 0:
        after = min(after, 0.0)
    return Loaded(before, after_target, after, weights_gib, draft_gib, margin)


def startup_loss_gib(problem: Problem, launch: Launch, gpu: Gpu) -> float:
    """From what the driver calls free to what is free before loading."""
    calibration = problem.calibrated(launch)
    measured = calibration.startup_loss_gib if calibration is not None else None
    if measured is not None:
        return measured
    return overheads.startup_loss_gib(gpu.name, gpu.total_mib, launch.tp)


# --- the decision -----------------------------------------------------------------------------------------------


def _decide(problem: Problem, plan: Plan, chosen: float) -> Plan:
    """Everything from the weights on, for one fraction as a user would give it."""
    launch, loaded, held, sizes = plan.launch, plan.loaded, plan.held, plan.sizes
    if launch is None or loaded is None or held is None or sizes is None:
        return plan
    share = fraction.effective(chosen, launch, problem.geometry, problem.version, problem.rocm)
    memory = Memory(loaded.before_gib, loaded.after_gib, share)
    plan = replace(plan, fraction_effective=share, memory=memory)
    if loaded.after_gib <= 0:
        return replace(plan, verdict=FAIL, stage="weights", message=OUT_OF_MEMORY_MESSAGE)
    pools = _solve(problem, launch, sizes, memory)
    plan = replace(plan, pools=pools)
    if pools.stop is not None:
        return _failed(plan, pools.stop)
    needed = late.need(problem, launch, sizes, pools, held)
    plan = replace(plan, late=needed)
    if memory.slack_gib < needed.least_gib:
        return _failed(plan, Stop("late", "Capture cuda graph failed: CUDA out of memory."))
    host = _host_stop(problem, launch, pools)
    if host is not None:
        return _failed(plan, host)
    return replace(plan, verdict=OK if _is_sure(problem, plan, memory) else TIGHT)


def _solve(problem: Problem, launch: Launch, sizes: WorkSizes, memory: Memory) -> Pools:
    model = Model(problem.geometry, problem.draft, problem.ascend)
    return solve(launch, model, problem.version, memory, sizes.chunk_tokens)


def _failed(plan: Plan, stop: Stop) -> Plan:
    return replace(plan, verdict=FAIL, stage=stop.stage, message=stop.message)


def _is_sure(problem: Problem, plan: Plan, memory: Memory) -> bool:
    """Does it still work with less memory than expected and everything after the pools at its largest?"""
    if plan.launch is None or plan.sizes is None or plan.loaded is None or plan.late is None:
        return False
    if memory.slack_gib < plan.late.most_gib:
        return False
    less = replace(memory, after_load_gib=memory.after_load_gib - plan.loaded.margin_gib)
    return _solve(problem, plan.launch, plan.sizes, less).stop is None


def _host_stop(problem: Problem, launch: Launch, pools: Pools) -> Stop | None:
    """A hierarchical cache keeps a copy in the host's memory, one a rank."""
    if not launch.hierarchical_cache or problem.host_available_gib is None:
        return None
    per_rank_gib = launch.hicache_gb * 1e9 / GIB
    if not per_rank_gib:
        per_rank_gib = launch.hicache_ratio * (pools.kv_bytes + pools.window_bytes) / GIB
    wanted_gib = per_rank_gib * ranks_on_host(launch)
    if wanted_gib <= problem.host_available_gib - HICACHE_HOST_RESERVE_GIB:
        return None
    return Stop("host", f"Not enough host memory available. Requesting {wanted_gib:.2f} GB.")


def _with_window(problem: Problem, plan: Plan) -> Plan:
    """The lowest fraction that holds the wanted context, and the highest that leaves room for what comes after.

    A higher fraction never makes the pools smaller and never leaves more for what comes after, so both are found by
    halving the steps.
    """
    launch, loaded, held, sizes = plan.launch, plan.loaded, plan.held, plan.sizes
    if launch is None or loaded is None or held is None or sizes is None:
        return plan
    wanted = plan.wanted_context or 1

    def pools_at(share: float) -> tuple[Memory, Pools]:
        used = fraction.effective(share, launch, problem.geometry, problem.version, problem.rocm)
        memory = Memory(loaded.before_gib, loaded.after_gib, used)
        return memory, _solve(problem, launch, sizes, memory)

    def holds(share: float) -> bool:
        _fraction, pools = pools_at(share)
        return pools.stop is None and pools.full_tokens >= wanted

    def is_too_high(share: float) -> bool:
        memory, pools = pools_at(share)
        return pools.stop is None and memory.slack_gib < late.need(problem, launch, sizes, pools, held).expected_gib

    low = _first(holds)
    too_high = _first(is_too_high)
    high = len(_FRACTIONS) - 1 if too_high is None else too_high - 1
    works = high >= 0 and pools_at(_FRACTIONS[high])[1].stop is None
    return replace(
        plan,
        fraction_low=None if low is None else _FRACTIONS[low],
        fraction_high=_FRACTIONS[high] if works else None,
    )


def _first(is_so: Callable[[float], bool]) -> int | None:
    """The place of the first fraction for which it is so, where it stays so from there on."""
    low, high = 0, len(_FRACTIONS)
    while low < high:
        middle = (low + high) // 2
        if is_so(_FRACTIONS[middle]):
            high = middle
        else:
            low = middle + 1
    return low if low < len(_FRACTIONS) else None


# --- what goes with it ------------------------------------------------------------------------------------------


def _with_budget(problem: Problem, used: tuple[Gpu, ...], plan: Plan) -> Plan:
    launch = plan.launch
    if launch is None:
        return plan
    slack_gib = plan.memory.slack_gib if plan.memory is not None else 0.0
    cards = tuple(
        budgets.of_gpu(gpu, plan.pools, plan.late, _before_pools(problem, launch, plan, gpu), slack_gib) for gpu in used
    )
    return replace(plan, budget=cards)


def _before_pools(problem: Problem, launch: Launch, plan: Plan, gpu: Gpu) -> dict[str, float]:
    items = {"startup": startup_loss_gib(problem, launch, gpu)}
    if plan.loaded is not None:
        items["weights"] = plan.loaded.weights_gib
        items["draft_weights"] = plan.loaded.draft_gib
        items["load_drop"] = plan.loaded.before_gib - plan.loaded.weights_gib - plan.loaded.after_target_gib
    return items


def _confidence(problem: Problem, launch: Launch, used: tuple[Gpu, ...]) -> str:
    calibration = problem.calibrated(launch)
    if calibration is not None and calibration.get("weights_gib") is not None:
        return "high"
    if problem.version > NEWEST:
        return "low"
    from_headers = problem.tensors is not None
    measured_free = all(gpu.free_mib is not None for gpu in used)
    return "medium" if from_headers and measured_free else "low"


def _empirical(problem: Problem, launch: Launch, used: tuple[Gpu, ...]) -> tuple[dict[str, Any], ...]:
    """Constants of this plan that were measured elsewhere, with what is known of their spread."""
    calibration = problem.calibrated(launch)
    known = calibration.numbers if calibration is not None else {}
    rows: list[dict[str, Any]] = []
    if calibration is None or calibration.startup_loss_gib is None:
        loss = max(startup_loss_gib(problem, launch, gpu) for gpu in used)
        rows.append({"item": "startup", "gib": round(loss, 2), "spread_gib": 0.15})
    if "weights_gib" not in known:
        rows.append({"item": "load_extra", "gib": round(overheads.load_extra_gib(launch.tp), 2), "spread_gib": 0.1})
    if "load_drop_gib" not in known:
        rows.append({"item": "load_drop", "gib": overheads.LOAD_DROP_GIB, "spread_gib": 0.08})
    rows.append({"item": "late_need", "gib": None, "spread_gib": None, "spread_percent": round(100 * late.BAND)})
    return tuple(rows)
