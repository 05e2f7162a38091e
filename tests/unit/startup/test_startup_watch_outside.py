# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch on real processes, with a made-up world beside the log: GPUs, kernel log, stacks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.evidence import (
    Answer,
    Card,
    Holder,
    OomKill,
    Place,
    Start,
)
from startup_support import FakeUnit

STAY = "\ntime.sleep(60)\n"
ROOM = Place("/", "temporary files", 1 << 36, 1 << 37)


class World:
    """Told once what the host says; remembers which start it was made for and what it was asked."""

    def __init__(self, **told: Any) -> None:
        self.told = told
        self.asked: list[str] = []
        self.closed = False
        self.start: Start | None = None

    def __call__(self, start: Start) -> World:
        self.start = start
        return self

    def _answer(self, name: str) -> Answer:
        self.asked.append(name)
        return Answer(self.told.get(name, []))

    def ooms(self) -> Answer:
        return self._answer("ooms")

    def xids(self) -> Answer:
        return self._answer("xids")

    def places(self) -> Answer:
        return self._answer("places")

    def cards(self) -> Answer:
        return self._answer("cards")

    def port(self, number: int) -> Answer:
        return self._answer("port")

    def gpu_mib(self) -> int | None:
        self.asked.append("gpu_mib")
        found = self.told.get("gpu_mib")
        return found() if callable(found) else found

    def stack(self, pid: int) -> Answer:
        self.asked.append("stack %d" % pid)
        return Answer("Thread (idle)\n    wait --api-key sk-abcdefghijkl")

    def state(self, pid: int) -> dict[str, Any]:
        return {"pid": pid, "state": "sleeping"}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    units: list[FakeUnit] = []

    def make(program: str, world: World, **options: Any) -> Any:
        units.append(FakeUnit(tmp_path, program))
        watch = units[-1].watch(**options)
        watch.open_outside = world
        return watch

    yield make
    for one in units:
        one.stop()


def test_a_start_that_succeeds_asks_nobody(start: Any) -> None:
    world = World()
    assert start("args(); load(); serve(); health[0] = 200; fired()" + STAY, world).run().outcome == "ready"
    assert world.asked == [] and world.start is None


def test_a_clear_failure_asks_nobody(start: Any) -> None:
    world = World()
    program = "args(); time.sleep(0.3); line('launch_server.py: error: unrecognized arguments: --x'); sys.exit(2)"
    assert start(program, world).run().cause == "args_unrecognized"
    assert world.asked == []


def test_a_silent_death_is_explained_by_the_kernel(start: Any) -> None:
    world = World(ooms=[OomKill(1, "python", True, "Out of memory: Killed process 1 (python)")], places=[ROOM])
    watch = start("args(); load(); time.sleep(0.5); os.kill(os.getpid(), 9)", world, since=12.5, state_dir="/srv/state")
    pid = watch.state.main_pid
    verdict = watch.run()
    assert (verdict.cause, verdict.detail["cause_by_log"]) == ("host_oom_killed", "scheduler_killed")
    assert world.start is not None and world.closed
    assert (world.start.unit, world.start.since, world.start.state_dir) == ("sglang-a.service", 12.5, "/srv/state")
    assert pid in world.start.pids()
    assert world.start.model_path() == "/models/a" and world.start.ranks() == 1


def test_memory_that_somebody_else_holds(start: Any) -> None:
    world = World(cards=[Card(0, 80000, 70000, (Holder(7, "python", False, 60000),))])
    words = "Not enough memory. Please try to increase --mem-fraction-static."
    program = "args(); load(); time.sleep(0.3)\nraise RuntimeError('%s')" % words
    verdict = start(program, world).run()
    assert verdict.cause == "gpu_occupied" and verdict.detail["holders"][0]["pid"] == 7
    assert verdict.remedies[0]["host_action"] == "gpu_clean"


def test_a_stall_names_the_process_and_shows_its_stack(start: Any) -> None:
    world = World(places=[ROOM])
    watch = start("args(); load()" + STAY, world, stall_s={"kv_cache": 2.0})
    pid = watch.state.main_pid
    verdict = watch.run()
    assert verdict.outcome == "stalled"
    assert verdict.detail["stuck_process"]["pid"] == pid
    assert verdict.detail["stack"].startswith("Thread (idle)") and "sk-abcdefghijkl" not in str(verdict)
    assert verdict.detail["signs_of_life"] == []


def test_growing_gpu_memory_puts_the_stall_off(start: Any) -> None:
    began = time.monotonic()
    grows = World(gpu_mib=lambda: 1000 + int(100 * (time.monotonic() - began)), places=[ROOM])
    watch = start("args(); load()" + STAY, grows, stall_s={"kv_cache": 4.0}, timeout_s=8.0)
    verdict = watch.run()
    assert verdict.outcome == "timeout"
    assert grows.asked.count("gpu_mib") >= 2


def test_gpu_memory_that_is_unknown_puts_nothing_off(start: Any) -> None:
    world = World(gpu_mib=None, places=[ROOM])
    verdict = start("args(); load()" + STAY, world, stall_s={"kv_cache": 2.5}, timeout_s=12.0).run()
    assert verdict.outcome == "stalled"


def test_nobody_gets_ready_to_look_where_there_is_nothing_to_ask(start: Any) -> None:
    world = World(places=[ROOM])
    program = "args(); time.sleep(0.3); line('launch_server.py: error: unrecognized arguments: --x'); sys.exit(2)"
    assert start(program, world).run().cause == "args_unrecognized"
    assert world.start is None
