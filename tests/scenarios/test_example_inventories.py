# SPDX-License-Identifier: GPL-3.0-or-later
"""From the inventories that users copy, with their placeholders filled in, to an answer and again.

Bare metal: the container stands for the host that owns its GPUs, so nobody names a node or a VMID, and it has a driver
of its own. Proxmox: the container by ``pct exec`` through its node, which owns the GPUs. The driver is the simulated
one, the runtime a few kilobytes, and the server replays a recorded start.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator

import pytest
from conftest import FULL, ROOT, VMID, Controller, Lab
from scenario_support import CARDS_FILE, driver_inside, no_driver_inside
from test_upgrade_tiny import HOME, NEW, variables

sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402

UNIT = "sglang-chat.service"
CARDS = (
    'gpu 0 name="NVIDIA L40S (simulated)" total=49140\ngpu 1 name="NVIDIA L40S (simulated)" total=49140\n'
    "hold gpu=0 mem=20000 comm=^sglang::schedul\n"
)
# name -> host of the inventory -> what it is in the lab's
EXAMPLES = {"bare_metal": {"gpu-host-1": "ct%d" % VMID}, "proxmox": {"llm": "ct%d" % VMID, "pve": "pve1"}}


@pytest.fixture
def owner(lab: Lab, request: pytest.FixtureRequest) -> Iterator[None]:
    """The driver where the example's GPUs are, and wheels for the container."""
    inside, before = request.param == "bare_metal", lab.node("cat", CARDS_FILE)
    if inside:
        driver_inside(lab, CARDS)
    else:
        lab.node("sh", "-c", f"cat > {CARDS_FILE}", stdin=CARDS)
    lab_tiny.make(lab.data / "tiny/wheels", (lab_tiny.Recipe(NEW, torch_cuda="13.0"),))
    yield
    lab.at(
        VMID,
        f"systemctl disable -q --now {UNIT}; rm -f /etc/systemd/system/{UNIT}; systemctl daemon-reload",
        check=False,
    )
    lab.ct("rm", "-rf", HOME, "/var/lib/llmhost/instances/chat")
    no_driver_inside(lab)
    lab.node("sh", "-c", f"cat > {CARDS_FILE}", stdin=before)


def filled_in(lab: Lab, example: str, folder: pathlib.Path) -> pathlib.Path:
    """The example as a user fills it in; host_vars have the lab's keys and ports."""
    shutil.copytree(ROOT / "inventories" / example, folder)
    known = lab.addresses(VMID, way="pct" if example == "proxmox" else "")
    given = {
        "<folder of the model on the host>": lab.model("tiny"),
        "<name that clients ask for>": "tiny",
        "<VMID of the container>": str(VMID),
    }
    for path in folder.rglob("*.yml"):
        text = path.read_text()
        for placeholder, value in given.items():
            text = text.replace(placeholder, value)
        path.write_text(re.sub(r"<address of [^>]*>", "203.0.113.1", text))
    (folder / "host_vars").mkdir()
    for host, name in EXAMPLES[example].items():
        (folder / "host_vars" / (host + ".json")).write_text(json.dumps(known[name]))
    return folder


@pytest.mark.parametrize(
    ("owner", "example"),
    [
        ("bare_metal", "bare_metal"),
        pytest.param("proxmox", "proxmox", marks=pytest.mark.skipif(not FULL, reason="script/test full")),
    ],
    indirect=["owner"],
    ids=list(EXAMPLES),
)
def test_from_an_example_to_an_answer(
    lab: Lab, controller: Controller, owner: None, tmp_path: pathlib.Path, example: str
) -> None:
    inventory = [str(filled_in(lab, example, tmp_path / "my-inventory"))]
    host = next(iter(EXAMPLES[example]))
    given = variables(NEW, sglang_server_plan_dir=str(tmp_path / "plans"))
    dry = controller.play("llmhost.sglang.deploy", "--check", "--diff", inventory=inventory, variables=given)
    assert dry.status == "successful", dry.text()
    play = controller.play("llmhost.sglang.deploy", inventory=inventory, variables=given)
    assert play.status == "successful", play.text()
    assert play.result("completion_probe")["text"] and play.result("gpu_clean")["simulated"] is True
    assert play.artifacts["llmhost_servers"][host + "/chat"]["outcome"] == "ready"
    again = controller.play("llmhost.sglang.deploy", inventory=inventory, variables=given)
    assert again.status == "successful" and again.changed() == [], again.changed()
    more = ("doctor", "diagnose", "plan", "restart", "clean") if FULL else ()
    for playbook in ("status", *more, "stop"):
        play = controller.play("llmhost.sglang." + playbook, inventory=inventory, variables=given)
        assert play.status == "successful", play.text()
    assert lab.ct("systemctl", "is-active", UNIT, check=False).strip() == "inactive"
    gone = controller.play("llmhost.sglang.remove", inventory=inventory, variables=given)
    assert gone.status == "successful", gone.text()
    left = lab.ct("systemctl", "show", "--value", "-p", "LoadState", UNIT).strip()
    assert left == "not-found"
