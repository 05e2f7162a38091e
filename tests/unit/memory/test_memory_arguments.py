# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments as SGLang will understand them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import (
    ArgumentsRefused,
    Launch,
    canonical,
    resolve,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.cells import cells
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import DEEPSEEK, LLAMA, QWEN_LINEAR


def _resolve(version: str, model: str = LLAMA, **arguments: Any) -> Launch:
    return resolve(arguments, from_config(memory_facts.config_of(model)), parse(version))


def _hidden(launch: Launch) -> dict[str, Any]:
    return {default.option: default.value for default in launch.hidden_defaults}


def test_names_are_made_one() -> None:
    given = {"--tensor-parallel-size": 2, "context-length": 4096, "dp": 1, "trust_remote_code": False, "x": None}
    assert canonical(given) == {"tp_size": 2, "context_length": 4096, "dp_size": 1}


@pytest.mark.parametrize("algorithm", ["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"])
def test_speculation_sets_48_requests(algorithm: str) -> None:
    launch = _resolve("0.5.9", speculative_algorithm=algorithm)
    assert launch.max_running_requests == 48
    assert _hidden(launch)["max_running_requests"] == 48


def test_a_given_request_limit_is_kept() -> None:
    launch = _resolve("0.5.9", speculative_algorithm="NEXTN", max_running_requests=8)
    assert launch.max_running_requests == 8
    assert "max_running_requests" not in _hidden(launch)


@pytest.mark.parametrize(
    ("version", "model", "shape"),
    [
        ("0.5.3", LLAMA, (5, 4, 8)),
        ("0.5.3", QWEN_LINEAR, (5, 4, 8)),
        ("0.5.23", QWEN_LINEAR, (3, 1, 4)),
        ("0.5.3", DEEPSEEK, (3, 1, 4)),
    ],
)
def test_the_shape_of_speculation_where_none_is_given(version: str, model: str, shape: tuple[int, int, int]) -> None:
    speculation = _resolve(version, model, speculative_algorithm="EAGLE").speculation
    assert speculation is not None
    assert (speculation.steps, speculation.top_k, speculation.draft_tokens) == shape


def test_a_chain_drafts_one_token_more_than_steps() -> None:
    launch = _resolve(
        "0.5.9",
        speculative_algorithm="EAGLE",
        speculative_num_steps=2,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=16,
    )
    assert launch.speculation is not None
    assert launch.speculation.draft_tokens == 3
    assert _hidden(launch)["speculative_num_draft_tokens"] == 3


def test_speculation_switches_the_radix_cache_off_silently() -> None:
    launch = _resolve("0.5.9", QWEN_LINEAR, speculative_algorithm="NEXTN")
    assert not launch.radix_cache
    assert _hidden(launch)["disable_radix_cache"] is True


@pytest.mark.parametrize("version", ["0.5.10", "0.5.12", "0.5.13"])
def test_some_versions_refuse_it(version: str) -> None:
    with pytest.raises(ArgumentsRefused, match="not compatible with radix cache when using"):
        _resolve(version, QWEN_LINEAR, speculative_algorithm="NEXTN")


def test_newer_versions_keep_extra_states_instead() -> None:
    launch = _resolve("0.5.14", QWEN_LINEAR, speculative_algorithm="NEXTN")
    assert launch.radix_cache
    assert launch.state_strategy == "extra_buffer"
    assert launch.overlap


def test_states_without_buffer_switch_overlap_off() -> None:
    launch = _resolve("0.5.11", QWEN_LINEAR)
    assert launch.state_strategy == "no_buffer"
    assert not launch.overlap
    assert _hidden(launch)["disable_overlap_schedule"] is True


@pytest.mark.parametrize(
    ("given", "size"), [("auto", 2.0), ("bf16", 2.0), ("fp8_e5m2", 1.0), ("fp4_e2m1", 0.5), ("nvfp4", 0.0)]
)
def test_the_size_of_cached_numbers(given: str, size: float) -> None:
    assert _resolve("0.5.23", kv_cache_dtype=given).kv_element_bytes == size


def test_a_checkpoint_with_an_fp8_cache_is_followed_and_named() -> None:
    config = memory_facts.config_of(LLAMA)
    config["quantization_config"] = {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}
    launch = resolve({}, from_config(config), (0, 5, 23))
    assert launch.kv_element_bytes == 1
    assert _hidden(launch)["kv_cache_dtype"] == "fp8_e4m3"


@pytest.mark.parametrize(
    ("generation", "device", "size", "named"),
    [
        (9, "cuda", 2, "bfloat16"),
        (10, "cuda", 1, "fp8_e4m3"),
        (12, "cuda", 1, "fp8_e4m3"),
        (None, "cuda", 0, None),
        (None, "npu", 2, None),
    ],
)
def test_sparse_attention_keeps_fp8_on_new_cards(
    generation: int | None, device: str, size: float, named: str | None
) -> None:
    geometry = from_config(memory_facts.config_of("deepseek-ai/DeepSeek-V3.2-Exp"))
    launch = resolve({"tp_size": 8}, geometry, (0, 5, 9), device, generation)
    assert launch.kv_element_bytes == size
    assert _hidden(launch).get("kv_cache_dtype") == named
    given = resolve({"tp_size": 8, "kv_cache_dtype": "bfloat16"}, geometry, (0, 5, 9), device, generation)
    assert given.kv_element_bytes == 2 and "kv_cache_dtype" not in _hidden(given)


def test_the_cell_of_a_public_start_with_sparse_attention_on_new_cards() -> None:
    # 61 layers, 656 bytes of keys and values and 132 of the index a row: 43.67 GiB for 975,424 tokens and a page
    geometry = from_config(memory_facts.config_of("deepseek-ai/DeepSeek-V3.2-Exp"))
    launch = resolve({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, geometry, (0, 5, 3), "cuda", 10)
    assert cells(launch, geometry, (0, 5, 3)).full_bytes * (975424 + 64) / 2**30 == pytest.approx(43.67, rel=0.001)


def test_attention_ranks() -> None:
    assert _resolve("0.5.23", tp_size=8, dp_size=4).attention_tp == 8
    assert _resolve("0.5.23", tp_size=8, dp_size=4, enable_dp_attention=True).attention_tp == 2


@pytest.mark.parametrize(
    ("model", "arguments", "multimodal"),
    [
        (QWEN_LINEAR, {}, True),
        (LLAMA, {"enable_multimodal": True}, False),
        ("google/gemma-3-4b-it", {}, False),
        ("google/gemma-3-4b-it", {"enable_multimodal": True}, True),
    ],
)
def test_some_models_see_pictures_only_on_request(model: str, arguments: dict[str, Any], multimodal: bool) -> None:
    assert _resolve("0.5.23", model, **arguments).multimodal is multimodal


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tp_size", 0),
        ("tp_size", "two"),
        ("max_running_requests", -1),
        ("mem_fraction_static", 1.2),
        ("mem_fraction_static", 0.0),
        ("mem_fraction_static", "much"),
        ("context_length", -5),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(LlmHostError) as caught:
        _resolve("0.5.23", **{name: value})
    assert caught.value.reason == "arguments_invalid"
    assert caught.value.details["option"] == name
