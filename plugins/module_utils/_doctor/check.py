# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a check is, what it looks at, what it says. The rows lie in the ``checks_*`` files, the table in ``checks``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from .._remedy import Remedy
from .facts import BARE_METAL, CONTAINER, NODE, Facts, Unread

OK, WARN, FAIL, UNKNOWN, NOT_APPLICABLE = STATUSES = ("ok", "warn", "fail", "unknown", "not_applicable")
SEVERITIES = ("high", "medium", "low")
DOCS = "checks.html#"

HERE = (CONTAINER, BARE_METAL)  # where the server runs
HOST = (NODE, BARE_METAL)  # where the kernel module is
EVERYWHERE = (NODE, CONTAINER, BARE_METAL)


@dataclass(frozen=True)
class Ask:
    """What is wanted of the host, as far as the caller said."""

    vmid: int | None = None
    gpus: tuple[str, ...] = ()
    user: str | None = None  # who runs the server
    model_paths: tuple[str, ...] = ()
    runtime: str | None = None
    paths: tuple[str, ...] = ()  # folders that will be written
    ports: Mapping[str, int] = field(default_factory=dict)  # instance -> port
    environment: Mapping[str, str] = field(default_factory=dict)
    driver_min: str = "580"
    probe: bool = False  # ask running servers for a token, try two ranks


@dataclass(frozen=True)
class View:
    """Everything that a check may look at. ``peer`` is what was seen on the node, for the run in its container."""

    facts: Facts
    ask: Ask = field(default_factory=Ask)
    peer: Facts | None = None

    def need(self, name: str) -> Any:
        return self.facts.need(name)

    def maybe(self, name: str, default: Any = None) -> Any:
        return self.facts.maybe(name, default)

    @property
    def place(self) -> str:
        return self.facts.place

    def node(self) -> Facts:
        """What was seen where the kernel module is; ``Unread`` where nobody looked there."""
        if self.place != CONTAINER:
            return self.facts
        if self.peer is None:
            raise Unread("only the node can tell: hand its view in (node_view), in the playbooks llmhost_gpu_node")
        return self.peer

    def nvidia(self) -> bool:
        """Whether there is an NVIDIA GPU or its driver here; ``Unread`` where neither could be looked at."""
        return bool(self.need("bus_gpus")) or self.need("module") is not None


@dataclass(frozen=True)
class Result:
    """What one look said. ``values`` fill the placeholders of the row's remedy."""

    status: str
    evidence: str
    values: Mapping[str, Any] = field(default_factory=dict)


def ok(evidence: str) -> Result:
    return Result(OK, evidence)


def warn(evidence: str, **values: Any) -> Result:
    return Result(WARN, evidence, values)


def fail(evidence: str, **values: Any) -> Result:
    return Result(FAIL, evidence, values)


def skip(evidence: str) -> Result:
    return Result(NOT_APPLICABLE, evidence)


@dataclass(frozen=True)
class Check:
    """One row. ``gpu``: says nothing on a host without an NVIDIA GPU. ``cases``: public reports."""

    id: str
    family: str
    places: tuple[str, ...]
    severity: str
    meaning: str  # what is wrong where it is not ok, for people
    look: str  # how it is seen
    remedy: Remedy
    find: Callable[[View], Result]
    gpu: bool = True
    guest: bool = False  # says nothing without a container (vmid)
    probe: bool = False  # says nothing where asking servers was not allowed
    cases: tuple[str, ...] = ()
    task: Mapping[str, Any] | None = None  # the task that applies the remedy, where that is safe


@dataclass(frozen=True)
class Finding:
    """What a check says of one host. ``remedy`` is None where nothing is to be done."""

    id: str
    family: str
    place: str
    status: str
    severity: str
    meaning: str
    evidence: str
    remedy: Remedy | None = None
    task: Mapping[str, Any] | None = None
    docs: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "family": self.family,
            "place": self.place,
            "status": self.status,
            "severity": self.severity,
            "meaning": self.meaning,
            "evidence": self.evidence,
            "remedy": self.remedy.as_dict() if self.remedy else None,
            "task": dict(self.task) if self.task and self.remedy else None,
            "docs": self.docs,
        }


def role(name: str, **variables: Any) -> dict[str, Any]:
    """The task that includes a role of this collection."""
    task: dict[str, Any] = {"ansible.builtin.include_role": {"name": "llmhost.sglang." + name}}
    return {**task, "vars": variables} if variables else task
