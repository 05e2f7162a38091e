#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the memory planner is from what real SGLang servers logged.

    PYTHONPATH=VIEW python3 benchmarks/memory_accuracy.py            # the table
    PYTHONPATH=VIEW python3 benchmarks/memory_accuracy.py --all      # and every start
    PYTHONPATH=VIEW python3 benchmarks/memory_accuracy.py --json     # the same as data

VIEW is a folder that holds ``ansible_collections/llmhost/sglang``. The starts lie beside the unit tests; a test holds
the table. An error is |planned - logged| / logged; percentiles are taken between neighbours.
"""

from __future__ import annotations

import argparse
import json
import sys

from ansible_collections.llmhost.sglang.tests.unit.memory import memory_accuracy
from ansible_collections.llmhost.sglang.tests.unit.memory.memory_accuracy import Table

# What is compared, and the limits: median, 90th percentile.
GOALS: dict[str, tuple[float | None, float | None]] = {
    "KV bytes per token": (None, 0.005),
    "state per slot": (None, 0.005),
    "tokens, measured memory": (0.003, 0.025),
    "tokens, fully offline": (0.015, 0.08),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Accuracy of the memory planner")
    parser.add_argument("--all", action="store_true", help="print every start")
    parser.add_argument("--json", action="store_true", help="print data")
    options = parser.parse_args()
    table = memory_accuracy.measure()
    if options.json:
        json.dump({"quantities": _as_data(table), "verdicts": len(table.verdicts), "wrong": table.wrong()}, sys.stdout)
        sys.stdout.write("\n")
    else:
        _show(table, options.all)
    return 0 if _holds(table) else 1


def _as_data(table: Table) -> dict[str, dict[str, float]]:
    return {
        what: {
            "count": len(table.sizes(what)),
            "median": table.median(what),
            "ninetieth": table.ninetieth(what) if len(table.sizes(what)) > 1 else table.median(what),
            "largest": table.sizes(what)[-1],
        }
        for what in table.errors
    }


def _holds(table: Table) -> bool:
    for what, (median, ninetieth) in GOALS.items():
        if median is not None and table.median(what) > median:
            return False
        if ninetieth is not None and table.ninetieth(what) > ninetieth:
            return False
    return not table.wrong()


def _show(table: Table, every_start: bool) -> None:
    sys.stdout.write(f"{'quantity':<46}{'n':>4}{'median':>9}{'p90':>9}{'max':>9}   goal (median, p90)\n")
    for what, row in sorted(_as_data(table).items()):
        goal = " ".join("-" if limit is None else f"{limit:.1%}" for limit in GOALS.get(what, ()))
        sys.stdout.write(
            f"{what:<46}{row['count']:>4}{row['median']:>9.2%}{row['ninetieth']:>9.2%}{row['largest']:>9.2%}   {goal}\n"
        )
        if every_start:
            for name, error in sorted(table.errors[what], key=lambda entry: -abs(entry[1])):
                sys.stdout.write(f"    {name:<66}{error:>+9.2%}\n")
    right = len(table.verdicts) - len(table.wrong())
    failures = sum(truth == "fail" for _, truth, _ in table.verdicts)
    sys.stdout.write(f"verdicts at the pools: {right} of {len(table.verdicts)} right, {failures} of them failures\n")
    counts = {verdict: sum(said == verdict for _, said in table.late) for verdict in ("ok", "tight", "fail")}
    sys.stdout.write(f"after the pools, starts that succeeded: {counts}\n")
    for name, truth, said in table.wrong():
        sys.stdout.write(f"    {name}: {truth}, planned {said}\n")


if __name__ == "__main__":
    sys.exit(main())
