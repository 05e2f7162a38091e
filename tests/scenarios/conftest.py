# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab and the controller for the scenarios.

The container, systemd, ssh and SGLang are real; only the GPU driver is simulated (tests/lab/README.md).
Playbooks run through ansible-runner, the engine of AWX, so that a test sees each task's result as a job would.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ansible_runner
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "tests/lab/lab"
FULL = bool(os.environ.get("LLMHOST_FULL"))
VMID = 129
UNIT = "sglang-demo.service"


@dataclass
class Play:
    """What one run of ansible-playbook did."""

    status: str
    seconds: float
    stats: dict[str, Any]
    tasks: list[dict[str, Any]] = field(default_factory=list)  # host, task, action, status, res, created
    lines: list[tuple[float, str]] = field(default_factory=list)  # what it printed, with seconds since the start
    artifacts: dict[str, Any] = field(default_factory=dict)  # set_stats

    def result(self, action: str, host: str | None = None) -> dict[str, Any]:
        """The result of the last task with this module; of one that was skipped only where none ran."""
        tasks = [t for t in self.tasks if t["action"].split(".")[-1] == action and host in (None, t["host"])]
        found = [t["res"] for t in tasks if t["status"] != "skipped"] or [t["res"] for t in tasks]
        assert found, "no task with the module %s ran; these did: %s" % (action, [t["action"] for t in self.tasks])
        return found[-1]

    def changed(self) -> list[str]:
        return ["%(host)s: %(task)s" % t for t in self.tasks if t["res"].get("changed") and t["status"] == "ok"]

    def text(self) -> str:
        return "\n".join(line for _at, line in self.lines)


class Lab:
    """The make-believe Proxmox node with its container."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "LAB": str(folder)}
        cache = os.environ.get("LLMHOST_CACHE") or os.path.expanduser("~/.cache/llmhost-sglang")
        # /opt/llmhost in the container
        self.data = pathlib.Path(cache) / "lab/data" / folder.name.replace("llmhost-demo", "demo")

    def __call__(self, *command: str, check: bool = True, timeout_s: float = 900, stdin: str | None = None) -> str:
        done = subprocess.run(
            [str(LAB), *command],
            env=self.env,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError("lab %s: %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
        return done.stdout

    def node(self, *command: str, **options: Any) -> str:
        """Run a command on the node."""
        return self("run", *command, **options)

    def model(self, name: str, *options: str) -> str:
        """Make a model, whole or broken, and return its path in the container."""
        self("model", *options, str(self.data / "models" / name))
        return "/opt/llmhost/models/" + name

    def ct(self, *command: str, **options: Any) -> str:
        """Run a command in the container."""
        return self.node("pct", "exec", str(VMID), "--", *command, **options)

    def at(self, vmid: int, script: str, **options: Any) -> str:
        """Run a script in one of several containers."""
        return self.node("pct", "exec", str(vmid), "--", "sh", "-c", script, **options)

    def addresses(self, *vmids: int, way: str = "") -> dict[str, dict[str, Any]]:
        """The node's and the containers' variables in an inventory: addresses and ways in alone."""
        words = [*(["--" + way] if way else []), *map(str, vmids)]
        found: dict[str, dict[str, Any]] = yaml.safe_load(self("inventory", *words))["all"]["hosts"]
        return found


class Controller:
    """Where ansible-playbook runs: the checkout's own inventory and the lab's addresses."""

    def __init__(self, lab: Lab, work: pathlib.Path) -> None:
        self.lab = lab
        self.work = work
        self.inventories: dict[str, pathlib.Path] = {}

    def inventory(self, way: str) -> list[str]:
        """ssh: through the node into the container; pct: our connection; pct-remote: community.proxmox's."""
        if way not in self.inventories:
            path = self.work / ("addresses-%s.yml" % way)
            path.write_text(self.lab("inventory", *(["--" + way] if way != "ssh" else []), str(VMID)))
            self.inventories[way] = path
        return [str(ROOT / "inventories/lab"), str(self.inventories[way])]

    def play(
        self,
        playbook: str | pathlib.Path,
        *options: str,
        way: str = "ssh",
        variables: dict[str, Any] | None = None,
        timeout_s: int = 900,
        cancel: Callable[[], bool] | None = None,
        inventory: list[str] | None = None,
    ) -> Play:
        """Run a playbook: by full name (``llmhost.sglang.deploy``), or a file below tests/scenarios/files.

        ``cancel`` is asked again and again; once it is true, the job is cancelled as AWX does it.
        """
        path = str(ROOT / "tests/scenarios/files" / playbook) if str(playbook).endswith(".yml") else str(playbook)
        data = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        began = time.monotonic()
        play = Play("", 0.0, {})

        def event(event: dict[str, Any]) -> bool:
            text = event.get("stdout") or ""
            play.lines += [(time.monotonic() - began, line) for line in text.splitlines() if line.strip()]
            kind, data = event["event"], event.get("event_data") or {}
            if kind in ("runner_on_ok", "runner_on_failed", "runner_on_skipped", "runner_on_unreachable"):
                play.tasks.append(
                    {
                        "host": data.get("host"),
                        "task": data.get("task"),
                        "action": data.get("resolved_action") or data.get("task_action") or "",
                        "status": kind[len("runner_on_") :],
                        "res": data.get("res") or {},
                        "created": event["created"],
                    }
                )
            elif kind == "playbook_on_stats":
                play.artifacts = data.get("artifact_data") or {}
            return False

        runner = ansible_runner.run(
            private_data_dir=str(data),
            playbook=path,
            inventory=inventory or self.inventory(way),
            extravars=variables or {},
            cmdline=" ".join(options) or None,
            event_handler=event,
            quiet=True,
            timeout=timeout_s,
            cancel_callback=cancel,
            envvars={
                "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
                "ANSIBLE_HOST_KEY_CHECKING": "true",
                "ANSIBLE_INJECT_FACT_VARS": "false",
                "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
                "PATH": os.environ["PATH"],
                "HOME": str(self.lab.folder / "home"),  # proxmox_pct_remote reads no other known_hosts
            },
            settings={"suppress_ansible_output": True},
        )
        play.status, play.stats = runner.status, runner.stats or {}
        play.seconds = time.monotonic() - began
        shutil.rmtree(data, ignore_errors=True)
        return play


