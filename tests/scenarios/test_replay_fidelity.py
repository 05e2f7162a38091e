# SPDX-License-Identifier: GPL-3.0-or-later
"""The replayer is still like the real server: the same starts of both, in one container, seen by one instrument.

Compared: the markers that a watcher reads, in their order; exit code; HTTP statuses up to readiness; process names.
A start that another scenario has made anyway can be given instead: `compare_journal`.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from conftest import FULL, ROOT, Lab

REPLAY = ROOT / "tests/lab/replay"
sys.path.insert(0, str(REPLAY))
import compare  # noqa: E402 (it lies beside what it compares)

SPEED = "3"  # fast, and slow enough that the second between open port and readiness is seen
PORT = 30077

# id, how the model is broken, the recording that is the same start, options
CASES = [
    ("ready, then SIGTERM", "", "ok-clean-recipe", []),
    ("truncated weights", "truncated", "f16-truncated", []),
]
# script/test full: every other recorded start that can be made anew by its arguments and its model alone
MORE = [
    ("corrupt weights", "corrupt", "f15-corrupt-header", []),
    ("no weights", "noweights", "f18-no-weights", []),
    ("unknown architecture", "badarch", "f12-bad-arch", []),
    ("unknown option", "", "f04-unknown-flag", ["--no-such-flag", "1"]),
    ("context beyond the model", "", "f23-context-too-long", ["--context-length", "100000"]),
]
CASES += [pytest.param(*case, marks=pytest.mark.skipif(not FULL, reason="script/test full")) for case in MORE]


def start(lab: Lab, name: str, python: str, environment: dict[str, str], arguments: list[str]) -> dict[str, Any]:
    """One start in the container, through record.py."""
    lab.ct("sh", "-c", "cat > /tmp/record.py", stdin=(REPLAY / "record.py").read_text())
    words = ["env", *("%s=%s" % item for item in environment.items())]
    words += ["python3", "/tmp/record.py", "/tmp/%s.json" % name, "240", str(PORT), "--", python]
    lab.ct(*words, "-m", "sglang.launch_server", *arguments, timeout_s=300)
    return json.loads(lab.ct("cat", "/tmp/%s.json" % name))


def real_runtime(lab: Lab) -> str:
    """Python of the runtime that the scenarios have installed, or of one that is installed now (80 s)."""
    own = "/opt/llmhost/real"
    for folder in ("/opt/llmhost/runtime", own):
        if lab.ct("sh", "-c", "test -x %s/bin/python && echo yes || true" % folder).strip():
            return folder + "/bin/python"
    lab.ct("python3", "-m", "venv", own)
    house = "/srv/wheelhouse"
    lock = ["--no-deps", "-r", house + "/lock.txt"]
    lab.ct(own + "/bin/pip", "install", "-q", "--no-index", "--find-links", house, *lock, timeout_s=900)
    return own + "/bin/python"


def compare_journal(journal: str, replayed: dict[str, Any]) -> list[str]:
    """For a start that systemd ran: `journalctl --output json` of its invocation against a replayed start."""
    return compare.differences(compare.from_journal(journal), replayed)


@pytest.mark.parametrize(("name", "broken", "recording", "options"), CASES, ids=[case[0] for case in CASES[:2] + MORE])
def test_the_replayer_is_like_the_real_server(lab: Lab, capsys, name, broken, recording, options) -> None:
    model = lab.model("fidelity" + ("-" + broken if broken else ""), *(["--break", broken] if broken else []))
    arguments = ["--device", "cpu", "--model-path", model, "--port", str(PORT), "--max-total-tokens", "4096", *options]
    real = start(lab, "real", real_runtime(lab), {"SGLANG_USE_CPU_ENGINE": "1"}, arguments)
    lab("replay-runtime", str(pathlib.Path(lab.data) / "replay"))
    environment = {"LLMHOST_REPLAY": recording, "LLMHOST_REPLAY_SPEED": SPEED}
    replayed = start(lab, "replayed", "/opt/llmhost/replay/bin/python", environment, arguments)
    with capsys.disabled():
        words = (name, real["seconds"], real["exit"], replayed["seconds"], replayed["exit"])
        print("\n%-25s real %.1f s, exit %s; replayed %.1f s, exit %s" % words)
    assert compare.markers(real["lines"]), "the real start printed what a watcher knows"
    assert compare.differences(real, replayed) == []
