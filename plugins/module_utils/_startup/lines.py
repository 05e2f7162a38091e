# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Bytes -> lines.

``Splitter`` cuts a stream of bytes at ``\\n`` and ``\\r``, whatever the size of the pieces in which it comes,
with bounded memory. It hands out only the lines that hold one of ``TRIGGERS`` (a log of a gigabyte is mostly
noise), or every line while its consumer sets ``everything`` (inside of a traceback).

``parse`` turns one raw line into a ``Line``: text without colours and without what journald, docker, Kubernetes,
Ray, torchrun or mpirun put before it, with the time and the rank that SGLang printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINE_LIMIT = 64 * 1024
SLICE = 128 * 1024  # of a block that is looked at in one go
SHAPE_LIMIT = 512  # longer lines are not remembered
SHAPES = 8192
DIGITS = b"0123456789"

# Every line that could matter holds one of these. Few and short, for each costs one pass over the log. What a running
# server can still tell comes first: once a server is ready, a log of gigabytes is searched for these alone.
RUNNING_TRIGGERS = (
    b"rror",
    b"xception",
    b"Traceback (",
    b"SIG",
    b"igquit",
    b"crashed",
    b"terminated with",
    b"core dumped",
    b"atchdog",
    b"Killed",
    b"process_tree",
    b"Gracefully",
    b".cpp:",
    b"OutOf",
    b"server_args=",
)
FAILURE_TRIGGERS = (
    b'File "',
    b"ERROR",
    b"atal",
    b"ailed",
    b"FAILED",
    b"annot",
    b"xit code",
    b"signal ",
    b"NOT connected",
    b"what()",
    b"undefined symbol",
    b"imed out",
    b"not found",
    b"exec: ",
    b"No module",
    b"No such file",
    b"Interrupt",
    b"leaked ",
    b"access fault",
    b"CRITICAL",
    b"ssertion",
    b"HSAIL",
    b"Killed process",
)
PHASE_TRIGGERS = (
    b" begin",
    b" end",
    b" Cache is alloc",
    b"max_total_num_tokens=",
    b"Uvicorn",
    b"pplication startup",
    b"server process",
    b"fired up",
    b"ummy health",
    b"%|",
    b"% Completed",
    b"init state",
    b"JIT ops",
    b"ompiling",
    b"nccl==",
    b"model_info",
    b"Prefill batch",
    b"POST /",
)
# Needed once: a server that answers prints a line of these for every request.
ONCE_TRIGGERS = (b"model_info", b"Prefill batch", b"POST /")
TRIGGERS = RUNNING_TRIGGERS + FAILURE_TRIGGERS + PHASE_TRIGGERS


# With --log-requests SGLang prints what its users write: their words are no words of the server.
REQUESTS = (b"Receive: obj=", b"Finish: obj=")
REQUEST_HEAD = 240


@dataclass(frozen=True)
class Raw:
    """One line as it came: the bytes up to ``\\n`` or ``\\r``, cut at the limit."""

    data: bytes
    offset: int
    number: int


@dataclass(frozen=True)
class Line:
    """One line, understood. ``source`` is the outer prefix (a container, a unit), ``rank`` like ``TP0``."""

    text: str
    offset: int = 0
    number: int = 0
    time: float | None = None
    rank: str = ""
    source: str = ""
    level: str = ""
    stamped: bool = False


def wanted(data: bytes, triggers: tuple[bytes, ...] = TRIGGERS) -> bool:
    """Whether a line holds a trigger, so that ``Splitter`` would hand it out."""
    return not is_request(data) and any(trigger in data for trigger in triggers)


def is_request(data: bytes) -> bool:
    """Whether a line holds what a user wrote."""
    head = data[:REQUEST_HEAD]
    return REQUESTS[0] in head or REQUESTS[1] in head


