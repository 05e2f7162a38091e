#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a big log is read, and in how much memory, beside ``grep -ciE`` and what ``wait_for`` does once a second.

Writes a synthetic log of ``--megabytes`` (a start, then the lines that a serving SGLang prints, then a crash), reads it
as ``log_diagnosis_info`` does in a process of its own, and prints seconds, seconds of processor time, MB/s of these,
and the peak of resident memory. ``--noise prompts`` has lines that never repeat themselves, as --log-requests prints.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
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


WORDS = [
    "the", "a", "of", "and", "to", "in", "model", "answer", "question", "please", "write", "code", "about", "error",
    "failed", "water", "python", "list", "value", "time", "people", "between", "small", "large", "first", "second",
    "describe", "explain", "summary", "translate", "number", "text", "why", "because", "signal", "end",
]  # fmt: skip


def prompt(number: int, dice: random.Random) -> str:
    """A line with words of a user."""
    text = " ".join(dice.choices(WORDS, k=60))
    return (
        "[2026-01-01 10:00:00] Receive: obj=GenerateReqInput(rid='%032x', text='%s', sampling_params={'temperature': "
        "0.7, 'max_new_tokens': 128})\n" % (dice.getrandbits(128), text)
    )


def write(path: Path, megabytes: int, while_starting: bool, kind: str) -> None:
    dice = random.Random(1)
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(START + ("" if while_starting else READY))
        size, number = 0, 0
        while size < megabytes * 1_000_000:
            if kind == "prompts":
                part = "".join(prompt(number + index, dice) for index in range(2000))
            else:
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

    began, before = time.perf_counter(), time.process_time()
    verdict = diagnose_file(path)
    seconds, cpu = time.perf_counter() - began, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu": cpu,
                "peak_mib": peak,
                "outcome": verdict.outcome,
                "cause": verdict.cause,
                "number": verdict.evidence.get("number"),
            }
        )
    )
    return 0


def search(path: str) -> int:
    """One look of ``wait_for``: the whole file is mapped and searched."""
    import mmap

    began, before = time.perf_counter(), time.process_time()
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as text:
        found = re.compile(rb"never to be found here", re.MULTILINE).search(text)
    seconds, cpu = time.perf_counter() - began, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mib": peak, "found": bool(found)}))
    return 0


def row(name: str, size: float, found: dict, more: str = "") -> None:
    print(
        "%-12s %8.0f MB %8.2f s %8.2f s CPU %8.0f MB/s %8.0f MiB peak%s"
        % (name, size, found["seconds"], found["cpu"], size / max(found["cpu"], 1e-9), found["peak_mib"], more)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--while-starting", action="store_true", help="the noise comes before the server is ready")
    parser.add_argument("--noise", choices=("serving", "prompts"), default="serving")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--search", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return child(options.read)
    if options.search:
        return search(options.search)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        write(path, options.megabytes, options.while_starting, options.noise)
        size = path.stat().st_size / 1e6

        def own(flag: str) -> dict:
            done = subprocess.run(
                [sys.executable, __file__, flag, str(path)], stdout=subprocess.PIPE, check=True, env=os.environ.copy()
            )
            return json.loads(done.stdout)

        watch = own("--read")
        row("watch", size, watch, "   -> %(outcome)s, %(cause)s, line %(number)s" % watch)
        row("wait_for", size, own("--search"), "   -> one look of it; it looks once a second")
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["grep", "-ciE", "error|failed|traceback|application startup complete", str(path)],
            stdout=subprocess.PIPE,  # with /dev/null grep ends at the first hit
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, cpu = time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print("%-12s %8.0f MB %8.2f s %8.2f s CPU %8.0f MB/s" % ("grep -ciE", size, seconds, cpu, size / cpu))
    return 0


if __name__ == "__main__":
    sys.exit(main())
