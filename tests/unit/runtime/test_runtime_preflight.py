# SPDX-License-Identifier: GPL-3.0-or-later
"""What is looked at before a download, each fault with its remedy; what a version needs; locks; what may go."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import sys
import threading
import time

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._runtime import (
    build,
    locks,
    preflight,
    programs,
    prune,
    versions,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._runtime.preflight import Gpus
from runtime_support import NEW, OLD, LlmHostError, World, layout

ENV = dict(os.environ)


# ---------------------------------------------------------------- the table
@pytest.mark.parametrize(
    ("version", "since"),
    [
        ("0.4.6.post5", "0.4.4"),
        ("0.4.9", "0.4.9"),
        ("0.5.6.post2", "0.5.3"),
        ("0.5.10.post1", "0.5.10"),
        ("0.5.18", "0.5.11"),
        ("0.5.23", "0.5.22"),
        ("0.6.0rc1", "0.5.22"),
    ],
)
def test_each_row_has_a_version_that_hits_it(version: str, since: str) -> None:
    row = versions.needs(version)
    assert row is not None and row.since == since


def test_the_table() -> None:
    assert versions.needs("0.3.6") is None
    with pytest.raises(LlmHostError):
        versions.needs("latest")
    assert [row.since for row in versions.TABLE] == sorted((row.since for row in versions.TABLE), key=versions.numbers)
    assert {row.cuda for row in versions.TABLE} == set(versions.DRIVERS)
    newest = versions.needs("0.5.23")
    assert newest and (newest.cuda, newest.python) == ("13.0", (3, 11))
    assert versions.driver_minimum("13.0") == "580.65.06" and versions.driver_minimum("13.7") == "580.65.06"
    assert versions.driver_minimum("99.0") is None


# ---------------------------------------------------------------- driver and GPUs
ROW = versions.needs(NEW)


@pytest.mark.parametrize(
    ("gpus", "wanted", "statuses"),
    [
        (Gpus(2, "580.65.06", {"A": 8.6}), "auto", ["ok", "ok"]),
        (Gpus(2, "999.00-llmhost-sim", {"A": 8.6}), "auto", ["ok", "ok"]),
        (Gpus(2, "570.211.01", {"A": 8.6}), "auto", ["fail", "ok"]),
        (Gpus(1, "580.65.06", {"V": 7.0}), "auto", ["ok", "fail"]),
        (Gpus(1, "580.65.06", {"?": None}), "auto", ["ok", "unknown"]),
        (Gpus(0, None), "auto", ["not_applicable"]),
        (Gpus(0, None), "required", ["fail"]),
        (Gpus(1, None, {}, "the driver does not answer"), "auto", ["fail"]),
        (Gpus(1, None), "none", ["not_applicable"]),
    ],
)
def test_driver(gpus: Gpus, wanted: str, statuses: list[str]) -> None:
    checks = preflight.driver(ROW, gpus, wanted)
    assert [check.status for check in checks] == statuses
    assert all(check.remedy for check in checks if check.status == "fail")


def test_a_driver_that_is_too_old_names_both_numbers_and_the_way_out() -> None:
    check = preflight.driver(ROW, Gpus(1, "550.54.14"), "auto")[0]
    assert "550.54.14" in check.message and "580.65.06" in check.message and "0.5.10" in str(check.remedy)
    old = versions.needs("0.5.6.post2")
    assert preflight.driver(old, Gpus(1, "550.54.14"), "auto")[0].status == "ok"
    assert preflight.driver(None, Gpus(1, "550.54.14"), "auto")[0].status == "unknown"


@pytest.mark.parametrize(
    ("found", "gpus", "reason"),
    [
        ({"torch_cuda": "13.0", "device_count": 0, "device_error": "999"}, Gpus(2, "580.65.06"), "no_devices"),
        ({"torch_cuda": "13.0", "device_count": 2}, Gpus(2, "570.1"), "driver_too_old"),
        ({"torch_cuda": "13.0", "kernel_wanted": [["sglang-kernel", "0.4.10"]]}, Gpus(0, None), "kernel_mismatch"),
        (
            {"torch_cuda": "13.0", "packages": {"sgl-kernel": "1", "sglang-kernel": "1"}},
            Gpus(0, None),
            "kernel_mismatch",
        ),
        ({"torch_cuda": None, "kernel_wanted": [["sglang-kernel", "0.4.10"]]}, Gpus(2, "570.1"), None),
        ({"packages": {"sglang": OLD}}, Gpus(0, None), "wrong_version"),
        ({"imports": {"torch": "ImportError: no"}}, Gpus(0, None), "import_failed"),
    ],
)
def test_judgement(tmp_path: pathlib.Path, found: dict[str, object], gpus: Gpus, reason: str | None) -> None:
    recipe = build.Recipe(NEW, "", (), "", None, False, "", "", (), (), "pip", None, 1.0)
    packages = {"sglang": NEW, **found.pop("packages", {})}  # type: ignore[dict-item]
    whole = {
        "packages": packages,
        "imports": {},
        "kernel_wanted": [],
        "torch_cuda": None,
        "device_count": None,
        **found,
    }
    assert [word for word, _text in build.judge(whole, recipe, gpus)] == ([reason] if reason else [])


# ---------------------------------------------------------------- Python
def test_a_python_that_is_too_old_is_named_with_the_ways_out(tmp_path: pathlib.Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\necho 3 10 1\n")
    fake.chmod(0o755)
    found, check = preflight.find_python(str(fake), (3, 11), ENV, None, None, "")
    assert found and found.version == (3, 10) and check.status == "fail"
    assert "3.10" in check.message and "Ubuntu 22.04" in str(check.remedy)
    assert preflight.find_python("/nonexistent", (3, 11), ENV, None, None, "")[1].status == "fail"
    auto, check = preflight.find_python("auto", (3, 99), ENV, None, None, "")
    assert auto is None and check.status == "fail" and check.remedy


def test_uv_may_have_a_python(tmp_path: pathlib.Path) -> None:
    fake = tmp_path / "uv"
    fake.write_text(f"#!/bin/sh\necho {sys.executable}\n")
    fake.chmod(0o755)
    least = sys.version_info[:2]
    found, check = preflight.find_python("auto", (least[0], 99), ENV, str(fake), None, "")
    assert found is None and check.status == "fail", "what uv has must be new enough as well"


# ---------------------------------------------------------------- sources
@pytest.fixture
def index():
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path + " " + (self.headers.get("Authorization") or ""))
            self.send_response(200 if "/good/" in self.path else 503)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield "http://{}127.0.0.1:%d" % server.server_address[1], seen
    server.shutdown()
    server.server_close()


def test_registry(index: tuple[str, list[str]]) -> None:
    base, seen = index
    assert preflight.registry(base.format("") + "/good/simple", True, {}).status == "ok"
    assert preflight.registry(base.format("me:s3cret@") + "/good/simple", True, {}).status == "ok"
    assert "Basic " in seen[-1]
    bad = preflight.registry(base.format("me:s3cret@") + "/bad", True, {})
    assert bad.status == "fail" and "503" in bad.message and "s3cret" not in bad.message and bad.remedy
    assert preflight.registry(base.format("") + "/bad", False, {}).status == "unknown"
    gone = preflight.registry("http://127.0.0.1:9/simple", True, {})
    assert gone.status == "fail" and "proxy" in str(gone.remedy)
    through = preflight.registry("http://nowhere.invalid/good/simple", True, {"http_proxy": base.format("")})
    assert through.status == "ok" and seen[-1].startswith("http://nowhere.invalid/good/simple/sglang/")


def test_configured_index(tmp_path: pathlib.Path) -> None:
    home = {"HOME": str(tmp_path)}
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip/pip.conf").write_text("[global]\nindex-url = https://mirror.example.com/simple\n")
    assert preflight.configured_index(home)[0] == "https://mirror.example.com/simple"
    assert preflight.configured_index({**home, "PIP_INDEX_URL": "https://x.example.com"}) == (
        "https://x.example.com",
        False,
    )
    (tmp_path / ".pip/pip.conf").write_text("[global]\nfind-links = /srv\n")
    assert preflight.configured_index(home)[1] is False


def test_wheelhouse(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    lock = locks.read(str(world.house / f"lock-{NEW}.txt"))
    python = preflight.Python(sys.executable, sys.version_info[:2], True)
    assert preflight.wheelhouse(str(world.house), lock, python).status == "ok"
    next(world.house.glob("tiny_helper*")).unlink()
    bad = preflight.wheelhouse(str(world.house), lock, python)
    assert bad.status == "fail" and "tiny-helper==1.0" in bad.message
    assert preflight.wheelhouse(str(tmp_path / "none"), lock, python).status == "fail"
    (tmp_path / "empty").mkdir()
    assert preflight.wheelhouse(str(tmp_path / "empty"), lock, python).status == "fail"


@pytest.mark.parametrize(
    ("wheel", "python", "fits"),
    [
        ("a-1-py3-none-any.whl", (3, 11), True),
        ("a-1-py2.py3-none-any.whl", (3, 11), True),
        ("a-1-cp311-cp311-manylinux_2_34_x86_64.whl", (3, 11), True),
        ("a-1-cp311-cp311-manylinux_2_34_x86_64.whl", (3, 12), False),
        ("a-1-cp39-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", (3, 12), True),
        ("a-1-cp313-abi3-manylinux2014_x86_64.whl", (3, 12), False),
        ("a-1-cp311-cp311-manylinux_2_34_aarch64.whl", (3, 11), False),
        ("a-1-cp311-cp311-win32.whl", (3, 11), False),
    ],
)
def test_which_wheels_a_python_takes(wheel: str, python: tuple[int, int], fits: bool) -> None:
    assert locks.fits(wheel, python, "x86_64") is fits


def test_locks() -> None:
    text = "# c\n-i https://x\nA_b==1.0+cpu \\\n    --hash=sha256:00\nc[x]==2 ; python_version < '3'\n\nd===3.post1\n"
    lock = locks.parse(text, "l")
    assert lock.pins == {"a-b": "1.0+cpu", "d": "3.post1"} and lock.conditional == ("c",) and lock.hashed
    for bad in ("a>=1\n", "", "git+https://x\n"):
        with pytest.raises(LlmHostError) as caught:
            locks.parse(bad, "l")
        assert caught.value.reason == "lock_invalid"
    installed = {"a-b": "1.0+cpu", "d": "4", "e": "1", "pip": "9"}
    assert locks.differences(lock, installed) == ["d 4 instead of 3.post1", "e 1 is not in the lock"]
    plain = locks.parse(locks.render(installed, {}), "l")
    assert plain.pins == {"a-b": "1.0+cpu", "d": "4", "e": "1"} and not plain.hashed


def test_a_lock_has_all_hashes_or_none() -> None:
    installed = {"a": "1", "b": "2", "pip": "9", "setuptools": "80"}
    one, two = "1" * 64, "2" * 64
    text = locks.render(installed, {"a": [one], "b": [two, one], "setuptools": [one]})
    lock = locks.parse(text, "l")
    assert lock.hashed and lock.pins == {"a": "1", "b": "2", "setuptools": "80"}, "pip came with the environment"
    assert f"b==2 \\\n    --hash=sha256:{one} \\\n    --hash=sha256:{two}\n" in text
    assert text.count("--hash=sha256:") == 4
    for known in ({"a": [one]}, {"a": [one], "b": []}):
        assert not locks.parse(locks.render(installed, known), "l").hashed


def test_what_pip_and_uv_say_of_hashes() -> None:
    new, old, none = "a" * 64, "b" * 64, {"url": "git+https://x", "vcs_info": {}}
    items = [
        ("A_b", {"archive_info": {"hash": f"sha256={old}", "hashes": {"sha256": new}}}),
        ("c", {"archive_info": {"hash": f"sha256={old}"}}),
        ("d", none),
    ]
    report = {"install": [{"metadata": {"name": name}, "download_info": info} for name, info in items]}
    assert locks.hashes_of_report(json.dumps(report)) == {"a-b": [new], "c": [old], "d": []}
    pylock = f"""lock-version = "1.0"