class Splitter:
    """Cuts a byte stream into lines; see the module. Feeding it byte by byte gives the same lines as at once."""

    def __init__(self, limit: int = LINE_LIMIT, everything: bool = False) -> None:
        self.limit = limit
        self.everything = everything
        self.triggers: tuple[bytes, ...] = TRIGGERS
        self.offset = 0  # of the first byte that is still held back
        self.number = 1  # of the line in which that byte lies
        self._held = b""
        self._dropped = 0  # bytes of the held line beyond the limit
        self._dull: set[bytes] = set()  # lines without their digits that hold no trigger

    @property
    def partial(self) -> bytes:
        """The line that has no end yet."""
        return self._held

    def quieten(self) -> None:
        """The server is ready: look only for what a running server can still tell."""
        self.triggers = RUNNING_TRIGGERS

    def forget(self, trigger: bytes) -> None:
        """Stop to look for one word; ``restart`` takes it up again."""
        self.triggers = tuple(one for one in self.triggers if one != trigger)

    def restart(self) -> None:
        self.triggers = TRIGGERS
        self._dull.clear()

    def feed(self, data: bytes) -> Iterator[Raw]:
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut:
            self._hold(data)
            return
        if self._dropped:  # the end of an over-long line: hand out its head, forget the rest
            first = _end(data, 0)
            yield from self._over_long(data, first)
            data, cut = data[first + 1 :], cut - first - 1
            if not cut:
                self._hold(data)
                return
        block = self._held + data[:cut] if self._held else data[:cut]
        self._held = b""
        pos, size = 0, len(block)
        while pos < size:
            end = size if size - pos <= SLICE else block.rfind(b"\n", pos, pos + SLICE) + 1 or size
            part = block[pos:end] if pos or end < size else block
            if self.everything or b"\r" in part:
                yield from self._lines(part)
            else:
                yield from self._repeated(part)
            pos = end
        self._hold(data[cut:])

    def close(self) -> Iterator[Raw]:
        """The end of the stream: hand out the line that has no end."""
        if self._held:
            yield from self._one(Raw(self._held, self.offset, self.number))
        self.offset += len(self._held) + self._dropped
        self._held, self._dropped = b"", 0

    def _hold(self, rest: bytes) -> None:
        if not rest:
            return
        room = self.limit - len(self._held)
        if room > 0:
            self._held += rest[:room]
        self._dropped += max(0, len(rest) - max(0, room))

    def _over_long(self, data: bytes, first: int) -> Iterator[Raw]:
        raw = Raw(self._held, self.offset, self.number)
        self.offset += len(self._held) + self._dropped + first + 1
        self.number += data[first : first + 1] == b"\n"
        self._held, self._dropped = b"", 0
        yield from self._one(raw)

    def _one(self, raw: Raw) -> Iterator[Raw]:
        if raw.data and (self.everything or wanted(raw.data, self.triggers)):
            yield raw

    def _repeated(self, block: bytes) -> Iterator[Raw]:
        """As ``_lines``. What a server prints repeats itself but for its numbers: each shape is searched once."""
        shapes = block.translate(None, DIGITS).split(b"\n")
        dull = self._dull
        if len(dull) > SHAPES:
            dull.clear()
        new = set(shapes) - dull
        told = {shape for shape in new if wanted(shape, self.triggers)}
        dull.update(shape for shape in new - told if len(shape) <= SHAPE_LIMIT)
        if not told:
            self.number += len(shapes) - 1
            self.offset += len(block)
            return
        lines, at, offset, triggers = block.split(b"\n"), 0, self.offset, self.triggers
        while at < len(lines) - 1:
            if self.triggers is not triggers:
                triggers, told = self.triggers, {shape for shape in set(shapes[at:]) if wanted(shape, self.triggers)}
            line = lines[at]
            if line and (shapes[at] in told and wanted(line[: self.limit], triggers) or self.everything):
                yield Raw(line[: self.limit], offset, self.number)
            at += 1
            offset += len(line) + 1
            self.number += 1
        self.offset = offset

    def _lines(self, block: bytes) -> Iterator[Raw]:
        """Lines of a block that ends with a line end. The consumer may turn ``everything`` between two of them."""
        base, pos, counted, size = self.offset, 0, 0, len(block)
        hits: dict[bytes, int] = {}
        next_return = -1
        while pos < size:
            if self.everything:
                start = pos
            else:
                hit = self._next_hit(block, pos, hits)
                if hit < 0:
                    break
                start = max(block.rfind(b"\n", pos, hit), block.rfind(b"\r", pos, hit)) + 1 or pos
            if next_return < start:
                next_return = block.find(b"\r", start)
                next_return = size if next_return < 0 else next_return
            end = block.find(b"\n", start, next_return)
            end = next_return if end < 0 else end
            self.number += block.count(b"\n", counted, start)
            counted = start
            pos = end + 1
            if not self.everything and not wanted(block[start : min(end, start + self.limit)], self.triggers):
                continue  # the trigger lies in the part that is cut off, or in what a user wrote
            if end > start:
                yield Raw(block[start : min(end, start + self.limit)], base + start, self.number)
        self.number += block.count(b"\n", counted)
        self.offset = base + size

    def _next_hit(self, block: bytes, pos: int, hits: dict[bytes, int]) -> int:
        best = -1
        for trigger in self.triggers:
            at = hits.get(trigger, -2)
            if at == -1:
                continue
            if at < pos:
                at = hits[trigger] = block.find(trigger, pos)
                if at < 0:
                    continue
            if best < 0 or at < best:
                best = at
        return best


