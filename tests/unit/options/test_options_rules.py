# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule has an example that breaks it and only it, and one that breaks none."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._options import hidden, rules
from ansible_collections.llmhost.sglang.plugins.module_utils._options.arguments import Layer, collect
from ansible_collections.llmhost.sglang.plugins.module_utils._options.facts import Facts, facts
from ansible_collections.llmhost.sglang.plugins.module_utils._options.model import version_key
from ansible_collections.llmhost.sglang.tests.unit.options.options_rule_examples import (
    A6000,
    EXAMPLES,
    GDN,
    H100,
    QWEN,
    Example,
)
from ansible_collections.llmhost.sglang.tests.unit.options.options_support import shipped


def facts_of(version: str, arguments: dict[str, Any], **more: Any) -> Facts:
    known = shipped(version)
    collected = collect(known, [Layer("arguments", arguments)])
    assert [problem.as_dict() for problem in collected.problems] == []  # the example is at least well-formed
    return facts(known, collected, **more)


def broken_by(example: Example, arguments: dict[str, Any], secrets: tuple[str, ...]) -> list[str]:
    seen = facts_of(
        example.version,
        arguments,
        model=example.model,
        gpu_count=example.gpu_count,
        gpus=example.gpus,
        secrets=secrets,
    )
    return [rule.id for rule in rules.RULES if rule.applies(seen) and rule.broken(seen)]


def test_every_rule_has_its_example_and_every_example_its_rule() -> None:
    ids = [rule.id for rule in rules.RULES]
    assert len(ids) == len(set(ids))
    assert sorted(ids) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_bad_example_breaks_this_rule_and_no_other(name: str) -> None:
    assert broken_by(EXAMPLES[name], EXAMPLES[name].bad, EXAMPLES[name].bad_secrets) == [name]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_good_example_breaks_no_rule(name: str) -> None:
    assert broken_by(EXAMPLES[name], EXAMPLES[name].good, EXAMPLES[name].good_secrets) == []


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_what_is_said_names_the_values_and_the_origin(name: str) -> None:
    example = EXAMPLES[name]
    seen = facts_of(
        example.version,
        example.bad,
        model=example.model,
        gpu_count=example.gpu_count,
        gpus=example.gpus,
        secrets=example.bad_secrets,
    )
    checked = rules.check(seen)
    rule = next(rule for rule in rules.RULES if rule.id == name)
    if rule.kind == "note":
        assert checked.problems == []
        (text,) = checked.notes
    else:
        (problem,) = checked.problems
        row = problem.as_dict()
        assert (row["rule"], row["problem"]) == (name, "rule")
        assert row["cure"]
        if row["option"] in example.bad:
            assert row["origin"] == "arguments"
        text = row["message"]
    assert "None" not in text and "{" not in text
    assert rules.check(seen, [name]).problems == [] and rules.check(seen, [name]).notes == []


def test_spans_are_spans() -> None:
    for row in (*rules.RULES, *hidden.HIDDEN):
        if row.since and row.until:
            assert version_key(row.since) < version_key(row.until), row.id


def test_nothing_given_breaks_nothing() -> None:
    for version in ("0.4.6.post5", "0.5.9", "0.5.18", "0.5.23"):
        for model in (None, QWEN, GDN):
            checked = rules.check(facts_of(version, {"model_path": "/m"}, model=model, gpu_count=1, gpus=[A6000]))
            assert checked.problems == [] and checked.notes == [], version


def test_a_rule_that_does_not_exist_cannot_be_ignored() -> None:
    (problem,) = rules.check(facts_of("0.5.23", {}), ["no_such_rule"]).problems
    assert "no_such_rule" in problem.message


def test_a_cpu_server_needs_no_gpus_and_pads_its_heads() -> None:
    seen = facts_of("0.5.23", {"device": "cpu", "tp_size": 3}, model=QWEN, gpu_count=0)
    assert rules.check(seen).problems == []


def test_unknown_gpus_are_not_judged() -> None:
    for gpus in ([{"index": 0}], [H100, {"index": 1, "name": "a card of next year"}]):
        seen = facts_of("0.5.23", {"attention_backend": "trtllm_mla", "tp_size": len(gpus)}, gpus=gpus)
        assert rules.check(seen).problems == []
    stated = [{"index": 0, "name": "a card of next year", "compute_capability": "9.0"}]
    (problem,) = rules.check(facts_of("0.5.23", {"attention_backend": "trtllm_mla"}, gpus=stated)).problems
    assert problem.detail["rule"] == "blackwell_backend"


