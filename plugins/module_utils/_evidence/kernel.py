# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The kernel log of one start: what the OOM killer did, what the NVIDIA driver reported.

Lines carry seconds since boot, so a clock that was set in between does no harm.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable
from typing import Callable

from .._errors import LlmHostError
from .._gpu import xid
from .._gpu.query import run_with_deadline
from .._startup.evidence import Answer, OomKill, XidEvent

COMMANDS = (
    ("dmesg",),
    ("journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--output=short-monotonic"),
)
SLACK_S = 1.0  # the kernel's clock and that of the start may differ by so much
LINE_LIMIT = 500
EVENT_LIMIT = 64

_TIME = re.compile(r"^(?:<\d+>)?\[\s*(?P<seconds>\d+\.\d+)\]")
# Newer kernels: one line of facts, then one of numbers. Older ones have the second alone.
_TASK = re.compile(r"oom-kill:.{0,400}?task_memcg=(?P<group>[^,\s]+),task=(?P<name>[^,]*),pid=(?P<pid>\d+)")
_KILLED = re.compile(r"[Kk]illed process (?P<pid>\d+) \((?P<name>[^)]*)\)")
_OOM = re.compile(r"oom-kill:|[Oo]ut of memory|oom_reaper|Killed process \d")
_PID = re.compile(r"\bpid='?(\d+)")

Run = Callable[[list[str], float, str], "tuple[int, str, str]"]


def lines(since: float, until: float | None = None, timeout_s: float = 5.0, run: Run = run_with_deadline) -> Answer:
    """The lines of the kernel log between two moments, in seconds since boot."""
    tried = []
    for command in COMMANDS:
        if shutil.which(command[0]) is None and run is run_with_deadline:
            tried.append("%s is not installed" % command[0])
            continue
        try:
            code, out, err = run(list(command), timeout_s, command[0])
        except LlmHostError as error:
            tried.append("%s: %s" % (command[0], error.message.split(".")[0]))
            continue
        found = out.splitlines()
        if code == 0 and found:
            return Answer([line for line in found if _within(line, since, until)])
        tried.append("%s: %s" % (command[0], (err.strip() or "it shows nothing").splitlines()[0][:200]))
    return Answer(None, "The kernel log cannot be read here (%s): look on the host." % "; ".join(tried))


def _within(line: str, since: float, until: float | None) -> bool:
    found = _TIME.search(line[:40])
    if found is None:
        return False
    seconds = float(found.group("seconds"))
    return seconds >= since - SLACK_S and (until is None or seconds <= until + SLACK_S)


def ooms(found: Iterable[str], control_group: str = "", pids: Collection[int] = ()) -> list[OomKill]:
    """Who was killed. By control group where the kernel names it, which also holds in a container; else by PID."""
    kills: dict[int, OomKill] = {}
    groups: dict[int, str] = {}
    for line in found:
        task = _TASK.search(line)
        killed = task or (_KILLED.search(line) if _OOM.search(line) else None)
        if killed is None:
            continue
        pid = int(killed.group("pid"))
        if task is not None:
            groups[pid] = task.group("group")
        group = groups.get(pid, "")
        own: bool | None = None
        if group and control_group.strip("/"):
            own = _inside(group, control_group)
        elif pids:
            own = pid in pids
        kills[pid] = OomKill(pid, killed.group("name"), own, _text(line))
    return list(kills.values())[-EVENT_LIMIT:]


def _inside(group: str, control_group: str) -> bool:
    """Whether a group is the wanted one or below it; seen from a host the one of a container has more before it."""
    wanted = "/" + control_group.strip("/")
    return (group + "/").endswith(wanted + "/") or wanted + "/" in group + "/"


def xids(found: Iterable[str]) -> list[XidEvent]:
    """What the driver reported, oldest first."""
    events = []
    for line in found:
        for pci, rows in xid.parse([line]).items():
            for row in rows:
                pid = _PID.search(row["text"])
                number = int(pid.group(1)) if pid else None
                events.append(XidEvent(row["xid"], row["class"], row["meaning"], pci, number, _text(line)))
    return events[-EVENT_LIMIT:]


def _text(line: str) -> str:
    return _TIME.sub("", line).strip()[:LINE_LIMIT]
