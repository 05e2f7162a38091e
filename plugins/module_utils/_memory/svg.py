# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The budget of each card as a picture: one bar a card, one colour an item, self-contained SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from .budget import ITEMS

WIDTH = 960
_LEFT = 16
_BAR_HEIGHT = 36
_BAR_STEP = 84
_TOP = 56
_LEGEND_STEP = 22
_LEGEND_COLUMNS = 3
_LEAST_LABEL_WIDTH = 44
_TEXT = 'font-family="system-ui, sans-serif" fill="#1b1b1f"'

# One colour an item; related items are shades of one hue.
COLOURS: dict[str, str] = {
    "driver": "#9aa0a6",
    "foreign": "#5f6368",
    "startup": "#bdc1c6",
    "weights": "#1a56a8",
    "draft_weights": "#5b8fd6",
    "load_drop": "#a9c4ea",
    "multimodal": "#7a4ea3",
    "states": "#b0530f",
    "draft_states": "#e08a3c",
    "kv_cache": "#1e7d4f",
    "window_cache": "#55ad82",
    "draft_kv_cache": "#9fd3b9",
    "slack": "#e3d9c6",
    "request_table": "#c7b300",
    "draft_model": "#7f9fd0",
    "attention_workspace": "#c76b98",
    "decode_graphs": "#a83a6f",
    "draft_graphs": "#d795b6",
    "prefill_graphs": "#7d2a55",
    "torch_compile": "#8c6d46",
    "activations": "#d0a15f",
    "vision": "#9b7fbf",
    "unassigned": "#f1f3f4",
}
_MISSING_COLOUR = "#c5221f"


def draw(cards: Sequence[Mapping[str, Any]], title: str) -> str:
    """``cards`` as the plan returns them under ``budget``."""
    shown = [item for item in ITEMS if any(_size(card, item) for card in cards)]
    missing = any(card["missing_gib"] > 0 for card in cards)
    legend_rows = -(-(len(shown) + missing) // _LEGEND_COLUMNS)
    legend_top = _TOP + len(cards) * _BAR_STEP
    height = legend_top + legend_rows * _LEGEND_STEP + 16
    scale = (WIDTH - 2 * _LEFT) / max((_shown_gib(card) for card in cards), default=1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="28" font-size="17" font-weight="600" {_TEXT}>{escape(title)}</text>',
    ]
    for position, card in enumerate(cards):
        parts.extend(_card(card, _TOP + position * _BAR_STEP, scale))
    parts.extend(_legend(shown, missing, legend_top))
    return "\n".join([*parts, "</svg>", ""])


def _size(card: Mapping[str, Any], item: str) -> float:
    return next((float(row["gib"]) for row in card["entries"] if row["item"] == item), 0.0)


def _shown_gib(card: Mapping[str, Any]) -> float:
    """A bar that is too long shows what does not fit beyond the card's end."""
    return float(card["total_gib"]) + float(card["missing_gib"])


def _card(card: Mapping[str, Any], top: int, scale: float) -> Iterable[str]:
    head = f"GPU {card['gpu']} {card['name']}: {card['total_gib']:.1f} GiB"
    if card["missing_gib"] > 0:
        head += f", {card['missing_gib']:.2f} GiB missing"
    yield f'<text x="{_LEFT}" y="{top + 14}" font-size="13" {_TEXT}>{escape(head)}</text>'
    bar_top = top + 22
    left = float(_LEFT)
    for row in card["entries"]:
        width = float(row["gib"]) * scale
        if width <= 0:
            continue
        text = f"{row['text']}: {row['gib']:.2f} GiB"
        yield (
            f'<rect x="{left:.2f}" y="{bar_top}" width="{width:.2f}" height="{_BAR_HEIGHT}" '
            f'fill="{COLOURS[row["item"]]}" stroke="#ffffff" stroke-width="0.5"><title>{escape(text)}</title></rect>'
        )
        if width >= _LEAST_LABEL_WIDTH:
            fill = "#1b1b1f" if row["item"] in _LIGHT else "#ffffff"
            yield (
                f'<text x="{left + width / 2:.2f}" y="{bar_top + 23}" font-size="12" text-anchor="middle" '
                f'font-family="system-ui, sans-serif" fill="{fill}">{row["gib"]:.1f}</text>'
            )
        left += width
    end = _LEFT + float(card["total_gib"]) * scale
    if card["missing_gib"] > 0:
        width = float(card["missing_gib"]) * scale
        yield (
            f'<rect x="{end:.2f}" y="{bar_top - 3}" width="{width:.2f}" height="{_BAR_HEIGHT + 6}" fill="none" '
            f'stroke="{_MISSING_COLOUR}" stroke-width="2" stroke-dasharray="5 3"/>'
        )
    yield (
        f'<line x1="{end:.2f}" y1="{bar_top - 5}" x2="{end:.2f}" y2="{bar_top + _BAR_HEIGHT + 5}" '
        'stroke="#1b1b1f" stroke-width="1.5"/>'
    )


_LIGHT = frozenset({"startup", "load_drop", "draft_kv_cache", "request_table", "draft_graphs", "slack", "unassigned"})


def _legend(shown: Sequence[str], missing: bool, top: int) -> Iterable[str]:
    entries = [(ITEMS[item], COLOURS[item]) for item in shown]
    if missing:
        entries.append(("does not fit", _MISSING_COLOUR))
    for position, (text, colour) in enumerate(entries):
        left = _LEFT + position % _LEGEND_COLUMNS * (WIDTH - 2 * _LEFT) // _LEGEND_COLUMNS
        y = top + position // _LEGEND_COLUMNS * _LEGEND_STEP
        yield f'<rect x="{left}" y="{y}" width="14" height="14" fill="{colour}" stroke="#5f6368" stroke-width="0.5"/>'
        yield f'<text x="{left + 20}" y="{y + 12}" font-size="12" {_TEXT}>{escape(text)}</text>'
