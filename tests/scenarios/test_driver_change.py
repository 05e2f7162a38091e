# SPDX-License-Identifier: GPL-3.0-or-later
"""A node and its containers through changes of the driver, to the end: ``upgrade_driver`` on a lab of its own.

The containers, apt, dpkg, the servers' units and ssh are real. The driver is the lab's, in packages of the real names
(nvidia_packages); servers are recorded starts; the node's reboot is the lab's stand-in (tests/lab/README.md): its
connections are cut, everything in its memory is gone, another boot id comes, and what the boot does is done anew.

Three guests: one starts with the node, one does not (both run a server), and one is nobody's here.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import nvidia_packages as packages
import pytest
import yaml
from conftest import ROOT, Controller, Lab, Play
from nvidia_packages import NEW, NEWER, NEXT_KERNEL, OLD

FIRST, SECOND, BYSTANDER = 131, 132, 133
KERNEL = platform.release()
CARDS = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
STATE = """\
gpu 0 name="NVIDIA L40S (simulated)" total=49140 reserved=610 base=4
gpu 1 name="NVIDIA L40S (simulated)" total=49140 reserved=610 base=4
release_ms 500
hold gpu=0 mem=20000 comm=^sglang::schedul vmid=131
hold gpu=1 mem=20000 comm=^sglang::schedul vmid=132
"""
# A driver that somebody installed by hand: nothing makes its device nodes when the node boots.
INSTALLED = f"""
mkdir -p /srv/nvidia /lib/modules/{KERNEL} /lib/modules/{NEXT_KERNEL}
touch /lib/modules/{KERNEL}/modules.dep /lib/modules/{NEXT_KERNEL}/modules.dep
chmod 755 /etc/llmhost-sim/boot
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] REPOSITORY ./' > /etc/apt/sources.list.d/debian.list
/etc/llmhost-sim/boot
apt-get -q update
apt-get -qy install dkms linux-headers-{KERNEL} linux-headers-{NEXT_KERNEL} \
    nvidia-kernel-open-dkms={OLD}-1 nvidia-driver-cuda={OLD}-1 libnvidia-compute={OLD}-1
