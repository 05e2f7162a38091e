# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that look as SGLang's do, by the kernel's name for them: stand_in.py [--stubborn] NAME..."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_NAME = 15


def live(name: str, stubborn: bool) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(600)
    while True:
        signal.pause()


names = [word for word in sys.argv[1:] if word != "--stubborn"]
for one in names:
    if os.fork() == 0:
        if os.fork() == 0:
            live(one, "--stubborn" in sys.argv)
        os._exit(0)
    os.wait()
