# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The plan in words: what will happen, why, and what is proven to help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._remedy import Remedy
from .answer import FAIL, TIGHT, UNKNOWN, Plan

STAGES = {
    "args": "SGLang refuses the arguments",
    "imbalance": "the GPUs do not have the same free memory",
    "weights": "the weights do not fit",
    "state": "no memory is left for recurrent states",
    "kv": "no memory is left for the KV cache",
    "slots": "no memory is left for a single request",
    "late": "too little is left for what comes after the pools",
    "host": "the memory of the host is too small",
}
MOST_PROVEN = 3


def summary(plan: Plan, remedies: Sequence[Remedy]) -> str:
    """One paragraph for people."""
    if plan.verdict == UNKNOWN:
        return f"No plan for SGLang {plan.version}: {'; '.join(plan.unknown)}."
    if plan.verdict == FAIL:
        text = f"It will not start on SGLang {plan.version}: {STAGES.get(plan.stage or '', plan.stage)}."
        if plan.message:
            text += f" SGLang would say: {plan.message}"
        text += _hidden(plan)
        return text + _proven(remedies)
    text = f"It will start on SGLang {plan.version}, with {plan.tokens} tokens and {plan.requests} requests at once."
    if plan.verdict == TIGHT:
        text = text.replace("will start", "may start", 1) + " It is tight: the numbers are not exact enough to be sure."
    if plan.useful is False:
        text += f" A context of {plan.wanted_context} tokens does not fit."
    return text + (_proven(remedies) if remedies else "")


def _hidden(plan: Plan) -> str:
    """Defaults that nobody wrote and that take memory; what follows from the card's size alone is left out."""
    told = [one for one in plan.hidden_defaults if one.option in ("max_running_requests", "disable_radix_cache")]
    if not told:
        return ""
    return " Set by SGLang itself: " + ", ".join(f"{one.option}={one.value} ({one.why})" for one in told) + "."


def _proven(remedies: Sequence[Remedy]) -> str:
    if not remedies:
        return " No change of the arguments is proven to help."
    return " Proven to help: " + " ".join(
        f"({number}) {remedy_in_words(one.as_dict())}" for number, one in enumerate(remedies[:MOST_PROVEN], 1)
    )


def remedy_in_words(remedy: Mapping[str, Any]) -> str:
    """``Allow at most 8 running requests. [max_running_requests: 8; then ok, 372110 tokens]``"""
    told = [f"{name}: {'left out' if value is None else value}" for name, value in remedy["arguments"].items()]
    proof = remedy.get("proven_by")
    if proof:
        tokens = f", {proof['max_total_num_tokens']} tokens" if proof.get("max_total_num_tokens") else ""
        told.append(f"then {proof['verdict']}{tokens}")
    return f"{remedy['text']} [{'; '.join(told)}]" if told else str(remedy["text"])
