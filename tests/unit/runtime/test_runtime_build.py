# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments that are really built, from wheels of a few kilobytes: proof, switch, interruption, order."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import zipfile

import pytest
from runtime_support import ENVIRONMENT, NEW, OLD, UV, LlmHostError, Recipe, World

pytestmark = [
    pytest.mark.skipif(not UV, reason="no uv (the stage 'unit' names one in UV); pip takes a minute for these"),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="SGLang needs 3.11, and this Python builds its environment"),
]
SCRIPT = """
import json, sys
from runtime_support import ENVIRONMENT, runtime
params = json.loads(sys.argv[1])
try:
    result = runtime.run(runtime.read(params, ENVIRONMENT, False))
except Exception as error:
    sys.exit("%s: %s" % (getattr(error, "reason", type(error).__name__), error))
print(json.dumps([result["built"], result["switched"]]))
"""


def test_new_beside_old_switched_by_a_link_and_back(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    would = world.run(OLD, check_mode=True)
    assert would["changed"] and would["built"] and not world.root.exists()
    old = world.run(OLD)
    assert old["built"] and old["switched"] and old["marker"]["packages"] >= 3
    assert os.readlink(world.link) == old["folder"] and not world.run(OLD)["changed"]
    beside = world.run(NEW, state="present")
    assert beside["built"] and not beside["switched"] and beside["current"] == old["runtime"]
    new = world.run(NEW)
    assert not new["built"] and new["switched"] and new["previous"] == old["runtime"]
    assert new["diff"]["before"] != new["diff"]["after"]
    back = world.run(NEW, runtime="previous")
    assert back["switched"] and back["current"] == old["runtime"] and back["previous"] == new["runtime"]
    assert [item["name"] for item in back["runtimes"]] == [old["runtime"], new["runtime"]]
    done = subprocess.run(
        [world.link / "bin/python", "-c", "import sglang; print(sglang.__version__)"], capture_output=True
    )
    assert done.stdout.decode().strip() == OLD
    assert not (world.root / ".tmp").exists() and not (world.root / ".cache").exists()


@pytest.mark.parametrize(
    ("recipe", "reason", "word"),
    [
        (Recipe(NEW, raises="no such symbol"), "import_failed", "no such symbol"),
        (Recipe(NEW, torch_cuda="13.0", kernel="0.4.9"), "kernel_mismatch", "0.4.10"),
    ],
)
def test_what_does_not_pass_is_not_used(tmp_path: pathlib.Path, recipe: Recipe, reason: str, word: str) -> None:
    world = World(tmp_path, Recipe(OLD), recipe)
    old = world.run(OLD)
    error = world.fails(NEW)
    assert error.reason == reason and word in error.message
    assert world.layout.current() == old["runtime"]
    assert [each.ready for each in world.layout.all()].count(True) == 1
    again = World(tmp_path, Recipe(OLD), Recipe(NEW))  # the wheel is corrected
    assert again.run(NEW)["switched"]


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_lock_is_recorded_with_hashes_and_then_required(tmp_path: pathlib.Path, installer: str) -> None:
    world = World(tmp_path)
    lock = str(tmp_path / "locks/sglang.txt")
    recorded = world.run(NEW, lock="record", lock_file=lock, installer=installer)
    text = pathlib.Path(lock).read_text()
    for name, wheel in ((f"sglang=={NEW}", f"sglang-{NEW}"), ("tiny-helper==1.0", "tiny_helper-1.0")):
        digest = hashlib.sha256((world.house / f"{wheel}-py3-none-any.whl").read_bytes()).hexdigest()
        assert f"{name} \\\n    --hash=sha256:{digest}\n" in text
    assert "pip==" not in text
    required = world.run(NEW, lock="require", lock_file=lock)
    assert required["runtime"] == recorded["runtime"] and not required["changed"], "it is what was recorded"

    other = World(tmp_path / "other")
    assert other.run(NEW, lock="require", lock_file=lock, installer=installer)["built"]
    altered = World(tmp_path / "altered")
    with zipfile.ZipFile(altered.house / "tiny_helper-1.0-py3-none-any.whl", "a") as zipped:
        zipped.comment = b"not what was recorded"
    error = altered.fails(NEW, lock="require", lock_file=lock, installer=installer)
    assert error.reason == "install_failed" and "hash" in error.message.lower()

    pathlib.Path(lock).write_text(text.replace("tiny-helper==1.0", "tiny-helper==2.0"))
    error = world.fails(NEW, lock="require", lock_file=lock)
    assert error.reason == "preflight" and "tiny-helper==2.0" in error.message
    assert world.layout.current() == recorded["runtime"]


def test_the_lock_names_another_version_than_was_asked_for(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    error = world.fails(NEW, lock_file=str(world.house / f"lock-{OLD}.txt"))
    assert error.reason == "wrong_version" and OLD in error.message and not world.link.exists()


def start(world: World, **given: object) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(place for place in sys.path if place)
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(world.params(**given))],
        env={**ENVIRONMENT, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_two_at_once_build_it_once(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    answers = [child.communicate()[0] for child in [start(world), start(world)]]
    assert sorted(json.loads(answer) for answer in answers) == [[False, False], [True, True]]


def test_killed_anywhere_it_never_looks_ready_and_the_next_run_completes_it(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    old = world.run(OLD)["runtime"]
    new = pathlib.Path(world.run(NEW)["folder"])
    files = files_in(new)
    shares = random.Random(8)
    cut = 0
    for _each in range(20 if os.environ.get("LLMHOST_FULL") else 3):
        world.layout.switch(old)
        shutil.rmtree(new)
        least = shares.uniform(-0.1, 1.0) * files  # below nothing: before the first file
        child = start(world)
        while files_in(new) < least and child.poll() is None:
            time.sleep(0.001)
        child.kill()
        child.wait()
        if world.layout.runtime(new.name).ready:  # it was finished, so it must be whole
            assert whole(new)
        else:
            cut += 1
            assert world.layout.current() == old
        assert world.run()["current"] == new.name and whole(world.link)
        assert world.run()["changed"] is False
    assert cut, "nothing was cut"


def files_in(folder: pathlib.Path) -> int:
    return sum(len(names) for _top, _folders, names in os.walk(folder))


def whole(venv: pathlib.Path) -> bool:
    code = "import sglang.launch_server, tiny_helper.part_000, tiny_helper.part_199"
    return subprocess.run([venv / "bin/python", "-c", code], check=False).returncode == 0


def test_a_pip_that_outlives_its_module_keeps_the_next_run_away(tmp_path: pathlib.Path) -> None:
    """The kernel kills pip with its module; were it not so, pip would still hold the lock."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._runtime import programs

    code = "import sys; sys.path[:0] = %r\nfrom runtime_support import *" % [p for p in sys.path if p]
    marker = tmp_path / "alive"
    inner = f"import time, pathlib; pathlib.Path({str(marker)!r}).touch(); time.sleep(60)"
    code += (
        "\nfrom ansible_collections.llmhost.sglang.plugins.module_utils._runtime import programs"
        f"\nprograms.run([sys.executable, '-c', {inner!r}], dict(__import__('os').environ))"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    while not marker.exists():
        assert child.poll() is None
        time.sleep(0.02)
    below = int(pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()[0])
    child.kill()
    child.wait()
    deadline = time.monotonic() + 5
    while pathlib.Path(f"/proc/{below}").exists():
        state = pathlib.Path(f"/proc/{below}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (
        programs.run([sys.executable, "-c", "import time; time.sleep(9)"], dict(os.environ), timeout_s=0.3).code == 124
    )


def test_pip_builds_the_same(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    result = world.run(installer="pip")
    assert result["marker"]["installer"] == "pip" and result["switched"]
    assert list(world.link.glob("lib/python3*/site-packages/tiny_helper/__pycache__/part_199.*")), "not compiled"


def test_disk_full_says_so(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    error = world.fails(reserve_gib=1e9)
    assert error.reason == "preflight" and error.details["failed_checks"] == ["disk"] and not world.root.exists()


def test_a_link_that_is_a_folder_is_left_alone(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.link.mkdir(parents=True)
    assert world.fails().reason == "link_is_no_link"


def test_what_was_left_as_broken_is_not_gone_back_to(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    for number, name in enumerate(("0.5.1-11111111", "0.5.2-22222222", "0.5.3-33333333")):
        world.fake(name, number)
        world.layout.switch(name)
    back = world.run("0.5.3", runtime="previous", broken=True, prune=False, lock_file="")
    assert back["current"] == "0.5.2-22222222" and back["previous"] == "0.5.1-11111111"
    world.layout.switch("0.5.3-33333333")  # it was mended
    world.layout.switch("0.5.1-11111111")
    assert world.layout.previous() == "0.5.3-33333333"


def test_nothing_to_go_back_to(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.run()
    assert world.fails(runtime="previous").reason == "no_previous"
    assert world.fails(runtime="0.5.1-00000000").reason == "not_ready"
    with pytest.raises(LlmHostError):
        world.run(runtime="../wheels")
