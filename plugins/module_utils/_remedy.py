# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""A remedy: the same type from the startup watch, the memory planner and the doctor."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Remedy:
    """One thing to change, for people (``text``) and for machines (``arguments`` or ``host_action``).

    ``arguments`` maps changed launch arguments, by SGLang's option name with underscores, to their new
    value (``None`` removes the option). ``host_action`` is what to do on the host where no argument helps.
    ``proven_by`` holds the plan or check that showed it to work, or ``None`` where nothing did.
    ``safe`` says that it may be applied unattended.
    """

    id: str
    text: str
    arguments: dict[str, Any] = field(default_factory=dict)
    host_action: str | None = None
    proven_by: dict[str, Any] | None = None
    safe: bool = False
    docs: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
