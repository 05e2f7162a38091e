# SPDX-License-Identifier: GPL-3.0-or-later
"""Files in one step, and the lock with its owner."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server import files, request
from ansible_collections.llmhost.sglang.plugins.module_utils._server.instance import WantedFile, WantedFolder

ME = (files.account(os.getuid()), files.group(os.getgid()))
HOLD = (
    "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.flock(f, 2); print('held', flush=True); time.sleep(60)"
)


def test_a_file_is_replaced_whole_with_its_mode(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o644)
    wanted = WantedFile(str(path), b"new", 0o600, *ME)
    files.replace(wanted)
    found = files.look(str(path))
    assert found is not None
    assert (found.content, found.mode, found.owner, found.group) == (b"new", 0o600, *ME)
    assert os.listdir(tmp_path) == ["secret"]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with pytest.raises(LlmHostError) as caught:
        files.replace(WantedFile(str(tmp_path / "none" / "file"), b"", 0o600, *ME))
    assert caught.value.reason == "write_failed"
    with pytest.raises(LlmHostError) as caught:
        files.replace(WantedFile(str(tmp_path / "file"), b"", 0o600, "nobody-of-that-name", ME[1]))
    assert caught.value.reason == "user_missing"
    assert os.listdir(tmp_path) == []


def test_folders_above_can_be_entered_whatever_the_umask_is(tmp_path):
    old = os.umask(0o077)
    try:
        files.make_folder(WantedFolder(str(tmp_path / "a" / "b" / "c"), 0o750, *ME))
    finally:
        os.umask(old)
    assert oct((tmp_path / "a" / "b").stat().st_mode & 0o777) == "0o755"
    assert oct((tmp_path / "a" / "b" / "c").stat().st_mode & 0o777) == "0o750"


def test_what_is_not_there_is_none(tmp_path):
    assert files.look(str(tmp_path / "none")) is None
    (tmp_path / "file").touch()
    assert files.look(str(tmp_path / "file" / "below")) is None


def test_the_lock_names_its_owner_and_is_free_when_that_one_dies(tmp_path):
    path = str(tmp_path / "lock")
    with files.locked(path, {"pid": 1234, "since": "noon"}, 0):
        pass
    holder = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        began = time.monotonic()
        with pytest.raises(LlmHostError, match="noon") as caught, files.locked(path, {}, 0.5):
            pass
        assert caught.value.reason == "locked"
        assert caught.value.details["holder"] == {"pid": 1234, "since": "noon"}
        assert 0.4 < time.monotonic() - began < 10
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with files.locked(path, {}, 0):
        pass


def test_a_lock_that_was_removed_between_open_and_lock_is_taken_anew(tmp_path, monkeypatch):
    path = str(tmp_path / "lock")
    real = fcntl.flock

    def removed_first(handle, operation):
        monkeypatch.setattr(fcntl, "flock", real)
        os.unlink(path)  # whoever held it has removed the instance
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with files.locked(path, {"pid": 2}, 5), open(path) as lock:
        assert json.load(lock) == {"pid": 2}


@pytest.fixture
def open_folder():
    """A folder that everybody may enter, other than pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look with another user's eyes")
def test_what_another_user_may_read(open_folder):
    path = open_folder / "file"
    path.touch(0o600)
    assert files.accessible(str(path), os.R_OK, "65534", "65534") is False
    path.chmod(0o644)
    assert files.accessible(str(path), os.R_OK, "65534", "65534") is True
    assert files.accessible(str(path), os.X_OK, "65534", "65534") is False
    assert files.accessible(str(path), os.R_OK, "root", "root") is True


@pytest.mark.parametrize(
    ("drain", "stop", "expected"),
    [
        (None, None, (60, 75.0)),
        (120, None, (120, 135.0)),
        (None, 60, (45, 60.0)),
        (None, 5, (1, 5.0)),
        (10, 20, (10, 20.0)),
    ],
)
def test_timeouts(drain, stop, expected):
    assert request.timeouts(drain, stop) == expected


@pytest.mark.parametrize(("drain", "stop"), [(10, 10), (10, 5), (None, 1)])
def test_timeouts_that_cannot_be_meant(drain, stop):
    with pytest.raises(LlmHostError) as caught:
        request.timeouts(drain, stop)
    assert caught.value.details["option"] == "stop_timeout_s"
