# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What to do next with a start: go on, change an argument, start the same again, or give up. Decides, touches nothing.

Three questions: ``begin`` (which remedy of an earlier run is still in force), ``before`` (the plan is known, nothing
was touched yet) and ``after`` (the start has failed). A change is made only where it is proven by a plan and allowed;
the same arguments never start twice where the cause of the failure was in them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .words import remedy_in_words

NONE, SUGGEST, APPLY = "none", "suggest", "apply"
REMEDY = "remedy"  # the layer of launch_args_info in which a null takes an argument away
START, CHANGE, REFUSE, AGAIN, GIVE_UP = "start", "change", "refuse", "again", "give_up"

# Causes of the failure catalogue for which the planner's own remedies are meant: what did not fit was GPU memory.
MEMORY_CAUSES = (
    "kv_cache_no_memory",
    "mamba_pool",
    "oom_graph_capture",
    "oom_kv_or_runtime_pool",
    "oom_load_weights",
)
# Outcomes after which another start makes sense. After a timeout the server goes on, and what was stopped, was meant.
ENDED = ("failed", "stalled")


@dataclass(frozen=True)
class Policy:
    """What the user allows. ``must_fit``: whether a plan that says no stops a start."""

    mode: str = SUGGEST
    max_attempts: int = 2
    allowed: tuple[str, ...] = ()
    must_fit: bool = True


@dataclass(frozen=True)
class Start:
    """One set of arguments: their values, where each came from, and which of them a remedy has put there."""

    values: Mapping[str, Any]
    origins: Mapping[str, str] = field(default_factory=dict)
    layer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return digest(self.values)

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        after = {**self.values, **changes}
        return {name: value for name, value in after.items() if value is not None}


def start(rows: Sequence[Mapping[str, Any]], layer: Mapping[str, Any]) -> Start:
    """From the rows that ``launch_args_info`` returns, and the layer that they were rendered with."""
    return Start(
        {str(row["option"]): row.get("value") for row in rows},
        {str(row["option"]): str(row.get("origin")) for row in rows},
        dict(layer),
    )


def rendered(rows: Sequence[Mapping[str, Any]], layer: Mapping[str, Any]) -> dict[str, Any]:
    """The layer by the names that it was rendered under: an option may have been given by another name of it."""
    found = {str(row["option"]): row.get("value") for row in rows if row.get("origin") == REMEDY}
    return {**found, **{name: None for name, value in layer.items() if value is None}} if layer else {}


def digest(values: Mapping[str, Any]) -> str:
    told = {name: value for name, value in values.items() if value is not None}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Decision:
    """What to do, with what, and why. ``arguments`` is the layer ``remedy`` of the next rendering."""

    action: str
    why: str
    arguments: dict[str, Any] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    remedy: dict[str, Any] | None = None
    rejected: list[dict[str, str]] = field(default_factory=list)
    message: str = ""
    overridden: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # for the record
    loud: list[str] = field(default_factory=list)  # and these must not be overlooked

    def as_dict(self) -> dict[str, Any]:
        told = dict(vars(self))
        told["notes"] = self.notes + told.pop("loud")
        return told


# --- the remedy of an earlier run ---------------------------------------------------------------------------------


def remembered(layer: Mapping[str, Any], own: Mapping[str, Any], why: str) -> dict[str, Any] | None:
    """How the record of a start that worked keeps its remedy: what was changed, and what the inventory said then."""
    if not layer:
        return None
    return {"arguments": dict(layer), "instead_of": {name: own.get(name) for name in layer}, "why": why}


def begin(own: Start, record: Mapping[str, Any] | None, context: Mapping[str, Any], policy: Policy) -> Decision:
    """The first decision: the inventory's arguments, or those with the remedy of an earlier run that still counts."""
    kept = (record or {}).get("remedy")
    if not isinstance(kept, Mapping) or not kept.get("arguments"):
        return Decision(START, "the arguments are the inventory's")
    layer = dict(kept["arguments"])
    instead = kept.get("instead_of") or {}
    shown = ", ".join(f"{name}: {_shown(value)}" for name, value in layer.items())
    if all(own.values.get(name) == value for name, value in layer.items()):
        return Decision(START, "the inventory has adopted what an earlier run changed")
    if policy.mode != APPLY:
        note = f"An earlier run needed {shown}; it is not applied, for the remedy mode is {policy.mode}."
        return Decision(START, "changes are not applied", loud=[note])
    if any(own.values.get(name) not in (value, instead.get(name)) for name, value in layer.items()):
        note = f"The inventory names other values now than those that an earlier run changed ({shown}): they count."
        return Decision(START, "the inventory has changed these arguments itself", loud=[note])
    told = {name: value for name, value in ((record or {}).get("context") or {}).items() if name in context}
    if told != dict(context):
        note = f"An earlier run needed {shown}; model, version or GPUs are others now, so it is tried without."
        return Decision(START, "model, version or GPUs are others than those of the remedy", loud=[note])
    if any(name not in policy.allowed for name in layer):
        note = f"An earlier run needed {shown}; it is not applied, for these may not be changed any more."
        return Decision(START, "changes of these arguments are not allowed", loud=[note])
    overridden = [
        {"option": name, "value": value, "inventory": own.values.get(name)}
        for name, value in layer.items()
        if own.values.get(name) != value
    ]
    why = str(kept.get("why") or "a start without it failed")
    return Decision(START, why, layer, overridden=overridden)


