# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrade of two hosts behind the real router under a running load: a version that does not come up ends the rollout at
the first host, the next one goes through, and no request is lost in either.

The runtimes are wheels of a few kilobytes whose servers replay recorded starts; router, containers and units are real.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from collections.abc import Iterator

import pytest
from conftest import ROOT, UNIT, VMID, Controller, Lab, Play
from scenario_support import wait
from test_router import KEY, LOAD, ROLE, ROUTER_PORT, WHEELS
from test_upgrade_tiny import BROKEN, HOME, NEW, OLD, variables

sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402

OTHER = 142
HOSTS = {"ct%d" % VMID: VMID, "ct%d" % OTHER: OTHER}
FIRST, SECOND = HOSTS
INSTANCE = {
    "model": "/opt/llmhost/models/tiny",
    "port": 30000,
    "host": "0.0.0.0",  # the router of the first host reaches both
    "allow_open": True,
    "arguments": {"device": "cpu"},
}


@pytest.fixture(scope="module")
def fleet(lab: Lab, work: pathlib.Path) -> Iterator[dict[str, list[str]]]:
    """Two containers with folders of their own; the inventory without the router and with it."""
    second = lab.data.parent / (lab.data.name + "-second")
    lab("ct", str(OTHER), "bookworm", "--data", str(second))
    lab.model("tiny")
    lab("model", str(second / "models/tiny"))
    for data in (lab.data, second):
        lab_tiny.make(
            data / "tiny/wheels",
            (lab_tiny.Recipe(OLD), lab_tiny.Recipe(BROKEN, plays="f12-bad-arch"), lab_tiny.Recipe(NEW)),
        )
    lab("wheels", str(lab.data / "router-wheels"), "sglang-router==0.3.2")
    known = lab.addresses(*HOSTS.values())
    servers = {
        "hosts": {name: known[name] for name in HOSTS},
        "vars": {
            "sglang_server_instances": {"demo": INSTANCE},
            "sglang_router_port": ROUTER_PORT,
            "sglang_router_api_key": KEY,
            "sglang_router_wheelhouse": WHEELS,
            "sglang_router_policy": "round_robin",
        },
    }
    paths = {}
    for name, more in (("alone", {}), ("behind", {"sglang_router": {"hosts": {FIRST: {}}}})):
        path = work / ("fleet-%s.json" % name)
        path.write_text(json.dumps({"sglang": servers, **more}))
        paths[name] = [str(path)]
    yield paths
    end = (
        "touch /run/load.stop; systemctl disable -q --now llmhost-router; systemctl stop load; "
        f"systemctl disable -q --now {UNIT}; cd /etc/systemd/system && rm -f llmhost-router.service {UNIT}; "
        f"rm -rf /opt/llmhost/routers /etc/llmhost/router.json /run/load.* {HOME}; "
        "systemctl daemon-reload; systemctl reset-failed"
    )
    lab.at(VMID, end, check=False)
    lab.node("pct", "stop", str(OTHER))
    lab.node("pct", "destroy", str(OTHER))
    shutil.rmtree(second, ignore_errors=True)


def upgrade(controller: Controller, inventory: list[str], version: str) -> Play:
    return controller.play("llmhost.sglang.upgrade", inventory=inventory, variables=variables(version), timeout_s=3000)


def in_use(lab: Lab) -> list[str]:
    """The version that each host's running server is started from."""
    look = f"tr '\\0' ' ' < /proc/$(systemctl show --value -p MainPID {UNIT})/cmdline"
    return [lab.at(vmid, look).split("/runtimes/")[1].partition("-")[0] for vmid in HOSTS.values()]


def begun(lab: Lab) -> list[str]:
    return [lab.at(vmid, f"systemctl show --value -p InvocationID {UNIT}").strip() for vmid in HOSTS.values()]


