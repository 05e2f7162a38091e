# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a row of the table of causes is. The rows lie in the ``causes_*`` files, the table is made in ``causes``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._remedy import Remedy


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
