# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment: what ansible-builder makes of its definition, and jobs in one with just that."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import yaml
from conftest import COLLECTIONS, DEFINITION, INSTALLED, ROOT, run


def test_the_collection_names_what_the_optional_ways_need(requirements: list[str]) -> None:
    assert {re.split(r"[<>=~!]", line)[0] for line in requirements} >= {"paramiko", "proxmoxer", "requests"}


def test_the_context(tmp_path: pathlib.Path) -> None:
    context = tmp_path / "context"
    run(
        "ansible-builder", "create", "-f", DEFINITION, "-c", context, "-v", "3", "--output-filename", "Containerfile",
        cwd=tmp_path,
    )  # fmt: skip
    text = (context / "Containerfile").read_text()
    assert "rockylinux" in text
    assert "ansible-galaxy collection install" in text
    galaxy = yaml.safe_load((context / "_build/requirements.yml").read_text())
    assert [item["name"] for item in galaxy["collections"]] == ["llmhost.sglang", "community.proxmox"]


def test_its_core_is_one_that_the_collection_admits(definition: dict[str, Any], environment: pathlib.Path) -> None:
    floor = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"].removeprefix(">=")
    version = run(environment / "python", "-c", "import ansible.release as r; print(r.__version__)").strip()
    assert tuple(map(int, version.split(".")[:2])) >= tuple(map(int, floor.split(".")[:2]))


def test_its_packages_import(environment: pathlib.Path) -> None:
    run(environment / "python", "-c", "import paramiko, proxmoxer, requests, ansible_runner")


def job(environment: pathlib.Path, folder: pathlib.Path, playbook: str, code: int = 0) -> list[dict[str, Any]]:
    """Run it by the ansible-runner of that environment, as the controller does; the events."""
    (folder / "project").mkdir(parents=True)
    (folder / "inventory").mkdir()
    (folder / "project/job.yml").write_text(playbook)
    here = "here ansible_connection=local ansible_python_interpreter=%s" % sys.executable
    (folder / "inventory/hosts").write_text("[sglang]\n%s\n" % here)
    env = {
        "PATH": "%s:/usr/bin:/bin" % environment,
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": "%s:%s" % (INSTALLED, COLLECTIONS),
    }
    command = [environment / "ansible-runner", "run", folder, "-p", "job.yml", "--ident", "1", "-q"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    found = (folder / "artifacts/1/job_events").glob("*.json")
    return [json.loads(path.read_text()) for path in sorted(found, key=lambda path: int(path.name.split("-")[0]))]


def test_a_job_runs_in_it(environment: pathlib.Path, tmp_path: pathlib.Path) -> None:
    events = job(environment, tmp_path / "data", (ROOT / "tests/ee/smoke.yml").read_text())
    done = [event["event_data"]["resolved_action"] for event in events if event["event"] == "runner_on_ok"]
    assert done[:2] == ["llmhost.sglang.launch_args_info", "llmhost.sglang.log_diagnosis_info"]
    assert events[-1]["event"] == "playbook_on_stats"
    assert events[-1]["event_data"]["artifact_data"] == {"llmhost_smoke": "0.5.23"}


def test_every_job_template_starts_its_playbook(environment: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As far as an inventory without instances lets it: the role refuses that, and names the cure."""
    home = pathlib.Path(INSTALLED) / "ansible_collections/llmhost/sglang/extensions/patterns"
    for name in ("deploy", "status", "stop"):
        events = job(environment, tmp_path / name, (home / name / "playbooks" / (name + ".yml")).read_text(), code=2)
        failed = [event["event_data"]["res"]["msg"] for event in events if event["event"] == "runner_on_failed"]
        assert len(failed) == 1 and "must map a name to its model" in failed[0], (name, failed)
