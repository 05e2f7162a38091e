# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks over one server on two hosts: what splits it is refused, and nothing happens to one of them alone.

The runtimes are wheels of a few kilobytes whose servers replay recorded starts of single servers, so the ranks do not
talk to each other here (test_nodes.py has real ones); playbooks, installation, switch and units are real.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT, VMID, Controller, Lab, Play
from test_upgrade_tiny import BROKEN, HOME, NEW, OLD, variables

sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402

OTHER = 143
HOSTS = {"ct%d" % VMID: VMID, "ct%d" % OTHER: OTHER}
FIRST, SECOND = HOSTS
UNIT = "sglang-pair.service"
PORT = 30095
HALF = "0.5.21"  # does not import on the second host
LATE = "0.5.20"  # on the first host another server does not come up with it
SOLO = {"model": "/opt/llmhost/models/tiny", "port": 30096, "arguments": {"device": "cpu", "random_seed": 7}}
MODEL = "/opt/llmhost/models/tiny"
INSTANCE: dict[str, Any] = {
    "model": MODEL,
    "port": PORT,
    "nodes": {"group": "twins", "port": 20015, "interface": "eth0"},
    "arguments": {"device": "cpu", "tp_size": 2},
}
WHOLE = {"llmhost_upgrade_serial": 2}
LOOK = {"assert", "include_tasks", "include_role", "sglang_runtime"}


@pytest.fixture(scope="module")
def twins(lab: Lab, work: pathlib.Path) -> Iterator[list[str]]:
    """The inventory of two containers with folders of their own; three versions are broken on one of them alone."""
    second = lab.data.parent / (lab.data.name + "-second")
    lab("ct", str(OTHER), "bookworm", "--data", str(second))
    late = lab_tiny.Recipe(LATE, plays="--random-seed?f12-bad-arch:ok-clean-recipe")
    own = {
        lab.data: (lab_tiny.Recipe(BROKEN), lab_tiny.Recipe(HALF), late),
        second: (
            lab_tiny.Recipe(BROKEN, plays="f12-bad-arch"),
            lab_tiny.Recipe(HALF, raises="half a version"),
            lab_tiny.Recipe(LATE),
        ),
    }
    for data, recipes in own.items():
        lab("model", str(data / "models/tiny"))
        lab_tiny.make(data / "tiny/wheels", (lab_tiny.Recipe(OLD), *recipes, lab_tiny.Recipe(NEW)))
    known = lab.addresses(*HOSTS.values())
    group = {
        "hosts": {name: known[name] for name in HOSTS},
        "vars": {"sglang_server_instances": {"pair": INSTANCE}, "sglang_server_runtime": HOME + "/runtime"},
    }
    path = work / "nodes-upgrade.json"
    path.write_text(json.dumps({"twins": group, "sglang": {"children": {"twins": {}}}}))
    yield [str(path)]
    run(
        lab,
        VMID,
        f"systemctl disable -q --now {UNIT}; rm -rf /etc/systemd/system/{UNIT} {HOME}; systemctl daemon-reload",
    )
    lab.node("pct", "stop", str(OTHER))
    lab.node("pct", "destroy", str(OTHER))
    shutil.rmtree(second, ignore_errors=True)


def run(lab: Lab, vmid: int, script: str) -> str:
    """What it prints; whether it fails is no matter."""
    return lab.at(vmid, script, check=False)


def both(lab: Lab, script: str) -> list[str]:
    return [run(lab, vmid, script).strip() for vmid in HOSTS.values()]


def linked(lab: Lab) -> list[str]:
    """The version that each host's link leads to."""
    return [line.rpartition("/")[2].partition("-")[0] for line in both(lab, f"readlink {HOME}/runtime")]


def runs(lab: Lab) -> list[str]:
    """The version that each host's running server is started from."""
    lines = both(lab, f"tr '\\0' ' ' < /proc/$(systemctl show --value -p MainPID {UNIT})/cmdline")
    return [line.partition("/runtimes/")[2].partition("-")[0] for line in lines]


def starts(lab: Lab) -> list[str]:
    return both(lab, f"systemctl show --value -p InvocationID {UNIT}")


def answers(lab: Lab) -> bool:
    body = json.dumps({"text": "hi", "sampling_params": {"max_new_tokens": 4}})
    code = (
        "import urllib.request as u; r = u.Request('http://127.0.0.1:%d/generate', %r.encode(), "
        "{'Content-Type': 'application/json'}); print(u.urlopen(r, timeout=20).status)" % (PORT, body)
    )
    return lab.ct("python3", "-c", code).strip() == "200"


