# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts in one play, of which three are in trouble: one whose server never comes up, one that dies while its
server starts, one whose disk is full. The others are not disturbed, and each of the three is told by what it has.

Replays, by several names of one container and by two containers more.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import VMID, Controller, Lab, Play
from scenario_support import ACCOUNT

FULL_DISK, DIES = 143, 144
STATE = "/var/lib/llmhost"
HANGS_S = 60
# host -> (container, recording, speed)
HOSTS = {
    "well-1": (VMID, "ok-clean-recipe", 8),
    "well-2": (VMID, "ok-clean-recipe", 8),
    "hangs": (VMID, "ok-clean-recipe", 0.05),
    "full": (FULL_DISK, "ok-clean-recipe", 8),
    "dies": (DIES, "ok-clean-recipe", 0.1),
}


@pytest.fixture(scope="module")
def fleet(lab: Lab, work: pathlib.Path) -> Iterator[list[str]]:
    """The inventory. Each host has an instance of its own name, for three of them share a container."""
    lab("replay-runtime", str(lab.data / "replay"))
    for vmid in (FULL_DISK, DIES):
        lab("ct", str(vmid), "bookworm", "--data", str(lab.data))
    for vmid in (VMID, FULL_DISK, DIES):
        lab.at(vmid, ACCOUNT)
    known = lab.addresses(VMID, FULL_DISK, DIES)
    hosts = {}
    for number, (name, (vmid, recording, speed)) in enumerate(HOSTS.items()):
        hosts[name] = {
            **known["ct%d" % vmid],
            "sglang_server_instances": {
                name: {
                    "model": "/srv/model",
                    "served_model_name": "tiny",
                    "port": 30110 + number,
                    "arguments": {"device": "cpu"},
                    "environment": {"LLMHOST_REPLAY": recording, "LLMHOST_REPLAY_SPEED": str(speed)},
                }
            },
            "sglang_server_start_timeout_s": HANGS_S if name == "hangs" else 600,
        }
    variables = {
        "sglang_server_runtime": "/opt/llmhost/replay",
        "sglang_server_plan": "none",
        "ansible_ssh_timeout": 10,
    }
    path = work / "in-trouble.json"
    path.write_text(json.dumps({"sglang": {"hosts": hosts, "vars": variables}}))
    yield [str(path)]
    for name in HOSTS:
        unit = "sglang-%s.service" % name
        script = "systemctl disable -q --now %s; rm -f /etc/systemd/system/%s; systemctl daemon-reload" % (unit, unit)
        lab.ct("sh", "-c", script, check=False)
    for vmid in (FULL_DISK, DIES):
        lab.node("pct", "stop", str(vmid), check=False)
        lab.node("pct", "destroy", str(vmid))


def ended(play: Play, host: str) -> str:
    """How the last task of a host ended that was no skipped one."""
    return [one["status"] for one in play.tasks if one["host"] == host and one["status"] != "skipped"][-1]


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_three_in_trouble_do_not_disturb_the_others(
    lab: Lab, controller: Controller, fleet: list[str], work: pathlib.Path, strategy: str
) -> None:
    lab.node("pct", "start", str(DIES), check=False)
    fill = "mkdir -p %s; mountpoint -q %s || mount -t tmpfs -o size=1m tmpfs %s; cat /dev/zero > %s/filler" % (
        STATE, STATE, STATE, STATE,
    )  # fmt: skip
    lab.at(FULL_DISK, fill, check=False)
    role = {"name": "Run", "ansible.builtin.include_role": {"name": "llmhost.sglang.sglang_server"}}
    path = work / ("in-trouble-%s.yml" % strategy)
    head = {"name": "All", "hosts": "sglang", "gather_facts": False, "strategy": strategy}
    path.write_text(json.dumps([{**head, "tasks": [role]}]))
    gone: list[str] = []

    def dies() -> bool:
        """Asked again and again while the play runs; it shall go on."""
        if not gone and lab.at(DIES, "systemctl is-active sglang-dies.service", check=False).strip() == "active":
            gone.append(lab.node("pct", "stop", str(DIES)))
        return False

    play = controller.play(path, inventory=fleet, timeout_s=600, cancel=dies)
    assert gone and play.status == "failed", play.text()
    found: dict[str, Any] = play.artifacts["llmhost_servers"]
    for name in ("well-1", "well-2"):
        assert ended(play, name) == "ok", play.text()
        assert found["%s/%s" % (name, name)]["outcome"] == "ready"
        assert play.result("completion_probe", name)["text"]
    assert ended(play, "dies") == "unreachable"
    assert ended(play, "hangs") == "failed" and play.result("server_wait", "hangs")["outcome"] == "timeout"
    assert ended(play, "full") == "failed"
    said = [line for line in play.text().splitlines() if "fatal: [full]" in line]
    assert said and "No space left on device" in said[-1], said
    if strategy == "free":  # who is well does not wait for who is not
        at = {one["host"]: one["created"] for one in play.tasks if one["status"] != "skipped"}
        assert max(at["well-1"], at["well-2"]) < at["hangs"]
    lab.at(VMID, "systemctl stop sglang-well-1 sglang-well-2 sglang-hangs")
