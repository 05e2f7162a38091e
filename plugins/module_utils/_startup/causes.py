# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The table of causes: why a server did not start. One row each; the rows lie in the ``causes_*`` files.

A pattern is a template of what SGLang, torch, NCCL, Python or a shell print. The order of the table is the order in
which a failure is tried against it: rows that name a resource first, rows that know only a shape last, and before
these the places of ``causes_place``.
``tier`` ranks the failures of one start: 3 names the resource, 2 is a cause, 1 is what a process tells of its
neighbour's death, 0 is a shape (a defect somewhere in SGLang).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from . import causes_config, causes_install, causes_kernel, causes_memory, causes_network, causes_place, causes_process
from .cause import Cause, Pattern

DOCS = "catalogue.html#"
PLACE_TIER = 1  # what a row knows by its words is a better root


def docs(cause: str) -> str:
    """Where the catalogue's page describes a cause: Sphinx makes the anchor of its heading so."""
    return DOCS + cause.replace("_", "-")


@functools.cache
def compiled(text: str) -> re.Pattern[str]:
    return re.compile(text)


@functools.cache
def table() -> tuple[Cause, ...]:
    """All rows in the order in which they are tried."""
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
    for patterns in [*(row.patterns for row in table()), [place for _name, place in causes_place.PLACES]]:
        for one in patterns:
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
    """The first row whose pattern is in the message of a failure, or None; shapes after the places."""
    failure = (frames, phase, drafting, kind)
    for row in table():
        found = _try(row, lines, *failure) if row.tier else None
        if found is not None:
            return found
    for name, place in causes_place.PLACES:
        found = _search(by_id()[name], (place,), lines[:1], *failure)
        if found is not None:
            return replace(found, tier=PLACE_TIER)
    for row in table():
        found = None if row.tier else _try(row, lines, *failure)
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
    return _search(row, row.patterns, lines, frames, phase, drafting, kind)


def _search(
    row: Cause,
    patterns: tuple[Pattern, ...],
    lines: list[str],
    frames: list[str],
    phase: str,
    drafting: bool,
    kind: str,
) -> Match | None:
    for one in patterns:
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
