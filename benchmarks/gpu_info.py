#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time and driver calls of one look at all GPUs, by back end, GPUs and clients, against the simulated driver.

    PYTHONPATH=VIEW python3 benchmarks/gpu_info.py [--runs 5] [--json]

VIEW is a folder that holds ``ansible_collections/llmhost/sglang``. The clients are real processes in a PID namespace of
their own (root, or user namespaces, are needed). What is measured is this collection's part: the simulated driver
answers at once, a real one adds its own time.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import time

from gpu_simulated import rows

GPUS = (1, 8, 16)
CLIENTS = (0, 50, 500)


def inside(runs: int) -> None:
    """In the namespace: one table as JSON lines."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
    from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import clients, query

    state = pathlib.Path(os.environ["LLMHOST_SIM_STATE"])
    sleepers: list[subprocess.Popen[bytes]] = []
    for gpus in GPUS:
        for wanted in CLIENTS:
            while len(sleepers) < wanted:
                sleepers.append(subprocess.Popen(["sleep", "3600"]))
            lines = [f"gpu {index} total=200000" for index in range(gpus)]
            lines += [f"proc gpu={n % gpus} pid={one.pid} mem=100" for n, one in enumerate(sleepers[:wanted])]
            state.write_text("\n".join(lines) + "\n")
            for source in ("smi", "nvml"):
                times, calls = [], []
                try:
                    for _run in range(runs):
                        began = time.perf_counter()
                        driver, name, note = query.open_driver(source, 60)
                        counted = [0]
                        asked = driver._run if source == "smi" else driver._ask  # type: ignore[attr-defined]

                        def count(*arguments, asked=asked, counted=counted):  # type: ignore[no-untyped-def]
                            counted[0] += 1
                            return asked(*arguments)

                        setattr(driver, "_run" if source == "smi" else "_ask", count)
                        found = query.look(driver, name, note)
                        known = driver.capabilities([gpu.uuid for gpu in found.gpus if gpu.uuid])
                        clients.enrich(found, {"clients", "xid"}, driver.nested, known, 60)
                        driver.close()
                        times.append(time.perf_counter() - began)
                        calls.append(counted[0])
                except LlmHostError as error:
                    print(json.dumps({"source": source, "gpus": gpus, "clients": wanted, "skipped": error.reason}))
                    continue
                row = {"source": source, "gpus": gpus, "clients": wanted, "calls": max(calls)}
                row.update(median_ms=round(statistics.median(times) * 1000, 1), max_ms=round(max(times) * 1000, 1))
                print(json.dumps(row), flush=True)
    for one in sleepers:
        one.kill()


def main() -> int:
    found = rows(__file__, __doc__, inside)
    if found is None:
        return 0
    print(f"{'source':8}{'GPUs':>6}{'clients':>9}{'calls':>7}{'median ms':>11}{'max ms':>9}")
    for row in found:
        if "skipped" in row:
            print(f"{row['source']:8}{row['gpus']:6}{row['clients']:9}   not measured: {row['skipped']}")
            continue
        print(
            f"{row['source']:8}{row['gpus']:6}{row['clients']:9}{row['calls']:7}{row['median_ms']:11.1f}{row['max_ms']:9.1f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
