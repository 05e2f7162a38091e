# SPDX-License-Identifier: GPL-3.0-or-later
"""A model fetched into the container by the runtime's own huggingface_hub from the lab's hub on the node: cut,
repaired, kept out of reach, a disk that is too small. The hub's refusals one by one: tests/unit/snapshot."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import LAB, ROOT, Controller, Lab, Play

REPO, TARGET, SHARD = "lab/tiny", "/opt/llmhost/fetched/tiny", "model.safetensors"
PORT = 18080
NODE = "198.51.100.1"
SMALL = "/opt/llmhost/small"


class Hub:
    def __init__(self, lab: Lab, folder: pathlib.Path) -> None:
        self.lab = lab
        lab("model", str(folder / REPO))
        (folder / REPO / "notes.dat").write_bytes(bytes(range(256)) * 8192)  # 2 MiB, so that a cut comes in the middle
        command = ["python3", str(ROOT / "tests/lab/hub/hub.py"), str(folder), "--host", NODE, "--port", str(PORT)]
        self.program = subprocess.Popen([str(LAB), "run", *command], env=lab.env, stdout=subprocess.PIPE, text=True)
        assert self.program.stdout is not None and self.program.stdout.readline().strip() == str(PORT)

    def ask(self, path: str, body: Any = None) -> Any:
        """From within the node, where its address is."""
        code = (
            "import json, sys, urllib.request as u; b = json.load(sys.stdin); "
            "d = None if b is None else json.dumps(b).encode(); "
            f"print(u.urlopen(u.Request('http://{NODE}:{PORT}{path}', d)).read().decode())"
        )
        return json.loads(self.lab.node("python3", "-c", code, stdin=json.dumps(body)))

    def faults(self, *faults: dict[str, Any]) -> None:
        self.ask("/_lab/faults", list(faults))

    def requests(self) -> list[dict[str, Any]]:
        return list(self.ask("/_lab/requests"))


@pytest.fixture(scope="module")
def hub(lab: Lab, runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(lab, tmp_path_factory.mktemp("hub"))
    yield hub
    hub.program.kill()
    lab.node("sh", "-c", "for p in $(pgrep -f tests/lab/hub/hub.py); do kill $p; done", check=False)
    lab.ct("umount", SMALL, check=False)
    lab.ct("rm", "-rf", "/opt/llmhost/fetched", SMALL)


def fetch(controller: Controller, *options: str, target: str = TARGET, **more: Any) -> Play:
    source = {"repo_id": REPO, "endpoint": f"http://{NODE}:{PORT}"}
    variables = {
        "sglang_model_paths": [target],
        "sglang_model_sources": {target: source},
        "sglang_model_reserve_gib": 0,
    }
    return controller.play("model.yml", *options, variables={**variables, **more})


def of_fetch(play: Play) -> dict[str, Any]:
    return [t["res"] for t in play.tasks if t["task"].startswith("Fetch the model") and t["status"] != "skipped"][-1]


def test_check_mode_tells_how_much_would_come(lab: Lab, controller: Controller, hub: Hub) -> None:
    play = fetch(controller, "--check", "--diff")
    assert play.status == "successful", play.text()
    assert of_fetch(play)["to_move_gib"] > 0 and SHARD in play.text()
    assert lab.ct("ls", "/opt/llmhost/fetched", check=False).strip() == ""


def test_a_cut_download_goes_on_and_a_second_run_asks_nobody(lab: Lab, controller: Controller, hub: Hub) -> None:
    hub.faults({"path": "^/cdn/.*notes", "method": "GET", "cut_after": 1_000_000, "times": 2})
    play = fetch(controller)
    assert play.status == "successful", play.text()
    assert any(item["range"] for item in hub.requests() if "notes.dat" in item["path"]), hub.requests()
    asked = len(hub.requests())
    again = fetch(controller)
    assert again.status == "successful" and again.changed() == [] and len(hub.requests()) == asked
    record = json.loads(lab.ct("cat", TARGET + "/.llmhost-snapshot.json"))
    assert record["commit"] == of_fetch(play)["commit"] and record["source"]["revision"] == "main"


def test_a_slow_download_shows_how_far_it_is(lab: Lab, controller: Controller, hub: Hub) -> None:
    lab.ct("rm", "-rf", TARGET)
    hub.faults({"path": "^/cdn/.*notes", "method": "GET", "rate": 50_000})  # 2 MiB in 40 s
    play = fetch(controller)
    assert play.status == "successful", play.text()
    shown = [at for at, line in play.lines if f"[ct129] {TARGET}: " in line and " %)" in line]
    assert shown and play.seconds - shown[0] > 1, "shown while it ran, and not at its end"
    assert of_fetch(play)["moved_bytes"] > 2**21 and len(of_fetch(play)["fetched"]) > 2
    hub.faults()


def test_a_corrupt_shard_is_seen_and_that_file_alone_fetched_again(lab: Lab, controller: Controller, hub: Hub) -> None:
    lab.ct("sh", "-c", f"printf XXXX | dd of={TARGET}/{SHARD} bs=1 seek=5000 conv=notrunc status=none")
    only_look = controller.play("model.yml", variables={"sglang_model_paths": [TARGET]})
    assert only_look.status == "failed"
    assert only_look.result("model_snapshot")["reason"] == "hash_mismatch"
    play = fetch(controller)
    assert play.status == "successful", play.text()
    assert of_fetch(play)["fetched"] == [SHARD]
    assert controller.play("model.yml", variables={"sglang_model_paths": [TARGET]}).status == "successful"


def test_what_the_servers_user_may_not_read_is_named(lab: Lab, controller: Controller, hub: Hub) -> None:
    lab.ct("chmod", "0600", f"{TARGET}/{SHARD}")
    play = controller.play("model.yml", variables={"sglang_model_paths": [TARGET]})
    assert play.status == "failed"
    failed = play.result("model_snapshot")
    assert failed["reason"] == "unreadable" and f"{TARGET}/{SHARD}" in failed["msg"] and "chmod" in failed["msg"]
    lab.ct("chmod", "0644", f"{TARGET}/{SHARD}")


def test_a_disk_that_is_too_small(lab: Lab, controller: Controller, hub: Hub) -> None:
    lab.ct("mkdir", "-p", SMALL)
    lab.ct("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", SMALL)
    lab.ct("sh", "-c", f"head -c 15500000 /dev/zero > {SMALL}/filler")
    refused = fetch(controller, target=SMALL + "/tiny")
    assert refused.status == "failed" and of_fetch(refused)["reason"] == "no_room"
    assert lab.ct("ls", "-A", SMALL).split() == ["filler"], "something was made before the room was looked at"
    full = fetch(controller, target=SMALL + "/tiny", sglang_model_reserve_gib=-1)  # as if another filled it meanwhile
    assert full.status == "failed" and of_fetch(full)["reason"] == "no_space", of_fetch(full)
    look = controller.play("model.yml", variables={"sglang_model_paths": [SMALL + "/tiny"]})
    assert look.status == "failed" and look.result("model_snapshot")["reason"] == "incomplete"
    lab.ct("rm", SMALL + "/filler")
    play = fetch(controller, target=SMALL + "/tiny")
    assert play.status == "successful", play.text()
