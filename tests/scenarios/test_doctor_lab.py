# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook ``doctor`` on the lab: both views, a table, JSON, a page, and its exit by what is broken."""

from __future__ import annotations

import json
import pathlib

from conftest import VMID, Controller, Lab

DOCTOR = "llmhost.sglang.doctor"
LOADED = (
    "mountpoint -q /proc/driver || mount -t tmpfs none /proc/driver; mkdir -p /proc/driver/nvidia; "
    "echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  x' > /proc/driver/nvidia/version"
)


def test_a_host_without_a_gpu_is_judged_by_the_rest(lab: Lab, controller: Controller, work: pathlib.Path) -> None:
    lab.model("tiny")
    folder = work / "doctor"
    play = controller.play(DOCTOR, variables={"llmhost_doctor_dir": str(folder)})
    assert play.status == "successful", play.text()
    assert play.changed() == []
    views = json.loads((folder / "ct129.json").read_text())
    assert [(view["host"], view["place"]) for view in views] == [("pve1", "node"), ("ct129", "container")]
    found = {(view["host"], f["id"]): f for view in views for f in view["findings"]}
    assert found["pve1", "ct_elsewhere"]["status"] == found["pve1", "ct_stopped"]["status"] == "ok"
    assert found["pve1", "gpu_present"]["status"] == "ok", "the simulated driver answers on the node"
    assert found["ct129", "drv_skew"]["status"] == "not_applicable"
    assert found["ct129", "clock"]["status"] == "ok", "both views of one clock"
    page = (folder / "ct129.html").read_text()
    assert "<h1>Doctor: ct129</h1>" in page and "ct_elsewhere" in page and "{{" not in page.split("</style>")[1]
    assert play.artifacts["llmhost_doctor"]["ct129"]["summary"]["ct129"]["fail"] == 0


def test_a_driver_without_libraries_and_devices_fails_with_what_to_do(lab: Lab, controller: Controller) -> None:
    """A module that is loaded on the node, as /proc tells it on both sides, and a container that was given nothing."""
    uvm = "/dev/nvidia-uvm"  # another test may have made it
    try:
        lab.node("sh", "-c", f"[ ! -e {uvm} ] || mv {uvm} /dev/.aside")
        lab.node("sh", "-ec", LOADED)
        lab.ct("sh", "-ec", LOADED)
        play = controller.play(DOCTOR, variables={"llmhost_doctor_families": ["driver", "devices"]})
        assert play.status == "failed"
        views = play.artifacts["llmhost_doctor"]["ct129"]["findings"]
        failed = {(f["place"], f["id"]) for f in views if f["status"] == "fail"}
        assert ("container", "lib_missing") in failed and ("node", "node_missing") in failed
        assert "Install the user space of 595.91.07" in play.text()
        assert "/dev/nvidia-uvm is missing" in play.text() and "nvidia-modprobe -c 0 -u" in play.text()
        # deploy says the same before it installs or stops anything
        play = controller.play("llmhost.sglang.deploy")
        assert play.status == "failed" and "lib_missing" in play.text()
        done = {task["action"].split(".")[-1] for task in play.tasks}
        assert not done & {"server", "gpu_clean", "user"} and play.changed() == []
    finally:
        lab.node("sh", "-c", f"[ ! -e /dev/.aside ] || mv /dev/.aside {uvm}")
        lab.node("umount", "/proc/driver", check=False)
        lab.ct("umount", "/proc/driver", check=False)


def test_a_host_that_owns_its_gpus_needs_no_node(lab: Lab, controller: Controller, work: pathlib.Path) -> None:
    """As in inventories/bare_metal: nobody says llmhost_gpu_node."""
    known = lab.addresses(VMID)["ct%d" % VMID]
    instances = {"demo": {"model": lab.model("tiny"), "arguments": {"device": "cpu"}}}
    path = work / "alone.json"
    group = {"hosts": {"alone": known}, "vars": {"sglang_server_instances": instances}}
    path.write_text(json.dumps({"sglang": group}))
    play = controller.play(DOCTOR, inventory=[str(path)])
    assert list(play.artifacts["llmhost_doctor"]["alone"]["summary"]) == ["alone"], play.text()
    play = controller.play("llmhost.sglang.deploy", "--check", inventory=[str(path)])
    assert ("alone", "Read the host", "ok") in {(one["host"], one["task"], one["status"]) for one in play.tasks}
