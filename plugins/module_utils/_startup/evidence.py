# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Evidence outside of the log: what it may change in a verdict, and by which rule.

``RULES`` is the table. A rule belongs to the causes that leave room for doubt; its source is asked only where the
verdict has one of them, so a clear case costs nothing. What a rule finds either decides (the cause becomes another
one), supports the cause, or contradicts it as far as a retry goes. What cannot be looked at is said to be unknown and
decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Protocol

from .cause import Cause
from .causes import by_id, docs
from .verdict import Verdict, mask

DECIDES, SUPPORTS, CONTRADICTS, UNKNOWN = "decides", "supports", "contradicts", "unknown"
KERNEL, CGROUP, PORT, DISK, GPU = "kernel", "cgroup", "port", "disk", "gpu"

FULL_BYTES = 16 * 1024 * 1024  # what is left of a full file system is less than one page of a compiler's cache
SMALL_SHM_BYTES = 64 * 1024 * 1024  # what a container engine gives where nobody asked for more
HELD_SHARE = 0.15  # of a card: less is a desktop or somebody's context, and does not keep a server from starting
SHM = "/dev/shm"
SIGBUS = 7


# -- what can be seen -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OomKill:
    """One process that the kernel killed for want of memory. ``own``: of this server; None where that is not known."""

    pid: int
    name: str
    own: bool | None
    line: str


@dataclass(frozen=True)
class XidEvent:
    """One report of the NVIDIA driver. ``kind`` is fatal, reset, app, info or unknown."""

    number: int
    kind: str
    meaning: str
    pci: str
    pid: int | None
    line: str


@dataclass(frozen=True)
class Place:
    """A file system that the server uses, named by one path in it. Inodes are None where it does not count them."""

    path: str
    purpose: str
    free_bytes: int
    total_bytes: int
    free_inodes: int | None = None

    @property
    def full(self) -> bool:
        return self.free_bytes < FULL_BYTES or (self.free_inodes is not None and self.free_inodes < 16)


@dataclass(frozen=True)
class Holder:
    """Who holds memory of a card. ``own``: of this server; None where that is not known."""

    pid: int
    name: str
    own: bool | None
    memory_mib: int | None
    unit: str | None = None


@dataclass(frozen=True)
class Card:
    """One GPU that this server may use."""

    index: int
    total_mib: int | None
    used_mib: int | None
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True)
class Start:
    """Which start is meant. Functions where the watch learns it only by and by."""

    unit: str
    control_group: str = ""
    main_pid: int = 0
    since: float | None = None  # seconds since boot
    until: float | None = None
    state_dir: str = ""
    pids: Callable[[], set[int]] = set  # every process that was seen
    alive: Callable[[], bool] = bool
    ranks: Callable[[], int] = lambda: 1
    model_path: Callable[[], str] = str


@dataclass(frozen=True)
class Answer:
    """What a source told. ``value`` None means that it could not be looked at, and ``why`` says why."""

    value: Any = None
    why: str = ""


class Outside(Protocol):
    """What the caller can look at. Every question has a time limit of its own."""

    def ooms(self) -> Answer:
        """The kernel's kills since this start, a list of ``OomKill``."""

    def xids(self) -> Answer:
        """Reports of the driver since this start, a list of ``XidEvent``."""

    def places(self) -> Answer:
        """The file systems that the server writes to or reads from, a list of ``Place``."""

    def cards(self) -> Answer:
        """The GPUs that the server may use, a list of ``Card``."""

    def port(self, number: int) -> Answer:
        """Who listens on a port, a list of {"pid": .., "comm": ..} without this server's own processes."""

    def gpu_mib(self) -> int | None:
        """Memory of the GPUs that the server holds, MiB; None where that cannot be known."""

    def stack(self, pid: int) -> Answer:
        """The Python stack of a process, as text."""

    def state(self, pid: int) -> dict[str, Any]:
        """How the kernel sees a process."""

    def close(self) -> None:
        """Let go of everything."""


