# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance like the one that this collection was made for: two cards of 48 GB, a model with recurrent states.

Cards and server are simulated (tests/lab/nvml, tests/lab/replay); container, systemd, processes, plan, verdict and
decisions are real.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._memory import expected
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import from_config
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_examples, memory_facts
from conftest import ROOT, Controller, Lab, Play

NAME = "founding"
UNIT = f"sglang-{NAME}.service"
RUNTIME = "/opt/llmhost/replay-0.5.9"
MODEL = "/opt/llmhost/models/founding"
STORIES = "/opt/llmhost/stories"
STATE = "/var/lib/llmhost"
RECORD = f"{STATE}/instances/{NAME}/known_good.json"
PORT = 30040
SPEED = "20"
# Two cards of 48 GB; each rank holds what its weights and pools would take, and gives it back a second after its death.
CARDS = """\
gpu 0 name="NVIDIA RTX A6000 (simulated)" total=49140 reserved=563 base=0
gpu 1 name="NVIDIA RTX A6000 (simulated)" total=49140 reserved=563 base=0
release_ms 1000
hold gpu=0 mem=27000 cmd=^sglang::scheduler_TP0
hold gpu=1 mem=27000 cmd=^sglang::scheduler_TP1
"""


class Founding:
    """Runs the role with this one instance, and looks at what came of it."""

    def __init__(self, lab: Lab, controller: Controller) -> None:
        self.lab = lab
        self.controller = controller

    def deploy(self, *options: str, story: str = "", arguments: dict[str, Any] | None = None, **variables: Any) -> Play:
        given = {**memory_examples.FOUNDING_ARGUMENTS, **(arguments or {})}
        story = story or f"--max-running-requests=8?{STORIES}/founding-works.tsv:{STORIES}/founding-fails.tsv"
        instance = {
            "model": MODEL,
            "port": PORT,
            "gpus": [0, 1],
            "arguments": {name: value for name, value in given.items() if value is not None},
            "environment": {"LLMHOST_REPLAY": story, "LLMHOST_REPLAY_SPEED": SPEED},
        }
        return self.controller.play(
            "servers.yml",
            *options,
            variables={
                "sglang_server_runtime": RUNTIME,
                "sglang_server_instances": {NAME: instance},
                **{"sglang_server_" + name: value for name, value in variables.items()},
            },
        )

    def invocation(self) -> str:
        return self.sh(f"systemctl show --property=InvocationID --value {UNIT}").strip()

    def argv(self) -> str:
        return self.sh(f"systemctl cat {UNIT} | grep -A40 ^ExecStart=")

    def active(self) -> str:
        return self.sh(f"systemctl is-active {UNIT} || true").strip()

    def record(self) -> dict[str, Any]:
        return json.loads(self.sh(f"cat {RECORD}"))

    def sh(self, script: str) -> str:
        return self.lab.ct("sh", "-c", script)

    def remove(self) -> None:
        self.sh(
            f"systemctl disable -q --now {UNIT} 2>/dev/null || true; rm -f /etc/systemd/system/{UNIT}; "
            f"systemctl daemon-reload; systemctl reset-failed; rm -rf {STATE}/instances/{NAME} {STATE}/calibration"
        )


def starts(play: Play) -> int:
    """How many starts a play has made. (systemd may make one more of a start that fails, before the play stops it.)"""
    return sum(1 for one in play.tasks if one["task"].endswith("Start the server") and one["res"].get("changed"))


def checkpoint(folder: pathlib.Path) -> None:
    """The model's config.json, and its weights as holes: their headers are all that a plan reads."""
    folder.mkdir(parents=True, exist_ok=True)
    config = memory_facts.config_of(memory_examples.QWEN_LINEAR)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {one.name: ("BF16", list(one.shape)) for one in expected.tensors(from_config(config))}
    memory_examples.write_sharded(str(folder), tensors, 4)
    for path in folder.iterdir():
        path.chmod(0o644)


def runtime_of(lab: Lab, version: str) -> None:
    """A replayer that says it is another version: the options of that version count, from the shipped table."""
    folder = lab.data / ("replay-" + version)
    lab("replay-runtime", str(folder))
    for info in folder.glob("lib/python*/site-packages/sglang-*.dist-info"):
        text = (info / "METADATA").read_text().replace("Version: 0.5.23", "Version: " + version)
        (info / "METADATA").write_text(text)
        info.rename(info.with_name(f"sglang-{version}+replay.dist-info"))


@contextlib.contextmanager
def prepared(lab: Lab, controller: Controller) -> Iterator[Founding]:
    """Runtime, model, stories and cards; the cards are put back at the end."""
    runtime_of(lab, "0.5.9")
    checkpoint(lab.data / "models/founding")
    (lab.data / "stories").mkdir(exist_ok=True)
    for story in (ROOT / "tests/scenarios/files").glob("founding-*.tsv"):
        shutil.copy(story, lab.data / "stories" / story.name)
    before = lab.node("cat", "/etc/llmhost-sim/gpu.state")
    put = "cat > /etc/llmhost-sim/gpu.state.new && mv /etc/llmhost-sim/gpu.state.new /etc/llmhost-sim/gpu.state"
    lab.node("sh", "-c", put, stdin=CARDS)
    founding = Founding(lab, controller)
    try:
        yield founding
    finally:
        founding.remove()
        lab.node("sh", "-c", put, stdin=before)
