# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, values and layers: what somebody writes, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._options import history, names, tables, values
from ansible_collections.llmhost.sglang.plugins.module_utils._options.arguments import (
    Collected,
    Layer,
    collect,
    misplaced_secrets,
    parse_argv,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._options.model import Option, Schema
from ansible_collections.llmhost.sglang.tests.unit.options.options_support import shipped

NEW, V18, MID, OLD = "0.5.23", "0.5.18", "0.5.9", "0.4.6.post5"


def one(arguments: dict[str, Any], version: str = NEW, extra: list[str] | None = None) -> Collected:
    return collect(shipped(version), [Layer("host", arguments)], extra or [])


def problem(arguments: dict[str, Any], version: str = NEW, extra: list[str] | None = None) -> dict[str, Any]:
    found = one(arguments, version, extra).problems
    assert len(found) == 1, [row.as_dict() for row in found]
    return found[0].as_dict()


# -- names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [NEW, V18, MID, OLD])
@pytest.mark.parametrize(
    "written", ["tp_size", "tp-size", "--tp-size", "tensor_parallel_size", "--tensor-parallel-size", " tp_size "]
)
def test_every_spelling_is_one_option(version: str, written: str) -> None:
    collected = one({written: 2}, version)
    assert collected.problems == [] and collected.notes == []
    (argument,) = collected.arguments.values()
    assert (argument.key, argument.value) == ("tp_size", 2)


@pytest.mark.parametrize(
    ("version", "written", "rendered"),
    [
        (NEW, "cuda_graph_max_bs", "--cuda-graph-max-bs-decode"),
        (MID, "cuda_graph_max_bs_decode", "--cuda-graph-max-bs"),
        (NEW, "mamba_scheduler_strategy", "--mamba-radix-cache-strategy"),
        (MID, "mamba_radix_cache_strategy", "--mamba-scheduler-strategy"),
        (NEW, "nsa_prefill_backend", "--dsa-prefill-backend"),
        (OLD, "pp_max_micro_batch_size", "--max-micro-batch-size"),
    ],
)
def test_renamed_is_rendered_under_the_name_of_this_version(version: str, written: str, rendered: str) -> None:
    option = shipped(version).exact(rendered)
    assert option is not None
    value = option.choices[0] if option.choices else 4
    collected = one({written: value}, version)
    assert collected.problems == []
    assert list(collected.arguments) == [rendered]
    assert written in collected.notes[0] and rendered in collected.notes[0]


def test_deprecated_alias_is_rendered_under_its_new_name() -> None:
    collected = one({"cuda_graph_bs": [1, 2]}, V18)
    assert list(collected.arguments) == ["--cuda-graph-bs-decode"]
    assert "deprecated" in collected.notes[0]
    flag = one({"stream_output": True}, V18)
    assert list(flag.arguments) == ["--incremental-streaming-output"]
    constant = one({"enable_breakable_cuda_graph": True}, V18)
    assert [(a.option.name, a.value) for a in constant.arguments.values()] == [
        ("--cuda-graph-backend-prefill", "breakable")
    ]


def test_deprecated_without_an_equal_is_kept_and_noted() -> None:
    collected = one({"disable_cuda_graph": True})
    assert list(collected.arguments) == ["--disable-cuda-graph"]
    assert "cuda-graph-backend" in collected.notes[0]
    # The new option has other values: what was asked for stays as it is.
    collected = one({"prefill_cp_mode": "in-seq-split"}, V18)
    assert list(collected.arguments) == ["--prefill-cp-mode"]


def test_unset_deprecated_switch_is_nothing() -> None:
    assert one({"disable_cuda_graph": False}).arguments == {}


def test_abbreviation_is_expanded_and_noted() -> None:
    collected = one({"speculative_algo": "EAGLE"})
    assert list(collected.arguments) == ["--speculative-algorithm"]
    assert "speculative_algo" in collected.notes[0] and "--speculative-algorithm" in collected.notes[0]


def test_ambiguous_abbreviation_names_the_candidates() -> None:
    row = problem({"cuda_graph_bs_": 1})
    assert row["problem"] == "ambiguous"
    assert row["candidates"] == ["cuda_graph_bs_decode", "cuda_graph_bs_prefill"]


def test_unknown_names_what_looks_like_it() -> None:
    row = problem({"tp_sise": 2})
    assert (row["problem"], row["origin"]) == ("unknown", "host")
    assert "tp_size" in row["nearest"] and "tp_size" in row["cure"]
    assert "mem_fraction_static" in problem({"static_mem_fraction": 0.9})["nearest"]


def test_unknown_here_and_known_elsewhere() -> None:
    row = problem({"kv_canary": "log"}, MID)
    assert (row["problem"], row["known_in"]) == ("unknown", ["0.5.18", "0.5.23"])
    assert "newer" in row["cure"]


def test_removed_names_where_it_was_and_what_took_its_place() -> None:
    row = problem({"enable_ep_moe": True})
    assert (row["problem"], row["known_in"]) == ("removed", [OLD])
    assert "ep_size" in row["cure"]
    refused = problem({"enable_flashmla": True}, OLD)  # the parser knows it, to refuse it
    assert refused["problem"] == "removed" and "flashmla" in refused["cure"]


@pytest.mark.parametrize("written", [True, 5, None, "", "--", " - "])
def test_what_is_no_name(written: Any) -> None:
    assert problem({written: 1})["problem"] == "unknown"


def test_replacements_and_renames_lead_to_options_that_exist() -> None:
    everywhere = {names.key_of(s) for version in tables.AVAILABLE for s in shipped(version).spellings()}
    for old, new in history.RENAMED:
        assert old in everywhere and new in everywhere, (old, new)
    for row in history.REPLACED:
        words = {word.strip(",:") for word in row.cure.split() if "_" in word}
        assert words <= everywhere, (row.option, words - everywhere)


def test_no_rename_turns_a_living_option_into_another() -> None:
    for version in tables.AVAILABLE:
        for option in shipped(version):
            collected = Collected()
            named = names.resolve(shipped(version), option.name, "x")
            assert isinstance(named, names.Named) and named.option is option and not named.negated, option.name
            assert collected.notes == []


# -- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"tp_size": 2}, 2),
        ({"tp_size": "2"}, 2),
        ({"tp_size": " 2 "}, 2),
        ({"chunked_prefill_size": -1}, -1),
        ({"chunked_prefill_size": "-1"}, -1),
        ({"mem_fraction_static": 0.85}, 0.85),
        ({"mem_fraction_static": "0.85"}, 0.85),
        ({"mem_fraction_static": "1e-1"}, 0.1),
        ({"mem_fraction_static": ".5"}, 0.5),
        ({"schedule_conservativeness": 1}, 1.0),
        ({"context_length": 65536}, 65536),
        ({"context_length": "64Ki"}, "64Ki"),
        ({"context_length": "25.6k"}, "25.6k"),
        ({"enable_metrics": True}, True),
        ({"enable_metrics": "True"}, True),
        ({"kv_canary": "log"}, "log"),
        ({"log_requests_level": "2"}, 2),
        ({"default_chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}),
        ({"default_chat_template_kwargs": '{"a": 1}'}, '{"a": 1}'),
        ({"json_model_override_args": {"a": 1}}, {"a": 1}),
        ({"sidecar_args": ["--x"]}, ["--x"]),
        ({"cuda_graph_bs_decode": [1, 2]}, [1, 2]),
        ({"cuda_graph_bs_decode": "8"}, [8]),
        ({"cuda_graph_bs_decode": 8}, [8]),
        ({"lora_paths": {"a": "/a"}}, ["a=/a"]),
        ({"lora_paths": [{"lora_name": "a", "lora_path": "/a"}]}, ['{"lora_name": "a", "lora_path": "/a"}']),
        ({"lora_paths": []}, []),
        ({"model_checksum": True}, True),
        ({"model_checksum": "abc"}, "abc"),
        ({"dllm_fdfo": False}, False),
        ({"no_dllm_fdfo": True}, False),
        ({"served_model_name": ""}, ""),
    ],
)
def test_good_values(arguments: dict[str, Any], value: Any) -> None:
    collected = one(arguments)
    assert [row.as_dict() for row in collected.problems] == []
    (argument,) = collected.arguments.values()
    assert argument.value == value and type(argument.value) is type(value)


@pytest.mark.parametrize(
    ("arguments", "kind", "cure"),
    [
        # what YAML makes of things
        ({"grammar_backend": None}, "null", '"none"'),
        ({"disaggregation_mode": None}, "null", '"null"'),
        ({"tp_size": None}, "null", "leave it out"),
        ({"expert_balancedness_report_mode": False}, "yaml_trap", '"off"'),
        ({"kv_canary": False}, "yaml_trap", "none, log, raise"),
        ({"tp_size": True}, "yaml_trap", "tp_size"),
        ({"mem_fraction_static": True}, "yaml_trap", "mem_fraction_static"),
        ({"tp_size": "010"}, "yaml_trap", "10"),
        ({"tp_size": "0o10"}, "yaml_trap", "8"),
        ({"tp_size": "0x10"}, "yaml_trap", "16"),
        ({"max_total_tokens": "1_000"}, "yaml_trap", "1000"),
        ({"revision": 83}, "yaml_trap", "quote it"),
        ({"revision": 1234567e3}, "yaml_trap", "quote it"),
        ({"served_model_name": True}, "yaml_trap", '"true"'),
        # types
        ({"tp_size": 2.0}, "wrong_type", "tp_size: 2"),
        ({"tp_size": 2.5}, "wrong_type", "tp_size"),
        ({"tp_size": "1e1"}, "wrong_type", "10"),
        ({"tp_size": "two"}, "wrong_type", "tp_size"),
        ({"tp_size": {"a": 1}}, "wrong_type", "tp_size"),
        ({"tp_size": [2]}, "wrong_arity", "tp_size"),
        ({"max_running_requests": "8k"}, "wrong_type", "8000"),
        ({"context_length": "1.5Ki"}, "wrong_type", "1536"),
        ({"mem_fraction_static": "85%"}, "wrong_type", "0.85"),
        ({"mem_fraction_static": "0,85"}, "wrong_type", "0.85"),
        ({"mem_fraction_static": "high"}, "wrong_type", "mem_fraction_static"),
        ({"mem_fraction_static": float("nan")}, "wrong_type", "mem_fraction_static"),
        ({"mem_fraction_static": float("inf")}, "wrong_type", "mem_fraction_static"),
        ({"default_chat_template_kwargs": "{not json"}, "wrong_type", "mapping"),
        ({"default_chat_template_kwargs": 5}, "wrong_type", "mapping"),
        ({"sidecar_args": {"a": 1}}, "wrong_type", "sidecar_args"),
        ({"served_model_name": "a\0b"}, "wrong_type", "take it out"),
        ({"default_chat_template_kwargs": {"a": float("nan")}}, "wrong_type", "plain"),
        # choices
        ({"load_format": "Auto"}, "not_a_choice", "auto"),
        ({"kv_cache_dtype": "fp8"}, "not_a_choice", "fp8_e5m2 or fp8_e4m3"),
        ({"log_requests_level": 9}, "not_a_choice", "0, 1, 2, 3"),
        # arity
        ({"cuda_graph_bs_decode": []}, "wrong_arity", "list"),
        ({"cuda_graph_bs_decode": "1 2 4"}, "wrong_type", "[1, 2, 4]"),
        ({"cuda_graph_bs_decode": [1, None]}, "null", "take it out"),
        ({"cuda_graph_bs_decode": [1, "x"]}, "wrong_type", "cuda_graph_bs_decode"),
        ({"encoder_urls": ["-x"]}, "wrong_type", "take it out"),
        ({"served_model_name": ["a"]}, "wrong_arity", "served_model_name"),
        # switches
        ({"enable_metrics": "yes"}, "flag_with_value", "enable_metrics: true"),
        ({"enable_metrics": 1}, "flag_with_value", "enable_metrics: true"),
        ({"enable_metrics": None}, "null", "leave it out"),
        ({"enable_metrics": [True]}, "flag_with_value", "enable_metrics: true"),
        # not here
        ({"api_key": "x"}, "secret", "secrets"),
        ({"--admin-api-key": "x"}, "secret", "secrets"),
        ({"watermark_config": {"key": "x"}}, "secret", "file"),
        ({"config": "/x.yaml"}, "not_allowed", "arguments"),
        ({"help": True}, "not_allowed", "take it out"),
    ],
)
def test_bad_values(arguments: dict[str, Any], kind: str, cure: str) -> None:
    row = problem(arguments)
    assert row["problem"] == kind
    assert cure in row["cure"]
    assert row["message"] and row["origin"] == "host"
    assert row["option"] in names.key_of(names.spelling_of(next(iter(arguments))))


def test_no_secret_is_ever_repeated() -> None:
    for arguments, extra in (
        ({"api_key": "hunter2"}, []),
        ({"api_key": ["hunter2"]}, []),
        ({"watermark_config": '{"key": "hunter2"}'}, []),
        ({}, ["--api-key", "hunter2"]),
        ({}, ["--api-key=hunter2"]),
        ({}, ["--api-key hunter2"]),
        ({}, ["--admin-api", "hunter2"]),
    ):
        collected = one(arguments, extra=extra)
        assert collected.problems
        assert "hunter2" not in str([row.as_dict() for row in collected.problems]) + str(collected.notes)


def test_secrets_in_the_wrong_place_are_known_for_masking() -> None:
    layers = [Layer("a", {"api-key": "one", "tp_size": 2}), Layer("b", {"--admin-api-key": 22, "api_key": None})]
    words = ["--api-key", "three", "--api-key=four", "--admin-api", "five", "--ssl-keyfile-password six", "--tp", "2"]
    assert misplaced_secrets(layers, words) == ["one", "22", "three", "four", "five", "six"]


def test_the_path_of_the_tls_key_is_no_secret_though_its_option_begins_like_one() -> None:
    assert misplaced_secrets([Layer("a", {"ssl_keyfile": "/etc/key.pem"})], ["--ssl-keyfile", "/etc/key.pem"]) == []
    assert misplaced_secrets([Layer("a", {"ssl_keyfile_p": "six"})], []) == ["six"]


def test_a_switch_that_is_on_by_default_and_has_no_opposite_cannot_be_unset() -> None:
    option = Option("--always", "always", type="bool", default=True, action="store_true")
    schema = Schema("0.5.23", [option])
    (row,) = collect(schema, [Layer("host", {"always": False})]).problems
    assert row.problem == "cannot_unset"


# -- layers --------------------------------------------------------------------------------------------------


def test_later_layers_win_and_every_argument_has_its_origin() -> None:
    layers = [
        Layer("defaults", {"tp_size": 1, "mem_fraction_static": 0.8, "enable_metrics": True}),
        Layer("group", {"tensor_parallel_size": 2, "page_size": 16}),
        Layer("host", {"mem_fraction_static": 0.9}, unset=["page_size"]),
    ]
    collected = collect(shipped(NEW), layers, ["--port", "30001"])
    assert {a.key: (a.value, a.origin) for a in collected.arguments.values()} == {
        "tp_size": (2, "group"),
        "mem_fraction_static": (0.9, "host"),
        "enable_metrics": (True, "defaults"),
        "port": (30001, "extra_args"),
    }


def test_a_switch_is_switched_off_by_a_later_layer() -> None:
    layers = [Layer("defaults", {"enable_metrics": True}), Layer("host", {"enable_metrics": False})]
    assert collect(shipped(NEW), layers).arguments == {}


def test_null_takes_away_in_a_remedy_and_is_an_error_elsewhere() -> None:
    base = Layer("host", {"speculative_algorithm": "EAGLE"})
    collected = collect(shipped(NEW), [base, Layer("remedy", {"speculative_algorithm": None})])
    assert collected.arguments == {} and collected.problems == []
    collected = collect(shipped(NEW), [base, Layer("group", {"speculative_algorithm": None})])
    assert [row.problem for row in collected.problems] == ["null"]


def test_one_option_twice_in_a_layer_is_an_error() -> None:
    assert problem({"tp_size": 2, "--tensor-parallel-size": 4})["problem"] == "duplicate"


def test_unset_of_what_does_not_exist_is_an_error() -> None:
    collected = collect(shipped(NEW), [Layer("host", {}, unset=["tp_sise"])])
    assert [row.problem for row in collected.problems] == ["unknown"]


def test_all_problems_at_once() -> None:
    layers = [Layer("group", {"tp_sise": 1, "kv_canary": False}), Layer("host", {"tp_size": None, "port": "x"})]
    collected = collect(shipped(NEW), layers, ["--nope", "--page-size"])
    assert [(row.option, row.problem, row.origin) for row in collected.problems] == [
        ("tp_sise", "unknown", "group"),
        ("kv_canary", "yaml_trap", "group"),
        ("tp_size", "null", "host"),
        ("port", "wrong_type", "host"),
        ("nope", "unknown", "extra_args"),
        ("page_size", "wrong_arity", "extra_args"),
    ]


# -- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--tp-size", "2"], {"tp_size": 2}),
        (["--tp-size=2"], {"tp_size": 2}),
        (["--chunked-prefill-size", "-1"], {"chunked_prefill_size": -1}),
        (["--enable-metrics", "--tp", "2"], {"enable_metrics": True, "tp_size": 2}),
        (["--cuda-graph-bs-decode", "1", "2", "--port", "1"], {"cuda_graph_bs_decode": [1, 2], "port": 1}),
        (["--lora-paths"], {"lora_paths": []}),
        (["--model-checksum"], {"model_checksum": True}),
        (["--model-checksum", "abc"], {"model_checksum": "abc"}),
        (["--no-dllm-fdfo"], {"dllm_fdfo": False}),
        (["--dllm-fdfo"], {"dllm_fdfo": True}),
        (["--served-model-name", "7"], {"served_model_name": "7"}),
        (["--served-model-name=-x"], {"served_model_name": "-x"}),
        (["--default-chat-template-kwargs", '{"a": 1}'], {"default_chat_template_kwargs": '{"a": 1}'}),
    ],
)
def test_words_are_read_as_argparse_reads_them(words: list[str], found: dict[str, Any]) -> None:
    collected = one({}, extra=words)
    assert [row.as_dict() for row in collected.problems] == []
    assert {a.key: a.value for a in collected.arguments.values()} == found


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["stray"], "stray_value"),
        (["--tp-size", "2", "3"], "stray_value"),
        (["-x"], "stray_value"),
        (["--"], "stray_value"),
        (["--tp-size 2"], "wrong_arity"),
        (["--tp-size"], "wrong_arity"),
        (["--enable-metrics=true"], "flag_with_value"),
        (["--enable-metrics", "true"], "stray_value"),
        (["--tp-size", "x"], "wrong_type"),
        (["--config", "x.yaml"], "not_allowed"),
        (["--kv-canary", "off"], "not_a_choice"),
    ],
)
def test_words_that_are_wrong(words: list[str], kind: str) -> None:
    assert problem({}, extra=words)["problem"] == kind


def test_a_running_command_is_read_leniently() -> None:
    argv = [
        "/v/bin/python",
        "-m",
        "sglang.launch_server",
        "--config",
        "/c.yaml",
        "--tp",
        "2",
        "--gone-option",
        "5",
        "6",
    ]
    argv += ["--enable-metrics", "--api-key", "********", "--mamba-scheduler-strategy", "auto", "--port", "x"]
    collected = parse_argv(shipped(NEW), argv)
    assert collected.problems == []
    assert {a.key for a in collected.arguments.values()} == {
        "config",
        "tp_size",
        "enable_metrics",
        "api_key",
        "mamba_radix_cache_strategy",
    }


def test_numbers_with_a_suffix() -> None:
    assert [values.human_number(v) for v in ("1k", "64Ki", "25.6k", 7, "7", None)] == [1000, 65536, 25600, 7, "7", None]
