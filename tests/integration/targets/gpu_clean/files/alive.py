# SPDX-License-Identifier: GPL-3.0-or-later
"""Succeed where a process of that name lives."""

from __future__ import annotations

import glob
import sys

for path in glob.glob("/proc/[0-9]*/comm"):
    try:
        with open(path) as handle:
            if handle.read().strip() == sys.argv[1]:
                sys.exit(0)
    except OSError:
        continue
sys.exit(sys.argv[1] + " does not live")
