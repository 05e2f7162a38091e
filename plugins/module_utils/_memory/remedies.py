# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What to change so that it starts and is useful. Every proposal is planned again before it is returned.

The table holds the order: what costs the user least comes first. A row offers candidates; the first of a row that
plans to a start is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._remedy import Remedy
from .answer import FAIL, OK, TIGHT, UNKNOWN, Plan
from .cells import slots_per_request
from .plan import evaluate
from .problem import Problem, ranks_on_host
from .versions import NEWEST, rule, show

FOREIGN_LIMIT_GIB = 1.0
REQUEST_LADDER = (32, 24, 16, 12, 8, 4, 2, 1)
_SPECULATION = (
    "speculative_algorithm",
    "speculative_draft_model_path",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
)


@dataclass(frozen=True)
class Candidate:
    """One change to try: arguments (``None`` takes one away), or something to do on the host."""

    text: str
    arguments: dict[str, Any]
    problem: Problem
    host_action: str | None = None


@dataclass(frozen=True)
class Row:
    """``offer`` yields candidates, the most wanted first; ``safe`` rows may be applied unattended."""

    id: str
    safe: bool
    offer: Callable[[Problem, Plan], Iterator[Candidate]]


def plan(problem: Problem) -> tuple[Plan, list[Remedy]]:
    """The plan of this problem and, where it is not good, the changes that are proven to help."""
    answer = evaluate(problem)
    if answer.verdict == UNKNOWN or (answer.verdict == OK and answer.useful and _enough_requests(answer)):
        return answer, []
    found = [proof for row in ROWS for proof in [_prove(row, problem, answer)] if proof is not None]
    useful = [remedy for remedy, proof in found if proof.useful and _enough_requests(proof)]
    return answer, useful or ([remedy for remedy, _answer in found] if answer.verdict == FAIL else [])


def prove(problem: Problem, proposed: Sequence[Mapping[str, Any]]) -> list[Remedy]:
    """Remedies that somebody else proposes (the verdict of a failed start), each with its plan where it can be planned.

    ``proven_by`` is left out where the change is none of arguments, or names no value ("<higher>").
    """
    found = []
    for one in proposed:
        changes = one.get("arguments") or {}
        concrete = bool(changes) and not any(isinstance(value, str) and "<" in value for value in changes.values())
        proof = evaluate(problem.with_changes(changes)).proof() if concrete else None
        found.append(
            Remedy(
                id=str(one.get("id") or "proposed"),
                text=str(one.get("text") or ""),
                arguments=dict(changes),
                host_action=one.get("host_action"),
                proven_by=proof,
                safe=bool(one.get("safe")),
                docs=one.get("docs"),
            )
        )
    return found


def _prove(row: Row, problem: Problem, answer: Plan) -> tuple[Remedy, Plan] | None:
    """The first candidate of a row that starts and is better than what there is."""
    fallback = None
    for candidate in row.offer(problem, answer):
        proof = evaluate(candidate.problem)
        if not _is_better(answer, proof):
            continue
        remedy = Remedy(
            id=row.id,
            text=candidate.text,
            arguments=candidate.arguments,
            host_action=candidate.host_action,
            proven_by=proof.proof(),
            safe=row.safe and candidate.host_action is None,
        )
        if proof.useful and _enough_requests(proof):
            return remedy, proof
        fallback = fallback or (remedy, proof)
    return fallback


def _is_better(answer: Plan, proof: Plan) -> bool:
    if not proof.starts:
        return False
    if answer.verdict == FAIL:
        return True
    gains = bool(proof.useful and _enough_requests(proof)) and not (answer.useful and _enough_requests(answer))
    return gains or (answer.verdict == TIGHT and proof.verdict == OK and bool(proof.useful or not answer.useful))


def _enough_requests(answer: Plan) -> bool:
    if answer.wanted_requests is None:
        return True
    return answer.requests is not None and answer.requests >= answer.wanted_requests


def _changed(problem: Problem, text: str, arguments: dict[str, Any]) -> Candidate:
    return Candidate(text, arguments, problem.with_changes(arguments))


# --- the host ---------------------------------------------------------------------------------------------------


