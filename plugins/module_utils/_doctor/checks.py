# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The table of checks, and what all of them say of one host."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from . import checks_devices, checks_driver, checks_gpu, checks_guest, checks_server, checks_system
from .check import (
    DOCS,
    FAIL,
    NOT_APPLICABLE,
    STATUSES,
    UNKNOWN,
    WARN,
    Check,
    Finding,
    Result,
    View,
)
from .facts import Unread

CHECKS: tuple[Check, ...] = (
    checks_driver.ROWS
    + checks_devices.ROWS
    + checks_gpu.ROWS
    + checks_guest.ROWS
    + checks_system.ROWS
    + checks_server.ROWS
)
FAMILIES = tuple(dict.fromkeys(check.family for check in CHECKS))
# Families that ask a network: only where they are named.
ON_DEMAND = ("network",)
DEFAULT = tuple(family for family in FAMILIES if family not in ON_DEMAND)


def by_id(name: str) -> Check:
    return next(check for check in CHECKS if check.id == name)


def examine(view: View, families: Collection[str] = DEFAULT) -> list[Finding]:
    """Every check of these families that is for such a place, in the order of the table."""
    return [_finding(check, _look(check, view), view) for check in CHECKS if _wanted(check, view, families)]


def _wanted(check: Check, view: View, families: Collection[str]) -> bool:
    return check.family in families and view.place in check.places


def _look(check: Check, view: View) -> Result:
    try:
        if check.guest and view.ask.vmid is None:
            return Result(NOT_APPLICABLE, "no container was named (vmid)")
        if check.probe and not view.ask.probe:
            return Result(NOT_APPLICABLE, "only where asking servers and GPUs is allowed (probe)")
        if check.gpu and not view.nvidia():
            return Result(NOT_APPLICABLE, "no NVIDIA GPU is on the PCI bus and no NVIDIA module is loaded")
        return check.find(view)
    except Unread as why:
        return Result(UNKNOWN, str(why))


def _finding(check: Check, result: Result, view: View) -> Finding:
    remedy = None
    if result.status in (WARN, FAIL):
        text = check.remedy.text.format_map(_Values(result.values))
        proof = {"check": check.id, "place": view.place}
        remedy = replace(check.remedy, text=text, proven_by=proof, docs=_docs(check))
    return Finding(
        id=check.id,
        family=check.family,
        place=view.place,
        status=result.status,
        severity=check.severity,
        meaning=check.meaning,
        evidence=result.evidence,
        remedy=remedy,
        task=check.task,
        docs=_docs(check),
    )


def _docs(check: Check) -> str:
    return DOCS + check.id.replace("_", "-")


class _Values(dict):  # type: ignore[type-arg]
    """Values of a remedy's placeholders; one that a check did not give stays as it is written."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def summary(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings have each status."""
    found = [finding.status for finding in findings]
    return {status: found.count(status) for status in STATUSES}


def worst(findings: Iterable[Finding]) -> list[Finding]:
    """What is wrong, the worst first."""
    order = ("high", "medium", "low")
    bad = [finding for finding in findings if finding.status in (FAIL, WARN)]
    return sorted(bad, key=lambda finding: (finding.status != FAIL, order.index(finding.severity)))


def table() -> list[dict[str, Any]]:
    """The rows as plain data, for documents."""
    return [
        {
            "id": check.id,
            "family": check.family,
            "places": list(check.places),
            "severity": check.severity,
            "meaning": check.meaning,
            "look": check.look,
            "remedy": check.remedy.text,
            "cases": list(check.cases),
            "on_demand": check.probe or check.family in ON_DEMAND,
        }
        for check in CHECKS
    ]
