# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait before a start, run as systemd runs it: the bare file, another interpreter, nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._server import prestart

SMI = """#!/bin/sh
case "$*" in *--id=0,1*) ;; *) echo "asked for other GPUs: $*"; exit 3;; esac
cat "$(dirname "$0")/answer"
"""


def run(*arguments):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", prestart.__file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode(), time.monotonic() - began


@pytest.fixture
def smi(tmp_path):
    path = tmp_path / "nvidia-smi"
    path.write_text(SMI)
    path.chmod(0o755)
    return path


def gpus(smi, timeout="0"):
    return run("--timeout", timeout, "--gpu", "0", "--gpu=1", "--used-mib", "1000", "--nvidia-smi", str(smi))


def test_nothing_to_wait_for():
    assert run("--timeout", "5")[0] == 0


def test_a_device_that_is_not_there_is_named():
    code, said, _seconds = run("--timeout", "0", "--device", "/dev/null", "--device", "/dev/nowhere0")
    assert code == 1
    assert "/dev/nowhere0" in said and "/dev/null" not in said


def test_a_device_that_comes_in_time(tmp_path):
    node = tmp_path / "node"
    timer = threading.Timer(1.0, node.touch)
    timer.start()
    code, said, seconds = run("--timeout", "20", "--device", str(node))
    timer.join()
    assert (code, said) == (0, "")
    assert seconds > 0.9


@pytest.mark.parametrize(
    ("answer", "code", "word"),
    [
        ("0, 3\n1, 1000\n", 0, ""),
        ("0, 3\n1, 1001\n", 1, "GPU 1: 1001 MiB"),
        ("0, [N/A]\n1, 3\n", 1, "GPU 0: memory in use is [N/A]"),
    ],
)
def test_memory_in_use(smi, answer, code, word):
    (smi.parent / "answer").write_text(answer)
    found, said, _seconds = gpus(smi)
    assert found == code
    assert word in said


def test_memory_that_comes_back(smi):
    (smi.parent / "answer").write_text("0, 70000\n1, 2\n")
    timer = threading.Timer(1.0, lambda: (smi.parent / "answer").write_text("0, 4\n1, 2\n"))
    timer.start()
    assert gpus(smi, "20")[0] == 0
    timer.join()


def test_nvidia_smi_that_fails_or_is_missing_is_not_taken_for_free_memory(smi):
    assert gpus(smi.parent / "none")[0] == 1
    code, said, _seconds = run("--timeout", "0", "--gpu", "7", "--nvidia-smi", str(smi))
    assert code == 1
    assert "ended with 3" in said