def play(controller: Controller, twins: list[str], name: str, *options: str, version: str = OLD, **more: Any) -> Play:
    found = controller.play(
        "llmhost.sglang." + name, *options, inventory=twins, variables=variables(version, **more), timeout_s=1200
    )
    print("%s to %s: %s after %.0f s" % (name, version, found.status, found.seconds))
    return found


def actions(done: Play) -> set[str]:
    return {task["action"].split(".")[-1] for task in done.tasks if task["status"] != "skipped"}


def last_words(done: Play) -> dict[str, str]:
    """What each host failed with in the end."""
    lines = (re.sub(r"\x1b\[[\d;]*m", "", line) for _at, line in done.lines)
    found = (re.match(r"(?:fatal|failed): \[(\w+)\](.*)", line) for line in lines)
    return {one[1]: one[2] for one in found if one and "One or more items failed" not in one[2]}


@pytest.mark.parametrize("options", [("--check",), ()], ids=["check", "real"])
def test_an_upgrade_of_one_host_at_a_time_is_refused_before_anything_is_built(
    lab: Lab, controller: Controller, twins: list[str], options: tuple[str, ...]
) -> None:
    done = play(controller, twins, "upgrade", *options)
    assert done.status == "failed"
    told = last_words(done)[FIRST]
    assert "spans the hosts of the group twins" in told and "This batch leaves out %s" % SECOND in told, told
    assert "llmhost_upgrade_serial: 2 or 100%" in told, told
    assert {task["host"] for task in done.tasks} == {FIRST} and actions(done) <= LOOK, actions(done)
    assert both(lab, f"ls -d {HOME}/runtimes {HOME}/runtime") == ["", ""]


def test_a_batch_with_all_nodes_goes_through(lab: Lab, controller: Controller, twins: list[str]) -> None:
    done = play(controller, twins, "upgrade", version=OLD, **WHOLE)
    assert done.status == "successful", done.text()
    assert runs(lab) == linked(lab) == [OLD, OLD] and answers(lab)
    assert {host: one["outcome"] for host, one in done.artifacts["llmhost_runtimes"].items()} == {
        FIRST: "upgraded", SECOND: "upgraded",
    }  # fmt: skip


def test_a_version_that_fails_on_one_rank_is_left_on_both(lab: Lab, controller: Controller, twins: list[str]) -> None:
    before = starts(lab)
    done = play(controller, twins, "upgrade", version=BROKEN, **WHOLE)
    assert done.status == "failed"
    assert runs(lab) == linked(lab) == [OLD, OLD] and answers(lab), done.text()
    after = starts(lab)
    assert before[0] != after[0] and before[1] != after[1]
    began = [int(one) for one in both(lab, f"systemctl show --value -p ExecMainStartTimestampMonotonic {UNIT}")]
    assert abs(began[0] - began[1]) < 15e6  # microseconds of one kernel's clock
    told = last_words(done)
    assert "Rank 1 of 2, on %s, failed in phase load_weights" % SECOND in told[SECOND], told
    assert "NoSuchForCausalLM" in told[SECOND] and "is in use again and answers" in told[SECOND], told
    assert "it falls with the other nodes; %s has the cause" % SECOND in told[FIRST], told
    assert "failed in phase" not in told[FIRST] and "is in use again and answers" in told[FIRST], told
    found = done.artifacts["llmhost_runtimes"]
    assert {host: one["outcome"] for host, one in found.items()} == {FIRST: "rolled_back", SECOND: "rolled_back"}
    assert all(one["runtime"].startswith(OLD) for one in found.values()), found


def test_where_another_server_of_one_host_fails_both_nodes_go_back(
    lab: Lab, controller: Controller, twins: list[str]
) -> None:
    own = {FIRST: {"pair": INSTANCE, "solo": SOLO}, SECOND: {"pair": INSTANCE}}
    more = {"sglang_server_instances": "{{ own[inventory_hostname] }}", "own": own}
    done = play(controller, twins, "upgrade", version=LATE, **WHOLE, **more)
    run(lab, VMID, "systemctl disable -q --now sglang-solo; rm -f /etc/systemd/system/sglang-solo.service")
    assert done.status == "failed"
    assert runs(lab) == linked(lab) == [OLD, OLD] and answers(lab), done.text()
    told = last_words(done)
    assert "NoSuchForCausalLM" in told[FIRST] and "%s did not come so far" % FIRST in told[SECOND], told
    assert {one["outcome"] for one in done.artifacts["llmhost_runtimes"].values()} == {"rolled_back"}


