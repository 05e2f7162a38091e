# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown while servers start: on several hosts at once under the strategy ``free``, quietly, in the background.

Through ansible-runner, so each line is an event as a job in AWX has it. Replays in one container, by several names.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from conftest import VMID, Controller, Lab
from scenario_support import ACCOUNT

# host -> (speed of its replay, progress, background)
HOSTS = {
    "live-one": (0.8, True, False),  # slow, so that it still starts when the other one is looked at as well
    "live-two": (0.6, True, False),
    "live-quiet": (4, False, False),
    "live-behind": (4, True, True),
}


@pytest.fixture
def way(lab: Lab, controller: Controller, work: pathlib.Path) -> str:
    """An inventory in which the one container is several hosts."""
    lab("replay-runtime", str(lab.data / "replay"))
    lab.ct("sh", "-c", ACCOUNT)
    found = lab.addresses(VMID)["ct%d" % VMID]
    hosts = {
        name: {
            **found,
            "live_name": name,
            "live_port": 30080 + number,
            "live_speed": speed,
            "live_progress": progress,
            "live_background": background,
        }
        for number, (name, (speed, progress, background)) in enumerate(HOSTS.items())
    }
    path = work / "live.json"
    path.write_text(json.dumps({"live": {"hosts": hosts}}))
    controller.inventories["live"] = path
    return "live"


def test_each_host_is_followed_live_and_named(controller: Controller, way: str) -> None:
    play = controller.play("live.yml", way=way)
    assert play.status == "successful", play.text()
    waited = {one["host"]: one["res"] for one in play.tasks if one["task"] == "Wait" and one["status"] == "ok"}
    assert {host: found["outcome"] for host, found in waited.items()} == {
        "live-one": "ready", "live-two": "ready", "live-quiet": "ready",
    }  # fmt: skip
    shown = {
        host: [at for at, line in play.lines if line.startswith("[%s] sglang-%s" % (host, host))] for host in HOSTS
    }
    for host in ("live-one", "live-two"):
        assert len(shown[host]) >= 2, play.text()
    # both at once, and not one after the other when it was over
    assert shown["live-one"][0] < shown["live-two"][-1] and shown["live-two"][0] < shown["live-one"][-1]
    assert shown["live-quiet"] == shown["live-behind"] == []
    # in the background the verdict is the same
    assert play.result("async_status", "live-behind")["outcome"] == "ready"
