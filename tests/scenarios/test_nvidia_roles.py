# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's roles on a real Debian with a local repository: everything is real but the driver and its build.

nvidia_host thinks that the container is a node (its private variable says so): kernel modules, PCI bus and /proc of the
driver are files on a tmpfs there.
"""

from __future__ import annotations

import pathlib
import platform
from collections.abc import Iterator
from typing import Any

import nvidia_packages as packages
import pytest
from conftest import FULL, Controller, Lab, Play
from nvidia_packages import NEW, NEWER, NEXT_KERNEL, OLD

VMID = 131
full = pytest.mark.skipif(not FULL, reason="in script/test full: a play each")
KERNEL = platform.release()
REPOSITORY = "file:/opt/llmhost/nvidia-repository/"
SETUP = f"""
mountpoint -q /proc/driver || mount -t tmpfs none /proc/driver
mountpoint -q /sys/bus/pci/devices || mount -t tmpfs none /sys/bus/pci/devices
mkdir -p /sys/bus/pci/devices/0000:01:00.0 /lib/modules/{KERNEL} /lib/modules/{NEXT_KERNEL} /etc/llmhost-sim /srv/nvidia
echo 0x10de > /sys/bus/pci/devices/0000:01:00.0/vendor
echo 0x030000 > /sys/bus/pci/devices/0000:01:00.0/class
ln -sfn /srv/nvidia /sys/bus/pci/devices/0000:01:00.0/driver
touch /lib/modules/{KERNEL}/modules.dep /lib/modules/{NEXT_KERNEL}/modules.dep
rm -f /etc/apt/sources.list
echo 'deb [trusted=yes] {REPOSITORY} ./' > /etc/apt/sources.list.d/debian.list
"""
HOST = {"_nvidia_host_place": "node", "nvidia_host_repository": REPOSITORY}


class Box:
    """The container, and plays on it."""

    def __init__(self, lab: Lab, controller: Controller) -> None:
        self.lab, self.controller = lab, controller

    def sh(self, script: str, check: bool = True) -> str:
        return self.lab.node("pct", "exec", str(VMID), "--", "sh", "-ec", script, check=check)

    def play(self, name: str, *options: str, **variables: Any) -> Play:
        return self.controller.play(name, *options, way="nvidia", variables=variables)

    def load(self, version: str) -> None:
        """What a boot of the node would do."""
        self.sh(f"mkdir -p /proc/driver/nvidia; echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  x' "
                "> /proc/driver/nvidia/version")  # fmt: skip

    def built(self) -> dict[str, str]:
        shown = self.sh("cd /lib/modules; grep -s '' */updates/dkms/nvidia.version || true")
        return {line.split("/")[0]: line.split(":")[1] for line in shown.splitlines()}

    def held(self) -> list[str]:
        return self.sh("apt-mark showhold").split()

    def libraries(self) -> str:
        return self.sh("readlink -f /usr/lib/x86_64-linux-gnu/libcuda.so.1 || true").rsplit(".so.", 1)[-1].strip()


@pytest.fixture(scope="module")
def box(lab: Lab, work: pathlib.Path) -> Iterator[Box]:
    """Container 131, with devices as a node of a real driver would pass them on."""
    data = pathlib.Path(lab.folder) / "data-nvidia"
    packages.make(data / "nvidia-repository", KERNEL, lab.data.parents[1])
    passed = [f"/dev/{name},mode=0666" for name in ("nvidia0", "nvidiactl", "nvidia-uvm")]
    options = [word for number, device in enumerate(passed) for word in (f"--dev{number}", device)]
    lab("ct", str(VMID), "bookworm", "--data", str(data), *options)
    controller = Controller(lab, work)
    path = work / "addresses-nvidia.yml"
    path.write_text(lab("inventory", str(VMID)) + f"  children:\n    nvidia:\n      hosts:\n        ct{VMID}:\n")
    controller.inventories["nvidia"] = path
    box = Box(lab, controller)
    box.sh(SETUP)
    yield box
    lab.node("pct", "stop", str(VMID), check=False)
    lab.node("pct", "destroy", str(VMID), check=False)


@full
def test_a_container_and_half_a_version_are_refused(box: Box) -> None:
    play = box.play("nvidia_host.yml", nvidia_host_driver_version="595", nvidia_host_repository=REPOSITORY)
    assert play.status == "failed" and "write the whole version" in play.text() and play.changed() == []
    play = box.play("nvidia_host.yml", nvidia_host_driver_version=NEW, nvidia_host_repository=REPOSITORY)
    assert play.status == "failed" and "Use the role nvidia_userspace here" in play.text() and play.changed() == []


def test_the_driver_is_installed_exactly_built_for_both_kernels_and_held(box: Box) -> None:
    play = box.play("nvidia_host.yml", nvidia_host_driver_version=OLD, **HOST)
    assert play.status == "successful", play.text()
    assert box.built() == {KERNEL: OLD, NEXT_KERNEL: OLD}
    assert OLD in box.sh("cat /proc/driver/nvidia/version"), "the module was loaded, for none was"
    assert {"nvidia-driver-cuda", "nvidia-kernel-open-dkms", "libnvidia-compute"} <= set(box.held())
    assert box.libraries() == OLD, "dependencies follow the pin"
    unit = box.sh("systemctl show -p Before -p UnitFileState llmhost-nvidia-nodes.service")
    assert "pve-guests.service" in unit and "UnitFileState=enabled" in unit
    assert play.artifacts["llmhost_driver"][f"ct{VMID}"] == {"wanted": OLD, "loaded": OLD, "reboot_due": False}


def test_again_nothing_changes(box: Box) -> None:
    play = box.play("nvidia_host.yml", nvidia_host_driver_version=OLD, **HOST)
    assert play.status == "successful", play.text()
    assert play.changed() == []


def test_an_upgrade_is_installed_and_the_reboot_that_it_needs_is_told(box: Box) -> None:
    play = box.play("nvidia_host.yml", nvidia_host_driver_version=NEW, **HOST)
    assert play.status == "successful", play.text()
    assert box.built() == {KERNEL: NEW, NEXT_KERNEL: NEW}
    assert f"{OLD} is loaded and {NEW} is installed" in play.text()
    assert play.artifacts["llmhost_driver"][f"ct{VMID}"] == {"wanted": NEW, "loaded": OLD, "reboot_due": True}


@full
def test_a_failed_build_stops_before_a_boot_without_a_driver(box: Box) -> None:
    box.load(NEW)
    box.sh(f"echo '{NEWER} {NEXT_KERNEL}' > /etc/llmhost-sim/dkms-fails")
    play = box.play("nvidia_host.yml", nvidia_host_driver_version=NEWER, nvidia_host_pinning="preferences", **HOST)
    assert play.status == "failed"
    assert f"is not built for {NEXT_KERNEL}" in play.text() and f"kernel pin {KERNEL}" in play.text()
    back = box.play("nvidia_host.yml", nvidia_host_driver_version=NEW, **HOST)
    assert back.status == "successful", back.text()
    assert box.built()[KERNEL] == NEW and box.libraries() == NEW, "back to the version before"


def test_the_user_space_follows_the_module_and_nothing_builds_in_a_container(box: Box) -> None:
    box.load(OLD)
    play = box.play("nvidia_userspace.yml")
    assert play.status == "successful", play.text()
    assert box.libraries() == OLD
    installed = box.sh("dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | grep ^.i | cut -d' ' -f2-").split()
    assert not {"nvidia-driver-cuda", "nvidia-kernel-open-dkms"} & set(installed)
    assert box.held() == ["libnvidia-compute"]
    assert "libnvidia" in box.sh("cat /etc/apt/apt.conf.d/52llmhost-nvidia")
    again = box.play("nvidia_userspace.yml")
    assert again.status == "successful" and again.changed() == [], again.text()


def test_after_an_upgrade_of_the_node_the_skew_is_found_and_repaired(box: Box) -> None:
    box.load(NEW)
    seen = box.controller.play("doctor_of.yml", way="nvidia")
    skew = next(f for f in seen.result("doctor_info")["findings"] if f["id"] == "drv_skew")
    assert skew["status"] == "fail" and OLD in skew["evidence"] and NEW in skew["evidence"]
    assert skew["task"] == {"ansible.builtin.include_role": {"name": "llmhost.sglang.nvidia_userspace"}}
    play = box.play("nvidia_userspace.yml")
    assert play.status == "successful", play.text()
    assert box.libraries() == NEW and box.held() == ["libnvidia-compute"]


@full
def test_a_version_that_no_source_has_is_refused_and_what_is_there_stays(box: Box) -> None:
    box.load("620.10.01")
    play = box.play("nvidia_userspace.yml")
    assert play.status == "failed"
    assert f"{NEW}-1" in play.text() and "pin the node" in play.text()
    assert box.libraries() == NEW


INSTANCE = {"idle": {"model": "/opt/llmhost/none", "port": 30009, "gpus": [], "state": "stopped"}}


def change(box: Box, version: str, confirmed: bool) -> Play:
    return box.play(
        "llmhost.sglang.upgrade_driver",
        llmhost_hosts="nvidia",
        llmhost_gpu_node=f"ct{VMID}",
        llmhost_vmid=0,
        llmhost_driver_confirmed=confirmed,
        nvidia_host_driver_version=version,
        nvidia_host_reboot="if_needed",
        sglang_server_instances=INSTANCE,
        **HOST,
    )


@full
def test_a_driver_change_is_shown_before_it_is_done(box: Box) -> None:
    box.load(NEW)
    before = box.libraries()
    play = change(box, NEWER, confirmed=False)
    assert play.status == "successful", play.text()
    assert play.changed() == []
    assert f"{NEW} is loaded, {NEWER} is wanted" in play.text() and "idle would be stopped" in play.text()
    shown = play.artifacts["llmhost_driver_preview"][f"ct{VMID}"]
    assert (shown["loaded"], shown["wanted"], shown["interrupted"]) == (NEW, NEWER, ["idle"])
    assert play.artifacts["llmhost_driver_reboot"][f"ct{VMID}"] == {"needed": True, "guests": [], "stay_down": []}
    assert box.libraries() == before


@full
def test_a_driver_change_that_fails_says_how_to_go_back(box: Box) -> None:
    box.sh(f"echo '{NEWER} {NEXT_KERNEL}' > /etc/llmhost-sim/dkms-fails")
    play = change(box, NEWER, confirmed=True)
    assert play.status == "failed"
    assert f"is not built for {NEXT_KERNEL}" in play.text()
    assert f"-e nvidia_host_driver_version={NEW} -e llmhost_driver_confirmed=true" in play.text()
    assert not any(task["task"].endswith("Start the servers") for task in play.tasks)
