#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the part of SGLang versions that sizes the pool of recurrent states, over a grid of arguments.

    PYTHONPATH=VIEW python3 benchmarks/memory_states_by_source.py sglang-0.5.9-py3-none-any.whl ... > states.jsonl

The functions are taken from each wheel's own source and run on a stand-in for the server's state. One line a version:
for every start of the grid the slots and the GiB that are left, or null where SGLang raises. The lines lie beside the
unit tests, which hold the planner against them.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from types import SimpleNamespace
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import Launch
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.cells import state_bytes
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import parse
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_state_grid

FILES = (
    "sglang/srt/mem_cache/kv_cache_configurator.py",
    "sglang/srt/model_executor/model_runner_kv_cache_mixin.py",
    "sglang/srt/model_executor/model_runner.py",
)
SIZERS = ("handle_max_mamba_cache", "_handle_max_mamba_cache")
RATIO = "_calculate_mamba_ratio"


class Settings(SimpleNamespace):
    """Arguments that the code under measurement may set, in the ways of several versions."""

    def override(self, tag: str, **changes: Any) -> None:
        self.__dict__.update(changes)


class WithoutImports(ast.NodeTransformer):
    """What is imported in the middle of a function stands among the names instead."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.Pass:
        return ast.Pass()

    visit_Import = visit_ImportFrom


def main(wheels: list[str]) -> int:
    for wheel in wheels:
        version = wheel.rsplit("/", 1)[-1].split("-")[1]
        code = load(wheel)
        results = [run(code, launch, left_gib) for launch, left_gib in memory_state_grid.starts(parse(version))]
        sys.stdout.write(json.dumps({"version": version, "results": results}) + "\n")
    return 0


def load(wheel: str) -> Any:
    """The functions and their constants, compiled from the first file of the wheel that has them."""
    with zipfile.ZipFile(wheel) as archive:
        present = [name for name in FILES if name in archive.namelist()]
        sources = [archive.read(name).decode() for name in present]
    tree = ast.parse(next(source for source in sources if "handle_max_mamba_cache(" in source))
    wanted: list[ast.stmt] = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("MAMBA_CACHE")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in (*SIZERS, RATIO):
            node.decorator_list = []
            node.returns = None
            for argument in node.args.args:
                argument.annotation = None
            wanted.append(WithoutImports().visit(node))
    return compile(ast.fix_missing_locations(ast.Module(body=wanted, type_ignores=[])), wheel, "exec")


def run(code: Any, launch: Launch, left_gib: float) -> list[float] | None:
    """[slots, GiB left for keys and values], None where SGLang raises."""
    shape = memory_state_grid.geometry()
    drafts = launch.speculation.draft_tokens if launch.speculation is not None else None
    extra = launch.state_strategy != "no_buffer" and launch.radix_cache
    settings = Settings(
        max_mamba_cache_size=launch.state_slots,
        max_running_requests=launch.max_running_requests,
        disable_radix_cache=not launch.radix_cache,
        enable_dp_attention=launch.attention_dp > 1,
        dp_size=launch.attention_dp,
        speculative_num_draft_tokens=drafts,
        mamba_full_memory_ratio=launch.state_ratio,
        disable_overlap_schedule=not launch.overlap,
        enable_mamba_extra_buffer=lambda: extra,
        enable_mamba_extra_buffer_lazy=lambda: False,
        enable_linear_replayssm_spec=False,
        enable_linear_replayssm=False,
    )
    mamba = SimpleNamespace(
        enable_linear_replayssm_spec=False, enable_mamba_extra_buffer=extra, enable_mamba_extra_buffer_lazy=False
    )
    names: dict[str, Any] = {
        "get_schedule": lambda: settings,
        "get_memory": lambda: settings,
        "get_spec": lambda: settings,
        "get_context": lambda: settings,
        "get_exec": lambda: SimpleNamespace(mamba=mamba),
        "get_mamba_tracking_slots": lambda extra_buffer, overlap, lazy: 2 if overlap else 1,
        "mamba_extra_buffer_enabled": lambda *arguments: extra,
        "mamba_extra_buffer_lazy_enabled": lambda *arguments: False,
        "_pd_prefill_skips_mamba_spec_state": lambda: False,
        "envs": SimpleNamespace(SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK=SimpleNamespace(get=lambda: False)),
    }
    exec(code, names)  # the wheel's own code is what is measured
    parameters = SimpleNamespace(mamba_cache_per_req=state_bytes(launch, shape).total, layers=[0] * 48)
    runner = SimpleNamespace(
        mambaish_config=SimpleNamespace(mamba2_cache_params=parameters),
        hybrid_gdn_config=object(),
        hybrid_kda_config=None,
        kimi_linear_config=None,
        server_args=settings,
        spec_algorithm=SimpleNamespace(is_none=lambda: drafts is None),
        dp_size=launch.attention_dp,
        attn_dp_size=launch.attention_dp,
        ps=SimpleNamespace(attn_dp_size=launch.attention_dp, pp_size=1),
        pp_size=1,
        model_config=SimpleNamespace(num_hidden_layers=64),
        extra_mamba_cache_bytes_per_req=0,
        fused_entry_bytes=lambda name: None,
    )
    if RATIO in names:
        runner._calculate_mamba_ratio = lambda: names[RATIO](runner)
    sizer = next(names[name] for name in SIZERS if name in names)
    try:
        left = sizer(runner, left_gib)
    except RuntimeError:
        return None
    return [settings.max_mamba_cache_size, round(left, 4)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
