# SPDX-License-Identifier: GPL-3.0-or-later
"""The command, the environment, the configuration file, and the way there and back."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

import pytest
import yaml
from ansible_collections.llmhost.sglang.plugins.module_utils._options import render, values
from ansible_collections.llmhost.sglang.plugins.module_utils._options.arguments import Layer, collect, parse_argv
from ansible_collections.llmhost.sglang.plugins.module_utils._options.model import Option, Schema
from ansible_collections.llmhost.sglang.plugins.module_utils._placeholders import fill, fill_yaml
from ansible_collections.llmhost.sglang.tests.unit.options.options_support import shipped
from hypothesis import given, settings
from hypothesis import strategies as st

NEW, MID, OLD = "0.5.23", "0.5.9", "0.4.6.post5"
PYTHON = "/venv/bin/python"


def argv(arguments: dict[str, Any], version: str = NEW) -> list[str]:
    collected = collect(shipped(version), [Layer("host", arguments)])
    assert [row.as_dict() for row in collected.problems] == []
    return render.argv(PYTHON, collected)


def test_order_does_not_depend_on_how_things_were_written() -> None:
    first = argv({"tp_size": 2, "port": 30000, "model_path": "/m", "enable_metrics": True, "host": "127.0.0.1"})
    second = argv({"enable_metrics": True, "host": "127.0.0.1", "--model": "/m", "port": "30000", "tp-size": 2})
    assert (
        first
        == second
        == [
            *(PYTHON, "-m", "sglang.launch_server"),
            *("--model-path", "/m", "--host", "127.0.0.1", "--port", "30000"),
            *("--enable-metrics", "--tp-size", "2"),
        ]
    )


def test_every_version_gets_its_own_spelling() -> None:
    assert argv({"tp_size": 2}, MID)[3:] == ["--tensor-parallel-size", "2"]
    assert argv({"tp_size": 2}, NEW)[3:] == ["--tp-size", "2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"served_model_name": "-x"}, ["--served-model-name=-x"]),
        ({"served_model_name": ""}, ["--served-model-name", ""]),
        ({"served_model_name": "a b"}, ["--served-model-name", "a b"]),
        ({"chunked_prefill_size": -1}, ["--chunked-prefill-size", "-1"]),
        ({"mem_fraction_static": 1e-05}, ["--mem-fraction-static", "1e-05"]),
        ({"schedule_conservativeness": -1e-05}, ["--schedule-conservativeness=-1e-05"]),
        ({"cuda_graph_bs_decode": [1, 2]}, ["--cuda-graph-bs-decode", "1", "2"]),
        ({"lora_paths": []}, ["--lora-paths"]),
        ({"model_checksum": True}, ["--model-checksum"]),
        ({"model_checksum": False}, []),
        ({"dllm_fdfo": False}, ["--no-dllm-fdfo"]),
        ({"enable_metrics": False}, []),
        (
            {"default_chat_template_kwargs": {"b": 1, "a": "ä"}},
            ["--default-chat-template-kwargs", '{"a": "\\u00e4", "b": 1}'],
        ),
    ],
)
def test_words(arguments: dict[str, Any], words: list[str]) -> None:
    assert argv(arguments)[3:] == words


def test_command_for_people_is_quoted_and_masked() -> None:
    collected = collect(shipped(OLD), [Layer("host", {"model_path": "/my model", "chat_template": "it's"})])
    words = render.argv(PYTHON, collected, None, ["api_key"])
    assert words[-2:] == ["--api-key", "@llmhost-secret:api_key@"]
    text = render.command(words)
    assert "llmhost-secret" not in text
    assert shlex.split(text) == [*words[:-1], render.MASK]


def test_config_is_two_words_and_first() -> None:
    words = render.argv(PYTHON, collect(shipped(NEW), [Layer("host", {"model_path": "/m"})]), "/etc/x.yaml")
    assert words[3:5] == ["--config", "/etc/x.yaml"]


# -- there and back ------------------------------------------------------------------------------------------


def json_list_type(text: str) -> Any:
    return json.loads(text)


def parser_of(schema: Schema) -> argparse.ArgumentParser:
    """What SGLang builds, from the table alone."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    kinds = {"int": int, "float": float, "json_list_type": json_list_type, "json.loads": json.loads}
    for option in schema:
        if option.removed or option.deprecated:
            continue
        keywords: dict[str, Any] = {"dest": option.dest}
        if option.action == "BooleanOptionalAction":
            names = [s for s in option.spellings if not s.startswith("--no-")]
            parser.add_argument(*names, action=argparse.BooleanOptionalAction, default=option.default, **keywords)
            continue
        if option.is_flag:
            parser.add_argument(*option.spellings, action="store_true", default=option.default, **keywords)
            continue
        keywords.update(type=kinds.get(option.type, str), nargs=option.nargs, choices=option.choices)
        if option.nargs == "?":
            keywords["const"] = option.const
        parser.add_argument(*option.spellings, default=option.default, **keywords)
    return parser