@dataclass(frozen=True)
class Found:
    """What a rule saw: words for people, and numbers for ``detail``."""

    says: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """One row. ``looks`` is given what the source told and the verdict; it returns what it saw, or None."""

    id: str
    source: str
    asks: str  # the question of Outside
    causes: tuple[str, ...]
    effect: str
    meaning: str  # why it may do so
    looks: Callable[[Any, Verdict], Found | None]
    becomes: str = ""


# -- the rules --------------------------------------------------------------------------------------------------------

VANISHED = ("scheduler_killed", "unknown", "unknown_child_death", "peer_rank_died")
MEMORY = (
    "kv_cache_no_memory", "oom_load_weights", "oom_kv_or_runtime_pool", "oom_graph_capture", "memory_unbalanced",
    "mamba_pool",
)  # fmt: skip
ON_GPU = (
    "unknown", "unknown_child_death", "scheduler_killed", "peer_rank_died", "native_crash", "sglang_bug", "nccl_error",
    "nccl_timeout", "nccl_hang", "watchdog_timeout", "hang_unknown", "slow_start",
)  # fmt: skip


def _own_kill(kills: Sequence[OomKill], _verdict: Verdict) -> Found | None:
    own = [one for one in kills if one.own]
    if not own:
        return None
    return Found(
        "The kernel killed %s for want of memory: %s" % (_names(own), own[-1].line),
        {"oom_killed": ["%s (pid %d)" % (one.name, one.pid) for one in own[:16]]},
    )


def _other_kill(kills: Sequence[OomKill], _verdict: Verdict) -> Found | None:
    others = [one for one in kills if one.own is False]
    if not others or any(one.own for one in kills):
        return None
    return Found(
        "During this start the kernel killed %s, not of this server, for want of memory: the host was short of it."
        % _names(others)
    )


def _names(kills: Sequence[OomKill]) -> str:
    return ", ".join("%s (pid %d)" % (one.name, one.pid) for one in kills[:8])


def _broken_gpu(events: Sequence[XidEvent], _verdict: Verdict) -> Found | None:
    bad = [one for one in events if one.kind in ("fatal", "reset")]
    if not bad:
        return None
    first = bad[0]
    return Found(
        "The driver reports Xid %d on GPU %s during this start: %s." % (first.number, first.pci, first.meaning),
        {"problem": "Xid %d, %s" % (first.number, first.meaning), "xid": first.number, "gpu": first.pci},
    )


def _reported_program(events: Sequence[XidEvent], _verdict: Verdict) -> Found | None:
    ours = [one for one in events if one.kind in ("app", "unknown")]
    if not ours:
        return None
    first = ours[0]
    who = " by pid %d" % first.pid if first.pid else ""
    return Found(
        "The driver reports Xid %d on GPU %s during this start%s: %s." % (first.number, first.pci, who, first.meaning),
        {"xid": first.number, "gpu": first.pci},
    )


def _foreign(card: Card) -> list[Holder]:
    return [one for one in card.holders if one.own is False]


def _held(cards: Sequence[Card], _verdict: Verdict) -> Found | None:
    for card in cards:
        others = [one for one in _foreign(card) if one.memory_mib]
        held = sum(one.memory_mib or 0 for one in others)
        if not others or not card.total_mib or held < HELD_SHARE * card.total_mib:
            continue
        most = max(others, key=lambda one: one.memory_mib or 0)
        return Found(
            "On GPU %d %s of %s MiB are held by others: %s."
            % (card.index, held, card.total_mib, "; ".join(_holder(one) for one in others[:8])),
            {
                "problem": "%s holds %.1f of %.1f GiB of GPU %d"
                % (_who(most), (most.memory_mib or 0) / 1024, card.total_mib / 1024, card.index),
                "holders": [
                    {
                        "pid": one.pid,
                        "comm": one.name,
                        "unit": one.unit,
                        "memory_mib": one.memory_mib,
                        "gpu": card.index,
                    }
                    for one in others[:16]
                ],
            },
        )
    return None


