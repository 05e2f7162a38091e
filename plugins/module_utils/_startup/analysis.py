# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The stream of one server's output, followed: bytes in, and at any moment what can be known from them.

Incremental and of constant memory. ``Analysis`` knows nothing of processes or HTTP; ``verdict`` joins both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .failures import Collector, Failure, ends_launcher
from .lines import ONCE_TRIGGERS, Line, Raw, Splitter, is_request, parse, pieces, wanted
from .phases import Tracker

TAIL_BYTES = 64 * 1024
RUN_LIMIT = 50
SHAPE_BYTES = 400
SHAPES = 2048
NUMBERS = b"0123456789abcdefABCDEF"  # hexadecimal ones too

# What the launcher of a node with another rank than 0 tells of its scheduler, before it ends with 0. Not of one that
# ended well, or by SIGTERM or SIGINT: so does a stop.
NODE_DEATH = r"DataParallelController \d+ terminated with (?!0\b|-15\b|-2\b)-?\d"
# Lines after which this start cannot become ready any more.
FATAL = re.compile(
    r"[Rr]eceived sigquit from a child|scheduler is dead|died during initialization|SIGQUIT received|"
    r"error: (?:unrecognized arguments|argument |the following arguments|ambiguous option)|"
    r"error while attempting to bind on address|Initialization failed\.|Fatal Python error|terminate "
    r"called|core dumped|"
    r"hit an exception|Subprocess \S+ \(pid=\d+\) crashed|Watchdog timeout|Launch failed\.|"
    r"command not found|No module named '?sglang(?:$|\.)|^Killed$|include_parent=True|unexpectedly "
    r"failed with an exit code|"
    r"Caught signal \d|can't open file .{0,200}launch|\bexec: -|Child process unexpectedly|" + NODE_DEATH
)
BIND = re.compile(r"error while attempting to bind on address")
# After these the server ends because somebody asked it to.
STOP = re.compile(r"SIGTERM received|Gracefully exiting|Shutting down$|Received signal (?:15|SIGTERM)")
CRASH_AFTER_READY = re.compile(
    r"[Rr]eceived sigquit from a child|SIGQUIT received|scheduler is dead|Subprocess \S+ \(pid=\d+\) "
    r"crashed|hit an exception|"
    r"Fatal Python error|terminate called|core dumped|Watchdog timeout|Watchdog caught|^Killed$|"
    r"unexpectedly failed with an exit code|"
    r"include_parent=True|" + NODE_DEATH
)


_STARTING = {
    "server_args",
    "distributed_begin",
    "load_begin",
    "listening",
    "application",
    "warmup_poll",
    "prefill",
    "server_process",
    "tokens",
}


# Every expression above holds one of these words; looked for before them, which are slower.
_DECIDING_WORDS = (
    "igquit", "is dead", "died", "SIGQUIT", "error: ", "bind on", "nitialization failed", "Fatal", "terminate",
    "core dumped", "hit an exception", "crashed", "Watchdog", "Launch failed", "not found", "No module", "Killed",
    "include_parent", "unexpectedly", "Caught signal", "can't open", "exec: ", "SIGTERM", "Gracefully",
    "Shutting down", "Received signal",
)  # fmt: skip
_ONCE = dict(zip(("warmup_poll", "prefill", "generated"), ONCE_TRIGGERS))


@dataclass
class Mark:
    """A line that decides something."""

    text: str
    offset: int
    number: int
    rank: str


@dataclass
class Run:
    """What is kept of an earlier start in the same stream."""

    outcome: str
    failures: list[Failure]
    tracker: Tracker
    number: int


