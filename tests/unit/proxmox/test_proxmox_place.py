# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a number of the cluster lives, and which GPU is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import devices
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox.place import place
from proxmox_world_support import UUIDS, World


@pytest.mark.parametrize(
    ("paths", "reason", "words"),
    [
        (["/etc/pve/nodes/pve1/lxc/129.conf"], None, "container 129 is on node pve1"),
        (["/etc/pve/nodes/pve2/lxc/129.conf"], "container_elsewhere", "on node pve2, not on pve1"),
        (["/etc/pve/nodes/pve1/qemu-server/129.conf"], "virtual_machine", "129 on node pve1 is a virtual machine"),
        (["/etc/pve/nodes/pve2/qemu-server/129.conf"], "virtual_machine", "129 on node pve2 is a virtual machine"),
        ([], "container_missing", "there is no container 129 on node pve1"),
        (["/etc/pve/nodes/pve1/lxc/1290.conf", "/etc/pve/nodes/pve1/lxc/12.conf"], "container_missing", "no container"),
        (
            ["/etc/pve/nodes/pve2/qemu-server/129.conf", "/etc/pve/nodes/pve1/lxc/129.conf"],
            None,
            "container 129 is on node pve1",
        ),
    ],
)
def test_where_a_number_is(paths: list[str], reason: str | None, words: str) -> None:
    found = place(129, "pve1.example.test", paths)
    assert found.reason() == reason
    assert words in found.sentence()


SMI = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <gpu id="00000000:01:00.0"><uuid>GPU-a0000000-0</uuid><minor_number>0</minor_number></gpu>
  <gpu id="00000000:02:00.0"><uuid>GPU-b0000000-0</uuid><minor_number>N/A</minor_number></gpu>
  <gpu id="00010000:02:00.0"><uuid>GPU-c0000000-0</uuid><minor_number>3</minor_number></gpu>
</nvidia_smi_log>
"""


def test_cards_come_from_the_driver_then_from_nvidia_smi_then_from_the_device_files(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert devices.cards(world) == []
    for name in ("nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm"):
        world.device(f"/dev/{name}")
    assert [card.minor for card in devices.cards(world)] == [1, 10]
    execute = world.execute
    world._run = lambda command: (0, SMI, "") if command[0] == "nvidia-smi" else execute(command)
    assert [(card.minor, card.uuid) for card in devices.cards(world)] == [(0, "GPU-a0000000-0"), (3, "GPU-c0000000-0")]
    world.gpus(1)
    assert [(card.minor, card.uuid) for card in devices.cards(world)] == [(0, UUIDS[0])]


def test_an_answer_of_nvidia_smi_that_is_no_xml_is_no_answer(tmp_path: Path) -> None:
    world = World(tmp_path)
    world._run = lambda command: (0, "NVIDIA-SMI has failed", "")
    assert devices.cards(world) == []


@pytest.mark.parametrize(
    ("name", "minors"),
    [("0", [0]), ("GPU-a0000000-0", [0]), ("gpu-c0000000", [3]), ("0000:02:00.0", []), ("10000:02:00.0", [3])],
)
def test_a_gpu_by_its_name(name: str, minors: list[int]) -> None:
    found = [
        devices.Card(0, "GPU-a0000000-0", "00000000:01:00.0"),
        devices.Card(3, "GPU-c0000000-0", "00010000:02:00.0"),
    ]
    if minors:
        assert [card.minor for card in devices.choose(found, [name])] == minors
    else:
        with pytest.raises(LlmHostError, match="GPU-c0000000-0 at 00010000:02:00.0"):
            devices.choose(found, [name])


def test_a_beginning_that_fits_two_gpus_is_refused() -> None:
    found = [devices.Card(0, "GPU-a0000000-0"), devices.Card(1, "GPU-a0000000-1")]
    with pytest.raises(LlmHostError, match="more than one"):
        devices.choose(found, ["GPU-a0000000"])


def test_all_of_none_is_an_error_and_not_an_empty_list() -> None:
    with pytest.raises(LlmHostError) as caught:
        devices.choose([], ["all"])
    assert caught.value.reason == "gpu_missing"
