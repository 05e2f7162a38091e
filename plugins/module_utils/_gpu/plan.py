# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a release would do: every client of the chosen GPUs with its class, and the relatives that go with it.

Each process is opened (pidfd) before its identity is read, and stays open until the plan is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._errors import LlmHostError
from .._process.identity import Process
from .._process.signals import Handle
from . import policy
from .choose import Target
from .clients import OWN_PIDS_FROM, RIGHT_MEMORY_FROM, problem_of, user_name
from .host import Host
from .model import COMPUTE, MPS, Entry, Snapshot, version_tuple
from .policy import BLOCKER, IGNORED, TARGET, TOLERATED, ZOMBIE, Facts, Scope, Verdict

STARTING_S = 1800.0  # a server that somebody started by hand may be silent for so long


@dataclass
class Candidate:
    """One process of the plan."""

    handle: Handle
    verdict: Verdict
    kinds: frozenset[str] = frozenset()
    memory: dict[str, int | None] = field(default_factory=dict)  # target's UUID -> MiB
    top: bool = False
    mps: bool = False  # a client of MPS, on these GPUs or on others

    @property
    def process(self) -> Process:
        return self.handle.process

    def as_dict(self) -> dict[str, Any]:
        process = self.process
        return {
            "pid": process.pid,
            "start_time": process.start_time,
            "comm": process.comm,
            "cmdline": process.cmdline[:300],
            "user": user_name(process.uid),
            "uid": process.uid,
            "state": process.state,
            "ppid": process.ppid,
            "unit": process.unit,
            "container": dict(process.container) if process.container else None,
            "kinds": sorted(self.kinds),
            "memory_mib": dict(self.memory),
            "why": self.verdict.why,
        }


@dataclass
class Plan:
    targets: dict[int, Candidate] = field(default_factory=dict)
    tolerated: dict[int, Candidate] = field(default_factory=dict)
    blockers: dict[int, Candidate] = field(default_factory=dict)
    zombies: dict[int, Candidate] = field(default_factory=dict)
    unknown: list[dict[str, Any]] = field(default_factory=list)
    gone: list[dict[str, Any]] = field(default_factory=list)  # listed by the driver, no process any more
    units: list[str] = field(default_factory=list)  # of this host, to be stopped first
    invisible: bool = False

    def known(self) -> set[int]:
        listed = {item["pid"] for item in self.unknown + self.gone}
        return listed | set(self.targets) | set(self.tolerated) | set(self.blockers) | set(self.zombies)

    def close(self) -> None:
        for group in (self.targets, self.tolerated, self.blockers, self.zombies):
            for candidate in group.values():
                candidate.handle.close()


def uses(snapshot: Snapshot, targets: Sequence[Target]) -> dict[int, dict[str, list[Entry]]]:
    """PID -> UUID of the target -> its entries, for the chosen GPUs and MIG devices."""
    found: dict[int, dict[str, list[Entry]]] = {}
    for target in targets:
        gpu = next((gpu for gpu in snapshot.gpus if gpu.index == target.gpu.index), target.gpu)
        instance = instance_of(target)
        for entry in gpu.entries or ():
            if instance is None or entry.gpu_instance in (None, instance):
                found.setdefault(entry.pid, {}).setdefault(target.uuid, []).append(entry)
    return found


def instance_of(target: Target) -> int | None:
    """The GPU instance of a MIG target."""
    if target.mig_uuid is None:
        return None
    return next((d.gpu_instance for d in target.gpu.mig_devices if d.uuid == target.mig_uuid), None)


