# SPDX-License-Identifier: GPL-3.0-or-later
"""A log file through rotation and truncation, a journal through the end of its reader: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from ansible_collections.llmhost.sglang.plugins.module_utils._startup.sources import FileSource, JournalSource


def text(source: FileSource) -> bytes:
    return b"".join(data for data, _moment in source.read())


def test_only_what_this_start_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"The server is fired up and ready to roll!\n")
    found = path.stat()
    source = FileSource(str(path), found.st_size, found.st_ino)
    assert text(source) == b""
    with open(path, "ab") as handle:
        handle.write(b"new\n")
    assert text(source) == b"new\n"
    assert text(source) == b""


def test_another_file_at_the_same_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"old" * 100)
    found = path.stat()
    (tmp_path / "b.log").write_bytes(b"another one that is long enough" * 20)
    os.rename(tmp_path / "b.log", path)
    assert text(FileSource(str(path), found.st_size, found.st_ino)) == b"another one that is long enough" * 20


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    source = FileSource(str(path))
    assert text(source) == b""
    path.write_bytes(b"one\n")
    assert text(source) == b"one\n"


def test_rename_and_create(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    writer = open(path, "ab", buffering=0)  # noqa: SIM115
    source = FileSource(str(path))
    writer.write(b"one\n")
    assert text(source) == b"one\n"
    os.rename(path, tmp_path / "a.log.1")
    writer.write(b"two\n")
    writer.close()
    path.write_bytes(b"three\n")
    assert text(source) + text(source) == b"two\nthree\n"


def test_copytruncate(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with open(path, "ab", buffering=0) as writer:
        source = FileSource(str(path))
        writer.write(b"a long first line\n")
        assert text(source) == b"a long first line\n"
        os.truncate(path, 0)
        writer.write(b"short\n")
        assert text(source) == b"short\n"


def test_a_writer_that_goes_on_in_the_renamed_file(tmp_path: Path) -> None:
    """Nobody tells SGLang to open its log anew: what it says after a rotation stands in the old file."""
    path = tmp_path / "a.log"
    with open(path, "ab", buffering=0) as writer:
        source = FileSource(str(path))
        writer.write(b"one\n")
        assert text(source) == b"one\n"
        os.rename(path, tmp_path / "a.log.1")
        path.write_bytes(b"")
        assert text(source) == b""
        writer.write(b"two\n")
        assert text(source) == b"two\n"
        path.write_bytes(b"three\n")
        assert text(source) == b"three\n"
    source.close()


def test_truncated_and_grown_beyond_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with open(path, "ab", buffering=0) as writer:
        source = FileSource(str(path))
        writer.write(b"a first line\n")
        assert text(source) == b"a first line\n"
        os.truncate(path, 0)
        writer.write(b"another line, which is longer than the first\n")
        assert text(source) == b"another line, which is longer than the first\n"
    source.close()


def test_truncated_under_a_writer_that_goes_on_at_its_own_place(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with open(path, "wb", buffering=0) as writer:
        source = FileSource(str(path))
        writer.write(b"one\n" * 100)
        assert text(source) == b"one\n" * 100
        os.truncate(path, 0)
        writer.write(b"two\n")
        assert text(source) == b"two\n", "and not the hole before it"
    source.close()


def test_the_rest_after_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 10_000_000)
    source = FileSource(str(path))
    assert sum(len(data) for data, _moment in source.finish()) == 10_000_000
    source.close()


JOURNALCTL = """
import json, os, sys, time
state = sys.argv[1]
arguments = sys.argv[2:]
if "--sync" in arguments:
    sys.exit(0)
assert "_SYSTEMD_INVOCATION_ID=inv" in arguments, arguments
after = [one.split("=", 1)[1] for one in arguments if one.startswith("--after-cursor=")]
number = int(after[0]) if after else 0
while True:
    entries = json.load(open(state))
    for at in range(number, len(entries)):
        entry = {"__CURSOR": str(at + 1), "__REALTIME_TIMESTAMP": str(1000000 * (at + 1)), "MESSAGE": entries[at]}
        print(json.dumps(entry), flush=True)
        if "--follow" in arguments and entries[at] == "die":
            sys.exit(1)
    number = len(entries)
    if "--follow" not in arguments:
        break
    time.sleep(0.02)
"""


def test_the_journal_once_and_in_order(tmp_path: Path) -> None:
    script, state = tmp_path / "journalctl.py", tmp_path / "state.json"
    script.write_text(JOURNALCTL)

    def put(*entries: object) -> None:
        (tmp_path / "new").write_text(json.dumps(entries))
        os.rename(tmp_path / "new", state)

    put("one", [116, 119, 111, 255], None)
    source = JournalSource("u.service", "inv", (sys.executable, str(script), str(state)), native=False)
    got: list[tuple[bytes, float | None]] = []

    def until(count: int) -> None:
        end = time.monotonic() + 10
        while len(got) < count and time.monotonic() < end:
            got.extend(source.read())
            time.sleep(0.02)

    until(3)
    assert got == [(b"one\n", 1.0), (b"two\xff\n", 2.0), (b"\n", 3.0)]
    put("one", "two", "three", "die", "five")  # journalctl ends behind "die": the source goes on behind it
    until(5)
    assert [data for data, _moment in got[3:]] == [b"die\n", b"five\n"]
    put("one", "two", "three", "die", "five", "six", "seven")
    got.extend(source.finish())
    assert [data for data, _moment in got[5:]] == [b"six\n", b"seven\n"]
    source.close()


def test_no_journalctl_process_stays(tmp_path: Path) -> None:
    script, state = tmp_path / "journalctl.py", tmp_path / "state.json"
    script.write_text(JOURNALCTL)
    state.write_text("[]")
    source = JournalSource("u.service", "inv", (sys.executable, str(script), str(state)), native=False)
    source.read()
    process = source._process
    assert process is not None
    source.close()
    assert process.poll() is not None
