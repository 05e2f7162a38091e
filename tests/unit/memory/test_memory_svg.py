# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture and the table of a budget."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import budget, svg
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.plan import evaluate
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import LLAMA, cards, founding, problem

NAMESPACE = "{http://www.w3.org/2000/svg}"


def _bars(text: str) -> list[ElementTree.Element]:
    """Rectangles of items: those with a title of their own."""
    root = ElementTree.fromstring(text)
    return [rect for rect in root.iter(f"{NAMESPACE}rect") if rect.find(f"{NAMESPACE}title") is not None]


def test_every_item_has_a_colour_and_every_colour_an_item() -> None:
    assert set(svg.COLOURS) == set(budget.ITEMS)
    assert len(set(svg.COLOURS.values())) == len(svg.COLOURS)


def test_a_bar_is_as_long_as_its_item() -> None:
    shown = evaluate(problem(LLAMA, "0.5.23", {}, cards(1, 81559, "NVIDIA H100"))).as_dict()["budget"]
    bars = _bars(svg.draw(shown, "Llama"))
    sizes = [row["gib"] for row in shown[0]["entries"] if row["gib"] > 0]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert len(widths) == len(sizes)
    scale = (svg.WIDTH - 32) / shown[0]["total_gib"]
    assert widths == pytest.approx([size * scale for size in sizes], abs=0.01)
    lefts = [float(bar.attrib["x"]) for bar in bars]
    assert lefts[1:] == pytest.approx([left + width for left, width in zip(lefts, widths)][:-1], abs=0.02)  # noqa: B905


def test_one_bar_a_card_and_the_missing_part_is_marked() -> None:
    shown = evaluate(founding("0.5.9")).as_dict()["budget"]
    text = svg.draw(shown, "founding")
    assert text.count("GPU 0 NVIDIA RTX A6000") == 1
    assert text.count("GPU 1 NVIDIA RTX A6000") == 1
    root = ElementTree.fromstring(text)
    marked = [rect for rect in root.iter(f"{NAMESPACE}rect") if rect.attrib.get("stroke-dasharray")]
    assert len(marked) == sum(card["missing_gib"] > 0 for card in shown)


def test_it_needs_nothing_from_elsewhere() -> None:
    text = svg.draw(evaluate(founding("0.5.23")).as_dict()["budget"], "founding")
    assert "href" not in text
    assert "<script" not in text
    assert "url(" not in text


def test_names_are_escaped() -> None:
    shown = evaluate(problem(LLAMA, "0.5.23", {}, cards(1, 81559, "a <b> & 'c'"))).as_dict()["budget"]
    ElementTree.fromstring(svg.draw(shown, "<model> & more"))


def test_without_cards_there_is_still_a_picture() -> None:
    ElementTree.fromstring(svg.draw([], "nothing"))


def test_the_table_has_a_line_an_item() -> None:
    shown = evaluate(founding("0.5.9")).as_dict()["budget"]
    lines = budget.table(shown)
    assert lines[0] == "GPU 0 NVIDIA RTX A6000: 47.99 GiB"
    assert sum(len(card["entries"]) + 1 + (card["missing_gib"] > 0) for card in shown) == len(lines)
