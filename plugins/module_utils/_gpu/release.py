# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Release GPUs and prove it: plan, leave MPS, stop units, SIGTERM, one SIGKILL, wait for the memory's baseline.

"The PIDs are gone" is not "the memory is back": it returns while the dying process closes the device, up to minutes
later. And a query that fails is never read as "clean".
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from .._errors import LlmHostError
from .._process.signals import Handle
from . import lock, mps, policy
from .choose import Target, choose, mixed
from .diagnosis import Evidence, diagnose
from .host import Host
from .model import GRAPHICS, Gpu, Memory, Snapshot
from .plan import Builder, Candidate, Plan, uses, uses_mps
from .policy import TOLERATED, Facts, Scope
from .query import Driver

POLL_S = 0.15  # memory, while it is above the baseline
SETTLE_S = 0.05  # memory, once it is at the baseline
LISTS_S = 1.0  # the process lists: the driver takes its locks for them
LATER_S, LISTS_LATER_S = 10.0, 2.0  # after so long the lists are asked for more rarely
TOP_PART = 2 / 3  # of the grace: the launcher alone; after it every process of the server
MPS_S = 10.0  # at least so long an MPS server may take to let go of a client
VANISHED_TRIES = 3  # looks, where a listed process ended before it was opened
GHOST_PERCENT = 90
MPS_CURE = (
    "Stop MPS in order ('echo quit | nvidia-cuda-mps-control') where its control daemon runs, or give this task its "
    "CUDA_MPS_PIPE_DIRECTORY (environment)"
)


@dataclass(frozen=True)
class Request:
    """What the task asked for."""

    gpus: tuple[str, ...]
    scope: Scope = field(default_factory=Scope)
    grace_s: float = 30.0
    timeout_s: float = 180.0
    baseline_mib: int | None = None
    slack_mib: int = 64
    settle_samples: int = 3
    check: bool = False
    lock_dir: str | None = None


@dataclass
class Row:
    """One target's numbers."""

    target: Target
    before_mib: int | None = None
    after_mib: int | None = None
    baseline_mib: int | None = None
    baseline_from: str = ""
    released_s: float | None = None
    problem: dict[str, str] | None = None
    unified: bool = False
    derived: bool = False  # the baseline is what tolerated clients hold, at each moment

    def as_dict(self) -> dict[str, Any]:
        return {
            "uuid": self.target.uuid,
            "index": self.target.gpu.index,
            "name": self.target.gpu.name,
            "before_mib": self.before_mib,
            "after_mib": self.after_mib,
            "baseline_mib": self.baseline_mib,
            "baseline_from": self.baseline_from,
            "released_s": None if self.released_s is None else round(self.released_s, 2),
            "problem": self.problem["message"] if self.problem else None,
        }


