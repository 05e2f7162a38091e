# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmarks of the GPU modules share: the simulated driver, a PID namespace of their own, rows as JSON."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Callable

DRIVER = pathlib.Path(__file__).resolve().parents[1] / "tests/lab/nvml"


def rows(script: str, doc: str, inside: Callable[[int], None]) -> list[dict[str, Any]] | None:
    """Run ``inside(runs)`` of that script in the namespace and return the rows that it prints.

    None where they are not to be shown as a table: in the namespace itself, and after ``--json``.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.runs)
        return None
    sys.path.insert(0, str(DRIVER))
    import nvml_build

    with tempfile.TemporaryDirectory(prefix="llmhost-bench-") as folder:
        driver = nvml_build.built(pathlib.Path(folder))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "LLMHOST_SIM_STATE": folder + "/gpu.state",
            "LD_LIBRARY_PATH": str(driver / "lib"),
            "PATH": f"{driver / 'bin'}:{os.environ['PATH']}",
        }
        alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if os.geteuid():
            alone[1:1] = ["--user", "--map-root-user"]
        command = [*alone, sys.executable, script, "--inside", "--runs", str(arguments.runs)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if arguments.json:
        print(json.dumps(found, indent=1))
        return None
    return found