def warnings(name: str, decision: Decision) -> list[str]:
    """What a person must not overlook."""
    found = list(decision.loud)
    for one in decision.overridden:
        here, there = _shown(one["value"]), _shown(one["inventory"])
        cure = f"write {one['option']}: {here} below its arguments" if one["value"] is not None else "take it out"
        found.append(
            f"sglang_server_instances.{name}: {one['option']} is {here} and not {there}, as the inventory says, "
            f"because of a remedy that an earlier run has applied ({decision.why}). To adopt it, {cure}; to have "
            "the inventory's, set sglang_server_remedy: suggest."
        )
    for one in decision.changes:
        found.append(
            f"sglang_server_instances.{name}: {one['option']} is changed from {_shown(one['before'])} to "
            f"{_shown(one['after'])}: {decision.why}"
        )
    return found


def _shown(value: Any) -> str:
    return "left out" if value is None else json.dumps(value, default=str) if isinstance(value, bool) else str(value)


# --- before a start ---------------------------------------------------------------------------------------------


def before(
    start: Start, plan: Mapping[str, Any], policy: Policy, attempts: Sequence[Mapping[str, Any]] = ()
) -> Decision:
    """The plan is known and nothing was touched. Anything but ``start`` is said only where the plan says no."""
    layer, so_far = dict(start.layer), [dict(one) for one in attempts]
    verdict = plan.get("verdict")
    if verdict != "fail":
        if verdict in ("ok", "tight"):
            # it starts, and does not do what it was started for: nobody else would say so
            loud = [str(plan.get("summary"))] if plan.get("useful") is False else []
            return Decision(START, f"the plan says {verdict}", layer, so_far, loud=loud)
        note = str(plan.get("summary") or plan.get("msg") or "No plan was made.")
        return Decision(START, "there is no plan", layer, so_far, notes=[note])
    summary = str(plan.get("summary") or "The plan says that it will not start.")
    if policy.mode == NONE:
        summary = f"The plan says that it will not start: {plan.get('message_expected') or plan.get('stage')}."
    if not policy.must_fit:
        note = f"{summary} It is started all the same."
        return Decision(START, "the plan says fail, and that does not stop it", layer, so_far, loud=[note])
    entry = _entry(start, so_far, "refused_by_plan", f"plan_{plan.get('stage')}", True, summary)
    if policy.mode != APPLY:
        return Decision(REFUSE, "the plan says fail", layer, [*so_far, entry], message=summary)
    tried = [*so_far, entry]
    chosen, rejected = _choose(plan.get("remedies") or [], start, policy, tried)
    if chosen is None:
        return Decision(REFUSE, _no_remedy(rejected), layer, tried, rejected=rejected, message=summary)
    return _change(CHANGE, start, chosen, tried, rejected, "the plan says that it will not start")


# --- after a failed start ---------------------------------------------------------------------------------------


