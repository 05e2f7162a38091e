# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
# A program of its own that systemd runs, and no part of a module:
# pylint: disable=ansible-bad-function
"""Waits before a start until the GPUs are there, and until a predecessor's memory is back. For ``ExecStartPre=``.

It is copied to the target as it stands and runs with any Python 3 and nothing else, as the service's user. So a boot
that is faster than the driver, and a restart that is faster than the driver's clean-up, end well without Ansible.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

POLL_S = 0.5


def missing_devices(paths: Sequence[str]) -> list[str]:
    """Device nodes that are not there or cannot be opened, and why."""
    found = []
    for path in paths:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            found.append(f"{path}: {error.strerror}")
    return found


def busy_gpus(gpus: Sequence[str], limit_mib: int, command: str) -> list[str]:
    """GPUs that hold more memory than the limit, as nvidia-smi tells; it is asked for those GPUs alone."""
    if not gpus:
        return []
    query = [command, "--id=" + ",".join(gpus), "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{command}: {error}"]
    text = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        return [f"{command} ended with {done.returncode}: {text[-200:]}"]
    found = []
    for line in text.splitlines():
        index, _comma, used = line.partition(",")
        if not used.strip().isdigit():
            found.append(f"GPU {index.strip()}: memory in use is {used.strip() or 'not told'}")
        elif int(used) > limit_mib:
            found.append(f"GPU {index.strip()}: {used.strip()} MiB in use, more than {limit_mib}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("--device", action="append", default=[])
    parser.add_argument("--gpu", action="append", default=[])
    parser.add_argument("--used-mib", type=int, default=1024)
    parser.add_argument("--nvidia-smi", default="nvidia-smi")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    while True:
        wrong = missing_devices(given.device) or busy_gpus(given.gpu, given.used_mib, given.nvidia_smi)
        if not wrong:
            return 0
        if time.monotonic() - began >= given.timeout:
            print(f"not started: after {given.timeout:g} s still " + "; ".join(wrong), flush=True)
            return 1
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main())
