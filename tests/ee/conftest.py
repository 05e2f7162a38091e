# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage "ee" of script/test says where things are: LLMHOST_INSTALLED (the built collection, as a user has it),
LLMHOST_COLLECTIONS (community.proxmox), LLMHOST_AWX (awx.awx), UV (uv).
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/unit/delivery"), str(ROOT / "script/lib"), str(pathlib.Path(__file__).parent)]

DEFINITION = ROOT / "extensions/awx/execution-environment.yml"
INSTALLED = os.environ["LLMHOST_INSTALLED"]
COLLECTIONS = os.environ["LLMHOST_COLLECTIONS"]
AWX = os.environ["LLMHOST_AWX"]


def run(*command: str | os.PathLike[str], **options: Any) -> str:
    done = subprocess.run([*command], capture_output=True, text=True, check=False, timeout=600, **options)
    assert done.returncode == 0, "%s: %d\n%s%s" % (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="session")
def definition() -> dict[str, Any]:
    return dict(yaml.safe_load(DEFINITION.read_text()))


@pytest.fixture(scope="session")
def requirements() -> list[str]:
    """What ansible-builder finds in the collections: the built one and community.proxmox."""
    found: list[str] = []
    for path in (INSTALLED, COLLECTIONS):
        data = yaml.safe_load(run("ansible-builder", "introspect", path)) or {}
        found += [line.split("#")[0].strip() for line in data.get("python") or []]
    return sorted(set(found))


@pytest.fixture(scope="session")
def environment(
    tmp_path_factory: pytest.TempPathFactory, definition: dict[str, Any], requirements: list[str]
) -> pathlib.Path:
    """A virtual environment with exactly what the execution environment would have; its bin folder."""
    venv = tmp_path_factory.mktemp("ee") / "venv"
    needed = [definition["dependencies"][key]["package_pip"] for key in ("ansible_core", "ansible_runner")]
    run(os.environ["UV"], "venv", "-q", "-p", sys.executable, venv)
    run(os.environ["UV"], "pip", "install", "-q", "-p", venv, *needed, *requirements)
    run(os.environ["UV"], "pip", "check", "-p", venv)
    return venv / "bin"
