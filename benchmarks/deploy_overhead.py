#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the play adds to the server's own start, and what a run with nothing to do costs.

Run it where ``script/demo`` has left its lab up, with an ansible-playbook that finds this collection:
``benchmarks/deploy_overhead.py [--runs N]``. The server is stopped and deployed N times, then deployed N times with
nothing to do. The server's own start is read from its journal: from the unit's start to the line that says ready.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAB = os.environ.get("LAB", "/tmp/llmhost-demo")
UNIT = "sglang-demo.service"


def lab(*command: str) -> str:
    done = subprocess.run(
        [str(ROOT / "tests/lab/lab"), "run", *command], env={**os.environ, "LAB": LAB}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit("no lab at %s: run script/demo first\n%s" % (LAB, done.stderr))
    return done.stdout


def play(name: str, *options: str) -> float:
    inventory = ["-i", str(ROOT / "inventories/lab"), "-i", LAB + "/addresses.yml"]
    began = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", *inventory, "llmhost.sglang." + name, *options], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.monotonic() - began


def own_start() -> float:
    """Seconds from the unit's start to the line that says ready, by the journal's clock."""
    invocation = lab(
        "pct", "exec", "129", "--", "systemctl", "show", "--property=InvocationID", "--value", UNIT
    ).strip()
    journal = lab("pct", "exec", "129", "--", "journalctl", "--output=json", "_SYSTEMD_INVOCATION_ID=" + invocation)
    lines = [json.loads(line) for line in journal.splitlines()]
    first = int(
        lab(
            "pct",
            "exec",
            "129",
            "--",
            "systemctl",
            "show",
            "--property=ExecMainStartTimestampMonotonic",
            "--value",
            UNIT,
        )
    )
    ready = [e for e in lines if "The server is fired up" in str(e.get("MESSAGE"))]
    return (int(ready[-1]["__MONOTONIC_TIMESTAMP"]) - first) / 1e6


def row(what: str, seconds: list[float]) -> None:
    print("%-42s %8.1f %8.1f %8.1f" % (what, min(seconds), statistics.median(seconds), max(seconds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    first, own, again = [], [], []
    for _run in range(runs):
        play("stop")
        first.append(play("deploy"))
        own.append(own_start())
    for _run in range(runs):
        again.append(play("deploy"))
    print("%-42s %8s %8s %8s" % ("seconds over %d runs" % runs, "min", "median", "max"))
    row("deploy with a start", first)
    row("  the server's own start", own)
    row("  what the play adds", [a - b for a, b in zip(first, own)])
    row("deploy with nothing to do", again)


if __name__ == "__main__":
    main()
