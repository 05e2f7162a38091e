# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What the formulas do not cover, one row each: such a start is ``unknown``, with the reason, without a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import overheads
from .arguments import ALGORITHMS, Launch
from .problem import Problem
from .versions import rule

DEVICES = ("cuda", "rocm", "npu")


@dataclass(frozen=True)
class Gap:
    """``found`` returns the reason where the gap is met, an empty text where it is not."""

    id: str
    found: Callable[[Problem, Launch], str]


def _device(problem: Problem, launch: Launch) -> str:
    return "" if problem.device in DEVICES else f"device {problem.device}"


def _architecture(problem: Problem, launch: Launch) -> str:
    return problem.geometry.not_covered


def _unified_memory(problem: Problem, launch: Launch) -> str:
    shared = next(
        (gpu.name for gpu in problem.gpus if gpu.unified_memory or overheads.has_unified_memory(gpu.name)), ""
    )
    if not shared:
        return ""
    return f"unified memory ({shared}): page cache and other processes move what is free by gigabytes while it loads"


def _linear_attention_before_support(problem: Problem, launch: Launch) -> str:
    missing = problem.geometry.linear is not None and rule("state_solver", problem.version) == "unsupported"
    return "linear attention: this SGLang version has no state pool" if missing else ""


def _argument(name: str, why: str) -> Callable[[Problem, Launch], str]:
    def found(problem: Problem, launch: Launch) -> str:
        value: Any = launch.given.get(name)
        return f"{name}: {why}" if value not in (None, False, 0, 0.0, "0", "null", "none") else ""

    return found


def _more_than_one(name: str, why: str) -> Callable[[Problem, Launch], str]:
    def found(problem: Problem, launch: Launch) -> str:
        return f"{name}: {why}" if int(launch.given.get(name) or 1) > 1 else ""

    return found


def _kv_dtype(problem: Problem, launch: Launch) -> str:
    if launch.kv_element_bytes:
        return ""
    if launch.kv_dtype == "auto":
        return (
            "kv_cache_dtype: with sparse attention SGLang chooses it by the card's compute capability, which is not "
            "known here; set kv_cache_dtype, or give the list of gpu_info as gpus"
        )
    return f"kv_cache_dtype {launch.kv_dtype}: its scales are not known here"


def _algorithm(problem: Problem, launch: Launch) -> str:
    speculation = launch.speculation
    if speculation is None or speculation.algorithm in ALGORITHMS:
        return ""
    return f"speculative_algorithm {speculation.given_as}: not known to this planner"


def _draft_geometry(problem: Problem, launch: Launch) -> str:
    speculation = launch.speculation
    if speculation is None or not speculation.has_draft_model or problem.draft is not None:
        return ""
    if launch.given.get("speculative_draft_model_path"):
        return "speculative_draft_model_path: the draft model's config.json was not found; give draft_config"
    if speculation.is_dflash:
        return f"{speculation.given_as}: the draft model's config.json is needed; give draft_config"
    if not problem.geometry.draft_layers:
        return f"{speculation.given_as}: neither a draft model nor next-token layers in config.json"
    return ""


def _draft_covered(problem: Problem, launch: Launch) -> str:
    if problem.draft is None or not problem.draft.not_covered or launch.speculation is None:
        return ""
    return f"draft model: {problem.draft.not_covered}"


def _draft_tokens(problem: Problem, launch: Launch) -> str:
    speculation = launch.speculation
    if speculation is None or speculation.draft_tokens > 0:
        return ""
    return f"{speculation.given_as}: speculative_num_draft_tokens is needed to size its buffers"


def _weights(problem: Problem, launch: Launch) -> str:
    calibration = problem.calibrated(launch)
    known = calibration is not None and calibration.get("weights_gib") is not None
    if known or problem.geometry.not_covered or problem.weights(launch) is not None:
        return ""
    quantised = problem.geometry.quantization or "a layout that config.json does not tell"
    return f"weights: {quantised}; the size needs the checkpoint's safetensors files, give model_path"


GAPS: tuple[Gap, ...] = (
    Gap("device", _device),
    Gap("architecture", _architecture),
    Gap("unified_memory_card", _unified_memory),
    Gap("linear_attention_version", _linear_attention_before_support),
    Gap("unified_pool", _argument("enable_unified_memory", "one pool for all layers has its own arithmetic")),
    Gap("hisparse", _argument("enable_hisparse", "its host pools have their own arithmetic")),
    Gap("cpu_offload", _argument("cpu_offload_gb", "how much of each layer stays on the card is not known here")),
    Gap(
        "offload_groups", _argument("offload_group_size", "how much of each layer stays on the card is not known here")
    ),
    Gap("disaggregation", _argument("disaggregation_mode", "prefill and decode roles keep other buffers")),
    Gap("memory_saver", _argument("enable_memory_saver", "its memory is mapped in another way")),
    Gap("lora", _argument("lora_paths", "adapters take memory that has not been measured")),
    Gap("lora_switch", _argument("enable_lora", "adapters take memory that has not been measured")),
    Gap("replay_state", _argument("enable_linear_replayssm_spec", "its ring buffers have not been checked")),
    Gap("decode_context_parallel", _more_than_one("dcp_size", "a sharded pool has its own arithmetic")),
    Gap("context_parallel", _more_than_one("attn_cp_size", "a sharded pool has its own arithmetic")),
    Gap("kv_dtype", _kv_dtype),
    Gap("speculative_algorithm", _algorithm),
    Gap("draft_geometry", _draft_geometry),
    Gap("draft_architecture", _draft_covered),
    Gap("draft_tokens", _draft_tokens),
    Gap("weights", _weights),
)


def reasons(problem: Problem, launch: Launch) -> list[str]:
    """Everything about this start that is not covered; empty where a number can be given."""
    return [reason for reason in (gap.found(problem, launch) for gap in GAPS) if reason]