def load(lab: Lab) -> None:
    lab.at(VMID, "rm -f /run/load.*")
    lab.at(VMID, "cat > /srv/load.py", stdin=LOAD)
    url = "http://127.0.0.1:%d" % ROUTER_PORT
    lab.at(VMID, "systemd-run -q --unit=load python3 /srv/load.py %s %s /run/load.stop /run/load.json" % (url, KEY))


def answers(lab: Lab) -> dict[str, int]:
    """The load has its end; what it was answered."""
    lab.at(VMID, "touch /run/load.stop")
    wait(lambda: lab.at(VMID, "test -e /run/load.json && echo yes || true").strip() == "yes", 120)
    found: dict[str, int] = json.loads(lab.at(VMID, "cat /run/load.json"))
    return found


def test_a_broken_version_ends_at_the_first_host_and_no_request_is_lost(
    lab: Lab, controller: Controller, fleet: dict[str, list[str]], tmp_path: pathlib.Path
) -> None:
    first = upgrade(controller, fleet["alone"], OLD)
    assert first.status == "successful" and in_use(lab) == [OLD, OLD], first.text()
    role = tmp_path / "router.yml"
    task = {"name": "Run the router", "ansible.builtin.include_role": {"name": ROLE}}
    role.write_text(json.dumps([{"name": "Router", "hosts": "sglang_router", "gather_facts": False, "tasks": [task]}]))
    router = controller.play(role, inventory=fleet["behind"])
    assert router.status == "successful", router.text()
    assert [one["healthy"] for one in router.result("router_workers")["workers"]] == [True, True]

    load(lab)
    before = begun(lab)
    broken = upgrade(controller, fleet["behind"], BROKEN)
    told = answers(lab)
    assert broken.status == "failed" and "is in use again and answers" in broken.text(), broken.text()
    assert in_use(lab) == [OLD, OLD]
    after = begun(lab)
    assert after[0] != before[0] and after[1] == before[1]  # the second host was never touched
    assert {task["host"] for task in broken.tasks} == {FIRST}
    assert set(told) == {"200"} and told["200"] > 10, told
    print("the broken version: %s" % told)

    load(lab)
    new = upgrade(controller, fleet["behind"], NEW)
    told = answers(lab)
    assert new.status == "successful" and in_use(lab) == [NEW, NEW], new.text()
    assert set(told) == {"200"} and told["200"] > 10, told
    print("the new version: %s" % told)
    # both are behind the router again
    again = controller.play(role, inventory=fleet["behind"])
    assert again.status == "successful" and again.changed() == [], again.changed()
    assert [one["healthy"] for one in again.result("router_workers")["workers"]] == [True, True]


def test_the_playbook_restarts_one_after_the_other_and_no_request_is_lost(
    lab: Lab, controller: Controller, fleet: dict[str, list[str]]
) -> None:
    """Goes on with the fleet of the test before."""
    load(lab)
    before = begun(lab)
    options = variables(NEW, llmhost_restart_serial=1)
    play = controller.play("llmhost.sglang.restart", inventory=fleet["behind"], variables=options, timeout_s=3000)
    told = answers(lab)
    assert play.status == "successful", play.text()
    after = begun(lab)
    assert all(one != other for one, other in zip(before, after)), (before, after)
    assert set(told) == {"200"} and told["200"] > 10, told
    print("the restart: %s" % told)


def test_the_way_back_goes_one_after_the_other_and_no_request_is_lost(
    lab: Lab, controller: Controller, fleet: dict[str, list[str]]
) -> None:
    """Goes on with the fleet of the tests before."""
    load(lab)
    play = controller.play(
        "llmhost.sglang.rollback", inventory=fleet["behind"], variables=variables(NEW), timeout_s=3000
    )
    told = answers(lab)
    assert play.status == "successful" and in_use(lab) == [OLD, OLD], play.text()
    assert set(told) == {"200"} and told["200"] > 10, told
    print("the way back: %s" % told)
