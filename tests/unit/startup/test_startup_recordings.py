# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded real starts (tests/corpus): outcome, cause, phase and root line by the text, and by the exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.analysis import Analysis
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.text import diagnose, diagnose_file
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.verdict import Facts, conclude

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
ROWS: list[dict[str, Any]] = json.loads((CORPUS / "sglang_cpu.json").read_text())


def log(run: str) -> bytes:
    return (CORPUS / "sglang_cpu" / (run + ".log")).read_bytes()


def test_every_recording_has_a_row() -> None:
    assert {row["run"] for row in ROWS} == {path.stem for path in (CORPUS / "sglang_cpu").glob("*.log")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["run"])
def test_recording(row: dict[str, Any]) -> None:
    verdict = diagnose(log(row["run"]))
    assert verdict.outcome == row["outcome"]
    assert verdict.phase == row["phase"]
    if "cause" in row:
        assert verdict.cause == row["cause"]
    if "line" in row:
        assert verdict.evidence["line"].startswith(row["line"])
        assert (
            log(row["run"])
            .splitlines()[verdict.evidence["number"] - 1]
            .decode()
            .strip()
            .endswith(verdict.evidence["line"][-60:])
        )


@pytest.mark.parametrize("row", [row for row in ROWS if row["outcome"] == "ready"], ids=lambda row: row["run"])
def test_no_start_is_ready_before_its_marker(row: dict[str, Any]) -> None:
    data = log(row["run"])
    marker = data.index(b"The server is fired up")
    analysis = Analysis()
    for pos in range(0, marker, 997):
        analysis.feed(data[pos : min(pos + 997, marker)])
        assert analysis.ready is None
    analysis.feed(data[marker:])
    assert analysis.ready is not None


@pytest.mark.parametrize("row", [row for row in ROWS if row["outcome"] == "failed"], ids=lambda row: row["run"])
def test_the_process_died_too(row: dict[str, Any]) -> None:
    """With the exit status the cause stays what the text told."""
    analysis = Analysis()
    analysis.feed(log(row["run"]))
    analysis.close()
    code = row["exit"]
    facts = Facts(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
    )
    verdict = conclude(analysis, "failed", facts)
    vanished = row["cause"] == "unknown_child_death"  # the exit status tells more than such a text
    assert verdict.cause == ("scheduler_killed" if vanished else row["cause"])
    assert verdict.remedies


# In which an exception left the launcher's main thread: the interpreter then took another 1.3 to 2.7 s to end.
ENDED = (
    "e01-nogpu-default", "e04-readonly-home", "f01-missing-path", "f03-hub-id-no-net", "f09-bad-json", "f10-no-config",
    "f13-no-tokenizer", "f14-chat-template-missing", "f23-context-too-long", "fail-sglang-serve-config-only",
)  # fmt: skip


@pytest.mark.parametrize("run", ENDED)
def test_an_exception_that_leaves_the_launcher_is_fatal_before_its_process_ends(run: str) -> None:
    analysis = Analysis()
    analysis.feed(log(run))
    assert analysis.fatal is not None
    assert conclude(analysis, "failed").evidence["number"] <= analysis.fatal.number


def test_an_exception_that_was_caught_or_belongs_to_somebody_else_is_not_fatal() -> None:
    head = b"[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/a')\n"
    text = log("f09-bad-json")
    text = text[text.index(b"Traceback") :]
    for told in (
        text.replace(b'  File "<frozen runpy>", line 198, in _run_module_as_main\n', b""),  # the handler's own frames
        text.replace(b"Traceback", b"[2026-01-01 10:00:01] Traceback"),  # through a logger
        text.replace(b"/sglang/", b"/other/"),
    ):
        analysis = Analysis()
        analysis.feed(head + told)
        assert analysis.fatal is None
        assert analysis.collector.failures


@pytest.mark.parametrize(
    ("run", "signal", "cause"),
    [
        ("s14-kill-main-loading", 9, "scheduler_killed"),
        ("e18-cgroup-oom-1g", 9, "scheduler_killed"),
        ("s13-term-loading", 11, "native_crash"),
    ],
)
def test_a_death_without_a_word(run: str, signal: int, cause: str) -> None:
    analysis = Analysis()
    analysis.feed(log(run))
    analysis.close()
    verdict = conclude(analysis, "failed", Facts(signal=signal))
    assert (verdict.outcome, verdict.cause, verdict.detail["signal"]) == ("failed", cause, signal)


def test_the_kernel_knows_better_than_the_text() -> None:
    analysis = Analysis()
    analysis.feed(log("e18-cgroup-oom-1g"))
    analysis.close()
    verdict = conclude(analysis, "failed", Facts(signal=9, oom_kills=2))
    assert (verdict.cause, verdict.detail["oom_kills"]) == ("host_oom_killed", 2)
    assert [(one["source"], one["effect"]) for one in verdict.evidence["outside"]] == [("cgroup", "decides")]
    killed = Analysis()
    killed.feed(log("s01-kill9-sched-starting"))
    killed.close()
    assert conclude(killed, "failed", Facts(exit_code=1)).cause == "host_oom_killed"
    assert conclude(killed, "failed", Facts(exit_code=1, oom_kills=0)).cause == "scheduler_killed"
    assert conclude(killed, "failed", Facts(exit_code=1, oom_kills=1)).cause == "host_oom_killed"


def test_a_file_that_exists_but_cannot_be_read() -> None:
    analysis = Analysis()
    analysis.feed(
        b"[2026-01-01 10:00:00] Load weight begin. avail mem=3.0 GB\n[2026-01-01 10:00:01] Scheduler hit "
        b"an exception: Traceback (most recent call last):\n"
        b'  File "/v/sglang/srt/model_loader/weight_utils.py", line 9, in _load_file\n'
        b'FileNotFoundError: No such file or directory: "/models/a/model.safetensors"\n\n'
    )
    analysis.close()
    asked = []

    def state(path: str) -> dict[str, Any]:
        asked.append(path)
        return {"exists": True, "readable": False, "mode": "0600"}

    verdict = conclude(analysis, "failed", Facts(path_state=state))
    assert (verdict.cause, asked) == ("permission_denied", ["/models/a/model.safetensors"])
    assert "/models/a/model.safetensors" in verdict.message
    assert (
        conclude(analysis, "failed", Facts(path_state=lambda _path: {"exists": False, "readable": False})).cause
        == "model_files_missing"
    )


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(log("f15-corrupt-header"))
    assert diagnose_file(str(path)) == diagnose(log("f15-corrupt-header"))
