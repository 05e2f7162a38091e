# SPDX-License-Identifier: GPL-3.0-or-later
"""The launcher's children: real processes with the real titles, parents and deaths, that do nothing."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from sglang import recording

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
FORGOTTEN_S = 1800  # an orphan that nobody cleans up ends by itself: the lab is a test


def libc():
    return ctypes.CDLL(None, use_errno=True)


def set_title(title):
    """Overwrite the process's name and command line, as the real server's setproctitle does."""
    libc().prctl(PR_SET_NAME, title.encode()[:15] + b"\0", 0, 0, 0)
    with open("/proc/self/stat") as handle:
        fields = handle.read().rsplit(")", 1)[1].split()
    begin, end = int(fields[45]), int(fields[46])
    text = title.encode()[: end - begin - 1]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, text, len(text))


def child(role, title, title_at, launcher, speed, values, pipe):
    """Import for a while under multiprocessing's name, then take the title and die with the launcher.

    A launcher that dies before that leaves orphans: the real children ask the kernel to die with it only after
    their imports. The scheduler then goes on, loads, and fails when it reports; the detokenizer stays.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(FORGOTTEN_S)
    while title_at is None or time.monotonic() < title_at:
        time.sleep(0.05 if title_at is None else max(0.0, min(0.05, title_at - time.monotonic())))
    if os.getppid() == launcher:
        libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        set_title(title)
        if os.getppid() == launcher:
            pipe.send(role)
            while True:
                signal.pause()
    set_title(title)
    if role.startswith("scheduler"):
        orphan(speed, values)
    while True:
        signal.pause()


def orphan(speed, values):
    """What an orphaned scheduler prints until its pipe breaks."""
    events = recording.tail("term-loading-orphan")
    start = next(event.seconds for event in events if event.kind == "title" and event.first.startswith("scheduler"))
    begin = time.monotonic()
    for event in events:
        if event.kind not in ("stdout", "stderr") or event.seconds < start:
            continue
        time.sleep(max(0.0, begin + (event.seconds - start) / speed - time.monotonic()))
        os.write(2, (recording.fill(event.first, values) + "\n").encode())
    os._exit(1)
