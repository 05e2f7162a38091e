# SPDX-License-Identifier: GPL-3.0-or-later
"""What the planner says of a model against what the real SGLang logs of it, as far as a CPU can tell.

For a CPU there is no plan (its verdict is ``unknown``), but a token of this model has the same size everywhere.
"""

from __future__ import annotations

import shutil

import pytest
from conftest import FULL, Controller, Lab

NAME = "sized"
# the log has two decimals of a GiB: pools and weights must be large enough to be read
TOKENS = 4_000_000
INNER = 1 << 20
MODEL = "/opt/llmhost/models/wide"
PLAY = f"""
- hosts: ct129
  gather_facts: false
  tasks:
    - llmhost.sglang.memory_plan_info:
        model_path: {MODEL}
        sglang_version: "0.5.23"
        gpu_total_mib: 24564
        gpu_name: NVIDIA GeForce RTX 4090
"""


@pytest.mark.skipif(not FULL, reason="script/test full: a real start with a gigabyte of weights and one of cache")
def test_weights_and_tokens_take_what_the_planner_says(
    lab: Lab, controller: Controller, runtime: str, tmp_path
) -> None:
    assert lab.model("wide", "--inner", str(INNER)) == MODEL
    instance = {
        "model": MODEL,
        "port": 30049,
        "gpus": [0],
        "arguments": {"device": "cpu", "max_total_tokens": TOKENS, "sleep_on_idle": True},
        "probe": {"allow_replacement": True},
        "environment": {"SGLANG_USE_CPU_ENGINE": "1"},
    }
    play = controller.play("servers.yml", variables={"sglang_server_instances": {NAME: instance}})
    try:
        assert play.status == "successful", play.text()
        planned = play.result("memory_plan_info")
        assert planned["verdict"] == "unknown" and planned["unknown"] == ["device cpu"]
        assert planned["sizes"] is None and planned["max_total_num_tokens"] is None, "no number is made up"
        logged = play.result("server_wait")["memory"]
        pool = next(one for one in logged if one["at"] == "kv_cache" and one.get("k_size_gb"))
        path = tmp_path / "plan.yml"
        path.write_text(PLAY)
        sizes = controller.play(path).result("memory_plan_info")["sizes"]
        loaded = next(one for one in logged if one["at"] == "load_end")
        # by the free memory of the whole host before and after: what else happens on it counts too
        assert sum(sizes["weights_by_item_gib"].values()) == pytest.approx(loaded["mem_usage_gb"], rel=0.1), loaded
        actual = (pool["k_size_gb"] + pool["v_size_gb"]) * 2**30 / pool["tokens"]
        assert sizes["kv_bytes_per_token"] == pytest.approx(actual, rel=0.02)
    finally:
        removed = controller.play(
            "llmhost.sglang.remove", variables={"sglang_server_instances": {NAME: {**instance, "state": "absent"}}}
        )
        shutil.rmtree(lab.data / "models/wide")
        assert removed.status == "successful", removed.text()
