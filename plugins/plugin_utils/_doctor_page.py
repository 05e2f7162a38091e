# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What the doctor found, as lines for a terminal and as an HTML page. All from outside is masked and escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._process.identity import mask
from ansible_collections.llmhost.sglang.plugins.plugin_utils._report import STYLE, text

ORDER = ("fail", "warn", "unknown", "ok", "not_applicable")
WORDS = {
    "fail": "broken",
    "warn": "not in order",
    "unknown": "could not be seen",
    "ok": "in order",
    "not_applicable": "says nothing here",
}
PLACES = {"node": "Proxmox node", "container": "container", "bare_metal": "host"}
SEVERITIES = ("high", "medium", "low")
OWN_STYLE = """
.fail { color: var(--bad); font-weight: 600; } .warn { color: #a15c00; font-weight: 600; } .ok { color: var(--good); }
@media (prefers-color-scheme: dark) { .warn { color: #e0a458; } }
td:first-child, td:nth-child(2) { white-space: nowrap; }
"""
CELL = 400  # characters of a cell in the terminal


def findings(views: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All findings with the host that each is of, the worst first."""
    found = [
        dict(finding, host=str(view.get("host") or view.get("place") or ""))
        for view in views
        for finding in view.get("findings") or []
    ]
    return sorted(found, key=_rank)


def _rank(finding: Mapping[str, Any]) -> tuple[int, int]:
    status, severity = finding.get("status"), finding.get("severity")
    return (
        ORDER.index(status) if status in ORDER else len(ORDER),
        SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES),
    )


def counts(found: Sequence[Mapping[str, Any]]) -> str:
    """'2 broken, 1 not in order, 30 in order'."""
    numbers = {status: sum(1 for finding in found if finding.get("status") == status) for status in ORDER}
    return ", ".join(f"{number} {WORDS[status]}" for status, number in numbers.items() if number)


def table(views: Sequence[Mapping[str, Any]], status: Sequence[str] = ("fail", "warn")) -> list[str]:
    """Lines for people: a count, what has one of these statuses with what to do, and what could not be seen."""
    found = findings(views)
    shown = [f for f in found if f["status"] in status]
    unknown = [f for f in found if f["status"] == "unknown" and "unknown" not in status]
    rows = [(f["status"].upper(), f["id"], f["host"]) for f in shown]
    widths = [max([len(row[column]) for row in rows] or [0]) for column in range(3)]
    lines = [counts(found) or "no check was for such a host"]
    for row, finding in zip(rows, shown):
        head = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        lines.append(f"{head}  {_line(finding['evidence'])}")
        remedy = finding.get("remedy") or {}
        if remedy.get("text"):
            lines.append(f"{' ' * (sum(widths) + 4)}  -> {_line(remedy['text'])}")
    if unknown:
        lines.append("could not be seen: " + "; ".join(f"{f['id']} on {f['host']}" for f in unknown))
    return lines


def _line(value: Any) -> str:
    shown = " ".join(mask(str(value)).split())
    return shown if len(shown) <= CELL else shown[:CELL] + "..."


def page(views: Sequence[Mapping[str, Any]], name: str = "") -> str:
    """The whole page."""
    found = findings(views)
    bad = sum(finding["status"] == "fail" for finding in found)
    title = f"Doctor: {name}" if name else "Doctor"
    mood = "bad" if bad else "good"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{text(title)}</title>",
            f"<style>{STYLE}{OWN_STYLE}</style></head><body><main>",
            f"<header><h1>{text(title)}</h1></header>",
            f'<section class="verdict {mood}"><p>{text(counts(found) or "no check was for such a host")}</p></section>',
            *_section("What to change", [f for f in found if f["status"] in ("fail", "warn")], cure=True),
            *_section("What could not be seen", [f for f in found if f["status"] == "unknown"]),
            *_section("What is in order", [f for f in found if f["status"] == "ok"]),
            *_section("What says nothing here", [f for f in found if f["status"] == "not_applicable"], folded=True),
            "</main></body></html>",
            "",
        ]
    )


def _section(title: str, found: Sequence[Mapping[str, Any]], cure: bool = False, folded: bool = False) -> Iterator[str]:
    if not found:
        return
    yield "<section>" + (f"<details><summary>{title}</summary>" if folded else f"<h2>{title}</h2>")
    yield '<div class="scroll"><table><thead><tr><th>Check</th><th>Where</th><th>Seen</th></tr></thead><tbody>'
    for finding in found:
        place = PLACES.get(str(finding.get("place")), "")
        where = text(finding["host"]) + (f'<br><span class="soft">{place}</span>' if place else "")
        status = finding["status"] if finding["status"] in ("fail", "warn", "ok") else "soft"
        words = f'<p class="{status}">{text(finding.get("meaning"))}</p>' if cure else ""
        words += f"<p>{text(finding.get('evidence'))}</p>"
        remedy = finding.get("remedy") or {}
        if cure and remedy.get("text"):
            words += f"<p>&rarr; {text(remedy['text'])}</p>"
        yield f"<tr><td><code>{text(finding['id'])}</code></td><td>{where}</td><td>{words}</td></tr>"
    yield "</tbody></table></div>" + ("</details>" if folded else "") + "</section>"
