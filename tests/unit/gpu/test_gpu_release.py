# SPDX-License-Identifier: GPL-3.0-or-later
"""The release step by step: what the reported cases leave open."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import lock, model
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.model import COMPUTE, GRAPHICS, MPS, Entry, MigDevice
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.policy import Scope
from gpu_world_support import IGNORE, World, clean

HOST = Scope()
CT = Scope(vmid=129)
UNIT = "/system.slice/sglang-a.service"


def test_a_holder_that_the_driver_does_not_list_is_stopped(tmp_path: Path) -> None:
    world = World(cards=2)
    hidden = world.add("sglang::schedul", "sglang::scheduler_TP0", files=("/dev/nvidia0",))
    elsewhere = world.add("sglang::schedul", "sglang::scheduler_TP0", files=("/dev/nvidia1",))
    foreign = world.add("python3", "python3 train.py", files=("/dev/nvidia0",))
    found = clean(world, tmp_path, gpus=("0",))
    assert found.reason is None and not hidden.alive
    assert elsewhere.alive and foreign.alive and world.got(foreign) == []


def test_a_list_that_is_refused_is_not_empty(tmp_path: Path) -> None:
    world = World()
    world.card().entries_refused = True
    found = clean(world, tmp_path)
    assert found.reason == "clients_unknown" and world.signals == []


def test_a_lost_gpu_fails_at_the_end_and_the_others_are_cleaned(tmp_path: Path) -> None:
    world = World(cards=2)
    world.card(1).lost = True
    mine = world.scheduler(0)
    found = clean(world, tmp_path)
    assert found.reason == "gpu_lost" and not mine.alive and found.changed
    assert found.result["gpus"][0]["problem"] is None and "Xid 79" in found.result["gpus"][1]["problem"]


def test_a_driver_that_fails_midway_is_not_clean(tmp_path: Path) -> None:
    world = World()
    world.card().release_s = 10.0
    world.scheduler()
    world.at(3.0, lambda: setattr(world.card(), "lost", True))
    found = clean(world, tmp_path)
    assert found.reason is not None
    world = World()
    world.card().release_s = 10.0
    world.scheduler()
    world.at(3.0, lambda: setattr(world.card(), "no_memory", True))
    assert clean(world, tmp_path).reason == "memory_unknown"


def test_a_named_unit_is_stopped_before_its_processes(tmp_path: Path) -> None:
    world = World()
    world.active_units = {"sglang-a.service"}
    launcher = world.launcher(cgroup=UNIT, health="http://127.0.0.1:30000/health")
    scheduler = world.scheduler(ppid=launcher.pid, cgroup=UNIT)
    assert clean(world, tmp_path).reason == "blocked" and world.stopped == []
    scope = replace(HOST, units=frozenset({"sglang-a.service"}))
    plan = clean(world, tmp_path, scope=scope, check=True)
    assert plan.result["stopped_units"] == ["sglang-a.service"] and world.stopped == []
    found = clean(world, tmp_path, scope=scope)
    assert found.reason is None and found.changed and world.stopped == ["sglang-a.service"]
    assert world.signals == [] and not scheduler.alive


def test_a_unit_that_does_not_stop_is_told(tmp_path: Path) -> None:
    world = World()
    world.active_units = {"sglang-a.service"}
    mine = world.scheduler(cgroup=UNIT)
    world.stop_fails = True
    found = clean(world, tmp_path, scope=replace(HOST, units=frozenset({"sglang-a.service"})))
    assert found.reason == "unit_stop_failed" and world.signals == [] and mine.alive


def test_a_named_unit_that_uses_no_gpu_is_left(tmp_path: Path) -> None:
    world = World()
    world.active_units = {"sglang-a.service"}
    world.launcher(cgroup=UNIT)
    found = clean(world, tmp_path, scope=replace(HOST, units=frozenset({"sglang-a.service"})))
    assert found.reason is None and not found.changed and world.stopped == []


def test_leftovers_of_a_failed_unit_are_stale(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler(cgroup=UNIT)
    assert clean(world, tmp_path).reason is None and not mine.alive


def test_a_live_server_is_somebodys(tmp_path: Path) -> None:
    def server() -> tuple[World, list]:
        world = World()
        launcher = world.launcher(health="http://127.0.0.1:30000/health")
        return world, [launcher, world.scheduler(ppid=launcher.pid)]

    world, procs = server()
    found = clean(world, tmp_path)
    assert found.reason == "blocked" and "/health answers" in found.message and world.signals == []
    assert all(proc.alive for proc in procs)
    for scope in (replace(HOST, match=(re.compile(r"sglang\.launch_server"),)), replace(HOST, force=True)):
        world, procs = server()
        assert clean(world, tmp_path, scope=scope).reason is None
        assert not any(proc.alive for proc in procs)


@pytest.mark.parametrize(("age", "reason"), [(5.0, "blocked"), (1799.0, "blocked"), (1801.0, None)])
def test_a_start_that_somebody_made_is_left_to_end(age: float, reason: str | None, tmp_path: Path) -> None:
    def server() -> tuple[World, list]:
        world = World()
        launcher = world.launcher(age=age)  # no port yet
        return world, [launcher, world.scheduler(ppid=launcher.pid)]

    world, procs = server()
    found = clean(world, tmp_path)
    assert found.reason == reason and any(proc.alive for proc in procs) == (reason is not None)
    if reason:
        assert f"{age:.0f} s old" in found.message and "'match'" in found.message and world.signals == []
    for scope in (replace(HOST, match=(re.compile(r"sglang\.launch_server"),)), replace(HOST, force=True)):
        world, procs = server()
        assert clean(world, tmp_path, scope=scope).reason is None and not any(proc.alive for proc in procs)


def test_orphans_of_a_young_start_are_stale(tmp_path: Path) -> None:
    world = World()
    orphan = world.scheduler(age=5.0)  # its launcher is gone: nobody waits for it
    assert clean(world, tmp_path).reason is None and not orphan.alive
    world = World()
    launcher = world.launcher(age=5.0, cgroup=UNIT)  # of a unit that is no longer active: nobody's hand
    world.scheduler(ppid=launcher.pid, cgroup=UNIT)
    assert clean(world, tmp_path).reason is None and not launcher.alive
    world = World()
    launcher = world.launcher(age=5.0)
    dead = world.scheduler(ppid=launcher.pid, reaped=False)
    world.exit(dead)  # and one whose scheduler died will never be ready
    assert clean(world, tmp_path).reason is None and not launcher.alive


def test_the_launcher_is_told_first_and_drains(tmp_path: Path) -> None:
    world = World()
    launcher = world.launcher()
    child = world.scheduler(ppid=launcher.pid)
    launcher.on_term = lambda: world.at(6.0, lambda: (world.exit(child), world.exit(launcher)))
    found = clean(world, tmp_path, grace_s=30)
    assert found.reason is None
    assert world.got(launcher) == ["SIGTERM"] and world.got(child) == []


def test_children_of_a_launcher_that_ends_alone_are_told_at_once(tmp_path: Path) -> None:
    world = World()
    launcher = world.launcher()
    child = world.scheduler(ppid=launcher.pid)
    found = clean(world, tmp_path, grace_s=30)
    assert found.reason is None and not child.alive
    assert world.got(child) == ["SIGTERM"] and found.seconds < 3


def test_a_launcher_that_ignores_it_takes_its_children_along_before_the_grace_is_over(tmp_path: Path) -> None:
    world = World()
    launcher = world.launcher(on_term=IGNORE)
    child = world.scheduler(ppid=launcher.pid)
    found = clean(world, tmp_path, grace_s=30)
    assert found.reason is None
    assert world.got(child) == ["SIGTERM"] and world.got(launcher) == ["SIGTERM", "SIGKILL"]
    times = {proc: when for when, proc, number in world.signals if number.name == "SIGTERM"}
    assert 19 < times[child] - times[launcher] < 22


SPAWN = "/srv/v/bin/python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"
OURS = "/opt/llmhost/runtimes/0.5.23-abcd1234/bin/python -c from multiprocessing.spawn import spawn_main"


def test_untitled_children_are_known_by_their_relatives(tmp_path: Path) -> None:
    world = World()
    launcher = world.launcher()
    child = world.add("python", SPAWN, gpu=0, mib=500, ppid=launcher.pid)
    tracker = world.add("python", "python -c from multiprocessing.resource_tracker import main", ppid=launcher.pid)
    found = clean(world, tmp_path)
    assert found.reason is None and not child.alive and not tracker.alive and not launcher.alive


def test_untitled_orphans_are_known_by_their_group_or_their_runtime(tmp_path: Path) -> None:
    world = World()
    alone = world.add("python", SPAWN, gpu=0, mib=500)
    assert clean(world, tmp_path).reason == "blocked" and alone.alive
    world.add("sglang::detoken", "sglang::detokenizer", group=alone.group)
    assert clean(world, tmp_path).reason is None and not alone.alive
    world = World()
    mine = world.add("python", OURS, gpu=0, mib=500)
    assert clean(world, tmp_path).reason is None and not mine.alive


def test_an_untitled_child_of_somebody_else_is_foreign(tmp_path: Path) -> None:
    world = World()
    train = world.add("python3", "python3 train.py", group=(70, 70))
    child = world.add("python3", SPAWN, gpu=0, mib=500, ppid=train.pid, group=(70, 70))
    world.scheduler(mib=10, group=(70, 70))  # even in the same group
    assert clean(world, tmp_path).reason == "blocked" and child.alive


def test_one_container_of_two_on_the_same_card(tmp_path: Path) -> None:
    def two() -> tuple[World, list]:
        world = World()
        orphan = world.scheduler(mib=30000, cgroup="/lxc/129/ns/.lxc", uid=100000)
        other = world.scheduler(mib=20000, cgroup="/lxc/130/ns/system.slice/sglang-b.service", uid=100000)
        return world, [orphan, other]

    world, (orphan, other) = two()
    found = clean(world, tmp_path, scope=CT)
    assert found.reason == "blocked" and "lxc 130" in found.message and orphan.alive and world.signals == []
    found = clean(world, tmp_path, scope=replace(CT, exclude_vmids=frozenset({130})))
    assert found.reason is None and not orphan.alive and other.alive and world.got(other) == []
    row = found.result["gpus"][0]
    assert (row["before_mib"], row["after_mib"], row["baseline_mib"]) == (50004, 20004, 20000)


def test_a_unit_inside_the_container_is_named_with_the_vmid(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler(cgroup="/lxc/129/ns" + UNIT)
    assert clean(world, tmp_path, scope=CT).reason == "blocked"
    found = clean(world, tmp_path, scope=replace(CT, units=frozenset({"sglang-a.service"})))
    assert found.reason is None and not mine.alive and world.stopped == []


def test_one_mig_device_of_a_card(tmp_path: Path) -> None:
    world = World()
    size = model.memory(9728, 0, 9728, 0)
    world.card().migs = tuple(MigDevice(n, f"MIG-{n}aaaaaaa-bbbb", n + 3, 0, size) for n in range(2))
    mine = world.scheduler(mib=5000, instance=3)
    other = world.add("python3", "python3 train.py", gpu=0, mib=4000, instance=4)
    found = clean(world, tmp_path, gpus=("MIG-0aaaaaaa-bbbb",))
    assert found.reason is None and not mine.alive and other.alive
    assert found.result["gpus"][0]["uuid"] == "MIG-0aaaaaaa-bbbb" and found.result["gpus"][0]["after_mib"] == 0
    assert clean(world, tmp_path, gpus=("0",)).reason == "blocked"


def test_a_lock_that_is_held_is_waited_for_and_then_named(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler()
    with lock.hold([world.uuid(0)], 1, world.now, world.sleep, str(tmp_path / "locks")):
        found = clean(world, tmp_path, timeout_s=5)
        assert found.reason == "locked" and mine.alive and found.seconds >= 5
        assert clean(world, tmp_path, check=True).reason is None  # a plan disturbs nobody
    assert clean(world, tmp_path).reason is None


def test_a_baseline_of_the_task_is_what_counts(tmp_path: Path) -> None:
    world = World()
    world.card().orphan = 3000
    assert clean(world, tmp_path, timeout_s=5).reason == "above_baseline"
    found = clean(world, tmp_path, baseline_mib=3000)
    assert found.reason is None and found.result["gpus"][0]["baseline_from"] == "the task"
    assert clean(world, tmp_path, baseline_mib=2930, timeout_s=5).reason == "above_baseline"


def test_a_tolerated_client_of_unknown_size(tmp_path: Path) -> None:
    world = World()
    world.add("Xorg", gpu=0, mib=None, kinds=(GRAPHICS,))
    world.card().orphan = 400  # what it holds, and nobody says so
    found = clean(world, tmp_path)
    assert found.reason == "baseline_unknown" and "'baseline'" in found.message
    mine = world.scheduler(mib=9000)
    found = clean(world, tmp_path)
    assert found.reason is None and not mine.alive and found.result["gpus"][0]["baseline_mib"] == 404


def test_a_desktop_may_grow_while_it_is_waited(tmp_path: Path) -> None:
    world = World()
    desktop = world.add("Xorg", gpu=0, mib=200, kinds=(GRAPHICS,))
    mine = world.scheduler()
    mine.on_exit = lambda: desktop.memory.update({world.uuid(0): 700})
    assert clean(world, tmp_path).reason is None


def test_a_process_that_ends_while_it_is_looked_at_is_looked_at_again(tmp_path: Path) -> None:
    world = World()
    world.card().extra = [Entry(4242, (COMPUTE,), 100)]
    world.at(0.1, lambda: setattr(world.card(), "extra", []))
    found = clean(world, tmp_path)
    assert found.reason is None and found.result["unknown"] == []


def test_an_inherited_user_change_spares_a_process(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler(on_term=IGNORE)
    world.at(1.0, lambda: setattr(mine, "uid", 33))
    found = clean(world, tmp_path, grace_s=3, timeout_s=5)
    assert found.reason == "unkillable" and world.got(mine) == ["SIGTERM"]
    assert any("user changed" in action["outcome"] for action in found.result["actions"])


def test_what_becomes_protected_is_spared(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler(on_term=IGNORE)
    world.at(1.0, lambda: (setattr(mine, "comm", "sshd"), setattr(mine, "cmdline", "sshd: x")))
    clean(world, tmp_path, grace_s=3, timeout_s=5)
    assert world.got(mine) == ["SIGTERM"]


def test_unknown_rights_of_a_signal(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler(uid=1000)
    world.euid_ = 1000
    world.at(0.01, lambda: setattr(mine, "uid", 1000))
    real = world.signal
    world.signal = lambda proc, number: (_ for _ in ()).throw(PermissionError(1, "no"))  # type: ignore[method-assign]
    found = clean(world, tmp_path, scope=Scope(euid=1000))
    assert found.reason == "not_permitted" and found.result["actions"][0]["outcome"] == "not permitted"
    world.signal = real  # type: ignore[method-assign]


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_so_many_samples_in_a_row(samples: int, tmp_path: Path) -> None:
    world = World()
    world.scheduler()
    world.card().release_s = 1.0
    flicker = [0.0]

    def up() -> None:
        world.card().orphan = 500
        flicker[0] = world.time
        world.at(0.4, lambda: setattr(world.card(), "orphan", 0))

    world.at(1.2, up)
    found = clean(world, tmp_path, settle_samples=samples)
    assert found.reason is None and found.result["gpus"][0]["after_mib"] <= 64


def test_a_target_that_the_driver_still_lists_is_waited_for(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler()

    def gone() -> None:
        world.card().extra = [Entry(mine.pid, (COMPUTE,), 0)]
        world.at(5.0, lambda: setattr(world.card(), "extra", []))

    mine.on_exit = gone
    found = clean(world, tmp_path)
    assert found.reason is None and found.seconds >= 5.0
    world = World()
    other = world.scheduler()
    other.on_exit = lambda: setattr(world.card(), "extra", [Entry(other.pid, (COMPUTE,), 0)])
    assert clean(world, tmp_path, timeout_s=10).reason == "leaked_context"


def test_an_orphan_of_the_same_group_on_another_card_is_left(tmp_path: Path) -> None:
    world = World(cards=2)
    mine = world.scheduler(0, group=(70, 70))
    other = world.scheduler(1, group=(70, 70))
    found = clean(world, tmp_path, gpus=("0",))
    assert found.reason is None and not mine.alive and other.alive and world.got(other) == []


def test_a_server_over_two_cards_goes_as_one(tmp_path: Path) -> None:
    world = World(cards=2)
    launcher = world.launcher()
    ranks = [world.scheduler(gpu, 1000, f"_TP{gpu}", ppid=launcher.pid) for gpu in range(2)]
    found = clean(world, tmp_path, gpus=("0",))
    assert found.reason is None and not launcher.alive and not any(rank.alive for rank in ranks)


def test_a_tolerated_client_that_ends_takes_its_part_of_the_baseline_along(tmp_path: Path) -> None:
    world = World()
    neighbour = world.add("python3", "python3 x.py", gpu=0, mib=4000, cgroup="/system.slice/x.service")
    world.card().orphan = 3000  # hidden below the neighbour's part, were that kept
    world.at(1.0, lambda: world.exit(neighbour))
    world.scheduler(mib=100)
    scope = replace(HOST, exclude_units=frozenset({"x.service"}))
    assert clean(world, tmp_path, scope=scope, timeout_s=20).reason == "above_baseline"


def served(world: World, **more: Any) -> Any:
    """A stale scheduler that computes through MPS."""
    world.mps = "4711\n"
    return world.scheduler(kinds=(MPS,), **more)


def test_a_client_of_mps_that_nobody_there_serves_gets_no_signal(tmp_path: Path) -> None:
    world = World()
    mine = served(world)
    world.mps = ""  # a control daemon without a server
    found = clean(world, tmp_path)
    assert found.reason == "mps_in_use" and "no MPS server knows it" in found.message
    assert world.signals == [] and mine.alive and not found.changed


def test_a_client_that_mps_let_go_of_is_a_process_as_any_other(tmp_path: Path) -> None:
    world = World()
    mine = served(world, mib=20000, on_term=IGNORE)
    other = served(world, mib=20000, cgroup="/system.slice/other.service")
    world.active_units = {"other.service"}
    scope = replace(HOST, exclude_units=frozenset({"other.service"}))
    found = clean(world, tmp_path, scope=scope, grace_s=3)
    assert found.reason is None and not mine.alive
    outcomes = [(action["signal"], action["outcome"]) for action in found.result["actions"]]
    assert outcomes == [("mps terminate_client", "drained"), ("SIGTERM", "still running"), ("SIGKILL", "exited")]
    assert other.alive and not other.drained and world.got(other) == []


def test_a_client_that_mps_keeps_gets_no_signal(tmp_path: Path) -> None:
    world = World()
    mine, plain = served(world, on_mps="held"), world.scheduler(mib=100)
    found = clean(world, tmp_path, grace_s=3)
    assert found.reason == "mps_in_use" and "did not let go" in found.message and "echo quit" in found.message
    assert world.signals == [] and mine.alive and plain.alive


def test_a_control_that_ends_midway_leaves_its_clients_alone(tmp_path: Path) -> None:
    world = World()
    mine = served(world, on_mps="held")
    world.at(1.0, lambda: setattr(world, "mps", None))
    found = clean(world, tmp_path)
    assert found.reason == "mps_in_use" and "no longer answers" in found.message and mine.alive and world.signals == []


def test_mps_lets_go_before_a_unit_is_stopped(tmp_path: Path) -> None:
    world = World()
    world.active_units = {"sglang-a.service"}
    mine = served(world, cgroup=UNIT)
    found = clean(world, tmp_path, scope=replace(HOST, units=frozenset({"sglang-a.service"})))
    assert found.reason is None and mine.drained and world.stopped == ["sglang-a.service"]
    world = World()
    world.active_units = {"sglang-a.service"}
    mine = served(world, cgroup=UNIT, on_mps="held")
    found = clean(world, tmp_path, scope=replace(HOST, units=frozenset({"sglang-a.service"})))
    assert found.reason == "mps_in_use" and world.stopped == [] and mine.alive


def test_mps_on_another_card_counts_too(tmp_path: Path) -> None:
    world = World(cards=2)
    launcher = world.launcher()
    world.scheduler(0, ppid=launcher.pid)
    far = world.scheduler(1, kinds=(MPS,), ppid=launcher.pid)
    found = clean(world, tmp_path, gpus=("0",))
    assert found.reason == "mps_in_use" and world.signals == [] and far.alive
    world.mps = "4711\n"
    assert clean(world, tmp_path, gpus=("0",)).reason is None and far.drained
