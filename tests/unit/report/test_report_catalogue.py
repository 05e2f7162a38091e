# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue's page: it is what the table says, and a verdict's ``docs`` leads to its section."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import causes, evidence

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/docsite/rst/catalogue.rst"


def sections() -> dict[str, str]:
    """Title -> text of the sections of the lowest level."""
    parts = re.split(r"^(\w+)\n~{3,}$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def test_the_page_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "script/catalogue"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("row", causes.table(), ids=lambda row: row.id)
def test_every_cause_has_its_section_with_all_that_a_reader_needs(row: causes.Cause) -> None:
    text = " ".join(sections()[row.id].split())
    for word in (":Phase:", ":Versions:", ":The same start may succeed later:"):
        assert word in text
    assert "What is printed" in text or not row.examples
    assert "What to do:" in text or not row.remedies
    assert "What does not help:" in text or not row.not_remedies


@pytest.mark.parametrize("row", causes.table(), ids=lambda row: row.id)
def test_docs_of_a_verdict_is_the_anchor_of_its_section(row: causes.Cause) -> None:
    page, _hash, anchor = causes.docs(row.id).partition("#")
    assert page == "catalogue.html"
    # docutils makes an id of a heading so: lower case, one hyphen for everything that is no letter or digit
    anchors = {re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-"): title for title in sections()}
    assert anchors[anchor] == row.id
    assert ".. _ansible_collections.llmhost.sglang.docsite.catalogue.%s:" % row.id in PAGE.read_text(encoding="utf-8")


def test_every_rule_of_evidence_is_there() -> None:
    for rule in evidence.RULES:
        assert rule.effect in sections()[rule.id]
