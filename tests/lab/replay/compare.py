# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the replayer still like the real server? Compares a start of each by what a watcher can see.

A start is a dict as record.py writes it: `lines` (list of str, or of [seconds, str]), `exit` (int, negative: died by
that signal; None: still runs), `statuses` (path -> list of HTTP statuses in the order they came, `refused` before the
port opens) and `titles` (the children's names). `from_journal` makes one from a start that systemd ran.
"""

from __future__ import annotations

import json
import re

# What a watcher knows a start by, in no particular order: the order comes from the starts.
MARKERS = (
    ("arguments", r"server_args="),
    ("parallel begin", r"Init parallel begin"),
    ("parallel end", r"Init parallel ends"),
    ("memory baseline", r"Memory baseline taken"),
    ("weights begin", r"Load weight begin"),
    ("weights end", r"Load weight end"),
    ("KV cache", r"KV Cache is allocated"),
    ("pool end", r"Memory pool end"),
    ("capacity", r"max_total_num_tokens=\d+"),
    ("timings", r"Engine startup timings"),
    ("process started", r"Started server process \["),
    ("application up", r"Application startup complete"),
    ("port open", r"Uvicorn running on http://"),
    ("bind error", r"error while attempting to bind on address"),
    ("warm-up", r'"POST /generate HTTP/1.1" 200'),
    ("ready", r"The server is fired up and ready to roll!"),
    ("drain", r"SIGTERM received\..*Draining"),
    ("graceful", r"Gracefully exiting"),
    ("shutting down", r"INFO: +Shutting down"),
    ("shut down", r"Application shutdown complete"),
    ("scheduler exception", r"Scheduler hit an exception"),
    ("child failed", r"SIGQUIT received"),
    ("child crashed", r"Subprocess \w+ \(pid=.*\) crashed"),
    ("scheduler died", r"Rank 0 scheduler died during initialization"),
    ("usage error", r"sglang serve: error: "),
    ("tree killed", r"kill_process_tree called"),
    ("error", r"^(?:[\w.]+\.)?(?:\w+Error|\w+Exception): "),
)
COMPILED = [(name, re.compile(pattern)) for name, pattern in MARKERS]


def markers(lines) -> list[str]:
    """Names of the markers in the order of their first appearance; errors with their type."""
    seen: list[str] = []
    for line in lines:
        text = line if isinstance(line, str) else line[1]
        for name, pattern in COMPILED:
            found = pattern.search(text)
            if found:
                label = "%s %s" % (name, text.split(":")[0].split(".")[-1]) if name == "error" else name
                if label not in seen:
                    seen.append(label)
    return seen


def from_journal(text: str) -> dict:
    """A start from `journalctl --output json` of one invocation: lines alone, so the rest is not compared."""
    entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    first = int(entries[0]["__REALTIME_TIMESTAMP"]) if entries else 0
    lines = []
    for entry in entries:
        message = entry.get("MESSAGE") or ""
        if isinstance(message, list):  # bytes that are no text, such as a progress bar's
            message = bytes(message).decode("utf-8", "replace")
        if entry.get("_SYSTEMD_UNIT") != "init.scope" and entry.get("_PID") != "1":  # systemd's own words
            lines.append([(int(entry["__REALTIME_TIMESTAMP"]) - first) / 1e6, message])
    return {"lines": lines}


def raced(seen: list[str]) -> bool:
    """Did the scheduler raise before the server was ready? Then two of the server's own races decide what is seen."""
    return "scheduler exception" in seen and "ready" not in seen


# How the launcher goes once a scheduler has raised: by the SIGQUIT that it is sent (killed, -9), or because it has read
# the end of the scheduler's pipe first (its own RuntimeError, 1). The recordings have both: f22-tp2 and e17-dp2.
LAUNCHER_GOES = ("child failed", "tree killed", "scheduler died")
DETOKENIZER = "sglang::detok"


def comparable(seen: list[str]) -> list[str]:
    """The markers whose place is a property of the server."""
    # The uvicorn access log goes through another stream.
    loose = {"warm-up", "process started"}
    if raced(seen):
        loose.update(LAUNCHER_GOES)
        if "scheduler died" in seen:
            seen = seen[: seen.index("scheduler died")]
    return [m for m in seen if m not in loose]


def differences(real: dict, replayed: dict) -> list[str]:
    """What a watcher would see differently; empty when nothing."""
    out = []
    one, other = markers(real["lines"]), markers(replayed["lines"])
    if comparable(one) != comparable(other):
        out.append("markers: real %s, replayed %s" % (one, other))
    race = raced(one) and raced(other)
    for what in ("exit", "titles", "statuses"):
        if what not in real or what not in replayed:
            continue  # a journal does not tell
        first, second = real[what], replayed[what]
        if what == "statuses":
            for path in sorted(set(first) | set(second)):
                if first.get(path) != second.get(path):
                    out.append("%s: real %s, replayed %s" % (path, first.get(path), second.get(path)))
            continue
        if what == "titles":
            # The detokenizer takes its title while the scheduler loads: a scheduler that raises may be faster.
            same = not {title for title in set(first) ^ set(second) if not (race and title.startswith(DETOKENIZER))}
        else:
            same = first == second or (race and {first, second} == {-9, 1})
        if not same:
            out.append("%s: real %s, replayed %s" % (what, first, second))
    return out
