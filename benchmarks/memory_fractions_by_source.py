#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the part of older SGLang versions that picks mem_fraction_static, over a grid of cards, ranks and chunks.

    PYTHONPATH=VIEW python3 benchmarks/memory_fractions_by_source.py sglang-0.5.9-py3-none-any.whl ... > fractions.jsonl

Versions up to 0.5.18 cannot all be installed side by side, so the statements that decide are taken from each wheel's
``server_args.py`` and run on a stand-in for the arguments. Whether the prefill graph is on is decided outside these
statements; the stand-in takes that from the planner. The rows lie beside the unit tests.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import sys
import zipfile
from types import SimpleNamespace
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._memory import fraction
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import ArgumentsRefused, resolve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts

CARDS_MIB = (16380, 24564, 49140, 81559, 143771, 183359)
MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-R1", "Qwen/Qwen3.6-27B")
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"tp_size": 2},
    {"tp_size": 8},
    {"pp_size": 2},
    {"chunked_prefill_size": 2048},
    {"chunked_prefill_size": 16384, "tp_size": 8},
    {"enable_dp_attention": True, "dp_size": 4, "tp_size": 4},
    {"speculative_algorithm": "EAGLE"},
    {"speculative_algorithm": "STANDALONE"},
    {"speculative_algorithm": "NGRAM"},
    {"context_length": 2048},
    {"max_total_tokens": 3000},
    {"cuda_graph_max_bs": 12},
)
_SIZES = "_handle_gpu_memory_settings"
_HELPERS = re.compile(r"_generate_|reserve_for_|post_capture_kv_sizing_planned")
_VISION_METHOD = "adjust_mem_fraction_for_vlm"


class StandIn:
    """Arguments where everything that nobody set is ``None``; methods come from the wheel."""

    def __init__(self, defaults: dict[str, Any], values: dict[str, Any], methods: dict[str, Any]) -> None:
        self.__dict__.update({**defaults, **values})
        self.__dict__["_methods"] = methods

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:
            return self._methods[name].__get__(self)
        return None


def main(wheels: list[str]) -> int:
    for wheel in wheels:
        version = wheel.rsplit("/", 1)[-1].split("-")[1]
        defaults, methods = load(wheel)
        for name, changes in itertools.product(MODELS, CHANGES):
            if changes.get("speculative_algorithm") == "NGRAM" and parse(version) < (0, 5, 3):
                continue  # not known to it
            try:
                picked = {size: run(version, defaults, methods, name, size, changes) for size in CARDS_MIB}
            except ArgumentsRefused:
                continue
            row = {"version": version, "model": name, "args": changes, "fractions": picked}
            sys.stdout.write(json.dumps(row) + "\n")
    return 0


def load(wheel: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain defaults of the arguments, and the functions that decide, from the wheel's own source."""
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("sglang/srt/server_args.py"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ServerArgs")
    defaults = {
        node.target.id: node.value.value
        for node in body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    wanted = [node for name, node in functions.items() if name == _SIZES or _HELPERS.match(name)]
    if _SIZES not in functions:
        wanted = [_slice(functions["__post_init__"])]
    wanted.extend(node for name, node in functions.items() if name == _VISION_METHOD)
    for node in wanted:
        node.decorator_list = []
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        WithoutImports().visit(node)
    backends = SimpleNamespace(DISABLED="disabled", BREAKABLE="breakable", TC_PIECEWISE="tc_piecewise", FULL="full")
    envs = SimpleNamespace(
        SGLANG_SYMM_MEM_PREALLOC_GB_SIZE=SimpleNamespace(is_set=lambda: True),
        SGLANG_ENABLE_POST_CAPTURE_KV_SIZING=SimpleNamespace(get=lambda: False, is_set=lambda: False),
    )
    quiet = SimpleNamespace(info=print_nothing, warning=print_nothing)
    names: dict[str, Any] = {
        "Backend": backends,
        "envs": envs,
        "logger": quiet,
        "is_cuda": lambda: True,
        "is_npu": lambda: False,
        "is_hip": lambda: False,
        "is_xpu": lambda: False,
        "resolved_view": lambda arguments: arguments,
        "ModelConfig": SimpleNamespace(from_server_args=lambda arguments: arguments.get_model_config()),
    }
    module = ast.fix_missing_locations(ast.Module(body=list(wanted), type_ignores=[]))
    exec(compile(module, wheel, "exec"), names)  # the wheel's own code is what is measured
    return defaults, {node.name: names[node.name] for node in wanted}


class WithoutImports(ast.NodeTransformer):
    """What is imported in the middle of a function stands among the names instead."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.Pass:
        return ast.Pass()

    visit_Import = visit_ImportFrom


def print_nothing(*words: Any) -> None:
    """SGLang's log lines are of no interest here."""


def _slice(post_init: ast.FunctionDef) -> ast.FunctionDef:
    """Versions without a function of its own: the one statement that picks the fraction."""
    decides = [
        node
        for node in ast.walk(post_init)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "self.mem_fraction_static is None"
    ]
    function = ast.parse(f"def {_SIZES}(self, gpu_mem):\n    pass").body[0]
    if not isinstance(function, ast.FunctionDef):
        raise TypeError("not a function")
    function.body = [decides[0]]
    return function


def run(
    version: str,
    defaults: dict[str, Any],
    methods: dict[str, Any],
    name: str,
    total_mib: int,
    changes: dict[str, Any],
) -> float:
    geometry = from_config(memory_facts.config_of(name))
    launch = resolve(changes, geometry, parse(version))
    graph = fraction.prefill_graph_on(launch, geometry, parse(version))
    vision = geometry.vision
    vision_config = SimpleNamespace(hidden_size=vision.hidden) if vision is not None else None
    hf_config = SimpleNamespace(vision_config=vision_config)
    model = SimpleNamespace(is_multimodal=geometry.multimodal, hf_config=hf_config)
    batch = changes.get("cuda_graph_max_bs")
    decode = SimpleNamespace(backend="full", bs=None, max_bs=batch)
    prefill = SimpleNamespace(backend="breakable" if graph else "disabled", bs=None, max_bs=None)
    values = {
        "tp_size": 1,
        "pp_size": 1,
        "dp_size": 1,
        "page_size": 1,
        "max_prefill_tokens": 16384,
        "device": "cuda",
        "model_path": "model",
        "disaggregation_mode": "null",
        "disable_piecewise_cuda_graph": not graph,
        "enable_piecewise_cuda_graph": graph,
        "disable_cuda_graph_padding": False,
        "moe_a2a_backend": "none",
        "cuda_graph_config": SimpleNamespace(decode=decode, prefill=prefill),
        "get_model_config": lambda: model,
        "use_mla_backend": lambda: geometry.latent is not None,
        "_resolved": lambda: SimpleNamespace(enable_dp_attention=bool(changes.get("enable_dp_attention"))),
        **changes,
    }
    arguments = StandIn(defaults, values, methods)
    methods[_SIZES](arguments, total_mib)
    return float(arguments.mem_fraction_static)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
