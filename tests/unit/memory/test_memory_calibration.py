# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of an earlier start: in, out, matched, compared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import calibration
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.calibration import Calibration

KEY = {"host": "gpu1", "model": "/opt/models/a", "sglang_version": "0.5.23", "layout": "tp2-dp1-pp1-ep1"}
LOGGED: dict[str, Any] = {
    "free_before_gib": 47.4,
    "before_load_gib": 46.9,
    "after_load_gib": 21.26,
    "decode_graphs_gib": 0.2,
    "max_total_num_tokens": 372110,
    "max_running_requests": 8,
    "something_else": 1,
    "draft_weights_gib": None,
}


def test_it_survives_being_stored() -> None:
    measured = calibration.from_log_numbers(KEY, "2026-11-29T20:00:00Z", LOGGED)
    stored = json.loads(json.dumps(measured.as_dict()))
    assert stored["schema"] == 1
    assert calibration.from_dict(stored) == measured


def test_what_follows_from_the_log_is_filled_in() -> None:
    measured = calibration.from_log_numbers(KEY, "", LOGGED)
    assert measured.get("weights_gib") == pytest.approx(25.64)
    assert measured.startup_loss_gib == pytest.approx(0.5)
    assert measured.get("draft_weights_gib") is None
    assert measured.observed == {"max_total_num_tokens": 372110, "max_running_requests": 8}


WATCHED: list[dict[str, Any]] = [
    {"at": "load_begin", "rank": "TP1", "avail_mem_gb": 46.9},
    {"at": "load_begin", "rank": "TP0", "avail_mem_gb": 46.5},
    {"at": "load_end", "rank": "TP0", "avail_mem_gb": 20.9, "mem_usage_gb": 25.6},
    {"at": "load_end", "rank": "TP1", "avail_mem_gb": 21.3, "mem_usage_gb": 25.6},
    {"at": "kv_cache", "rank": "TP0", "tokens": 1000.0, "k_size_gb": 1.0, "v_size_gb": 1.0},
    {"at": "pool_end", "rank": "TP0", "avail_mem_gb": 7.2},
    {"at": "capture_begin", "rank": "TP0", "avail_mem_gb": 6.8},
    {"at": "capture_end", "rank": "TP0", "avail_mem_gb": 6.6, "mem_usage_gb": 0.2},
    {"at": "tokens", "rank": "TP0", "max_total_num_tokens": 372110.0, "available_gpu_mem_gb": 6.5},
]


def test_what_the_watch_read_becomes_numbers() -> None:
    numbers = calibration.from_watch(WATCHED)
    assert numbers == {
        "before_load_gib": 46.5,
        "after_load_gib": 20.9,
        "weights_gib": 25.6,
        "decode_graphs_gib": 0.2,
        "workspace_gib": 0.4,
        "left_gib": 6.5,
        "max_total_num_tokens": 372110.0,
    }
    measured = calibration.from_log_numbers(KEY, "", numbers)
    assert measured.observed == {"max_total_num_tokens": 372110}
    assert measured.get("workspace_gib") == 0.4


def test_several_captures_are_not_told_apart() -> None:
    again = [*WATCHED, {"at": "capture_end", "rank": "TP0", "avail_mem_gb": 4.0, "mem_usage_gb": 2.6}]
    assert "decode_graphs_gib" not in calibration.from_watch(again)


def test_a_log_without_memory_gives_nothing() -> None:
    assert calibration.from_watch([]) == {}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "schema is None"),
        ({"schema": 2, "numbers": {}}, "schema is 2"),
        ({"schema": 1}, "'numbers' is missing"),
        ({"schema": 1, "numbers": {"weight_gib": 1}}, "unknown weight_gib"),
        ({"schema": 1, "numbers": {"weights_gib": "many"}}, "not a number"),
        ({"schema": 1, "numbers": {}, "observed": []}, None),
        ({"schema": 1, "numbers": {}, "observed": [1]}, "must be mappings"),
    ],
)
def test_what_cannot_be_used_is_refused(document: dict[str, Any], said: str | None) -> None:
    if said is None:
        assert calibration.from_dict(document).numbers == {}
        return
    with pytest.raises(LlmHostError) as caught:
        calibration.from_dict(document)
    assert caught.value.reason == "calibration_invalid"
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"host": "gpu2"}, True),
        ({"layout": "tp1-dp1-pp1-ep1"}, False),
        ({"sglang_version": "0.5.22"}, False),
        ({"model": "/opt/models/b"}, False),
    ],
)
def test_numbers_of_another_start_do_not_count(change: dict[str, str], same: bool) -> None:
    measured = Calibration(KEY, "", {})
    assert calibration.matches(measured, {**KEY, **change}) is same


