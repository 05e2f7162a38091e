# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The watch: follows one start until it is ready, failed, stalled, stopped or out of time.

It waits on the output and on the processes at once, so that a death or a fatal line is answered within a fraction of a
second. It never touches the server: whoever ends the watch leaves the server as it is.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from . import causes, evidence, readiness, unit
from .analysis import Analysis
from .life import Life, stuck
from .phases import STALL_S
from .readiness import Probe, Readiness
from .sources import Piece, Source
from .verdict import Facts, Verdict, conclude

TICK_S = 0.05  # between two looks at the output where nothing wakes the watch
LOOK_S = 1.0  # between two looks at the processes
STATE_S = 2.0  # between two questions to systemd
GRACE_S = 1.5  # a fatal line is followed by more words of the same failure; silence or death ends the wait sooner
QUIET_S = 0.1
DEAD_GRACE_S = 1.0  # a dead scheduler under a living parent: the parent's words come first
LEAVING_S = 0.2  # between two looks at a unit that is being stopped
BUSY_FACTOR = 4.0  # silence with signs of life is given so much more time
QUIET_STACK_S = 30.0  # a start that ran out of time is not called stuck before it was silent for so long


@dataclass(frozen=True)
class Options:
    """What the caller wants."""

    unit: str
    timeout_s: float = 1800.0
    stall_s: dict[str, float] = field(default_factory=dict)
    host: str = ""
    port: int = 0
    served_name: str = ""
    api_key: str = ""
    state_dir: str = ""
    first_invocation: str = ""
    since: float | None = None  # when this start began, in seconds since boot


@dataclass(frozen=True)
class Report:
    """Where the start is, for people."""

    phase: str
    seconds: float
    phase_seconds: float
    progress: str
    outcome: str = ""


