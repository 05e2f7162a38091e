#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpu_clean's wait adds to the driver's own release time (goal: at most 300 ms).

    PYTHONPATH=VIEW python3 benchmarks/gpu_clean.py [--runs 5] [--json]

VIEW is a folder that holds ``ansible_collections/llmhost/sglang``. Real processes in a PID namespace of their own hold
memory of the simulated driver, which gives it back a set time after their death. The overhead is from that moment,
known to the simulation, to the return of the release; SIGTERM is heard at once.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import signal
import statistics
import threading
import time

from gpu_simulated import rows

RELEASE_MS = (100, 500, 1700, 3300, 12300)
GOAL_MS = 300


def spawn(name: bytes) -> int:
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
        os.setsid()
        while True:
            signal.pause()
    return pid


def watch_death(folder: pathlib.Path, seen: list[float]) -> None:
    """When the simulation found the process dead: the time of a file that is there as long as the memory is charged."""
    end = time.time() + 60
    while time.time() < end:
        for path in folder.glob("*.gone"):
            try:
                seen.append(path.stat().st_mtime)
            except FileNotFoundError:
                continue
            return
        time.sleep(0.002)


def inside(runs: int) -> None:
    from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
    from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import query
    from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.host import Host
    from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.release import Release, Request

    state = pathlib.Path(os.environ["LLMHOST_SIM_STATE"])
    for release_ms in RELEASE_MS:
        for source in ("smi", "nvml"):
            over = []
            try:
                for _run in range(runs):
                    state.write_text(f"gpu 0\nrelease_ms {release_ms}\nhold gpu=0 mem=50000 comm=^sglang::sched\n")
                    pid = spawn(b"sglang::schedul")
                    time.sleep(0.2)
                    driver, name, note = query.open_driver(source, 30)
                    seen: list[float] = []
                    watch = threading.Thread(target=watch_death, args=(state.parent / "gpu.state.held", seen))
                    watch.start()
                    request = Request(gpus=("all",), lock_dir=str(state.parent / "locks"))
                    release = Release(request, driver, lambda d=driver, n=name, w=note: query.look(d, n, w), Host())
                    result = release.run()
                    ended = time.time()
                    driver.close()
                    os.waitpid(pid, 0)
                    if not result["changed"]:
                        raise SystemExit("nothing was stopped: this measured nothing")
                    watch.join()
                    death = max(seen)
                    over.append((ended - death) * 1000 - release_ms)
                    time.sleep(0.1)
            except LlmHostError as error:
                print(json.dumps({"source": source, "release_ms": release_ms, "skipped": error.reason}))
                continue
            row = {"source": source, "release_ms": release_ms, "median_ms": round(statistics.median(over))}
            print(json.dumps({**row, "max_ms": round(max(over))}), flush=True)


def main() -> int:
    found = rows(__file__, __doc__, inside)
    if found is None:
        return 0
    print(f"{'source':8}{'release ms':>12}{'overhead median ms':>20}{'max ms':>9}   goal {GOAL_MS} ms")
    for row in found:
        if "skipped" in row:
            print(f"{row['source']:8}{row['release_ms']:12}   not measured: {row['skipped']}")
            continue
        print(f"{row['source']:8}{row['release_ms']:12}{row['median_ms']:20}{row['max_ms']:9}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