PARSERS = {version: parser_of(shipped(version)) for version in (NEW, MID)}
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
PLAIN_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
MODES = [o for o in shipped(NEW) if not (o.removed or o.deprecated)]


def value_of(option: Option) -> st.SearchStrategy[Any]:
    if option.is_flag:
        return st.booleans()
    if option.type == "json_list_type":
        single: st.SearchStrategy[Any] = st.lists(PLAIN_JSON, max_size=2)
    elif values.is_json(option):
        single = st.dictionaries(TEXT, PLAIN_JSON, max_size=3)
    elif option.choices:
        single = st.sampled_from(option.choices)
    elif option.type in ("int", "human_readable_int"):
        single = st.integers(-(2**40), 2**40)
    elif option.type == "float":
        single = st.floats(allow_nan=False, allow_infinity=False)
    else:
        single = TEXT
    if option.is_list:
        items = single.filter(lambda v: not values.text_of(v).startswith("-"))
        return st.lists(items, min_size=1 if option.nargs == "+" else 0, max_size=4)
    if option.nargs == "?":
        return TEXT | st.just(True)
    return single


@st.composite
def arguments_of(draw: st.DrawFn, version: str) -> dict[str, Any]:
    usable = [
        o
        for o in shipped(version)
        if not (
            o.removed
            or o.deprecated
            or o.key in ("config", "api_key", "admin_api_key", "ssl_keyfile_password", "watermark_config")
        )
        and o.action != "LoRAPathAction"
    ]
    chosen = draw(st.lists(st.sampled_from(usable), min_size=1, max_size=6, unique_by=lambda o: o.dest))
    return {option.key: draw(value_of(option)) for option in chosen}


def seen(value: Any) -> Any:
    """How a value looks after argparse: JSON text of a plain option stays text."""
    return json.loads(json.dumps(value, sort_keys=True)) if isinstance(value, (dict, list)) else value


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([NEW, MID]))
def test_argparse_gives_back_what_went_in(data: st.DataObject, version: str) -> None:
    wanted = data.draw(arguments_of(version))
    words = argv(wanted, version)[3:]
    found = vars(PARSERS[version].parse_args(words))
    known = {option.key: option for option in shipped(version)}
    for key, value in wanted.items():
        option = known[key]
        have = found[option.dest]
        if option.is_flag:
            assert have == (value or (False if option.negation else option.default)), key
        elif option.nargs == "?" and value is True:
            assert have == option.const, key
        elif isinstance(value, dict) and not option.type.startswith("json"):
            assert json.loads(have) == seen(value), key
        elif option.type == "human_readable_int":
            assert int(have) == value, key
        else:
            assert have == seen(value), (key, words)
    untouched = {option.dest for option in known.values()} - {known[key].dest for key in wanted}
    for option in known.values():
        if option.dest in untouched and option.dest in found:
            assert found[option.dest] == option.default or option.deprecated or option.removed, option.name


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_our_own_reader_gives_back_the_same_command(data: st.DataObject) -> None:
    words = argv(data.draw(arguments_of(NEW)))
    assert render.argv(PYTHON, parse_argv(shipped(NEW), words)) == words


# -- secrets -------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30), st.text(min_size=1, max_size=5))
def test_yaml_gives_back_every_secret(key: str, other: str) -> None:
    secrets = {"api_key": key, "admin_api_key": other.encode("utf-8", "replace").decode()}
    text = render.config_file(sorted(secrets))
    assert text is not None
    assert yaml.safe_load(text) == {
        "api-key": "@llmhost-secret:api_key@",
        "admin-api-key": "@llmhost-secret:admin_api_key@",
    }
    filled = fill_yaml(text, secrets, "config_file")
    assert filled.isascii()
    assert yaml.safe_load(filled) == {"api-key": key, "admin-api-key": secrets["admin_api_key"]}


