# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may be stopped: each rule, each row, and what merely looks like it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import policy
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.model import COMPUTE, GRAPHICS, MPS
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.policy import Facts, Scope
from ansible_collections.llmhost.sglang.plugins.module_utils._process.identity import Process, container_of, unit_of

HOST = Scope()
CT = Scope(vmid=129)


def process(comm: str = "x", cmdline: str | None = None, cgroup: str = "/", **more: Any) -> Process:
    return Process(
        pid=more.pop("pid", 4000),
        start_time=1,
        uid=more.pop("uid", 0),
        comm=comm[:15],
        cmdline=comm if cmdline is None else cmdline,
        state=more.pop("state", "S"),
        ppid=more.pop("ppid", 1),
        cgroup=cgroup,
        unit=unit_of(cgroup),
        container=container_of(cgroup),
    )


def facts(found: Process, kinds: tuple[str, ...] = (COMPUTE,), **more: Any) -> Facts:
    return Facts(found, frozenset(kinds), **more)


SCHEDULER = process("sglang::schedul", "sglang::scheduler_TP0")
TRAIN = process("python3", "/usr/bin/python3 train.py")


@pytest.mark.parametrize("row", policy.PROTECTED, ids=lambda row: row.name)
def test_a_protected_name_hits_its_row_and_only_it(row: policy.Protected) -> None:
    name = row.name + ("x" if row.prefix else "")
    for found in (process(name, ""), process("python3", f"/usr/sbin/{name} --flag"), process(name, f"{name}: worker")):
        why = policy.protected_by(found)
        assert why is not None and f"'{row.name}'" in why
        hits = [
            other for other in policy.PROTECTED if name == other.name or (other.prefix and name.startswith(other.name))
        ]
        assert hits == [row], hits
    force = replace(HOST, force=True, match=(re.compile("."),))
    assert policy.classify(facts(process(name, "")), force).kind == policy.TOLERATED
    if not row.prefix:
        assert policy.protected_by(process("a" + row.name, "")) is None


@pytest.mark.parametrize("name", ["sshdx", "Xorgy", "python3", "kvmd", "pct2", "gpud2", "initial", "sglang::schedul"])
def test_what_is_not_protected(name: str) -> None:
    if name == "sshdx":  # a prefix by intent: sshd-session
        assert policy.protected_by(process(name)) is not None
    else:
        assert policy.protected_by(process(name)) is None


# command line (and the kernel's short name) -> SGLang or not
NAMES = {
    "sglang::scheduler": True,
    "sglang::scheduler_DP0_PP1_TP2_EP3": True,
    "sglang::detokenizer_worker_1": True,
    "sglang::tokenizer_worker:77": True,
    "sglang::semi_pd_scheduler_P": True,
    "sglang::async_draft_runner(gpu=0)": True,
    "sglang::data_parallel_controller": True,
    "sgl_diffusion::scheduler_U1": True,
    "sglang::scheduler      ": True,
    "python -m sglang.launch_server --model-path /m": True,
    "/opt/llmhost/runtimes/0.5.23-ab/bin/python -m sglang.launch_server": True,
    "python3.11 -B -m sglang.launch_server": True,
    "/v/bin/python /v/bin/sglang serve /m": True,
    "/v/bin/sglang serve /m": True,
    "sglang serve --model-path /m": True,
    "python /src/sglang/launch_server.py --port 1": True,
    "/opt/llmhost/runtimes/x/bin/python -c from multiprocessing.spawn import spawn_main; spawn_main(5)": True,
    # not
    "bash -c python -m sglang.launch_server": False,
    "vim sglang::scheduler.py": False,
    "grep sglang::": False,
    "tail -f /var/log/sglang serve": False,
    "python train.py --data sglang": False,
    "python -m sglang_other.thing": False,
    "python -m vllm.entrypoints.api_server": False,
    "python -c from multiprocessing.spawn import spawn_main": False,
    "ssh host sglang serve": False,
    "sglang_router.launch --x": False,
    "sglang --version": False,
    "watch sglang::": False,
    "": False,
}


@pytest.mark.parametrize("cmdline", NAMES)
def test_sglang_by_its_name(cmdline: str) -> None:
    assert policy.sglang(process("x", cmdline)) is NAMES[cmdline]