def _end(data: bytes, start: int) -> int:
    ends = [at for at in (data.find(b"\n", start), data.find(b"\r", start)) if at >= 0]
    return min(ends)


# Colours, also where the escape character was lost by copying.
ANSI = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|\[\d{1,2}(?:;\d{1,3}){0,4}m"
)

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"

# What others put before a line. Stripped again and again until none of them is left.
OUTER = (
    re.compile(r"> ?"),  # quoted in a mail or an issue
    re.compile(r"\*\*(?=\S)"),
    re.compile(r"(?P<source>[A-Za-z][\w.-]{0,80}) {0,40}\| ?"),  # docker compose
    # journald and syslog: Mar 18 11:23:46 [host ]unit[pid]:
    re.compile(
        r"[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d (?:[\w.-]{1,80} )?(?P<source>[\w.@:/()-]{1,100}(?:\[\d+\])?): ?"
    ),
    # Kubernetes and docker --timestamps
    re.compile(
        r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d))(?: (?:stdout|"
        r"stderr)(?: [FP])?)?[ \t]?"
    ),
    # cloud log export: the severity is that of the stream
    re.compile(
        r"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) "
        r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z) ?"
    ),
    re.compile(r"\((?P<source>[\w:. ]{1,80} pid=\d+(?:, ip=[\w.:]+)?)\) ?"),  # Ray
    re.compile(r"\[\d+,\d+\]<(?:stdout|stderr|stdin)>: ?"),  # mpirun
    re.compile(r"\[(?:default|(?P<rank>rank))(?P<index>\d{1,5})\]: ?"),  # torchrun
    # a wrapper that logs what its child writes, line by line
    re.compile(
        r"(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d{1,9})? - [\w.]{1,60} - (?:DEBUG|INFO|"
        r"WARNING|ERROR|CRITICAL) - ?"
    ),
    re.compile(r"\[(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z\] ?"),  # Jenkins and the like
    re.compile(r"\[pod/(?P<source>[\w./-]{1,120})\] ?"),  # kubectl logs --prefix
    re.compile(
        r"\[(?!ERROR|WARN|INFO|DEBUG|CRITICAL|FATAL)(?P<source>[A-Z][A-Z_-]{2,20})\] ?"
    ),  # the tag of some wrapper
    re.compile(r"(?P<source>\d{1,4}): (?=\S|  File )"),  # srun --label
    re.compile(r"\d{13}\t"),  # an export with the time in milliseconds
)

