# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the process table and whatever the driver answers: who must not be signalled is not, and memory above the
baseline is never success. The rules are written here a second time, from the documentation and not from the code."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.model import COMPUTE, GRAPHICS, MPS, Entry
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.policy import Scope
from gpu_world_support import EXIT, IGNORE, STUCK, Proc, World, clean

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

SGLANG = [
    ("sglang::schedul", "sglang::scheduler_TP0"),
    ("sglang::detoken", "sglang::detokenizer"),
    ("sgl_diffusion::", "sgl_diffusion::scheduler_U0"),
    ("python", "/srv/v/bin/python -m sglang.launch_server --model-path /m"),
    ("sglang", "/srv/v/bin/sglang serve /m"),
]
SPAWNED = [("python", "/srv/v/bin/python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)")]
PROTECTED = [
    ("sshd", "sshd: alice@pts/0"),
    ("Xorg", "/usr/lib/xorg/Xorg :0"),
    ("dcgm-exporter", "/usr/bin/dcgm-exporter"),
    ("nvidia-persiste", "/usr/bin/nvidia-persistenced"),
    ("lxc-start", "lxc-start -F -n 129"),
    ("containerd-shim", "/usr/bin/containerd-shim-runc-v2 -id sglang::x"),
    ("nvidia-cuda-mps", "nvidia-cuda-mps-server"),
    ("pvedaemon", "pvedaemon"),
]
FOREIGN = [
    ("python3", "/usr/bin/python3 train.py"),
    ("bash", "bash -c python -m sglang.launch_server"),
    ("VLLM::EngineCor", "VLLM::EngineCore"),
    ("vim", "vim sglang::scheduler"),
    ("ollama", "/usr/bin/ollama runner"),
]
PLACES = [
    "/",
    "/user.slice/user-0.slice/session-3.scope",
    "/system.slice/active.service",
    "/system.slice/failed.service",
    "/system.slice/named.service",
    "/lxc/129/ns/.lxc",
    "/lxc/129/ns/system.slice/named.service",
    "/lxc/129/ns/system.slice/active.service",
    "/lxc/130/ns/.lxc",
    "/lxc/129/ns/system.slice/docker-" + "a" * 64 + ".scope",
    "/system.slice/docker-" + "b" * 64 + ".scope",
    "/user.slice/user-5.slice/user@5.service/lxc/129/ns",
]
ALIVE = [EXIT, EXIT, EXIT, IGNORE, 0.5, 40.0]

EXAMPLES = int(os.environ.get("LLMHOST_EXAMPLES", "150"))
NAMES = st.sampled_from(SGLANG * 3 + SPAWNED + PROTECTED + FOREIGN)
PROCESS = st.fixed_dictionaries(
    {
        "name": NAMES,
        "cgroup": st.sampled_from(PLACES[:1] * 6 + PLACES),
        "uid": st.sampled_from([0, 0, 0, 1000, 100000]),
        "gpu": st.sampled_from([None, 0, 0, 0, 1]),
        "mib": st.sampled_from([None, 0, 300, 4000, 9000]),
        "kinds": st.sampled_from([(COMPUTE,)] * 6 + [(GRAPHICS,), (COMPUTE, GRAPHICS), (MPS,)]),
        "on_term": st.sampled_from(ALIVE),
        "on_kill": st.sampled_from([EXIT, EXIT, STUCK, 3.0]),
        "parent": st.integers(0, 12),
        "reaped": st.sampled_from([True, True, True, False]),
        "dies_at": st.sampled_from([None] * 6 + [0.01, 1.0, 10.0]),
        "heir": st.sampled_from([None, None, *PROTECTED, *FOREIGN, *SGLANG]),
        "health": st.sampled_from([None, None, None, "http://127.0.0.1:30000/health"]),
        "files": st.sampled_from([(), ("/dev/nvidia0",)]),
        "on_mps": st.sampled_from(["stay", "stay", EXIT, "held"]),
        "age": st.sampled_from([10.0, 86400.0]),
    }
)
WORLD = st.fixed_dictionaries(
    {
        "procs": st.lists(PROCESS, max_size=7),
        "extra": st.lists(st.sampled_from([0, 1, 2, 898, 899, 900, 31000, 40000, 4294967295]), max_size=1),
        "extra_on": st.booleans(),
        "nested": st.booleans(),
        "driver": st.sampled_from(["525.60.13", "550.54.15", "580.65.06"]),
        "orphan": st.sampled_from([0, 0, 0, 50, 3000]),
        "release": st.sampled_from([0.0, 2.0, 300.0]),
        "recovery": st.sampled_from(["none", "none", "none", None, "reset"]),
        "euid": st.sampled_from([0, 0, 0, 1000]),
        "mps": st.sampled_from([None, "", "77\n", "77\n"]),
    }
)
SCOPE = st.fixed_dictionaries(
    {
        "match": st.sampled_from([(), (), (re.compile("VLLM::"),), (re.compile("python"),), (re.compile(r"\w"),)]),
        "users": st.sampled_from([None, None, frozenset({0}), frozenset({1000})]),
        "units": st.sampled_from([frozenset(), frozenset({"named.service"})]),
        "vmid": st.sampled_from([None, None, 129, 130]),
        "force": st.sampled_from([False, False, True]),
        "exclude_vmids": st.sampled_from([frozenset(), frozenset({130})]),
        "exclude_units": st.sampled_from([frozenset(), frozenset({"active.service"})]),
    }
)


