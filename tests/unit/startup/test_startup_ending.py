# SPDX-License-Identifier: GPL-3.0-or-later
"""How a start ended, by systemd's entries in the journal (shapes as systemd 252 and 257 write them)."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import ending
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.ending import Ending

NAME = "sglang-a.service"
STARTED = {"MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf", "MESSAGE": "Started " + NAME}
STOPPING = {"MESSAGE_ID": ending.STOPPING, "MESSAGE": "Stopping %s..." % NAME}
OOM = {"MESSAGE_ID": ending.OUT_OF_MEMORY, "MESSAGE": NAME + ": A process of this unit has been killed"}


def left(code: str, status: int, kind: str = "Main") -> dict[str, str]:
    text = "%s: %s process exited, code=%s, status=%d" % (NAME, kind, code, status)
    return {"MESSAGE_ID": ending.PROCESS_EXIT, "MESSAGE": text, "EXIT_CODE": code, "EXIT_STATUS": str(status)}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], Ending()),
        ([STARTED], Ending()),
        ([STARTED, left("exited", 1)], Ending(exit_code=1)),
        ([STARTED, left("killed", 9)], Ending(signal=9)),
        ([STARTED, left("dumped", 11)], Ending(signal=11)),
        ([STARTED, STOPPING], Ending(asked=True)),
        ([STARTED, STOPPING, left("killed", 9)], Ending(asked=True, signal=9)),
        ([STARTED, left("killed", 9), STOPPING], Ending(signal=9)),  # its rest was stopped
        ([STARTED, OOM, left("killed", 9)], Ending(out_of_memory=True, signal=9)),
        ([left("exited", 203, "Control"), STARTED], Ending()),
    ],
)
def test_how_it_ended(entries: list[dict[str, str]], expected: Ending) -> None:
    assert ending.read(json.dumps(one) for one in entries) == expected


def test_what_is_no_entry_is_passed_over() -> None:
    assert ending.read(["", "no json", "[]", json.dumps({"MESSAGE": [1, 2], "MESSAGE_ID": None})]) == Ending()


def test_only_systemd_itself_is_asked(tmp_path: Path) -> None:
    program = tmp_path / "journalctl"
    entry = json.dumps(left("killed", 9)).replace("'", "")
    program.write_text("#!/bin/sh\necho \"$@\" >%s/asked\ncat <<'X'\n%s\nX\n" % (tmp_path, entry), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert ending.ending("0123abcd", (str(program),)) == Ending(signal=9)
    asked = (tmp_path / "asked").read_text(encoding="utf-8").split()
    assert {"_PID=1", "INVOCATION_ID=0123abcd", "--output=json"} <= set(asked)


def test_a_journal_that_cannot_be_asked_tells_nothing(tmp_path: Path) -> None:
    assert ending.ending("0123abcd", (str(tmp_path / "none"),)) == Ending()
