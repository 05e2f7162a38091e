# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The cards of one server and who holds their memory, for the watch of its start."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from .._errors import LlmHostError
from .._gpu import clients, query
from .._gpu.model import Gpu, Snapshot, version_tuple
from .._startup.evidence import Answer, Card, Holder

TIMEOUT_S = 5.0
_DIGITS = re.compile(r"\d{1,4}")


class Gpus:
    """One driver, opened at the first question and kept: the watch asks again and again while a start is silent."""

    def __init__(self, proc: str = "/proc", timeout_s: float = TIMEOUT_S, source: str = "auto") -> None:
        self._proc = proc
        self._timeout_s = timeout_s
        self._source = source
        self._driver: query.Driver | None = None
        self._why = ""

    def look(self) -> Answer:
        """One look at all cards with their clients: a ``Snapshot``, or why there is none."""
        if self._why:
            return Answer(None, self._why)
        try:
            if self._driver is None:
                self._driver, _name, _note = query.open_driver(self._source, self._timeout_s, self._proc)
            found = self._driver.look()
        except LlmHostError as error:
            self._why = "The GPUs cannot be looked at: %s" % error.message
            self.close()
            return Answer(None, self._why)
        driver, nested = version_tuple(found.driver_version), self._driver.nested
        gpus = tuple(clients.identify(gpu, nested, driver, self._proc) for gpu in found.gpus)
        return Answer(replace(found, gpus=gpus))

    @property
    def nested(self) -> bool:
        return self._driver is not None and self._driver.nested

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(OSError, LlmHostError):
                driver.close()


def visible(snapshot: Snapshot, environment: Mapping[str, str] | None, ranks: int) -> list[Gpu] | None:
    """The cards that a server with this environment uses; None where that cannot be known."""
    if environment is None:
        return list(snapshot.gpus) if len(snapshot.gpus) == 1 else None
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return list(snapshot.gpus[: max(1, ranks)])
    found = []
    for word in (part.strip() for part in named.split(",")):
        if _DIGITS.fullmatch(word):
            found += [gpu for gpu in snapshot.gpus if gpu.index == int(word)]
        elif word.upper().startswith("GPU-"):
            found += [gpu for gpu in snapshot.gpus if gpu.uuid and gpu.uuid.lower().startswith(word.lower())]
        elif word.upper().startswith("MIG-"):
            found += [gpu for gpu in snapshot.gpus if any(one.uuid == word for one in gpu.mig_devices)]
    return found


def cards(gpus: Collection[Gpu], unit: str, pids: Collection[int]) -> list[Card]:
    """The nouns of the evidence: a client that cannot be identified is neither own nor foreign."""
    found = []
    for gpu in gpus:
        holders = []
        for client in gpu.clients:
            process = client.process
            own: bool | None = None
            if process is not None:
                own = process.unit == unit or process.pid in pids
            holders.append(
                Holder(
                    client.entry.pid,
                    process.comm if process else "a process that cannot be seen from here",
                    own,
                    client.entry.memory_mib,
                    process.unit if process else None,
                )
            )
        found.append(Card(gpu.index, gpu.memory.total, gpu.memory.used, tuple(holders)))
    return found


def held_mib(found: Collection[Card]) -> int | None:
    """Memory that the server holds on its cards; in a container, where clients are not listed, all that is used."""
    own = [one.memory_mib for card in found for one in card.holders if one.own]
    known = [size for size in own if size is not None]
    if known:
        return sum(known)
    used = [card.used_mib for card in found if card.used_mib is not None]
    return sum(used) if used else None
