# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold for any bytes in a log: a verdict, in time that grows with the length, whole or in pieces, no secret.

``run`` beside this file starts it. The first bytes of an input choose what is done with the rest.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import atheris

ROOM = "ansible_collections.llmhost.sglang.plugins.module_utils._startup"
with atheris.instrument_imports(include=[ROOM, ROOM.replace("_startup", "_process")]):
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup import lines, phases
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.analysis import Analysis
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.sources import JournalSource
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.text import diagnose
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.verdict import Facts, Verdict, conclude

ROOT = Path(__file__).resolve().parents[2]
OUTCOMES = ("ready", "failed", "in_progress", "crashed_after_ready")
SECRET = "q7Zx93kLmW0pTr5v"
SECRETS = (
    b"--api-key %s",
    b"--api-key=%s",
    b"'api_key': '%s'",
    b"api_key='%s'",
    b"HF_TOKEN=%s",
    b"HF_TOKEN=hf_%s",
    b"Authorization: Bearer %s",
    b"hf_%s",
)
LONG = 64 * 1024
SLOW_S = 3.0  # of processor time, for a line of LONG bytes; it takes a few milliseconds


def read(data: bytes, sizes: bytes) -> Verdict:
    analysis, pos = Analysis(), 0
    for size in sizes:
        analysis.feed(data[pos : pos + size])
        pos += size
    analysis.feed(data[pos:])
    analysis.close()
    return conclude(analysis)


def sane(verdict: Verdict) -> None:
    assert verdict.outcome in OUTCOMES, verdict
    assert (verdict.cause is None) == (verdict.outcome == "ready"), verdict
    assert verdict.phase in phases.PHASES, verdict
    assert len(verdict.log_tail) <= 64 * 1024


def pieces(data: bytes) -> None:
    sizes, data = data[:8], data[8:]
    whole = read(data, b"")
    sane(whole)
    assert read(data, sizes) == whole, "in pieces of %s it says something else" % list(sizes)


def secret(data: bytes) -> None:
    kind, at, data = data[0] % len(SECRETS), int.from_bytes(data[1:3], "big"), data[3:]
    at %= len(data) + 1
    hidden = b" " + SECRETS[kind] % SECRET.encode() + b"\n"
    verdict = diagnose(data[:at] + hidden + data[at:], Facts(live=True))
    assert SECRET not in repr(verdict), "%r is told" % hidden


def long_line(data: bytes) -> None:
    """A line that repeats a part of the input up to the limit."""
    size, data = data[0] + 1, data[1:]
    unit = data[:size].replace(b"\n", b"").replace(b"\r", b"") or b"a"
    line = (unit * (LONG // len(unit) + 1))[:LONG] + data[size:]
    began = time.process_time()
    sane(diagnose(line))
    assert time.process_time() - began < SLOW_S, "%.1f s for a line of %r" % (time.process_time() - began, unit)


def journal(data: bytes) -> None:
    source = JournalSource("u.service", "x", native=False)
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        for found, _moment in source._entries(part):
            assert isinstance(found, bytes)


ACTIONS = (pieces, pieces, pieces, secret, secret, long_line, lambda data: sane(diagnose(data)), journal)


def one(data: bytes) -> None:
    if len(data) >= 12:
        ACTIONS[data[0] % len(ACTIONS)](data[1:])


def seeds(folder: Path, words: Path) -> None:
    """Inputs to begin with, from the recorded starts, and the words by which lines are known."""
    for path in sorted((ROOT / "tests/corpus/sglang_cpu").glob("*.log")):
        data = path.read_bytes()
        for number, start in enumerate(range(0, min(len(data), 18000), 3000)):
            name = "%s-%d" % (path.stem, number)
            (folder / name).write_bytes(bytes([number % len(ACTIONS)]) + b"\x10" * 11 + data[start : start + 3000])
    known = [*lines.TRIGGERS, *lines.REQUESTS, *(marker.example.encode() for marker in phases.MARKERS)]
    quoted = ("".join("\\x%02x" % byte for byte in word) for word in known)
    words.write_text("".join('"%s"\n' % word for word in quoted))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seeds"]:
        seeds(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        atheris.Setup(sys.argv, one)
        atheris.Fuzz()
