#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the options cost: reading them from the sources, from the cache, from a shipped table, and rendering.

    PYTHONPATH=VIEW benchmarks/options_schema.py [--runs N] [--json FILE] UNPACKED...

VIEW holds ``ansible_collections``; UNPACKED is a folder with an unpacked wheel of SGLang in it, one a version.
Times are taken in this process: lowest, median and highest of N runs, imports done before. The cache lies in a
temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._options import names, schema
from ansible_collections.llmhost.sglang.plugins.module_utils._options.arguments import Layer
from ansible_collections.llmhost.sglang.plugins.module_utils._options.extract import extract
from ansible_collections.llmhost.sglang.plugins.module_utils._options.launch import Request, launch

ARGUMENTS: dict[str, Any] = {
    "model_path": "org/model",
    "tp_size": 2,
    "mem_fraction_static": 0.85,
    "context_length": 65536,
    "enable_metrics": True,
    "schedule_policy": "lpm",
    "max_running_requests": 8,
}


def measure(what: Callable[[], Any], runs: int) -> list[float]:
    times = []
    for _run in range(runs):
        began = time.perf_counter()
        what()
        times.append(time.perf_counter() - began)
    return times


def venv_of(unpacked: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    venv = folder / "venv"
    (venv / "lib/python3").mkdir(parents=True)
    (venv / "lib/python3/site-packages").symlink_to(unpacked.resolve())
    return venv


def rows_for(unpacked: pathlib.Path, runs: int) -> list[dict[str, Any]]:
    version = schema.version_in(str(unpacked)) or sys.exit(f"no SGLang in {unpacked}")
    options, digests = extract(str(unpacked))
    rows = []

    def row(what: str, run: Callable[[], Any]) -> None:
        times = measure(run, runs)
        rows.append(
            {"version": version, "what": what, "seconds": times, "options": len(options), "files": len(digests)}
        )

    with tempfile.TemporaryDirectory() as name:
        venv = venv_of(unpacked, pathlib.Path(name))
        row("read the sources", lambda: extract(str(unpacked)))
        schema.load(str(venv))
        row("read the cache, sources unchanged", lambda: schema.load(str(venv)))
        row("render, venv cached", lambda: launch(Request(venv=str(venv), layers=[Layer("a", ARGUMENTS)])))
        known = schema.load(str(venv))
        row("name an unknown option", lambda: names.resolve(known, "tp_sise", "a"))
    row("read the shipped table", lambda: schema.shipped(version))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unpacked", nargs="+", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    wanted = parser.parse_args()
    rows = [row for unpacked in wanted.unpacked for row in rows_for(unpacked, wanted.runs)]
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, {wanted.runs} runs; milliseconds")
    print(f"{'version':12} {'options':>7} {'files':>5}  {'what':36} {'low':>8} {'median':>8} {'high':>8}")
    for row in rows:
        low, middle, high = (1000 * f(row["seconds"]) for f in (min, statistics.median, max))
        print(
            f"{row['version']:12} {row['options']:7} {row['files']:5}  {row['what']:36} "
            f"{low:8.1f} {middle:8.1f} {high:8.1f}"
        )
    if wanted.json:
        wanted.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
