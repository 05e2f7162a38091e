# SPDX-License-Identifier: GPL-3.0-or-later
"""A job as AWX shows it: what the last event of a failed one says, how large results get, what a workflow is handed.

That a job can be cancelled in the middle of a wait, test_start_faults.py shows.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT, VMID, Controller, Lab, Play

EVENT_KIB = 64  # one event is one row of AWX's database
HOST = f"ct{VMID}"


def instance(story: str, port: int) -> dict[str, Any]:
    return {
        "model": "/opt/llmhost/models/tiny",
        "port": port,
        "gpus": [0],
        "arguments": {"device": "cpu", "max_total_tokens": 4096},
        "environment": {"LLMHOST_REPLAY": story, "LLMHOST_REPLAY_SPEED": "5"},
    }


def variables(**instances: Any) -> dict[str, Any]:
    return {"sglang_server_runtime": "/opt/llmhost/replay", "sglang_server_instances": instances}


@pytest.fixture(scope="module")
def replay(lab: Lab, controller: Controller) -> Iterator[Controller]:
    lab("replay-runtime", str(lab.data / "replay"))
    lab.model("tiny")
    yield controller
    gone = {"state": "absent", "model": "/nowhere"}
    absent = {"job": {**gone, "port": 30401}, "broken": {**gone, "port": 30402}}
    controller.play("delivery_job.yml", variables=variables(**absent))


@pytest.fixture(scope="module")
def failed(replay: Controller) -> Play:
    """One server that starts and one that does not, in this order."""
    job = variables(job=instance("ok-clean-recipe", 30401), broken=instance("f16-truncated", 30402))
    return replay.play("delivery_job.yml", variables=job)


def test_the_last_event_of_a_failed_job_says_why_and_what_to_do(failed: Play) -> None:
    assert failed.status == "failed", failed.text()
    message = [task["res"]["msg"] for task in failed.tasks if task["status"] == "failed"][-1]
    verdict = failed.result("server_wait")
    assert verdict["cause"] == "weights_corrupt"
    assert "sglang-broken.service" in message, "which server"
    assert "damaged or incomplete" in message, "the cause, in words"
    assert any(remedy["text"].split(".")[0][:30] in message for remedy in verdict["remedies"]), "what to do"
    assert "{" not in message.replace("{{", ""), "plain words, and no data"


def test_an_event_is_never_too_large_for_a_database(failed: Play) -> None:
    sizes = {task["action"]: len(json.dumps(task["res"])) for task in failed.tasks}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > EVENT_KIB * 1024} == {}


def test_a_job_is_never_silent_for_a_minute(failed: Play) -> None:
    """AWX and its idle timeout see only what is printed."""
    moments = [0.0, *(at for at, _line in failed.lines)]
    assert max(later - sooner for sooner, later in zip(moments, moments[1:])) < 60
    live = [line for _at, line in failed.lines if line.startswith("[%s] sglang-" % HOST)]
    assert live, failed.text()


def test_a_workflow_is_handed_what_came_of_each_server(failed: Play) -> None:
    servers = failed.artifacts["llmhost_servers"]
    assert servers[HOST + "/job"]["outcome"] == "ready"
    assert servers[HOST + "/job"]["url"] == "http://127.0.0.1:30401"
    assert servers[HOST + "/broken"]["outcome"] == "failed"
    assert len(json.dumps(failed.artifacts)) < EVENT_KIB * 1024


def environment(folder: pathlib.Path, *packages: str) -> pathlib.Path:
    """A virtual environment with ansible-core and these; its bin folder."""
    core = "import importlib.metadata; print(importlib.metadata.version('ansible-core'))"
    version = subprocess.check_output([sys.executable, "-Ic", core], text=True).strip()
    uv = os.environ["UV"]
    subprocess.run([uv, "venv", "-q", "-p", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "-q", "-p", folder, "ansible-core==" + version, *packages], check=True)
    return folder / "bin"


def alone(bin_folder: pathlib.Path, home: pathlib.Path, collections: str, *command: Any) -> str:
    """Run it with nothing of this checkout or of the user's around it."""
    env = {
        "HOME": str(home),
        "PATH": "%s:/usr/sbin:/usr/bin:/sbin:/bin" % bin_folder,
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": collections,
    }
    done = subprocess.run(
        [bin_folder / command[0], *command[1:]],
        cwd=home,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_built_collection_works_with_nothing_but_ansible_core(
    failed: Play, replay: Controller, tmp_path: pathlib.Path
) -> None:
    installed = os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0]
    inventory = pathlib.Path(installed) / "ansible_collections/llmhost/sglang/inventories/lab"
    extra = json.dumps(variables(job=instance("ok-clean-recipe", 30401)))
    told = alone(
        environment(tmp_path / "venv"), tmp_path, installed,
        "ansible-playbook", "llmhost.sglang.status", "-e", extra, "-i", inventory, "-i", replay.inventory("ssh")[1],
    )  # fmt: skip
    assert "job" in told and "ready" in told, told


def test_a_job_in_the_execution_environment_reaches_a_container_without_sshd(
    failed: Play, lab: Lab, replay: Controller, tmp_path: pathlib.Path
) -> None:
    """With the packages of meta/ee-requirements.txt, by its own ansible-runner, over proxmox_pct_remote (paramiko)."""
    wanted = (ROOT / "meta/ee-requirements.txt").read_text().splitlines()
    packages = [line for line in wanted if line and not line.startswith("#")]
    data = tmp_path / "data"
    for name in ("project", "env", "inventory"):
        (data / name).mkdir(parents=True)
    pattern = ROOT / "extensions/patterns/status/playbooks/status.yml"
    (data / "project/job.yml").write_text(pattern.read_text())
    (data / "env/extravars").write_text(json.dumps(variables(job=instance("ok-clean-recipe", 30401))))
    groups, addresses = replay.inventory("pct")
    shutil.copytree(groups, data / "inventory", dirs_exist_ok=True)
    shutil.copy(addresses, data / "inventory/addresses.yml")
    bin_folder = environment(tmp_path / "venv", "ansible-runner", *packages)
    run = ["ansible-runner", "run", data, "-p", "job.yml", "--ident", "1", "-q"]
    # that connection knows hosts by the known_hosts of the home alone
    alone(bin_folder, lab.folder / "home", os.environ["ANSIBLE_COLLECTIONS_PATH"], *run)
    events = [json.loads(path.read_text()) for path in (data / "artifacts/1/job_events").glob("*.json")]
    stats = next(event for event in events if event["event"] == "playbook_on_stats")
    assert stats["event_data"]["artifact_data"]["llmhost_status"][HOST + "/job"]["health"] == "ready"
