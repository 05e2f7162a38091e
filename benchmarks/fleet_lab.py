#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``deploy`` and ``status`` cost over many containers by ssh: wall time, processor time, memory, connections.

``benchmarks/fleet_lab.py [--containers 10] [--forks 5,25] [--strategies linear,free]``, as root, with an
ansible-playbook that finds this collection, where the lab has been made before (``script/demo``). It makes a lab of
its own. Containers, systemd and ssh are real; the runtime is a few kilobytes, and the servers replay a recorded start.
All containers share this machine's cores with the controller: a fleet's own machines would take their part.
Connections are those that the containers' sshd accepted, per target and run.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import yaml
from fleet import numbers, run

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402

FIRST = 150
VERSION = "0.5.23"
HOME = "/opt/llmhost/tiny"
OWN = "/srv/llmhost"  # a runtime for each container
VARIABLES = {
    "sglang_runtime_version": VERSION,
    "sglang_runtime_wheelhouse": HOME + "/wheels",
    "sglang_runtime_lock_file": f"{HOME}/wheels/lock-{VERSION}.txt",
    "sglang_runtime_root": OWN + "/runtimes",
    "sglang_runtime_link": OWN + "/runtime",
    "sglang_runtime_reserve_gib": 0,
    "sglang_server_environment": {"LLMHOST_REPLAY_SPEED": "20"},
    "sglang_server_instances": {
        "demo": {"model": "/opt/llmhost/models/tiny", "port": 30000, "arguments": {"device": "cpu"}}
    },
}


class Fleet:
    """A lab with so many containers."""

    def __init__(self, folder: pathlib.Path, containers: int) -> None:
        self.env = {**os.environ, "LAB": str(folder / "lab")}
        self.vmids = list(range(FIRST, FIRST + containers))
        cache = os.environ.get("LLMHOST_CACHE") or os.path.expanduser("~/.cache/llmhost-sglang")
        self.data = (
            pathlib.Path(cache) / "lab/data" / folder.name
        )  # the node sees the cache, and no other folder of ours

    def lab(self, *command: str) -> str:
        done = subprocess.run(
            [str(ROOT / "tests/lab/lab"), *command],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit("lab %s: %s%s" % (" ".join(command), done.stdout, done.stderr))
        return done.stdout

    def up(self) -> dict[str, object]:
        """Start it; returns the inventory."""
        self.lab("up")
        lab_tiny.make(self.data / "tiny/wheels", (lab_tiny.Recipe(VERSION),))
        self.lab("model", str(self.data / "models/tiny"))
        for vmid in self.vmids:
            self.lab("ct", str(vmid), "bookworm", "--data", str(self.data))
        hosts = yaml.safe_load(self.lab("inventory", *map(str, self.vmids)))["all"]["hosts"]
        return {"sglang": {"hosts": {name: of for name, of in hosts.items() if name != "pve1"}, "vars": VARIABLES}}

    def connections(self) -> int:
        """That sshd has accepted so far, in all containers."""
        count = ["sh", "-c", "journalctl -o cat -t sshd | grep -c '^Accepted' || true"]
        return sum(int(self.lab("run", "pct", "exec", str(vmid), "--", *count)) for vmid in self.vmids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--containers", type=int, default=10)
    parser.add_argument("--forks", type=numbers, default=[5, 25])
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=["linear", "free"])
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="llmhost-fleet-"))
    fleet = Fleet(folder, options.containers)
    try:
        (folder / "fleet.json").write_text(json.dumps(fleet.up()))
        print("%-16s %10s %5s %-8s | %8s %10s | %14s | %8s %8s | %11s %6s" % (
            "run", "containers", "forks", "strategy", "seconds", "per target", "CPU per target",
            "main MiB", "all MiB", "connections", "lines",
        ))  # fmt: skip
        os.environ["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(folder / "cp")
        os.environ["ANSIBLE_SSH_ARGS"] = "-o ControlMaster=auto -o ControlPersist=60s"
        first = [("deploy, first", "deploy", options.strategies[0], max(options.forks))]
        rest = [
            (name, playbook, strategy, forks)
            for name, playbook in (("deploy, again", "deploy"), ("status", "status"))
            for strategy in options.strategies
            for forks in options.forks
        ]
        for name, playbook, strategy, forks in first + rest:
            subprocess.run(["pkill", "-f", "ssh: .*%s" % folder], check=False)  # each run makes its own connections
            before = fleet.connections()
            found = run(folder, ["llmhost.sglang." + playbook], forks, strategy)
            made = (fleet.connections() - before) / options.containers
            if not made:
                sys.exit("no sshd has told of a connection: they cannot be counted here")
            print("%-16s %10d %5d %-8s | %8.1f %10.2f | %14.2f | %8.0f %8.0f | %11.1f %6d" % (
                name, options.containers, forks, strategy, found["seconds"], found["seconds"] / options.containers,
                found["busy"] / options.containers, found["main"], found["peak"], made, found["lines"],
            ), flush=True)  # fmt: skip
    finally:
        fleet.lab("down")
        shutil.rmtree(fleet.data, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
