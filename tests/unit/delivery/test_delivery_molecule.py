# SPDX-License-Identifier: GPL-3.0-or-later
"""The molecule scenarios: each is told of, each that must fail names why, and the copied one stands alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "extensions/molecule"
sys.path.insert(0, str(ROOT / "script/lib"))

import molecule as runs  # noqa: E402 (found by the line above)

NAMES = sorted(path.parent.name for path in HOME.glob("*/molecule.yml"))
NEGATIVE = [name for name in NAMES if re.search(r"_(refused|taken|missing|truncated)$", name)]


def test_each_is_told_of() -> None:
    told = re.findall(r"`(\w+)`", " ".join(re.findall(r"(?m)^\|([^|]+)\|", (HOME / "README.md").read_text())))
    assert sorted(told) == NAMES
    assert set(runs.QUICK) <= set(NAMES)


@pytest.mark.parametrize("name", NEGATIVE)
def test_one_that_must_fail_names_why(name: str) -> None:
    text = "".join(path.read_text() for path in sorted((HOME / name).glob("*.yml")))
    assert "ansible_failed_result" in text
    assert re.search(r"_verdict\.cause == '\w+'|said\.reason == '\w+'|'[^']+' in said", text)


def test_the_copied_one_needs_nothing_of_this_repository() -> None:
    for path in (HOME / runs.COPIED).glob("*.yml"):
        text = path.read_text()
        assert "../" not in text and "extensions/" not in text, path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "default                   : actions=5  successful=4  disabled=0  skipped=0  missing=1  failed=0",
            ("default", "0"),
        ),
        ("port_taken : actions=3  successful=2  disabled=0  skipped=0  missing=0  failed=1", ("port_taken", "1")),
        ("INFO     default > converge: Executed: Successful", None),
    ],
)
def test_the_recap_is_read(line: str, found: tuple[str, str] | None) -> None:
    match = runs.RECAP.match(line)
    assert (match and match.groups()) == found
