# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that turns: processes that live, die, are reused and hold GPU memory, a driver that reports them, a clock.

The release under test sees it through the same calls as a real host. Signals are kept with the process that got them
and not with its number, so a test can say who was hit.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any, Callable

from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import model, query
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.model import Entry, Gpu, MigDevice, Snapshot
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.policy import Scope
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.release import Release, Request
from ansible_collections.llmhost.sglang.plugins.module_utils._process.identity import (
    Process,
    container_of,
    unit_of,
)

EXIT, IGNORE, STUCK = "exit", "ignore", "stuck"
LOOK_S = 0.02


@dataclass(eq=False)
class Proc:
    """One process. ``on_term`` and ``on_kill``: exit, ignore, stuck, or seconds until it exits."""

    pid: int
    comm: str
    cmdline: str
    start: int
    uid: int = 0
    ppid: int = 1
    cgroup: str = "/"
    state: str = "S"
    group: tuple[int, int] = (0, 0)
    memory: dict[str, int | None] = field(default_factory=dict)  # GPU -> MiB
    kinds: tuple[str, ...] = ("compute",)
    instance: int | None = None
    listed: bool = True
    on_term: Any = EXIT
    on_kill: Any = EXIT
    files: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    health: str | None = None
    reaped: bool = True  # False: it stays a zombie when it exits
    alive: bool = True
    zombie: bool = False  # dead, not reaped
    zombie_leader: bool = False  # its first thread is dead, others live
    on_exit: Callable[[], None] | None = None
    report: int | None = None
    wchan: str | None = None
    age: float = 86400.0
    on_mps: Any = "stay"  # what it does when MPS let go of it: stay, exit; "held" where MPS does not
    drained: bool = False  # MPS let go of it

    @property
    def present(self) -> bool:
        return self.alive or self.zombie

    def process(self) -> Process:
        return Process(
            pid=self.pid,
            start_time=self.start,
            uid=self.uid,
            comm=self.comm[:15],
            cmdline=self.cmdline,
            state="Z" if self.zombie or self.zombie_leader else self.state,
            ppid=self.ppid,
            cgroup=self.cgroup,
            unit=unit_of(self.cgroup),
            container=container_of(self.cgroup),
            ns_pid=[self.pid],
        )


@dataclass
class Card:
    uuid: str
    index: int
    total: int = 81559
    reserved: int = 500
    base: int = 4
    name: str = "NVIDIA H100 80GB HBM3"
    release_s: float = 0.0
    recovery: str | None = "none"
    lost: bool = False
    addressing: str | None = "none"
    memory_note: str = ""
    no_memory: bool = False
    entries_refused: bool = False
    util: int = 0
    migs: tuple[MigDevice, ...] = ()
    extra: list[Entry] = field(default_factory=list)  # entries that the driver tells besides
    orphan: int = 0
    util_idle: int = 0


class FakeHandle:
    """Bound to one process and not to its number."""

    def __init__(self, world: World, proc: Proc) -> None:
        self.world = world
        self.proc = proc
        self.process = proc.process()
        self.closed = False

    @property
    def pid(self) -> int:
        return self.process.pid

    def exited(self) -> bool:
        return not self.proc.alive

    def send(self, number: int) -> bool:
        if self.closed:
            raise AssertionError("a closed handle was used")
        if not self.proc.alive:
            return False
        if self.world.euid_ and self.world.euid_ != self.proc.uid:
            raise PermissionError(1, "Operation not permitted")
        self.world.signal(self.proc, signal.Signals(number))
        return True

    def close(self) -> None:
        self.closed = True


