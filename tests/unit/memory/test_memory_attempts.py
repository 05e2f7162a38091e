# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do next with a start: the remembered remedy, the plan before it, the verdict after it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import attempts
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.attempts import Policy, Start
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import causes
from hypothesis import given, settings
from hypothesis import strategies as st

VALUES = {"tp_size": 2, "mem_fraction_static": 0.85, "speculative_algorithm": "NEXTN"}
CONTEXT = {"model": "/m", "sglang_version": "0.5.9", "gpus": ["A6000", "A6000"]}
APPLY = Policy("apply", 2, ("max_running_requests", "mem_fraction_static", "speculative_num_steps"))


def remedy(verdict: str | None = "tight", id: str = "fewer_requests", **arguments: Any) -> dict[str, Any]:
    proof = None if verdict is None else {"verdict": verdict, "max_total_num_tokens": 372110}
    return {"id": id, "text": "Do it.", "arguments": arguments, "host_action": None, "proven_by": proof}


EIGHT = remedy(max_running_requests=8)
FAILS = {"verdict": "fail", "stage": "kv", "summary": "It will not start.", "remedies": [EIGHT]}
NO_MEMORY = {"outcome": "failed", "cause": "kv_cache_no_memory", "message": "No memory.", "retryable": False}
TRANSIENT = {"outcome": "failed", "cause": "scheduler_killed", "message": "Killed.", "retryable": True}


def start(layer: dict[str, Any] | None = None, origins: dict[str, str] | None = None, **values: Any) -> Start:
    return Start({**VALUES, **values}, origins or {}, layer or {})


def record(layer: dict[str, Any], instead: dict[str, Any], **more: Any) -> dict[str, Any]:
    kept = {"arguments": layer, "instead_of": instead, "why": "the start failed"}
    return {"remedy": kept, "context": {**CONTEXT, **more}}


# --- begin


def test_without_a_record_the_inventory_counts() -> None:
    found = attempts.begin(start(), None, CONTEXT, APPLY)
    assert (found.action, found.arguments, found.overridden) == ("start", {}, [])
    assert attempts.warnings("chat", found) == []


def test_a_remedy_counts_while_the_inventory_says_the_same_as_then() -> None:
    found = attempts.begin(start(), record({"max_running_requests": 8}, {"max_running_requests": None}), CONTEXT, APPLY)
    assert found.arguments == {"max_running_requests": 8}
    assert found.overridden == [{"option": "max_running_requests", "value": 8, "inventory": None}]
    [warning] = attempts.warnings("chat", found)
    assert "sglang_server_instances.chat: max_running_requests is 8 and not left out" in warning
    assert "write max_running_requests: 8" in warning


@pytest.mark.parametrize(
    ("now", "kept", "mode", "counts", "words"),
    [
        ({"max_running_requests": 8}, {}, "apply", False, ""),  # adopted: nothing to say any more
        ({"max_running_requests": 16}, {}, "apply", False, "names other values now"),
        ({}, {}, "suggest", False, "the remedy mode is suggest"),
        ({}, {"model": "/other"}, "apply", False, "model, version or GPUs are others"),
        ({}, {"gpus": ["A6000"]}, "apply", False, "model, version or GPUs are others"),
        ({}, {}, "apply", True, "To adopt it"),
    ],
)
def test_when_a_remembered_remedy_counts(now: Any, kept: Any, mode: str, counts: bool, words: str) -> None:
    then = record({"max_running_requests": 8}, {"max_running_requests": None}, **kept)
    found = attempts.begin(start(**now), then, CONTEXT, Policy(mode, 2, APPLY.allowed))
    assert bool(found.arguments) is counts
    told = " ".join(attempts.warnings("chat", found))
    assert words in told if words else told == ""


def test_a_remembered_remedy_that_is_not_allowed_any_more_is_not_applied() -> None:
    then = record({"max_running_requests": 8}, {"max_running_requests": None})
    found = attempts.begin(start(), then, CONTEXT, Policy("apply", 2, ()))
    assert found.arguments == {} and "may not be changed any more" in attempts.warnings("chat", found)[0]


