# SPDX-License-Identifier: GPL-3.0-or-later
"""From the inventory that a user of bare metal copies, with its placeholders filled in, to an answer and again.

The container stands for the host that owns its GPUs: nobody names a node or a VMID. Its driver is the simulated one,
the runtime a few kilobytes, and the server replays a recorded start.
"""

from __future__ import annotations

import json
import pathlib
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
    "sglang_server_runtime": HOME + "/runtime",
    "sglang_server_environment": {"LLMHOST_REPLAY_SPEED": "20"},
}


@pytest.fixture
def host(lab: Lab) -> Iterator[None]:
    """The container with a driver of its own."""
    places = ["/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib/libnvidia-ml.so.1"]
    library = lab.node("ls", *places, check=False)
    for source, path in zip((library.split()[0], DRIVER[1]), DRIVER):
        lab.node("pct", "push", str(VMID), source, path, "--perms", "0755")
    lab.ct("sh", "-c", f"ldconfig; mkdir -p -m 777 {STATE.rsplit('/', 1)[0]}; cat > {STATE}", stdin=CARDS)
    lab_tiny.make(lab.data / "bare/wheels", (lab_tiny.Recipe(VERSION, torch_cuda="13.0"),))
    yield
    end = f"systemctl disable -q --now {UNIT}; rm -f /etc/systemd/system/{UNIT}; systemctl daemon-reload"
    lab.ct("sh", "-c", end, check=False)
    lab.ct("rm", "-rf", HOME, *DRIVER, STATE)


def filled_in(lab: Lab, folder: pathlib.Path) -> pathlib.Path:
    """The example inventory as a user fills it in."""
    shutil.copytree(ROOT / "inventories/bare_metal", folder)
    address = _host(yaml.safe_load(lab("inventory", str(VMID))), "ct%d" % VMID)
    given = {
        "<address of the GPU host>": str(address["ansible_host"]),
        "<folder of the model on the host>": lab.model("tiny"),
        "<name that clients ask for>": "tiny",
    }
    for path in folder.rglob("*.yml"):
        text = path.read_text()
        for placeholder, value in given.items():
            text = text.replace(placeholder, value)
        path.write_text(text)
    (folder / "host_vars").mkdir()
    (folder / "host_vars/gpu-host-1.json").write_text(json.dumps(address))  # the lab's key and port
    return folder


def test_from_the_example_inventory_to_an_answer(
    lab: Lab, controller: Controller, host: None, tmp_path: pathlib.Path
) -> None:
    folder = filled_in(lab, tmp_path / "my-inventory")
    dry = controller.play("llmhost.sglang.deploy", "--check", "--diff", inventory=[str(folder)], variables=VARIABLES)
    assert dry.status == "successful", dry.text()
    play = controller.play("llmhost.sglang.deploy", inventory=[str(folder)], variables=VARIABLES)
    assert play.status == "successful", play.text()
    assert play.result("completion_probe")["text"] and play.result("gpu_clean")["simulated"] is True
    published = play.artifacts["llmhost_servers"]["gpu-host-1/chat"]
    assert published["outcome"] == "ready"
    again = controller.play("llmhost.sglang.deploy", inventory=[str(folder)], variables=VARIABLES)
    assert again.status == "successful" and again.changed() == [], again.changed()
    more = ("doctor", "diagnose", "plan", "restart", "clean") if FULL else ()
    for playbook in ("status", *more, "stop"):
        play = controller.play("llmhost.sglang." + playbook, inventory=[str(folder)], variables=VARIABLES)
        assert play.status == "successful", play.text()
    assert lab.ct("systemctl", "is-active", UNIT, check=False).strip() == "inactive"