def build(spec: dict[str, Any]) -> tuple[World, dict[Proc, dict[str, Any]]]:
    world = World(cards=2, driver=spec["driver"], nested=spec["nested"])
    world.euid_ = spec["euid"]
    world.mps = spec["mps"]
    world.active_units = {"active.service", "named.service"}
    card = world.card(0)
    card.orphan, card.recovery = spec["orphan"], spec["recovery"]
    card.release_s = spec["release"]
    if spec["extra_on"]:
        card.extra = [Entry(pid, (COMPUTE,), 10) for pid in spec["extra"]]
    specs: dict[Proc, dict[str, Any]] = {}
    made: list[Proc] = []
    for one in spec["procs"]:
        parent = made[one["parent"] % len(made)] if made and one["parent"] < 6 else None
        keys = ("cgroup", "uid", "mib", "kinds", "on_term", "on_kill", "reaped", "files", "health", "on_mps", "age")
        proc = world.add(
            *one["name"], gpu=one["gpu"], ppid=parent.pid if parent else 1, **{key: one[key] for key in keys}
        )
        if parent:
            proc.group = parent.group
        made.append(proc)
        specs[proc] = one
        if one["dies_at"] is not None:
            world.at(one["dies_at"], lambda proc=proc, one=one: die(world, proc, one))
    return world, specs


def die(world: World, proc: Proc, one: dict[str, Any]) -> None:
    """It ends on its own, and somebody else may get its number."""
    world.exit(proc)
    if one["heir"] and not proc.zombie:
        heir = world.add(*one["heir"], pid=proc.pid, gpu=one["gpu"], mib=100)
        world.heirs.append((proc, heir))  # type: ignore[attr-defined]


