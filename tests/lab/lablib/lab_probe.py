# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel (or the sandbox around us) does not allow, found by trying each thing for real."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from lab_common import Settings, say

SPACES = "unshare --mount --net --pid --ipc --uts --cgroup --fork --propagation private"
# name: (what the lab needs it for, a shell script that works only where it is allowed; $1 is a scratch folder)
TRIES = {
    "namespaces": ("the node", f"{SPACES} true"),
    "user-namespaces": (
        "unprivileged containers",
        'unshare --user --map-root-user true && [ "$(cat /proc/sys/user/max_user_namespaces)" -gt 0 ]',
    ),
    "overlayfs": (
        "the node's files and the containers' disks",
        'mkdir -p "$1/l" "$1/u" "$1/w" "$1/m" && unshare --mount --propagation private sh -c \'mount -t overlay '
        'overlay -o lowerdir=$1/l,upperdir=$1/u,workdir=$1/w $1/m && touch $1/m/x && [ -e $1/u/x ]\' sh "$1"',
    ),
    "mknod": ("device nodes", 'mknod "$1/null" c 1 3'),
    "bridge": ("the containers' network", "unshare --net ip link add lab0 type bridge"),
    "veth": ("the containers' network", "unshare --net ip link add lab1 type veth peer name lab2"),
    "cgroup2": (
        "telling who belongs to which container",
        'unshare --mount --propagation private --cgroup sh -c \'mkdir -p "$1/c" && mount -t cgroup2 none "$1/c" && '
        'mkdir "$1/c/llmhost-probe-$$" && rmdir "$1/c/llmhost-probe-$$"\' sh "$1"',
    ),
}


def probe(settings: Settings) -> int:
    """Print the names of what is missing, one a line; exit code 1 if any."""
    existing = settings.lab.parent
    while not existing.exists():
        existing = existing.parent
    scratch = Path(tempfile.mkdtemp(prefix="llmhost-probe-", dir=existing))  # on the filesystem that the lab will use
    missing = 0
    try:
        for name, (why, script) in TRIES.items():
            done = subprocess.run(["sh", "-c", script, "sh", str(scratch)], capture_output=True, text=True, check=False)
            if done.returncode:
                missing += 1
                print(name)
                words = (done.stderr.strip().splitlines() or ["no message"])[-1]
                say(f"  {name} is needed for {why}: {words}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if missing else 0
