# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job on a fresh container: check, deploy, again, by another way in, stop. One real SGLang start."""

from __future__ import annotations

import json
import re

from conftest import UNIT, VMID, Controller, Lab

DEPLOY = "llmhost.sglang.deploy"


def fresh(lab: Lab) -> None:
    assert lab.ct("sh", "-c", "ls /etc/systemd/system | grep ^sglang- || true").strip() == ""
    assert lab.ct("sh", "-c", "getent passwd sglang || true").strip() == ""


def main_pid(lab: Lab) -> str:
    return lab.ct("systemctl", "show", "--property=MainPID", "--value", UNIT).strip()


def test_check_mode_on_a_fresh_host_finishes_and_changes_nothing(lab: Lab, controller: Controller) -> None:
    lab.model("tiny")
    fresh(lab)
    before = lab.ct("find", "/opt/llmhost", "/etc/systemd/system", "/var/lib/llmhost", check=False)
    play = controller.play(DEPLOY, "--check", "--diff")
    assert play.status == "successful", play.text()
    assert any("Write the unit" in task for task in play.changed()), "check mode hid what it would do"
    assert lab.ct("find", "/opt/llmhost", "/etc/systemd/system", "/var/lib/llmhost", check=False) == before
    fresh(lab)


def test_deploy_answers(lab: Lab, controller: Controller, capsys) -> None:
    play = controller.play(DEPLOY)
    assert play.status == "successful", play.text()
    verdict = play.result("server_wait")
    assert verdict["outcome"] == "ready"
    assert play.result("completion_probe")["text"].strip()
    # followed live: the phases were printed while the task ran, and not at its end
    live = [(at, line) for at, line in play.lines if re.search(r"ct129.*(reading arguments|warming up)", line)]
    assert live, play.text()
    assert play.seconds - live[0][0] > 1
    # the log of this start and no other: the unit's invocation
    invocation = lab.ct("systemctl", "show", "--property=InvocationID", "--value", UNIT).strip()
    assert verdict["invocation_id"] == invocation
    # a real scheduler in the container holds simulated memory on the node
    smi = lab.node("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
    pid = smi.split(",")[0].strip()
    assert "/lxc/%d/" % VMID in lab.node("cat", "/proc/%s/cgroup" % pid)
    with capsys.disabled():
        print(
            "\ndeploy, fresh: %.1f s in all, of which the server's own start %.1f s"
            % (play.seconds, verdict["seconds"])
        )
        print("published:", json.dumps(play.artifacts))


def test_deploy_again_changes_nothing_and_disturbs_nobody(lab: Lab, controller: Controller, capsys) -> None:
    pid = main_pid(lab)
    play = controller.play(DEPLOY)
    assert play.status == "successful", play.text()
    assert play.changed() == []
    assert main_pid(lab) == pid != "0"
    assert not [t for t in play.tasks if t["action"].endswith("gpu_clean") and t["status"] == "ok"]
    with capsys.disabled():
        print("\ndeploy, nothing to do: %.1f s" % play.seconds)


def test_check_mode_on_a_deployed_host_tells_that_nothing_would_change(lab: Lab, controller: Controller) -> None:
    pid = main_pid(lab)
    play = controller.play(DEPLOY, "--check", "--diff")
    assert play.status == "successful", play.text()
    assert play.changed() == []
    assert main_pid(lab) == pid


def test_check_mode_tells_what_a_changed_argument_would_do(lab: Lab, controller: Controller) -> None:
    pid = main_pid(lab)
    play = controller.play(
        DEPLOY, "--check", "--diff", variables={"sglang_server_arguments": {"max_running_requests": 3}}
    )
    assert play.status == "successful", play.text()
    assert any("Write the unit" in task for task in play.changed())
    assert "--max-running-requests" in play.text(), "the diff must name the argument"
    assert main_pid(lab) == pid


def test_deploy_by_the_other_way_in_changes_nothing(lab: Lab, controller: Controller, capsys) -> None:
    play = controller.play(DEPLOY, way="pct-remote")
    assert play.status == "successful", play.text()
    assert play.changed() == []
    with capsys.disabled():
        print("\ndeploy over community.proxmox.proxmox_pct_remote, nothing to do: %.1f s" % play.seconds)


def test_status_tells_what_runs(lab: Lab, controller: Controller) -> None:
    play = controller.play("llmhost.sglang.status")
    assert play.status == "successful", play.text()
    assert play.changed() == []
    info = play.artifacts["llmhost_status"]["ct129/demo"]
    assert info["health"] == "ready"
    assert info["model"] == "tiny"


def test_an_option_that_does_not_exist_is_refused_before_anything_is_stopped(lab: Lab, controller: Controller) -> None:
    pid = main_pid(lab)
    play = controller.play(DEPLOY, variables={"sglang_server_arguments": {"max_runing_requests": 3}})
    assert play.status == "failed"
    failed = play.result("launch_args_info")
    assert failed["reason"] == "arguments_invalid"
    assert "max_running_requests" in json.dumps(failed["errors"]), "the nearest name"
    assert main_pid(lab) == pid


def test_placeholders_left_in_stop_the_play_before_the_host_is_touched(controller: Controller) -> None:
    play = controller.play(DEPLOY, variables={"llmhost_gpu_node": "<the node>"})
    assert play.status == "failed"
    assert "<the node>" in play.text()
    assert {t["action"].split(".")[-1] for t in play.tasks} <= {"include_role", "assert"}


def test_stop_frees_the_gpus(lab: Lab, controller: Controller) -> None:
    play = controller.play("llmhost.sglang.stop")
    assert play.status == "successful", play.text()
    assert lab.ct("systemctl", "is-active", UNIT, check=False).strip() == "inactive"
    gpu = play.result("gpu_clean")["gpus"][0]
    assert gpu["after_mib"] <= gpu["baseline_mib"] + 64
    again = controller.play("llmhost.sglang.stop")
    assert again.status == "successful" and again.changed() == []