def test_a_secret_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    text = render.config_file(["admin_api_key", "api_key"]) or ""
    secrets = {"api_key": "@llmhost-secret:admin_api_key@", "admin_api_key": '"@llmhost-secret:api_key@"'}
    assert yaml.safe_load(fill_yaml(text, secrets, "config_file")) == {
        "api-key": secrets["api_key"],
        "admin-api-key": secrets["admin_api_key"],
    }


def test_no_secret_no_file() -> None:
    assert render.config_file([]) is None


def test_environment() -> None:
    assert render.environment(None, {}) == {}
    assert render.environment([2, 3], {"hf_token": "hf_x", "api_key": "k"}) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "2,3",
        "HF_TOKEN": "@llmhost-secret:hf_token@",
    }
    assert render.environment([], {})["CUDA_VISIBLE_DEVICES"] == ""
    assert fill("@llmhost-secret:hf_token@", {"hf_token": "hf_x"}, "environment") == "hf_x"


@pytest.mark.parametrize(
    ("version", "secrets", "path", "allow", "kinds"),
    [
        (NEW, {"api_key": "abcdefgh"}, "/etc/x.yaml", False, []),
        (NEW, {"api_key": "abcdefgh", "hf_token": "hf_x"}, "/etc/x.yml", False, []),
        (NEW, {"api_key": "abcdefgh"}, None, False, ["no_config_path"]),
        (NEW, {"api_key": "abcdefgh"}, "/etc/x.conf", False, ["wrong_type"]),
        (NEW, {"api_key": ""}, "/etc/x.yaml", False, ["wrong_type"]),
        (NEW, {"api_key": 7}, "/etc/x.yaml", False, ["wrong_type"]),
        (NEW, {"api_key": "-abc"}, "/etc/x.yaml", False, ["wrong_type"]),
        (NEW, {"api_key": "a\0b"}, "/etc/x.yaml", False, ["wrong_type"]),
        (NEW, {"hf_token": "a\nb"}, None, False, ["wrong_type"]),
        (NEW, {"hf_token": " "}, None, False, ["wrong_type"]),
        (NEW, {"tls": "x"}, "/etc/x.yaml", False, ["unknown"]),
        (OLD, {"admin_api_key": "x"}, "/etc/x.yaml", True, ["unknown"]),
        (OLD, {"api_key": "abcdefgh"}, "/etc/x.yaml", False, ["secret_on_argv"]),
        (OLD, {"api_key": "abcdefgh"}, None, True, []),
        (OLD, {"hf_token": "hf_x"}, None, False, []),
    ],
)
def test_what_is_wrong_with_secrets(
    version: str, secrets: dict[str, Any], path: str | None, allow: bool, kinds: list[str]
) -> None:
    found = render.secret_problems(shipped(version), secrets, path, allow)
    assert [row.problem for row in found] == kinds
    for value in secrets.values():
        if len(str(value)) > 3:
            assert str(value) not in str([row.as_dict() for row in found])


# -- changes -------------------------------------------------------------------------------------------------


def test_changes_against_what_runs() -> None:
    running = [PYTHON, "-m", "sglang.launch_server", "--config", "/c.yaml", "--model-path", "/m", "--tp", "1"]
    running += ["--page-size", "16", "--enable-metrics", "--api-key", "x", "--mem-fraction-static", "0.850"]
    wanted = {"model_path": "/m", "tp_size": 2, "mem_fraction_static": 0.85, "port": 30000}
    collected = collect(shipped(NEW), [Layer("host", wanted)])
    assert render.changes(shipped(NEW), running, collected) == [
        {"option": "enable_metrics", "before": True, "after": None, "origin": None},
        {"option": "page_size", "before": 16, "after": None, "origin": None},
        {"option": "port", "before": None, "after": 30000, "origin": "host"},
        {"option": "tp_size", "before": 1, "after": 2, "origin": "host"},
    ]
    assert render.changes(shipped(NEW), render.argv(PYTHON, collected), collected) == []
