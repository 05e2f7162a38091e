# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a model, each its own reason; folders, addresses, removal: no client is needed."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import struct
from collections.abc import Callable, Iterator

import pytest
from snapshot_support import LlmHostError, content, lab_hub, model_files, run, write

SHARD = "model-00001-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def put(name: str, data: bytes) -> Callable[[pathlib.Path], None]:
    return lambda folder: (folder / name).write_bytes(data) and None


def drop(name: str) -> Callable[[pathlib.Path], None]:
    return lambda folder: (folder / name).unlink()


def shorten(folder: pathlib.Path) -> None:
    data = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes(data[:-7])


def promise_more(folder: pathlib.Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["d"] = SHARD
    (folder / INDEX).write_text(json.dumps(index))


BROKEN = [
    ("lfs_pointer", SHARD, put(SHARD, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")),
    ("lfs_pointer", "tokenizer.json", put("tokenizer.json", b"version https://git-lfs.github.com/spec/v1\n")),
    ("zero_bytes", SHARD, put(SHARD, b"")),
    ("zero_bytes", "tokenizer.json", put("tokenizer.json", b"")),
    ("truncated", SHARD, shorten),
    ("truncated", SHARD, put(SHARD, b"\x10\0\0")),
    ("header_corrupt", SHARD, put(SHARD, struct.pack("<Q", 4) + b"\xff\xfe{}" + b"0" * 99)),
    ("missing_shard", SHARD, drop(SHARD)),
    ("index_invalid", INDEX, put(INDEX, b"{")),
    ("index_invalid", INDEX, put(INDEX, b"{}")),
    ("index_mismatch", SHARD, promise_more),
    ("config_missing", "config.json", drop("config.json")),
    ("config_invalid", "config.json", put("config.json", b"{,}")),
    ("config_invalid", "config.json", put("config.json", b"[]")),
]


@pytest.mark.parametrize(("reason", "name", "spoil"), BROKEN, ids=[f"{row[0]}-{n}" for n, row in enumerate(BROKEN)])
def test_each_fault_has_its_reason_and_names_the_file(
    tmp_path: pathlib.Path, reason: str, name: str, spoil: Callable[[pathlib.Path], None]
) -> None:
    folder = write(tmp_path / "m", model_files(1000))
    assert run(folder, state="verified")["recorded"] is False
    spoil(folder)
    with pytest.raises(LlmHostError) as caught:
        run(folder, state="verified")
    assert caught.value.reason == reason, caught.value.message
    assert str(folder / name) in caught.value.message
    assert caught.value.details["problems"][0]["file"] == name


def test_what_is_no_model(tmp_path: pathlib.Path) -> None:
    for path, reason in (
        (tmp_path / "none", "not_present"),
        (write(tmp_path / "m", {"config.json": b"{}"}), "no_weights"),
    ):
        with pytest.raises(LlmHostError) as caught:
            run(path, state="verified")
        assert caught.value.reason == reason
    write(tmp_path / "gguf", {"model.gguf": b"GGUF"})
    assert run(tmp_path / "gguf", state="verified")["files"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look with another user's eyes")
@pytest.mark.parametrize("place", ["file", "folder", "above"])
def test_what_the_services_user_may_not_read(tmp_path_factory: pytest.TempPathFactory, place: str) -> None:
    top = pathlib.Path("/tmp") / ("llmhost-readers-%d" % os.getpid())  # pytest's own folders are closed to others
    folder = write(top / "m", model_files(100))
    try:
        os.chmod({"file": folder / SHARD, "folder": folder, "above": top}[place], 0o600 if place == "file" else 0o700)
        with pytest.raises(LlmHostError) as caught:
            run(folder, state="verified", reader="nobody")
        assert caught.value.reason == "unreadable"
        assert str({"file": folder / SHARD, "folder": folder, "above": top}[place]) in caught.value.message
        assert run(folder, state="verified", reader="nobody-of-that-name")["files"] == 6  # waits until there is one
        for path in (top, folder):
            os.chmod(path, 0o755)
        os.chmod(folder / SHARD, 0o644)
        assert run(folder, state="verified", reader="nobody")["files"] == 6
    finally:
        os.chmod(top, 0o755)
        shutil.rmtree(top)


# ---------------------------------------------------------------- from a folder
def test_a_folder_is_copied_verified_and_repaired(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "nfs/m", model_files(1000))
    target = tmp_path / "local/m"
    os.umask(0o077)
    try:
        assert run(target, source_path=str(source))["changed"]
    finally:
        os.umask(0o022)
    assert content(target) == content(source)
    assert (target / SHARD).stat().st_mode & 0o777 == 0o644 and target.stat().st_mode & 0o777 == 0o755
    assert not run(target, source_path=str(source))["changed"]
    data = bytearray((target / SHARD).read_bytes())
    data[-3] ^= 1
    (target / SHARD).write_bytes(data)
    with pytest.raises(LlmHostError) as caught:
        run(target, state="verified")
    assert caught.value.reason == "hash_mismatch", "a file that was touched is read"
    repaired = run(target, source_path=str(source))
    assert repaired["fetched"] == [SHARD] and repaired["repaired"][0]["reason"] == "hash_mismatch"
    assert content(target) == content(source)


def test_silent_rot_is_seen_by_hash_and_only_by_hash(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "src", model_files(1000))
    target = tmp_path / "m"
    run(target, source_path=str(source))
    before = (target / SHARD).stat()
    data = bytearray((target / SHARD).read_bytes())
    data[-3] ^= 1
    (target / SHARD).write_bytes(data)
    os.utime(target / SHARD, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(target, state="verified")["verified"] == "size"
    with pytest.raises(LlmHostError) as caught:
        run(target, state="verified", verify="hash")
    assert caught.value.reason == "hash_mismatch"
    assert run(target, source_path=str(source), verify="hash")["fetched"] == [SHARD]
    assert run(target, state="verified", verify="hash")["verified"] == "hash"


def test_a_folder_that_is_there_is_taken_over_without_moving_a_byte(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "src", model_files(1000))
    target = write(tmp_path / "m", model_files(1000))
    with pytest.raises(LlmHostError) as caught:
        run(target, state="verified", source_path=str(source))
    assert caught.value.reason == "wrong_snapshot"
    result = run(target, source_path=str(source))
    assert result["changed"] and result["moved_bytes"] == 0
    assert run(target, state="verified", source_path=str(source))["recorded"]


def test_room_is_looked_at_before_anything_is_made(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "src", model_files(1000))
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "m", source_path=str(source), reserve_gib=1e9)
    assert caught.value.reason == "no_room" and caught.value.details["free_gib"] > 0
    assert not (tmp_path / "m").exists()


def test_a_cut_between_two_files_is_never_called_whole(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "src", model_files(1000))
    target = tmp_path / "m"
    run(target, source_path=str(source))
    write(source, {"config.json": b'{"new": 1}', SHARD: model_files(1001)[SHARD], INDEX: model_files(1001)[INDEX]})
    real, calls = os.replace, []

    def cut(old: str, new: str) -> None:
        if str(new).endswith(SHARD):
            raise KeyboardInterrupt
        calls.append(new)
        real(old, new)

    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        run(target, source_path=str(source))
    monkeypatch.undo()
    assert str(target / "config.json") in calls, "the cut must come in the middle of the placing"
    with pytest.raises(LlmHostError) as caught:
        run(target, state="verified")
    assert caught.value.reason == "incomplete"
    assert run(target, source_path=str(source))["changed"]
    assert content(target) == content(source)


# ---------------------------------------------------------------- from addresses
@pytest.fixture
def served(tmp_path: pathlib.Path) -> Iterator[tuple[str, lab_hub.Hub]]:
    write(tmp_path / "www/m", model_files())
    server, hub = lab_hub.serve(tmp_path / "www")
    yield "http://127.0.0.1:%d/plain/m/" % server.server_address[1], hub
    server.shutdown()
    server.server_close()


def urls(base: str, **more: object) -> list[dict[str, object]]:
    names = [name for name in model_files() if "/" not in name]
    return [{"url": base + name, "filename": None, "size": None, "sha256": None, **more} for name in names]


def test_addresses(served: tuple[str, lab_hub.Hub], tmp_path: pathlib.Path) -> None:
    base, hub = served
    hub.faults.append(lab_hub.Fault(path=SHARD, method="GET", cut_after=300_000, times=1))
    result = run(tmp_path / "m", urls=urls(base), repo_id=None)
    assert result["changed"] and content(tmp_path / "m") == {k: v for k, v in model_files().items() if "/" not in k}
    assert any(item["range"] for item in hub.requests), "it did not go on where it ended"
    hub.requests.clear()
    assert not run(tmp_path / "m", urls=urls(base))["changed"]
    assert run(tmp_path / "m", state="verified", verify="hash")["verified"] == "hash"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"status": 404}, "file_not_found"),
        ({"status": 401}, "unauthorized"),
        ({"status": 403}, "forbidden"),
        ({"status": 429}, "rate_limited"),
        ({"status": 502}, "hub_unavailable"),
        ({"cut_after": 10, "method": "GET"}, "interrupted"),
    ],
)
def test_addresses_that_refuse(
    served: tuple[str, lab_hub.Hub], tmp_path: pathlib.Path, fault: dict[str, object], reason: str
) -> None:
    base, hub = served
    hub.faults.append(lab_hub.Fault(path=SHARD, **fault))
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "m", urls=urls(base), retries=0)
    assert caught.value.reason == reason, caught.value.message


