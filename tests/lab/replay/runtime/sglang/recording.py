# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings (see import_case.py for their format), and the tails in which a server answers what happens to it."""

from __future__ import annotations

import json
import os
import time

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recordings")
DEFAULT = "ok-clean-recipe"

# What happens -> the run in which it happened to the real server. Its lines after that moment are the answer.
ANSWERS = {
    "term-ready": "ok-clean-recipe",
    "term-loading-orphan": "s04b-term-importing-longlinger",
    "int-ready": "s09-int-ready",
    "scheduler-died-loading": "s01-kill9-sched-starting",
    "scheduler-died-ready": "s07-kill9-sched-ready",
    "scheduler-died-draining": "s12b-term-group-ready",
    "detokenizer-died-ready": "s08-kill9-detok-ready",
    "port-taken": "f21-port-in-use",
    "port-taken-by-sglang": "f21b-port-in-use-by-sglang",
}


class Event:
    def __init__(self, seconds, kind, first, second=""):
        self.seconds, self.kind, self.first, self.second = seconds, kind, first, second


def names():
    return sorted(name[:-4] for name in os.listdir(FOLDER) if name.endswith(".tsv"))


def chosen(name, argv):
    """``OPTION?A:B`` is A where the option stands in the arguments (with ``=VALUE``: with this value), else B."""
    condition, question, names_ = name.partition("?")
    if not question:
        return name
    option, equals, value = condition.partition("=")
    with_it, _colon, without = names_.partition(":")
    there = option in argv and (not equals or argv[argv.index(option) + 1 :][:1] == [value])
    return with_it if there else without


def load(name):
    path = name if os.sep in name else os.path.join(FOLDER, name + ".tsv")
    events = []
    with open(path, encoding="utf-8") as handle:
        for row in handle:
            if row.startswith("#"):
                continue
            seconds, kind, rest = row.rstrip("\n").split("\t", 2)
            if kind in ("stdout", "stderr"):
                events.append(Event(float(seconds), kind, json.loads(rest)))
            else:
                first, dummy, second = rest.partition("\t")
                events.append(Event(float(seconds), kind, first, second))
    return events


def tail(what):
    """Events after the moment, with times that count from it."""
    events = load(ANSWERS[what])
    if what.startswith("port-taken"):
        start = next(n for n, event in enumerate(events) if "error while attempting to bind" in event.first)
    else:
        start = next(n for n, event in enumerate(events) if event.kind == "signal") + 1
    begin = events[start - 1].seconds if start else 0.0
    return [Event(event.seconds - begin, event.kind, event.first, event.second) for event in events[start:]]


def fill(line, values):
    """Put this start's own values into a recorded line."""
    line = line.replace("<<time>>", time.strftime("%Y-%m-%d %H:%M:%S"))
    for key, value in values.items():
        line = line.replace("<<" + key + ">>", str(value))
    while "<<pid " in line:  # a process that this start does not have
        begin = line.index("<<pid ")
        line = line[:begin] + str(os.getpid()) + line[line.index(">>", begin) + 2 :]
    return line
