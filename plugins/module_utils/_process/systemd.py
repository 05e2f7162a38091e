# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What systemd says of a unit, and the processes in a cgroup. Reads only; ``systemctl`` does the verbs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from .._errors import LlmHostError

CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")

# The properties that this collection reads, by systemd's own names.
PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "ExecMainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestampMonotonic",
    "InvocationID",
    "NRestarts",
    "ControlGroup",
    "UnitFileState",
    "NeedDaemonReload",
    "FragmentPath",
)


def systemctl(*arguments: str, timeout_s: float = 60.0) -> str:
    """Run ``systemctl`` and return its standard output.

    Raises ``LlmHostError`` with reason ``systemd_unavailable``, ``systemd_timeout`` or ``systemd_failed``
    (details: ``command``, ``rc``, ``stderr``).
    """
    command = ["systemctl", "--no-pager", "--no-ask-password", *arguments]
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise LlmHostError(
            "systemd_unavailable",
            "systemctl is not on this host: the server runs as a systemd unit, so the target must have systemd",
        ) from None
    except subprocess.TimeoutExpired:
        raise LlmHostError(
            "systemd_timeout",
            "'%s' gave no answer within %g s" % (" ".join(command), timeout_s),
            command=command,
        ) from None
    if done.returncode:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        reason = "systemd_unavailable" if "System has not been booted with systemd" in stderr else "systemd_failed"
        raise LlmHostError(
            reason,
            "'%s' failed (%d): %s" % (" ".join(command), done.returncode, stderr or "no message"),
            command=command,
            rc=done.returncode,
            stderr=stderr,
        )
    return done.stdout.decode("utf-8", "replace")


def show(unit: str, properties: Sequence[str] = PROPERTIES) -> dict[str, str]:
    """Properties of one unit by systemd's names; ``LoadState`` is ``not-found`` where there is none."""
    text = systemctl("show", unit, "--property=" + ",".join(properties))
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def cgroup_dirs(control_group: str) -> list[str]:
    """The folders of a control group (``/system.slice/x.service``) in the hierarchies that systemd uses."""
    if not control_group.strip("/"):
        return []  # the root group is never "this unit's processes"
    found = (root + "/" + control_group.strip("/") for root in CGROUP_ROOTS)
    return [path for path in found if os.path.exists(path + "/cgroup.procs")]


def cgroup_pids(control_group: str) -> list[int]:
    """The processes of a control group and all groups below it, sorted; empty where the group is gone."""
    pids: set[int] = set()
    for top in cgroup_dirs(control_group):
        for folder, _dirs, _files in os.walk(top):
            try:
                with open(folder + "/cgroup.procs") as handle:
                    pids.update(int(word) for word in handle.read().split())
            except OSError:  # the group went away while we looked: it holds nobody
                continue
    pids.discard(0)  # a process of another PID namespace reads as 0
    return sorted(pids)
