# SPDX-License-Identifier: GPL-3.0-or-later
"""The hub's protocol with the real huggingface_hub client: what goes well, and each way in which it does not."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from snapshot_support import (
    HAS_CLIENT,
    REPO,
    WHY_NOT,
    LlmHostError,
    content,
    lab_hub,
    model_files,
    run,
    write,
)

pytestmark = pytest.mark.skipif(not HAS_CLIENT, reason=WHY_NOT)
SHARD = "model-00001-of-00002.safetensors"
CDN = "^/cdn/.*00001"  # where the first shard's bytes come from


class Served:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.files = model_files()
        write(folder / REPO, self.files)
        self.server, self.hub = lab_hub.serve(folder)
        self.endpoint = "http://127.0.0.1:%d" % self.server.server_address[1]

    def fault(self, **fault: object) -> None:
        self.hub.faults.append(lab_hub.Fault(**fault))

    def asked(self, path: str, method: str = "GET") -> list[dict[str, object]]:
        return [item for item in self.hub.requests if path in str(item["path"]) and item["method"] == method]


@pytest.fixture
def served(tmp_path: pathlib.Path) -> Iterator[Served]:
    served = Served(tmp_path / "hub")
    yield served
    served.server.shutdown()
    served.server.server_close()


def fetch(served: Served, path: pathlib.Path, **given: object) -> dict[str, object]:
    return run(path, repo_id=REPO, endpoint=served.endpoint, **given)


def fails(served: Served, path: pathlib.Path, **given: object) -> LlmHostError:
    with pytest.raises(LlmHostError) as caught:
        fetch(served, path, **given)
    return caught.value


def test_a_branch_becomes_a_commit_and_a_second_run_asks_nobody(served: Served, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "models/tiny"
    first = fetch(served, path)
    assert first["changed"] and first["fetched_files"] == len(served.files)
    assert content(path) == served.files
    commit = served.hub.commit(served.folder / REPO)
    record = json.loads((path / ".llmhost-snapshot.json").read_text())
    assert first["commit"] == record["commit"] == commit
    assert record["source"] == {"kind": "hub", "repo_id": REPO, "revision": "main", "endpoint": served.endpoint}
    assert all(entry["verified"] == "hash" for entry in record["files"].values())
    assert not (path / ".llmhost-partial").exists()
    served.hub.requests.clear()
    again = fetch(served, path)
    assert not again["changed"] and again["moved_bytes"] == 0 and served.hub.requests == []
    assert run(path, state="verified", verify="hash")["commit"] == commit


def test_a_branch_that_moves_is_followed_only_where_asked(served: Served, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tiny"
    old = fetch(served, path)["commit"]
    write(served.folder / REPO, {"config.json": b'{"architectures": ["Other"]}'})
    (served.folder / REPO / "tokenizer.json").unlink()
    assert not fetch(served, path)["changed"]
    moved = fetch(served, path, update=True)
    assert moved["fetched"] == ["config.json"] and moved["removed"] == ["tokenizer.json"]
    assert moved["commit"] != old and not (path / "tokenizer.json").exists()
    # by its commit, the new one is what is there, whatever the branch was called
    assert not fetch(served, path, revision=moved["commit"])["changed"]


def test_check_mode_tells_how_much_would_move_and_writes_nothing(served: Served, tmp_path: pathlib.Path) -> None:
    result = fetch(served, tmp_path / "tiny", check_mode=True)
    total = sum(len(data) for data in served.files.values())
    assert result["changed"] and result["to_move_gib"] == round(total / 2**30, 3)
    assert result["fetched_files"] == len(served.files)
    assert not (tmp_path / "tiny").exists() and not served.asked("/cdn/")
    assert SHARD in result["diff"]["after"] and result["diff"]["before"] == ""


def test_patterns_take_a_part(served: Served, tmp_path: pathlib.Path) -> None:
    result = fetch(served, tmp_path / "tiny", allow_patterns=["*.json"], ignore_patterns=["model.*"])
    assert sorted(content(tmp_path / "tiny")) == ["config.json", "tokenizer.json"]
    assert not fetch(served, tmp_path / "tiny", allow_patterns=["*.json"], ignore_patterns=["model.*"])["changed"]
    assert result["files"] == 2
    assert fails(served, tmp_path / "none", allow_patterns=["*.bin"]).reason == "no_files"


@pytest.mark.parametrize(
    ("fault", "reason", "given"),
    [
        ({"path": "^/api", "status": 403, "headers": {"X-Error-Code": "GatedRepo"}}, "gated", {}),
        ({"path": "^/cdn|/resolve/", "status": 403, "headers": {"X-Error-Code": "GatedRepo"}}, "gated", {}),
        ({"path": "^/api", "status": 403}, "forbidden", {}),
        ({"path": "^/api", "status": 500}, "hub_unavailable", {}),
        ({"path": "^/api", "status": 503}, "hub_unavailable", {}),
        ({"path": "^/api", "status": 200, "body": "<html>log in here</html>"}, "not_a_hub", {}),
        ({"path": CDN, "wrong_bytes": True}, "hash_mismatch", {}),
        ({"path": "none"}, "revision_not_found", {"revision": "v7"}),
        ({"path": "none"}, "repo_not_found", {"repo_id": "owner/other"}),
    ],
)
def test_a_refusal_has_its_reason(
    served: Served, tmp_path: pathlib.Path, fault: dict[str, object], reason: str, given: dict[str, object]
) -> None:
    served.fault(**fault)
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "tiny", **{"repo_id": REPO, "endpoint": served.endpoint, "retries": 1, **given})
    assert caught.value.reason == reason, caught.value.message
    assert not (tmp_path / "tiny/.llmhost-snapshot.json").exists()


def test_the_token_is_asked_for_accepted_and_shown_nowhere(served: Served, tmp_path: pathlib.Path) -> None:
    served.hub.token = "hf_secret0123456789"
    path = tmp_path / "tiny"
    assert fails(served, path).reason in ("repo_not_found", "unauthorized")
    wrong = fails(served, path, token="hf_wrong")
    assert wrong.reason == "unauthorized" and "hf_wrong" not in json.dumps(wrong.as_result())
    (tmp_path / "token").write_text(served.hub.token + "\n")
    served.fault(path=CDN, rate=400_000)  # time to look at the program
    seen: list[str] = []
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path), served.endpoint, str(tmp_path / "token")], env=os.environ.copy()
    )
    while child.poll() is None:
        for pid in children(child.pid):
            with contextlib.suppress(OSError):
                seen += [pathlib.Path("/proc/%d/%s" % (pid, name)).read_text() for name in ("cmdline", "environ")]
        time.sleep(0.05)
    assert child.returncode == 0
    assert len(seen) > 2 and not [text for text in seen if "hf_secret" in text]
    assert not fetch(served, path)["changed"]
    assert {bool(item["authorization"]) for item in served.asked("/cdn/")} == {False}
    assert {bool(item["authorization"]) for item in served.asked("/resolve/")} == {True}


SCRIPT = """
import sys
from snapshot_support import REPO, run
from pathlib import Path
run(Path(sys.argv[1]), repo_id=REPO, endpoint=sys.argv[2], token_file=(sys.argv[3:] or [None])[0], stall_s=60.0)
"""


@pytest.fixture(autouse=True)
def path_for_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(place for place in sys.path if place))


def children(pid: int) -> list[int]:
    try:
        text = pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def test_what_passes_is_tried_again_and_the_wait_is_the_servers(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path="^/api", status=429, times=1, headers={"Retry-After": "1"})
    served.fault(path=CDN, status=503, times=1)
    began = time.monotonic()
    result = fetch(served, tmp_path / "tiny")
    assert content(tmp_path / "tiny") == served.files
    assert time.monotonic() - began >= 1 and result["retried"]


def test_a_cut_in_the_middle_goes_on_where_it_ended(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path=CDN, method="GET", cut_after=300_000, times=1)
    fetch(served, tmp_path / "tiny")
    assert content(tmp_path / "tiny") == served.files
    ranges = [item["range"] for item in served.asked("00001-of-00002") if item["range"]]
    assert "bytes=262144-" in ranges, ranges


def test_a_server_that_ignores_ranges_gives_a_whole_file(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path=CDN, method="GET", cut_after=300_000, times=1)
    served.fault(path=CDN, method="GET", no_ranges=True)
    fetch(served, tmp_path / "tiny")
    assert content(tmp_path / "tiny") == served.files


def test_always_cut_is_interrupted_and_what_came_stays(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path=CDN, method="GET", cut_after=0)
    served.fault(path="^/owner/tiny/resolve/.*00001", method="GET", skip=1, cut_after=0)
    error = fails(served, tmp_path / "tiny", retries=0)
    assert error.reason == "interrupted", error.message
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "tiny", state="verified")
    assert caught.value.reason == "incomplete"
    served.hub.faults.clear()
    served.hub.requests.clear()
    came = len(list((tmp_path / "tiny/.llmhost-partial").glob("*.ok")))
    fetch(served, tmp_path / "tiny")
    assert content(tmp_path / "tiny") == served.files
    assert came >= 1 and len(served.asked("/resolve/")) == len(served.files) - came, "what had come was fetched again"


def test_silence_is_a_stall(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path=CDN, method="GET", stop_after=300_000)
    began = time.monotonic()
    error = fails(served, tmp_path / "tiny", stall_s=2.0, retries=0)
    assert error.reason in ("stalled", "interrupted") and time.monotonic() - began < 20


def test_slow_is_no_stall(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path=CDN, method="GET", rate=60_000)  # ten seconds in all, a step every four
    fetch(served, tmp_path / "tiny", stall_s=8.0, retries=0)
    assert content(tmp_path / "tiny") == served.files


def test_nobody_there_is_unreachable_and_a_deadline_holds(served: Served, tmp_path: pathlib.Path) -> None:
    with pytest.raises(LlmHostError) as caught:
        run(tmp_path / "tiny", repo_id=REPO, endpoint="http://127.0.0.1:9", retries=0)
    assert caught.value.reason == "hub_unreachable"
    served.fault(path=CDN, method="GET", rate=50_000)
    assert fails(served, tmp_path / "tiny", timeout_s=4.0).reason == "timeout"


def test_a_mirror_that_tells_no_sizes_is_asked_for_each(served: Served, tmp_path: pathlib.Path) -> None:
    served.hub.sizes = False
    fetch(served, tmp_path / "tiny")
    assert content(tmp_path / "tiny") == served.files
    record = json.loads((tmp_path / "tiny/.llmhost-snapshot.json").read_text())
    assert {name: entry["verified"] for name, entry in record["files"].items()} == dict.fromkeys(served.files, "hash")


def test_a_name_that_leaves_the_folder_is_not_taken(served: Served, tmp_path: pathlib.Path) -> None:
    info = {
        "_id": "0",
        "id": REPO,
        "sha": "0" * 40,
        "siblings": [{"rfilename": "../../etc/x", "size": 1, "blobId": "1"}],
    }
    served.fault(path="^/api", status=200, body=json.dumps(info))
    assert fails(served, tmp_path / "tiny").reason == "bad_file_name"


def test_a_repository_that_is_not_whole_is_never_called_present(served: Served, tmp_path: pathlib.Path) -> None:
    write(served.folder / REPO, {SHARD: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"})
    error = fails(served, tmp_path / "tiny")
    assert error.reason == "lfs_pointer" and SHARD in error.message
    assert fails(served, tmp_path / "tiny").reason == "lfs_pointer"
    with pytest.raises(LlmHostError):
        run(tmp_path / "tiny", state="verified")


def test_two_at_once_fetch_it_once(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path=CDN, method="GET", rate=500_000)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "tiny"), served.endpoint]
    both = [subprocess.Popen(command) for _each in range(2)]
    assert [child.wait(60) for child in both] == [0, 0]
    assert len(served.asked("00002-of-00002", "GET")) == 2, "one request and its redirect"
    assert content(tmp_path / "tiny") == served.files


def test_a_transfer_in_slices_goes_on_and_tells_how_far_it_is(served: Served, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tiny"
    served.fault(path=CDN, method="GET", rate=200_000)
    total = sum(len(data) for data in served.files.values())
    came, moved = [0], 0
    while True:
        result = fetch(served, path, slice_s=0.5)
        moved += result["moved_bytes"]
        if not result.get("unfinished"):
            break
        came.append(result["came_bytes"])
        assert result["all_bytes"] == total and moved == came[-1] and len(came) < 50
        with pytest.raises(LlmHostError) as caught:
            run(path, state="verified")
        assert caught.value.reason == "incomplete"
    assert came == sorted(came) and 0 < came[1] < total, came
    assert moved == total and content(path) == served.files


def test_a_slice_in_which_nothing_comes_ends_as_a_stall(served: Served, tmp_path: pathlib.Path) -> None:
    served.fault(path="^/cdn/|/resolve/", method="GET", stop_after=0)
    error = fails(served, tmp_path / "tiny", stall_s=2.0, retries=0, slice_s=0.2)
    assert error.reason in ("stalled", "interrupted"), error.message


def test_killed_anywhere_it_converges_and_is_never_taken_for_whole(served: Served, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tiny"
    command = [sys.executable, "-c", SCRIPT, str(path), served.endpoint]
    total = sum(len(data) for data in served.files.values())
    served.fault(path="^/cdn/", method="GET", rate=1_000_000)
    shares = random.Random(8)
    cut = 0
    for _each in range(20 if os.environ.get("LLMHOST_FULL") else 3):
        run(path, state="absent")
        least = shares.uniform(-0.1, 1.0) * total  # below nothing: before the first byte
        child = subprocess.Popen(command)
        while bytes_in(path) < least and child.poll() is None:
            time.sleep(0.002)
        below = children(child.pid)
        child.kill()
        child.wait()
        deadline = time.monotonic() + 30
        while any(pathlib.Path("/proc/%d" % pid).exists() for pid in below):
            assert time.monotonic() < deadline, "the program outlived its module"
            time.sleep(0.02)
        if (path / ".llmhost-snapshot.json").exists():  # it was finished, so it must be whole
            assert content(path) == served.files
        else:
            cut += 1
            with pytest.raises(LlmHostError):
                run(path, state="verified")
        fetch(served, path)
        assert content(path) == served.files
        assert not run(path, state="verified", verify="hash")["changed"]
    assert cut, "nothing was cut"


def bytes_in(folder: pathlib.Path) -> int:
    total = 0
    for top, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(top, name)).st_size
    return total