def _who(holder: Holder) -> str:
    return "%s (pid %d%s)" % (holder.name, holder.pid, ", " + holder.unit if holder.unit else "")


def _holder(holder: Holder) -> str:
    return "%s, %s MiB" % (_who(holder), "unknown" if holder.memory_mib is None else holder.memory_mib)


def _released(cards: Sequence[Card], verdict: Verdict) -> Found | None:
    if not cards or any(card.used_mib is None or card.total_mib is None for card in cards):
        return None
    if any(one.own is not True for card in cards for one in card.holders):
        return None
    if any((card.used_mib or 0) > HELD_SHARE * (card.total_mib or 0) for card in cards if not card.holders):
        return None  # held by somebody who cannot be seen
    return Found("By now nobody else holds memory of its cards: the same start may succeed.")


def _unseen(cards: Sequence[Card], _verdict: Verdict) -> Found | None:
    """Memory is gone, and the list of clients does not tell who has it (in a container it may not)."""
    for card in cards:
        total, used = card.total_mib, card.used_mib
        if total and used is not None and not card.holders and used > HELD_SHARE * total:
            return Found(
                "On GPU %d %d of %d MiB are in use by somebody who cannot be seen from here: "
                "ask on the host that owns the card." % (card.index, used, total)
            )
    return None


def _full(places: Sequence[Place], _verdict: Verdict) -> Found | None:
    full = [one for one in places if one.full and one.path != SHM]
    if not full:
        return None
    words = "; ".join("%s (%s), %s" % (one.path, one.purpose, _room(one)) for one in full[:8])
    return Found("Full: %s." % words, {"full": [one.path for one in full[:16]]})


def _full_silent(places: Sequence[Place], verdict: Verdict) -> Found | None:
    return None if verdict.detail.get("exception") else _full(places, verdict)


def _room(place: Place) -> str:
    if place.free_bytes < FULL_BYTES:
        return "%d MiB free of %d" % (place.free_bytes >> 20, place.total_bytes >> 20)
    return "no inode left"


def _has_room(places: Sequence[Place], verdict: Verdict) -> Found | None:
    if not places or any(one.full for one in places):
        return None
    least = min(places, key=lambda one: one.free_bytes)
    return Found(
        "By now there is room again where it was looked: least on %s (%s), %d MiB free."
        % (least.path, least.purpose, least.free_bytes >> 20)
    )


def _small_shm(places: Sequence[Place], verdict: Verdict) -> Found | None:
    for one in places:
        if one.path == SHM and (one.full or one.total_bytes <= SMALL_SHM_BYTES):
            return Found(
                "%s has %d MiB, %d of them free." % (SHM, one.total_bytes >> 20, one.free_bytes >> 20),
                {"shm_mib": one.total_bytes >> 20},
            )
    return None


def _bus_error(places: Sequence[Place], verdict: Verdict) -> Found | None:
    text = "%s %s" % (verdict.evidence.get("line", ""), verdict.detail.get("problem", ""))
    if verdict.detail.get("signal") == SIGBUS or "Bus error" in text or "exit code: -7" in text:
        return _small_shm(places, verdict)
    return None


def _port_held(holders: Sequence[dict[str, Any]], verdict: Verdict) -> Found | None:
    if not holders:
        return None
    who = ", ".join("%s (pid %s)" % (one.get("comm") or "?", one.get("pid")) for one in holders[:8])
    return Found("Port %s is held by %s." % (verdict.detail.get("port"), who), {"holders": list(holders[:16])})


def _port_free(holders: Sequence[dict[str, Any]], verdict: Verdict) -> Found | None:
    if holders:
        return None
    return Found("By now nobody else listens on port %s: the same start may succeed." % verdict.detail.get("port"))


