# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded starts, edited: a pause behind a line, so that a fault meets its phase, and a phase that a CPU has not."""

from __future__ import annotations

import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "lab/replay/recordings"
PAUSE_S = 2000.0  # of the recording's time

# What begins each phase, as a row of a recording or as a line of a log.
BEGINS = {
    "import": r"launch_server\.py:\d+: UserWarning",
    "args": r"server_args=",
    "load_weights": r"[Ll]oad weight begin",
    "kv_cache": r"[Ll]oad weight end",
    "graph_capture": r"Capture cuda graph begin",
    "http": r"max_total_num_tokens=",
    "warmup": r"Uvicorn running on",
    "runtime": r"fired up and ready to roll",
}
# A CPU captures no graphs: these lines are templates of what SGLang prints with a GPU.
GRAPHS = (
    "[<<time>>%s] Capture cuda graph begin. This can take up to several minutes. avail mem=20.10 GB",
    "\rCapturing batches (bs=2 avail_mem=20.07 GB):  50%%|#####     | 1/2 [00:01<00:01,  1.10s/it]",
    "\rCapturing batches (bs=1 avail_mem=20.05 GB): 100%%|##########| 2/2 [00:02<00:00,  1.08s/it]",
    "[<<time>>%s] Capture cuda graph end. Time elapsed: 2.31 s. mem usage=0.05 GB. avail mem=20.05 GB.",
)


def rows(name: str) -> list[tuple[float, str]]:
    """A recording up to readiness: what came after it, a test does itself."""
    out = []
    for row in (FOLDER / (name + ".tsv")).read_text().splitlines():
        if row.startswith("#"):
            continue
        seconds, rest = row.split("\t", 1)
        if rest.startswith("signal\t"):
            break
        out.append((float(seconds), rest))
    return out


def edited(name: str = "ok-clean-recipe", pause: str = "", pause_s: float = PAUSE_S) -> str:
    """A recording with graphs, and with a pause behind the first row that holds ``pause``."""
    out: list[str] = []
    later = 0.0
    waiting = pause
    for seconds, rest in rows(name):
        new = [rest]
        found = re.search(r"\[<<time>>( TP\d)?\] max_total_num_tokens=", rest)
        if found:
            lines = [line % (found.group(1) or "") if "%s" in line else line % () for line in GRAPHS]
            new = ["stderr\t" + json.dumps(line) for line in lines] + new
        for one in new:
            out.append("%.3f\t%s" % (seconds + later, one))
            if waiting and re.search(waiting, one):
                waiting, later = "", pause_s
    assert not waiting, "no row of %s holds %r" % (name, pause)
    out.append("%.3f\texit\tnone" % (seconds + later + 1))
    return "\n".join(out) + "\n"
