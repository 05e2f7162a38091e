# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a start that worked: enough to start it again, and no secret."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._options import render
from ansible_collections.llmhost.sglang.plugins.module_utils._server import known_good

SECRET = "hunter2hunter2hunter2"
ARGV = ["/opt/llmhost/runtime/bin/python", "-m", "sglang.launch_server", "--model-path", "/m", "--port", "30000"]


def given(**more: Any) -> dict[str, Any]:
    return {
        "argv": list(ARGV),
        "environment": {"CUDA_VISIBLE_DEVICES": "0", "HF_TOKEN": render.placeholder("hf_token"), "MY_KEY": SECRET},
        "config_file": f'api-key: "{render.placeholder("api_key")}"\n',
        "host": "127.0.0.1",
        "port": 30000,
        "required_paths": ["/m"],
        "arguments": [{"option": "tp_size", "value": 2, "origin": "group"}],
        "sglang_version": "0.5.23",
        "context": {"model": "/m"},
        **more,
    }


@pytest.fixture
def state(tmp_path) -> str:
    os.makedirs(tmp_path / "instances/chat")
    return str(tmp_path)


def keep(state: str, told: dict[str, Any]) -> None:
    # as root the file belongs to root; elsewhere the owner cannot be given
    if os.geteuid() != 0:
        pytest.skip("only root writes files of root")
    known_good.write(state, "chat", told)


def test_it_comes_back_as_it_was_and_root_alone_reads_it(state: str) -> None:
    told = known_good.record(given(), None)
    keep(state, {**told, "recorded_at": "now", "invocation_id": "x"})
    path = known_good.path_of(state, "chat")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    found = known_good.read(state, "chat")
    assert found is not None and found["launch"]["argv"] == ARGV
    assert not known_good.differs(found, told), "when it was recorded is no difference"
    assert known_good.same_launch(found, told)


def test_no_secret_is_in_it() -> None:
    told = known_good.record(given(), None)
    assert SECRET not in json.dumps(told)
    assert told["launch"]["secret_environment"] == ["MY_KEY"]
    assert told["launch"]["environment"]["HF_TOKEN"] == "@llmhost-secret:hf_token@"
    assert "@llmhost-secret:api_key@" in told["launch"]["config_file"]


def test_arguments_with_a_secret_are_not_kept() -> None:
    assert known_good.record(given(argv=[*ARGV, "--api-key", SECRET]), None)["launch"] is None
    waiting = [*ARGV, "--api-key", render.placeholder("api_key")]
    assert known_good.record(given(argv=waiting), None)["launch"]["argv"] == waiting


@pytest.mark.parametrize(
    "change",
    [
        {"argv": [*ARGV, "--x"]},
        {"environment": {}},
        {"config_file": None},
        {"port": 30001},
        {"sglang_version": "0.5.9"},
    ],
)
def test_what_is_another_start_differs(state: str, change: dict[str, Any]) -> None:
    before, after = known_good.record(given(), None), known_good.record(given(**change), None)
    assert known_good.differs(before, after)
    assert known_good.same_launch(before, after) is (list(change) == ["sglang_version"])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}'])
def test_what_cannot_be_read_is_nothing(state: str, text: str) -> None:
    with open(known_good.path_of(state, "chat"), "w", encoding="utf-8") as handle:
        handle.write(text)
    assert known_good.read(state, "chat") is None


def test_there_is_none_before_the_first(state: str) -> None:
    assert known_good.read(state, "chat") is None
    assert known_good.differs(None, known_good.record(given(), None))
    assert not known_good.same_launch(None, known_good.record(given(), None))
