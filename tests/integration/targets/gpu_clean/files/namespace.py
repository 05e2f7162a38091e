# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a PID namespace and print the PID of its first process: what is tested in there can signal nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time

command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sleep", sys.argv[1]]
outer = subprocess.Popen(
    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
)
for _try in range(200):
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as handle:
                text = handle.read()
            with open(f"/proc/{name}/comm") as handle:
                comm = handle.read().strip()
        except OSError:
            continue
        if text[text.rfind(")") + 1 :].split()[1] == str(outer.pid) and comm == "sleep":
            print(name)
            sys.exit(0)
    time.sleep(0.05)
sys.exit("no PID namespace: " + " ".join(command))