class Watch:
    """One start. ``state`` asks for the unit, ``source`` gives its output."""

    def __init__(
        self,
        options: Options,
        source: Source,
        state: Callable[[], unit.State],
        report: Callable[[Report], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        facts: Facts | None = None,
        probe: Callable[[Probe, set[int], bool], Readiness] | None = None,
        processes: Callable[[str], unit.Processes] = unit.Processes,
        outside: Callable[[evidence.Start], evidence.Outside] | None = None,
    ) -> None:
        self.options = options
        self.source = source
        self.ask_state = state
        self.report = report or (lambda _report: None)
        self.clock = clock
        self.wall = wall
        self.base_facts = facts or Facts()
        self.ask_probe = probe or (lambda one, pids, health: one.look(pids, health))
        self.analysis = Analysis()
        self.state = state()
        self.invocation = self.state.invocation_id
        self.processes = processes(self.state.control_group)
        self.began = clock()
        self.began_wall = wall()
        self.heard_at = self.began
        self.fatal_at: float | None = None
        self.dead_at: float | None = None
        self.last_look = 0.0
        self.last_state = self.began
        self.life = Life(self.processes, self._gpu_mib)
        self.health_at = 0.0
        self.health: Readiness | None = None
        self.phase_since = self.began
        self.phase = ""
        self.host_oom_before = unit.host_kills() if self.state.running else None
        self.oom_before = self.oom_seen = (
            unit.memory_events(self.state.control_group) if self.state.control_group else None
        )
        self.ready_facts: dict[str, Any] = {}
        self.foreign: Readiness | None = None
        self.asked_to_stop = False
        self.tls = False  # known from what it prints, else from its first answer
        self.open_outside = outside
        self._outside: evidence.Outside | None = None

    # -- the loop ---------------------------------------------------------------------------------------------

    def run(self) -> Verdict:
        """Watch until there is a verdict."""
        causes.warm()
        try:
            while True:
                verdict = self.step()
                if verdict is not None:
                    return verdict
                self._wait()
        finally:
            self.processes.close()
            self.source.close()
            if self._outside is not None:
                self._outside.close()

    def step(self) -> Verdict | None:
        """Read what there is, look at what is there, decide."""
        now = self.clock()
        heard = self._take(self.source.read(), now)
        if now - self.last_look >= LOOK_S or heard:
            self._look(now)
        verdict = self._decide(now)
        if verdict is None:
            self._tell(now)
        return verdict

    def _wait(self) -> None:
        poll = select.poll()
        descriptor = self.source.fileno()
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        for one in self.processes.descriptors():
            poll.register(one, select.POLLIN)
        poll.poll(1000 * (TICK_S if descriptor is None or self.fatal_at is not None or self.analysis.ready else 0.25))

    def _take(self, parts: list[Piece], now: float) -> bool:
        for data, moment in parts:
            self.analysis.feed(data, moment)
        if parts:
            self.heard_at = now
            self.life.heard()
        return bool(parts)

    def _look(self, now: float) -> None:
        if now - self.last_look < 0.2 and self.last_look:
            return
        self.last_look = now
        self.processes.watch_main(self.state.main_pid)
        self.processes.look()
        if self.state.control_group:
            seen = unit.memory_events(self.state.control_group)
            self.oom_seen = self.oom_seen if seen is None else seen
        self.life.look(now, now - self.heard_at, self._limit())
        if now - self.last_state >= STATE_S:
            self._refresh(now)

    def _refresh(self, now: float) -> None:
        self.last_state = now
        self.state = self.ask_state()

    def _tell(self, now: float) -> None:
        phase = self.analysis.tracker.slowest()
        if phase != self.phase:
            self.phase, self.phase_since = phase, now
        progress = self.analysis.progress
        text = ""
        if (
            progress
            and progress.get("what")
            and phase in ("load_weights", "graph_capture", "compile", "args", "import", "init_distributed")
        ):
            text = (
                "%s %d %%" % (progress["what"], progress["percent"])
                if progress["what"] in ("weights", "download")
                else "%s %d/%d" % (progress["what"], progress["done"], progress["total"])
            )
        self.report(Report(phase, now - self.began, now - self.phase_since, text))

    # -- decisions --------------------------------------------------------------------------------------------

    def _decide(self, now: float) -> Verdict | None:
        main = self.state.main_pid
        if self.state.active == "deactivating" and self.state.invocation_id == self.invocation:
            return self._leaving(now)
        if (main and self.processes.ended(main)) or not self.state.running:
            self._refresh(now)
            if self.state.active == "deactivating":
                return self._leaving(now)
            if not self.state.running or self.state.invocation_id != self.invocation or self.state.main_pid != main:
                return self._dead()
        if self.state.invocation_id != self.invocation:
            return self._dead()
        verdict = self._ready(now)
        if verdict is not None:
            return verdict
        return self._fatal(now) or self._orphaned(now) or self._deadlines(now)

    def _leaving(self, now: float) -> Verdict | None:
        """The unit is being stopped: by its operator where the main process still lives, else because that one died."""
        if self.state.main_pid and not self.processes.ended(self.state.main_pid):
            # another result (oom-kill, watchdog): systemd itself stops what has failed
            self.asked_to_stop = self.asked_to_stop or self.state.result in ("success", "")
        elif not self.asked_to_stop and self.state.main_pid == 0:
            return self._dead()
        if now - self.last_state >= LEAVING_S:
            self._refresh(now)
        return None

    def _endpoint(self) -> Probe:
        known = self.analysis.tracker.options
        port = self.options.port or _int(known.get("port")) or 30000
        host = self.options.host or known.get("host") or "127.0.0.1"
        tls = self.tls or known.get("ssl_certfile", "None") not in ("", "None")
        return Probe(host, port, self.options.served_name, self.options.api_key, tls=tls)

    def _ready(self, now: float) -> Verdict | None:
        """Ready means servable: the marker of this kind of node, and the port of this server that answers."""
        analysis, tracker = self.analysis, self.analysis.tracker
        if analysis.bind is not None or analysis.crash is not None:
            return None
        if analysis.fatal is not None and analysis.ready is None:
            return None
        if analysis.ready is not None:
            if now - self.health_at < 0.1:
                return None
            self.health_at = now
            answer = self.ask_probe(self._endpoint(), set(self.processes.pids), False)
            if tracker.node_rank > 0 and not answer.listening:
                return self._good(answer)
            return self._judge(
                answer, answer.models_status in (200, 401, 403) or (tracker.node_rank > 0 and answer.listening)
            )
        # No marker: with a quiet log level there is none. The port decides, once it is open.
        if now - self.health_at < 2.0 or (
            tracker.phase in ("import", "args") and "server_args" in tracker.events and not self._quiet()
        ):
            return None
        if not (self._quiet() or now - self.heard_at > 10):
            return None
        self.health_at = now
        answer = self.ask_probe(self._endpoint(), set(self.processes.pids), True)
        return self._judge(answer, answer.health_status == 200)

    def _quiet(self) -> bool:
        return self.analysis.tracker.log_level in ("warning", "error", "critical")

    def _judge(self, answer: Readiness, good: bool) -> Verdict | None:
        self.tls = self.tls or answer.tls
        if answer.owner == "foreign":
            self.foreign = answer
            if self.analysis.ready is not None:
                return self._conclude("failed")
            return None
        if not answer.listening or not good:
            return None
        if not readiness.right_name(answer, self.options.served_name):
            self.ready_facts["served"] = list(answer.served or ())
            self.ready_facts["wanted"] = self.options.served_name
            return None
        return self._good(answer) if self._whole() else None

    def _whole(self) -> bool:
        """Whether the processes behind the port live and run: the launcher answers some requests without them."""
        self.processes.look()
        self.processes.corpses(self.state.main_pid)
        return not self.processes.dead() and not self.processes.halted()

    def _good(self, answer: Readiness) -> Verdict:
        self.ready_facts.pop("wanted", None)
        self.ready_facts["listener"] = answer.owner
        if answer.served is not None:
            self.ready_facts["served"] = list(answer.served)
        return self._conclude("ready")

    def _fatal(self, now: float) -> Verdict | None:
        """A line after which this start cannot become ready: say so as soon as its story is told."""
        if self.analysis.fatal is None and self.analysis.bind is None and self.analysis.crash is None:
            return None
        if self.fatal_at is None:
            self.fatal_at = now
        waited, silent = now - self.fatal_at, now - self.heard_at
        if waited < GRACE_S and silent < QUIET_S:
            return None
        self._take(self.source.read(), now)
        return self._conclude("failed")

    def _orphaned(self, now: float) -> Verdict | None:
        """A parent that lives on over dead schedulers."""
        if not self.processes.dead():
            self.dead_at = None
            return None
        if self.dead_at is None:
            self.dead_at = now
        if now - self.dead_at < DEAD_GRACE_S and self.state.running:
            return None
        self._take(self.source.finish(), now)
        return self._conclude("failed")

    def _deadlines(self, now: float) -> Verdict | None:
        if now - self.began >= self.options.timeout_s:
            return self._conclude("timeout")
        limit = self._limit()
        silent = now - self.heard_at
        if silent < limit:
            return None
        self.processes.look()
        signs = self.life.signs(now, silent)
        if signs and silent < BUSY_FACTOR * limit:
            return None
        self.ready_facts["silent_s"] = round(silent, 1)
        self.ready_facts["busy"] = bool(signs)
        self.ready_facts["signs_of_life"] = signs
        return self._conclude("stalled")

    def _limit(self) -> float:
        """The silence after which the phase of the slowest rank counts as stalled."""
        phase = self.analysis.tracker.slowest()
        return self.options.stall_s.get(phase, STALL_S.get(phase, 600))

    # -- the end ----------------------------------------------------------------------------------------------

    def _dead(self) -> Verdict:
        now = self.clock()
        self._take(self.source.finish(), now)
        self.analysis.close()
        stopped = self.state.stopped or self.asked_to_stop
        stopped = stopped and self.analysis.fatal is None and self.analysis.bind is None
        return self._conclude("stopped" if stopped and self.analysis.crash is None else "failed")

    def _conclude(self, outcome: str) -> Verdict:
        dead = tuple("%s (pid %d)" % (title, pid) for pid, title in self.processes.gone.items())
        ended = not self.state.running
        facts = replace(
            self.base_facts,
            live=True,
            exit_code=self.state.exit_code if ended else None,
            signal=self.state.signal if ended else None,
            restarts=self.state.restarts,
            oom_kills=self._oom() if outcome == "failed" else None,
            dead_schedulers=dead if outcome == "failed" else (),
            alive=not ended,
            port_owners=self._owners,
            busy=bool(self.ready_facts.get("busy")),
            halted=tuple("%s (pid %d)" % (title, pid) for pid, title in self.processes.halted().items()),
        )
        if outcome == "stalled" or (outcome == "timeout" and self.clock() - self.heard_at >= QUIET_STACK_S):
            self.ready_facts.update(stuck(self.analysis, self.processes, self.state.main_pid, self._look_outside()))
        verdict = conclude(self.analysis, outcome, facts, self.wall())
        verdict = self._finished(verdict)
        return evidence.weigh(verdict, self._look_outside()) if evidence.wanted(verdict) else verdict

    def _look_outside(self) -> evidence.Outside | None:
        """What can be seen beside the log, made when it is needed first."""
        if self._outside is None and self.open_outside is not None:
            options = self.analysis.tracker.options
            self._outside = self.open_outside(
                evidence.Start(
                    unit=self.options.unit,
                    control_group=self.state.control_group or self.processes.control_group,
                    main_pid=self.state.main_pid,
                    since=self.options.since,
                    state_dir=self.options.state_dir,
                    pids=lambda: self.processes.seen,
                    alive=lambda: bool(self.processes.living()),
                    ranks=lambda: evidence.ranks(options),
                    model_path=lambda: options.get("model_path", ""),
                )
            )
        return self._outside

    def _gpu_mib(self) -> int | None:
        outside = self._look_outside()
        return None if outside is None else outside.gpu_mib()

    def _finished(self, verdict: Verdict) -> Verdict:
        detail = {**verdict.detail, **self.ready_facts}
        if (
            self.foreign is not None
            and verdict.outcome == "failed"
            and verdict.cause in (None, "unknown", "port_in_use", "scheduler_killed", "sglang_bug")
        ):
            row = causes.by_id()["port_in_use"]
            port = self._endpoint().port
            holders = list(self.foreign.foreign)
            detail.update(port=port, holders=holders)
            who = ", ".join("%s (pid %s)" % (one.get("comm", "?"), one["pid"]) for one in holders) or "another process"
            return replace(
                verdict,
                cause=row.id,
                message="Port %d is taken by %s." % (port, who),
                detail=detail,
                docs=causes.docs(row.id),
                remedies=[one.as_dict() for one in row.remedies],
                not_remedies=list(row.not_remedies),
                retryable=row.retryable,
            )
        return replace(verdict, detail=detail)

    def _oom(self) -> int | None:
        """How many processes the kernel killed for want of memory since the watch began; None where it is not known."""
        after = unit.memory_events(self.state.control_group) if self.state.control_group else None
        after = self.oom_seen if after is None else after
        kills = after - self.oom_before if after is not None and self.oom_before is not None else None
        if self.state.result == "oom-kill":  # systemd saw it where the control group is gone already
            kills = max(1, kills or 0)
        elif not kills and not self.state.running:  # what came after the last look went with the control group
            kills = 0 if unit.memory_is_watched() else self._oom_of_host()
        return kills

    def _oom_of_host(self) -> int | None:
        """As ``_oom``, by the host's counter: one that stands still is certain, another counts with a SIGKILL only."""
        after = unit.host_kills()
        if self.host_oom_before is None or after is None:
            return None
        kills = after - self.host_oom_before
        return kills if not kills or self.state.signal == 9 or self.processes.gone else None

    def _owners(self, port: int) -> list[dict[str, Any]]:
        who, foreign = readiness.owner(port, set(self.processes.pids))
        return foreign if who == "foreign" else []


def _int(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
