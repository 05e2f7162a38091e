# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection llmhost.sglang.pct through a real OpenSSH into a real container, and beside it plain ssh.

The tasks are those that ansible-core asks of each of its connections (raw, commands, files, unicode, other users), and
what went wrong with other ways into a container: exit codes, mixed output, paths with spaces, and faults in words.
"""

from __future__ import annotations

import filecmp
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

import pytest
from conftest import FULL, Controller, Lab, Play

BOX = 151


class Boxes:
    """The container of these tests, and inventories for it by way."""

    def __init__(self, lab: Lab, controller: Controller, work: pathlib.Path) -> None:
        self.lab = lab
        self.controller = controller
        self.work = work

    def inventory(self, *options: str, more: str = "") -> list[str]:
        text = self.lab("inventory", *options, str(BOX))
        group = "  children:\n    boxes:\n      hosts:\n        ct%d: %s\n" % (BOX, more)
        name = re.sub(r"\W", "", "-".join([*options, more]))
        path = self.work / ("boxes-%s.yml" % name)
        path.write_text(text + group)
        return [str(path)]

    def play(self, playbook: str, *options: str, more: str = "") -> Play:
        return self.controller.play(playbook, inventory=self.inventory(*options, more=more))

    def pct(self, *command: str) -> str:
        return self.lab.node("pct", *command)

    def unreachable(self) -> str:
        """What a task on the container says when it cannot be reached."""
        play = self.play("proxmox_ping.yml", "--pct")
        assert play.status == "failed", play.text()
        (task,) = play.tasks
        assert task["status"] == "unreachable", task
        assert "temporary directory" not in play.text()
        return task["res"]["msg"]


@pytest.fixture(scope="module")
def boxes(lab: Lab, controller: Controller, work: pathlib.Path) -> Iterator[Boxes]:
    lab("ct", str(BOX), "bookworm", "--data", "none")
    yield Boxes(lab, controller, work)
    lab.node("pct", "destroy", str(BOX), "--force", "1", check=False)


@pytest.fixture
def folder(work: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """Files to copy, in a folder whose name has to be quoted."""
    here = work / "files of the controller"
    here.mkdir()
    (here / "empty").touch()
    (here / "汉语.txt").write_text("汉语\n")
    (here / "large").write_bytes(os.urandom(1 << 20) * 5)
    script = work / "script.sh"  # ansible.builtin.script finds none whose path has to be quoted
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$1"\n')
    monkeypatch.setenv("LLMHOST_TEST_FOLDER", str(here))
    monkeypatch.setenv("LLMHOST_TEST_SCRIPT", str(script))
    yield here
    shutil.rmtree(here)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        pytest.param((), "", id="ssh"),
        pytest.param(("--pct",), "", id="pct"),
        pytest.param(
            ("--pct",),
            "{ansible_pipelining: false}",
            id="pct-without-pipelining",
            marks=pytest.mark.skipif(not FULL, reason="script/test full"),
        ),
    ],
)
def test_what_every_connection_must_do(
    boxes: Boxes, folder: pathlib.Path, capsys, options: tuple[str, ...], more: str
) -> None:
    """Cases c19 and c23: proxmox_pct_remote lost its channel at gathering facts, and read large files into memory."""
    play = boxes.play("proxmox_connection.yml", *options, more=more)
    assert play.status == "successful", play.text()
    for name in ("empty", "汉语.txt", "large"):
        assert filecmp.cmp(folder / name, folder / ("back-" + name), shallow=False)
    assert (folder / "back-version").read_text().startswith("Linux version")
    with capsys.disabled():
        print("\n%s: %.1f s for %d tasks" % (" ".join([*options, more]) or "ssh", play.seconds, len(play.tasks)))


def test_modules_do_not_need_pct_push(boxes: Boxes) -> None:
    """pct push ends with 0 where it failed; here is a pct that has none."""
    script = '#!/bin/sh\\ncase $1 in push|pull) exit 1;; esac\\nexec /usr/sbin/pct "$@"\\n'
    place = "/usr/local/sbin/pct-without-push"
    boxes.lab.node("sh", "-c", "printf '%s' > %s && chmod 755 %s" % (script, place, place))
    play = boxes.play("proxmox_ping.yml", "--pct", more="{ansible_pct_command: %s, ansible_pipelining: false}" % place)
    assert play.status == "successful", play.text()


def test_a_full_file_system_in_the_container_is_an_error_and_no_short_file(boxes: Boxes, folder: pathlib.Path) -> None:
    exec_ = ("exec", str(BOX), "--", "sh", "-c")
    boxes.pct(*exec_, "mkdir -p /small && mount -t tmpfs -o size=1m tmpfs /small")
    try:
        play = boxes.play("proxmox_full.yml", "--pct")
        assert play.status == "failed"
        assert "No space left on device" in play.text()
        assert "/small" in play.text()
    finally:
        boxes.pct(*exec_, "umount /small")


FAULTS = {
    "missing": ({"proxmox_vmid": 998}, "there is no container 998 on node pve1"),
    "elsewhere": ({"proxmox_vmid": 997}, "container 997 is on node pve2, not on pve1"),
    "machine": ({"proxmox_vmid": 996}, "996 on node pve1 is a virtual machine"),
    "no_pct": ({"ansible_pct_command": "/usr/local/sbin/pct"}, "there is no pct on this host"),
    # case c22: proxmox_pct_remote of community.proxmox 2.0 hid it behind an AttributeError of its own
    "no_node": ({"ansible_port": 1}, "refused"),
}


def test_what_cannot_be_reached_is_told_as_what_it_is(boxes: Boxes) -> None:
    """In one play: each is a host of its own."""
    there = boxes.lab.addresses(BOX, way="pct")["ct%d" % BOX]
    hosts = {name: {**there, **more} for name, (more, _words) in FAULTS.items()}
    path = boxes.work / "faults.yml"
    path.write_text(json.dumps({"all": {"children": {"boxes": {"hosts": hosts}}}}))
    make = "mkdir -p /etc/pve/nodes/pve2/lxc && touch /etc/pve/nodes/pve2/lxc/997.conf /etc/pve/qemu-server/996.conf"
    boxes.lab.node("sh", "-c", make)
    try:
        play = boxes.controller.play("proxmox_ping.yml", inventory=[str(path)])
    finally:
        boxes.lab.node("rm", "-r", "/etc/pve/nodes/pve2", "/etc/pve/qemu-server/996.conf")
    said = {task["host"]: (task["status"], task["res"]["msg"]) for task in play.tasks}
    assert {name: status for name, (status, _words) in said.items()} == dict.fromkeys(FAULTS, "unreachable")
    for name, (_more, words) in FAULTS.items():
        assert words in said[name][1], name
    assert "temporary directory" not in play.text()


def test_a_container_that_is_stopped_and_why(boxes: Boxes) -> None:
    boxes.pct("shutdown", str(BOX), "--timeout", "20", "--forceStop", "1")
    try:
        said = boxes.unreachable()
        assert "container %d is not running: start it: pct start %d" % (BOX, BOX) in said
        boxes.pct("set", str(BOX), "--lock", "backup")
        assert "it is locked by Proxmox (backup)" in boxes.unreachable()
        boxes.pct("unlock", str(BOX))
    finally:
        boxes.lab("ct", str(BOX), "bookworm", "--data", "none")


def test_a_lock_alone_is_no_obstacle(boxes: Boxes) -> None:
    boxes.pct("set", str(BOX), "--lock", "backup")
    try:
        play = boxes.play("proxmox_ping.yml", "--pct")
        assert play.status == "successful", play.text()
    finally:
        boxes.pct("unlock", str(BOX))


def test_the_connection_of_community_proxmox_keeps_working(boxes: Boxes) -> None:
    play = boxes.play("proxmox_ping.yml", "--pct-remote")
    assert play.status == "successful", play.text()