def check_layout(snapshot: Snapshot, pid_max: int) -> None:
    """Raise ``struct_mismatch`` where any entry cannot be: then no entry of that answer is believed."""
    bad = []
    for gpu in snapshot.gpus:
        for entry in gpu.entries or ():
            problem = None if entry.pid == 1 else problem_of(entry, pid_max, gpu.memory.total)
            if entry.pid == 1 and COMPUTE in entry.kinds:
                problem = "PID 1 is no client of a GPU"
            if problem:
                bad.append({"gpu": gpu.uuid, "pid": entry.pid, "problem": problem})
    if bad:
        raise LlmHostError(
            "struct_mismatch",
            f"the driver's process list cannot be right: {bad[0]['problem']}. Nothing was signalled. Update the driver "
            "(the first R535 builds have this fault), or use source: smi",
            unknown=bad,
        )


class Builder:
    """Makes the plan from one snapshot and one look at the process table."""

    def __init__(self, host: Host, snapshot: Snapshot, targets: Sequence[Target], scope: Scope, nested: bool) -> None:
        self.host = host
        self.snapshot = snapshot
        self.targets = targets
        self.scope = scope
        self.nested = nested
        self.driver = version_tuple(snapshot.driver_version)
        self.uses = uses(snapshot, targets)
        entries = [entry for gpu in snapshot.gpus for entry in gpu.entries or ()]
        self.listed = {entry.pid for entry in entries}
        self.served = {entry.pid for entry in entries if MPS in entry.kinds}
        self.own = host.own()
        self.plan = Plan()
        self.table: dict[int, Process] = {}
        for pid in host.pids():
            try:
                self.table[pid] = host.read(pid)
            except OSError:  # it ended while we looked
                continue
        self.groups: dict[int, tuple[int, int] | None] = {}
        self.children: dict[int, list[int]] = {}
        for process in self.table.values():
            self.children.setdefault(process.ppid, []).append(process.pid)

    # -- relatives ----------------------------------------------------------------------------------------------

    def _ours(self, process: Process) -> bool:
        """Whether a process that uses no GPU goes with one that does: SGLang's, or named well enough by ``match``."""
        return policy.sglang(process) or policy.named(process, self.scope, sure=True)

    def _top(self, process: Process) -> Process:
        """The outermost of the chain of such processes above one."""
        seen = {process.pid}
        while True:
            parent = self.table.get(process.ppid)
            if parent is None or parent.pid in seen or not self._ours(parent):
                return process
            seen.add(parent.pid)
            process = parent

    def _below(self, pid: int) -> list[int]:
        found: dict[int, None] = {}
        todo = list(self.children.get(pid, ()))
        while todo:
            child = todo.pop()
            if child not in found and child != pid:
                found[child] = None
                todo.extend(self.children.get(child, ()))
        return list(found)

    def _group(self, pid: int) -> tuple[int, int] | None:
        if pid not in self.groups:
            try:
                self.groups[pid] = self.host.group(pid)
            except OSError:
                self.groups[pid] = None
        return self.groups[pid]

    def _orphan(self, process: Process) -> bool:
        """Whether what started it is gone: its parent is neither SGLang nor any Python."""
        parent = self.table.get(process.ppid)
        if parent is None:
            return True
        return not policy.sglang(parent) and (parent.pid <= 1 or not policy.interpreter(parent))

    def _relative(self, process: Process) -> bool:
        """Whether an untitled child of multiprocessing is SGLang's: by a parent, or, an orphan, by its group."""
        if not policy.spawned(process):
            return False
        if any(policy.sglang(self.table[pid]) for pid in self._above(process) if pid in self.table):
            return True
        if not self._orphan(process):
            return False
        group = self._group(process.pid)
        return group is not None and any(
            policy.titled(other) and other.container == process.container and self._group(other.pid) == group
            for other in self.table.values()
        )

    def _above(self, process: Process) -> list[int]:
        found: list[int] = []
        pid = process.ppid
        while pid > 1 and pid not in found:
            found.append(pid)
            pid = self.table[pid].ppid if pid in self.table else 0
        return found

    # -- one process --------------------------------------------------------------------------------------------

    def _consider(self, pid: int, relative: bool = False) -> Candidate | None:
        """Open a PID, read who it is, classify it and file it. None where there is no such process."""
        plan = self.plan
        for group in (plan.targets, plan.tolerated, plan.blockers, plan.zombies):
            if pid in group:
                return group[pid]
        try:
            handle = self.host.open(pid)
        except ProcessLookupError:
            return None
        process = handle.process
        entries = self.uses.get(pid, {})
        kinds = frozenset(kind for listed in entries.values() for entry in listed for kind in entry.kinds)
        dead = handle.exited()
        facts = Facts(
            process=process,
            kinds=kinds,
            own=pid in self.own,
            unit_active=self.host.unit_active(process),
            relative=relative or self._relative(process),
            dead=dead,
        )
        memory = {uuid: self._sum(listed) for uuid, listed in entries.items()}
        candidate = Candidate(handle, policy.classify(facts, self.scope), kinds, memory, mps=pid in self.served)
        kind = candidate.verdict.kind
        if kind == IGNORED:
            handle.close()
            return None
        {TARGET: plan.targets, TOLERATED: plan.tolerated, BLOCKER: plan.blockers, ZOMBIE: plan.zombies}[kind][pid] = (
            candidate
        )
        return candidate

    def _sum(self, entries: list[Entry]) -> int | None:
        total = 0
        for entry in entries:
            blind = self.nested and entry.memory_mib == 0 and self.driver < RIGHT_MEMORY_FROM
            if entry.memory_mib is None or blind:
                return None
            total += entry.memory_mib
        return total

    # -- the whole ----------------------------------------------------------------------------------------------

    def build(self) -> Plan:
        check_layout(self.snapshot, self.host.pid_max())
        for pid in sorted(self.uses):
            self._client(pid)
        for pid in list(self.plan.zombies):
            self._reaper(self.plan.zombies[pid].process)
        self._unlisted()
        self._relatives()
        self._units()
        self._live()
        for candidate in self.plan.targets.values():
            candidate.top = self._is_top(candidate.process)
        return self.plan

    def _client(self, pid: int) -> None:
        plan = self.plan
        item = {"pid": pid, "gpus": sorted(self.uses[pid])}
        if self.nested and self.driver < OWN_PIDS_FROM:
            minors = [target.gpu.minor for target in self.targets if target.uuid in self.uses[pid]]
            files = [f"/dev/nvidia{minor}" for minor in minors if minor is not None]
            if not self.host.holds(pid, files):
                why = "this driver tells the host's PIDs to a container, and the process of that number here has no "
                "GPU open"
                plan.unknown.append({**item, "problem": why})
                plan.invisible = True
                return
        try:
            found = self._consider(pid)
        except PermissionError as error:
            plan.unknown.append({**item, "problem": f"it cannot be opened: {error.strerror}"})
            return
        if found is None:
            if self.nested:
                plan.unknown.append(
                    {**item, "problem": "no such process here: it is in another PID namespace, or just ended"}
                )
                plan.invisible = True
            else:
                plan.gone.append({**item, "problem": "the driver lists it, but no such process exists on this host"})

    def _reaper(self, zombie: Process) -> None:
        """The parent of a zombie, where it is SGLang's: stopping it ends the zombie."""
        parent = self.table.get(zombie.ppid)
        if parent is not None and parent.pid > 1 and self._ours(parent):
            self._consider(parent.pid)

    def _whole(self) -> bool:
        """Whether what uses no GPU is in scope too: all GPUs are chosen, or one container is."""
        chosen = {target.gpu.index for target in self.targets if target.mig_uuid is None}
        return self.scope.vmid is not None or chosen == {gpu.index for gpu in self.snapshot.gpus}

    def _elsewhere(self, pid: int) -> bool:
        """Whether a process, or one below it, uses a GPU that was not chosen."""
        return any(one in self.listed and one not in self.uses for one in [pid, *self._below(pid)])

    def _unlisted(self) -> None:
        """SGLang's processes that the driver does not list: holders of the device, orphans, parents of zombies."""
        files = [f"/dev/nvidia{target.gpu.minor}" for target in self.targets if target.gpu.minor is not None]
        whole = self._whole()
        for process in list(self.table.values()):
            if process.pid in self.uses or process.zombie or not policy.sglang(process) or self._elsewhere(process.pid):
                continue
            left = policy.titled(process) and self._orphan(process)
            widow = any(
                child in self.table and self.table[child].zombie and policy.titled(self.table[child])
                for child in self.children.get(process.pid, ())
            )
            if self.host.holds(process.pid, files) or (whole and (left or widow)):
                self._consider(process.pid)

    def _relatives(self) -> None:
        """What goes with a target: its server's tree, and orphans of its process group."""
        tops: set[int] = set()
        groups: set[tuple[tuple[int, int], str]] = set()
        for candidate in list(self.plan.targets.values()):
            process = candidate.process
            if not self._ours(process) and not self._relative(process):
                continue
            tops.add(self._top(process).pid)
            group = self._group(process.pid)
            if group is not None:
                groups.add((group, str(process.container)))
        for top in sorted(tops):
            for pid in [top, *self._below(top)]:
                one = self.table.get(pid)
                if one is not None and not one.zombie and (self._ours(one) or policy.spawned(one)):
                    self._consider(pid, relative=True)
        for one in list(self.table.values()):
            if one.zombie or not (policy.titled(one) or policy.spawned(one)) or not self._orphan(one):
                continue
            group = self._group(one.pid)
            if group is not None and (group, str(one.container)) in groups and not self._elsewhere(one.pid):
                self._consider(one.pid, relative=True)

    def _units(self) -> None:
        for unit in sorted(self.scope.units):
            held = any(
                c.process.container is None and policy.managing_unit(c.process) == unit
                for c in self.plan.targets.values()
            )
            if held and self.scope.vmid is None and self.host.unit_is_active(unit):
                self.plan.units.append(unit)
        if self.scope.force:
            for candidate in self.plan.targets.values():
                owner = policy.managing_unit(candidate.process)
                if owner is None or owner in self.plan.units or candidate.process.container is not None:
                    continue
                if self.host.unit_active(candidate.process):
                    self.plan.units.append(owner)

    def _live(self) -> None:
        """Servers outside any unit that answer, or may still be starting, are somebody's: blockers.

        A start says nothing until it is ready, half an hour later with a large model; no port yet is no sign of age.
        """
        if self.scope.force:
            return
        for candidate in list(self.plan.targets.values()):
            process = candidate.process
            unit = policy.managing_unit(process)
            if not policy.launcher(process) or policy.named(process, self.scope) or (unit in self.scope.units):
                continue
            family = [process.pid, *self._below(process.pid)]
            if any(self.table[pid].zombie and policy.titled(self.table[pid]) for pid in family if pid in self.table):
                continue  # a scheduler of it is dead: what still answers serves nobody
            if any(
                policy.named(self.plan.targets[pid].process, self.scope) for pid in family if pid in self.plan.targets
            ):
                continue
            url = self.host.answers(process)
            age = self.host.age(process)
            if url is None and (unit is not None or age >= STARTING_S):
                continue
            why = (
                f"a live server: {url} answers" if url else f"a start in progress: PID {process.pid} is {age:.0f} s old"
            )
            for pid in family:
                one = self.plan.targets.pop(pid, None)
                if one is not None:
                    one.verdict = replace(one.verdict, kind=BLOCKER, why=why)
                    self.plan.blockers[pid] = one

    def _is_top(self, process: Process) -> bool:
        return not any(pid in self.plan.targets for pid in self._above(process))


def uses_mps(plan: Plan) -> list[Candidate]:
    return [candidate for candidate in plan.targets.values() if candidate.mps]
