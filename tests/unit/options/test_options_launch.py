# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole way, as the module goes it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._options.arguments import Layer
from ansible_collections.llmhost.sglang.plugins.module_utils._options.launch import Request, launch
from ansible_collections.llmhost.sglang.tests.unit.options.options_support import make_venv


def request(arguments: dict[str, Any] | None = None, **more: Any) -> Request:
    more.setdefault("sglang_version", "0.5.23")
    return Request(layers=[Layer("arguments", {"model_path": "org/model", **(arguments or {})})], **more)


def failed(wanted: Request) -> LlmHostError:
    with pytest.raises(LlmHostError) as caught:
        launch(wanted)
    return caught.value


def test_all_that_is_returned() -> None:
    result = launch(request({"tp_size": 2}, gpus=[1, 3], secrets={"api_key": "abcdefgh"}, config_path="/c/x.yaml"))
    assert result["argv"] == [
        *("python3", "-m", "sglang.launch_server", "--config", "/c/x.yaml"),
        *("--model-path", "org/model", "--tp-size", "2"),
    ]
    assert result["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,3"}
    assert 'api-key: "@llmhost-secret:api_key@"' in result["config_file"]
    assert (result["config_path"], result["secrets_used"]) == ("/c/x.yaml", ["api_key"])
    assert result["arguments"] == [
        {"option": "model_path", "value": "org/model", "origin": "arguments"},
        {"option": "tp_size", "value": 2, "origin": "arguments"},
        {"option": "api_key", "value": "********", "origin": "secrets"},
    ]
    assert (result["sglang_version"], result["schema_source"]) == ("0.5.23", "shipped")
    assert result["changes"] == []
    assert "abcdefgh" not in json.dumps(result)


def test_no_secret_no_config() -> None:
    result = launch(request(config_path="/c/x.yaml"))
    assert "--config" not in result["argv"]
    assert (result["config_file"], result["config_path"]) == (None, None)


