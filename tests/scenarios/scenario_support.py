# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios of single modules share: calls of modules on a host of the lab, and recorded starts as servers."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conftest import FULL, VMID, Controller, Lab

HOST = f"ct{VMID}"
PYTHON = "/opt/llmhost/replay/bin/python"
PORT = 30050
TINY = "/opt/llmhost/models/tiny"
REAL_ARGUMENTS = ["--device", "cpu", "--max-total-tokens", "4096", "--sleep-on-idle"]
STATE = "/var/lib/llmhost/instances"
CARDS_FILE = "/etc/llmhost-sim/gpu.state"  # what the simulated driver says
DRIVER = ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/bin/nvidia-smi")
READY_S = 200  # a real start on a busy machine
# The service's account and a folder that a replayed server takes for its model.
ACCOUNT = (
    "getent group sglang >/dev/null || groupadd --system sglang; "
    "getent passwd sglang >/dev/null || useradd --system -g sglang -M -s /usr/sbin/nologin sglang; "
    "mkdir -p /srv/model && echo {} > /srv/model/config.json"
)


@dataclass(frozen=True)
class Task:
    """One call of a module."""

    module: str
    args: dict[str, Any]
    check: bool = False
    diff: bool = False
    fails: bool = False


def server(check: bool = False, diff: bool = False, fails: bool = False, **args: Any) -> Task:
    return Task("server", args, check, diff, fails)


def info(**args: Any) -> Task:
    return Task("server_info", args)


def probe(fails: bool = False, **args: Any) -> Task:
    return Task("completion_probe", args, fails=fails)


def gpu_clean(check: bool = False, diff: bool = False, fails: bool = False, **args: Any) -> Task:
    return Task("gpu_clean", args, check, diff, fails)


