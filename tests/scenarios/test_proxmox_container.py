# SPDX-License-Identifier: GPL-3.0-or-later
"""From a node without the container to a server that answers, and what happens to that container afterwards.

The container is entered by llmhost.sglang.pct: it has no address that anybody else must know. The server is a recorded
start; ``script/test full`` installs and runs the real one.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from conftest import FULL, Controller, Lab, Play

FIRST, SECOND = 152, 153
BARE = "proxmox_bare_real.yml" if FULL else "proxmox_bare.yml"
CONTAINER = "proxmox_container.yml"


class Site:
    """A node, and an inventory with containers that may not be there."""

    def __init__(self, lab: Lab, controller: Controller, work: pathlib.Path) -> None:
        self.lab = lab
        self.controller = controller
        self.work = work
        self.node_data = "/srv/llmhost/%s-proxmox" % lab.data.name
        images = lab.node("ls", "/var/lib/pct-standin/templates").split()
        image = next(name for name in images if name.startswith("bookworm") and "priv" not in name)
        self.create = {"template": "local:vztmpl/" + image, "hostname": "llm"}

    def variables(self, vmid: int, **more: Any) -> dict[str, Any]:
        network = "name=eth0,bridge=vmbr0,ip=198.51.100.%d/24,gw=198.51.100.1" % vmid
        return {
            "llmhost_gpu_node": "pve1",
            "llmhost_vmid": vmid,
            "gpu_container_memory": 4096,
            "gpu_container_mounts": [
                {"source": self.node_data, "target": "/opt/llmhost", "create": True},
                {"source": "/srv/wheelhouse", "target": "/srv/wheelhouse", "read_only": True},
            ],
            "gpu_container_lxc": {"lxc.prlimit.memlock": "4194304"},  # to raise it, the machine may lack the right
            "gpu_container_create": {**self.create, "net0": network},
            "sglang_runtime_wheelhouse": "/srv/wheelhouse",
            "sglang_runtime_lock_file": "/srv/wheelhouse/lock.txt",
            "sglang_runtime_gpus": "none",  # the simulated driver has no libraries in here, and this SGLang is for CPUs
            "sglang_server_runtime": "/opt/llmhost/runtime" if FULL else "/opt/llmhost/replay",
            "sglang_server_instances": {
                "box": {
                    "model": "/opt/llmhost/models/tiny",
                    "port": 30090,
                    "gpus": [0],
                    "arguments": {"device": "cpu", "max_total_tokens": 4096},
                    "probe": {"allow_replacement": True},
                    "environment": {"SGLANG_USE_CPU_ENGINE": "1"}
                    if FULL
                    else {"LLMHOST_REPLAY": "ok-clean-recipe", "LLMHOST_REPLAY_SPEED": "20"},
                }
            },
            **more,
        }

    def play(self, playbook: str, *options: str, vmid: int = FIRST, **more: Any) -> Play:
        addresses = yaml.safe_load(self.lab("inventory", "--pct", str(vmid)))
        addresses["all"]["children"] = {"sglang": {"hosts": {"ct%d" % vmid: self.variables(vmid, **more)}}}
        path = self.work / ("site-%d.yml" % vmid)
        path.write_text(json.dumps(addresses))
        return self.controller.play(playbook, *options, inventory=[str(path)])

    def ct(self, *command: str, vmid: int = FIRST) -> str:
        return self.lab.node("pct", "exec", str(vmid), "--", *command)

    def there(self, vmid: int = FIRST) -> bool:
        return str(vmid) in self.lab.node("pct", "list").split()


@pytest.fixture(scope="module")
def site(lab: Lab, controller: Controller, work: pathlib.Path) -> Iterator[Site]:
    site = Site(lab, controller, work)
    outside = lab.data.parent / pathlib.Path(site.node_data).name
    lab("replay-runtime", str(outside / "replay"))
    lab("model", str(outside / "models/tiny"))
    yield site
    for vmid in (FIRST, SECOND):
        lab.node("pct", "destroy", str(vmid), "--force", "1", check=False)
    lab.node("rm", "-rf", site.node_data)


def test_a_dry_run_before_there_is_a_container(site: Site) -> None:
    play = site.play(CONTAINER, "--check", "--diff")
    assert play.status == "successful", play.text()
    told = play.result("lxc_config")
    assert told["created"]
    assert told["actions"] == ["create", "start"]
    assert "dev0: /dev/nvidia0,mode=0666" in play.text(), "the diff shows the entries"
    assert not site.there()


def test_from_a_bare_node_to_an_answer_in_one_play(site: Site, capsys) -> None:
    play = site.play(BARE)
    assert play.status == "successful", play.text()
    assert play.result("lxc_config")["created"]
    assert play.result("completion_probe")["text"].strip()
    # the same devices as on the node, and everybody may use them
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        shown = site.ct("stat", "-c", "%t:%T %a", "/dev/" + name).strip()
        assert shown == site.lab.node("stat", "-c", "%t:%T", "/dev/" + name).strip() + " 666"
    opened = site.ct("sh", "-c", "su -s /bin/sh nobody -c ': < /dev/nvidia0' 2>&1 || true")
    assert "No such device or address" in opened, "allowed; there is no driver behind it in the lab"
    assert site.ct("sh", "-c", "ulimit -H -l").strip() == "4096"
    with capsys.disabled():
        print("\nfrom a bare node to an answer: %.1f s for %d tasks" % (play.seconds, len(play.tasks)))


def test_again_with_nothing_to_do(site: Site) -> None:
    before = site.lab.node("cat", "/etc/pve/lxc/%d.conf" % FIRST)
    for options in ([], ["--check"]):
        play = site.play(BARE, *options)
        assert play.status == "successful", play.text()
        assert play.changed() == []
    assert site.lab.node("cat", "/etc/pve/lxc/%d.conf" % FIRST) == before


def test_a_second_container_on_the_same_gpu(site: Site) -> None:
    play = site.play(CONTAINER, vmid=SECOND, gpu_container_gpus=["0"])
    assert play.status == "successful", play.text()
    assert [gpu["minor"] for gpu in play.result("lxc_config")["gpus"]] == [0]
    assert "/dev/nvidia0" in site.ct("sh", "-c", "ls /dev/nvidia*", vmid=SECOND)
    assert "/dev/nvidia1" not in site.ct("sh", "-c", "ls /dev/nvidia*", vmid=SECOND)
    assert "active" in site.ct("systemctl", "is-active", "sglang-box.service"), "the first one goes on"


def test_a_running_container_is_restarted_only_when_that_is_allowed(site: Site) -> None:
    pid = site.lab.node("lxc-info", "-n", str(SECOND), "-pH").strip()
    play = site.play(CONTAINER, vmid=SECOND, gpu_container_gpus=["1"])
    assert play.status == "successful", play.text()
    told = play.result("lxc_config")
    assert told["restart_needed"]
    assert {one["key"] for one in told["pending"]} >= {"dev0"}
    assert "runs with its old configuration" in play.text()
    assert site.lab.node("lxc-info", "-n", str(SECOND), "-pH").strip() == pid
    assert "/dev/nvidia0" in site.ct("sh", "-c", "ls /dev/nvidia*", vmid=SECOND)
    play = site.play(CONTAINER, vmid=SECOND, gpu_container_gpus=["1"], gpu_container_allow_restart=True)
    assert play.status == "successful", play.text()
    assert play.result("lxc_config")["restarted"]
    assert "/dev/nvidia0" not in site.ct("sh", "-c", "ls /dev/nvidia*", vmid=SECOND)
    assert "/dev/nvidia1" in site.ct("sh", "-c", "ls /dev/nvidia*", vmid=SECOND)


def test_a_container_that_was_destroyed_is_made_again_with_its_models(site: Site) -> None:
    site.lab.node("pct", "destroy", str(FIRST), "--force", "1")
    play = site.play(BARE)
    assert play.status == "successful", play.text()
    assert play.result("lxc_config")["created"]
    assert play.result("completion_probe")["text"].strip()


def test_faults_have_their_own_words(site: Site) -> None:
    """One play each; the rest of them is told by the unit tests, on the same code."""
    conf = "/etc/pve/lxc/%d.conf" % SECOND
    site.lab.node("pct", "set", str(SECOND), "--lock", "migrate")
    try:
        play = site.play(CONTAINER, vmid=SECOND)
        assert play.status == "failed"
        assert play.result("lxc_config")["reason"] == "container_locked"
        assert "(migrate)" in play.result("lxc_config")["msg"]
    finally:
        site.lab.node("pct", "unlock", str(SECOND))
    site.lab.node("sh", "-c", "mkdir -p /etc/pve/nodes/pve2/lxc && cp %s /etc/pve/nodes/pve2/lxc/995.conf" % conf)
    try:
        play = site.play(CONTAINER, vmid=995)
        assert play.status == "failed"
        assert play.result("lxc_config")["reason"] == "container_elsewhere"
        assert play.result("lxc_config")["node"] == "pve2"
    finally:
        site.lab.node("rm", "-r", "/etc/pve/nodes/pve2")