def after(
    start: Start,
    verdict: Mapping[str, Any],
    plan: Mapping[str, Any] | None,
    policy: Policy,
    attempts: Sequence[Mapping[str, Any]] = (),
) -> Decision:
    """The start has failed: change something that is proven, start the same again, or give up."""
    layer, so_far = dict(start.layer), [dict(one) for one in attempts]
    outcome, cause = str(verdict.get("outcome")), str(verdict.get("cause") or "unknown")
    retryable = bool(verdict.get("retryable"))
    entry = _entry(start, so_far, outcome, cause, not retryable, str(verdict.get("message") or ""))
    tried = [*so_far, entry]
    starts = sum(1 for one in tried if one["outcome"] != "refused_by_plan")
    candidates = _for_cause(cause, plan or {})

    def give_up(why: str, rejected: list[dict[str, str]]) -> Decision:
        told = "" if policy.mode == NONE else _suggestion(verdict, candidates, policy)
        if policy.mode == APPLY:
            told = f"Not started again: {why}. {told}"
        message = " ".join(part for part in (str(verdict.get("message") or ""), told.strip()) if part)
        return Decision(GIVE_UP, why, layer, tried, rejected=rejected, message=message)

    if policy.mode != APPLY:
        return give_up(f"the remedy mode is {policy.mode}", [])
    if outcome not in ENDED:
        return give_up(f"a start that ended with {outcome} is not repeated", [])
    if starts >= policy.max_attempts:
        return give_up(f"{starts} of {policy.max_attempts} starts were made", [])
    chosen, rejected = _choose(candidates, start, policy, tried)
    if chosen is not None:
        return _change(AGAIN, start, chosen, tried, rejected, f"the start failed ({cause})")
    if retryable:
        why = f"the cause ({cause}) may be gone at the next start"
        return Decision(AGAIN, why, layer, tried, rejected=rejected)
    return give_up(_no_remedy(rejected), rejected)


def _for_cause(cause: str, plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What could help against this cause: the planner's own remedies only where GPU memory was what was missing."""
    planned = list(plan.get("remedies") or []) if cause in MEMORY_CAUSES else []
    return planned + list(plan.get("candidates") or [])


def _suggestion(verdict: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], policy: Policy) -> str:
    proven = [one for one in candidates if _is_proven(one) and one.get("arguments")]
    if proven:
        applied = "" if policy.mode == APPLY else " (sglang_server_remedy: apply does so by itself)"
        return f"Proven to help: {remedy_in_words(proven[0])}{applied}"
    texts = [str(one.get("text")) for one in verdict.get("remedies") or [] if one.get("text")]
    return texts[0] if texts else ""


def _is_proven(remedy: Mapping[str, Any]) -> bool:
    return (remedy.get("proven_by") or {}).get("verdict") in ("ok", "tight")


def _choose(
    candidates: Sequence[Mapping[str, Any]], start: Start, policy: Policy, tried: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any] | None, list[dict[str, str]]]:
    """The first that is proven, allowed and new; and why each one before it was not taken."""
    used = {one["arguments_digest"] for one in tried if one["deterministic"]}
    rejected: list[dict[str, str]] = []
    for remedy in candidates:
        why = _objection(remedy, start, policy, used)
        if not why:
            return remedy, rejected
        rejected.append({"id": str(remedy.get("id")), "why": why})
    return None, rejected


def _objection(remedy: Mapping[str, Any], start: Start, policy: Policy, used: set[str]) -> str:
    changes = remedy.get("arguments") or {}
    if not changes:
        return "it is done on the host and not by an argument"
    if not _is_proven(remedy):
        return "no plan proves it"
    forbidden = [name for name in changes if name not in policy.allowed]
    if forbidden:
        return f"{', '.join(forbidden)} may not be changed (sglang_server_remedy_allowed)"
    fixed = [name for name in changes if start.origins.get(name) in ("extra_args", "parameters")]
    if fixed:
        return f"{', '.join(fixed)} is given where a remedy does not reach (extra_args)"
    if digest(start.changed(changes)) in used:
        return "these arguments have failed already"
    return ""


def _no_remedy(rejected: Sequence[Mapping[str, str]]) -> str:
    if not rejected:
        return "no change is known to help"
    return "no change may be applied: " + "; ".join(f"{one['id']}: {one['why']}" for one in rejected)


def _entry(
    start: Start, attempts: Sequence[Mapping[str, Any]], outcome: str, cause: str, deterministic: bool, message: str
) -> dict[str, Any]:
    return {
        "attempt": len(attempts) + 1,
        "outcome": outcome,
        "cause": cause,
        "deterministic": deterministic,
        "message": message[:1000],
        "remedy": dict(start.layer),
        "arguments_digest": start.digest,
    }


def _change(
    action: str,
    start: Start,
    remedy: Mapping[str, Any],
    tried: list[dict[str, Any]],
    rejected: list[dict[str, str]],
    because: str,
) -> Decision:
    changes = [
        {"option": name, "before": start.values.get(name), "after": value}
        for name, value in remedy["arguments"].items()
    ]
    why = f"{because}; {remedy_in_words(remedy)}"
    layer = {**start.layer, **remedy["arguments"]}
    return Decision(action, why, layer, tried, changes, dict(remedy), rejected)


def succeeded(start: Start, attempts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The attempts with the one that worked at their end."""
    so_far = [dict(one) for one in attempts]
    return [*so_far, _entry(start, so_far, "ready", "", False, "")]
