# SPDX-License-Identifier: GPL-3.0-or-later
"""The role sglang_runtime in the container with wheels of a few kilobytes: what is refused before a download, a full
disk, an installation that is killed. The real wheels: every other scenario is installed from them."""

from __future__ import annotations

import pathlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import FULL, ROOT, Controller, Lab, Play

sys.path.insert(0, str(ROOT / "tests/lab/lablib"))
import lab_tiny  # noqa: E402

pytestmark = pytest.mark.skipif(not FULL, reason="script/test full; tests/unit/runtime has the same, no container")
VERSION, HOME = "0.5.23", "/opt/llmhost/tinier"


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[pathlib.Path]:
    yield lab_tiny.make(lab.data / "tinier/wheels")
    lab.ct("umount", HOME + "/small", check=False)
    lab.ct("rm", "-rf", HOME)


def install(controller: Controller, place: str = HOME, **more: Any) -> Play:
    variables = {
        "sglang_runtime_version": VERSION,
        "sglang_runtime_wheelhouse": HOME + "/wheels",
        "sglang_runtime_lock_file": f"{HOME}/wheels/lock-{VERSION}.txt",
        "sglang_runtime_root": place + "/runtimes",
        "sglang_runtime_link": place + "/runtime",
        "sglang_runtime_reserve_gib": 0,
        **more,
    }
    return controller.play("runtime.yml", variables=variables)


def ready(lab: Lab, place: str = HOME) -> str:
    return lab.ct("sh", "-c", f"ls {place}/runtimes/*/.llmhost-runtime.json 2>/dev/null || true").strip()


def test_what_cannot_work_is_told_before_anything_is_made(
    lab: Lab, controller: Controller, house: pathlib.Path
) -> None:
    play = install(controller, sglang_runtime_python="/usr/bin/python2", sglang_runtime_reserve_gib=1_000_000)
    assert play.status == "failed"
    failed = play.result("sglang_runtime")
    assert failed["reason"] == "preflight" and {"python", "disk"} <= set(failed["failed_checks"])
    assert lab.ct("ls", HOME).split() == ["wheels"]


def test_a_disk_that_fills_up(lab: Lab, controller: Controller, house: pathlib.Path) -> None:
    small = HOME + "/small"
    lab.ct("mkdir", "-p", small)
    lab.ct("mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", small)
    lab.ct("sh", "-c", f"head -c 204000000 /dev/zero > {small}/filler")
    play = install(controller, small, sglang_runtime_need_gib=0.001)
    assert play.status == "failed"
    assert play.result("sglang_runtime")["reason"] in ("no_space", "environment_failed"), play.result("sglang_runtime")
    assert ready(lab, small) == ""
    lab.ct("rm", small + "/filler")
    play = install(controller, small)
    assert play.status == "successful", play.text()
    assert ready(lab, small)


def test_killed_in_the_middle_it_is_completed_by_the_next_run(
    lab: Lab, controller: Controller, house: pathlib.Path
) -> None:
    code = (
        "import glob, os, signal, time\n"
        "while True:\n"
        "    for path in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "        try:\n"
        "            words = open(path, 'rb').read()\n"
        "        except OSError:\n"
        "            continue\n"
        f"        if words.startswith(b'{HOME}/runtimes') and b'install' in words:\n"
        "            parent = int(open(path.replace('cmdline', 'stat')).read().rpartition(')')[2].split()[1])\n"
        "            os.kill(parent, signal.SIGKILL)\n"
        "            raise SystemExit(0)\n"
        "    time.sleep(0.02)\n"
    )
    killer = threading.Thread(target=lambda: lab.ct("timeout", "120", "python3", "-c", code, check=False))
    killer.start()
    play = install(controller)
    killer.join()
    assert play.status == "failed", "nothing was killed"
    assert ready(lab) == "" and lab.ct("ls", HOME + "/runtime", check=False).strip() == ""
    deadline = time.monotonic() + 10
    while lab.ct("sh", "-c", f"pgrep -f ^{HOME}/runtimes || true").strip():
        assert time.monotonic() < deadline, "pip outlived what started it"
        time.sleep(0.2)
    play = install(controller)
    assert play.status == "successful", play.text()
    assert ready(lab)
    again = install(controller)
    assert again.status == "successful" and again.changed() == []