class Release:
    """One run. ``result`` is filled as it goes, so that a failure returns the same report as success."""

    def __init__(self, request: Request, driver: Driver, look: Callable[[], Snapshot], host: Host) -> None:
        self.request = request
        self.driver = driver
        self.look = look
        self.host = host
        self.rows: list[Row] = []
        self.plan = Plan()
        self.actions: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.history: dict[str, list[tuple[float, int]]] = {}
        self.changed = False
        self.shared: set[str] = set()  # files in /dev/shm of those that are stopped
        self.snapshot: Snapshot | None = None
        self._uses: dict[int, dict[str, list[Any]]] = {}

    # -- the report ---------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "changed": self.changed,
            "gpus": [row.as_dict() for row in self.rows],
            "targets": [plan.targets[pid].as_dict() for pid in sorted(plan.targets)],
            "stopped_units": list(plan.units),
            "actions": self.actions,
            "tolerated": [plan.tolerated[pid].as_dict() for pid in sorted(plan.tolerated)],
            "blockers": [plan.blockers[pid].as_dict() for pid in sorted(plan.blockers)],
            "zombies": [plan.zombies[pid].as_dict() for pid in sorted(plan.zombies)],
            "unknown": plan.unknown + plan.gone,
            "source": self.snapshot.source if self.snapshot else None,
            "simulated": self.snapshot.simulated if self.snapshot else None,
        }

    def _fail(self, reason: str, message: str, **details: Any) -> LlmHostError:
        return LlmHostError(reason, message, **{**self.report(), **details})

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        try:
            self.snapshot = self.look()
            targets = choose(self.snapshot, self.request.gpus)
            with self._locks(targets):
                self._run()
            return self.report()
        except LlmHostError as error:
            if "actions" in error.details:
                raise
            raise LlmHostError(error.reason, error.message, **{**self.report(), **error.details}) from None
        finally:
            self.plan.close()

    def _locks(self, targets: Sequence[Target]) -> contextlib.AbstractContextManager[None]:
        if self.request.check:
            return contextlib.nullcontext()
        names = [target.gpu.uuid or target.uuid for target in targets]
        return lock.hold(names, self.request.timeout_s, self.host.now, self.host.sleep, self.request.lock_dir)

    def _run(self) -> None:
        self._plan()
        self._refuse()
        if not self.plan.targets and not self.plan.units:
            if self.request.check:
                return
        elif self.request.check:
            self.changed = True
            return
        for candidate in self.plan.targets.values():
            self.shared |= self.host.shared_memory(candidate.process.pid)
        self._drain_mps()
        self._stop_units()
        self._terminate()
        self._kill()
        self._wait()
        self._after()

    # -- looking ------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Look and plan, again where a listed process ended in between."""
        for attempt in range(VANISHED_TRIES):
            snapshot = self.snapshot = self.look()
            self.warnings = list(snapshot.warnings)
            if self.driver.nested:
                self.warnings.append(
                    "this is a container (not the host's first PID namespace): processes outside it may use these GPUs "
                    "unseen, and only their memory shows. Run the task on the host that owns the GPUs (delegate_to)"
                )
            self.rows = [self._row(target) for target in choose(snapshot, self.request.gpus)]
            good = [row.target for row in self.rows if row.problem is None]
            for row in self.rows:
                if row.problem is None and row.target.gpu.entries is None:
                    row.problem = _problem(
                        "clients_unknown", f"{row.target.uuid}: the driver does not tell who uses it"
                    )
            builder = Builder(self.host, snapshot, good, self.request.scope, self.driver.nested)
            self.plan = builder.plan
            builder.build()
            if not (self.plan.gone or self.plan.invisible) or attempt + 1 == VANISHED_TRIES:
                break
            self.plan.close()
            self.host.sleep(POLL_S)
        self._uses = uses(snapshot, good)
        for row in self.rows:
            if row.problem is None:
                self._baseline(row)
        if mixed(snapshot) and any(word.strip().isdigit() for word in self.request.gpus):
            self.warnings.append(
                "this host has different GPU models, and an index here is not CUDA's index: name GPUs by UUID, and set "
                "CUDA_DEVICE_ORDER=PCI_BUS_ID"
            )

    def _row(self, target: Target) -> Row:
        row = Row(target, unified=target.gpu.unified)
        row.problem = _health(target.gpu)
        size = memory_of(target)
        row.before_mib = row.after_mib = size.used
        if row.problem is None and size.used is None and not row.unified:
            row.problem = _problem("memory_unknown", f"{target.uuid}: its memory is not known ({size.note})")
        return row

    def _baseline(self, row: Row) -> None:
        """What may stay in use: the memory of those who stay."""
        uuid = row.target.uuid
        if row.unified:
            row.baseline_from = "none: the GPU's memory is the host's, only processes count"
            self.warnings.append(
                f"uma_memory: {uuid} shares its memory with the host, so memory in use proves nothing; only processes "
                "were waited for"
            )
            return
        if self.request.baseline_mib is not None:
            row.baseline_mib, row.baseline_from = self.request.baseline_mib, "the task"
            return
        stay = [c.memory[uuid] for c in self.plan.tolerated.values() if uuid in c.memory]
        if None not in stay:
            row.derived = True
            row.baseline_mib = sum(size for size in stay if size is not None)
            row.baseline_from = f"{len(stay)} tolerated clients" if stay else "an idle GPU"
            return
        held = [c.memory[uuid] for c in self.plan.targets.values() if uuid in c.memory]
        if held and None not in held and row.before_mib is not None:
            row.baseline_mib = max(0, row.before_mib - sum(size for size in held if size is not None))
            row.baseline_from = "used before, less what is stopped (a tolerated client's memory is not known)"
            return
        known = sum(size for size in stay if size is not None)
        if row.before_mib is not None and row.before_mib <= known + self.request.slack_mib:
            row.baseline_mib, row.baseline_from = known, "used before: no more than the slack"
            return
        row.problem = _problem(
            "baseline_unknown",
            f"{uuid}: what tolerated clients hold is not known, so it cannot be told what must come back: set "
            "'baseline'",
        )

    # -- refusing -----------------------------------------------------------------------------------------------

    def _refuse(self) -> None:
        """All or nothing: who may not be stopped, or is not known, stops the whole run before any signal."""
        plan = self.plan
        if plan.unknown:
            reason = "pid_invisible" if plan.invisible else "unknown_client"
            first = plan.unknown[0]
            raise self._fail(
                reason,
                f"PID {first['pid']} uses {', '.join(first['gpus'])}, but who that is cannot be known here: "
                f"{first['problem']}. "
                "Nothing was signalled. Run the task on the host that owns the GPUs (delegate_to), as root",
            )
        if plan.blockers:
            what = "; ".join(
                f"PID {c.process.pid} ({c.process.comm}, user {c.process.uid}, {policy.home(c.process)}"
                f"{_sizes(c)}): {c.verdict.why}"
                for c in list(plan.blockers.values())[:5]
            )
            raise self._fail(
                "blocked",
                f"{len(plan.blockers)} process(es) on these GPUs may not be stopped, so nothing was: {what}. "
                "Stop them yourself, or name them ('units', 'match', 'vmid'), or leave them be ('exclude')",
            )
        served = mps.clients(self.host.mps_control) if uses_mps(plan) else {}
        for candidate in uses_mps(plan):
            if served is None or candidate.process.pid not in served:
                who = "no MPS control answers here" if served is None else "no MPS server knows it here"
                raise self._fail(
                    "mps_in_use",
                    f"PID {candidate.process.pid} is a client of MPS, and {who} to let go of it. Killing it could hang "
                    f"every client of the GPU; nothing was signalled. {MPS_CURE}",
                )
        fatal = [row for row in self.rows if row.problem]
        if fatal and len(fatal) == len(self.rows):
            raise self._unfit(fatal)

    def _unfit(self, rows: list[Row]) -> LlmHostError:
        problems = [row.problem for row in rows if row.problem]
        return self._fail(problems[0]["reason"], "; ".join(problem["message"] for problem in problems))

    # -- stopping -----------------------------------------------------------------------------------------------

    def _handles(self) -> list[Handle]:
        return [candidate.handle for candidate in self.plan.targets.values()]

    def _act(self, candidate: Candidate, name: str, outcome: str) -> dict[str, Any]:
        process = candidate.process
        identity = {"pid": process.pid, "start_time": process.start_time, "comm": process.comm, "uid": process.uid}
        action = {"pid": process.pid, "identity": identity, "signal": name, "outcome": outcome}
        self.actions.append(action)
        return action

    def _stop_units(self) -> None:
        for unit in self.plan.units:
            self.changed = True
            try:
                self.host.stop_unit(unit, self.request.timeout_s + self.request.grace_s)
            except LlmHostError as error:
                raise self._fail("unit_stop_failed", f"{unit} could not be stopped: {error.message}") from None

    def _send(self, candidate: Candidate, number: signal.Signals) -> None:
        try:
            sent = candidate.handle.send(number)
        except PermissionError:
            self._act(candidate, number.name, "not permitted")
            process = candidate.process
            raise self._fail(
                "not_permitted",
                f"we may not signal PID {process.pid} ({process.comm}) of user {process.uid}: run with become",
            ) from None
        self.changed = self.changed or sent
        self._act(candidate, number.name, "sent" if sent else "gone before")

    def _terminate(self) -> None:
        """SIGTERM to the top of each server, so that it drains and ends its children itself; then to the rest."""
        left = self.host.wait(self._handles(), 0.0)
        by_pid = self.plan.targets
        start = self.host.now()
        told: set[int] = set()
        for handle in left:
            if by_pid[handle.pid].top:
                self._send(by_pid[handle.pid], signal.SIGTERM)
                told.add(handle.pid)
        tops = [handle for handle in left if handle.pid in told]
        while left and self.host.now() < start + self.request.grace_s:
            late = self.host.now() >= start + self.request.grace_s * TOP_PART
            if late or not self.host.wait(tops, 0.0):
                for handle in left:
                    if handle.pid not in told:
                        self._send(by_pid[handle.pid], signal.SIGTERM)
                        told.add(handle.pid)
            end = start + self.request.grace_s
            left = self.host.wait(left, max(0.0, min(POLL_S, end - self.host.now())))
        self._outcomes("SIGTERM", left)

    def _outcomes(self, name: str, left: Sequence[Handle]) -> None:
        running = {handle.pid for handle in left}
        for action in self.actions:
            if action["signal"] == name and action["outcome"] == "sent":
                action["outcome"] = "still running" if action["pid"] in running else "exited"

    def _drain_mps(self) -> None:
        """Have the MPS servers let go of their clients, and see that they did: a signal before could hang all.

        Before units are stopped, too, for that ends in signals.
        """
        left = {candidate.process.pid: candidate for candidate in uses_mps(self.plan)}
        deadline = self.host.now() + max(self.request.grace_s, MPS_S)
        sent: dict[int, dict[str, Any]] = {}
        while left:
            served = mps.clients(self.host.mps_control)
            for pid, candidate in list(left.items()):
                if candidate.handle.exited() or (served is not None and pid not in served):
                    if pid in sent:
                        sent[pid]["outcome"] = "drained"
                    del left[pid]
                elif served is not None and pid not in sent:  # it lives, so the number is still its own
                    mps.terminate(self.host.mps_control, served[pid], pid)
                    self.changed = True
                    sent[pid] = self._act(candidate, "mps terminate_client", "sent")
            if left and (served is None or self.host.now() >= deadline):
                why = "the MPS control no longer answers" if served is None else "its MPS server did not let go of it"
                raise self._fail(
                    "mps_in_use",
                    f"PID {min(left)} is a client of MPS, and {why}. It was not signalled, for killing it could hang "
                    f"every client of the GPU. {MPS_CURE}",
                )
            if left:
                self.host.sleep(POLL_S)

    def _kill(self) -> None:
        """One SIGKILL through the same descriptors, to those that are still who they were."""
        left = self.host.wait(self._handles(), 0.0)
        if not left:
            return
        for handle in left:
            candidate = self.plan.targets[handle.pid]
            why = self._changed_since(candidate)
            if why:
                self._act(candidate, "SIGKILL", f"not sent: {why}")
            else:
                self._send(candidate, signal.SIGKILL)

    def _changed_since(self, candidate: Candidate) -> str | None:
        """Why a target may no longer be killed: it became somebody else, or what it is now is protected."""
        old = candidate.process
        try:
            new = self.host.read(old.pid)
        except ProcessLookupError:
            return None  # gone or going; the descriptor still means the old one alone
        if not new.same(old):
            return None
        if new.uid != old.uid:
            return f"its user changed from {old.uid} to {new.uid}"
        return policy.protected_by(new, self.request.scope.protected)

    # -- waiting ------------------------------------------------------------------------------------------------

    def _measure(self, whole: bool) -> dict[str, int | None]:
        """What is used of each target; with ``whole`` the process lists are looked at, too."""
        rows = [row for row in self.rows if row.problem is None]
        if not whole and not any(row.target.mig_uuid or row.target.gpu.mig_mode for row in rows):
            found = self.driver.used_memory([row.target.uuid for row in rows if not row.unified])
            return {uuid: size.used for uuid, size in found.items()}
        snapshot = self.look()
        fresh = {target.uuid: target for target in choose(snapshot, [row.target.uuid for row in rows])}
        missing = [row.target.uuid for row in rows if row.target.uuid not in fresh]
        if missing:
            raise LlmHostError("gpu_missing", f"{', '.join(missing)} vanished from the driver's answer")
        for row in rows:
            gone = _health(fresh[row.target.uuid].gpu)
            if gone:
                raise LlmHostError(gone["reason"], gone["message"])
            if fresh[row.target.uuid].gpu.entries is None:
                raise LlmHostError("clients_unknown", f"{row.target.uuid}: the driver no longer tells who uses it")
        self._uses = uses(snapshot, [fresh[row.target.uuid] for row in rows])
        self.snapshot = snapshot
        return {uuid: memory_of(target).used for uuid, target in fresh.items()}

    def _wait(self) -> None:
        """Until every target has ended, left the driver's lists, and the memory stayed at its baseline."""
        rows = [row for row in self.rows if row.problem is None]
        start = self.host.now()
        lists_at = start - LISTS_S
        good = 0
        while True:
            now = self.host.now()
            every = LISTS_LATER_S if now - start > LATER_S else LISTS_S
            last = good + 1 >= self.request.settle_samples
            whole = last or now - lists_at >= every
            used = self._measure(whole)
            running = self.host.wait(self._handles(), 0.0)
            clean = [self._at_baseline(row, used.get(row.target.uuid), start) for row in rows]
            listed = [pid for pid in self.plan.targets if pid in self._uses]
            if not whole and listed and not running and all(clean):  # only an old list speaks against it
                whole = bool(self._measure(True))
                listed = [pid for pid in self.plan.targets if pid in self._uses]
            if whole:
                lists_at = self.host.now()
                self._respawned()
            good = good + 1 if all(clean) and not running and not listed else 0
            if good >= self.request.settle_samples:
                self._outcomes("SIGKILL", [])
                return
            if self.host.now() - start >= self.request.timeout_s:
                self._outcomes("SIGKILL", running)
                raise self._timed_out(running, listed, start)
            self.host.sleep(SETTLE_S if good else POLL_S)

    def _at_baseline(self, row: Row, used: int | None, start: float) -> bool:
        if row.unified:
            row.released_s = self.host.now() - start
            return True
        if used is None:
            raise LlmHostError("memory_unknown", f"{row.target.uuid}: the driver no longer tells its memory")
        row.after_mib = used
        self.history.setdefault(row.target.uuid, []).append((self.host.now(), used))
        if row.derived:
            row.baseline_mib = self._staying(row.target.uuid)
        if used > (row.baseline_mib or 0) + self.request.slack_mib:
            row.released_s = None
            return False
        if row.released_s is None:
            row.released_s = self.host.now() - start
        return True

    def _staying(self, uuid: str) -> int:
        """What tolerated clients may hold now: nothing once they ended, and no more than at first but for a desktop."""
        total = 0
        for pid, candidate in self.plan.tolerated.items():
            first = candidate.memory.get(uuid)
            if first is None or pid not in self._uses or candidate.handle.exited():
                continue
            sizes = [entry.memory_mib for entry in self._uses[pid].get(uuid, [])]
            now = first if None in sizes else sum(size for size in sizes if size is not None)
            total += now if candidate.kinds == {GRAPHICS} else min(first, now)
        return total

    def _respawned(self) -> None:
        """A client that was not there before: somebody starts servers while we clean. It is not killed too."""
        known = self.plan.known()
        for pid in sorted(self._uses):
            if pid in known and not self._replaced(pid):
                continue
            try:
                process = self.host.read(pid)
            except OSError:
                continue  # gone again; if it stays listed, the next look says so
            kinds = frozenset(kind for entries in self._uses[pid].values() for entry in entries for kind in entry.kinds)
            facts = Facts(process, kinds, pid in self.host.own(), self.host.unit_active(process))
            if policy.classify(facts, self.request.scope).kind == TOLERATED:
                continue
            try:
                parent = self.host.read(process.ppid)
                by = f"PID {parent.pid} ({parent.comm}, unit {parent.unit})"
            except OSError:
                by = f"PID {process.ppid}"
            raise self._fail(
                "respawn",
                f"while the GPUs were released, PID {pid} ({process.comm}, unit {process.unit}, "
                f"{policy.home(process)}) began to use "
                f"{', '.join(sorted(self._uses[pid]))}; it was started by {by}. It was not signalled. Stop what "
                "starts it "
                "(unit, container, supervisor) first",
                respawned={**process.as_dict(), "parent": by},
            )

    def _replaced(self, pid: int) -> bool:
        """Whether the PID of a target that ended is now somebody else's."""
        candidate = self.plan.targets.get(pid)
        if candidate is None or self.host.wait([candidate.handle], 0.0):
            return False
        try:
            return not self.host.read(pid).same(candidate.process)
        except OSError:
            return False

    def _timed_out(self, running: Sequence[Handle], listed: Sequence[int], start: float) -> LlmHostError:
        over = {
            row.target.uuid: (row.after_mib or 0) - (row.baseline_mib or 0)
            for row in self.rows
            if row.problem is None and not row.unified and row.released_s is None
        }
        evidence = Evidence(
            seconds=self.host.now() - start,
            running=[self.plan.targets[handle.pid] for handle in running],
            listed=list(listed),
            over_mib=over,
            history=self.history,
            plan=self.plan,
            nested=self.driver.nested,
            snapshot=self.snapshot,
            slack_mib=self.request.slack_mib,
        )
        found = diagnose(evidence, self.host)
        return self._fail(found.reason, found.message, **found.details)

    # -- after --------------------------------------------------------------------------------------------------

    def _after(self) -> None:
        self._ghosts()
        left = sorted(path for path in self.shared if self.host.exists(path))
        if left:
            self.warnings.append(
                f"leftovers: those that were stopped left {len(left)} file(s) in shared memory, such as "
                f"{', '.join(left[:5])}; "
                "they were not deleted"
            )
        bad = [row for row in self.rows if row.problem]
        if bad:
            raise self._unfit(bad)

    def _ghosts(self) -> None:
        """A card that computes for nobody: what a hard kill of a running kernel can leave."""
        if not self.changed or self.snapshot is None:
            return
        for row in self.rows:
            gpu = next((gpu for gpu in self.snapshot.gpus if gpu.index == row.target.gpu.index), None)
            if gpu is None or gpu.entries or (gpu.utilization or 0) < GHOST_PERCENT:
                continue
            self.host.sleep(1.0)  # the number is that of the last moment: it is asked for once more
            again = next((other for other in self.look().gpus if other.index == gpu.index), None)
            if again is not None and (again.utilization or 0) >= GHOST_PERCENT and not again.entries:
                self.warnings.append(
                    f"ghost_utilisation: {row.target.uuid} is at {again.utilization} % with no client; "
                    "if it stays so, the GPU needs a reset"
                )


