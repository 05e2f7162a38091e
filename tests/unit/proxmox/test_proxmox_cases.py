# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about a container's configuration: each with its symptom, what is said about it, and what cures it.

The numbers are those of the collection's list of cases; what concerns drivers, nodes and servers is the doctor's.
"""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import container, pct, stale
from proxmox_world_support import CONF, World

PRIVILEGED = CONF.replace("unprivileged: 1\n", "")
MAJORS = {1: "mem", 195: "nvidia", 508: "nvidia-uvm"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.gpus()
    return world


def test_c04_numbers_of_devices_that_a_kernel_update_changed(world: World) -> None:
    # jammsen/proxmox-setup-scripts#7: kernel 6.14 -> 6.17, nvidia-uvm had another major than the allow line
    world.conf = PRIVILEGED + (
        "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.cgroup2.devices.allow: c 511:* rwm\n"
        "lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file\n"
    )
    told = world.apply(True, gpus=["all"])
    assert {one["line"]: one["id"] for one in told["stale"]}["lxc.cgroup2.devices.allow: c 511:* rwm"] == "old_major"
    done = world.apply(gpus=["all"], tidy=True)
    assert done["lxc"] == []
    assert any(value.startswith("/dev/nvidia-uvm,") for value in done["config"].values())
    # by path: the same file is right whatever number the next kernel gives
    assert not world.apply(gpus=["all"], tidy=True)["changed"]


def test_c08_a_mode_that_shuts_out_the_servers_user(world: World) -> None:
    # dockserver/dockserver#525: "Insufficient Permissions" as a user; Proxmox's default is 0660 root:root
    world.conf = CONF + "dev0: /dev/nvidia0\ndev1: /dev/nvidiactl\ndev2: /dev/nvidia-uvm\n"
    done = world.apply(gpus=["0"])
    assert {done["config"][key] for key in ("dev0", "dev1", "dev2")} == {
        "/dev/nvidia0,mode=0666",
        "/dev/nvidiactl,mode=0666",
        "/dev/nvidia-uvm,mode=0666",
    }


def test_c10_a_plain_file_in_the_place_of_a_device(world: World) -> None:
    # tteck/Proxmox#3758: a mount with create=file had left a plain file on the node
    path = world.folder / "dev/nvidia-uvm"
    path.unlink()
    path.touch()
    assert path.exists()
    with pytest.raises(LlmHostError) as caught:
        world.apply(gpus=["all"])
    assert (caught.value.reason, caught.value.details["device"]) == ("device_invalid", "/dev/nvidia-uvm")
    assert "remove it" in caught.value.message
    said = pct.find(255, "", "//dev/nvidia-uvm is not a device\n")
    assert said is not None
    assert said.reason == "device_invalid"
    path.unlink()
    world.device("/dev/nvidia-uvm")
    assert world.apply(gpus=["all"])["changed"]


def test_c17_a_device_that_nobody_has_made_yet(world: World) -> None:
    # games-on-whales/wolf#361: the nodes are made by user space, so at boot a container may come first
    (world.folder / "dev/nvidia-uvm").unlink()
    with pytest.raises(LlmHostError) as caught:
        world.apply(gpus=["all"])
    assert caught.value.reason == "device_missing"
    assert "nvidia-modprobe -c 0 -u" in caught.value.message
    assert "before guests start" in caught.value.message
    # and for the start itself, which devN makes fail instead of going on without a GPU
    world.device("/dev/nvidia-uvm")
    world.apply(gpus=["all"])
    (world.folder / "dev/nvidia-uvm").unlink()
    with pytest.raises(LlmHostError) as caught:
        world.apply(state="started")
    assert caught.value.reason == "device_missing"
    assert "/dev/nvidia-uvm" in caught.value.message


@pytest.mark.parametrize(
    "words",
    [
        "configuring device passthrough is only allowed for root@pam",
        "mount point type bind is only allowed for root@pam",
    ],
)
def test_c24_an_api_token_is_not_root(world: World, words: str) -> None:
    # Telmate/terraform-provider-proxmox#764: the same change by pct as root on the node is allowed
    said = pct.find(255, "", words + "\n")
    assert said is not None
    assert said.reason == "root_only"
    assert "on the node as root" in said.sentence(129)
    assert world.apply(gpus=["all"], mounts=[{"source": "/srv/models", "target": "/m", "read_only": True}])["changed"]
    assert {command[0] for command in world.commands} == {"pct"}


def test_c29_a_folder_that_an_unprivileged_container_cannot_write(world: World, monkeypatch: Any) -> None:
    # immich-app/immich#14438: the node's uid 1000 is nobody in the container, whatever chmod says
    mount = {"source": "/srv/state", "target": "/var/lib/llmhost"}
    (note,) = world.apply(True, mounts=[mount])["notes"]
    assert "nobody (65534)" in note
    assert "100000" in note
    assert "idmap" in note
    assert world.apply(True, mounts=[{**mount, "read_only": True}])["notes"] == []
    mapped = {**mount, "options": {"idmap": "passthrough"}}
    done = world.apply(mounts=[mapped])
    assert done["notes"] == []
    assert done["config"]["mp0"] == "/srv/state,idmap=passthrough,mp=/var/lib/llmhost"
    world.conf = PRIVILEGED
    assert world.apply(True, mounts=[mount])["notes"] == []


def test_c44_keys_of_cgroup_v1(world: World) -> None:
    # gist egg82/90164a31: LXC 7 ignores them
    lines = "lxc.cgroup.devices.allow: c 195:* rwm\nlxc.cgroup.devices.allow = c 508:* rwm\n"
    world.conf = PRIVILEGED + lines
    told = world.apply()
    assert [one["id"] for one in told["stale"]] == ["cgroup_v1", "cgroup_v1"]
    assert not told["changed"]
    assert lines in world.conf, "it is told, and nothing is removed unasked"
    assert world.apply(tidy=True)["actions"] == ["edit"]
    assert "lxc.cgroup." not in world.conf


def test_c45_two_hours_between_the_clocks_in_the_logs(world: World) -> None:
    # the container's template says UTC; Proxmox writes the zone at the next start
    world.start()
    done = world.apply(timezone="host")
    assert done["restart_needed"]
    world.apply(timezone="host", allow_restart=True)
    assert container.parse(world.conf).get("timezone") == "host"


def test_lines_that_were_appended_land_in_the_last_snapshot(world: World) -> None:
    world.conf = CONF + "\n[before]\nmemory: 512\nlxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,create=file\n"
    done = world.apply(gpus=["0"], lxc={"lxc.prlimit.memlock": "unlimited"})
    assert any("[before]" in note and "has no effect" in note for note in done["notes"])
    config = container.parse(world.conf)
    assert config.current.lxc == (("lxc.prlimit.memlock", "unlimited"),)
    assert config.snapshots[0].lxc == (("lxc.mount.entry", "/dev/nvidia0 dev/nvidia0 none bind,create=file"),)


def test_a_block_that_was_inserted_at_each_run(world: World) -> None:
    # Proxmox moves both markers to the top, so blockinfile finds its block empty and writes it again
    block = "lxc.prlimit.memlock: unlimited\n"
    world.conf = "# BEGIN ANSIBLE MANAGED BLOCK\n# END ANSIBLE MANAGED BLOCK\n#the box\n" + CONF + block * 3
    told = world.apply()
    assert sorted(one["id"] for one in told["stale"]) == ["marker", "marker", "repeated", "repeated"]
    world.apply(tidy=True, lxc={"lxc.prlimit.memlock": "unlimited"})
    assert world.conf == "#the box\n" + CONF + block


# ---------------------------------------------------------------- the table
FILES = {
    "cgroup_v1": "{}\n",
    "repeated": "{0}\n{0}\n",
    "overruled": "{}\nmemory: 1024\n",
    "marker": "{}\n",
    "replaced": "{}\n",
    "old_major": "{}\n",
}


@pytest.mark.parametrize("rule", stale.RULES, ids=lambda rule: rule.id)
def test_every_rule_has_an_example_that_hits_it_and_only_it(rule: stale.Rule) -> None:
    config = container.parse(FILES[rule.id].format(rule.example))
    world = stale.World(config, MAJORS, True)
    hits = [other.id for line in config.current.lines for other in stale.RULES if other.applies(line, world)]
    assert hits == [rule.id]


@pytest.mark.parametrize(
    "line",
    [
        "lxc.cgroup2.devices.allow: c 10:200 rwm",
        "lxc.cgroup2.devices.allow: c 226:* rwm",
        "lxc.mount.entry: /dev/dri dev/dri none bind,optional,create=dir",
        "lxc.prlimit.memlock: unlimited",
        "lxc.cgroup2.cpuset.cpus: 0-3",
        "dev0: /dev/nvidia0",
        "# a note about nvidia",
    ],
)
def test_lines_that_are_nobodys_business(line: str) -> None:
    assert stale.find(container.parse(line + "\n"), MAJORS, True) == []


def test_gpu_lines_are_left_alone_where_gpus_are_not_ours_to_manage() -> None:
    text = "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind 0 0\n"
    assert stale.find(container.parse(text), MAJORS, False) == []
    assert len(stale.find(container.parse(text), MAJORS, True)) == 2


# ---------------------------------------------------------------- at the same time
def _writer(folder: str, number: int) -> None:
    world = World(Path(folder), conf=None)
    for turn in range(5):
        world.apply(lxc={"lxc.environment": [f"W{number}={turn}"]}, lock_timeout_s=60)


def test_writers_at_the_same_time_lose_no_line(world: World) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_writer, args=(str(world.folder), number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    found = container.parse(world.conf).current.lxc
    assert sorted(found) == sorted(("lxc.environment", f"W{n}={t}") for n in range(4) for t in range(5))
    assert stat.S_IMODE((world.folder / "etc/pve/lxc/129.conf").stat().st_mode) == 0o640
