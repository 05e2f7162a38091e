# SPDX-License-Identifier: GPL-3.0-or-later
"""The automatic fraction, held against SGLang's own code.

``fractions_0.5.23.jsonl`` comes from the whole argument resolution of an installed SGLang 0.5.23 with a faked card
(benchmarks/memory_fractions.py), ``fractions_by_source.jsonl`` from the deciding statements of 23 older releases
(benchmarks/memory_fractions_by_source.py).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import fraction
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import resolve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import Geometry, from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import DEEPSEEK, LLAMA, QWEN_LINEAR

GEOMETRIES: dict[str, Geometry] = {name: from_config(memory_facts.config_of(name)) for name in memory_facts.facts()}


def _grid(name: str) -> list[dict[str, Any]]:
    with open(memory_facts.DATA / name, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _differences(rows: list[dict[str, Any]]) -> list[str]:
    found = []
    for row in rows:
        geometry, version = GEOMETRIES[row["model"]], parse(row["version"])
        launch = resolve(row["args"], geometry, version)
        for total_mib, real in row["fractions"].items():
            planned = fraction.automatic(launch, geometry, version, int(total_mib))
            if abs(planned - real) > 0.0005:
                found.append(f"{row['version']} {row['model']} {total_mib} MiB {row['args']}: {planned} is not {real}")
    return found


def test_equal_to_an_installed_sglang() -> None:
    rows = _grid("fractions_0.5.23.jsonl")
    assert len(rows) >= 100
    assert _differences(rows) == []


@pytest.mark.parametrize("version", sorted({row["version"] for row in _grid("fractions_by_source.jsonl")}))
def test_equal_to_the_source_of_older_releases(version: str) -> None:
    rows = [row for row in _grid("fractions_by_source.jsonl") if row["version"] == version]
    assert len(rows) >= 30
    assert _differences(rows) == []


def _effective(version: str, model: str, rocm: bool, **arguments: Any) -> float:
    launch = resolve(arguments, GEOMETRIES[model], parse(version), "rocm" if rocm else "cuda")
    return fraction.effective(0.8, launch, GEOMETRIES[model], parse(version), rocm)


@pytest.mark.parametrize(
    ("version", "model", "rocm", "arguments", "factor"),
    [
        ("0.5.23", LLAMA, False, {}, 1.0),
        ("0.5.23", LLAMA, True, {}, 0.85),
        ("0.5.23", LLAMA, True, {"context_length": 8192}, 1.0),
        ("0.5.23", LLAMA, True, {"attention_backend": "triton"}, 1.0),
        ("0.4.6", LLAMA, True, {}, 1.0),
        ("0.5.23", DEEPSEEK, True, {"tp_size": 8}, 0.85),
        ("0.5.23", DEEPSEEK, True, {"tp_size": 4}, 1.0),
        ("0.5.2", DEEPSEEK, True, {"tp_size": 4, "dp_size": 4, "enable_dp_attention": True}, 0.85),
        ("0.4.4", QWEN_LINEAR, False, {}, 0.95),
        ("0.4.8", QWEN_LINEAR, False, {}, 0.90),
        ("0.4.9", QWEN_LINEAR, False, {}, 1.0),
    ],
)
def test_factors_on_a_given_fraction(
    version: str, model: str, rocm: bool, arguments: dict[str, Any], factor: float
) -> None:
    assert _effective(version, model, rocm, **arguments) == pytest.approx(0.8 * factor)


@pytest.mark.parametrize(
    ("version", "model", "arguments", "captured"),
    [
        ("0.5.9", LLAMA, {}, False),
        ("0.5.9", LLAMA, {"enable_piecewise_cuda_graph": True}, True),
        ("0.5.10", LLAMA, {}, True),
        ("0.5.10", LLAMA, {"speculative_algorithm": "EAGLE"}, False),
        ("0.5.14", LLAMA, {"speculative_algorithm": "EAGLE"}, True),
        ("0.5.10", LLAMA, {"enable_torch_compile": True}, False),
        ("0.5.16", LLAMA, {"enable_torch_compile": True}, True),
        ("0.5.13", LLAMA, {"disable_cuda_graph": True}, True),
        ("0.5.14", LLAMA, {"disable_cuda_graph": True}, False),
        ("0.5.23", LLAMA, {"pp_size": 2}, False),
        ("0.5.23", LLAMA, {"pp_size": 2, "cuda_graph_backend_prefill": "breakable"}, True),
        ("0.5.14", QWEN_LINEAR, {}, False),
        ("0.5.16", QWEN_LINEAR, {}, True),
    ],
)
def test_when_prefill_is_captured(version: str, model: str, arguments: dict[str, Any], captured: bool) -> None:
    launch = resolve(arguments, GEOMETRIES[model], parse(version))
    assert fraction.prefill_graph_on(launch, GEOMETRIES[model], parse(version)) is captured


def test_prefill_is_captured_on_cuda_only() -> None:
    launch = resolve({}, GEOMETRIES[LLAMA], (0, 5, 23), "rocm")
    assert not fraction.prefill_graph_on(launch, GEOMETRIES[LLAMA], (0, 5, 23))
