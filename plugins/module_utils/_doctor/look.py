# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""One look at a host: a fact's name, which families want it, where it can be had, and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Callable

from .check import EVERYWHERE, Ask
from .facts import Facts, Unread
from .reader import Reader


@dataclass
class Scene:
    """What a look may use: the reader, what is wanted, and what was read before it."""

    reader: Reader
    ask: Ask
    place: str
    values: dict[str, Any] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def need(self, name: str) -> Any:
        return Facts(self.place, self.values, self.unread).need(name)


@dataclass(frozen=True)
class Look:
    name: str
    families: tuple[str, ...]  # () where every run wants it
    take: Callable[[Scene], Any]
    places: tuple[str, ...] = EVERYWHERE
    guest: bool = False  # only where a container was named
    probe: bool = False  # only where asking servers was allowed


def take(scene: Scene, looks: Iterable[Look], families: Iterable[str]) -> Facts:
    """Everything that these families need; what cannot be read is noted with its reason and hides nothing else."""
    wanted = set(families)
    for look in looks:
        if scene.place not in look.places or (look.families and not wanted & set(look.families)):
            continue
        if look.guest and scene.ask.vmid is None:
            continue
        if look.probe and not scene.ask.probe:
            scene.unread[look.name] = "not asked for (probe)"
            continue
        try:
            scene.values[look.name] = look.take(scene)
        except Unread as why:
            scene.unread[look.name] = str(why)
        except (OSError, ValueError, KeyError, IndexError) as error:
            scene.unread[look.name] = f"{look.name}: {type(error).__name__}: {error}"
    return Facts(scene.place, scene.values, scene.unread)
