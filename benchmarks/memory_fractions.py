#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a real SGLang which mem_fraction_static it picks, over a grid of cards, ranks, chunks and models.

Run it with the interpreter of an environment that has SGLang 0.5.20 or newer (its CPU build is enough), with the
folder that holds ``ansible_collections`` in PYTHONPATH:

    SGLANG_USE_CPU_ENGINE=1 PYTHONPATH=VIEW VENV/bin/python benchmarks/memory_fractions.py > fractions.jsonl

SGLang's whole resolution of arguments runs. Faked is the machine only: the size of the smallest card, and that it is
a CUDA one. The rows lie beside the unit tests, which hold the planner against them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from typing import Any

from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts

CARDS_MIB = (16380, 24564, 32607, 40960, 49140, 81559, 97887, 143771, 183359)
MODELS: dict[str, dict[str, Any]] = {
    "meta-llama/Llama-3.1-8B-Instruct": {"model_type": "llama"},
    "Qwen/Qwen3-30B-A3B": {"model_type": "qwen3_moe", "num_experts_per_tok": 8},
    "deepseek-ai/DeepSeek-R1": {
        "model_type": "deepseek_v3",
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "qk_head_dim": 192,
        "rope_scaling": None,
    },
    "Qwen/Qwen3.6-27B": {"model_type": "qwen3_5"},
    "google/gemma-3-4b-it": {"model_type": "gemma3"},
}
SUB_TYPES = {
    "qwen3_5": {"text_config": "qwen3_5_text", "vision_config": "qwen3_5"},
    "gemma3": {"text_config": "gemma3_text", "vision_config": "siglip_vision_model"},
}
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"tp_size": 2},
    {"tp_size": 4},
    {"tp_size": 8},
    {"pp_size": 2},
    {"chunked_prefill_size": 2048},
    {"chunked_prefill_size": 8192, "tp_size": 2},
    {"chunked_prefill_size": 16384, "tp_size": 8},
    {"chunked_prefill_size": -1},
    {"max_running_requests": 4},
    {"max_running_requests": 64, "tp_size": 4},
    {"max_total_tokens": 3000},
    {"context_length": 2048},
    {"disable_cuda_graph": True},
    {"cuda_graph_max_bs_decode": 12},
    {"cuda_graph_max_bs_decode": 400, "tp_size": 8},
    {"disable_prefill_cuda_graph": True},
    {"speculative_algorithm": "NGRAM"},
    {"enable_dp_attention": True, "dp_size": 4, "tp_size": 4},
    {"enable_dp_attention": True, "dp_size": 8, "tp_size": 8, "cuda_graph_max_bs_decode": 400},
    {"speculative_algorithm": "NEXTN", "max_running_requests": 8},
)


def main() -> int:
    import sglang.srt.arg_groups.memory_hook as memory_hook
    import sglang.srt.model_executor.cuda_graph_config as graph_config
    from sglang.srt.runtime_context import override_platform
    from sglang.srt.server_args import ServerArgs
    from sglang.version import __version__

    graph_config.default_prefill_backend = lambda: graph_config.Backend.BREAKABLE
    refused = 0
    with tempfile.TemporaryDirectory() as folder, override_platform(is_cuda=True):
        paths = {name: _write_config(folder, name) for name in MODELS}
        for name, changes in itertools.product(MODELS, CHANGES):
            picked = {}
            for total_mib in CARDS_MIB:
                memory_hook.get_device_memory_capacity = lambda device=None, size=total_mib: size
                try:
                    arguments = ServerArgs(model_path=paths[name], device="cuda", attention_backend="triton", **changes)
                    arguments.resolve_once()
                    picked[total_mib] = arguments.resolved_dict()["mem_fraction_static"]
                except Exception as error:  # a combination that this model does not take
                    refused += 1
                    sys.stderr.write(f"{name} {total_mib} {changes}: {type(error).__name__}: {error}\n")
            row = {"version": __version__, "model": name, "args": changes, "fractions": picked}
            sys.stdout.write(json.dumps(row) + "\n")
    sys.stderr.write(f"{refused} combinations refused\n")
    return 0


def _write_config(folder: str, name: str) -> str:
    directory = os.path.join(folder, name.replace("/", "-"))
    os.makedirs(directory)
    config = {**memory_facts.config_of(name), **MODELS[name]}
    for part, model_type in SUB_TYPES.get(str(config["model_type"]), {}).items():
        config[part] = {**config[part], "model_type": model_type}
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return directory


if __name__ == "__main__":
    sys.exit(main())
