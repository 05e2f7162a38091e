# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server says of itself, against what it was given; and whose process is which."""

from __future__ import annotations

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._process.identity import MASK, Process
from ansible_collections.llmhost.sglang.plugins.module_utils._server import info

REPORTED = {
    "model_path": "/m",
    "tp_size": 2,
    "mem_fraction_static": 0.85,
    "trust_remote_code": False,
    "enable_metrics": True,
    "attention_backend": "flashinfer",
    "cuda_graph_bs": [1, 2, 4],
    "json_model_override_args": '{"a": 1}',
    "api_key": "given",
    "context_length": None,
}


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], []),
        (["python", "-m", "sglang.launch_server", "--model-path", "/m"], []),
        (["--tp", "2", "--mem-fraction-static", "0.850", "--enable-metrics"], []),
        (["--tensor-parallel-size=2"], []),
        (["--tp-size", "4"], [("tp_size", "4", 2)]),
        (["--mem-fraction-static", "0.9"], [("mem_fraction_static", "0.9", 0.85)]),
        (["--trust-remote-code"], [("trust_remote_code", True, False)]),
        (["--cuda-graph-bs", "1", "2", "4"], []),
        (["--cuda-graph-bs", "1", "2"], [("cuda_graph_bs", ["1", "2"], [1, 2, 4])]),
        (["--json-model-override-args", '{"a":1}'], []),
        (["--json-model-override-args", '{"a":2}'], [("json_model_override_args", '{"a":2}', '{"a": 1}')]),
        (["--attention-backend", "triton"], [("attention_backend", "triton", "flashinfer")]),
        (["--context-length", "4096"], [("context_length", "4096", None)]),
        (["--api-key", "another"], [("api_key", MASK, MASK)]),
        (["--no-such-thing", "1"], []),
    ],
)
def test_drift(argv, expected):
    found = [(one["option"], one["rendered"], one["reported"]) for one in info.drift(argv, REPORTED)]
    assert found == expected


def test_secrets_of_a_server_are_masked_and_numbers_are_not():
    said = {
        "api_key": "s3cret",
        "admin_api_key": "s3cret",
        "ssl_keyfile_password": "s3cret",
        "hf_token": "s3cret",
        "max_total_num_tokens": 4096,
        "tokenizer_path": "/m",
        "served": [{"api_key": "s3cret"}],
        "note": "started with --api-key s3cret",
        "none": {"api_key": None},
    }
    found = info.masked(said)
    assert "s3cret" not in repr(found)
    assert found["max_total_num_tokens"] == 4096
    assert found["tokenizer_path"] == "/m"
    assert found["none"]["api_key"] is None


def process(cmdline, pid=20):
    return Process(pid=pid, start_time=1, uid=0, comm="python", cmdline=cmdline, state="S", ppid=1)


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [
        ("/rt/bin/python -m sglang.launch_server --model-path /m", ("launcher", None)),
        ("sglang::scheduler      ", ("scheduler", None)),
        ("sglang::scheduler_TP0  ", ("scheduler", "TP0")),
        ("sglang::scheduler_DP1_TP0", ("scheduler", "DP1_TP0")),
        ("sglang::scheduler_PP0_TP1_EP1", ("scheduler", "PP0_TP1_EP1")),
        ("sglang::detokenizer", ("detokenizer", None)),
        ("sglang::data_parallel_controller", ("data_parallel_controller", None)),
        ("python -B -c from multiprocessing.resource_tracker import main;main(6)", ("resource_tracker", None)),
        ("python -B -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=7)", ("starting", None)),
        ("nvcc -x cu", ("other", None)),
    ],
)
def test_roles(cmdline, expected):
    assert info.role_of(process(cmdline), main_pid=20 if expected[0] == "launcher" else 1) == expected


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('api-key: "a b\\"c"\n', 'a b"c'),
        ("# x\nmodel-path: /m\napi-key: plain\n", "plain"),
        ("api_key: 'quoted'\n", "quoted"),
        ("admin-api-key: other\n", None),
        ("", None),
    ],
)
def test_the_key_of_the_configuration_file(tmp_path, text, key):
    (tmp_path / "config.yaml").write_text(text)
    assert info.configured_key(str(tmp_path / "config.yaml")) == key


def test_no_configuration_file_no_key(tmp_path):
    assert info.configured_key("") is None
    assert info.configured_key(str(tmp_path / "none.yaml")) is None