def test_what_a_remedy_took_away_stays_away() -> None:
    then = record({"enable_torch_compile": None}, {"enable_torch_compile": True})
    policy = Policy("apply", 2, ("enable_torch_compile",))
    found = attempts.begin(start(enable_torch_compile=True), then, CONTEXT, policy)
    assert found.arguments == {"enable_torch_compile": None}
    assert "take it out" in attempts.warnings("chat", found)[0]
    adopted = attempts.begin(start(), then, CONTEXT, policy)
    assert adopted.arguments == {} and attempts.warnings("chat", adopted) == []


# --- before


@pytest.mark.parametrize("verdict", ["ok", "tight", "unknown"])
def test_what_may_start_starts(verdict: str) -> None:
    found = attempts.before(start(), {"verdict": verdict, "summary": "No plan."}, APPLY)
    assert found.action == "start"
    assert found.as_dict()["notes"] == (["No plan."] if verdict == "unknown" else [])
    assert attempts.warnings("chat", found) == [], "a CPU has no plan: that is no reason to shout"


def test_a_plan_that_could_not_be_made_stops_nothing() -> None:
    found = attempts.before(start(), {"reason": "model_config_missing", "msg": "no config.json"}, APPLY)
    assert found.action == "start" and found.notes == ["no config.json"]


def test_a_plan_that_says_no_refuses() -> None:
    found = attempts.before(start(), FAILS, Policy("suggest"))
    assert (found.action, found.message) == ("refuse", "It will not start.")
    assert [one["outcome"] for one in found.attempts] == ["refused_by_plan"]


def test_remedies_are_not_told_where_nobody_wants_them() -> None:
    plan = {**FAILS, "summary": "No. Proven to help: 8.", "message_expected": "Not enough memory"}
    found = attempts.before(start(), plan, Policy("none"))
    assert found.message == "The plan says that it will not start: Not enough memory."


def test_a_start_that_would_not_hold_the_context_is_said_so() -> None:
    found = attempts.before(start(), {"verdict": "ok", "useful": False, "summary": "65536 do not fit."}, APPLY)
    assert found.action == "start" and attempts.warnings("chat", found) == ["65536 do not fit."]


def test_a_plan_that_says_no_is_told_and_no_more_where_it_need_not_fit() -> None:
    found = attempts.before(start(), FAILS, Policy("apply", must_fit=False))
    assert found.action == "start"
    assert "It is started all the same" in attempts.warnings("chat", found)[0]


def test_apply_changes_before_anything_is_started() -> None:
    found = attempts.before(start(), FAILS, APPLY)
    assert (found.action, found.arguments) == ("change", {"max_running_requests": 8})
    assert found.changes == [{"option": "max_running_requests", "before": None, "after": 8}]
    assert "is changed from left out to 8" in attempts.warnings("chat", found)[0]


def test_a_change_that_does_not_help_is_not_made_twice() -> None:
    first = attempts.before(start(), FAILS, APPLY)
    again = start({"max_running_requests": 8}, max_running_requests=8)
    second = attempts.before(again, FAILS, APPLY, first.attempts)
    assert second.action == "refuse"
    assert "failed already" in second.rejected[0]["why"]


# --- after


def test_the_proven_remedy_is_applied_after_a_failure() -> None:
    found = attempts.after(start(), NO_MEMORY, FAILS, APPLY)
    assert (found.action, found.arguments) == ("again", {"max_running_requests": 8})
    [tried] = found.attempts
    assert (tried["attempt"], tried["outcome"], tried["cause"]) == (1, "failed", "kv_cache_no_memory")


@pytest.mark.parametrize(
    ("candidate", "origins", "why"),
    [
        (remedy("fail", max_running_requests=8), {}, "no plan proves it"),
        (remedy(None, max_running_requests=8), {}, "no plan proves it"),
        (remedy("ok", tp_size=4), {}, "tp_size may not be changed"),
        (remedy("ok"), {}, "done on the host"),
        (remedy("ok", max_running_requests=8), {"max_running_requests": "extra_args"}, "does not reach"),
        (remedy("ok", mem_fraction_static=0.85), {}, "failed already"),
    ],
)
def test_what_is_not_applied(candidate: dict[str, Any], origins: dict[str, str], why: str) -> None:
    found = attempts.after(start(origins=origins), NO_MEMORY, {"remedies": [candidate]}, APPLY)
    assert found.action == "give_up"
    assert why in found.rejected[0]["why"]


def test_the_first_that_may_be_applied_is_taken() -> None:
    listed = [
        remedy("ok", tp_size=4),
        remedy("fail", mem_fraction_static=0.9),
        EIGHT,
        remedy("ok", max_running_requests=4),
    ]
    found = attempts.after(start(), NO_MEMORY, {"remedies": listed}, APPLY)
    assert found.arguments == {"max_running_requests": 8} and len(found.rejected) == 2