# Seen green file by file or in parts; together they would take the gate over its hour on two cores.
FULL_ONLY = {
    "test_driver_change.py",
    "test_fleet.py",
    "test_live.py",
    "test_model_fetch.py",
    "test_nodes.py",
    "test_nodes_upgrade.py",
    "test_nvidia_roles.py",
    "test_plan_tls_remove.py",
    "test_proxmox_connection.py",
    "test_proxmox_container.py",
    "test_router.py",
    "test_router_upgrade.py",
    "test_start_faults.py",
    "test_upgrade_tiny.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What wants a fresh host comes first, for all share one container; what is long runs with script/test full."""
    items.sort(key=lambda item: item.path.name != "test_deploy.py")
    for item in items:
        if not FULL and item.path.name in FULL_ONLY:
            item.add_marker(pytest.mark.skip(reason="only with script/test full"))


@pytest.fixture(scope="session")
def work() -> Iterator[pathlib.Path]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="llmhost-scenarios-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab of this run's own, taken down at the end; its downloads and images are cached outside the tree.

    LLMHOST_LAB names one that is up and stays, such as script/demo's: for work on one scenario.
    """
    if os.environ.get("LLMHOST_LAB"):
        yield Lab(pathlib.Path(os.environ["LLMHOST_LAB"]))
        return
    lab = Lab(pathlib.Path(tempfile.gettempdir()) / ("llmhost-lab-%d" % os.getpid()))
    try:
        for step in (["packages"], ["build", "bookworm"], ["sglang"], ["up"]):
            began = time.monotonic()
            print(lab(*step, timeout_s=2400), file=sys.stderr)
            print("lab %s: %.0f s" % (" ".join(step), time.monotonic() - began), file=sys.stderr)
        lab("ct", str(VMID), "bookworm", "--data", str(lab.data))
        yield lab
    finally:
        lab("down", check=False)
        shutil.rmtree(lab.data, ignore_errors=True)


@pytest.fixture(scope="session")
def controller(lab: Lab, work: pathlib.Path) -> Controller:
    return Controller(lab, work)


@pytest.fixture(scope="session")
def runtime(lab: Lab, controller: Controller) -> str:
    """The real SGLang in the container, installed by the role (or there already), and a whole model."""
    play = controller.play("runtime.yml")
    assert play.status == "successful", play.text()
    lab.model("tiny")
    return "/opt/llmhost/runtime"
