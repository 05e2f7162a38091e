#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How soon a death, a fatal line and readiness are told, beside the loops of today.

Runs small stand-ins of a server (a real process, a real log, a real port) under the watch, each of which writes down
when it wrote its decisive line, and prints the delay from that line to the verdict. ``--others`` also times a loop that
looks every 20 s and one that looks once a second (as ``wait_for`` does) on the same stand-ins. Then the processor time
of a watch over a start that is silent, over one that writes ten lines a second, and of the look at its status that the
action plugin makes on the target, measured over ``--cost`` seconds each and given per hour. The delay up to the end of
the task, through ssh, is printed by ``tests/scenarios/test_start_faults.py``.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "unit" / "startup")]

from startup_corpus import collection  # noqa: E402

NOW = "open(os.environ['MARK'], 'w').write(repr(time.time()))\n"
PROGRAMS = {
    "ready": "args(); load(); serve(); health[0] = 200; time.sleep(0.5)\n" + NOW + "fired(); time.sleep(60)\n",
    "death": "args(); load(); time.sleep(0.8)\n"
    + NOW
    + "raise RuntimeError('Not enough memory. Please try to increase --mem-fraction-static.')\n",
    "fatal line": "args(); load(); time.sleep(0.8)\n"
    + NOW
    + "line(\"ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): address "
    'already in use")\n' + "time.sleep(60)\n",
    "killed": "args(); load(); time.sleep(0.8)\n" + NOW + "os.kill(os.getpid(), signal.SIGKILL)\n",
}
READY = re.compile(rb"fired up and ready to roll")
FAILED = re.compile(rb"error|failed|traceback", re.I)


def once(program: str, how: str) -> float:
    from startup_support import FakeUnit

    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"
        one = FakeUnit(Path(folder), program, MARK=str(mark))
        try:
            if how == "watch":
                one.watch().run()
            else:
                every, only_ready = (20.0, False) if how == "loop of 20 s" else (1.0, True)
                end = time.monotonic() + 45
                while time.monotonic() < end:
                    text = one.log.read_bytes()
                    if READY.search(text) or (not only_ready and FAILED.search(text)):
                        break
                    time.sleep(every)
                else:
                    return float("inf")
            return time.time() - float(mark.read_text())
        finally:
            one.stop()


SILENT = "args(); load(); time.sleep(600)\n"
TALKING = "args(); load()\nwhile True: line('Loading table %d, 0 entries' % time.time_ns()); time.sleep(0.1)\n"


def cost(program: str, seconds: float) -> float:
    from startup_support import FakeUnit

    with tempfile.TemporaryDirectory() as folder:
        one = FakeUnit(Path(folder), program)
        try:
            before = resource.getrusage(resource.RUSAGE_SELF)
            one.watch(timeout_s=seconds).run()
            after = resource.getrusage(resource.RUSAGE_SELF)
        finally:
            one.stop()
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds * 3600


def cost_of_looks(seconds: float) -> float:
    """What the target spends on the looks of the action plugin; ssh and Python on the controller are not in it."""
    from ansible_collections.llmhost.sglang.plugins.action.server_wait import LOOK

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "status.json"
        path.write_text('{"state": "watching", "phase": "load_weights"}')
        before, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() + seconds
        while time.monotonic() < end:
            subprocess.run(["sh", "-c", LOOK % {"path": path}], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds * 3600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--others", type=int, default=0, help="runs of the loops of today")
    parser.add_argument("--cost", type=float, default=20.0, help="seconds over which each cost is measured; 0: none")
    options = parser.parse_args()
    collection()
    print("%-14s %-12s %6s %10s %10s %10s" % ("how", "what", "runs", "median ms", "p95 ms", "max ms"))
    for how, runs in (("watch", options.runs), ("loop of 20 s", options.others), ("loop of 1 s", options.others)):
        for what, program in PROGRAMS.items():
            found = sorted(1000 * once(program, how) for _run in range(runs))
            if found:
                shown = (found[len(found) // 2], found[min(len(found) - 1, int(0.95 * len(found)))], found[-1])
                print("%-14s %-12s %6d %10.0f %10.0f %10.0f" % (how, what, runs, *shown))
    if options.cost:
        print("seconds of processor time per hour of watching")
        print("  %-40s %6.1f" % ("a silent start", cost(SILENT, options.cost)))
        print("  %-40s %6.1f" % ("a start that writes ten lines a second", cost(TALKING, options.cost)))
        try:
            print("  %-40s %6.1f" % ("the looks of the action plugin", cost_of_looks(options.cost)))
        except ImportError:
            print("  the looks of the action plugin: not measured, for this Python has no ansible")
    return 0


if __name__ == "__main__":
    sys.exit(main())
