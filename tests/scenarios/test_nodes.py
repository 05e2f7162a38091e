# SPDX-License-Identifier: GPL-3.0-or-later
"""One real SGLang on two containers (``nnodes 2``): to ready, with rank 1 killed, and what is refused before a start.

On the CPU, so the nodes talk by Gloo; NCCL and GPUs of several hosts are not here.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import VMID, Controller, Lab, Play
from scenario_support import ACCOUNT, wait

OTHER = 141
FIRST, SECOND = "ct%d" % VMID, "ct%d" % OTHER
UNIT = "sglang-pair.service"
MEET = 20010
READY_S = 1500  # both nodes on two cores that are busy

INSTANCE: dict[str, Any] = {
    "model": "/opt/llmhost/models/tiny",
    "served_model_name": "tiny",
    "port": 30090,
    "nodes": {"group": "twins", "port": MEET, "interface": "eth0"},
    "arguments": {"device": "cpu", "tp_size": 2, "max_total_tokens": 4096, "sleep_on_idle": True},
    "probe": {"allow_replacement": True},
    "environment": {
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": "0",  # any; without it there may be no more ranks than NUMA nodes
        "TORCHDYNAMO_DISABLE": "1",  # with several ranks a part of the model is compiled, and here is no compiler
    },
}


@pytest.fixture(scope="module")
def twins(lab: Lab, controller: Controller, runtime: str, work: pathlib.Path) -> Iterator[list[str]]:
    """The inventory of two containers that share the runtime and the model."""
    lab("ct", str(OTHER), "bookworm", "--data", str(lab.data))
    for vmid in (VMID, OTHER):
        run(lab, vmid, ACCOUNT)
    known = lab.addresses(VMID, OTHER)
    shared = {"sglang_server_instances": {"pair": INSTANCE}, "sglang_server_start_timeout_s": READY_S}
    path = work / "twins.json"
    path.write_text(json.dumps({"twins": {"hosts": {h: known[h] for h in (FIRST, SECOND)}, "vars": shared}}))
    yield [str(path)]
    for vmid in (VMID, OTHER):
        run(
            lab,
            vmid,
            "systemctl disable -q --now %s; rm -f /etc/systemd/system/%s; systemctl daemon-reload" % (UNIT, UNIT),
        )
    lab.node("pct", "stop", str(OTHER))
    lab.node("pct", "destroy", str(OTHER))


def run(lab: Lab, vmid: int, script: str) -> str:
    """What it prints; whether it fails is no matter."""
    return lab.at(vmid, script, check=False)


def fatal(play: Play) -> list[str]:
    """What the play said of a failure."""
    lines = (re.sub(r"\x1b\[[\d;]*m", "", line) for _at, line in play.lines)
    return [line for line in lines if line.startswith("fatal:")]


def state(lab: Lab) -> list[str]:
    return [run(lab, vmid, "systemctl show -p InvocationID,ActiveState %s" % UNIT) for vmid in (VMID, OTHER)]


def verdicts(play: Play) -> dict[str, dict[str, Any]]:
    return {
        one["host"]: one["res"]
        for one in play.tasks
        if one["task"].startswith("Wait until it is ready") and one["status"] == "ok"
    }


def test_two_hosts_serve_one_model(lab: Lab, controller: Controller, twins: list[str]) -> None:
    play = controller.play("nodes.yml", inventory=twins, timeout_s=2 * READY_S)
    assert play.status == "successful", play.text()
    found = verdicts(play)
    assert {host: one["outcome"] for host, one in found.items()} == {FIRST: "ready", SECOND: "ready"}
    # rank 0 alone answers requests, and is asked
    assert play.result("completion_probe", FIRST)["text"]
    asked = {(one["host"], one["status"]) for one in play.tasks if one["action"].endswith("completion_probe")}
    assert asked == {(FIRST, "ok"), (SECOND, "skipped")}
    for rank, vmid in enumerate((VMID, OTHER)):
        words = run(lab, vmid, "tr '\\0' ' ' < /proc/$(systemctl show --value -p MainPID %s)/cmdline" % UNIT)
        assert "--nnodes 2" in words and "--node-rank %d" % rank in words, words
        assert "--dist-init-addr 198.51.100.%d:%d" % (VMID, MEET) in words, words
        log = run(lab, vmid, "journalctl -o cat -u %s" % UNIT)
        assert ("fired up" in log) == (rank == 0)

    again = controller.play("nodes.yml", inventory=twins)
    assert again.status == "successful" and again.changed() == [], again.changed()

    # rank 1 dies: its launcher ends well and stays away, rank 0 falls with it, comes back and would wait
    run(lab, OTHER, "pkill -KILL -f 'sglang::[s]cheduler'")
    wait(lambda: run(lab, OTHER, "systemctl is-active %s" % UNIT).strip() == "inactive", 120)
    wait(lambda: run(lab, VMID, "systemctl show --value -p NRestarts %s" % UNIT).strip() == "1", 200)
    # so all have to start
    back = controller.play("nodes.yml", inventory=twins, timeout_s=2 * READY_S)
    assert back.status == "successful", back.text()
    assert {host: one["outcome"] for host, one in verdicts(back).items()} == {FIRST: "ready", SECOND: "ready"}
    starts = [run(lab, vmid, "systemctl show --value -p InvocationID %s" % UNIT).strip() for vmid in (VMID, OTHER)]
    assert starts == [verdicts(back)[host]["invocation_id"] for host in (FIRST, SECOND)]
    assert starts[0] != found[FIRST]["invocation_id"]


KILLER = """
journalctl -f -n0 -o cat -u %(unit)s | while read -r line; do
    case "$line" in *"%(mark)s"*) pkill -KILL -f '%(process)s'; date +%%s > /run/killed; break ;; esac
