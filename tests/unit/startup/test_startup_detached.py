# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher as a file of its own: complete, runnable by a bare Python, its status and verdict files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import detached
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.watch import Report


def test_the_payload_holds_every_room_that_it_imports(tmp_path: Path) -> None:
    """Run it with nothing of this collection around: an import that is missing would break it."""
    program = tmp_path / "watch.pyz"
    program.write_bytes(detached.payload())
    for name, data in {"request": {"name": "nosuch", "state_dir": str(tmp_path)}}.items():
        (tmp_path / name).write_text(json.dumps(data))
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            str(program),
            str(tmp_path / "request"),
            str(tmp_path / "status"),
            str(tmp_path / "verdict"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "status").read_text())["state"] == "done"
    # no systemctl in that PATH: the reason is the one of a host without systemd, and not an ImportError
    assert json.loads((tmp_path / "verdict").read_text())["error"]["reason"] == "systemd_unavailable"
    with pytest.raises(LlmHostError) as caught:
        detached.collect(str(tmp_path / "verdict"))
    assert caught.value.reason == "systemd_unavailable"


def test_the_payload_knows_the_whole_table(tmp_path: Path) -> None:
    program = tmp_path / "watch.pyz"
    program.write_bytes(detached.payload())
    code = (
        "import sys; sys.path.insert(0, %r); from llmhost_watch._startup import causes; "
        "print(causes.warm(), len(causes.table()))" % str(program)
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    patterns, rows = map(int, done.stdout.split())
    assert patterns > 100 and rows > 60


def test_the_payload_can_look_outside_of_the_log(tmp_path: Path) -> None:
    program = tmp_path / "watch.pyz"
    program.write_bytes(detached.payload())
    code = (
        "import sys; sys.path.insert(0, %r); from llmhost_watch._evidence.gather import Host; "
        "from llmhost_watch._startup.evidence import Start; host = Host(Start('sglang-a.service')); "
        "print([type(getattr(host, one)()).__name__ for one in ('ooms', 'xids', 'places', 'cards')]); "
        "print(type(host.port(1)).__name__, type(host.stack(1)).__name__); host.close()" % str(program)
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [str(["Answer"] * 4), "Answer Answer"]


def test_the_payload_is_the_same_each_time() -> None:
    assert detached.payload() == detached.payload()
    names = zipfile.ZipFile(io.BytesIO(detached.payload())).namelist()
    assert "__main__.py" in names and "llmhost_watch/_startup/watch.py" in names


def test_the_status_file_tells_changes_at_once_and_rarely_else(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    status = detached.StatusFile(str(path))
    status(Report("args", 1.0, 1.0, ""))
    first = json.loads(path.read_text())
    assert (first["state"], first["phase"]) == ("watching", "args")
    status(Report("load_weights", 1.1, 0.1, "weights 3 %"))  # within half a second: not yet
    assert json.loads(path.read_text()) == first
    status._at -= 1
    status(Report("load_weights", 2.1, 1.1, "weights 3 %"))
    assert json.loads(path.read_text())["bar"] == "weights 3 %"
    assert (path.stat().st_mode & 0o777) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}"])
def test_a_verdict_that_is_not_there(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "verdict.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LlmHostError) as caught:
        detached.collect(str(path))
    assert caught.value.reason == "watcher_failed"


def test_what_a_watcher_said_of_a_start_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    folder.mkdir()

    def said(key: str, at: int, **result: object) -> None:
        path = folder / (key + ".verdict.json")
        path.write_text(json.dumps({"result": result}), encoding="utf-8")
        os.utime(path, (at, at))

    said("a", 30, outcome="stalled", invocation_id="one")
    said("b", 20, outcome="timeout", invocation_id="one")
    said("c", 40, outcome="failed", invocation_id="two")
    (folder / "d.verdict.json").write_text("{half", encoding="utf-8")
    (folder / "e.verdict.json").write_text('{"error": {"reason": "x", "msg": "y"}}', encoding="utf-8")
    assert detached.told(str(tmp_path), "one") == {"outcome": "stalled", "invocation_id": "one"}
    assert detached.told(str(tmp_path), "three") is None
    assert detached.told(str(tmp_path / "nosuch"), "one") is None
