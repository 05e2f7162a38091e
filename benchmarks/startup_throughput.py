#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a big log is read, and in how much memory, beside ``grep -ciE``.

Writes a synthetic log of ``--megabytes`` (a start, then the lines that a serving SGLang prints, then a crash), reads it
as ``log_diagnosis_info`` does in a process of its own, and prints seconds, MB/s and the peak of resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START = (
    "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/models/a', port=30000, node_rank=0)\n"
    "[2026-01-01 10:00:05 TP0] Load weight begin. avail mem=78.50 GB\n[2026-01-01 10:00:15 TP0] Load "
    "weight end. type=A\n"
    "[2026-01-01 10:00:20 TP0] max_total_num_tokens=1000\n[2026-01-01 10:00:21] INFO:     Uvicorn "
    "running on http://127.0.0.1:30000\n"
)
READY = "[2026-01-01 10:00:23] The server is fired up and ready to roll!\n"
CRASH = (
    "[2026-01-01 23:00:06 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/v/sglang/srt/managers/scheduler.py", line 9, in event_loop_overlap\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity "
    "of 79.15 GiB of which 1.00 GiB is free.\n\n"
    "[2026-01-01 23:00:06] Received sigquit from a child process. It usually means the child failed.\n"
)


def noise(number: int) -> str:
    """Lines of a serving server."""
    clock = "%02d:%02d:%02d" % (number // 3600 % 24, number // 60 % 60, number % 60)
    return (
        "[2026-01-01 %s TP0] Decode batch, #running-req: %d, #token: %d, token usage: 0.%02d, cuda "
        "graph: True, gen throughput (token/s): %d.21, #queue-req: 0\n"
        % (clock, number % 64, number * 7 % 90000, number % 100, 700 + number % 99)
        + '[2026-01-01 %s] INFO:     10.0.%d.%d:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
        % (clock, number % 256, number % 251, 1024 + number % 60000)
        + "[2026-01-01 %s TP0] Prefill batch, #new-seq: 1, #new-token: %d, #cached-token: 0, token usage: "
        "0.%02d, #running-req: %d, #queue-req: 0\n" % (clock, number % 8000, number % 100, number % 64)
    )


def write(path: Path, megabytes: int, while_starting: bool) -> None:
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(START + ("" if while_starting else READY))
        size, number = 0, 0
        while size < megabytes * 1_000_000:
            part = "".join(noise(number + index) for index in range(2000))
            handle.write(part)
            size += len(part)
            number += 2000
        handle.write(CRASH)


def child(path: str) -> int:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from startup_corpus import collection

    collection()
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.text import diagnose_file

    began = time.perf_counter()
    verdict = diagnose_file(path)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "seconds": seconds,
                "peak_mib": peak,
                "outcome": verdict.outcome,
                "cause": verdict.cause,
                "number": verdict.evidence.get("number"),
            }
        )
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--while-starting", action="store_true", help="the noise comes before the server is ready")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return child(options.read)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        write(path, options.megabytes, options.while_starting)
        size = path.stat().st_size / 1e6
        done = subprocess.run(
            [sys.executable, __file__, "--read", str(path)], stdout=subprocess.PIPE, check=True, env=os.environ.copy()
        )
        found = json.loads(done.stdout)
        began = time.perf_counter()
        subprocess.run(
            ["grep", "-ciE", "error|failed|traceback|application startup complete", str(path)],
            stdout=subprocess.DEVNULL,
            check=False,
        )
        grep = time.perf_counter() - began
    print(
        "%-12s %8.0f MB %8.2f s %8.0f MB/s %8.0f MiB peak   -> %s, %s, line %s"
        % (
            "watch",
            size,
            found["seconds"],
            size / found["seconds"],
            found["peak_mib"],
            found["outcome"],
            found["cause"],
            found["number"],
        )
    )
    print("%-12s %8.0f MB %8.2f s %8.0f MB/s" % ("grep -ciE", size, grep, size / grep))
    return 0


if __name__ == "__main__":
    sys.exit(main())