def _free_foreign_memory(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    launch = answer.launch
    used = problem.used_gpus(launch) if launch is not None else problem.gpus
    occupied = [gpu for gpu in used if gpu.foreign_gib > FOREIGN_LIMIT_GIB]
    if not occupied:
        return
    held = "; ".join(
        f"GPU {gpu.index} {gpu.foreign_gib:.1f} GiB" + (f" by {', '.join(gpu.clients)}" if gpu.clients else "")
        for gpu in occupied
    )
    emptied = replace(problem, gpus=tuple(gpu.emptied() for gpu in problem.gpus))
    yield Candidate(f"Free the memory that other processes hold: {held}.", {}, emptied, "gpu_clean")


def _more_ranks(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    launch = answer.launch
    if launch is None:
        return
    tp = launch.tp * 2
    while ranks_on_host(launch) // launch.tp * tp <= len(problem.gpus):
        if not problem.geometry.heads % tp:
            yield _changed(problem, f"Spread the model over {tp} GPUs.", {"tp_size": tp})
        tp *= 2


def _newer_version(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if problem.version < NEWEST:
        newer = replace(problem, version=NEWEST)
        yield Candidate(f"Upgrade SGLang to {show(NEWEST)}.", {}, newer, f"upgrade SGLang to {show(NEWEST)}")


# --- recurrent states -------------------------------------------------------------------------------------------


def _has_states_and_speculation(problem: Problem) -> bool:
    return problem.geometry.linear is not None and bool(problem.arguments.get("speculative_algorithm"))


def _request_ladder(problem: Problem, answer: Plan, also: dict[str, Any]) -> Iterator[Candidate]:
    """The largest number of requests that can each use half of the wanted context, then the smaller ones."""
    wanted = answer.wanted_context or 1
    current = answer.launch.max_running_requests if answer.launch is not None else None
    least = problem.wanted_requests or 1
    for requests in REQUEST_LADDER:
        if requests == current or requests < least:
            continue
        changes = {"max_running_requests": requests, **also}
        candidate = _changed(problem, f"Allow at most {requests} running requests.", changes)
        tokens = evaluate(candidate.problem).tokens
        if tokens is not None and tokens >= requests * wanted / 2:
            yield candidate


def _fewer_requests(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if _has_states_and_speculation(problem) and rule("state_no_buffer_speculation", problem.version) != "error":
        yield from _request_ladder(problem, answer, {})


def _state_buffer(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    """Versions that refuse speculation without extra state buffers."""
    if not _has_states_and_speculation(problem) or answer.stage != "args":
        return
    option = {"mamba_scheduler_strategy": "extra_buffer"}
    note = "Keep extra state buffers (and set SGLANG_ENABLE_SPEC_V2=1)."
    yield _changed(problem, note, dict(option))
    for candidate in _request_ladder(problem, answer, option):
        yield replace(candidate, text=f"{candidate.text} {note}")


def _fewer_drafts(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    launch = answer.launch
    if not _has_states_and_speculation(problem) or launch is None or launch.speculation is None:
        return
    if launch.speculation.is_dflash or not launch.speculation.has_draft_model:
        return
    for steps in range(min(3, launch.speculation.steps) - 1, 0, -1):
        changes = {
            "speculative_num_steps": steps,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": steps + 1,
        }
        yield _changed(problem, f"Draft {steps} token{'s' if steps > 1 else ''} at a time.", changes)


def _smaller_states(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if problem.geometry.linear is not None and problem.arguments.get("mamba_ssm_dtype") != "bfloat16":
        text = "Keep recurrent states in 16 bits; check the quality of the answers."
        yield _changed(problem, text, {"mamba_ssm_dtype": "bfloat16"})


def _no_speculation(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if problem.arguments.get("speculative_algorithm"):
        changes = {name: None for name in _SPECULATION if problem.arguments.get(name) is not None}
        yield _changed(problem, "Do without speculative decoding.", changes)


def _fewer_states(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    """Linear attention without speculation: fewer slots, or a smaller share for them."""
    launch = answer.launch
    if problem.geometry.linear is None or problem.arguments.get("speculative_algorithm") or launch is None:
        return
    per_request = slots_per_request(launch, problem.version)
    least = problem.wanted_requests or 1
    for requests in REQUEST_LADDER:
        if requests >= least:
            slots = requests * per_request * launch.attention_dp
            text = f"Keep recurrent states for {requests} requests only."
            yield _changed(problem, text, {"max_mamba_cache_size": slots})


# --- keys and values --------------------------------------------------------------------------------------------


def _smaller_window_share(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if problem.geometry.windowed is None or answer.launch is None:
        return
    for ratio in (0.5, 0.25, 0.1):
        if ratio < answer.launch.window_ratio:
            text = f"Give window layers {ratio:g} of the tokens of full layers."
            yield _changed(problem, text, {"swa_full_tokens_ratio": ratio})


def _fp8_cache(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if answer.launch is not None and answer.launch.kv_element_bytes > 1:
        text = "Keep the KV cache in FP8; check the quality of the answers."
        yield _changed(problem, text, {"kv_cache_dtype": "fp8_e4m3"})


def _shorter_context(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    """Only where nobody asked for a context: the request table shrinks and the promise becomes true."""
    launch = answer.launch
    if problem.wanted_context is not None or launch is None or launch.given.get("context_length") is not None:
        return
    for context in (131072, 65536, 32768, 16384, 8192):
        if context < launch.context_length:
            yield _changed(problem, f"Promise {context} tokens of context.", {"context_length": context})


# --- what comes after the pools ---------------------------------------------------------------------------------


def _is_late(answer: Plan) -> bool:
    return answer.stage == "late" or answer.verdict == TIGHT


def _smaller_chunk(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if not _is_late(answer) or answer.sizes is None:
        return
    for chunk in (4096, 2048, 1024):
        if chunk < answer.sizes.chunk_tokens:
            yield _changed(problem, f"Prefill {chunk} tokens at a time.", {"chunked_prefill_size": chunk})


def _fewer_graphs(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if not _is_late(answer) or answer.sizes is None:
        return
    name = "cuda_graph_max_bs" if problem.version < (0, 5, 14) else "cuda_graph_max_bs_decode"
    for batch in (64, 32, 16, 8):
        if batch < answer.sizes.graph_batch:
            yield _changed(problem, f"Capture graphs for up to {batch} requests.", {name: batch})


def _no_torch_compile(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    if _is_late(answer) and answer.launch is not None and answer.launch.torch_compile:
        yield _changed(problem, "Do without torch.compile.", {"enable_torch_compile": None})


# --- the fraction -----------------------------------------------------------------------------------------------


def _fraction_in_window(problem: Problem, answer: Plan) -> Iterator[Candidate]:
    """Only where the window of the arguments as they are says so."""
    window = answer.window
    current = answer.fraction_given if answer.fraction_given is not None else answer.fraction_automatic
    if window is None or current is None:
        return
    low, high = window
    if low > current:
        for share in (round((low + high) / 2, 3), low):
            yield _changed(problem, f"Raise mem_fraction_static to {share:g}.", {"mem_fraction_static": share})
    elif high < current or answer.verdict == TIGHT:
        for share in (high, round((low + high) / 2, 3), low):
            if share < current:
                yield _changed(problem, f"Lower mem_fraction_static to {share:g}.", {"mem_fraction_static": share})


ROWS: tuple[Row, ...] = (
    Row("free_gpu_memory", False, _free_foreign_memory),
    Row("fewer_requests", True, _fewer_requests),
    Row("state_buffer", False, _state_buffer),
    Row("fewer_draft_tokens", True, _fewer_drafts),
    Row("smaller_states", False, _smaller_states),
    Row("newer_sglang", False, _newer_version),
    Row("no_speculation", False, _no_speculation),
    Row("fewer_states", True, _fewer_states),
    Row("smaller_window_share", True, _smaller_window_share),
    Row("fp8_kv_cache", False, _fp8_cache),
    Row("shorter_context", False, _shorter_context),
    Row("smaller_chunk", True, _smaller_chunk),
    Row("fewer_graphs", True, _fewer_graphs),
    Row("no_torch_compile", True, _no_torch_compile),
    Row("fraction_in_window", True, _fraction_in_window),
    Row("more_gpus", False, _more_ranks),
)
