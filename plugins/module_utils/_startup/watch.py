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

from . import causes, readiness, unit
from .analysis import Analysis
from .phases import STALL_S
from .readiness import Probe, Readiness
from .sources import Piece, Source
from .verdict import Facts, Verdict, conclude, mask

TICK_S = 0.05  # between two looks at the output where nothing wakes the watch
LOOK_S = 1.0  # between two looks at the processes
STATE_S = 2.0  # between two questions to systemd
GRACE_S = 1.5  # a fatal line is followed by more words of the same failure; silence or death ends the wait sooner
QUIET_S = 0.1
DEAD_GRACE_S = 1.0  # a dead scheduler under a living parent: the parent's words come first
LEAVING_S = 0.2  # between two looks at a unit that is being stopped
BUSY_FACTOR = 4.0  # silence with processor time or compilers is given so much more time
BUSY_SHARE = 0.02  # of one core, over the silence


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
        self.cpu_at_heard = 0.0
        self.health_at = 0.0
        self.health: Readiness | None = None
        self.phase_since = self.began
        self.phase = ""
        self.oom_before = self.oom_seen = (
            unit.memory_events(self.state.control_group) if self.state.control_group else None
        )
        self.ready_facts: dict[str, Any] = {}
        self.foreign: Readiness | None = None
        self.asked_to_stop = False

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
            self.cpu_at_heard = -1.0
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
        if self.cpu_at_heard < 0:
            self.cpu_at_heard = self.processes.cpu_seconds()
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
            self.asked_to_stop = True
        elif not self.asked_to_stop and self.state.main_pid == 0:
            return self._dead()
        if now - self.last_state >= LEAVING_S:
            self._refresh(now)
        return None

    def _endpoint(self) -> Probe:
        known = self.analysis.tracker.options
        port = self.options.port or _int(known.get("port")) or 30000
        host = self.options.host or known.get("host") or "127.0.0.1"
        return Probe(host, port, self.options.served_name, self.options.api_key)

    def _ready(self, now: float) -> Verdict | None:
        """Ready means servable: the marker of this kind of node, and the port of this server that answers."""
        analysis, tracker = self.analysis, self.analysis.tracker
        if analysis.bind is not None or (analysis.fatal is not None and analysis.ready is None):
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
        return self._good(answer)

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
        phase = self.analysis.tracker.slowest()
        limit = self.options.stall_s.get(phase, STALL_S.get(phase, 600))
        silent = now - self.heard_at
        if silent < limit:
            return None
        self.processes.look()
        busy = self.processes.compiling() or (
            self.cpu_at_heard >= 0 and self.processes.cpu_seconds() - self.cpu_at_heard > BUSY_SHARE * silent
        )
        if busy and silent < BUSY_FACTOR * limit:
            return None
        self.ready_facts["silent_s"] = round(silent, 1)
        self.ready_facts["busy"] = busy
        return self._conclude("stalled")

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
        oom_kills, oom_evidence = self._oom() if outcome == "failed" else (None, "")
        facts = replace(
            self.base_facts,
            live=True,
            exit_code=self.state.exit_code if ended else None,
            signal=self.state.signal if ended else None,
            restarts=self.state.restarts,
            oom_kills=oom_kills,
            oom_evidence=oom_evidence,
            dead_schedulers=dead if outcome == "failed" else (),
            alive=not ended,
            port_owners=self._owners,
        )
        verdict = conclude(self.analysis, outcome, facts, self.wall())
        return self._finished(verdict)

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
                docs=causes.DOCS + row.id,
                remedies=[one.as_dict() for one in row.remedies],
                not_remedies=list(row.not_remedies),
                retryable=row.retryable,
            )
        return replace(verdict, detail=detail)

    def _oom(self) -> tuple[int | None, str]:
        """How many processes the kernel killed for want of memory since the watch began, and its words."""
        after = unit.memory_events(self.state.control_group) if self.state.control_group else None
        after = self.oom_seen if after is None else after
        kills = after - self.oom_before if after is not None and self.oom_before is not None else None
        if self.state.result == "oom-kill":  # systemd saw it where the control group is gone already
            kills = max(1, kills or 0)
        elif kills is None and not self.state.running and unit.memory_is_watched():
            kills = 0
        if kills == 0 and not self.state.running and self.state.signal != 9 and not self.processes.gone:
            return kills, ""
        line = unit.kernel_kills(self.began_wall - 1)
        if line and not kills:
            kills = 1
        return kills, mask(line)

    def _owners(self, port: int) -> list[dict[str, Any]]:
        who, foreign = readiness.owner(port, set(self.processes.pids))
        return foreign if who == "foreign" else []


def _int(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
