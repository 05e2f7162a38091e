#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run over many targets costs the controller: wall time, processor time and memory, by forks and strategy.

``benchmarks/fleet.py [--targets 10,100,500] [--forks 5,25,100] [--strategies linear,free]``, with an ansible-playbook
that finds this collection. The targets are simulated: each is this machine by ``ansible_connection: local`` with an
instance, a port and a state folder of its own, and a ``systemctl`` that knows no unit. So no connection is measured,
and the modules of all targets share this machine's cores with the controller: a fleet's own machines would take that.

``status`` is the playbook. ``dry run`` is a dry run of what a deploy does for the servers (inventory, facts, account,
arguments, the look whether a start is due, up to the wait): the tasks of a deploy with nothing to do, and more. Nothing
is written outside of a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SYSTEMCTL = """#!/bin/sh
# No unit is there.
for word in "$@"; do
    case $word in show) printf 'LoadState=not-found\\nActiveState=inactive\\nSubState=dead\\n' ;; esac
done
"""
DRY_RUN = [
    {
        "name": "Dry run of the servers' part of a deploy",
        "hosts": "sglang",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Check the inventory",
                "ansible.builtin.include_role": {
                    "name": "llmhost.sglang.sglang_server",
                    "tasks_from": "inventory.yml",
                    "public": True,
                },
            },
            {"name": "Read the host", "ansible.builtin.setup": {"gather_subset": ["!all", "!min", "distribution"]}},
            *(
                {
                    "name": "Run %s" % part,
                    "ansible.builtin.include_role": {
                        "name": "llmhost.sglang.sglang_server",
                        "tasks_from": part + ".yml",
                    },
                }
                for part in ("account", "instances")
            ),
        ],
    }
]


def fleet(folder: pathlib.Path, targets: int) -> pathlib.Path:
    """The inventory of so many targets."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/systemctl").write_text(SYSTEMCTL)
    (folder / "bin/systemctl").chmod(0o755)
    instance = {"model": str(folder / "model"), "arguments": {"device": "cpu"}}
    hosts = {
        "target%04d" % number: {
            "sglang_server_instances": {"t%04d" % number: {**instance, "port": 40000 + number}},
            "sglang_server_state_dir": str(folder / ("state%04d" % number)),
        }
        for number in range(targets)
    }
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "sglang_server_plan": "none",
        "sglang_server_probe": False,
        "sglang_server_runtime": str(folder / "no-runtime"),
        "sglang_server_version": "0.5.23",
        "sglang_server_user": "nobody",
        "sglang_server_group": "nogroup",
    }
    path = folder / "fleet.json"
    path.write_text(json.dumps({"sglang": {"hosts": hosts, "vars": variables}}))
    return path


class Memory(threading.Thread):
    """What the main process of a run holds at the most, and what its workers hold beside it. Looks again and again."""

    def __init__(self, main: int) -> None:
        super().__init__(daemon=True)
        self.main = main
        self.peak_mib = self.main_mib = 0.0
        self.workers = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.3):
            found = [pid for pid in self._family() if self._is_controller(pid)]
            own = _mib(self.main, "status", "VmRSS")
            workers = sum(_mib(pid, "smaps_rollup", "Private_(?:Clean|Dirty)") for pid in found if pid != self.main)
            self.main_mib, self.peak_mib = max(self.main_mib, own), max(self.peak_mib, own + workers)
            self.workers = max(self.workers, len(found) - 1)

    def _family(self) -> list[int]:
        """The main process and all below it; modules are among them."""
        children: dict[int, list[int]] = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(stat[1]), []).append(int(entry))
        found, ahead = [], [self.main]
        while ahead:
            pid = ahead.pop()
            found.append(pid)
            ahead += children.get(pid, [])
        return found

    @staticmethod
    def _is_controller(pid: int) -> bool:
        try:
            return b"ansible-playbook" in pathlib.Path("/proc", str(pid), "cmdline").read_bytes()
        except OSError:
            return False


def _mib(pid: int, file: str, name: str) -> float:
    """The sum of the lines of that name, in MiB."""
    try:
        found = re.findall(r"^%s:\s+(\d+)" % name, pathlib.Path("/proc", str(pid), file).read_text(), re.M)
    except OSError:
        return 0.0
    return sum(map(int, found)) / 1024


def run(folder: pathlib.Path, command: list[str], forks: int, strategy: str) -> dict[str, float]:
    """One run; sys.exit with what it printed where it fails."""
    env = {
        **os.environ,
        "ANSIBLE_FORKS": str(forks),
        "ANSIBLE_STRATEGY": strategy,
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "PATH": "%s:%s" % (folder / "bin", os.environ["PATH"]),
    }
    before, began = os.times(), time.monotonic()
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            ["ansible-playbook", "-i", str(folder / "fleet.json"), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        memory = Memory(process.pid)
        memory.start()
        code = process.wait()
    seconds, after = time.monotonic() - began, os.times()
    memory.over.set()
    memory.join()
    if code:
        sys.exit("%s failed (%d):\n%s" % (command, code, (folder / "log").read_text()[-6000:]))
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    text = (folder / "log").read_text()
    return {
        "seconds": seconds,
        "busy": busy,
        "peak": memory.peak_mib,
        "main": memory.main_mib,
        "workers": memory.workers,
        "lines": text.count("\n"),
    }


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=numbers, default=[10])
    parser.add_argument("--forks", type=numbers, default=[5, 25, 100])
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=["linear", "free"])
    parser.add_argument("--runs", type=lambda text: text.split(","), default=["status", "dry run"])
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="llmhost-fleet-"))
    try:
        (folder / "dry_run.yml").write_text(json.dumps(DRY_RUN))
        runs = {"status": ["llmhost.sglang.status"], "dry run": [str(folder / "dry_run.yml"), "--check"]}
        print("%-8s %7s %5s %-8s | %8s %10s | %14s | %10s %10s %7s | %6s" % (
            "run", "targets", "forks", "strategy", "seconds", "per target", "CPU per target",
            "main MiB", "all MiB", "workers", "lines",
        ))  # fmt: skip
        for targets in options.targets:
            fleet(folder, targets)
            for name, command in ((name, runs[name]) for name in options.runs):
                for strategy in options.strategies:
                    for forks in options.forks:
                        found = run(folder, command, forks, strategy)
                        print("%-8s %7d %5d %-8s | %8.1f %10.2f | %14.2f | %10.0f %10.0f %7d | %6d" % (
                            name, targets, forks, strategy, found["seconds"], found["seconds"] / targets,
                            found["busy"] / targets, found["main"], found["peak"], found["workers"], found["lines"],
                        ), flush=True)  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
