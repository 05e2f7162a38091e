# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The verdicts of the ranks of one server -> one verdict.

A rank that fails takes the others with it, and these fail with words about the connection, often first. So the root is
not the rank that failed first but the one that tells of something other than the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .phases import ORDER

# Causes that tell of another rank, and words that do so whatever the cause was called.
CONSEQUENCES = ("peer_rank_died", "rendezvous_failed", "rendezvous_hang", "nccl_hang", "nccl_timeout")
PEER = re.compile(
    r"[Cc]onnection (?:closed|reset) by (?:peer|remote|localRank)|Broken pipe|recvValue failed|"
    r"Failed to recv, got 0 bytes"
)
FAILED, WAITING = ("failed", "crashed_after_ready"), ("stalled", "timeout", "in_progress", "stopped")


@dataclass(frozen=True)
class Rank:
    """One node. ``verdict`` is what ``server_wait`` returned there, None or without an outcome where there is none."""

    rank: int
    host: str
    verdict: Mapping[str, Any] | None

    def of(self, key: str, default: Any = None) -> Any:
        found = (self.verdict or {}).get(key)
        return default if found is None else found

    @property
    def outcome(self) -> str:
        return str(self.of("outcome", ""))

    @property
    def name(self) -> str:
        return "rank %d on %s" % (self.rank, self.host)


def conclude(ranks: Sequence[Rank]) -> dict[str, Any]:
    """The verdict of the whole: that of the rank that is the root, with what became of each."""
    parts = {one.rank: _part(one) for one in ranks}
    told = {one.rank: parts[one.rank] for one in ranks}
    first = min(ranks, key=lambda one: one.rank)
    if all(parts[one.rank] == "skipped" for one in ranks):
        return _verdict(ranks, told, first, "skipped", "Nothing to wait for in check mode.", None)
    if parts[first.rank] == "ready" and not {"failed", "consequence"} & set(parts.values()):
        return _verdict(ranks, told, first, "ready", _ready_words(ranks, parts), None)
    root = min((one for one in ranks if parts[one.rank] != "ready"), key=lambda one: _order(one, parts[one.rank]))
    told[root.rank] = "root"
    for one in ranks:
        if told[one.rank] == "failed":
            told[one.rank] = "failed too"
    outcome = root.outcome if root.outcome in FAILED or root.outcome in WAITING else "failed"
    if any(parts[one.rank] in ("failed", "consequence") for one in ranks):
        outcome = "failed"
    return _verdict(ranks, told, root, outcome, _words(ranks, told, root), root)


def _part(one: Rank) -> str:
    """What the verdict of a rank is within the whole."""
    if not one.outcome:
        return "silent"
    if one.outcome in FAILED:
        # where the other rank's death made this one crash, the line says so whatever the crash was called
        about_peer = PEER.search(str(one.of("evidence", {}).get("line") or ""))
        return "consequence" if one.of("cause") in CONSEQUENCES or about_peer else "failed"
    return "waiting" if one.outcome in WAITING else one.outcome


def _order(one: Rank, part: str) -> tuple[int, float, int]:
    """The root is the first by this."""
    ended = float(one.of("seconds", 0.0)) - float(one.of("verdict_delay_s", 0.0))
    if part == "failed":
        return (2 if one.of("cause", "unknown") == "unknown" else 0), ended, one.rank
    if part == "silent":
        return 1, 0.0, one.rank
    if one.outcome == "stopped":  # a node's launcher ends well where its scheduler was killed
        return 3, ended, one.rank
    if part == "consequence":
        return 4, ended, one.rank
    # nobody has failed: the one that is behind, and of equals not rank 0, which waits for all others
    return 5, float(ORDER.get(str(one.of("phase")), 0)), -one.rank


def _words(ranks: Sequence[Rank], told: Mapping[int, str], root: Rank) -> str:
    """One message for people."""
    title = "Rank %d of %d, on %s" % (root.rank, len(ranks), root.host)
    if not root.outcome:
        why = str(root.of("msg", "") or "it was not reached, or its task failed before")
        words = ["%s, has told nothing: %s." % (title, why.rstrip("."))]
    elif root.outcome == "stopped":
        words = ["%s, has ended: %s" % (title, root.of("message", "it was stopped."))]
    elif root.outcome in WAITING:
        words = ["%s, is furthest behind: %s" % (title, root.of("message", root.outcome))]
    else:
        words = ["%s, failed in phase %s: %s" % (title, root.of("phase", "?"), root.of("message", "it tells no more."))]
    for part, text in (
        ("failed too", "failed as well: %s"),
        ("consequence", "is a consequence: %s"),
        ("waiting", "still waited in phase %s"),
        ("silent", "has told nothing"),
        ("ready", "was ready"),
    ):
        for one in (each for each in ranks if told[each.rank] == part):
            line = one.of("phase", "?") if part == "waiting" else _line(one)
            words.append("R%s %s." % (one.name[1:], text % line.rstrip(".") if "%" in text else text))
    return " ".join(words)


def _line(one: Rank) -> str:
    """The words of a rank that is not the root, short."""
    evidence = one.of("evidence", {})
    found = PEER.search(str(evidence.get("line") or ""))
    if found is not None:
        return found.group(0)
    return str(one.of("message", one.of("cause", "?")))[:300]


def _ready_words(ranks: Sequence[Rank], parts: Mapping[int, str]) -> str:
    late = [one.name for one in ranks if parts[one.rank] != "ready"]
    if late:
        return "The server is ready by rank 0; %s did not tell so." % ", ".join(late)
    return "All %d ranks are ready." % len(ranks)


def _verdict(
    ranks: Sequence[Rank], told: Mapping[int, str], one: Rank, outcome: str, message: str, root: Rank | None
) -> dict[str, Any]:
    """The verdict of one rank, whose words are now those of the whole."""
    return {
        **(one.verdict or {}),
        "outcome": outcome,
        "cause": one.of("cause", None if outcome in ("ready", "skipped") else "unknown"),
        "phase": one.of("phase", "import"),
        "message": message,
        "evidence": one.of("evidence", {}),
        "detail": one.of("detail", {}),
        "remedies": one.of("remedies", []),
        "not_remedies": one.of("not_remedies", []),
        "retryable": bool(one.of("retryable", False)),
        "root": None if root is None else {"rank": root.rank, "host": root.host},
        "ranks": [
            {
                "rank": each.rank,
                "host": each.host,
                "part": told[each.rank],
                "outcome": each.outcome or None,
                "cause": each.of("cause"),
                "phase": each.of("phase"),
                "message": each.of("message", each.of("msg")),
            }
            for each in sorted(ranks, key=lambda each: each.rank)
        ],
    }
