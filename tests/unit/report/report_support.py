# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict and a plan as the modules return them, made up."""

from __future__ import annotations

from typing import Any


def phase(name: str, began: float, seconds: float | None, **by_rank: float) -> dict[str, Any]:
    spread = max(by_rank.values()) - min(by_rank.values()) if by_rank else 0.0
    return {
        "phase": name,
        "began": 1000.0 + began,
        "seconds": seconds,
        "ranks": sorted(by_rank) or [""],
        "rank_spread_s": spread,
        "by_rank": by_rank or {"": 0.0},
    }


def failed(**changes: Any) -> dict[str, Any]:
    """A start of two ranks that found no room for its KV cache."""
    return {
        "outcome": "failed",
        "cause": "kv_cache_no_memory",
        "phase": "kv_cache",
        "message": "After loading the weights no memory is left for the KV cache.",
        "evidence": {
            "line": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "number": 212,
            "ranks": ["TP0", "TP1"],
            "frames": ["model_runner.py:init_memory_pool"],
            "discarded": ["Received sigquit from a child process."],
            "outside": [
                {"source": "gpu", "rule": "gpu_held", "effect": "decides", "says": "python (pid 7) holds 30000 MiB."}
            ],
        },
        "detail": {"fraction": 0.8, "holders": [{"pid": 7, "comm": "python"}]},
        "remedies": [
            {"id": "raise", "text": "Give SGLang more of the card.", "arguments": {"mem_fraction_static": 0.9}},
            {"id": "drop", "text": "Leave the draft out.", "arguments": {"speculative_algorithm": None}},
            {"id": "free", "text": "Free the card.", "arguments": {}, "host_action": "stop the other server"},
        ],
        "not_remedies": ["A larger --shm-size of the container."],
        "retryable": False,
        "docs": "catalogue.html#kv-cache-no-memory",
        "memory": [
            {"at": "load_begin", "rank": "TP0", "avail_mem_gb": 46.0},
            {"at": "load_begin", "rank": "TP1", "avail_mem_gb": 45.5},
            {"at": "load_end", "rank": "TP0", "avail_mem_gb": 6.5, "mem_usage_gb": 39.5},
            {"at": "load_end", "rank": "TP1", "avail_mem_gb": 6.0, "mem_usage_gb": 39.5},
        ],
        "timeline": [
            phase("args", 0, 12),
            phase("load_weights", 12, 40, TP0=0.0, TP1=3.0),
            phase("kv_cache", 52, 2, TP0=0.0, TP1=1.5),
        ],
        "log_tail": "one\ntwo\n",
        "unit": "sglang-chat.service",
        "seconds": 54.2,
        **changes,
    }


def plan(**changes: Any) -> dict[str, Any]:
    sizes = {
        "driver": 0.5,
        "weights": 38.0,
        "kv_cache": 5.0,
        "decode_graphs": 1.0,
        "activations": 1.0,
        "unassigned": 2.5,
    }
    entries = [{"item": item, "text": item.replace("_", " "), "gib": size} for item, size in sizes.items()]
    return {
        "verdict": "ok",
        "max_total_num_tokens": 100000,
        "sizes": {"weights_gib": 38.0},
        "budget": [
            {"gpu": index, "name": "NVIDIA Sim", "total_gib": 48.0, "missing_gib": 0.0, "entries": entries}
            for index in (0, 1)
        ],
        **changes,
    }