class Bench:
    """Runs modules on one host of the lab, several in one play, and looks at what came of it."""

    def __init__(self, lab: Lab, controller: Controller, work: pathlib.Path, host: str = HOST) -> None:
        self.lab = lab
        self.controller = controller
        self.work = work
        self.host = host
        self.text = ""  # what the last play printed

    def write_play(self, *tasks: Task, tell: pathlib.Path | None = None) -> pathlib.Path:
        path = pathlib.Path(tempfile.mkdtemp(dir=self.work)) / "tasks.yml"  # two may run at once
        plays: list[dict[str, Any]] = [
            {
                "name": f"Task {at}",
                "llmhost.sglang." + task.module: task.args,
                "check_mode": task.check,
                "diff": task.diff,
                "ignore_errors": task.fails,
                "register": f"result_{at}",
            }
            for at, task in enumerate(tasks)
        ]
        if tell is not None:
            found = "{{ [%s] | to_json }}" % ", ".join(f"result_{at}" for at in range(len(tasks)))
            copy = {"content": found, "dest": str(tell), "mode": "0600"}
            plays.append({"name": "Tell", "ansible.builtin.copy": copy, "delegate_to": "localhost"})
        path.write_text(json.dumps([{"hosts": self.host, "gather_facts": False, "tasks": plays}]))
        return path

    def beside(self, *tasks: Task) -> Beside:
        """Start a play that runs beside the test."""
        return Beside(self, tasks)

    def run(self, *tasks: Task, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The results of some tasks, of which each must do what it is expected to: succeed or fail."""
        play = self.controller.play(self.write_play(*tasks), *options)
        self.text = play.text()
        found = [(one["status"], one["res"]) for one in play.tasks]
        for task, (status, result) in zip(tasks, found):
            assert (status == "failed") == task.fails, (task, json.dumps(result, indent=1))
        assert len(found) == len(tasks), self.text
        return [result for _status, result in found]

    def one(self, task: Task, *options: str) -> dict[str, Any]:
        return self.run(task, options=options)[0]

    def server(self, **args: Any) -> dict[str, Any]:
        return self.one(server(**args))

    def sh(self, script: str, **options: Any) -> str:
        return self.lab.ct("sh", "-c", script, **options)

    def write(self, path: str, text: str) -> None:
        self.lab.ct("sh", "-c", 'cat > "$1" && chmod 0644 "$1"', "sh", path, stdin=text)

    def show(self, name: str, key: str) -> str:
        return self.sh(f"systemctl show --value -p {key} sglang-{name}.service").strip()

    def answers(self, port: int = PORT) -> bool:
        """Whether a server on that port makes tokens."""
        ask = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/health', timeout=30)"
        return self.sh(f'python3 -c "{ask}" 2>/dev/null && echo yes || true', check=False).strip() == "yes"

    def told(self) -> dict[str, Any]:
        wait(lambda: self.sh("test -e /run/told/out.json && echo yes || true").strip() == "yes")
        return json.loads(self.sh("cat /run/told/out.json"))

    def family(self) -> set[str]:
        return set(self.sh("pgrep -f 'family[.]py' || true").split())

    def children(self) -> set[str]:
        """The family's children, once both run."""
        find = "pgrep -f 'family[.]py child' || true"
        wait(lambda: len(self.sh(find).split()) == 2)
        return set(self.sh(find).split())


class Beside:
    """A play in an ansible-playbook of its own, which may be killed."""

    def __init__(self, bench: Bench, tasks: tuple[Task, ...]) -> None:
        folder = pathlib.Path(tempfile.mkdtemp(dir=bench.work))
        self.tasks = tasks
        self.tell, self.log = folder / "results.json", folder / "log"
        inventories = [word for path in bench.controller.inventory("ssh") for word in ("-i", path)]
        play = bench.write_play(*tasks, tell=self.tell)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["ansible-playbook", *inventories, str(play)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "HOME": str(bench.lab.folder / "home"), "ANSIBLE_HOST_KEY_CHECKING": "true"},
            )

    def until(self, text: str) -> None:
        """Wait until it has printed that."""
        wait(lambda: text in self.log.read_text() or self.process.poll() is not None, 60)
        assert text in self.log.read_text(), self.log.read_text()

    def kill(self) -> None:
        """The controller is gone, with all that it started on its own machine: no task ends."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def results(self) -> list[dict[str, Any]]:
        """Wait for its end; what its tasks returned."""
        self.process.wait(timeout=300)
        assert self.tell.exists(), self.log.read_text()
        found: list[dict[str, Any]] = json.loads(self.tell.read_text())
        for task, result in zip(self.tasks, found):
            assert bool(result.get("failed")) == task.fails, (task, json.dumps(result, indent=1))
        return found


def wait(condition: Callable[[], bool], timeout_s: float = 30, tell: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {timeout_s:g} s. {tell()}"
        time.sleep(0.2)


def replayed(
    name: str = "chat", recording: str = "ok-clean-recipe", speed: float = 20, port: int = PORT, **more: Any
) -> dict[str, Any]:
    """Parameters of a server that is a recorded start, or the real one with ``script/test full``."""
    arguments = [*REAL_ARGUMENTS, *more.pop("arguments", [])] if FULL else more.pop("arguments", [])
    python, model = ("/opt/llmhost/runtime/bin/python", TINY) if FULL else (PYTHON, "/srv/model")
    replay = {"LLMHOST_REPLAY": recording, "LLMHOST_REPLAY_SPEED": str(speed)}
    return {
        "name": name,
        "argv": [python, "-m", "sglang.launch_server", "--model-path", model, "--port", str(port), *arguments],
        "environment": {"SGLANG_USE_CPU_ENGINE": "1"} if FULL else replay,
        "port": port,
        "required_paths": [model],
        "drain_timeout_s": 20,
        **more,
    }


def driver_inside(lab: Lab, text: str) -> None:
    """The simulated driver in the container, with a state of its own: it sees the container's processes alone."""
    library = lab.node("sh", "-c", f"ls {DRIVER[0]} /usr/lib/libnvidia-ml.so.1 2>/dev/null | head -n1").strip()
    for source, path in zip((library, DRIVER[1]), DRIVER):
        lab.node("pct", "push", str(VMID), source, path, "--perms", "0755")
    lab.at(VMID, f"ldconfig; mkdir -p -m 777 {os.path.dirname(CARDS_FILE)}; cat > {CARDS_FILE}", stdin=text)


def no_driver_inside(lab: Lab) -> None:
    lab.at(VMID, f"rm -rf {CARDS_FILE}* {' '.join(DRIVER)}; ldconfig")
