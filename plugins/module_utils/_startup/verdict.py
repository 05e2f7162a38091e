# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What was read, and what is known beside it -> the verdict."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Callable

from .._process import identity
from .analysis import TAIL_BYTES, Analysis
from .cause import Cause
from .causes import Match, by_id, classify, docs
from .failures import SECONDARY, Failure
from .phases import ORDER, phase_of_frames

READY_TAIL = 4096  # of a server that is ready nobody reads more
HANGS = ("rendezvous_hang", "nccl_hang", "slow_start", "jit_stuck", "hang_unknown")


# A run of characters without a space is cut to so many before secrets are looked for: what is longer is data.
_RUN = re.compile(r"(\S{2000})\S+")
_TAIL_RUN = re.compile(r"(\S{512})\S+")
_TAIL_LINE = re.compile(r"([^\r\n]{500})[^\r\n]+")  # the dump of all arguments alone has 20,000 characters


def mask(text: str) -> str:
    """A text without its secrets, in a time that grows with its length only."""
    return identity.mask(_RUN.sub(r"\1...", text))


@dataclass(frozen=True)
class Facts:
    """What is known outside of the log. Everything may be unknown (None)."""

    exit_code: int | None = None
    signal: int | None = None
    oom_kills: int | None = None  # by the cgroup or the kernel log, since this start
    live: bool = False  # the host of the start was asked, so what is unknown above could not be seen there
    restarts: int = 0
    stopped: bool = False  # by the operator
    alive: bool | None = None
    dead_schedulers: tuple[str, ...] = ()
    halted: tuple[str, ...] = ()  # by SIGSTOP or a debugger
    busy: bool = False  # silent, but with processor time
    # path -> {"exists": bool, "readable": bool, ...} as the service's user sees it
    path_state: Callable[[str], dict[str, Any]] | None = None
    # port -> who holds it, each {"pid": .., "comm": .., "own": bool}
    port_owners: Callable[[int], list[dict[str, Any]]] | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer of the watch, plain data."""

    outcome: str
    cause: str | None
    phase: str
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    remedies: list[dict[str, Any]] = field(default_factory=list)
    not_remedies: list[str] = field(default_factory=list)
    retryable: bool = False
    docs: str | None = None
    memory: list[dict[str, Any]] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    log_tail: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Candidate:
    failure: Failure
    match: Match | None
    tier: int
    resolved: bool

    @property
    def cause(self) -> str:
        return self.match.cause.id if self.match else "unknown"


def text_state(analysis: Analysis) -> str:
    """What the text alone tells: ready, failed, in_progress or crashed_after_ready."""
    if analysis.ready is not None and analysis.bind is None:
        if analysis.crash is not None and (analysis.stop is None or analysis.stop.offset > analysis.crash.offset):
            return "crashed_after_ready"
        after = [failure for failure in analysis.collector.failures if failure.after_ready]
        if any(_breaks(failure) for failure in after):
            return "crashed_after_ready"
        return "ready"
    if analysis.fatal is not None or analysis.bind is not None:
        return "failed"
    candidates = _candidates(analysis, None)
    chosen = _choose(candidates)
    if chosen is not None and chosen.cause in HANGS:
        return "in_progress"
    if any(not c.resolved and c.tier >= 0 and c.cause not in HANGS and _counts(c) for c in candidates):
        return "failed"
    if len([run for run in analysis.runs if run.outcome == "failed"]) >= 2:
        return "failed"
    return "in_progress"


def _counts(candidate: _Candidate) -> bool:
    """Whether an unresolved failure at the end of a text means that the start failed."""
    if candidate.failure.kind == "exception":
        return candidate.failure.time is None or not candidate.failure.logged or candidate.tier >= 2
    return candidate.tier >= 2 and candidate.match is not None


def _breaks(failure: Failure) -> bool:
    """Whether a failure after the ready line ended the server (and not just one request)."""
    if failure.kind == "exception":
        if failure.logged:
            return False
        # A traceback that ends in a process's bootstrap is the end of that process, whatever it says.
        return not SECONDARY.search(failure.text) or any(
            "multiprocessing/process.py:_bootstrap" in one for one in failure.frames
        )
    found = classify(failure.lines, failure.frames, "runtime", False, failure.kind)
    return found is not None and found.tier >= 2 and found.cause.id not in HANGS


def _candidates(analysis: Analysis, after_ready: bool | None) -> list[_Candidate]:
    out = []
    failures = analysis.collector.failures
    for failure in failures:
        if after_ready is not None and failure.after_ready != after_ready:
            continue
        found = classify(failure.lines, failure.frames, _phase(failure), failure.drafting, failure.kind)
        secondary = SECONDARY.search(failure.text) is not None
        if found is None:
            if secondary or failure.kind != "exception":
                continue
            tier = 0
        else:
            tier = found.tier
            if secondary and tier >= 2 and found.index == 0 and found.cause.id not in ("native_crash",):
                tier = 2 if tier == 3 else 1
            if failure.kind == "line" and tier == 0 and secondary:
                tier = -1
        hang = found is not None and found.cause.id in HANGS
        out.append(_Candidate(failure, found, tier, _resolved(analysis, failure, hang)))
    return out


def _resolved(analysis: Analysis, failure: Failure, anybody: bool) -> bool:
    """Whether the rank that told of it (``anybody``: whoever waited for the others) went on afterwards."""
    if anybody:
        return any(rank.last_offset > failure.offset for rank in analysis.tracker.ranks.values())
    rank = analysis.tracker.ranks.get(failure.rank)
    if rank is None:
        return False
    return rank.last_offset > failure.offset


def _choose(candidates: list[_Candidate]) -> _Candidate | None:
    """The first exception of the first failing rank, the best link of its chain; consequences only as a last resort."""
    if not candidates:
        return None
    open_ones = [one for one in candidates if not one.resolved] or candidates
    groups: dict[int, list[_Candidate]] = {}
    for index, one in enumerate(open_ones):
        groups.setdefault(one.failure.chain or -1 - index, []).append(one)
    best = [_link(group) for group in groups.values()]
    best.sort(key=lambda one: one.failure.offset)
    for one in best:
        if one.tier >= 2:
            return one
    shapes = [one for one in best if one.tier in (0, 1) and one.cause != "unknown_child_death"]
    exceptions = [one for one in shapes if one.failure.kind == "exception" and not SECONDARY.search(one.failure.text)]
    if exceptions:
        return exceptions[0]
    return (shapes or best)[0]


def _link(chain: list[_Candidate]) -> _Candidate:
    """The best link of a chain: the strongest, of these the first, or the last where its row says so."""
    best = max(chain, key=lambda one: (one.tier, -one.failure.offset))
    if best.match is not None and best.match.cause.last_in_chain:
        same = [one for one in chain if one.cause == best.cause and one.tier == best.tier]
        return max(same, key=lambda one: one.failure.offset)
    return best


def conclude(
    analysis: Analysis, outcome: str | None = None, facts: Facts | None = None, now: float | None = None
) -> Verdict:
    """The verdict on what was read. ``outcome`` is what the watcher decided; None lets the text decide."""
    facts = facts or Facts()
    if outcome is None:
        outcome = text_state(analysis)
    common = {
        "phase": analysis.tracker.phase,
        "memory": analysis.tracker.memory,
        "timeline": analysis.tracker.durations(now),
        "log_tail": _log_tail(analysis),
    }
    if outcome == "ready":
        return Verdict(
            "ready",
            None,
            message="The server is ready.",
            detail=_detail(analysis, facts),
            **_with(common, phase="runtime", log_tail=common["log_tail"][-READY_TAIL:]),
        )
    if outcome == "stopped":
        return _plain("stopped", by_id()["stopped"], common, _detail(analysis, facts))
    if outcome in ("in_progress", "stalled", "timeout"):
        return _waiting(analysis, outcome, facts, common)
    return _failed(analysis, outcome, facts, common)


def _with(common: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**common, **changes}


def _detail(analysis: Analysis, facts: Facts) -> dict[str, Any]:
    detail: dict[str, Any] = {}
    if facts.exit_code is not None:
        detail["exit_code"] = facts.exit_code
    if facts.signal is not None:
        detail["signal"] = facts.signal
    if facts.restarts:
        detail["restarts"] = facts.restarts
    if facts.dead_schedulers:
        detail["dead_processes"] = list(facts.dead_schedulers)
    failed = [run for run in analysis.runs if run.outcome == "failed"]
    if failed:
        detail["earlier_failed_runs"] = len(failed)
    return detail


def _plain(
    outcome: str,
    cause: Cause,
    common: dict[str, Any],
    detail: dict[str, Any],
    evidence: dict[str, Any] | None = None,
    message: str = "",
) -> Verdict:
    return Verdict(
        outcome,
        cause.id,
        message=message or cause.meaning,
        evidence=evidence or {},
        detail=detail,
        remedies=[one.as_dict() for one in cause.remedies],
        not_remedies=list(cause.not_remedies),
        retryable=cause.retryable,
        docs=docs(cause.id),
        **common,
    )


def _waiting(analysis: Analysis, outcome: str, facts: Facts, common: dict[str, Any]) -> Verdict:
    detail = {**_detail(analysis, facts), "progress": analysis.progress}
    evidence = {"line": mask(analysis.last_line)}
    hang = next((one for one in _candidates(analysis, False) if one.cause in HANGS and not one.resolved), None)
    lagging = sorted(
        name for name, rank in analysis.tracker.ranks.items() if name and rank.phase == analysis.tracker.slowest()
    )
    if lagging:
        detail["lagging_ranks"] = lagging[:64]
    if hang is not None and hang.match is not None:
        cause = hang.match.cause
        evidence = _evidence(analysis, hang, [])
        message = _message(cause, hang.match.groups)
    else:
        cause = by_id()[_silence(analysis)]
        if cause.id == "slow_start" and outcome == "stalled" and not facts.busy:
            cause = by_id()["hang_unknown"]
        message = cause.message
    if facts.halted:
        detail["halted_processes"] = list(facts.halted)
        message = "%s is halted (SIGSTOP or a debugger): 'kill -CONT' lets it go on." % ", ".join(facts.halted[:8])
    if outcome == "in_progress":
        message = (
            "The start is in progress (phase %s)." % analysis.tracker.slowest()
            if cause.id in ("hang_unknown", "slow_start")
            else message
        )
    elif outcome == "timeout":
        message = "The server was not ready in time; it is in phase %s. %s" % (analysis.tracker.slowest(), message)
    else:
        message = "No progress in phase %s. %s" % (analysis.tracker.slowest(), message)
    return _plain(outcome, cause, _with(common, phase=analysis.tracker.slowest()), detail, evidence, message)


def _silence(analysis: Analysis) -> str:
    """What a silent start hints at."""
    tracker = analysis.tracker
    if tracker.counts.get("jit_begin", 0) > tracker.counts.get("jit_end", 0):
        return "jit_stuck"
    phase = tracker.slowest()
    nodes = tracker.options.get("nnodes", "1")
    if phase == "init_distributed" and nodes.isdigit() and int(nodes) > 1:
        return "rendezvous_hang"
    if phase == "init_distributed" and ("nccl" in tracker.events or "NCCL version" in analysis.last_line):
        return "nccl_hang"
    if phase in ("load_weights", "graph_capture", "compile") and tracker.progress:
        return "slow_start"
    return "hang_unknown"


def _log_tail(analysis: Analysis) -> str:
    """The end of the log for people: masked, and no line longer than they read."""
    text = mask(_TAIL_RUN.sub(r"\1...", analysis.tail.decode("utf-8", "replace")))
    return _TAIL_LINE.sub(r"\1...", text)[-TAIL_BYTES:]


def _evidence(analysis: Analysis, candidate: _Candidate, discarded: list[str]) -> dict[str, Any]:
    failure = candidate.failure
    index = candidate.match.index if candidate.match else 0
    numbers = failure.numbers
    return {
        "line": mask(failure.lines[index].strip()[:4000]),
        "number": numbers[index] if index < len(numbers) else failure.number,
        "offset": failure.offset,
        "ranks": [rank for rank in failure.ranks if rank],
        "source": failure.source,
        "frames": failure.frames[-8:],
        "discarded": [mask(text[:300]) for text in discarded[:20]],
    }


def _failed(analysis: Analysis, outcome: str, facts: Facts, common: dict[str, Any]) -> Verdict:
    after = outcome == "crashed_after_ready"
    candidates = _candidates(analysis, after) or _candidates(analysis, None)
    chosen = _choose(candidates)
    if analysis.bind is not None:  # whatever came after it, "fired up" included, is a consequence
        bound = [one for one in _candidates(analysis, None) if one.cause == "port_in_use"]
        chosen = bound[0] if bound else chosen
    if chosen is None and analysis.runs:  # a crash loop: the cause of its first run
        first = Analysis(tracker=analysis.runs[0].tracker)
        first.collector.failures = analysis.runs[0].failures
        chosen = _choose(_candidates(first, None))
    detail = _detail(analysis, facts)
    discarded = [one.text for one in analysis.collector.failures if chosen is None or one is not chosen.failure]
    if facts.oom_kills and (chosen is None or chosen.tier <= 1):
        cause = by_id()["host_oom_killed"]
        detail["oom_kills"] = facts.oom_kills
        evidence: dict[str, Any] = {"line": mask(analysis.last_line)}
        if chosen:
            evidence = _evidence(analysis, chosen, discarded)
        evidence["outside"] = [
            {
                "source": "cgroup",
                "rule": "oom_counter",
                "effect": "decides",
                "says": "The kernel killed %d processes for want of memory in this start (by the counter of the "
                "control group, or where that is gone of the host)." % facts.oom_kills,
            }
        ]
        return _plain(outcome, cause, common, detail, evidence, cause.message)
    if chosen is None or _tells_nothing(chosen, facts):
        return _silent_death(analysis, outcome, facts, common, detail)
    phase = _phase(chosen.failure)
    common = _with(common, phase=_phase(chosen.failure))
    evidence = _evidence(analysis, chosen, discarded)
    if chosen.match is None:
        cause = by_id()["unknown"]
        detail["exception"] = chosen.failure.exception
        return _plain(outcome, cause, common, detail, evidence, mask(chosen.failure.text[:500]))
    cause, groups = _refine(analysis, chosen, phase, facts)
    detail.update(
        {key.rstrip("2"): mask(value) for key, value in groups.items() if value and key.rstrip("2") not in detail}
    )
    if cause.id == "host_oom_killed" and not facts.oom_kills and "137" not in chosen.failure.text:
        # SGLang only says that SIGKILL ended it: a text alone is taken by what is most common, a live host is not.
        if facts.oom_kills == 0:
            cause, problem = (
                by_id()["scheduler_killed"],
                "killed with SIGKILL, and the kernel tells of no shortage of memory",
            )
            detail["problem"] = problem
        elif facts.live:
            cause, problem = (
                by_id()["scheduler_killed"],
                "killed with SIGKILL; whether memory was short cannot be seen from here",
            )
            detail["problem"] = problem
    if cause.id == "port_in_use":
        _port(detail, facts, analysis)
    return _plain(
        outcome,
        cause,
        common,
        detail,
        evidence,
        mask(_message(cause, {**groups, **{k: str(v) for k, v in detail.items() if k not in groups}})),
    )


def _tells_nothing(chosen: _Candidate, facts: Facts) -> bool:
    """Whether the processes tell more than the log's best line, which is only what a survivor saw.

    A scheduler of this very server that is gone, and is none of those who miss a peer, is that peer.
    """
    if chosen.cause == "unknown_child_death":
        return facts.signal is not None
    missing = [re.compile(re.escape(rank.replace(" ", "_")) + r"(?!\d)") for rank in chosen.failure.ranks if rank]
    if chosen.cause != "peer_rank_died" or not missing:
        return False
    return any(not any(rank.search(title) for rank in missing) for title in facts.dead_schedulers)


def _silent_death(
    analysis: Analysis, outcome: str, facts: Facts, common: dict[str, Any], detail: dict[str, Any]
) -> Verdict:
    """The process is gone and its output holds no failure."""
    evidence = {"line": mask(analysis.last_line)}
    if facts.signal in (4, 6, 7, 8, 11):
        cause, problem = by_id()["native_crash"], "ended by signal %d" % facts.signal
    elif facts.signal is not None:
        cause, problem = by_id()["scheduler_killed"], "the process was ended by signal %d" % facts.signal
    elif facts.dead_schedulers:
        cause, problem = by_id()["scheduler_killed"], "gone: " + ", ".join(facts.dead_schedulers)
    elif facts.exit_code is not None:
        cause, problem = by_id()["unknown"], "The process ended with exit status %d and told nothing." % facts.exit_code
        return _plain(outcome, cause, common, detail, evidence, problem)
    else:
        cause, problem = by_id()["unknown"], "The log tells of no failure that is understood."
        return _plain(outcome, cause, common, detail, evidence, problem)
    detail["problem"] = problem
    return _plain(outcome, cause, common, detail, evidence, _message(cause, {"problem": problem}))


def _phase(failure: Failure) -> str:
    """The phase by the marks in the log; by the traceback where it knows better (the log may begin in the middle)."""
    by_frames = phase_of_frames(failure.frames)
    if not by_frames or failure.phase in ("runtime", "warmup") or failure.after_ready:
        return failure.phase
    if failure.phase in ("import", "args") or ORDER[by_frames] > ORDER[failure.phase]:
        return by_frames
    return failure.phase


_GIB = {"KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}
_OTHER = re.compile(r"Process (\d+) has ([\d.]+) ([KMGT]iB) memory in use")
_OWN = re.compile(r"this process has ([\d.]+) ([KMGT]iB)")


def _refine(analysis: Analysis, chosen: _Candidate, phase: str, facts: Facts) -> tuple[Cause, dict[str, str]]:
    """What a pattern cannot see: numbers that contradict the text, and the world outside of the log."""
    match, failure = chosen.match, chosen.failure
    if match is None:
        return by_id()["unknown"], {}
    cause, groups = match.cause, dict(match.groups)
    if cause.id.startswith("oom_") and failure.kind == "exception":
        others = _OTHER.findall(failure.text)
        total = _gib(groups.get("total"))
        foreign = sum(float(number) * _GIB[unit] for _pid, number, unit in others)
        if others and (len(others) > 1 or _OWN.search(failure.text)) and total and foreign > 0.15 * total:
            own_pids = len(others) > 1 and not _OWN.search(failure.text)
            if not own_pids or _avail_share(analysis, failure.rank, total) < 0.6:
                groups["problem"] = "process %s holds %.1f of %.1f GiB" % (
                    others[0][0],
                    float(others[0][1]) * _GIB[others[0][2]],
                    total,
                )
                groups["foreign_pid"] = others[0][0]
                return by_id()["gpu_occupied"], groups
        if total and _avail_share(analysis, failure.rank, total) < 0.5 and not chosen.failure.drafting:
            groups["problem"] = "only part of its %.1f GiB was free when the weights began to load" % total
            return by_id()["gpu_occupied"], groups
        if any("models/transformers.py" in frame for frame in failure.frames):
            groups["architecture"] = "of this model (the general fallback was used)"
            return by_id()["arch_unsupported"], groups
    if cause.id in ("model_files_missing", "file_missing") and facts.path_state is not None and groups.get("path"):
        state = facts.path_state(groups["path"])
        if state.get("exists") and state.get("readable") is False:
            groups["readable"] = "false"
            return by_id()["permission_denied"], groups
    if cause.id == "model_path_invalid" and facts.path_state is not None and groups.get("path", "").startswith("/"):
        state = facts.path_state(groups["path"])
        if state.get("exists") and state.get("readable") is False:
            return by_id()["permission_denied"], groups
    return cause, groups


def _gib(text: str | None) -> float:
    if not text:
        return 0.0
    number, _space, unit = text.partition(" ")
    try:
        return float(number) * _GIB.get(unit, 0.0)
    except ValueError:
        return 0.0


def _avail_share(analysis: Analysis, rank: str, total: float) -> float:
    """Free memory at "Load weight begin" as a part of the card; 1.0 where it is not known."""
    for entry in analysis.tracker.memory:
        if entry["at"] == "load_begin" and "avail_mem_gb" in entry and (entry["rank"] == rank or not rank):
            return float(entry["avail_mem_gb"]) / total
    return 1.0


def _port(detail: dict[str, Any], facts: Facts, analysis: Analysis) -> None:
    port = str(detail.get("port") or "")
    if not port and detail.get("address"):
        port = str(detail["address"]).rsplit(":", 1)[-1]
    if port.isdigit():
        detail["port"] = int(port)
        if facts.port_owners is not None:
            detail["holders"] = facts.port_owners(int(port))


def _message(cause: Cause, groups: dict[str, str]) -> str:
    """The sentence of the row with its values, or without them where one is not known; what was refused is in it."""
    values = {key.rstrip("2"): value for key, value in groups.items() if value}
    try:
        text = cause.message.format_map(values)
    except (KeyError, IndexError, ValueError):
        text = cause.meaning
    problem = values.get("problem", "")
    return text if problem in text else "%s SGLang says: %s" % (text, problem)
