# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan in words, and remedies that somebody else proposes."""

from __future__ import annotations

from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._memory import inputs, remedies, words
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_examples, memory_facts

CARD: dict[str, Any] = {
    "index": 0,
    "uuid": "GPU-0",
    "name": "NVIDIA RTX A6000",
    "memory_mib": {"total": 49140, "used": 30000, "free": 18577},
    "clients": [],
}


def said(version: str, **changes: Any) -> str:
    answer, found = remedies.plan(memory_examples.founding(version, **changes))
    return words.summary(answer, found)


def test_a_failure_says_why_what_nobody_set_and_what_is_proven() -> None:
    text = said("0.5.9")
    assert "no memory is left for the KV cache" in text
    assert "Not enough memory" in text, "what one will find in the log"
    assert "max_running_requests=48" in text
    assert "[max_running_requests: 8; then tight, 371724 tokens]" in text
    assert "Raise mem_fraction_static" not in text


def test_what_starts_says_with_how_much() -> None:
    text = said("0.5.9", max_running_requests=8)
    assert text.startswith("It may start on SGLang 0.5.9, with 371724 tokens and 8 requests at once.")
    assert "It is tight" in text


def test_what_is_not_covered_says_so_without_a_number() -> None:
    problem = memory_examples.founding("0.5.23", enable_unified_memory=True)
    answer, found = remedies.plan(problem)
    text = words.summary(answer, found)
    assert text.startswith("No plan for SGLang 0.5.23: enable_unified_memory")


def test_proposed_remedies_are_planned_where_they_can_be() -> None:
    problem = memory_examples.founding("0.5.9")
    asked = [
        {"id": "eight", "text": "Eight.", "arguments": {"max_running_requests": 8}},
        {"id": "more", "text": "More.", "arguments": {"mem_fraction_static": 0.9}},
        {"id": "vague", "text": "Vague.", "arguments": {"mem_fraction_static": "<higher by 0.05>"}},
        {"id": "host", "text": "Host.", "host_action": "gpu_clean"},
        {"id": "gone", "text": "Gone.", "arguments": {"speculative_algorithm": None}},
    ]
    found = {one.id: one.proven_by for one in remedies.prove(problem, asked)}
    assert found["eight"] is not None and found["eight"]["verdict"] == "tight"
    assert found["more"] is not None and found["more"]["verdict"] == "fail", "SGLang's own advice does not help here"
    assert found["vague"] is None and found["host"] is None
    assert found["gone"] is not None and found["gone"]["verdict"] in ("ok", "tight")


def test_what_cleaning_would_stop_counts_as_free() -> None:
    params: dict[str, Any] = {
        "sglang_version": "0.5.9",
        "config": memory_facts.config_of(memory_examples.LLAMA),
        "args": {},
        "gpus": [CARD],
        "clean_targets": [
            {"pid": 1, "memory_mib": {"GPU-0": 20000, "GPU-elsewhere": 5}},
            {"pid": 2, "memory_mib": {"GPU-0": None}},
            {"pid": 3, "memory_mib": {}},
        ],
        "reclaimable": [{"gpu": "0", "memory_mib": 1000, "pid": 4}],
    }
    [card] = inputs.problem(params, {}).gpus
    assert card.reclaimable_mib == 21000