# SGLang's own: [2025-03-10 16:29:01 DP1 TP4], [16:29:01 TP0], [gpu_id=0], [xxxxxx TP6]
SGLANG = re.compile(
    r"\[(?:(?P<date>\d{4}-\d\d-\d\d) |\d\d-\d\d )?(?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d{1,6})?(?P<ranks>(?: "
    r"[A-Z]{2,4}\d{1,4}){0,6})\] ?"
    r"|\[gpu(?:_id)?=(?P<gpu>\d{1,3})\] ?"
    r"|\[(?:x{3,20} | ?)(?P<masked>[A-Z]{2,4}\d{1,4}(?: [A-Z]{2,4}\d{1,4}){0,5})\] ?"
    r"|\[\d{4}-\d\d-\d\d\] ?"  # a logger of somebody who left out the clock
)
# A logger of somebody else's configuration, and the module that 0.5.9 puts before its text.
LOGGER = (
    re.compile(
        r"(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d{1,9})? ?[-|]? {0,3}"
        r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)? {0,6}(?:\d{1,9} )?(?:[-|] "
        r")?(?:\[?[\w.]{1,60}\.py:\d{1,6}\]?:? ?)?"
    ),
    re.compile(
        r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d )?(?P<clock>\d\d:\d\d:\d\d) "
        r"(?:\[)?[\w.]{1,60}(?:\.py)?:\d{1,6}\] ?"
    ),
    re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w.]{1,60}\.py:\d{1,6}: ?"),
    re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,8}"),  # uvicorn
)
STRAIGHT = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}
# tqdm: a crash text can be glued to the end of a bar.
BAR_END = re.compile(r"\[(?:\d{1,3}:)?\d{1,2}:\d\d<[^\]\[]{1,40}\]")


def parse(raw: Raw) -> Line:
    """One line, understood. Never fails, whatever the bytes."""
    text = raw.data.decode("utf-8", "replace").replace("\x00", "")
    if "\x1b" in text or "m" in text and "[" in text:
        text = ANSI.sub("", text)
    if "\u2018" in text or "\u2019" in text:  # quotes that a word processor has made
        text = text.translate(STRAIGHT)
    text = text.rstrip()
    source = stamp = rank = ""
    level = ""
    stamped = False
    at = 0
    for _round in range(8):
        for pattern in OUTER:
            found = pattern.match(text, at)
            if found is None or found.end() == at:
                continue
            groups = found.groupdict()
            source = groups.get("source") or source
            stamp = groups.get("stamp") or stamp
            if groups.get("rank"):
                rank = "rank" + groups["index"]
            at = found.end()
            break
        else:
            break
    moment = _moment(stamp[:10], stamp[11:19]) if stamp else None
    found = SGLANG.match(text, at)
    if found is not None:
        at = found.end()
        stamped = True
        ranks = found.group("ranks") or found.group("masked") or ""
        rank = ranks.strip() or ("GPU" + found.group("gpu") if found.group("gpu") else rank)
        moment = _moment(found.group("date") or "", found.group("clock") or "") or moment
    for pattern in LOGGER:
        found = pattern.match(text, at)
        if found is None:
            continue
        groups = found.groupdict()
        at = found.end()
        stamped = True
        level = groups.get("level") or level
        if moment is None and groups.get("clock"):
            moment = _moment(groups.get("date") or "", groups["clock"])
    return Line(text[at:], raw.offset, raw.number, moment, rank, source, level, stamped)


def _moment(date: str, clock: str) -> float | None:
    """Seconds on a scale of its own: good for differences within one log. A clock without a date is within its day."""
    if len(clock) != 8:
        return None
    try:
        seconds = int(clock[:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:])
        if len(date) != 10:
            return float(seconds)
        year, month, day = int(date[:4]), int(date[5:7]), int(date[8:])
    except ValueError:
        return None
    # Days since 1970, by the civil calendar; no time zone, so no datetime.
    year -= month <= 2
    era, month = year // 400, month + (9 if month <= 2 else -3)
    year_of_era = year - era * 400
    days = (
        era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + (153 * month + 2) // 5 + day - 719469
    )
    return float(days * 86400 + seconds)


def pieces(line: Line) -> list[Line]:
    """A line with progress bars, cut behind each bar: what follows is a line of its own."""
    ends = [found.end() for found in BAR_END.finditer(line.text)]
    if not ends:
        return [line]
    out, start = [], 0
    for end in [*ends, len(line.text)]:
        part = line.text[start:end]
        if part.strip():
            out.append(
                Line(
                    part.lstrip() if start else part,
                    line.offset,
                    line.number,
                    line.time,
                    line.rank,
                    line.source,
                    line.level,
                    line.stamped,
                )
            )
        start = end
    return out
