# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What was seen of a host: plain values by name, and why a value is missing where it could not be read.

Facts travel as JSON, so that what was seen on a node can be handed to the run in its container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NODE = "node"
CONTAINER = "container"
BARE_METAL = "bare_metal"
PLACES = (NODE, CONTAINER, BARE_METAL)


class Unread(Exception):
    """A fact that could not be read; a check that needs it is ``unknown`` with these words."""


@dataclass(frozen=True)
class Facts:
    """``values`` hold what was read (``None``: known to be absent), ``unread`` why something was not."""

    place: str
    values: Mapping[str, Any] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    def need(self, name: str) -> Any:
        """The value; ``Unread`` where there is none."""
        if name in self.values:
            return self.values[name]
        raise Unread(self.unread.get(name) or f"{name} was not looked at on this {self.place.replace('_', ' ')}")

    def maybe(self, name: str, default: Any = None) -> Any:
        """The value where it was read; for evidence that is nice to have, never for a verdict."""
        return self.values.get(name, default)

    def as_dict(self) -> dict[str, Any]:
        return {"place": self.place, "values": dict(self.values), "unread": dict(self.unread)}


def from_dict(data: Mapping[str, Any]) -> Facts:
    """Facts that another run returned; ``ValueError`` where they are none."""
    place, values, unread = data.get("place"), data.get("values"), data.get("unread")
    if place not in PLACES or not isinstance(values, Mapping) or not isinstance(unread, Mapping):
        raise ValueError("it has no place, values and unread as 'view' of doctor_info has")
    return Facts(place, dict(values), {str(key): str(why) for key, why in unread.items()})
