# SPDX-License-Identifier: GPL-3.0-or-later
"""What GitHub would run is what .ci/run runs here. (The stage "lint" holds the files against GitHub's schema.)"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
WORKFLOWS: dict[str, dict[str, Any]] = {path.name: yaml.safe_load(path.read_text()) for path in FILES}
STEPS = [
    (name, job, step)
    for name, workflow in WORKFLOWS.items()
    for job, spec in workflow["jobs"].items()
    for step in spec["steps"]
]
COMMON = (ROOT / "script/lib/common.sh").read_text()


def test_the_pythons_are_those_that_the_commands_look_for() -> None:
    all_of_them = re.search(r"for version in (3\.9[ 0-9.]+); do", COMMON)
    tools = re.search(r"case \$version in ([0-9. |]+)\) MAIN_PYTHON", COMMON)
    assert all_of_them and tools
    jobs = WORKFLOWS["ci.yml"]["jobs"]
    assert jobs["quick"]["strategy"]["matrix"]["python"] == tools[1].split(" | ")
    setup = next(step for step in jobs["all"]["steps"] if "setup-python" in step.get("uses", ""))
    assert setup["with"]["python-version"].split() == all_of_them[1].split()


def test_continuous_integration_runs_ci_run_and_nothing_else() -> None:
    commands = [step["run"] for name, _job, step in STEPS if name == "ci.yml" and "run" in step]
    assert commands == [".ci/run quick", "sudo --preserve-env=PATH,HOME .ci/run"]
    test = (ROOT / "script/test").read_text()
    for _name, _job, step in STEPS:
        found = re.search(r"\.ci/run ([a-z ]+)$", step.get("run", ""))
        for stage in found[1].split() if found else []:
            assert stage == "quick" or re.search(r"(?:QUICK|CI|ALL)=\([^)]*\b%s\b" % stage, test), stage


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_only_read(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    for job in WORKFLOWS[name]["jobs"].values():
        assert job["timeout-minutes"] <= 120
    for _name, _job, step in STEPS:
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
        assert "@" in step.get("uses", "@"), "an action without a version"


@pytest.mark.parametrize(
    "step", [step for _name, _job, step in STEPS if "run" in step], ids=lambda step: step["run"][:40]
)
def test_the_commands_are_sound(step: dict[str, Any]) -> None:
    """By shellcheck; and no expression of GitHub's is pasted into a shell."""
    assert "${{" not in step["run"]
    done = subprocess.run(
        ["shellcheck", "--shell=bash", "-"], input=step["run"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