def memory_of(target: Target) -> Memory:
    """The memory that a target means: that of the GPU, of its MIG devices together, or of the one MIG device."""
    gpu = target.gpu
    if target.mig_uuid is not None:
        return next((d.memory for d in gpu.mig_devices if d.uuid == target.mig_uuid), Memory(note="it is gone"))
    if gpu.mig_mode and gpu.mig_devices and all(d.memory.used is not None for d in gpu.mig_devices):
        used = sum(d.memory.used or 0 for d in gpu.mig_devices)
        return Memory(gpu.memory.total, used, gpu.memory.free, gpu.memory.reserved)
    return gpu.memory


def _problem(reason: str, message: str) -> dict[str, str]:
    return {"reason": reason, "message": message}


def _health(gpu: Gpu) -> dict[str, str] | None:
    """Why a GPU is not fit to be used, whatever its memory says."""
    name = gpu.uuid or f"GPU {gpu.index}"
    for error in gpu.errors:
        if error["reason"] in ("gpu_lost", "reset_required", "driver_error"):
            return _problem(error["reason"], f"{name}: {error['message']}")
    if gpu.recovery_action not in (None, "none"):
        return _problem(
            "reset_required",
            f"{name}: the driver asks for the recovery action '{gpu.recovery_action}'; no server can use it before "
            "that. "
            "Stop what uses it and reset it, or reboot the host; nothing here resets a GPU. A reset is refused while "
            "anything "
            "holds the GPU: nvidia-persistenced, DCGM, a display, or the kernel's own nvidia_drm",
        )
    return None


def _sizes(candidate: Candidate) -> str:
    known = [size for size in candidate.memory.values() if size is not None]
    return f", {sum(known)} MiB" if known else ""
