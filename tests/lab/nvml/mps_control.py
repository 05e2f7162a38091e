# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-cuda-mps-control of the simulated driver: the commands that gpu_clean uses, over real processes.

The daemon is there while a process runs whose command line begins with "nvidia-cuda-mps-control -d" (or -f). Its
servers are those called "nvidia-cuda-mps-server"; the clients, of type M in the state, are all the first server's.
terminate_client takes a client's memory and leaves its process alive, as the real one does; how long that takes is
"mps_ms" in the state, and "mps_ms -1" never does it.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
import time

STATE = os.environ.get("LLMHOST_SIM_STATE") or "/etc/llmhost-sim/gpu.state"


def named(start):
    """PIDs of the live processes whose command line begins with this expression."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as handle:
                words = handle.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if re.match(start, words):
            found.append(int(path.split("/")[2]))
    return sorted(found)


def clients():
    """PIDs that the driver lists as clients of MPS."""
    smi = os.path.join(os.path.dirname(os.path.realpath(__file__)), "nvidia-smi")
    text = subprocess.run([smi, "-q", "-x"], stdout=subprocess.PIPE, text=True, check=False).stdout
    found = re.findall(r"<process_info>(.*?)</process_info>", text, re.S)
    return sorted({int(re.search(r"<pid>(\d+)", one).group(1)) for one in found if re.search(r"<type>\S*M", one)})


def mps_ms():
    with open(STATE, encoding="utf-8") as handle:
        said = re.search(r"^\s*mps_ms\s+(-?\d+)", handle.read(), re.M)
    return int(said.group(1)) if said else 0


def let_go(client):
    """The driver reads these files: who is named there with its start time holds nothing any more."""
    with open("/proc/%d/stat" % client, encoding="utf-8", errors="replace") as handle:
        start = handle.read().rsplit(")", 1)[1].split()[19]
    folder = STATE + ".mps"
    os.makedirs(folder, mode=0o777, exist_ok=True)
    with open(os.path.join(folder, "%d.%s" % (client, start)), "w"):
        pass


def main():
    if not named("nvidia-cuda-mps-control -[df]"):
        print("Cannot find MPS control daemon process")
        return 1
    servers = named("nvidia-cuda-mps-server")
    for line in sys.stdin:
        verb, *words = line.split() or [""]
        if verb == "get_server_list":
            print("".join("%d\n" % pid for pid in servers), end="")
        elif verb == "get_client_list" and words and int(words[0]) in servers:
            if int(words[0]) == servers[0]:
                print("".join("%d\n" % pid for pid in clients()), end="")
        elif verb == "terminate_client" and len(words) == 2 and int(words[0]) in servers and int(words[1]) in clients():
            wait = mps_ms()
            if wait >= 0:
                time.sleep(wait / 1000)
                let_go(int(words[1]))
        elif verb:
            print("MPS control does not know: " + line.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