RULES = (
    Rule(
        "oom_of_this_server",
        KERNEL,
        "ooms",
        (*VANISHED, "native_crash", "jit_toolchain"),
        DECIDES,
        "The kernel names the process and its control group; a process that was killed could not say so itself.",
        _own_kill,
        "host_oom_killed",
    ),
    Rule(
        "oom_is_in_the_kernel_log",
        KERNEL,
        "ooms",
        ("host_oom_killed",),
        SUPPORTS,
        "The same, where the control group's counter or the exit status told it already.",
        _own_kill,
    ),
    Rule(
        "oom_of_another",
        KERNEL,
        "ooms",
        (*VANISHED, "host_memory_alloc"),
        SUPPORTS,
        "Memory of the host was short; that it was this server's undoing is not shown.",
        _other_kill,
    ),
    Rule(
        "xid_broken_gpu",
        KERNEL,
        "xids",
        ON_GPU,
        DECIDES,
        "Xids of these classes end the work of every process on that GPU; what a program prints is their consequence.",
        _broken_gpu,
        "gpu_fault",
    ),
    Rule(
        "xid_confirms",
        KERNEL,
        "xids",
        ("gpu_fault",),
        SUPPORTS,
        "The log tells of a fault of the GPU and so does the driver.",
        _broken_gpu,
    ),
    Rule(
        "xid_of_the_program",
        KERNEL,
        "xids",
        ON_GPU,
        SUPPORTS,
        "Xids of this class are mostly the program's own fault: they tell where it died, not why.",
        _reported_program,
    ),
    Rule(
        "gpu_held",
        GPU,
        "cards",
        MEMORY,
        DECIDES,
        "Somebody else holds more than 15 % of a card of this server: no option of SGLang gives that memory back.",
        _held,
        "gpu_occupied",
    ),
    Rule(
        "gpu_still_held",
        GPU,
        "cards",
        ("gpu_occupied",),
        SUPPORTS,
        "The log says that the card is occupied, and this is who holds it.",
        _held,
    ),
    Rule(
        "gpu_free_by_now",
        GPU,
        "cards",
        ("gpu_occupied",),
        CONTRADICTS,
        "Who held the card has gone, so the same start may succeed.",
        _released,
    ),
    Rule(
        "gpu_held_unseen",
        GPU,
        "cards",
        (*MEMORY, "gpu_occupied"),
        SUPPORTS,
        "In a container the driver does not list the clients of the host: only that memory is gone can be seen.",
        _unseen,
    ),
    Rule(
        "disk_full_now",
        DISK,
        "places",
        ("disk_full",),
        SUPPORTS,
        "Names the file system, which the error message does not.",
        _full,
    ),
    Rule(
        "disk_has_room_by_now",
        DISK,
        "places",
        ("disk_full",),
        CONTRADICTS,
        "What filled it was removed with the process (temporary files), or by somebody.",
        _has_room,
    ),
    Rule(
        "disk_full_silent",
        DISK,
        "places",
        ("unknown", "unknown_child_death"),
        DECIDES,
        "No exception explains the end, and a server that cannot write its caches and locks does not start.",
        _full_silent,
        "disk_full",
    ),
    Rule(
        "disk_full_beside",
        DISK,
        "places",
        ("weights_corrupt", "jit_toolchain", "native_crash", "torch_compile_error", "sglang_bug", "unknown"),
        SUPPORTS,
        "A full file system leaves files cut short; whether it did here is not shown.",
        _full,
    ),
    Rule(
        "shm_bus_error",
        DISK,
        "places",
        ("native_crash", "unknown", "unknown_child_death", "scheduler_killed"),
        DECIDES,
        "SIGBUS is what a write beyond the end of /dev/shm gives, and /dev/shm is full or has its smallest size.",
        _bus_error,
        "shm_ulimit",
    ),
    Rule(
        "shm_small",
        DISK,
        "places",
        ("shm_ulimit", "nccl_error", "peer_rank_died"),
        SUPPORTS,
        "NCCL and the ranks exchange data in /dev/shm and need more of it the more ranks there are.",
        _small_shm,
    ),
    Rule(
        "port_held",
        PORT,
        "port",
        ("port_in_use",),
        SUPPORTS,
        "Names who has to be stopped.",
        _port_held,
    ),
    Rule(
        "port_free_by_now",
        PORT,
        "port",
        ("port_in_use",),
        CONTRADICTS,
        "Who held the port has gone, so the same start may succeed.",
        _port_free,
    ),
)
OUTCOMES = ("failed", "stalled", "timeout", "crashed_after_ready")


