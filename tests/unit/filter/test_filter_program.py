# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitor as the one file that the role writes: it runs with a bare Python, far from the collection."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.filter.program import program
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _bundle

ROLE = os.path.join(_bundle.CORE, "..", "..", "roles", "sglang_monitoring")


def run(tmp_path, text, *arguments):
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-I", "-S", str(path), *arguments]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


def test_the_monitor_runs_from_one_file(tmp_path):
    with open(os.path.join(ROLE, "files", "llmhost_monitor.py"), encoding="utf-8") as handle:
        text = program(handle.read(), ["_errors", "_placeholders", "_process", "_gpu", "_server", "_monitor"])
    out = tmp_path / "out.prom"
    done = run(tmp_path, text, "probe", str(out), "5")
    assert done.returncode == 0, done.stderr
    assert "llmhost_probe_timestamp_seconds" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o644


def test_the_text_survives_what_quotes_and_backslashes_a_room_holds(tmp_path, monkeypatch):
    room = tmp_path / "core" / "_odd.py"
    room.parent.mkdir()
    source = 'TEXT = """a \\"\\"\\" \\n \\u0022 %s {} \'\'\' \u00e4"""\n'
    room.write_text(source, encoding="utf-8")
    monkeypatch.setattr(_bundle, "CORE", str(room.parent))
    text = program("from llmhost_core import _odd\nprint(ascii(_odd.TEXT))\n", ["_odd"])
    space: dict = {}
    exec(source, space)  # what Python makes of the room itself
    assert run(tmp_path, text).stdout.strip() == ascii(space["TEXT"])


def test_a_room_that_is_not_there_is_named():
    with pytest.raises(AnsibleFilterError, match="_nowhere"):
        program("", ["_nowhere"])
    with pytest.raises(AnsibleFilterError, match="list of rooms"):
        program("", "_errors")