def test_a_memory_remedy_is_none_against_another_cause() -> None:
    broken = {**NO_MEMORY, "cause": "weights_corrupt"}
    assert attempts.after(start(), broken, FAILS, APPLY).action == "give_up"


def test_what_the_catalogue_proposes_counts_once_a_plan_has_proven_it() -> None:
    compiled = {**NO_MEMORY, "cause": "torch_compile_error"}
    policy = Policy("apply", 2, ("enable_torch_compile",))
    proposed = remedy("ok", id="no_compile", enable_torch_compile=None)
    found = attempts.after(start(enable_torch_compile=True), compiled, {"candidates": [proposed]}, policy)
    assert (found.action, found.arguments) == ("again", {"enable_torch_compile": None})


def test_what_may_pass_is_started_the_same_again() -> None:
    found = attempts.after(start(), TRANSIENT, None, APPLY)
    assert (found.action, found.arguments, found.changes) == ("again", {}, [])
    last = attempts.after(start(), TRANSIENT, None, APPLY, found.attempts)
    assert last.action == "give_up" and "2 of 2 starts" in last.why
    assert last.message == "Killed. Not started again: 2 of 2 starts were made."


def test_what_a_plan_refused_is_no_start() -> None:
    first = attempts.before(start(), FAILS, APPLY)
    changed = start(first.arguments, max_running_requests=8)
    found = attempts.after(changed, TRANSIENT, None, APPLY, first.attempts)
    assert found.action == "again" and found.arguments == {"max_running_requests": 8}


@pytest.mark.parametrize("outcome", ["timeout", "stopped"])
def test_a_server_that_goes_on_or_was_stopped_is_left_alone(outcome: str) -> None:
    assert attempts.after(start(), {**TRANSIENT, "outcome": outcome}, FAILS, APPLY).action == "give_up"


@pytest.mark.parametrize(("mode", "told"), [("none", False), ("suggest", True)])
def test_what_is_told_where_nothing_is_applied(mode: str, told: bool) -> None:
    found = attempts.after(start(), NO_MEMORY, FAILS, Policy(mode))
    assert found.action == "give_up"
    assert found.message.startswith("No memory.")
    assert ("max_running_requests: 8" in found.message) is told


def test_without_a_proof_the_catalogue_s_words_are_told() -> None:
    verdict = {**NO_MEMORY, "cause": "weights_corrupt", "remedies": [{"text": "Download it again."}]}
    assert attempts.after(start(), verdict, None, Policy()).message == "No memory. Download it again."


# --- what holds for all of it


def test_the_causes_are_the_catalogue_s() -> None:
    assert set(attempts.MEMORY_CAUSES) <= set(causes.by_id())


OPTIONS = ("a", "b", "c")
CHANGES = st.dictionaries(st.sampled_from(OPTIONS), st.one_of(st.none(), st.integers(0, 2)), max_size=2)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(CHANGES, st.sampled_from(["ok", "tight", "fail", None])), max_size=5),
    st.sets(st.sampled_from(OPTIONS)),
    st.integers(1, 3),
    st.booleans(),
)
def test_it_ends_and_never_repeats_what_failed_nor_leaves_what_is_allowed(
    listed: list[tuple[dict[str, Any], str | None]], allowed: set[str], most: int, retryable: bool
) -> None:
    policy = Policy("apply", most, tuple(allowed))
    plan = {"remedies": [remedy(verdict, **changes) for changes, verdict in listed]}
    verdict = {**NO_MEMORY, "retryable": retryable}
    own = {"a": 0, "b": 1}
    layer: dict[str, Any] = {}
    tried: list[dict[str, Any]] = []
    seen = []
    for _attempt in range(most):
        values = {name: value for name, value in {**own, **layer}.items() if value is not None}
        seen.append(values)
        assert set(layer) <= allowed
        found = attempts.after(Start(values, {}, layer), verdict, plan, policy, tried)
        layer, tried = found.arguments, found.attempts
        if found.action == "give_up":
            break
    assert found.action == "give_up", "bounded by the number of starts"
    assert len(seen) <= most
    if not retryable:
        assert all(one not in seen[:at] for at, one in enumerate(seen))