@pytest.mark.parametrize(
    ("model", "context"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 16384),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096),
        (
            {
                "max_position_embeddings": 4096,
                "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 1024},
            },
            4096,
        ),
        ({"text_config": {"max_position_embeddings": 512}, "max_position_embeddings": 9}, 512),
        ({"seq_length": 2048, "max_position_embeddings": 4096}, 2048),
        ({}, None),
    ],
)
def test_context_of_a_model(model: dict[str, Any], context: int | None) -> None:
    assert facts_of("0.5.23", {}, model=model).model_context == context


def hidden_of(version: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {row["option"]: row["value"] for row in hidden.defaults(facts_of(version, arguments, **more))}


def test_hidden_defaults_of_the_founding_failure() -> None:
    """memory.md 10: the 48 requests that nobody asked for, and the radix cache that went with them."""
    wanted = {
        "model_path": "/m",
        "tp_size": 2,
        "mem_fraction_static": 0.85,
        "context_length": 40960,
        "speculative_algorithm": "NEXTN",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
    }
    found = hidden_of("0.5.9", wanted, model=GDN)
    assert found["max_running_requests"] == 48
    assert found["disable_radix_cache"] is True
    assert "mem_fraction_static" not in found and "context_length" not in found
    assert hidden_of("0.5.9", {**wanted, "max_running_requests": 8}, model=GDN).get("max_running_requests") is None
    assert "disable_radix_cache" not in hidden_of("0.5.23", wanted, model=GDN)


HIDDEN_EXAMPLES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # id: version, arguments with it, arguments without it, model
    "speculation_requests": ("0.5.23", {"speculative_algorithm": "NGRAM"}, {}, {}),
    "speculation_radix": (
        "0.5.9",
        {"speculative_algorithm": "EAGLE"},
        {"speculative_algorithm": "EAGLE", "mamba_scheduler_strategy": "extra_buffer"},
        GDN,
    ),
    "speculation_overlap": ("0.5.9", {"speculative_algorithm": "EAGLE"}, {}, {}),
    "pipeline_overlap": ("0.5.23", {"pp_size": 2}, {"pp_size": 1}, {}),
    "draft_tokens": (
        "0.5.23",
        {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "speculative_eagle_topk": 1},
        {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "speculative_eagle_topk": 2},
        {},
    ),
    "speculation_details": (
        "0.5.23",
        {"speculative_algorithm": "EAGLE3"},
        {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3},
        {},
    ),
    "dp_attention_schedule": ("0.5.23", {"tp_size": 2, "attn_dp_size": 2}, {"tp_size": 2, "dp_size": 2}, {}),
    "flashmla_page": ("0.5.9", {"attention_backend": "flashmla"}, {"attention_backend": "fa3"}, {}),
    "cutlass_mla_page": ("0.5.9", {"attention_backend": "cutlass_mla"}, {"attention_backend": "fa3"}, {}),
    "linear_memory_ratio": ("0.5.23", {}, {"mamba_full_memory_ratio": 0.5}, GDN),
    "swa_ratio": ("0.5.23", {}, {"swa_full_tokens_ratio": 0.5}, {"sliding_window": 1024}),
    "model_context": ("0.5.23", {}, {"context_length": 8192}, QWEN),
    "fraction": ("0.5.23", {}, {"mem_fraction_static": 0.8}, {}),
    "served_name": ("0.5.23", {"model_path": "/m"}, {"model_path": "/m", "served_model_name": "m"}, {}),
    "decode_radix": (
        "0.5.23",
        {"disaggregation_mode": "decode"},
        {"disaggregation_mode": "decode", "disaggregation_decode_enable_radix_cache": True},
        {},
    ),
}


def test_every_hidden_default_has_its_example() -> None:
    assert sorted(row.id for row in hidden.HIDDEN) == sorted(HIDDEN_EXAMPLES)


@pytest.mark.parametrize("name", sorted(HIDDEN_EXAMPLES))
def test_hidden_default_is_told_where_it_takes_effect_and_only_there(name: str) -> None:
    version, given, without, model = HIDDEN_EXAMPLES[name]
    row = next(row for row in hidden.HIDDEN if row.id == name)
    why = [
        item["why"] for item in hidden.defaults(facts_of(version, given, model=model)) if item["option"] == row.option
    ]
    assert len(why) == 1 and "{" not in why[0]
    assert why[0][:20] == row.why[:20]
    told = [item["option"] for item in hidden.defaults(facts_of(version, without, model=model))]
    assert row.option not in told