def test_an_address_with_a_wrong_sum(served: tuple[str, lab_hub.Hub], tmp_path: pathlib.Path) -> None:
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "m", urls=urls(served[0], sha256="0" * 64), retries=3)
    assert caught.value.reason == "hash_mismatch"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"urls": [{"url": "ftp://x/y"}]}, "bad_url"),
        ({"urls": [{"url": "https://me:secret@x/y"}]}, "bad_url"),
        ({"urls": [{"url": "https://x/y", "sha256": "12"}]}, "bad_url"),
        ({"urls": [{"url": "https://x/y", "filename": "../y"}]}, "bad_file_name"),
        ({"repo_id": "tiny"}, "repo_id_invalid"),
        ({"source_path": "/nonexistent"}, "source_missing"),
        ({}, "no_source"),
        ({"source_path": "/tmp", "token_file": "/nonexistent"}, "token_file"),
    ],
)
def test_what_cannot_be_meant(tmp_path: pathlib.Path, given: dict[str, object], reason: str) -> None:
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "m", **given)
    assert caught.value.reason == reason
    if "secret" in str(given):
        assert "secret" not in caught.value.message


@pytest.mark.parametrize("path", ["relative", "/", "/usr", "/a/../b", "/srv/"])
def test_a_path_that_is_none_of_a_model(path: str) -> None:
    with pytest.raises(LlmHostError) as caught:
        run(path, state="absent")
    assert caught.value.reason == "bad_path"


