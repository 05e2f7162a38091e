#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What 20 tasks cost over each way into a container: ssh through the node, our pct, community.proxmox's pct_remote.

Run it where a lab is up with container 129 (``script/demo`` leaves one), with an ansible-playbook that finds this
collection and community.proxmox:
``benchmarks/connection_ways.py [--runs N] [--tasks N] [--vmid VMID] [--pct-start SECONDS] [--json]``.
The ways take turns, so that other work on the machine meets them alike; medians count. ssh and pct are pipelined,
pct_remote cannot be. The lab's pct starts faster than Proxmox's, which is Perl: --pct-start adds to each start of it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAB = os.environ.get("LAB", "/tmp/llmhost-demo")
DELAY = "/etc/pct-standin.delay"
WAYS = {
    "ssh": ("ssh, ProxyJump", []),
    "pct": ("llmhost.sglang.pct", ["--pct"]),
    "pct_remote": ("community.proxmox.proxmox_pct_remote", ["--pct-remote"]),
}
GOAL_SSH, GOAL_REMOTE = 1.5, 3.0


def lab(*command: str) -> str:
    environment = {**os.environ, "LAB": LAB}
    done = subprocess.run([str(ROOT / "tests/lab/lab"), *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit("no lab at %s: run script/demo first\n%s" % (LAB, done.stderr))
    return done.stdout


def play(inventory: pathlib.Path, playbook: pathlib.Path) -> float:
    environment = {
        **os.environ,
        "HOME": LAB + "/home",  # pct_remote knows hosts by ~/.ssh/known_hosts alone
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_HOST_KEY_CHECKING": "true",
        "ANSIBLE_LOCAL_TEMP": str(playbook.parent / "tmp"),
    }
    command = ["ansible-playbook", "-i", str(inventory), str(playbook)]
    began = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.monotonic() - began


def measure(vmid: str, runs: int, tasks: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory(prefix="llmhost-bench-") as name:
        folder = pathlib.Path(name)
        task = {"name": "True", "ansible.builtin.command": "true", "changed_when": False}
        books = {}
        for count in (0, tasks):
            books[count] = folder / ("%d.yml" % count)
            books[count].write_text(
                json.dumps([{"name": "Tasks", "hosts": "ct" + vmid, "gather_facts": False, "tasks": [task] * count}])
            )
        places = {}
        for way, (_title, options) in WAYS.items():
            places[way] = folder / (way + ".yml")
            places[way].write_text(lab("inventory", *options, vmid))
        found: dict[str, list[float]] = {way: [] for way in ("nothing", *WAYS)}
        for way in WAYS:  # once outside the measurement: bytecode, ControlPersist's folder
            play(places[way], books[0])
        for _run in range(runs):
            found["nothing"].append(play(places["ssh"], books[0]))
            for way in WAYS:
                found[way].append(play(places[way], books[tasks]))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--vmid", default="129")
    parser.add_argument("--pct-start", type=float, default=0.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.pct_start:
        lab("run", "sh", "-c", "echo %g > %s" % (options.pct_start, DELAY))
    try:
        found = measure(options.vmid, options.runs, options.tasks)
    finally:
        if options.pct_start:
            lab("run", "rm", "-f", DELAY)
    middle = {way: statistics.median(seconds) for way, seconds in found.items()}
    ratios = {"pct/ssh": middle["pct"] / middle["ssh"], "pct_remote/pct": middle["pct_remote"] / middle["pct"]}
    if options.json:
        print(json.dumps({"seconds": found, "median": middle, "ratios": ratios, "pct_start": options.pct_start}))
        return
    print("%d tasks, %d runs, pct starts %g s slower than the lab's" % (options.tasks, options.runs, options.pct_start))
    print("%-40s %8s %8s %8s %10s" % ("seconds", "min", "median", "max", "a task"))
    print("%-40s %8.1f %8.1f %8.1f" % (("no task", min(found["nothing"]), middle["nothing"], max(found["nothing"]))))
    for way, (title, _options) in WAYS.items():
        seconds, each = found[way], (middle[way] - middle["nothing"]) / options.tasks
        print("%-40s %8.1f %8.1f %8.1f %10.2f" % (title, min(seconds), middle[way], max(seconds), each))
    print("pct is %.2f times ssh (goal: at most %.1f)" % (ratios["pct/ssh"], GOAL_SSH))
    print("pct_remote is %.2f times pct (goal: at least %.1f)" % (ratios["pct_remote/pct"], GOAL_REMOTE))


if __name__ == "__main__":
    main()