def test_a_part_that_is_not_known_does_not_count() -> None:
    assert calibration.matches(Calibration({}, "", {}), KEY)


def test_drift_names_what_was_off() -> None:
    planned = {"weights_gib": 25.6, "max_total_num_tokens": 372110.0, "before_load_gib": 46.9, "left_gib": None}
    actual = {"weights_gib": 27.0, "max_total_num_tokens": 300000.0, "before_load_gib": 46.5, "left_gib": 3.0}
    found = calibration.drift(planned, actual)
    assert [entry.item for entry in found] == ["max_total_num_tokens", "weights_gib"]
    assert found[1].as_dict() == {"item": "weights_gib", "planned": 25.6, "actual": 27.0, "off_percent": -5.19}


def test_three_percent_is_no_drift() -> None:
    assert calibration.drift({"a": 103.0}, {"a": 100.0}) == []
    assert len(calibration.drift({"a": 103.1}, {"a": 100.0})) == 1


def test_a_layout_is_a_word() -> None:
    assert calibration.layout(8, 1, 2, 4) == "tp8-dp1-pp2-ep4"


# --- on disk ---

PLAN: dict[str, Any] = {"calibration": {"key": KEY, "measured_at": None, "free_before_gib": 47.1}}


def test_a_start_is_remembered_by_its_plan(tmp_path) -> None:
    measured = calibration.of_start(PLAN, WATCHED)
    assert measured is not None and measured.key == KEY
    assert measured.startup_loss_gib == pytest.approx(0.6)
    first = calibration.store(str(tmp_path), measured)
    assert first["stored"] and calibration.load(str(tmp_path), KEY) == measured
    assert calibration.store(str(tmp_path), measured) == {"path": first["path"], "stored": False}
    other = {**KEY, "layout": "tp1-dp1-pp1-ep1"}
    assert calibration.load(str(tmp_path), other) is None
    assert calibration.path_of(str(tmp_path), other) != first["path"]


def test_a_bad_start_adds_what_it_logged_and_takes_nothing_away(tmp_path) -> None:
    good = calibration.of_start(PLAN, WATCHED)
    bad = calibration.of_start(PLAN, [{**one, "avail_mem_gb": 46.0} for one in WATCHED[:2]])
    assert good is not None and bad is not None
    calibration.store(str(tmp_path), good)
    calibration.store(str(tmp_path), bad)
    kept = calibration.load(str(tmp_path), KEY)
    assert kept is not None
    assert kept.get("before_load_gib") == 46.0 and kept.get("weights_gib") == 25.6
    assert kept.observed == good.observed


def test_numbers_of_two_moments_are_not_mixed(tmp_path) -> None:
    good = calibration.of_start(PLAN, WATCHED)
    # somebody else took half of the card between the look and the load: no loss of a start can be read from that
    disturbed = calibration.of_start(PLAN, [{"at": "load_begin", "rank": "TP0", "avail_mem_gb": 20.0}])
    assert good is not None and disturbed is not None and disturbed.startup_loss_gib is None
    calibration.store(str(tmp_path), good)
    calibration.store(str(tmp_path), disturbed)
    kept = calibration.load(str(tmp_path), KEY)
    assert kept is not None and kept.startup_loss_gib == pytest.approx(0.6)


@pytest.mark.parametrize("plan", [{}, {"calibration": {"key": None}}, {"calibration": None}])
def test_without_a_key_nothing_is_remembered(plan: dict[str, Any]) -> None:
    assert calibration.of_start(plan, WATCHED) is None
    assert calibration.of_start(PLAN, []) is None


def test_a_file_that_is_broken_is_said_so_and_replaced(tmp_path) -> None:
    measured = calibration.of_start(PLAN, WATCHED)
    assert measured is not None
    path = calibration.store(str(tmp_path), measured)["path"]
    with open(path, "w", encoding="utf-8") as handle:
        handle.write("{")
    with pytest.raises(LlmHostError) as caught:
        calibration.load(str(tmp_path), KEY)
    assert caught.value.reason == "calibration_invalid" and path in caught.value.message
    assert calibration.store(str(tmp_path), measured)["stored"]
    assert calibration.load(str(tmp_path), KEY) == measured


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path) -> None:
    measured = calibration.of_start(PLAN, WATCHED)
    assert measured is not None
    (tmp_path / "file").write_text("")
    told = calibration.store(str(tmp_path / "file"), measured)
    assert told["stored"] is False and told["problem"]