def test_interpreter_of_the_venv(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    result = launch(request(venv=str(venv)))
    assert result["argv"][0] == f"{venv}/bin/python"
    assert (result["sglang_version"], result["schema_source"]) == ("9.9.1", "venv")
    assert launch(request(venv=str(venv), python="/usr/bin/python3.12"))["argv"][0] == "/usr/bin/python3.12"


def test_check_mode_leaves_no_trace(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    launch(request(venv=str(venv), check_mode=True))
    assert [path.name for path in tmp_path.iterdir()] == ["venv"]
    launch(request(venv=str(tmp_path / "later"), check_mode=True))
    assert failed(request(venv=str(tmp_path / "later"))).reason == "venv_missing"


def test_every_problem_is_reported_at_once() -> None:
    error = failed(
        request(
            {"tp_sise": 2, "tp_size": 3, "page_size": 0},
            extra_args=["--nope"],
            secrets={"api_key": "-x"},
            config_path="/c.yaml",
            gpu_count=2,
            ignore_rules=["nothing"],
        )
    )
    assert error.reason == "arguments_invalid"
    rows = error.details["errors"]
    assert [(row["option"], row["problem"], row.get("rule")) for row in rows] == [
        ("tp_sise", "unknown", None),
        ("nope", "unknown", None),
        ("ignore_rules", "unknown", None),
        ("page_size", "rule", "page_size_positive"),
        ("tp_size", "rule", "gpus_too_few"),
        ("api_key", "wrong_type", None),
    ]
    assert all(row["cure"] and row["message"] and row["origin"] for row in rows)
    assert error.message.startswith("6 arguments are not usable with SGLang 0.5.23: ")
    assert "and 1 more" in error.message
    assert error.details["sglang_version"] == "0.5.23"


def test_a_model_must_be_named() -> None:
    error = failed(Request(sglang_version="0.5.23"))
    assert [(row["option"], row["problem"]) for row in error.details["errors"]] == [("model_path", "missing")]
    error = failed(Request(sglang_version="0.5.23", layers=[Layer("arguments", {"model_path": None})]))
    assert [(row["option"], row["problem"]) for row in error.details["errors"]] == [("model_path", "null")]


def test_neither_venv_nor_version() -> None:
    assert failed(Request()).reason == "venv_missing"


@pytest.mark.parametrize(
    ("gpus", "problem"),
    [
        ([0, 0], "duplicate"),
        ([0, "0"], "duplicate"),
        (["a"], "wrong_type"),
        ([-1], "wrong_type"),
        ([True], "wrong_type"),
        ([{"uuid": "GPU-1"}], "wrong_type"),
        ([None], "wrong_type"),
    ],
)
def test_gpus_that_are_none(gpus: list[Any], problem: str) -> None:
    rows = failed(request(gpus=gpus)).details["errors"]
    assert [(row["option"], row["problem"]) for row in rows] == [("gpus", problem)]


def test_gpus_of_gpu_info() -> None:
    listed = [{"index": "2", "name": "NVIDIA RTX A6000", "uuid": "GPU-1"}, {"index": 5, "name": "NVIDIA RTX A6000"}]
    result = launch(request({"tp_size": 2}, gpus=listed))
    assert result["environment"]["CUDA_VISIBLE_DEVICES"] == "2,5"
    rows = failed(request({"tp_size": 2, "attention_backend": "trtllm_mla"}, gpus=listed)).details["errors"]
    assert [row["rule"] for row in rows] == ["blackwell_backend"]


def test_gpu_count_alone_hides_no_gpu() -> None:
    assert launch(request({"tp_size": 2}, gpu_count=2))["environment"] == {}
    assert [row["rule"] for row in failed(request({"tp_size": 4}, gpu_count=2)).details["errors"]] == ["gpus_too_few"]


def test_model_folder(tmp_path: pathlib.Path) -> None:
    config = {"num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768}
    (tmp_path / "config.json").write_text(json.dumps(config))
    wanted = {"model_path": str(tmp_path), "tp_size": 4, "context_length": 40000}
    rows = failed(request(wanted)).details["errors"]
    assert [row["rule"] for row in rows] == ["heads_by_tp", "context_beyond_model"]
    result = launch(request(wanted, ignore_rules=["heads_by_tp", "context_beyond_model"]))
    assert "4" in result["argv"]
    found = {row["option"]: row["value"] for row in launch(request({"model_path": str(tmp_path)}))["hidden_defaults"]}
    assert found["context_length"] == 32768


@pytest.mark.parametrize("content", ["", "{", "[]", "null", b"\xff\xfe"])
def test_broken_model_config(tmp_path: pathlib.Path, content: str | bytes) -> None:
    (tmp_path / "config.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    error = failed(request({"model_path": str(tmp_path)}))
    assert error.reason == "model_config_unreadable"
    assert error.details["path"] == str(tmp_path / "config.json")


def test_a_model_that_is_not_here_is_noted(tmp_path: pathlib.Path) -> None:
    for path in ("org/model", str(tmp_path / "later"), str(tmp_path)):
        (note,) = launch(request({"model_path": path}))["notes"]
        assert path in note and "not checked" in note


@pytest.mark.parametrize(
    "secrets", [{"api_key": "org"}, {"api_key": "sglang"}, {"api_key": "2"}, {"hf_token": "model"}]
)
def test_a_secret_that_would_mask_something_else_is_refused(secrets: dict[str, str]) -> None:
    """Ansible masks a no_log value wherever it stands in a result, even inside a path."""
    rows = failed(request({"tp_size": 2}, secrets=secrets, config_path="/c/x.yaml")).details["errors"]
    assert [(row["option"], row["problem"]) for row in rows] == [(next(iter(secrets)), "secret_too_common")]


def test_running_command() -> None:
    result = launch(request({"tp_size": 2}, running_argv=["python3", "-m", "sglang.launch_server", "--tp-size", "1"]))
    assert {row["option"] for row in result["changes"]} == {"model_path", "tp_size"}


def test_old_version_takes_its_secret_on_argv_only_when_told(tmp_path: pathlib.Path) -> None:
    wanted = {"sglang_version": "0.4.6.post5", "secrets": {"api_key": "abcdefgh"}}
    rows = failed(request(**wanted)).details["errors"]
    assert [row["problem"] for row in rows] == ["secret_on_argv"]
    result = launch(request(**wanted, allow_secret_in_argv=True))
    assert result["argv"][-2:] == ["--api-key", "@llmhost-secret:api_key@"]
    assert result["command"].endswith("--api-key '********'")
    assert result["config_file"] is None
