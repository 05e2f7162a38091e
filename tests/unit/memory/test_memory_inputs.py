# SPDX-License-Identifier: GPL-3.0-or-later
"""From a module's parameters and a model's files to a problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import inputs, model_files
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.plan import evaluate
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.problem import Problem
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import dense_checkpoint, write_sharded

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
}
PARAMS: dict[str, Any] = {
    "model_path": None,
    "config": None,
    "args": {},
    "sglang_version": "0.5.23",
    "gpus": [],
    "gpu_total_mib": 24564,
    "gpu_count": 1,
    "reclaimable": [],
}
SEEN = [
    {
        "index": 0,
        "uuid": "GPU-aaaa",
        "name": "NVIDIA L40S",
        "compute_capability": "8.9",
        "memory_mib": {"total": 46068, "used": 16000, "free": 29500, "reserved": 568},
        "clients": [{"pid": 4711, "comm": "python3", "memory_mib": 15000}],
    },
    {"index": 1, "uuid": "GPU-bbbb", "name": "NVIDIA L40S", "memory_mib": {"total": 46068, "free": None}},
]


def _ask(**changes: Any) -> Problem:
    return inputs.problem({**PARAMS, **changes}, {})


def _model(directory: Path, config: dict[str, Any] = CONFIG) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    write_sharded(str(directory), dense_checkpoint(config, "BF16"), 2)
    return str(directory)


def test_a_config_is_enough() -> None:
    asked = _ask(config=CONFIG)
    assert asked.tensors is None
    assert evaluate(asked).verdict == "ok"


def test_a_folder_is_read(tmp_path: Path) -> None:
    asked = _ask(model_path=_model(tmp_path))
    assert asked.tensors is not None
    plan = evaluate(asked)
    assert plan.held is not None
    assert plan.held.source == "headers"


def test_the_arguments_may_name_the_model(tmp_path: Path) -> None:
    assert _ask(args={"model-path": _model(tmp_path)}).tensors is not None


@pytest.mark.parametrize("reference", [True, False])
def test_a_downloaded_repository_is_found(tmp_path: Path, reference: bool) -> None:
    repository = tmp_path / "models--org--name"
    _model(repository / "snapshots" / "abc123")
    if reference:
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("abc123")
        (repository / "snapshots" / "older").mkdir()
    assert _ask(model_path="org/name", cache_path=str(tmp_path)).geometry.layers == 2


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HF_HUB_CACHE": "/a"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ],
)
def test_where_downloads_lie(environment: dict[str, str], folder: str) -> None:
    assert model_files.default_cache(environment) == folder


@pytest.mark.parametrize("path", ["/does/not/exist", "org/name", "./x", "no spaces here/x y"])
def test_a_model_that_is_not_there(tmp_path: Path, path: str) -> None:
    with pytest.raises(LlmHostError) as caught:
        _ask(model_path=path, cache_path=str(tmp_path))
    assert caught.value.reason == "model_config_missing"
    assert path in caught.value.message


def test_no_model_at_all() -> None:
    with pytest.raises(LlmHostError) as caught:
        _ask()
    assert caught.value.reason == "model_config_missing"


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(LlmHostError) as caught:
        _ask(model_path=str(tmp_path))
    assert caught.value.reason == "model_config_missing"
    assert caught.value.details["path"] == str(tmp_path / "config.json")


@pytest.mark.parametrize(("text", "said"), [("{", "not valid JSON"), ("[]", "does not hold a mapping")])
def test_a_broken_config(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(LlmHostError) as caught:
        _ask(model_path=str(tmp_path))
    assert caught.value.reason == "model_config_invalid"
    assert said in caught.value.message


def test_a_quantisation_may_stand_in_its_own_file(tmp_path: Path) -> None:
    path = _model(tmp_path)
    document = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(document))
    geometry = _ask(model_path=path).geometry
    assert geometry.quantization == "nvfp4"
    assert geometry.fp8_kv_checkpoint


def test_a_model_that_cannot_be_planned_needs_no_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "architectures": ["DeepseekV4ForCausalLM"]}))
    assert evaluate(_ask(model_path=str(tmp_path))).verdict == "unknown"


def test_a_draft_model_is_read_too(tmp_path: Path) -> None:
    draft = {**CONFIG, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
    arguments = {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": _model(tmp_path / "d", draft)}
    asked = _ask(model_path=_model(tmp_path / "m"), args=arguments)
    plan = evaluate(asked)
    assert plan.verdict == "ok"
    assert plan.loaded is not None
    assert plan.loaded.draft_gib > 0


def test_a_draft_model_that_is_not_there_is_unknown() -> None:
    arguments = {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "/not/here"}
    plan = evaluate(_ask(config=CONFIG, args=arguments))
    assert plan.verdict == "unknown"
    assert "speculative_draft_model_path" in plan.unknown[0]


def test_the_models_own_path_as_draft_means_its_own_layers(tmp_path: Path) -> None:
    config = {**CONFIG, "num_nextn_predict_layers": 1}
    path = _model(tmp_path, config)
    arguments = {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": path}
    assert evaluate(_ask(model_path=path, args=arguments)).verdict == "ok"


def test_cards_as_gpu_info_returns_them() -> None:
    asked = _ask(config=CONFIG, gpu_total_mib=None, gpus=SEEN)
    first, second = asked.gpus
    assert (first.total_mib, first.free_mib, first.clients) == (46068, 29500, ("PID 4711 python3 (15000 MiB)",))
    assert second.free_mib is None
    assert (first.generation, second.generation) == (8, None)


@pytest.mark.parametrize("name", ["0", "GPU-aaaa"])
def test_memory_that_will_be_free(name: str) -> None:
    reclaimable = [{"gpu": name, "memory_mib": 10000}, {"gpu": name, "memory_mib": 5000}]
    first = _ask(config=CONFIG, gpu_total_mib=None, gpus=SEEN, reclaimable=reclaimable).gpus[0]
    assert first.reclaimable_mib == 15000
    assert first.free_gib == pytest.approx(44500 / 1024)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu_total_mib": None}, "gpus_missing"),
        ({"gpu_total_mib": 0}, "gpus_invalid"),
        ({"gpu_count": 0}, "gpus_invalid"),
        ({"gpu_total_mib": None, "gpus": [{"index": 0}]}, "gpus_invalid"),
        ({"gpu_total_mib": None, "gpus": SEEN, "reclaimable": [{"gpu": "7", "memory_mib": 1}]}, "gpus_invalid"),
        ({"sglang_version": "newest"}, "version_unknown"),
        ({"config": {"architectures": []}}, "model_config_invalid"),
        ({"calibration": {"schema": 3, "numbers": {}}}, "calibration_invalid"),
    ],
)
def test_input_that_makes_no_sense(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(LlmHostError) as caught:
        _ask(**{"config": CONFIG, **changes})
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("changes", "device"),
    [
        ({}, "cuda"),
        ({"device": "cpu", "gpu_total_mib": None}, "cpu"),
        ({"args": {"device": "cpu"}, "gpu_total_mib": None}, "cpu"),
        ({"gpu_name": "AMD Instinct MI300X"}, "rocm"),
    ],
)
def test_the_device(changes: dict[str, Any], device: str) -> None:
    assert _ask(**{"config": CONFIG, **changes}).device == device


def test_a_cpu_is_unknown_even_without_cards() -> None:
    assert evaluate(_ask(config=CONFIG, device="cpu", gpu_total_mib=None)).unknown == ("device cpu",)


def test_available_memory_of_the_host() -> None:
    assert inputs.host_available_gib("MemTotal: 1 kB\nMemAvailable:   33554432 kB\n") == 32
    assert inputs.host_available_gib("MemTotal: 1 kB\n") is None