def test_the_short_name_is_enough_where_the_title_is_gone() -> None:
    assert policy.sglang(process("sglang::schedul", ""))
    assert not policy.sglang(process("sglang", ""))


# what is special -> (facts, scope, class)
ACTIVE = "/system.slice/sglang-a.service"
DOCKER = "docker-" + "a" * 64 + ".scope"
RULES: dict[str, tuple[Facts, Scope, str]] = {
    "stale": (facts(SCHEDULER), HOST, policy.TARGET),
    "stale without a GPU": (facts(SCHEDULER, ()), HOST, policy.TARGET),
    "own": (facts(SCHEDULER, own=True), replace(HOST, force=True), policy.TOLERATED),
    "pid 1": (facts(process("sglang::x", pid=1)), replace(HOST, force=True), policy.TOLERATED),
    "foreign": (facts(TRAIN), HOST, policy.BLOCKER),
    "foreign without a GPU": (facts(TRAIN, ()), HOST, policy.IGNORED),
    "foreign, matched": (facts(TRAIN), replace(HOST, match=(re.compile(r"train\.py"),)), policy.TARGET),
    "foreign, forced": (facts(TRAIN), replace(HOST, force=True), policy.TARGET),
    "foreign without a GPU, forced": (facts(TRAIN, ()), replace(HOST, force=True), policy.IGNORED),
    "interpreter matched, without a GPU": (
        facts(TRAIN, ()),
        replace(HOST, match=(re.compile("python"),)),
        policy.IGNORED,
    ),
    "interpreter matched, on a GPU": (facts(TRAIN), replace(HOST, match=(re.compile("python"),)), policy.TARGET),
    "graphics": (facts(process("firefox"), (GRAPHICS,)), HOST, policy.TOLERATED),
    "graphics, forced": (facts(process("firefox"), (GRAPHICS,)), replace(HOST, force=True), policy.TOLERATED),
    "graphics and compute": (facts(process("blender"), (GRAPHICS, COMPUTE)), HOST, policy.BLOCKER),
    "mps": (facts(SCHEDULER, (MPS,)), HOST, policy.TARGET),
    "active unit": (facts(process("sglang::x", cgroup=ACTIVE), unit_active=True), HOST, policy.BLOCKER),
    "unit not known": (facts(process("sglang::x", cgroup=ACTIVE), unit_active=None), HOST, policy.BLOCKER),
    "unit not active": (facts(process("sglang::x", cgroup=ACTIVE), unit_active=False), HOST, policy.TARGET),
    "active unit, named": (
        facts(process("sglang::x", cgroup=ACTIVE), unit_active=True),
        replace(HOST, units=frozenset({"sglang-a.service"})),
        policy.TARGET,
    ),
    "another unit named": (
        facts(process("sglang::x", cgroup=ACTIVE), unit_active=True),
        replace(HOST, units=frozenset({"sglang-ab.service"})),
        policy.BLOCKER,
    ),
    "any program of a named unit": (
        facts(process("python3", "python3 helper.py", cgroup=ACTIVE), unit_active=True),
        replace(HOST, units=frozenset({"sglang-a.service"})),
        policy.TARGET,
    ),
    "active unit, forced": (
        facts(process("sglang::x", cgroup=ACTIVE), unit_active=True),
        replace(HOST, force=True),
        policy.TARGET,
    ),
    "login session": (
        facts(process("sglang::x", cgroup="/user.slice/user-0.slice/session-9.scope")),
        HOST,
        policy.TARGET,
    ),
    "tmux": (
        facts(process("sglang::x", cgroup="/user.slice/user-0.slice/user@0.service/tmux-spawn-1-2.scope")),
        HOST,
        policy.TARGET,
    ),
    "systemd-run scope": (facts(process("sglang::x", cgroup="/system.slice/run-u7.scope")), HOST, policy.BLOCKER),
    "container, from the host": (facts(process("sglang::x", cgroup="/lxc/129/ns/.lxc")), HOST, policy.BLOCKER),
    "container, forced from the host": (
        facts(process("sglang::x", cgroup="/lxc/129/ns/.lxc")),
        replace(HOST, force=True),
        policy.BLOCKER,
    ),
    "the container": (facts(process("sglang::x", cgroup="/lxc/129/ns/.lxc")), CT, policy.TARGET),
    "init scope of the container": (facts(process("sglang::x", cgroup="/lxc/129/ns/init.scope")), CT, policy.TARGET),
    "another container": (facts(process("sglang::x", cgroup="/lxc/130/ns/.lxc")), CT, policy.BLOCKER),
    "another container, forced": (
        facts(process("sglang::x", cgroup="/lxc/130/ns/.lxc")),
        replace(CT, force=True),
        policy.BLOCKER,
    ),
    "another container, excluded": (
        facts(process("sglang::x", cgroup="/lxc/130/ns/.lxc")),
        replace(CT, exclude_vmids=frozenset({130})),
        policy.TOLERATED,
    ),
    "the host, from a container's scope": (facts(SCHEDULER), CT, policy.BLOCKER),
    "docker in the container": (
        facts(process("sglang::x", cgroup="/lxc/129/ns/system.slice/" + DOCKER)),
        CT,
        policy.BLOCKER,
    ),
    "docker": (facts(process("sglang::x", cgroup="/system.slice/" + DOCKER)), HOST, policy.BLOCKER),
    "unit in the container": (facts(process("sglang::x", cgroup="/lxc/129/ns" + ACTIVE)), CT, policy.BLOCKER),
    "unit in the container, named": (
        facts(process("sglang::x", cgroup="/lxc/129/ns" + ACTIVE)),
        replace(CT, units=frozenset({"sglang-a.service"})),
        policy.TARGET,
    ),
    "unit in a container, named for the host": (
        facts(process("sglang::x", cgroup="/lxc/129/ns" + ACTIVE)),
        replace(HOST, units=frozenset({"sglang-a.service"})),
        policy.BLOCKER,
    ),
    "excluded unit": (
        facts(process("sglang::x", cgroup=ACTIVE), unit_active=True),
        replace(HOST, exclude_units=frozenset({"sglang-a.service"}), force=True),
        policy.TOLERATED,
    ),
    "excluded unit of another place": (
        facts(process("sglang::x", cgroup="/lxc/129/ns" + ACTIVE)),
        replace(HOST, exclude_units=frozenset({"sglang-a.service"})),
        policy.BLOCKER,
    ),
    "user": (facts(process("sglang::x", uid=7)), replace(HOST, users=frozenset({7})), policy.TARGET),
    "another user": (facts(process("sglang::x", uid=8)), replace(HOST, users=frozenset({7})), policy.BLOCKER),
    "another user, forced": (
        facts(process("sglang::x", uid=8)),
        replace(HOST, users=frozenset({7}), force=True),
        policy.BLOCKER,
    ),
    "excluded user": (facts(TRAIN), replace(HOST, exclude_uids=frozenset({0})), policy.TOLERATED),
    "not permitted": (facts(process("sglang::x", uid=8)), replace(HOST, euid=1000), policy.BLOCKER),
    "permitted": (facts(process("sglang::x", uid=8)), replace(HOST, euid=8), policy.TARGET),
    "dead": (facts(process("sglang::x", state="Z"), dead=True), HOST, policy.ZOMBIE),
    "dead leader, live threads": (facts(process("sglang::x", state="Z"), dead=False), HOST, policy.TARGET),
    "protected by the task": (facts(SCHEDULER), replace(HOST, protected=(re.compile("TP0"),)), policy.TOLERATED),
    "a relative": (
        facts(process("python", "python -c from multiprocessing.spawn"), relative=True),
        HOST,
        policy.TARGET,
    ),
    "virtual machine": (
        facts(process("sglang::x", cgroup="/qemu.slice/131.scope")),
        replace(HOST, vmid=131),
        policy.BLOCKER,
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    fact, scope, kind = RULES[name]
    found = policy.classify(fact, scope)
    assert found.kind == kind, found.why
    assert found.why


def test_every_class_is_reached() -> None:
    assert {kind for _facts, _scope, kind in RULES.values()} == {
        policy.TARGET, policy.TOLERATED, policy.BLOCKER, policy.ZOMBIE, policy.IGNORED
    }  # fmt: skip
