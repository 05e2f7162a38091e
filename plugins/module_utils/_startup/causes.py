# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The table of causes: why a server did not start. One row each; the rows lie in the ``causes_*`` files.

A pattern is a template of what SGLang, torch, NCCL, Python or a shell print. The order of the table is the order in
which a failure is tried against it: rows that name a resource first, rows that know only a shape last.
``tier`` ranks the failures of one start: 3 names the resource, 2 is a cause, 1 is what a process tells of its
neighbour's death, 0 is a shape (a defect somewhere in SGLang).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._remedy import Remedy

DOCS = "failure-catalogue.html#"


@dataclass(frozen=True)
class Pattern:
    """``text`` is searched in each line of a failure's message, the first that holds it is the root line.

    ``frames`` is searched in the traceback ("file:function" by line), ``last`` in its innermost frame. ``phases``
    and ``drafting`` restrict to a phase and to the load of a draft model. ``kind`` is "exception" or "line".
    ``tier`` replaces that of the row where this pattern is a weaker or stronger sign.
    """

    text: str
    frames: str = ""
    last: str = ""
    phases: tuple[str, ...] = ()
    drafting: bool | None = None
    kind: str = ""
    tier: int | None = None


@dataclass(frozen=True)
class Cause:
    """One row. ``message`` is filled from the named groups of the pattern that matched."""

    id: str
    meaning: str
    message: str
    patterns: tuple[Pattern, ...]
    examples: tuple[str, ...]
    remedies: tuple[Remedy, ...] = ()
    not_remedies: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    misleading: tuple[str, ...] = ()
    retryable: bool = False
    tier: int = 2
    last_in_chain: bool = False  # a readable exception that was raised again is the root line, not the first one
    versions: str = ""


def pattern(
    text: str,
    frames: str = "",
    last: str = "",
    phases: tuple[str, ...] = (),
    drafting: bool | None = None,
    kind: str = "",
    tier: int | None = None,
) -> Pattern:
    return Pattern(text, frames, last, phases, drafting, kind, tier)


def remedy(
    id: str, text: str, arguments: Mapping[str, Any] | None = None, host_action: str | None = None, safe: bool = False
) -> Remedy:
    return Remedy(id=id, text=text, arguments=dict(arguments or {}), host_action=host_action, safe=safe)


@functools.cache
def compiled(text: str) -> re.Pattern[str]:
    return re.compile(text)


@functools.cache
def table() -> tuple[Cause, ...]:
    """All rows in the order in which they are tried."""
    from . import causes_config, causes_install, causes_kernel, causes_memory, causes_network, causes_process

    rows = (
        causes_process.FIRST
        + causes_config.ARGUMENTS
        + causes_network.PORTS
        + causes_install.COMPILERS
        + causes_memory.ROWS
        + causes_kernel.ROWS
        + causes_install.ROWS
        + causes_config.MODEL
        + causes_network.ROWS
        + causes_process.ROWS
    )
    return rows


@functools.cache
def by_id() -> dict[str, Cause]:
    return {row.id: row for row in table()}


def warm() -> int:
    """Compile every pattern now, so that the verdict needs no time for it later. Returns how many there are."""
    count = 0
    for row in table():
        for one in row.patterns:
            for text in (one.text, one.frames, one.last):
                if text:
                    compiled(text)
                    count += 1
    return count


@dataclass(frozen=True)
class Match:
    """A failure and the row that it hits: ``index`` is the line of the message that carries the cause."""

    cause: Cause
    index: int
    groups: dict[str, str]
    tier: int = 2


def classify(
    lines: list[str], frames: list[str], phase: str, drafting: bool = False, kind: str = "exception"
) -> Match | None:
    """The first row whose pattern is in the message of a failure, or None."""
    for row in table():
        found = _try(row, lines, frames, phase, drafting, kind)
        if found is not None:
            return found
    return None


def matches(
    lines: list[str], frames: list[str], phase: str, drafting: bool = False, kind: str = "exception"
) -> list[Match]:
    """Every row that a failure hits; the tests hold that an example hits its own row only."""
    found = (_try(row, lines, frames, phase, drafting, kind) for row in table())
    return [match for match in found if match is not None]


def _try(row: Cause, lines: list[str], frames: list[str], phase: str, drafting: bool, kind: str) -> Match | None:
    if row.phases and phase not in row.phases:
        return None
    for one in row.patterns:
        if one.phases and phase not in one.phases:
            continue
        if one.kind and one.kind != kind:
            continue
        if one.drafting is not None and one.drafting != drafting:
            continue
        if one.last and not (frames and compiled(one.last).search(frames[-1])):
            continue
        if one.frames and not any(compiled(one.frames).search(frame) for frame in frames):
            continue
        search = compiled(one.text).search
        for index, line in enumerate(lines):
            found = search(line[:8192])
            if found is not None:
                groups = {key: value.strip() for key, value in found.groupdict().items() if value is not None}
                return Match(row, index, groups, row.tier if one.tier is None else one.tier)
    return None