def forbidden(proc: Proc, scope: Scope, world: World, family: bool) -> str | None:
    """Why a process must never be signalled; None where the documentation allows it."""
    name = (proc.comm, proc.cmdline)
    if proc in (world.me, world.shell, world.sshd) or proc.pid <= 1:
        return "own"
    if name in PROTECTED:
        return "protected"
    inside = re.match(r"/lxc/(\d+)/ns(/.*)?$", proc.cgroup)
    docker = "docker-" in proc.cgroup
    if docker:
        return "in a container that is never named"
    if (int(inside.group(1)) if inside else None) != scope.vmid:
        return "another place"
    if scope.vmid in scope.exclude_vmids:
        return "excluded"
    unit = proc.cgroup.rsplit("/", 1)[1] if proc.cgroup.endswith(".service") else None
    if "user@5.service" in proc.cgroup:
        unit = "user@5.service"
    if unit in scope.exclude_units:
        return "excluded unit"
    if scope.users is not None and proc.uid not in scope.users:
        return "another user"
    if world.euid_ and proc.uid != world.euid_:
        return "not permitted"
    named_unit = unit in scope.units
    stale = unit is None or (unit == "failed.service" and not inside)
    if not (stale or named_unit or scope.force):
        return "an active unit"
    matched = any(p.search(proc.comm) or p.search(proc.cmdline) for p in scope.match)
    sglang = name in SGLANG or (name in SPAWNED and family)
    if not (sglang or matched or named_unit or (scope.force and proc.memory)):
        return "a foreign program"
    return None


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(spec=WORLD, wish=SCOPE, both=st.booleans())
def test_nobody_else_is_hit_and_nothing_above_the_baseline_is_clean(
    spec: dict[str, Any], wish: dict[str, Any], both: bool
) -> None:
    world, _specs = build(spec)
    world.heirs = []  # type: ignore[attr-defined]
    scope = Scope(euid=world.euid_, **wish)
    with tempfile.TemporaryDirectory() as folder:
        found = clean(
            world, Path(folder), ("all",) if both else ("0",), scope, grace_s=5, timeout_s=60, settle_samples=3
        )
    hit = {proc for _time, proc, _number in world.signals}
    for proc in hit:
        family = any(other.comm.startswith(("sgl", "python")) for other in world.procs if other is not proc)
        why = forbidden(proc, scope, world, family)
        assert why is None, f"{proc.comm} {proc.cmdline} in {proc.cgroup} was signalled: {why}"
        assert world.got(proc) in (["SIGTERM"], ["SIGTERM", "SIGKILL"]), world.got(proc)
        if "launch" in proc.cmdline and not (wish["force"] or wish["match"] or wish["units"]):
            zombies = any(other.zombie or not other.reaped for other in world.procs)
            assert zombies or (proc.age > 3600 and not proc.health), "a live server or a start in progress was stopped"
        assert MPS not in proc.kinds or not proc.memory or proc.drained, "a client of MPS was signalled"
    for old, heir in world.heirs:  # type: ignore[attr-defined]
        assert not (old in hit and heir in hit), "a PID that was taken over was signalled again"
    if found.reason in ("blocked", "unknown_client", "struct_mismatch", "gpu_unknown"):
        assert not world.signals and not world.stopped
    if found.reason is None:
        cards = [card for card in world.cards.values() if both or card.index == 0]
        for card in cards:
            live = [proc for proc in world.procs if proc.alive and card.uuid in proc.memory]
            if all(proc.memory[card.uuid] is not None for proc in live):
                held = sum(proc.memory[card.uuid] or 0 for proc in live)
                assert world.used(card) - held <= 64, "memory that nobody holds was called clean"
            for proc in live:  # who is left is somebody who may stay, and none of ours
                assert forbidden(proc, scope, world, False) or proc.kinds == (GRAPHICS,), f"{proc.comm} was left"
            assert card.recovery in ("none", None)


@settings(max_examples=max(20, EXAMPLES // 3), suppress_health_check=list(HealthCheck))
@given(spec=WORLD, wish=SCOPE)
def test_a_second_run_changes_nothing(spec: dict[str, Any], wish: dict[str, Any]) -> None:
    for one in spec["procs"]:
        one["dies_at"] = None
    world, _specs = build(spec)
    scope = Scope(euid=world.euid_, **wish)
    with tempfile.TemporaryDirectory() as folder:
        first = clean(world, Path(folder), scope=scope, grace_s=5, timeout_s=60)
        before = len(world.signals)
        if first.reason is None:
            second = clean(world, Path(folder), scope=scope, grace_s=5, timeout_s=60)
            assert second.reason is None and not second.changed
            assert len(world.signals) == before


@settings(max_examples=max(20, EXAMPLES // 3), suppress_health_check=list(HealthCheck))
@given(spec=WORLD, wish=SCOPE)
def test_check_mode_signals_nobody_and_predicts(spec: dict[str, Any], wish: dict[str, Any]) -> None:
    for one in spec["procs"]:
        one["dies_at"] = None
    world, _specs = build(spec)
    scope = Scope(euid=world.euid_, **wish)
    with tempfile.TemporaryDirectory() as folder:
        plan = clean(world, Path(folder), scope=scope, check=True)
        assert not world.signals and not world.stopped
        real = clean(world, Path(folder), scope=scope, grace_s=5, timeout_s=60)
    hit = sorted({proc.pid for _time, proc, _number in world.signals})
    assert set(hit) <= {item["pid"] for item in plan.result["targets"]}
    if real.reason is None:
        assert plan.reason is None and plan.changed == real.changed
