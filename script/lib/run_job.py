# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one playbook of the installed collection as AWX does: a two-line job in a project, through ansible-runner.

Usage: run_job.py FOLDER COLLECTIONS_PATH PLAYBOOK [INVENTORY]

FOLDER is emptied and becomes the private data folder. Without INVENTORY the one host is this machine; where systemd
does not run on it, the job must fail, and with this reason: a wrong failure is no pass either.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from typing import Any

import ansible_runner

NO_SYSTEMD = "systemd_unavailable"


def reasons(events: list[dict[str, Any]]) -> set[str]:
    """Why the failed tasks say that they failed, loops included."""
    found = set()
    for event in events:
        if event["event"] in ("runner_on_failed", "runner_item_on_failed"):
            result = event["event_data"].get("res") or {}
            found |= {item["reason"] for item in [result, *result.get("results", [])] if item.get("reason")}
    return found


def main(folder: str, collections: str, playbook: str, inventory: str = "") -> int:
    home = pathlib.Path(folder)
    shutil.rmtree(home, ignore_errors=True)
    (home / "project").mkdir(parents=True)
    (home / "project" / "job.yml").write_text(f"- name: Job\n  ansible.builtin.import_playbook: {playbook}\n")
    here = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "sglang_server_instances": {"nobody": {"model": "/nowhere"}},
    }
    events: list[dict[str, Any]] = []
    result = ansible_runner.run(
        private_data_dir=str(home),
        playbook="job.yml",
        quiet=True,
        event_handler=lambda event: bool(events.append(event)) or True,
        envvars={"ANSIBLE_COLLECTIONS_PATH": collections, "ANSIBLE_HOME": str(home / "ansible")},
        settings={"suppress_ansible_output": True},
        inventory=os.path.abspath(inventory) if inventory else {"sglang": {"hosts": {"here": here}}},
    )
    print("\n".join(str(event["stdout"]) for event in events if event.get("stdout")))
    done = [event for event in events if event["event"] == "runner_on_ok"]
    print(
        f"{playbook}: {result.status}, {len(done)} tasks ok, {len(events)} events, reasons: {reasons(events) or 'none'}"
    )
    if not done:
        print("FAILED: no task ran on any host, so this job proves nothing")
        return 1
    if inventory or os.path.isdir("/run/systemd/system"):
        return 0 if result.status == "successful" else 1
    if result.status == "failed" and reasons(events) == {NO_SYSTEMD}:
        return 0
    print(f"FAILED: systemd does not run here, so the job must fail, with reason {NO_SYSTEMD} and no other")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