def test_a_version_that_does_not_import_on_one_host_is_switched_to_on_none(
    lab: Lab, controller: Controller, twins: list[str]
) -> None:
    before = starts(lab)
    # by default the play ends with the first failure; here the other host goes on
    done = play(controller, twins, "upgrade", version=HALF, llmhost_upgrade_max_fail_percentage=100, **WHOLE)
    assert done.status == "failed"
    assert linked(lab) == [OLD, OLD] and starts(lab) == before and answers(lab)
    told = last_words(done)
    assert "half a version" in told[SECOND], told
    assert "%s did not come so far" % SECOND in told[FIRST] and "Nothing was stopped" in told[FIRST], told


def test_the_new_version_and_back(lab: Lab, controller: Controller, twins: list[str]) -> None:
    done = play(controller, twins, "upgrade", version=NEW, **WHOLE)
    assert done.status == "successful", done.text()
    assert runs(lab) == linked(lab) == [NEW, NEW] and answers(lab)

    before = starts(lab)
    for name, serial in (("rollback", "llmhost_upgrade_serial"), ("restart", "llmhost_restart_serial")):
        split = play(controller, twins, name, version=NEW, **{serial: 1})
        assert split.status == "failed" and "%s: 2 or 100%%" % serial in last_words(split)[FIRST], split.text()
        assert actions(split) <= LOOK and {task["host"] for task in split.tasks} == {FIRST}
    assert starts(lab) == before and linked(lab) == [NEW, NEW]

    back = play(controller, twins, "rollback", version=NEW, llmhost_upgrade_serial="100%")
    assert back.status == "successful", back.text()
    assert runs(lab) == linked(lab) == [OLD, OLD] and answers(lab)
    assert {one["outcome"] for one in back.artifacts["llmhost_runtimes"].values()} == {"rolled_back"}


def test_a_rollback_to_different_versions_is_refused(lab: Lab, controller: Controller, twins: list[str]) -> None:
    names = [
        run(lab, vmid, f"cd {HOME}/runtimes && ls -d {want}-*").strip() for vmid, want in ((VMID, NEW), (OTHER, OLD))
    ]
    before = starts(lab)
    to = {"sglang_runtime_rollback_to": "{{ names[inventory_hostname] }}", "names": dict(zip(HOSTS, names))}
    done = play(controller, twins, "rollback", version=OLD, **WHOLE, **to)
    assert done.status == "failed", done.text()
    told = last_words(done)
    assert set(told) == {FIRST, SECOND} and "would go back to %s, %s" % (NEW, OLD) in done.text(), told
    assert starts(lab) == before and linked(lab) == [OLD, OLD]


def test_a_restart_of_both(lab: Lab, controller: Controller, twins: list[str]) -> None:
    before = starts(lab)
    done = play(controller, twins, "restart")
    assert done.status == "successful", done.text()
    after = starts(lab)
    assert before[0] != after[0] and before[1] != after[1]
    assert runs(lab) == [OLD, OLD] and answers(lab)


def test_a_restart_that_fails_on_one_rank_ends_on_both(lab: Lab, controller: Controller, twins: list[str]) -> None:
    fails = {"LLMHOST_REPLAY_SPEED": "20", "LLMHOST_REPLAY": "{{ plays[inventory_hostname] }}"}
    plays = {FIRST: "ok-clean-recipe", SECOND: "f12-bad-arch"}
    done = play(controller, twins, "restart", sglang_server_environment=fails, plays=plays)
    assert done.status == "failed"
    told = last_words(done)
    assert "Rank 1 of 2, on %s, failed in phase load_weights" % SECOND in told[SECOND], told
    assert "%s has the cause" % SECOND in told[FIRST], told
    assert both(lab, f"systemctl is-active {UNIT}") == ["inactive", "inactive"]
    servers = done.artifacts["llmhost_servers"]
    assert {name: one["outcome"] for name, one in servers.items()} == {
        FIRST + "/pair": "failed", SECOND + "/pair": "failed",
    }  # fmt: skip


def test_deploy_ends_for_both_where_one_has_no_model(lab: Lab, controller: Controller, twins: list[str]) -> None:
    done = play(controller, twins, "deploy")
    assert done.status == "successful", done.text()
    assert runs(lab) == [OLD, OLD] and answers(lab)

    before = starts(lab)
    run(lab, OTHER, f"mv {MODEL} {MODEL}-away")
    more = {"sglang_server_arguments": {"max_running_requests": 4}}  # there is something to start
    done = play(controller, twins, "deploy", **more)
    run(lab, OTHER, f"mv {MODEL}-away {MODEL}")
    assert done.status == "failed"
    told = last_words(done)
    assert MODEL in told[SECOND], told
    assert "%s did not come so far" % SECOND in told[FIRST], told
    assert starts(lab) == before and answers(lab)
