# SPDX-License-Identifier: GPL-3.0-or-later
"""The module lxc_config on a node in a folder, with the lab's pct: what it does, leaves alone and refuses."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import container, devices, reconcile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxmox_world_support import CONF, UUIDS, World

ALL = {
    "gpus": ["all"],
    "memory": 65536,
    "cores": 16,
    "cpuset_cpus": "0-15",
    "features": {"nesting": 1},
    "timezone": "host",
    "onboot": True,
    "startup": "order=2",
    "lxc": {"lxc.prlimit.memlock": "unlimited"},
    "mounts": [{"source": "/srv/models", "target": "/opt/llmhost/models", "read_only": True}],
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.gpus()
    return world


def reason(world: World, check: bool = False, **params: Any) -> tuple[str, str]:
    with pytest.raises(LlmHostError) as caught:
        world.apply(check, **params)
    return caught.value.reason, caught.value.message


# ---------------------------------------------------------------- what is made
def test_a_stopped_container_gets_everything_and_a_second_run_changes_nothing(world: World) -> None:
    first = world.apply(**ALL)
    assert first["changed"]
    assert first["actions"][1:] == ["edit"]
    values = container.parse(world.conf).current.values
    assert values["dev0"] == "/dev/nvidia0,mode=0666"
    assert [values[f"dev{n}"].split(",")[0] for n in range(5)] == [
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    ]
    assert values["mp0"] == "/srv/models,mp=/opt/llmhost/models,ro=1"
    assert (values["onboot"], values["timezone"], values["startup"]) == ("1", "host", "order=2")
    assert values["net0"] == "name=eth0,bridge=vmbr0,ip=dhcp"
    assert first["lxc"] == [["lxc.prlimit.memlock", "unlimited"], ["lxc.cgroup2.cpuset.cpus", "0-15"]]
    assert not first["restart_needed"]
    text, count = world.conf, len(world.commands)
    again = world.apply(**ALL)
    assert (again["changed"], again["actions"], world.conf) == (False, [], text)
    assert len(world.commands) == count, "nothing is run where nothing is to be done"


def test_check_mode_tells_the_same_and_touches_nothing(world: World) -> None:
    before = sorted((str(path), path.stat().st_mtime_ns) for path in world.folder.rglob("*") if path.is_file())
    told = world.apply(True, **ALL)
    assert sorted((str(p), p.stat().st_mtime_ns) for p in world.folder.rglob("*") if p.is_file()) == before
    assert not [command for command in world.commands if command[0] == "pct"]
    done = world.apply(**ALL)
    for key in ("changed", "actions", "config", "lxc", "restart_needed", "diff", "gpus"):
        assert told[key] == done[key], key


def test_a_running_container_is_told_to_need_a_restart_until_it_had_one(world: World) -> None:
    world.start()
    done = world.apply(**ALL)
    assert done["restart_needed"]
    assert not done["restarted"]
    assert {"key": "dev0", "value": "/dev/nvidia0,mode=0666"} in done["pending"]
    again = world.apply(**ALL)
    assert not again["changed"]
    assert again["restart_needed"], "a second run does not forget it"
    world.execute(["pct", "shutdown", "129"])
    world.execute(["pct", "start", "129"])
    last = world.apply(**ALL)
    assert not last["restart_needed"]
    assert last["pending"] == []


def test_a_raw_key_alone_needs_a_restart_too_and_is_not_forgotten(world: World) -> None:
    world.start()
    params = {"lxc": {"lxc.prlimit.memlock": "unlimited"}}
    assert world.apply(**params)["restart_needed"]
    assert world.apply(**params)["restart_needed"]
    world.execute(["pct", "shutdown", "129"])
    world.execute(["pct", "start", "129"])
    assert not world.apply(**params)["restart_needed"]


def test_it_restarts_only_when_it_may(world: World) -> None:
    world.start()
    done = world.apply(**ALL, allow_restart=True)
    assert done["restarted"]
    assert not done["restart_needed"]
    assert done["pending"] == []
    assert done["actions"][-1] == "restart"
    assert world.running("129")
    assert ["pct", "shutdown", "129", "--timeout", "180", "--forceStop", "1"] in world.commands
    assert not world.apply(**ALL, allow_restart=True)["restarted"]


def test_what_a_running_container_takes_at_once_needs_no_restart(world: World) -> None:
    world.start()
    for check in (True, False):
        assert not world.apply(check, memory=4096, onboot=True)["restart_needed"]


def test_a_subset_of_the_gpus_by_uuid_and_the_others_go(world: World) -> None:
    world.apply(gpus=["all"])
    done = world.apply(gpus=[UUIDS[1]])
    paths = {container.properties(v, "path")["path"] for k, v in done["config"].items() if k.startswith("dev")}
    assert paths == {"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}
    assert [gpu["uuid"] for gpu in done["gpus"]] == [UUIDS[1]]


@pytest.mark.parametrize("name", [UUIDS[1], "GPU-2222", "0000:02:00.0", "00000000:02:00.0", "02:00.0", "1"])
def test_ways_to_name_a_gpu(world: World, name: str) -> None:
    assert [gpu["minor"] for gpu in world.apply(gpus=[name])["gpus"]] == [1]


def test_an_empty_list_takes_gpus_away_and_leaves_other_devices(world: World) -> None:
    world.device("/dev/kvm")
    world.conf = CONF + "dev7: /dev/kvm,mode=0660\n"
    world.apply(gpus=["all"])
    done = world.apply(gpus=[])
    assert {key: value for key, value in done["config"].items() if key.startswith("dev")} == {
        "dev7": "/dev/kvm,mode=0660"
    }


def test_entries_keep_their_number_and_what_others_gave_them(world: World) -> None:
    world.conf = CONF + "dev3: /dev/nvidia0,gid=44,uid=5\ndev5: /dev/nvidia-uvm,mode=0666\n"
    done = world.apply(gpus=["0"])
    assert done["config"]["dev3"] == "/dev/nvidia0,gid=44,mode=0666,uid=5"
    assert done["config"]["dev5"] == "/dev/nvidia-uvm,mode=0666"
    assert done["config"]["dev0"].startswith("/dev/nvidiactl")
    assert world.apply(gpus=["0"], device_gid=104)["config"]["dev3"] == "/dev/nvidia0,gid=104,mode=0666,uid=5"


def test_a_device_that_is_passed_twice_is_passed_once(world: World) -> None:
    world.conf = CONF + "dev0: /dev/nvidia0,mode=0666\ndev4: /dev/nvidia0,mode=0666\n"
    done = world.apply(gpus=["0"])
    assert [key for key, value in done["config"].items() if value.startswith("/dev/nvidia0,")] == ["dev0"]


def test_the_slices_of_a_mig_card_come_with_it_and_only_its_own(world: World) -> None:
    for gpu, gi, number in ((0, 1, 12), (1, 2, 148)):
        world.put(f"proc/driver/nvidia/capabilities/gpu{gpu}/mig/gi{gi}/access", f"DeviceFileMinor: {number}\n")
        world.put(f"proc/driver/nvidia/capabilities/gpu{gpu}/mig/gi{gi}/ci0/access", f"DeviceFileMinor: {number + 1}\n")
        world.device(f"/dev/nvidia-caps/nvidia-cap{number}")
        world.device(f"/dev/nvidia-caps/nvidia-cap{number + 1}")
    done = world.apply(gpus=["0"])
    caps = sorted(value.split(",")[0] for value in done["config"].values() if "nvidia-caps" in value)
    assert caps == ["/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"]
    gone = world.apply(gpus=["1"])
    caps = sorted(value.split(",")[0] for value in gone["config"].values() if "nvidia-caps" in value)
    assert caps == ["/dev/nvidia-caps/nvidia-cap148", "/dev/nvidia-caps/nvidia-cap149"]


def test_mounts_are_found_by_their_target(world: World) -> None:
    world.conf = CONF + "mp0: /srv/other,mp=/other\nmp1: /srv/state,mp=/opt/llmhost/models,shared=1\n"
    done = world.apply(mounts=[{"source": "/srv/models", "target": "/opt/llmhost/models/", "read_only": True}])
    assert done["config"]["mp0"] == "/srv/other,mp=/other"
    assert done["config"]["mp1"] == "/srv/models,mp=/opt/llmhost/models,ro=1,shared=1"
    gone = world.apply(mounts=[{"target": "/opt/llmhost/models", "state": "absent"}])
    assert "mp1" not in gone["config"]
    assert "mp0" in gone["config"]


def test_a_feature_is_merged_into_those_that_are_there(world: World) -> None:
    world.conf = CONF + "features: fuse=1,keyctl=1\n"
    assert world.apply(features={"nesting": True})["config"]["features"] == "fuse=1,keyctl=1,nesting=1"
    assert world.apply(features={"keyctl": 0})["config"]["features"] == "fuse=1,nesting=1"
    assert "features" not in world.apply(features={"fuse": 0, "nesting": 0})["config"]


def test_raw_keys_of_others_stay_and_ours_are_exact(world: World) -> None:
    world.conf = CONF + "lxc.mount.entry: /srv/a a none bind 0 0\nlxc.prlimit.memlock = 1\nlxc.prlimit.nofile: 9\n"
    done = world.apply(lxc={"lxc.prlimit.memlock": "unlimited", "lxc.mount.entry": ["/srv/b b none bind 0 0"]})
    assert sorted(done["lxc"]) == [
        ["lxc.mount.entry", "/srv/a a none bind 0 0"],
        ["lxc.mount.entry", "/srv/b b none bind 0 0"],
        ["lxc.prlimit.memlock", "unlimited"],
        ["lxc.prlimit.nofile", "9"],
    ]
    assert ["lxc.prlimit.memlock", "unlimited"] not in world.apply(lxc={"lxc.prlimit.memlock": None})["lxc"]


def test_settings_set_and_delete_any_other_key(world: World) -> None:
    done = world.apply(settings={"tags": "llm;gpu", "hostname": None, "protection": True})
    assert done["config"]["tags"] == "llm;gpu"
    assert done["config"]["protection"] == "1"
    assert "hostname" not in done["config"]


def test_a_pending_value_that_is_the_wanted_one_is_no_change(world: World) -> None:
    world.start()
    world.conf = CONF + "\n[pve:pending]\ntimezone: host\ndelete: net0\n"
    done = world.apply(timezone="host")
    assert not done["changed"]
    assert done["restart_needed"]
    assert done["pending"] == [{"key": "timezone", "value": "host"}, {"key": "net0", "value": None}]


# ---------------------------------------------------------------- creation
def test_a_container_that_was_destroyed_is_made_again(tmp_path: Path) -> None:
    world = World(tmp_path, conf=None)
    world.gpus()
    (tmp_path / "var/lib/pct-standin/templates/debian-13").mkdir(parents=True)
    create = {"template": "local:vztmpl/debian-13", "hostname": "llm", "net0": "name=eth0,bridge=vmbr0,ip=dhcp"}
    told = world.apply(True, **ALL, create=create, state="started")
    assert told["created"]
    assert told["changed"]
    assert not (tmp_path / "etc/pve/lxc/129.conf").exists()
    done = world.apply(**ALL, create=create, state="started")
    assert done["created"]
    assert done["running"]
    assert done["actions"][0] == "create"
    assert done["actions"][-1] == "start"
    assert done["config"]["hostname"] == "llm"
    assert done["config"]["unprivileged"] == "1"
    text = world.conf
    again = world.apply(**ALL, create={**create, "hostname": "other"}, state="started")
    assert (again["changed"], again["created"], world.conf) == (False, False, text)
    world.execute(["pct", "shutdown", "129"])
    world.execute(["pct", "destroy", "129"])
    once_more = world.apply(**ALL, create=create, state="started")
    assert once_more["created"]
    assert once_more["config"] == done["config"]


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    world = World(tmp_path, conf=None)
    assert reason(world, create={"template": "local:vztmpl/none"})[0] == "template_missing"
    assert reason(world, create={"template": "/srv/none.tar.zst"})[0] == "template_missing"


# ---------------------------------------------------------------- what is refused
def test_no_container_another_node_and_a_virtual_machine(tmp_path: Path) -> None:
    world = World(tmp_path, conf=None)
    assert reason(world)[0] == "container_missing"
    world.put("etc/pve/nodes/other/lxc/129.conf", CONF)
    why, words = reason(world)
    assert why == "container_elsewhere"
    assert "is on node other" in words
    os.unlink(tmp_path / "etc/pve/nodes/other/lxc/129.conf")
    world.put("etc/pve/nodes/other/qemu-server/129.conf", "memory: 1\n")
    why, words = reason(world, create={"template": "local:vztmpl/x"})
    assert why == "virtual_machine"
    assert "no container" in words


def test_not_a_node(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "etc/pve").rename(tmp_path / "etc/gone")
    assert reason(world)[0] == "not_a_node"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("extra", "why", "word"),
    [
        ("lock: backup\n", "container_locked", "backup"),
        ("template: 1\n", "container_template", "clone"),
        ("entrypoint: /usr/bin/serve --all\n", "container_application", "OCI"),
    ],
)
def test_containers_that_are_not_to_be_changed(world: World, check: bool, extra: str, why: str, word: str) -> None:
    world.conf = CONF + extra
    found, words = reason(world, check, memory=1024)
    assert found == why
    assert word in words
    assert world.conf == CONF + extra


def test_an_entrypoint_that_is_an_init_system_is_a_system_container(world: World) -> None:
    world.conf = CONF + "entrypoint: /sbin/init\n"
    assert world.apply(memory=1024)["changed"]


def test_a_lock_in_a_snapshot_is_none(world: World) -> None:
    world.conf = CONF + "\n[snap1]\nlock: backup\ntemplate: 1\n"
    assert world.apply(memory=1024)["changed"]


def test_a_cluster_without_quorum(world: World) -> None:
    world.put("etc/pve/.members", json.dumps({"nodename": "x", "cluster": {"name": "c", "quorate": 0}}))
    assert reason(world, memory=1024)[0] == "no_quorum"
    world.put("etc/pve/.members", json.dumps({"nodename": "x", "cluster": {"name": "c", "quorate": 1}}))
    assert world.apply(memory=1024)["changed"]


def test_high_availability_decides_about_starts_and_not_about_the_configuration(world: World) -> None:
    world.put("etc/pve/ha/resources.cfg", "vm: 100\n\tgroup x\nct: 129\n\tstate started\n")
    assert world.apply(memory=1024)["changed"]
    assert reason(world, state="started")[0] == "ha_managed"
    world.start()
    assert world.apply(gpus=["all"])["restart_needed"]
    assert reason(world, gpus=["all"], allow_restart=True)[0] == "ha_managed"


def test_somebody_holds_the_lock(world: World) -> None:
    path = world.folder / "run/lock/lxc/pve-config-129.lock"
    with open(path, "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        why, words = reason(world, lxc={"lxc.a": "1"}, lock_timeout_s=0.2)
    assert why == "lock_timeout"
    assert "pve-config-129.lock" in words


def test_a_writer_between_our_look_and_our_write_loses_nothing(world: World) -> None:
    def other() -> None:
        world.conf += "tags: other\n"

    world.hook = other
    done = world.apply(memory=2048, lxc={"lxc.a": "1"})
    assert done["config"]["tags"] == "other"
    assert done["config"]["memory"] == "2048"
    assert world.commands[0][-2] == "--digest"
    assert len([command for command in world.commands if command[1] == "set"]) == 2


def test_the_file_is_replaced_in_one_step_and_nothing_is_left_beside_it(world: World) -> None:
    before = os.stat(world.path("129")).st_ino
    world.apply(lxc={"lxc.a": "1"})
    assert os.stat(world.path("129")).st_ino != before
    assert sorted(os.listdir(world.folder / "etc/pve/lxc")) == ["129.conf"]


def test_gpus_that_are_not_there(world: World) -> None:
    why, words = reason(world, gpus=["GPU-99999999"])
    assert why == "gpu_missing"
    assert UUIDS[0] in words, "it names those that are"
    told = world.apply(True, gpus=["GPU-99999999"])
    assert "driver is not ready yet" in told["notes"][0]


@pytest.mark.parametrize("target", ["/opt/x", "/opt/x/"])
def test_a_volume_of_proxmox_is_not_replaced_by_a_folder(world: World, target: str) -> None:
    world.conf = CONF + "mp0: local-lvm:vm-129-disk-1,mp=/opt/x,size=8G\n"
    assert reason(world, mounts=[{"source": "/srv/models", "target": target}])[0] == "mount_conflict"
    assert reason(world, mounts=[{"target": target, "state": "absent"}])[0] == "mount_conflict"


def test_folders_that_cannot_be_mounted(world: World) -> None:
    assert reason(world, mounts=[{"source": "/srv/none", "target": "/x"}])[0] == "mount_source_missing"
    (world.folder / "srv/link").symlink_to("models")
    why, words = reason(world, mounts=[{"source": "/srv/link", "target": "/x"}])
    assert why == "mount_source_link"
    assert "/srv/models" in words


@pytest.mark.parametrize(
    ("params", "option"),
    [
        ({"device_mode": "666"}, "device_mode"),
        ({"device_mode": "0999"}, "device_mode"),
        ({"lxc": {"memory": "1"}}, "lxc"),
        ({"lxc": {"lxc.cgroup.devices.allow": "c 195:* rwm"}}, "lxc"),
        ({"lxc": {"lxc.a": "b\nc: d"}}, "lxc"),
        ({"lxc": {"lxc.prlimit.memlock": ["1", "2"]}}, "lxc"),
        ({"settings": {"dev0": "/dev/x"}}, "settings"),
        ({"settings": {"lock": "backup"}}, "settings"),
        ({"settings": {"description": "two\nlines"}}, "settings"),
        ({"settings": {"bad key": "1"}}, "settings"),
        ({"settings": {"tags": "a\nb: c"}}, "settings"),
        ({"mounts": [{"source": "relative", "target": "/x"}]}, "mounts"),
        ({"mounts": [{"source": "/a,mp=/b", "target": "/x"}]}, "mounts"),
        ({"mounts": [{"source": "/a/../b", "target": "/x"}]}, "mounts"),
        ({"mounts": [{"source": "/a", "target": "/"}]}, "mounts"),
        ({"mounts": [{"target": "/x"}]}, "mounts"),
        ({"mounts": [{"source": "/a", "target": "/x"}, {"source": "/b", "target": "/x"}]}, "mounts"),
        ({"vmid": 99}, "vmid"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_looked_at(
    world: World, params: dict[str, Any], option: str
) -> None:
    with pytest.raises(LlmHostError) as caught:
        world.apply(**params)
    assert caught.value.reason == "invalid_argument"
    assert caught.value.details["option"] == option
    assert world.conf == CONF
    assert world.commands == []


# ---------------------------------------------------------------- properties
LINES = st.lists(
    st.sampled_from(
        [
            "tags: a",
            "dev0: /dev/kvm",
            "dev1: /dev/nvidia0",
            "dev9: /dev/nvidiactl,mode=0666",
            "mp0: /srv/state,mp=/data",
            "mp3: local:129/x,mp=/vol,size=1G",
            "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file",
            "lxc.cgroup.devices.allow: c 195:* rwm",
            "lxc.prlimit.nofile = 9",
            "features: fuse=1",
            "net1: name=eth1,bridge=vmbr1",
        ]
    ),
    max_size=8,
    unique=True,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, LINES, st.booleans(), st.booleans(), st.booleans())
def test_whatever_stands_there_one_run_is_enough_and_others_lines_stay(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], snapshot: list[str], alive: bool, tidy: bool, all_: bool
) -> None:
    world = World(tmp_path_factory.mktemp("node"))
    world.gpus()
    world.device("/dev/kvm")
    world.conf = CONF + "\n".join([*lines, "", "[snap-1]", *snapshot]) + "\n"
    if alive:
        world.start()
    before = container.parse(world.conf)
    params = {**ALL, "gpus": ["all"] if all_ else [UUIDS[1]], "tidy": tidy}
    told = world.apply(True, **params)
    done = world.apply(**params)
    assert told["config"] == done["config"]
    assert told["diff"] == done["diff"]
    again = world.apply(**params)
    assert not again["changed"], again["actions"]
    after = container.parse(world.conf)
    assert after.snapshots[0].values == before.snapshots[0].values
    assert after.snapshots[0].lxc == before.snapshots[0].lxc
    ours = {"features", "memory", "cores", "timezone", "onboot", "startup"}
    for key, value in before.current.values.items():
        if key not in ours and not devices.OURS.match(container.properties(value, "path").get("path", "")):
            assert after.after_start[key] == value
    if not tidy:
        for pair in before.current.lxc:
            assert pair in after.current.lxc


def test_the_order_of_keys_is_by_number() -> None:
    plan = reconcile.Plan({"dev10": "a", "dev2": "b", "cores": "1"}, ("mp3", "mp20"), False, (), ())
    assert plan.arguments() == ["--cores", "1", "--dev2", "b", "--dev10", "a", "--delete", "mp3,mp20"]
