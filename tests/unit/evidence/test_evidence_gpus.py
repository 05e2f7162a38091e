# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence from the simulated driver, through its own nvidia-smi: who holds a card, Xids, memory that grows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nvml_sim_support import Sim

CODE = """
import json, sys
from ansible_collections.llmhost.sglang.plugins.module_utils._evidence.gather import Host
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.evidence import Start, weigh
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.verdict import Verdict
host = Host(Start("sglang-a.service", main_pid=%(main)d, since=%(since)s, pids=lambda: {%(own)s}))
before = Verdict("failed", "%(cause)s", "kv_cache", "It failed.")
found = weigh(before, host)
print(json.dumps([found.cause, found.message, found.evidence.get("outside"), found.detail, host.gpu_mib()]))
"""


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    return Sim(tmp_path)


@pytest.fixture
def sleepers() -> Iterator[list[int]]:
    """Two processes; the first is the server's, and may use card 1 alone."""
    children = [subprocess.Popen(["sleep", "120"], env={"CUDA_VISIBLE_DEVICES": "1", "HOME": "/"}) for _ in range(2)]
    yield [child.pid for child in children]
    for child in children:
        child.kill()
        child.wait()


def ask(sim: Sim, cause: str, own: int, since: str = "None") -> list[Any]:
    found: list[Any] = json.loads(sim.python(CODE % {"main": own, "own": own, "cause": cause, "since": since}))
    return found


def test_somebody_else_on_the_servers_card_decides(sim: Sim, sleepers: list[int]) -> None:
    own, other = sleepers
    sim.write(f"gpu 0\ngpu 1\nproc gpu=1 pid={own} mem=20000\nproc gpu=1 pid={other} mem=30000")
    cause, message, outside, detail, mib = ask(sim, "kv_cache_no_memory", own)
    assert cause == "gpu_occupied" and f"sleep (pid {other}) holds 29.3 of 79.6 GiB of GPU 1" in message
    assert [(row["rule"], row["effect"]) for row in outside] == [("gpu_held", "decides")]
    assert [one["pid"] for one in detail["holders"]] == [other]
    assert mib == 20000


def test_somebody_else_on_another_card_does_not(sim: Sim, sleepers: list[int]) -> None:
    own, other = sleepers
    sim.write(f"gpu 0\ngpu 1\nproc gpu=1 pid={own} mem=20000\nproc gpu=0 pid={other} mem=30000")
    cause, _message, outside, _detail, _mib = ask(sim, "kv_cache_no_memory", own)
    assert (cause, outside) == ("kv_cache_no_memory", None)


def test_a_driver_that_fails_is_unknown_and_not_a_free_card(sim: Sim, sleepers: list[int]) -> None:
    sim.write("gpu 0\nerr nvmlInit 9")
    cause, _message, outside, _detail, mib = ask(sim, "oom_load_weights", sleepers[0])
    assert (cause, mib) == ("oom_load_weights", None)
    assert [(row["source"], row["effect"]) for row in outside] == [("gpu", "unknown")]


def test_an_xid_of_this_start_decides_and_an_earlier_one_does_not(sim: Sim, sleepers: list[int]) -> None:
    sim.write("gpu 0\ngpu 1\nxid 1 79 pid=7, GPU has fallen off the bus.")  # at 101 s
    cause, message, _outside, _detail, _mib = ask(sim, "nccl_error", sleepers[0], since="100.5")
    assert cause == "gpu_fault" and "Xid 79" in message
    assert ask(sim, "nccl_error", sleepers[0], since="200.0")[0] == "nccl_error"
