# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that start programs or wait, where nothing may be executed in the temporary folder; and in the background."""

from __future__ import annotations

import json
import pathlib

from conftest import Controller, Lab
from scenario_support import ACCOUNT, HOST, PORT, PYTHON

FOLDER = "/mnt/noexec"


def test_nothing_has_to_be_executable_in_the_temporary_folder(
    lab: Lab, controller: Controller, work: pathlib.Path
) -> None:
    lab("replay-runtime", str(lab.data / "replay"))
    model = lab.model("tiny")
    lab.ct("sh", "-c", f"{ACCOUNT}; mkdir -p {FOLDER} && mount -t tmpfs -o noexec,mode=1777 tmpfs {FOLDER}")
    server = {
        "name": "chat",
        "argv": [PYTHON, "-m", "sglang.launch_server", "--model-path", "/srv/model", "--port", str(PORT)],
        "environment": {"LLMHOST_REPLAY": "ok-clean-recipe", "LLMHOST_REPLAY_SPEED": "8"},
        "port": PORT,
        "required_paths": ["/srv/model"],
    }
    verified = {"path": model, "state": "verified"}
    tasks = [
        {"name": "Try it", "ansible.builtin.raw": f"cp /bin/true {FOLDER}/ && {FOLDER}/true", "ignore_errors": True},
        {"name": "Start", "llmhost.sglang.server": {**server, "state": "started"}},
        {"name": "Wait", "llmhost.sglang.server_wait": {"name": "chat", "port": PORT, "timeout_s": 100}},
        {"name": "Ask", "llmhost.sglang.completion_probe": {"url": f"http://127.0.0.1:{PORT}", "instance": "chat"}},
        {"name": "See", "llmhost.sglang.gpu_info": {"required": False}},
        {"name": "Verify", "llmhost.sglang.model_snapshot": verified},
        {"name": "Behind", "llmhost.sglang.model_snapshot": verified, "async": 100, "poll": 1},
        {"name": "Remove", "llmhost.sglang.server": {**server, "state": "absent"}},
    ]
    variables = {"ansible_remote_tmp": FOLDER, "ansible_pipelining": False, "ansible_async_dir": FOLDER + "/async"}
    path = work / "noexec.yml"
    path.write_text(json.dumps([{"hosts": HOST, "gather_facts": False, "vars": variables, "tasks": tasks}]))
    try:
        play = controller.play(path)
    finally:
        lab.ct("umount", "-l", FOLDER)
    assert play.status == "successful", play.text()
    found = {one["task"]: one["res"] for one in play.tasks}
    assert found["Try it"]["rc"] == 126, found["Try it"]  # the folder is what it shall be
    assert found["Wait"]["outcome"] == "ready" and found["Ask"]["text"]
    # the same answer from the background
    same = ("folder", "files", "size_gib")
    assert [found["Behind"][key] for key in same] == [found["Verify"][key] for key in same]
    assert found["Behind"]["ansible_job_id"] and not found["Behind"]["changed"]