done
"""


@pytest.mark.parametrize(
    ("mark", "process"),
    [
        ("server_args=", "[l]aunch_server"),
        ("Init parallel begin", "sglang::[s]cheduler"),
        ("Load weight begin", "sglang::[s]cheduler"),
        ("KV Cache is allocated", "sglang::[s]cheduler"),
        ("ummy health check server", "sglang::[s]cheduler"),  # it is ready, and its launcher ends with 0
    ],
    ids=["while-it-reads-its-arguments", "while-it-starts", "while-it-loads", "in-kv-cache", "while-rank-0-warms-up"],
)
def test_rank_1_is_killed_while_it_starts(
    lab: Lab, controller: Controller, twins: list[str], mark: str, process: str
) -> None:
    # in the container, for a model as small as this one is through all phases in a moment
    script = KILLER % {"unit": UNIT, "mark": mark, "process": process}
    lab.at(OTHER, "rm -f /run/killed; cat > /run/killer.sh", stdin=script)
    run(lab, OTHER, "systemctl reset-failed -q killer; systemd-run -q --unit=killer bash /run/killer.sh")
    play = controller.play("nodes.yml", inventory=twins, variables={"entry": "restart"}, timeout_s=2 * READY_S)
    run(lab, OTHER, "systemctl stop -q killer")
    killed = run(lab, OTHER, "echo $(date +%s) $(cat /run/killed)").split()
    assert len(killed) == 2, play.text()
    assert play.status == "failed", play.text()
    print("%s: the play ended %d s after rank 1 was killed" % (mark, int(killed[0]) - int(killed[1])))
    # one host has the cause and speaks for both; the other says nothing of its own
    said = fatal(play)
    assert said and all(line.startswith("fatal: [%s]" % SECOND) for line in said), said
    message = said[-1]
    assert "Rank 1 of 2, on %s, failed in phase" % SECOND in message, message
    assert "Rank 0 on %s" % FIRST in message, message
    # and both are stopped, so that systemd does not go on with one of them
    for vmid in (VMID, OTHER):
        assert run(lab, vmid, "systemctl is-active %s" % UNIT).strip() in ("inactive", "failed")
        assert "sglang" not in run(lab, vmid, "ps -eo args | grep -v grep | grep sglang.launch_server")


def test_a_rank_that_fails_ends_the_wait_on_the_others(lab: Lab, controller: Controller, twins: list[str]) -> None:
    """By recorded starts of single servers: rank 1 fails by a cause of its own, and rank 0 would go on for minutes."""
    lab("replay-runtime", str(lab.data / "replay"))
    plays = {
        FIRST: {"LLMHOST_REPLAY": "ok-clean-recipe", "LLMHOST_REPLAY_SPEED": "0.1"},
        SECOND: {"LLMHOST_REPLAY": "f12-bad-arch", "LLMHOST_REPLAY_SPEED": "4"},
    }
    instance = {
        **{key: value for key, value in INSTANCE.items() if key != "probe"},
        "environment": "{{ plays[inventory_hostname] }}",  # differs, and they go together all the same
    }
    variables = {
        "sglang_server_runtime": "/opt/llmhost/replay",
        "sglang_server_instances": {"pair": instance},
        "plays": plays,
    }
    play = controller.play("nodes.yml", inventory=twins, variables=variables, timeout_s=READY_S)
    assert play.status == "failed", play.text()
    said = fatal(play)
    assert said and all(line.startswith("fatal: [%s]" % SECOND) for line in said), said
    assert "Rank 1 of 2, on %s, failed in phase load_weights" % SECOND in said[-1], said
    assert "NoSuchForCausalLM" in said[-1] and "Rank 0 on %s still waited in phase" % FIRST in said[-1], said
    found = verdicts(play)
    assert found[SECOND]["cause"] == "arch_unsupported" and found[FIRST]["outcome"] == "timeout"


def test_what_cannot_work_is_refused_before_anything_is_touched(
    lab: Lab, controller: Controller, twins: list[str]
) -> None:
    def refused(*options: str, **variables: Any) -> Play:
        before = state(lab)
        play = controller.play("nodes.yml", *options, inventory=twins, variables=variables)
        assert play.status == "failed", play.text()
        assert before == state(lab)
        return play

    one = refused("--limit", FIRST)
    assert "spans the hosts of the group twins" in one.text() and "leaves out %s" % SECOND in one.text()
    own = {"pair": {**INSTANCE, "arguments": {**INSTANCE["arguments"], "nnodes": 2}}}
    assert "take them out of the arguments (nnodes)" in refused(sglang_server_instances=own).text()
    three = {"pair": {**INSTANCE, "arguments": {**INSTANCE["arguments"], "tp_size": 3}}}
    assert "can't be spread evenly over 2 nodes" in refused(sglang_server_instances=three).text()
    # an address that is not rank 0's: it cannot listen there, and nobody reaches it
    lost = refused(sglang_server_node_address="198.51.100.77")
    assert "does not reach %s at 198.51.100.77:%d" % (FIRST, MEET) in lost.text(), lost.text()
    assert "cannot listen on 198.51.100.77:%d" % MEET in lost.text(), lost.text()
