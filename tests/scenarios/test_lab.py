# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab itself: whatever kills it, ``lab down`` leaves nothing behind."""

from __future__ import annotations

import os
import pathlib
import signal
import tempfile

import pytest
from conftest import Lab

CGROUP = pathlib.Path("/sys/fs/cgroup")


def groups_of(pid: int) -> list[pathlib.Path]:
    """The lab's control groups, by its process 1: those called after a lab, never one that the machine shares."""
    tops = {line.split(":", 2)[2].strip("/").split("/")[0] for line in cgroups(pid)}
    names = {top for top in tops if top.startswith("llmhost-lab-")}
    return sorted(
        folder / name for name in names for folder in (CGROUP, *CGROUP.glob("*/")) if (folder / name).is_dir()
    )


def alive(pid: int) -> bool:
    """A zombie is none of the lab's: it waits for this machine's process 1."""
    try:
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cgroups(pid: int) -> list[str]:
    return pathlib.Path("/proc/%d/cgroup" % pid).read_text().splitlines()


def members(groups: list[pathlib.Path]) -> set[int]:
    return {int(word) for group in groups for file in group.rglob("cgroup.procs") for word in file.read_text().split()}


@pytest.mark.parametrize("killed", ["process 1", "all of it"])
def test_down_leaves_nothing_after_kill_9(lab: Lab, killed: str) -> None:
    other = Lab(pathlib.Path(tempfile.gettempdir()) / ("llmhost-killed-%d" % os.getpid()))
    mounts = pathlib.Path("/proc/self/mounts").read_text()
    other("up")
    try:
        other("ct", "200", "bookworm", "--data", "fresh")
        first = int((other.folder / "pid").read_text())
        groups = groups_of(first)
        pids = members(groups)
        assert first in pids and len(pids) > 5, "a node with a container is more processes than that"
        assert os.getpid() not in pids
        for pid in pids if killed == "all of it" else [first]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it went with its parent
                continue
    finally:
        other("down")
    assert not [group for group in groups if group.exists()]
    assert not [pid for pid in pids if alive(pid)]
    assert not other.folder.exists()
    assert pathlib.Path("/proc/self/mounts").read_text() == mounts
