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
import yaml
from conftest import FULL, ROOT, VMID, Controller, Lab
from test_gpu_lab import STATE
from test_live import _host

sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402

HOME, VERSION, UNIT = "/opt/llmhost/bare", "0.5.23", "sglang-chat.service"
DRIVER = ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/bin/nvidia-smi")
CARDS = (
    'gpu 0 name="NVIDIA L40S (simulated)" total=49140\ngpu 1 name="NVIDIA L40S (simulated)" total=49140\n'
    "hold gpu=0 mem=20000 comm=^sglang::schedul\n"
)
VARIABLES = {
    "sglang_runtime_wheelhouse": HOME + "/wheels",
    "sglang_runtime_lock_file": f"{HOME}/wheels/lock-{VERSION}.txt",
    "sglang_runtime_root": HOME + "/runtimes",
    "sglang_runtime_link": HOME + "/runtime",
    "sglang_runtime_reserve_gib": 0,
    "sglang_server_environment": {"LLMHOST_REPLAY_SPEED": "20"},
}


# name -> host of the inventory -> what it is in the lab's
EXAMPLES = {"bare_metal": {"gpu-host-1": "ct%d" % VMID}, "proxmox": {"llm": "ct%d" % VMID, "pve": "pve1"}}


@pytest.fixture
def owner(lab: Lab, request: pytest.FixtureRequest) -> Iterator[None]:
    """The driver where the example's GPUs are, and wheels for the container."""
    node = request.param == "proxmox"
    before = lab.node("cat", STATE)
    write = f"mkdir -p -m 777 {STATE.rsplit('/', 1)[0]}; cat > {STATE}"
    if node:
        lab.node("sh", "-c", write, stdin=CARDS)
    else:
        places = ["/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib/libnvidia-ml.so.1"]
        library = lab.node("ls", *places, check=False)
        for source, path in zip((library.split()[0], DRIVER[1]), DRIVER):
            lab.node("pct", "push", str(VMID), source, path, "--perms", "0755")
        lab.ct("sh", "-c", "ldconfig; " + write, stdin=CARDS)
    lab_tiny.make(lab.data / "bare/wheels", (lab_tiny.Recipe(VERSION, torch_cuda="13.0"),))
    yield
    end = f"systemctl disable -q --now {UNIT}; rm -f /etc/systemd/system/{UNIT}; systemctl daemon-reload"
    lab.ct("sh", "-c", end, check=False)
    lab.ct("rm", "-rf", HOME, "/var/lib/llmhost/instances/chat", *DRIVER, STATE)
    lab.node("sh", "-c", write, stdin=before)


def filled_in(lab: Lab, example: str, folder: pathlib.Path) -> pathlib.Path:
    """The example as a user fills it in; host_vars have the lab's keys and ports."""
    shutil.copytree(ROOT / "inventories" / example, folder)
    known = yaml.safe_load(lab("inventory", *(["--pct"] if example == "proxmox" else []), str(VMID)))
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
        (folder / "host_vars" / (host + ".json")).write_text(json.dumps(_host(known, name)))
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
    variables = {**VARIABLES, "sglang_server_plan_dir": str(tmp_path / "plans")}
    dry = controller.play("llmhost.sglang.deploy", "--check", "--diff", inventory=inventory, variables=variables)
    assert dry.status == "successful", dry.text()
    play = controller.play("llmhost.sglang.deploy", inventory=inventory, variables=variables)
    assert play.status == "successful", play.text()
    assert play.result("completion_probe")["text"] and play.result("gpu_clean")["simulated"] is True
    assert play.artifacts["llmhost_servers"][host + "/chat"]["outcome"] == "ready"
    again = controller.play("llmhost.sglang.deploy", inventory=inventory, variables=variables)
    assert again.status == "successful" and again.changed() == [], again.changed()
    more = ("doctor", "diagnose", "plan", "restart", "clean") if FULL else ()
    for playbook in ("status", *more, "stop"):
        play = controller.play("llmhost.sglang." + playbook, inventory=inventory, variables=variables)
        assert play.status == "successful", play.text()
    assert lab.ct("systemctl", "is-active", UNIT, check=False).strip() == "inactive"
    gone = controller.play("llmhost.sglang.remove", inventory=inventory, variables=variables)
    assert gone.status == "successful", gone.text()
    left = lab.ct("systemctl", "show", "--value", "-p", "LoadState", UNIT).strip()
    assert left == "not-found"
