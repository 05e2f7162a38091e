# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs of life of a silent start, and the process that is stuck."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.analysis import Analysis
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.evidence import Answer
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.life import Life, culprit, stuck

LIMIT = 600.0


class Processes:
    def __init__(self) -> None:
        self.schedulers = {70: "sglang::scheduler_TP0", 71: "sglang::scheduler_TP1", 72: "sglang::detokenizer"}
        self.cpu = 100.0
        self.compilers = False

    def cpu_seconds(self) -> float:
        return self.cpu

    def compiling(self) -> bool:
        return self.compilers


class Gpu:
    """Memory by the second of the silence; counts how often it is asked."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.now = 0.0
        self.asked = 0

    def __call__(self) -> int | None:
        self.asked += 1
        found: int | None = self.memory(self.now)
        return found


def silence(life: Life, gpu: Gpu, seconds: int) -> list[str]:
    for second in range(seconds + 1):
        gpu.now = float(second)
        life.look(1000.0 + second, float(second), LIMIT)
    return life.signs(1000.0 + seconds, float(seconds))


def test_silence_without_anything_is_no_life() -> None:
    gpu = Gpu(lambda now: 5000)
    assert silence(Life(Processes(), gpu), gpu, 600) == []


def test_processor_time_counts_from_the_last_output_on() -> None:
    processes, gpu = Processes(), Gpu(lambda now: None)
    life = Life(processes, gpu)
    assert silence(life, gpu, 100) == []  # the 100 s that it took before do not count
    processes.cpu += 5
    assert life.signs(1100.0, 100.0) == ["processor time"]
    life.heard()
    life.look(1101.0, 0.0, LIMIT)
    assert life.signs(1101.0, 1.0) == []


def test_compilers_count() -> None:
    processes, gpu = Processes(), Gpu(lambda now: None)
    processes.compilers = True
    assert silence(Life(processes, gpu), gpu, 10) == ["compilers"]


def test_growing_gpu_memory_counts_until_it_stands_still() -> None:
    gpu = Gpu(lambda now: 1000 + 10 * int(min(now, 400)))
    life = Life(Processes(), gpu)
    assert silence(life, gpu, 400)[0].startswith("GPU memory grew by ")
    assert silence(life, gpu, 600) == []  # it stood still from 400 s on


@pytest.mark.parametrize("memory", [lambda now: None, lambda now: 5000 - int(now), lambda now: 5000 + int(now) % 15])
def test_unknown_shrinking_and_rounding_are_no_growth(memory: Any) -> None:
    gpu = Gpu(memory)
    assert silence(Life(Processes(), gpu), gpu, 600) == []


def test_gpus_are_looked_at_rarely_and_only_in_silence() -> None:
    gpu = Gpu(lambda now: 5000)
    life = Life(Processes(), gpu)
    silence(life, gpu, 39)
    assert gpu.asked == 0
    silence(life, gpu, 599)
    assert 25 <= gpu.asked <= 29


def test_the_rank_that_lags_names_the_process() -> None:
    processes = Processes()
    assert culprit(processes.schedulers, ["TP1"], 7) == (71, "sglang::scheduler_TP1")
    assert culprit({5: "sglang::scheduler_DP1_TP0", 6: "sglang::scheduler_DP0_TP0"}, ["DP1 TP0"], 7)[0] == 5
    assert culprit({5: "sglang::scheduler_TP10", 6: "sglang::scheduler_TP1"}, ["TP1"], 7)[0] == 6
    assert culprit({72: "sglang::detokenizer", 80: "sglang::scheduler"}, [], 7) == (80, "sglang::scheduler")
    assert culprit({}, [], 7) == (7, "launcher")


class World:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def state(self, pid: int) -> dict[str, Any]:
        return {"pid": pid, "state": "sleeping", "waits_in": "futex_wait"}

    def stack(self, pid: int) -> Answer:
        return self.answer


def loading() -> Analysis:
    analysis = Analysis()
    analysis.feed(
        b"[2026-01-01 10:00:00 TP0] Load weight begin. avail mem=9.0 GB\n"
        b"[2026-01-01 10:00:00 TP1] Load weight begin. avail mem=9.0 GB\n"
        b"[2026-01-01 10:00:09 TP0] Load weight end. type=A, avail mem=5.0 GB\n"
    )
    return analysis


def test_a_stall_tells_rank_phase_and_stack() -> None:
    found = stuck(loading(), Processes(), 7, World(Answer("Thread 71 (idle)\n    wait hf_abcdefghijkl")))
    assert found["ranks"] == {"TP0": "kv_cache", "TP1": "load_weights"}
    assert found["stuck_process"] == {
        "pid": 71,
        "title": "sglang::scheduler_TP1",
        "state": "sleeping",
        "waits_in": "futex_wait",
    }
    assert found["stack"].startswith("Thread 71") and "hf_abcdefghijkl" not in found["stack"]


def test_a_stack_that_cannot_be_had_says_why() -> None:
    found = stuck(loading(), Processes(), 7, World(Answer(None, "py-spy is not installed.")))
    assert found["stack_missing"] == "py-spy is not installed." and "stack" not in found
    assert "stuck_process" in stuck(loading(), Processes(), 7, None)


def test_a_stack_has_an_end() -> None:
    assert len(stuck(loading(), Processes(), 7, World(Answer("x y\n" * 100_000)))["stack"]) < 20_000