[[packages]]
name = "a-b"
sdist = {{ url = "x", hashes = {{ sha256 = "{new}" }} }}
wheels = [
    {{ url = "y", hashes = {{ sha256 = "{old}" }} }},
]

[[packages]]
name = "c"
directory = {{ path = "z" }}
"""
    assert locks.hashes_of_pylock(pylock) == {"a-b": [new, old], "c": []}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"version": "newest"}, "bad_version"),
        ({"index_url": "https://x", "wheelhouse": "/srv"}, "two_sources"),
        ({"root": "/"}, "bad_path"),
        ({"root": "opt/x"}, "bad_path"),
        ({"lock": "record", "lock_file": ""}, "no_lock_file"),
        ({"lock_file": "/nonexistent"}, "lock_missing"),
    ],
)
def test_what_cannot_be_meant(tmp_path: pathlib.Path, given: dict[str, object], reason: str) -> None:
    assert World(tmp_path).fails(**given).reason == reason  # type: ignore[arg-type]


def test_all_faults_of_a_host_are_told_at_once(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    next(world.house.glob("tiny_helper*")).unlink()
    error = world.fails(python="/nonexistent", reserve_gib=1e9, gpus="required", state="checked")
    assert set(error.details["failed_checks"]) >= {"python", "disk", "driver"}
    assert all(check["remedy"] for check in error.details["checks"] if check["status"] == "fail")
    assert not world.root.exists()


# ---------------------------------------------------------------- what goes
def test_the_last_ones_stay_and_what_is_used_stays(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    names = [f"0.5.{number}-0000000{number}" for number in range(5)]
    for number, name in enumerate(names):
        world.fake(name, 1000.0 + number)
    for name in (names[0], names[3], names[4]):
        world.layout.switch(name)
    (world.root / "0.5.9-00000009").mkdir()  # never finished
    (world.root / ".cache/pip").mkdir(parents=True)
    (world.root / ".cache/pip/half").write_bytes(b"x" * 5000)
    (world.root / "notes").mkdir()  # not ours
    waste, busy = prune.find(world.layout, 2, (), ())
    kinds = {os.path.basename(item.path): item.kind for item in waste}
    assert kinds == {
        names[1]: "runtime",
        names[2]: "runtime",
        "0.5.9-00000009": "unfinished",
        ".cache": "download_cache",
    }
    assert busy == [] and all(item.size > 0 for item in waste if item.kind == "runtime")
    holder = open(world.root / names[1] / "big", "rb")  # noqa: SIM115
    import mmap

    mapped = mmap.mmap(holder.fileno(), 0, prot=mmap.PROT_READ)
    waste, busy = prune.find(world.layout, 2, (names[2],), ())
    assert busy == [names[1]] and {os.path.basename(item.path) for item in waste} == {"0.5.9-00000009", ".cache"}
    mapped.close()
    holder.close()
    assert len(prune.remove(prune.find(world.layout, 0, (), ())[0])) == 6
    assert sorted(os.listdir(world.root)) == [".history.json", names[4], "notes"]


def test_caches_that_no_kept_runtime_wrote(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    world.fake("0.5.1-00000001", time.time() - 3600)
    caches = tmp_path / "cache"
    for name, age_s in (("demo/triton", 7200), ("demo/flashinfer", 60), ("demo/empty", None)):
        (caches / name).mkdir(parents=True)
        if age_s is not None:
            (caches / name / "kernel.so").write_bytes(b"x" * 5000)
            os.utime(caches / name / "kernel.so", (time.time() - age_s,) * 2)
    world.layout.switch("0.5.1-00000001")
    waste, _busy = prune.find(world.layout, 2, (), [str(caches)])
    assert [(item.kind, item.path) for item in waste] == [("jit_cache", str(caches / "demo/triton"))]


def test_the_order_of_runtimes(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path)
    for number in range(3):
        world.fake(f"0.5.{number}-0000000{number}", 1000.0 + number)
    assert world.layout.previous() == "0.5.2-00000002" or world.layout.previous() is None
    world.layout.switch("0.5.0-00000000")
    world.layout.switch("0.5.2-00000002")
    assert world.layout.previous() == "0.5.0-00000000"
    (world.root / "0.5.0-00000000" / layout.MARKER).unlink()
    assert world.layout.previous() is None, "a runtime without its marker is none"
    (world.root / layout.HISTORY).write_text("{broken")
    assert world.layout.history() == []


@pytest.mark.parametrize("begin", ["cause: ", "Caused by: ", "├─▶ ", "╰─▶ "])
def test_the_cause_below_the_error_is_told(begin: str) -> None:
    done = programs.Done(1, "", f"error: Failed to download `a==1`\n  {begin}Hash mismatch\n\n  Expected:\n    x\n")
    assert done.last_words == f"error: Failed to download `a==1` / {begin}Hash mismatch"


def test_passwords_are_masked() -> None:
    done = programs.Done(1, "", "ERROR: https://me:s3cret@mirror/simple is down\n")
    assert "s3cret" not in done.last_words and "mirror" in done.last_words
