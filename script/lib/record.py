# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of recordings, from what script/demo printed.

Kept are plays, the tasks that did or said something, and lines of progress; left out are tasks that only include others
or were skipped, and what Ansible says a second time of a failure. Long lines are broken. Usage: record.py LOG PAGE
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120
STEPS = {  # step of script/demo -> title on the page
    "deploy: from a bare container to an answer": "Deploy: from a bare container to an answer",
    "deploy again: nothing to do": "Deploy again: nothing to do",
    "deploy with corrupt weights: it must fail, and say why": "A start that fails",
    "status": "Status",
}
HEAD = """..
  SPDX-License-Identifier: GPL-3.0-or-later
  Made by script/record from a run of script/demo: run that, and do not change this.

.. _ansible_collections.llmhost.sglang.docsite.recordings:

Recordings
==========

What ``script/demo`` printed on {date}, on a machine with {cores} cores, ansible-core {core},
and a real SGLang on the CPU in a real container; the GPU driver is simulated. Left out are tasks that were skipped or
that only include others, and where in the role a failure was raised; long lines are broken.
"""
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NOISE = re.compile(r"^(included: |skipping: |\[WARNING\]|\*+$|$)")
# "fatal: ..." says the same, without the lines of the source
TWICE = re.compile(r"(?ms)^\[ERROR\]: Task failed: .*?(?=^fatal: )")


def steps(text: str) -> dict[str, tuple[list[str], str]]:
    """Title of a step -> its lines and its seconds."""
    found: dict[str, tuple[list[str], str]] = {}
    title, lines = "", []
    for raw in TWICE.sub("", ESCAPE.sub("", text)).splitlines():
        begin, end = re.match(r"== (.*)", raw), re.match(r"-- (\d+) s$", raw)
        if begin:
            title, lines = begin[1], []
        elif end and title:
            found[title], title = (lines, end[1]), ""
        elif title:
            lines.append(raw.rstrip())
    return found


def broken(line: str) -> list[str]:
    """Lines that fit; what goes on is set in by four more than where the line began."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def shortened(lines: list[str]) -> list[str]:
    out: list[str] = []
    task: str | None = None
    for line in lines:
        if line.startswith(("TASK [", "RUNNING HANDLER [")):
            task = re.sub(r" \*+$", "", line)
        elif line.startswith("PLAY "):
            out += ["", re.sub(r" \*+$", "", line)]
            task = None
        elif not NOISE.match(line):
            if task:
                out += ["", *broken(task)]
                task = None
            out += broken(line)
    while out and not out[0]:
        out.pop(0)
    return out


def built(lines: list[str]) -> bool:
    """Whether the deploy installed SGLang: a container's folder for that outlives it."""
    name = ": Build the runtime beside the old one and switch to it]"
    task = next((number for number, line in enumerate(lines) if line.endswith(name)), None)
    if task is None:
        raise SystemExit("the run has no task '%s': script/lib/record.py knows it by another name" % name[2:-1])
    return lines[task + 1].startswith("changed: ")


def page(text: str, day: datetime.date) -> str:
    found = steps(text)
    missing = [name for name in STEPS if name not in found]
    if missing:
        sys.exit("not in this log: " + ", ".join(missing))
    made = HEAD.format(date=day.isoformat(), cores=os.cpu_count(), core=importlib.metadata.version("ansible-core"))
    for name, title in STEPS.items():
        lines, seconds = found[name]
        kept = shortened(lines)
        there = "; SGLang had been installed by an earlier run" if name.endswith("answer") and not built(kept) else ""
        made += "\n%s\n%s\n\n%s seconds%s.\n\n.. code-block:: text\n\n" % (title, "-" * len(title), seconds, there)
        made += "".join(("    " + line).rstrip() + "\n" for line in kept)
    return made


def main(log: str, target: str) -> int:
    day = datetime.date.fromtimestamp(os.path.getmtime(log))
    Path(target).write_text(page(Path(log).read_text(encoding="utf-8", errors="replace"), day), encoding="utf-8")
    print("wrote " + target)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
