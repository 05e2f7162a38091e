# SPDX-License-Identifier: GPL-3.0-or-later
"""What a start took against what the plan had said."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import plan_drift
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.analysis import Analysis

LOG = """\
[2026-11-29 10:00:00 TP0] Load weight begin. avail mem=46.90 GB
[2026-11-29 10:00:00 TP1] Load weight begin. avail mem=46.80 GB
[2026-11-29 10:00:30 TP1] Load weight end. elapsed=30.00 s, type=ModelA, avail mem=21.10 GB, mem usage=25.70 GB.
[2026-11-29 10:00:30 TP0] Load weight end. elapsed=30.00 s, type=ModelA, avail mem=21.20 GB, mem usage=99.00 GB.
[2026-11-29 10:00:31 TP1] Mamba Cache is allocated. max_mamba_cache_size: 94, \
conv_state size: 0.20GB, ssm_state size: 1.80GB
[2026-11-29 10:00:31 TP1] KV Cache is allocated. #tokens: 100000, K size: 6.00 GB, V size: 6.00 GB
[2026-11-29 10:00:31 TP1] KV Cache is allocated. #tokens: 20000, K size: 0.50 GB, V size: 0.50 GB
[2026-11-29 10:00:31 TP1] Memory pool end. avail mem=6.10 GB
[2026-11-29 10:00:32 TP1] Capture cuda graph begin. avail mem=5.90 GB
[2026-11-29 10:00:42 TP1] Capture cuda graph end. Time elapsed: 10.00 s. mem usage=1.00 GB. avail mem=4.90 GB.
[2026-11-29 10:00:42 TP1] Capture draft cuda graph end. Time elapsed: 1.00 s. mem usage=0.50 GB. avail mem=4.40 GB.
[2026-11-29 10:00:43 TP1] max_total_num_tokens=100000, chunked_prefill_size=8192, \
available_gpu_mem=4.40 GB
"""


def entries(log: str = LOG) -> list[dict[str, Any]]:
    analysis = Analysis()
    analysis.feed(log.encode())
    analysis.close()
    return analysis.tracker.memory


def plan(**changes: float) -> dict[str, Any]:
    sizes = {
        "driver": 0.5,
        "weights": 25.7,
        "states": 2.0,
        "kv_cache": 12.0,
        "window_cache": 1.0,
        "decode_graphs": 1.0,
        "draft_graphs": 0.5,
        "activations": 1.4,
        "unassigned": 3.0,
        **changes,
    }
    roomy = {**sizes, "unassigned": 9.0, "kv_cache": 99.0}
    return {
        "verdict": "ok",
        "max_total_num_tokens": 100000,
        "sizes": {"weights_gib": sizes["weights"]},
        "budget": [
            {"gpu": index, "entries": [{"item": item, "gib": size} for item, size in card.items()]}
            for index, card in enumerate((roomy, sizes))
        ],
    }


def test_a_plan_that_was_right_has_no_drift() -> None:
    compared = plan_drift.compare(plan(), entries())
    assert {one["item"]: (one["planned"], one["actual"]) for one in compared} == {
        "weights": (25.7, 25.7),
        "kv_pool": (13.0, 13.0),
        "state_pool": (2.0, 2.0),
        "graphs": (1.5, 1.5),
        "left": (4.4, 4.4),
        "tokens": (100000, 100000),
    }
    assert not any(one["drift"] for one in compared)
    assert plan_drift.warning(compared) == ""


@pytest.mark.parametrize(
    "item, name, factor",
    [
        ("weights", "weights", 1.04),
        ("kv_pool", "kv_cache", 0.95),
        ("state_pool", "states", 1.1),
        ("graphs", "decode_graphs", 1.2),
        ("left", "unassigned", 0.5),
    ],
)
def test_each_item_is_found_by_name_when_it_is_off(item: str, name: str, factor: float) -> None:
    size = {"weights": 25.7, "kv_cache": 12.0, "states": 2.0, "decode_graphs": 1.0, "unassigned": 3.0}[name]
    compared = plan_drift.compare(plan(**{name: size * factor}), entries())
    assert [one["item"] for one in compared if one["drift"]] == [item]
    text = next(one["text"] for one in compared if one["item"] == item)
    assert text in plan_drift.warning(compared) and "3 %" in plan_drift.warning(compared)


def test_three_percent_is_no_drift_and_the_rounding_of_the_log_is_none_either() -> None:
    def drift(planned: float) -> list[str]:
        return [one["item"] for one in plan_drift.compare(plan(weights=planned), entries()) if one["drift"]]

    assert drift(25.7 * 1.0299) == [] and drift(25.7 * 1.0301) == ["weights"]
    small = LOG.replace("mem usage=1.00 GB", "mem usage=0.10 GB").replace("mem usage=0.50 GB", "mem usage=0.00 GB")
    compared = plan_drift.compare(plan(decode_graphs=0.115, draft_graphs=0.0), entries(small))
    assert [one["drift"] for one in compared if one["item"] == "graphs"] == [False]


def test_what_one_side_does_not_know_is_not_compared() -> None:
    assert plan_drift.compare({}, entries()) == []
    assert plan_drift.compare(plan(), []) == []
    assert plan_drift.compare({"sizes": None, "budget": None, "max_total_num_tokens": None}, entries()) == []
    failed = "\n".join(LOG.splitlines()[:4])
    assert [one["item"] for one in plan_drift.compare(plan(), entries(failed))] == ["weights"]


def test_weights_by_the_difference_where_the_log_prints_no_usage() -> None:
    old = LOG.replace(", mem usage=25.70 GB.", "")
    assert plan_drift.compare(plan(), entries(old))[0] == {
        "item": "weights",
        "text": "weights",
        "unit": "GiB",
        "planned": 25.7,
        "actual": 25.7,
        "off_percent": 0.0,
        "drift": False,
    }
