# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrade and rollback between two real SGLangs: 0.5.6.post2 and the lab's newest, each started and asked on the CPU.
The versions that are broken come from wheels of a few kilobytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import FULL, ROOT, UNIT, Controller, Lab, Play

sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402
import lab_wheels  # noqa: E402

OLD, NEW = "0.5.6.post2", lab_wheels.NEWEST
NO_IMPORT, NO_START = "0.5.21", "0.5.22"
LINK, TINY = "/opt/llmhost/runtime", "/opt/llmhost/broken-wheels"
SLOW_S = 3000.0  # an installation of 500 MiB and two starts on a busy machine
long = pytest.mark.skipif(not FULL, reason="script/test full: two real starts more")
ASK = """
import json, urllib.request
url = "http://127.0.0.1:30000"
body = {"model": "tiny", "prompt": "hi", "max_tokens": 4}
post = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
tokens = json.load(urllib.request.urlopen(post, timeout=60))["usage"]["completion_tokens"]
print(json.dumps([json.load(urllib.request.urlopen(url + "/server_info", timeout=60))["version"], tokens]))
"""


@pytest.fixture(scope="module", autouse=True)
def versions(lab: Lab, controller: Controller, runtime: str) -> Iterator[None]:
    lab("sglang", OLD)
    lab_tiny.make(
        lab.data / "broken-wheels",
        (lab_tiny.Recipe(NO_IMPORT, raises="no such symbol"), lab_tiny.Recipe(NO_START, plays="f12-bad-arch")),
    )
    yield
    lab.ct("systemctl", "stop", UNIT, check=False)
    lab.ct("sh", "-c", f"rm -f /etc/systemd/system/{UNIT} && systemctl daemon-reload")
    assert controller.play("runtime.yml").status == "successful"
    lab.ct("sh", "-c", f"rm -rf {TINY} {LINK}s/{OLD}-* {LINK}s/{NO_IMPORT}-* {LINK}s/{NO_START}-*")


def play(controller: Controller, playbook: str, version: str) -> Play:
    variables: dict[str, Any] = {
        "sglang_runtime_version": version,
        "sglang_server_environment": {"TORCH_COMPILE_DISABLE": "1"},  # 0.5.6 would compile, and there is no compiler
    }
    if version in lab_wheels.VERSIONS:
        variables["sglang_runtime_lock_file"] = "/srv/wheelhouse/" + lab_wheels.VERSIONS[version].lock
    else:
        variables["sglang_runtime_wheelhouse"] = TINY
        variables["sglang_runtime_lock_file"] = f"{TINY}/lock-{version}.txt"
    return controller.play("llmhost.sglang." + playbook, variables=variables, timeout_s=int(SLOW_S))


def main_pid(lab: Lab) -> str:
    return lab.ct("systemctl", "show", "--property=MainPID", "--value", UNIT).strip()


def serves(lab: Lab, version: str) -> bool:
    """Whether the server says that it is this version, completes a prompt, and runs from the runtime in use."""
    said, tokens = json.loads(lab.ct("python3", "-c", ASK))
    command = lab.ct("sh", "-c", f"tr '\\0' ' ' < /proc/{main_pid(lab)}/cmdline")
    in_use = lab.ct("readlink", LINK).strip()
    assert command.startswith(in_use + "/bin/python"), (command, in_use)
    return said == version and tokens > 0 and in_use.rpartition("/")[2].startswith(version + "-")


def test_the_old_version_is_built_beside_and_answers(lab: Lab, controller: Controller, capsys: Any) -> None:
    done = play(controller, "upgrade", OLD)
    assert done.status == "successful", done.text()
    assert serves(lab, OLD)
    assert done.artifacts["llmhost_runtimes"]["ct129"]["version"] == OLD
    with capsys.disabled():
        print(f"\nto {OLD}, built and started: {done.seconds:.0f} s")


def test_the_new_version_answers(lab: Lab, controller: Controller, capsys: Any) -> None:
    done = play(controller, "upgrade", NEW)
    assert done.status == "successful", done.text()
    assert serves(lab, NEW)
    with capsys.disabled():
        print(f"\n{OLD} to {NEW}, already built: {done.seconds:.0f} s")


@long
def test_a_version_that_does_not_import_is_never_switched_to(lab: Lab, controller: Controller) -> None:
    pid = main_pid(lab)
    done = play(controller, "upgrade", NO_IMPORT)
    assert done.status == "failed"
    assert done.result("sglang_runtime")["reason"] == "import_failed" and "no such symbol" in done.text()
    assert main_pid(lab) == pid != "0" and serves(lab, NEW)


@long
def test_a_version_that_does_not_start_is_rolled_back_and_the_real_one_answers(
    lab: Lab, controller: Controller
) -> None:
    pid = main_pid(lab)
    done = play(controller, "upgrade", NO_START)
    assert done.status == "failed"
    assert "is in use again and answers" in done.text(), done.text()
    assert done.artifacts["llmhost_runtimes"]["ct129"]["outcome"] == "rolled_back"
    assert main_pid(lab) != pid and serves(lab, NEW)


@long
def test_rollback_goes_to_the_version_before_and_not_to_the_broken_one(lab: Lab, controller: Controller) -> None:
    done = play(controller, "rollback", NEW)
    assert done.status == "successful", done.text()
    assert serves(lab, OLD)
    assert done.artifacts["llmhost_runtimes"]["ct129"]["version"] == OLD