modprobe nvidia
nvidia-smi -L
nvidia-modprobe -c 0 -u
"""
IN_STEP = f"""
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/opt/llmhost/nvidia-repository/ ./' > /etc/apt/sources.list.d/debian.list
apt-get -q update
apt-get -qy install libnvidia-compute={OLD}-1
"""


class Node:
    """The node, its guests, and plays on them."""

    def __init__(self, lab: Lab, controller: Controller, inventory: dict[str, Any], work: pathlib.Path) -> None:
        self.lab, self.controller, self.inventory, self.work = lab, controller, inventory, work

    def play(self, playbook: str, *options: str, **variables: Any) -> Play:
        path = self.work / "driver.yml"
        path.write_text(json.dumps(self.inventory))
        return self.controller.play(playbook, *options, inventory=[str(path)], variables=variables)

    def change(self, version: str, **variables: Any) -> Play:
        """The change, by somebody who allows all that it takes."""
        allowed = {
            "llmhost_driver_confirmed": True,
            "nvidia_host_reboot": "if_needed",
            "nvidia_host_reboot_with_guests": True,
        }
        return self.play(
            "llmhost.sglang.upgrade_driver", **{**allowed, "nvidia_host_driver_version": version, **variables}
        )

    def sh(self, script: str, check: bool = True) -> str:
        return self.lab.node("sh", "-ec", script, check=check)

    def ct(self, vmid: int, script: str, check: bool = True) -> str:
        return self.lab.node("pct", "exec", str(vmid), "--", "sh", "-ec", script, check=check)

    def boot(self) -> str:
        return self.sh("cat /proc/sys/kernel/random/boot_id").strip()

    def loaded(self) -> str:
        return self.sh(r"sed -n 's/.*x86_64  \([0-9.]*\)  .*/\1/p' /proc/driver/nvidia/version || true").strip()

    def installed(self) -> str:
        return self.sh("dpkg-query -W -f '${Version}' nvidia-kernel-open-dkms").strip()

    def running(self) -> set[int]:
        return {int(vmid) for vmid in re.findall(r"^(\d+) +running", self.lab.node("pct", "list"), re.M)}

    def server(self, vmid: int) -> tuple[str, str]:
        """Whether it runs, and whether it would with the next start of the container."""
        shown = self.ct(vmid, "systemctl show -P ActiveState -P UnitFileState sglang-box.service").split()
        return shown[0], shown[1]

    def libraries(self, vmid: int) -> str:
        return self.ct(vmid, "readlink -f /usr/lib/x86_64-linux-gnu/libcuda.so.1").rsplit(".so.", 1)[-1].strip()

    def until_back(self) -> None:
        end = time.monotonic() + 30
        while not (self.lab.folder / "ready").exists():
            assert time.monotonic() < end, "the node does not come up"
            time.sleep(0.1)


def host(vmid: int, card: int) -> dict[str, Any]:
    return {
        "llmhost_gpu_node": "pve1",
        "llmhost_vmid": vmid,
        "nvidia_userspace_repository": "file:/opt/llmhost/nvidia-repository/",
        "sglang_server_runtime": "/opt/llmhost/replay",
        "sglang_server_instances": {
            "box": {
                "model": "/opt/llmhost/models/tiny",
                "port": 30090,
                "gpus": [card],
                "arguments": {"device": "cpu", "max_total_tokens": 4096},
                "probe": {"allow_replacement": True},
                "environment": {"LLMHOST_REPLAY": "ok-clean-recipe", "LLMHOST_REPLAY_SPEED": "20"},
            }
        },
    }


def simulated_driver(cache: pathlib.Path) -> pathlib.Path:
    sys.path.insert(0, str(ROOT / "tests/lab/nvml"))
    import nvml_build

    return nvml_build.built(cache / "nvml")


@pytest.fixture(scope="module")
def node(work: pathlib.Path) -> Iterator[Node]:
    """A lab of its own: what is done to this node and its driver is no business of other tests."""
    lab = Lab(pathlib.Path(tempfile.gettempdir()) / ("llmhost-lab-%d-driver" % os.getpid()))
    cache, inside = lab.data.parents[1], "/srv/llmhost/" + lab.data.name
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]  # the node is this machine
    try:
        lab("build", "bookworm")
        lab("up")
        lab("replay-runtime", str(lab.data / "replay"))
        lab("model", str(lab.data / "models/tiny"))
        packages.make(lab.data / "nvidia-repository", KERNEL, cache)
        packages.make(lab.data / "node-repository", KERNEL, cache, suite, simulated_driver(cache))
        lab.node("sh", "-c", "cat > /etc/llmhost-sim/gpu.state", stdin=STATE)
        lab.node("sh", "-c", "cat > /etc/llmhost-sim/boot", stdin=packages.BOOT)
        repository = "file:%s/node-repository/" % inside
        lab.node("sh", "-ec", INSTALLED.replace("REPOSITORY", repository))
        devices = [w for n, name in enumerate(CARDS) for w in ("--dev%d" % n, "/dev/%s,mode=0666" % name)]
        for vmid in (FIRST, SECOND):
            more = [*devices, "--mp2", "/proc/driver,mp=/proc/driver", "--onboot", "1" if vmid == FIRST else "0"]
            lab("ct", str(vmid), "bookworm", "--data", str(lab.data), *more)
            lab.node("pct", "exec", str(vmid), "--", "sh", "-ec", IN_STEP)
        lab("ct", str(BYSTANDER), "bookworm", "--data", "none")
        inventory = yaml.safe_load(lab("inventory", "--pct", str(FIRST), str(SECOND)))
        inventory["all"]["hosts"]["pve1"]["nvidia_host_repository"] = repository
        inventory["all"]["children"] = {
            "sglang": {"hosts": {"ct%d" % FIRST: host(FIRST, 0), "ct%d" % SECOND: host(SECOND, 1)}}
        }
        node = Node(lab, Controller(lab, work), inventory, work)
        play = node.play("servers.yml")
        assert play.status == "successful", play.text()
        yield node
    finally:
        lab("down", check=False)
        shutil.rmtree(lab.data, ignore_errors=True)


def answered(play: Play, vmid: int) -> bool:
    return bool(play.result("completion_probe", "ct%d" % vmid)["text"].strip())


def test_the_preview_names_all_who_are_interrupted_and_changes_nothing(node: Node) -> None:
    play = node.play("llmhost.sglang.upgrade_driver", nvidia_host_driver_version=NEW)
    assert play.status == "successful", play.text()
    assert play.changed() == []
    assert f"{OLD} is loaded, {NEW} is wanted" in play.text()
    shown = play.artifacts["llmhost_driver_preview"]["ct%d" % FIRST]
    assert {client["container"]["vmid"] for client in shown["clients"]} == {FIRST, SECOND}, "whose memory it is"
    reboot = play.artifacts["llmhost_driver_reboot"]["pve1"]
    assert reboot["needed"] and [line.split()[0] for line in reboot["guests"]] == ["131", "132", "133"]
    assert [line.split()[0] for line in reboot["stay_down"]] == ["132", "133"]


def test_a_reboot_that_is_not_allowed_is_refused_before_anybody_is_interrupted(node: Node) -> None:
    play = node.change(NEW, nvidia_host_reboot="never", nvidia_host_reboot_with_guests=False)
    assert play.status == "failed" and play.changed() == []
    told = play.result("assert", "pve1")["msg"]
    assert "nvidia_host_reboot is never, and 3 guests run on it" in told
    assert "no server was stopped" in told and "run this playbook again" in told
    assert node.installed() == OLD + "-1"
    assert [node.server(vmid)[0] for vmid in (FIRST, SECOND)] == ["active", "active"]


def test_through_a_change_with_a_reboot_to_servers_that_answer(node: Node) -> None:
    before = node.boot()
    play = node.change(NEW)
    assert play.status == "successful", play.text()
    assert node.boot() != before and (node.installed(), node.loaded()) == (NEW + "-1", NEW)
    for vmid in (FIRST, SECOND):
        assert node.libraries(vmid) == NEW and answered(play, vmid)
        assert node.server(vmid) == ("active", "enabled")
    assert node.running() == {FIRST, SECOND}, "nobody starts a guest that is not named here"
    assert "(onboot): 132 running ct132, 133 running ct133" in play.text()


def test_again_nothing_changes(node: Node) -> None:
    before, pids = node.boot(), [node.ct(vmid, "systemctl show -P MainPID sglang-box") for vmid in (FIRST, SECOND)]
    play = node.change(NEW)
    assert play.status == "successful", play.text()
    assert play.changed() == []
    assert not play.artifacts["llmhost_driver_reboot"]["pve1"]["needed"]
    assert node.boot() == before
    assert pids == [node.ct(vmid, "systemctl show -P MainPID sglang-box") for vmid in (FIRST, SECOND)]


def test_a_build_that_fails_and_the_way_back_as_it_is_printed(node: Node) -> None:
    node.sh(f"echo '{NEWER} {NEXT_KERNEL}' > /etc/llmhost-sim/dkms-fails")
    play = node.change(NEWER, llmhost_hosts="ct%d" % FIRST)
    assert play.status == "failed" and f"is not built for {NEXT_KERNEL}" in play.text()
    assert f"-e nvidia_host_driver_version={NEW} -e llmhost_driver_confirmed=true" in play.text()
    assert node.server(FIRST) == ("inactive", "disabled")
    before = node.boot()
    back = node.change(NEW, llmhost_hosts="ct%d" % FIRST, nvidia_host_reboot="never")
    assert back.status == "successful", back.text()
    assert node.boot() == before and node.installed() == NEW + "-1", "what is loaded needs no reboot"
    assert node.server(FIRST) == ("active", "enabled") and answered(back, FIRST)
    node.sh("rm /etc/llmhost-sim/dkms-fails")


def test_a_node_that_does_not_come_back_and_then_boots_without_the_module(node: Node) -> None:
    """Somebody at its console brings it up later, with a kernel for which no module is there."""
    loaded = node.loaded()
    unplugged = node.lab.folder / "unplugged"
    unplugged.touch()
    node.sh("touch /etc/llmhost-sim/no-module-at-boot")
    try:
        play = node.change(NEWER, llmhost_hosts="ct%d" % FIRST, nvidia_host_reboot_timeout_s=10)
    finally:
        unplugged.unlink()
    assert play.status == "failed"
    assert "pve1 did not come back from its reboot within nvidia_host_reboot_timeout_s (10 s)" in play.text()
    assert "Where pve1 does not answer: see at its console" in play.text()
    assert f"nvidia_host_driver_version={loaded} -e llmhost_driver_confirmed=true" in play.text()
    assert not any(task["task"].startswith("Start the container") for task in play.tasks)
    node.until_back()
    before = node.boot()
    assert node.loaded() == "" and node.running() == set(), "without device nodes not even the first one starts"
    node.sh("rm /etc/llmhost-sim/no-module-at-boot")
    again = node.change(NEWER, llmhost_hosts="ct%d" % FIRST, nvidia_host_reboot="never")
    assert again.status == "successful", again.text()
    assert (node.boot(), node.loaded()) == (before, NEWER), "a module that is not loaded needs no reboot"
    assert node.libraries(FIRST) == NEWER and answered(again, FIRST)
    assert node.server(FIRST) == ("active", "enabled")