@dataclass
class Analysis:
    """See the module. ``began_at`` is the moment of the start, on the clock of the caller."""

    splitter: Splitter = field(default_factory=Splitter)
    tracker: Tracker = field(default_factory=Tracker)
    collector: Collector = field(default_factory=Collector)
    fatal: Mark | None = None
    bind: Mark | None = None
    ready: Mark | None = None
    crash: Mark | None = None
    stop: Mark | None = None
    runs: list[Run] = field(default_factory=list)
    lines_seen: int = 0
    last_line: str = ""
    _tail: bytearray = field(default_factory=bytearray)
    _dull: set[bytes] = field(default_factory=set)

    def feed(self, data: bytes, now: float | None = None) -> None:
        """Take some bytes; ``now`` stamps lines that carry no time."""
        self._tail += data[-TAIL_BYTES:]
        if len(self._tail) > 4 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        for raw in self.splitter.feed(data):
            self._raw(raw, now)

    def close(self, now: float | None = None) -> None:
        """The stream has ended: read the line that has no end."""
        for raw in self.splitter.close():
            self._raw(raw, now)

    @property
    def tail(self) -> bytes:
        return bytes(self._tail[-TAIL_BYTES:])

    @property
    def progress(self) -> dict[str, Any]:
        return self.tracker.progress

    def _raw(self, raw: Raw, now: float | None) -> None:
        if self.splitter.everything and not self.collector.busy and not wanted(raw.data, self.splitter.triggers):
            return
        if is_request(raw.data):
            return
        self.lines_seen += 1
        shape = None
        if not self.collector.busy and len(raw.data) <= SHAPE_BYTES:
            # Noise repeats itself but for its numbers: what told nothing once tells nothing again.
            shape = raw.data.translate(None, NUMBERS)
            if shape in self._dull:
                return
        before = self._told()
        for line in pieces(parse(raw)):
            self._line(line, now)
        self.splitter.everything = self.collector.busy
        if shape is not None and self._told() == before and b"HTTP/" not in shape and b"%" not in shape:
            if len(self._dull) >= SHAPES:
                self._dull.clear()
            self._dull.add(shape)

    def _told(self) -> tuple[object, ...]:
        """Changes whenever a line told something."""
        collector, tracker = self.collector, self.tracker
        return (
            len(collector.failures),
            collector.discarded,
            collector.busy,
            collector.chains,
            len(tracker.memory),
            len(tracker.ranks),
            tracker.told,
            self.fatal,
            self.bind,
            self.ready,
            self.crash,
            self.stop,
            len(self.runs),
        )

    def _line(self, line: Line, now: float | None) -> None:
        if not line.text.strip():
            if self.collector.busy:
                self.collector.feed(line, self._where)
            return
        if "server_args=" in line.text[:300] and self._ended():
            self._new_run(line)
        event = self.tracker.feed(line, now)
        if event == "server_args":
            return
        if event is not None:
            self.last_line = line.text[:300]
            self._event(event, line)
            if event in _ONCE:
                self.splitter.forget(_ONCE[event])
        # A mark of a phase is no part of a traceback, except where the words stand inside of one.
        if event is None or line.text.lstrip().startswith(("File ", "Traceback")) or "rror" in line.text:
            failure = self.collector.feed(line, self._where)
            if failure is not None and self.ready is None and self.fatal is None and ends_launcher(failure):
                self.fatal = Mark(line.text[:2000], line.offset, line.number, line.rank)
        self._marks(line)

    def _event(self, event: str, line: Line) -> None:
        if self.ready is not None:
            return
        seen = self.tracker.events
        mark = Mark(line.text[:2000], line.offset, line.number, line.rank)
        if event == "fired_up" and self.bind is None:
            if not self.tracker.skip_warmup or "listening" in seen:
                self._ready(mark)
        elif event == "listening" and self.bind is None:
            if self.tracker.old or (self.tracker.skip_warmup and "fired_up" in seen):
                self._ready(mark)
        elif event == "generated" and not _STARTING.intersection(seen):
            self._ready(mark)  # the log begins when the server already answered
        elif event == "health_server":
            self._ready(mark)

    def _ready(self, mark: Mark) -> None:
        self.ready = mark
        self.tracker.phase = "runtime"
        self.splitter.quieten()

    def _marks(self, line: Line) -> None:
        text = line.text
        if not any(word in text for word in _DECIDING_WORDS):
            return
        mark = Mark(text[:2000], line.offset, line.number, line.rank)
        if self.stop is None and STOP.search(text):
            self.stop = mark
        if self.bind is None and BIND.search(text):
            self.bind = mark
        if self.ready is None:
            if self.fatal is None and FATAL.search(text):
                self.fatal = mark
        elif self.crash is None and CRASH_AFTER_READY.search(text):
            self.crash = mark

    def _where(self, rank: str) -> tuple[str, bool, bool]:
        return self._phase(rank), self._drafting(rank), self.ready is not None

    def _phase(self, rank: str) -> str:
        if self.ready is not None:
            return "runtime"
        known = self.tracker.ranks.get(rank)
        if known is None or not rank:
            return self.tracker.phase
        return known.phase

    def _drafting(self, rank: str) -> bool:
        known = self.tracker.ranks.get(rank)
        if known is None or self.tracker.options.get("speculative_algorithm") == "None":
            return False
        return known.loads_begun >= 2 and known.loads_ended >= 1

    def _ended(self) -> bool:
        return self.ready is not None or self.fatal is not None or self.bind is not None

    def _new_run(self, line: Line) -> None:
        """A server starts in a stream in which another one ended: nothing of that one counts any more."""
        if len(self.runs) < RUN_LIMIT:
            outcome = "ready" if self.ready is not None and self.crash is None else "failed"
            self.runs.append(Run(outcome, self.collector.failures, self.tracker, line.number))
        self.tracker, self.collector = Tracker(), Collector()
        self.fatal = self.bind = self.ready = self.crash = self.stop = None
        self.splitter.restart()
        self._dull.clear()
