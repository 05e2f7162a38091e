# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank that runs a program has a child with its own title for a moment, whose end is no rank's death."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import unit

# A process with a title (its only argument 0), which forks when it is told to and says who the child is.
RANK = """
import os, sys
for line in sys.stdin:
    if line.strip() == "end":
        break
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(1)
    os.close(read)
    print(child, flush=True)
    sys.stdin.readline()
    os.close(write)
    os.waitpid(child, 0)
    print("over", flush=True)
"""


@pytest.fixture
def rank(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    process = subprocess.Popen(
        ["sglang::scheduler_TP0", str(program)],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


def tell(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip() if word != "end" else ""


class Family(unit.Processes):
    """Those processes, without a control group."""

    def __init__(self, pids: list[int]) -> None:
        super().__init__("")
        self.found = pids

    def living(self) -> list[int]:
        return [pid for pid in self.found if os.path.exists("/proc/%d" % pid)]


def test_the_end_of_a_fork_is_no_death_of_its_rank(rank: subprocess.Popen[str]) -> None:
    child = int(tell(rank, "fork"))
    family = Family([rank.pid, child])
    family.look()
    assert list(family.schedulers) == [rank.pid]
    assert tell(rank, "go on") == "over"
    family.look()
    assert family.dead() == {}
    tell(rank, "end")
    deadline = time.monotonic() + 10
    while not family.dead() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(family.gone) == [rank.pid]
    family.close()
