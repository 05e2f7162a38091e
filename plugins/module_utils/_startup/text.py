# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The verdict on a log after the fact: text, a file, or the journal of a unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Callable

from .._errors import LlmHostError
from .._process import systemd
from . import evidence
from .analysis import Analysis
from .ending import Ending, ending
from .lines import Raw, parse
from .verdict import Facts, Verdict, conclude

PIECE = 1024 * 1024
REVERSE_SAMPLE = 256 * 1024
REVERSE_LIMIT = 64 * 1024 * 1024
GONE = {
    True: "The server was ready. It was stopped since.",
    False: "The server was ready. It does not run any more; how it ended is not known.",
}


def diagnose(data: bytes, facts: Facts | None = None) -> Verdict:
    """The verdict on a whole log."""
    if newest_first(data[:REVERSE_SAMPLE]):
        data = b"\n".join(reversed(data.splitlines())) + b"\n"
    return diagnose_stream((data,), facts)


def diagnose_stream(parts: Iterable[bytes], facts: Facts | None = None) -> Verdict:
    """The verdict on a log that comes in pieces, in constant memory."""
    analysis = Analysis()
    for part in parts:
        analysis.feed(part)
    analysis.close()
    return conclude(analysis, None, facts)


def diagnose_file(path: str) -> Verdict:
    """The verdict on a log file."""
    try:
        with open(path, "rb") as handle:
            sample = handle.read(REVERSE_SAMPLE)
            if newest_first(sample):
                return diagnose(sample + handle.read(REVERSE_LIMIT))
            return diagnose_stream(_parts(sample, handle))
    except OSError as error:
        raise LlmHostError("unreadable", "%s cannot be read: %s" % (path, error.strerror or error), path=path) from None


def _parts(first: bytes, handle: object) -> Iterator[bytes]:
    yield first
    read = getattr(handle, "read")  # noqa: B009
    while True:
        part = read(PIECE)
        if not part:
            return
        yield part


def diagnose_unit(
    unit: str,
    invocation: str = "",
    outside: Callable[[evidence.Start], evidence.Outside] | None = None,
    state_dir: str = "",
) -> Verdict:
    """The verdict on one start of a unit, its last one by default."""
    from .sources import JournalSource
    from .unit import between, path_state, state, user_of

    now = state(unit)
    if now.load == "not-found" and not invocation:
        raise LlmHostError(
            "unit_not_found",
            "there is no unit %s on this host: correct 'unit', or name the 'invocation'" % unit,
            unit=unit,
        )
    invocation = invocation or now.invocation_id
    if not invocation:
        raise LlmHostError(
            "no_start",
            "systemd knows no start of %s: name the 'invocation', or give the log's 'path'" % unit,
            unit=unit,
        )
    uid, gid, folder = user_of(unit)
    last = now.invocation_id == invocation
    ended = not now.running or not last
    end = ending(invocation) if ended else Ending()
    if ended and last:
        end = replace(end, exit_code=now.exit_code, signal=now.signal)
    facts = Facts(
        exit_code=end.exit_code,
        signal=end.signal,
        live=True,
        restarts=now.restarts,
        oom_kills=1 if end.out_of_memory or (ended and last and now.result == "oom-kill") else None,
        path_state=lambda path: path_state(path, uid, gid, folder),
    )
    analysis = Analysis()
    for data, moment in JournalSource(unit, invocation).finish():
        analysis.feed(data, moment)
    analysis.close()
    verdict = conclude(analysis, None, facts)
    if ended and verdict.outcome == "in_progress":
        watched = _watched(unit, invocation, state_dir)
        if watched is not None:
            return watched
        verdict = conclude(analysis, "stopped" if end.asked or (last and now.stopped) else "failed", facts)
    elif ended and verdict.outcome == "ready":
        if end.asked or not (end.exit_code or end.signal or facts.oom_kills):
            return replace(verdict, message=GONE[end.asked], detail={**verdict.detail, "ended": True})
        verdict = conclude(analysis, "crashed_after_ready", facts)
    if outside is None or not last or not evidence.wanted(verdict):
        return verdict
    since, until = between(unit)
    options = analysis.tracker.options
    start = evidence.Start(
        unit,
        control_group=now.control_group or "/system.slice/" + unit,
        main_pid=now.main_pid,
        since=since,
        until=until if ended else None,
        state_dir=state_dir,
        pids=lambda: set(systemd.cgroup_pids(now.control_group)),
        alive=lambda: now.running,
        ranks=lambda: evidence.ranks(options),
        model_path=lambda: options.get("model_path", ""),
    )
    host = outside(start)
    try:
        return evidence.weigh(verdict, host, late=True)
    finally:
        host.close()


def _watched(unit: str, invocation: str, state_dir: str) -> Verdict | None:
    """What the watch said of a start that did not become ready, where the log tells of no failure.

    It saw processes, and was followed by a stop: neither the log nor systemd tells of that any more.
    """
    from . import detached
    from .session import Request

    name = re.fullmatch(r"sglang-(.+)\.service", unit)
    found = (
        detached.told(Request(name.group(1), state_dir=state_dir).folder, invocation) if name and state_dir else None
    )
    if found is None or found.get("outcome") not in ("failed", "stalled", "timeout"):
        return None
    known = {one.name: found[one.name] for one in fields(Verdict) if one.name in found}
    return Verdict(**{**known, "detail": {**known.get("detail", {}), "told_by_the_watch": True}})


def newest_first(sample: bytes) -> bool:
    """Whether the times in a log run backwards, as in some exports of cloud logs."""
    moments = []
    for data in sample.splitlines()[:2000]:
        if len(data) < 4096 and b":" in data:
            moment = parse(Raw(data, 0, 1)).time
            if moment is not None:
                moments.append(moment)
    steps = [later - earlier for earlier, later in zip(moments, moments[1:]) if later != earlier]
    return len(steps) >= 4 and sum(step < 0 for step in steps) > 0.8 * len(steps)