def test_the_client_is_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "m", repo_id="owner/tiny", venv=str(tmp_path / "no-venv"), endpoint="http://127.0.0.1:9")
    assert caught.value.reason == "client_missing" and "sglang_runtime" in caught.value.message
    would = run(tmp_path / "m", True, repo_id="owner/tiny", venv=str(tmp_path / "no-venv"))
    assert would["changed"] and would["to_move_gib"] is None and not (tmp_path / "m").exists()


# ---------------------------------------------------------------- absent
def test_absent_takes_what_was_fetched_and_nothing_else(tmp_path: pathlib.Path) -> None:
    source = write(tmp_path / "src", model_files(1000))
    target = tmp_path / "m"
    with pytest.raises(LlmHostError) as caught:
        run(source, state="absent")
    assert caught.value.reason == "not_ours" and (source / SHARD).exists()
    run(target, source_path=str(source))
    write(target, {"notes/mine.txt": b"x"})
    would = run(target, state="absent", check_mode=True)
    assert would["changed"] and would["left"] == ["notes/mine.txt"] and (target / SHARD).exists()
    assert run(target, state="absent")["files"] == 6
    assert content(target) == {"notes/mine.txt": b"x"}
    with pytest.raises(LlmHostError):
        run(target, state="absent")  # what is left is not ours
    (target / "notes/mine.txt").unlink()
    (target / "notes").rmdir()
    assert run(target, state="absent")["changed"] and not target.exists()
    assert not run(target, state="absent")["changed"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["src"], "nothing is left, not even a lock"
