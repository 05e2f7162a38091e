# SPDX-License-Identifier: GPL-3.0-or-later
"""How well other people's logs are read. They are no part of this collection: the test needs their folder."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("LLMHOST_SHARED", ROOT.parent / "shared"))
BENCHMARK = ROOT / "benchmarks" / "startup_corpus.py"

pytestmark = pytest.mark.skipif(
    not (SHARED / "cases" / "startup_logs.jsonl").exists() or not BENCHMARK.exists(),
    reason="the labelled logs are not on this machine (LLMHOST_SHARED or ../shared)",
)


@pytest.fixture(scope="module")
def scores() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("startup_corpus", BENCHMARK)
    assert spec is not None and spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    rows = benchmark.records(SHARED)
    return {"watch": benchmark.measure(rows, benchmark.ours), "seed": benchmark.measure(rows, benchmark.seed)}


def test_outcome(scores: dict[str, Any]) -> None:
    score = scores["watch"]
    assert score["outcome"] >= 0.99 * score["n"], score["wrong_outcome"]


def test_nothing_is_called_ready_that_is_not(scores: dict[str, Any]) -> None:
    assert scores["watch"]["false_ready"] == []


def test_nothing_is_called_failed_that_got_ready(scores: dict[str, Any]) -> None:
    assert scores["watch"]["failed_on_ready"] == []


def test_root_cause(scores: dict[str, Any]) -> None:
    score = scores["watch"]
    assert score["cause"] >= 0.95 * score["cause_n"], score["wrong_cause"]


def test_root_line(scores: dict[str, Any]) -> None:
    score = scores["watch"]
    assert score["root"] >= 0.95 * score["root_n"], score["wrong_root"]


def test_better_than_the_loop_of_today(scores: dict[str, Any]) -> None:
    assert scores["watch"]["outcome"] > scores["seed"]["outcome"]