def wanted(verdict: Verdict) -> bool:
    """Whether there is anything to ask, so that a clear case need not even get ready to."""
    return verdict.outcome in OUTCOMES and any(verdict.cause in rule.causes for rule in RULES)


def weigh(verdict: Verdict, outside: Outside | None, late: bool = False) -> Verdict:
    """The verdict with what can be seen beside the log. A source is asked once at most, and only where it counts.

    ``late``: the start lies back, so GPUs, disks and ports as they are by now decide nothing; the kernel's log does.
    """
    if outside is None or not wanted(verdict):
        return verdict
    rows: list[dict[str, Any]] = []
    answers: dict[str, Answer] = {}
    detail = dict(verdict.detail)
    changed: Cause | None = None
    retryable = verdict.retryable
    for rule in RULES:
        if verdict.cause not in rule.causes:
            continue
        answer = _ask(rule.asks, outside, verdict, answers)
        if answer is None:
            continue
        if answer.value is None:
            row = {"source": rule.source, "rule": None, "effect": UNKNOWN, "says": mask(answer.why)}
            if row not in rows:
                rows.append(row)
            continue
        found = rule.looks(answer.value, verdict)
        if found is None or any(row["says"].startswith(mask(found.says)[:1000]) for row in rows):
            continue
        effect = rule.effect
        if effect == DECIDES and (changed is not None or (late and rule.source != KERNEL)):
            effect = SUPPORTS  # one piece of evidence decides, the first in the table
        if effect == DECIDES:
            changed = by_id()[rule.becomes]
        if effect == CONTRADICTS:
            retryable = True
        for key, value in found.detail.items():
            if effect == DECIDES or key not in detail:
                detail[key] = value
        says = mask(found.says)[:1000]
        if late and rule.source != KERNEL:
            says += " (Seen now, not then.)"
        rows.append({"source": rule.source, "rule": rule.id, "effect": effect, "says": says})
    if not rows:
        return verdict
    evidence = {**verdict.evidence, "outside": [*verdict.evidence.get("outside", ()), *rows]}
    if changed is None:
        return replace(verdict, evidence=evidence, detail=detail, retryable=retryable)
    detail["cause_by_log"] = verdict.cause
    return replace(
        verdict,
        cause=changed.id,
        message=mask(_message(changed, detail)),
        evidence=evidence,
        detail=detail,
        remedies=[one.as_dict() for one in changed.remedies],
        not_remedies=list(changed.not_remedies),
        retryable=changed.retryable,
        docs=docs(changed.id),
    )


def ranks(options: Mapping[str, str]) -> int:
    """How many cards a server uses, by the arguments that it printed."""
    sizes = (options.get("tp_size") or "1", options.get("pp_size") or "1")
    return max(1, int(sizes[0]) * int(sizes[1])) if all(size.isdigit() and len(size) < 5 for size in sizes) else 1


def _ask(question: str, outside: Outside, verdict: Verdict, answers: dict[str, Answer]) -> Answer | None:
    """The answer, asked for once. None where there is nothing to ask."""
    if question == "port" and not isinstance(verdict.detail.get("port"), int):
        return None
    if question not in answers:
        asks = getattr(outside, question)
        answers[question] = asks(verdict.detail["port"]) if question == "port" else asks()
    return answers[question]


def _message(cause: Cause, detail: dict[str, Any]) -> str:
    try:
        return cause.message.format_map(detail)
    except (KeyError, IndexError, ValueError):
        return cause.meaning