class World:
    """Host and driver in one; ``time`` runs only where somebody sleeps, waits or looks."""

    def __init__(self, cards: int = 1, driver: str = "580.65.06", nested: bool = False) -> None:
        self.time = 1000.0
        self.cards = {f"GPU-{index:08x}-0000": Card(f"GPU-{index:08x}-0000", index) for index in range(cards)}
        self.driver = driver
        self.nested = nested
        self.procs: list[Proc] = []
        self.signals: list[tuple[float, Proc, signal.Signals]] = []
        self.charged: list[tuple[str, int, float]] = []  # memory of the dead: GPU, MiB, until
        self.events: list[tuple[float, Callable[[], None]]] = []
        self.ticks = 100
        self.euid_ = 0
        self.active_units: set[str] = set()
        self.stopped: list[str] = []
        self.stop_fails = False
        self.mps: str | None = None
        self.looks = 0
        self.closed = 0
        self.failing: LlmHostError | None = None
        self.paths: set[str] = set()
        self.handles: list[FakeHandle] = []
        self.add("systemd", "/sbin/init", pid=1, ppid=0)
        self.me = self.add("python3", "/usr/bin/python3 AnsiballZ_gpu_clean.py", pid=900, ppid=899)
        self.shell = self.add("bash", "bash -c ansible sglang.launch_server", pid=899, ppid=898)
        self.sshd = self.add("sshd", "sshd: root@notty", pid=898, ppid=1)

    # -- building -----------------------------------------------------------------------------------------------

    def add(
        self,
        comm: str,
        cmdline: str | None = None,
        pid: int | None = None,
        gpu: int | None = None,
        mib: int | None = 0,
        **more: Any,
    ) -> Proc:
        self.ticks += 7
        pid = pid if pid is not None else 2000 + self.ticks
        proc = Proc(pid=pid, comm=comm, cmdline=cmdline if cmdline is not None else comm, start=self.ticks, **more)
        if gpu is not None:
            proc.memory = {self.uuid(gpu): mib}
        if proc.group == (0, 0):
            proc.group = (pid, pid)
        self.procs.append(proc)
        return proc

    def scheduler(self, gpu: int = 0, mib: int | None = 60000, rank: str = "_TP0", **more: Any) -> Proc:
        return self.add("sglang::schedul", f"sglang::scheduler{rank}", gpu=gpu, mib=mib, **more)

    def launcher(self, **more: Any) -> Proc:
        more.setdefault("cmdline", "/opt/x/bin/python -m sglang.launch_server --model-path /m --port 30000")
        return self.add("python", **more)

    def uuid(self, index: int) -> str:
        return next(uuid for uuid, card in self.cards.items() if card.index == index)

    def card(self, index: int = 0) -> Card:
        return self.cards[self.uuid(index)]

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        self.events.append((self.time + seconds, event))

    # -- living -------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        end = self.time + seconds
        while True:
            due = sorted((when, index) for index, (when, _event) in enumerate(self.events) if when <= end)
            if not due:
                break
            when, event = self.events.pop(due[0][1])
            self.time = max(self.time, when)
            event()
        self.time = end

    def exit(self, proc: Proc) -> None:
        if not proc.alive:
            return
        proc.alive = False
        proc.zombie = not proc.reaped
        for uuid, size in proc.memory.items():
            if size and not proc.drained:
                self.charged.append((uuid, size, self.time + self.cards[uuid].release_s))
        for child in self.procs:
            if child.ppid == proc.pid and child.present:
                child.ppid = 1
                if child.zombie:
                    child.zombie = False  # init reaps it
        if proc.on_exit:
            proc.on_exit()

    def signal(self, proc: Proc, number: signal.Signals) -> None:
        self.signals.append((self.time, proc, number))
        how = proc.on_term if number == signal.SIGTERM else proc.on_kill
        if callable(how):
            how()
        elif how == EXIT:
            self.exit(proc)
        elif isinstance(how, (int, float)):
            self.at(how, lambda: self.exit(proc))

    def got(self, proc: Proc) -> list[str]:
        return [number.name for _time, hit, number in self.signals if hit is proc]

    def find(self, pid: int) -> Proc:
        for proc in reversed(self.procs):
            if proc.pid == pid and proc.present:
                return proc
        raise ProcessLookupError(3, "no such process")

    # -- the host -----------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def age(self, process: Process) -> float:
        return self.find(process.pid).age

    def euid(self) -> int:
        return self.euid_

    def own(self) -> set[int]:
        found, pid = set(), self.me.pid
        while pid > 0 and pid not in found:
            found.add(pid)
            try:
                pid = self.find(pid).ppid
            except ProcessLookupError:
                break
        return found

    def pid_max(self) -> int:
        return 32768

    def pids(self) -> list[int]:
        return sorted({proc.pid for proc in self.procs if proc.present})

    def read(self, pid: int) -> Process:
        return self.find(pid).process()

    def group(self, pid: int) -> tuple[int, int]:
        return self.find(pid).group

    def open(self, pid: int) -> FakeHandle:
        handle = FakeHandle(self, self.find(pid))
        self.handles.append(handle)
        return handle

    def wait(self, handles: Any, timeout_s: float) -> list[Any]:
        end = self.time + timeout_s
        while any(handle.proc.alive for handle in handles) and self.time < end:
            following = min((when for when, _event in self.events), default=end)
            self.advance(max(0.0, min(end, following) - self.time) or 0.001)
        return [handle for handle in handles if handle.proc.alive]

    def wait_channel(self, pid: int) -> str | None:
        return self.find(pid).wchan

    def holds(self, pid: int, devices: Any) -> bool:
        try:
            return bool(set(devices) & set(self.find(pid).files))
        except ProcessLookupError:
            return False

    def shared_memory(self, pid: int) -> set[str]:
        return set(self.find(pid).shared)

    def exists(self, path: str) -> bool:
        return path in self.paths

    def unit_active(self, process: Process) -> bool | None:
        from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import policy

        unit = policy.managing_unit(process)
        unknown = unit is None or process.container is not None or "/user@" in process.cgroup
        return None if unknown else unit in self.active_units

    def unit_is_active(self, unit: str) -> bool:
        return unit in self.active_units

    def stop_unit(self, unit: str, timeout_s: float) -> None:
        if self.stop_fails:
            raise LlmHostError("systemd_failed", "it would not")
        self.stopped.append(unit)
        self.active_units.discard(unit)
        for proc in list(self.procs):
            if proc.alive and unit_of(proc.cgroup) == unit and container_of(proc.cgroup) is None:
                self.exit(proc)

    def answers(self, process: Process) -> str | None:
        return self.find(process.pid).health

    def mps_control(self, command: str, timeout_s: float = 20.0) -> str | None:
        """The control daemon of the one MPS server whose PID ``mps`` holds."""
        self.advance(LOOK_S)
        if self.mps is None or command == "get_server_list":
            return self.mps
        clients = [proc for proc in self.procs if proc.alive and "mps" in proc.kinds and proc.memory]
        verb, _server, *client = command.split()
        if verb == "get_client_list":
            return "".join(f"{proc.pid}\n" for proc in clients if not proc.drained and self.mps.strip())
        for proc in clients:
            if [str(proc.pid)] == client and proc.on_mps != "held":
                proc.drained = True
                for uuid, size in proc.memory.items():
                    self.charged.append((uuid, size or 0, self.time + self.cards[uuid].release_s))
                if proc.on_mps == EXIT:
                    self.exit(proc)
        return ""

    # -- the driver ---------------------------------------------------------------------------------------------

    def used(self, card: Card, instance: int | None = None) -> int:
        live = [
            size
            for proc in self.procs
            if proc.alive and not proc.drained and (instance is None or proc.instance == instance)
            for uuid, size in proc.memory.items()
            if uuid == card.uuid and size
        ]
        dead = [size for uuid, size, until in self.charged if uuid == card.uuid and until > self.time]
        return card.base + card.orphan + sum(live) + (sum(dead) if instance is None else 0)

    def _entries(self, card: Card) -> tuple[Entry, ...] | None:
        if card.entries_refused:
            return None
        found = [
            Entry(
                proc.pid if proc.report is None else proc.report,
                proc.kinds,
                None if size is None or size < 0 else size,
                proc.instance,
            )
            for proc in self.procs
            if (proc.alive or (proc.zombie and proc.listed == "zombie")) and proc.listed and not proc.drained
            for uuid, size in proc.memory.items()
            if uuid == card.uuid
        ]
        return model.merged(found + card.extra)

    def _memory(self, card: Card) -> model.Memory:
        if card.no_memory:
            return model.Memory(note=card.memory_note or model.NO_OWN_MEMORY)
        used = self.used(card)
        return model.memory(card.total, used, card.total - used - card.reserved, card.reserved)

    def look(self) -> Snapshot:
        self.looks += 1
        self.advance(LOOK_S)
        if self.failing is not None:
            raise self.failing
        gpus = []
        for card in self.cards.values():
            if card.lost:
                errors = ({"call": "handle", "reason": "gpu_lost", "message": "the GPU fell off the bus (Xid 79)"},)
                gpus.append(
                    Gpu(card.index, card.uuid, card.name, memory=model.Memory(note="lost"), entries=None, errors=errors)
                )
                continue
            clients = self._entries(card)
            gpus.append(
                Gpu(
                    index=card.index,
                    uuid=card.uuid,
                    name=card.name,
                    minor=card.index,
                    memory=self._memory(card),
                    entries=clients,
                    utilization=card.util if clients else card.util_idle,
                    mig_mode=bool(card.migs) or None,
                    mig_devices=tuple(
                        MigDevice(
                            d.index,
                            d.uuid,
                            d.gpu_instance,
                            0,
                            model.memory(
                                d.memory.total,
                                self.used(card, d.gpu_instance) - card.base - card.orphan,
                                (d.memory.total or 0) - self.used(card, d.gpu_instance) + card.base + card.orphan,
                                0,
                            ),
                        )
                        for d in card.migs
                    ),
                    addressing_mode=card.addressing,
                    recovery_action=card.recovery,
                )
            )
        return Snapshot("world", "", self.driver, "13.0", tuple(gpus))

    def used_memory(self, uuids: list[str]) -> dict[str, model.Memory]:
        self.advance(0.001)
        if self.failing is not None:
            raise self.failing
        return {uuid: self._memory(self.cards[uuid]) for uuid in uuids}

    def capabilities(self, uuids: list[str]) -> dict[str, str]:
        return {}

    def device_files(self, minor: int | None) -> list[str]:
        return query.device_files(minor)

    def close(self) -> None:
        self.closed += 1


@dataclass
class Outcome:
    """What a run returned, success or failure."""

    result: dict[str, Any]
    reason: str | None
    message: str
    warnings: list[str]
    seconds: float

    @property
    def changed(self) -> bool:
        return bool(self.result["changed"])


def clean(
    world: World, tmp_path: Any, gpus: tuple[str, ...] = ("all",), scope: Scope | None = None, **more: Any
) -> Outcome:
    """Run a release in a world; every handle it opened must be closed afterwards."""
    request = Request(gpus=gpus, scope=scope or Scope(euid=world.euid_), lock_dir=str(tmp_path / "locks"), **more)
    release = Release(request, world, world.look, world)  # type: ignore[arg-type]
    start = world.time
    try:
        result, reason, message = release.run(), None, ""
    except LlmHostError as error:
        result, reason, message = error.details, error.reason, error.message
    left = [handle.pid for handle in world.handles if not handle.closed]
    if left:
        raise AssertionError(f"handles left open: {left}")
    return Outcome(result, reason, message, release.warnings, world.time - start)
