# SPDX-License-Identifier: GPL-3.0-or-later
"""Where evidence is fetched: the kernel log, file systems, the driver, py-spy. On this host where that can be."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._evidence import gather, gpus, kernel, places, stack
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.model import Client, Entry, Gpu, Memory, Snapshot
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.evidence import SHM, Start

GROUP = "/system.slice/sglang-a.service"
LOG = """\
[  100.000000] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/system.slice/\
sglang-a.service,task_memcg=/system.slice/sglang-a.service,task=python,pid=50,uid=999
[  500.000000] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  500.100000] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/system.slice/\
sglang-a.service,task_memcg=/system.slice/sglang-a.service,task=sglang::schedul,pid=71,uid=999
[  500.200000] Memory cgroup out of memory: Killed process 71 (sglang::schedul) total-vm:9000kB, anon-rss:8000kB
[  501.000000] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
task_memcg=/system.slice/sglang-ab.service,task=python,pid=72,uid=0
[  501.100000] Out of memory: Killed process 72 (python) total-vm:9000kB, anon-rss:8000kB
[  502.000000] NVRM: Xid (PCI:0000:41:00): 31, pid=71, name=python, Ch 00000008, MMU Fault
[  503.000000] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[  504.000000] usb 1-1: new device
"""


def told(text: str, code: int = 0, error: str = "") -> kernel.Run:
    def run(command: list[str], _timeout_s: float, _what: str) -> tuple[int, str, str]:
        return (code, text, error) if command[0] == "dmesg" else (1, "", "no journal")

    return run


def lines(since: float = 499.0, until: float | None = None) -> list[str]:
    found: list[str] = kernel.lines(since, until, run=told(LOG)).value
    return found


def test_only_the_lines_of_this_start() -> None:
    assert [float(line[1:12]) for line in lines()] == [500.0, 500.1, 500.2, 501.0, 501.1, 502.0, 503.0, 504.0]
    assert len(lines(until=501.5)) == 6
    assert lines(since=9999.0) == []


@pytest.mark.parametrize("run", [told("", 1, "dmesg: read kernel buffer failed: Operation not permitted"), told("")])
def test_a_kernel_log_that_cannot_be_read_is_unknown_and_not_empty(run: kernel.Run) -> None:
    found = kernel.lines(0.0, run=run)
    assert found.value is None
    assert "dmesg" in found.why and "journalctl: no journal" in found.why


def test_a_kernel_log_that_hangs_is_unknown() -> None:
    def run(command: list[str], _timeout_s: float, _what: str) -> tuple[int, str, str]:
        raise LlmHostError("driver_hung", "dmesg gave no answer within 5 s. More words.")

    assert "dmesg gave no answer within 5 s" in kernel.lines(0.0, run=run).why


def test_the_victim_is_known_by_its_control_group() -> None:
    assert [(one.pid, one.name, one.own) for one in kernel.ooms(lines(), GROUP)] == [
        (71, "sglang::schedul", True),
        (72, "python", False),  # of sglang-ab, whose name only begins alike
    ]


def test_from_the_host_the_control_group_of_a_container_is_longer() -> None:
    seen = [line.replace("task_memcg=", "task_memcg=/lxc/129/ns") for line in lines()]
    assert [one.own for one in kernel.ooms(seen, GROUP)] == [True, False]


def test_an_older_kernel_names_no_control_group() -> None:
    old = [line for line in lines() if "oom-kill:" not in line]
    assert [(one.pid, one.own) for one in kernel.ooms(old, GROUP, {71})] == [(71, True), (72, False)]
    assert [one.own for one in kernel.ooms(old, GROUP)] == [None, None]


def test_reports_of_the_driver() -> None:
    found = kernel.xids(lines())
    assert [(one.number, one.kind, one.pid) for one in found] == [(31, "app", 71), (79, "fatal", None)]


# -- file systems -----------------------------------------------------------------------------------------------------


def test_where_a_server_writes() -> None:
    found = places.wanted(
        {"HOME": "/home/sglang", "HF_HOME": "/srv/hf", "TRITON_CACHE_DIR": "relative", "TMPDIR": "/scratch"},
        "/var/lib/llmhost",
        "/models/a",
    )
    assert list(found) == ["/home/sglang/.cache", "/srv/hf", "/scratch", "/var/lib/llmhost", "/models/a", SHM]
    assert list(places.wanted({}, "", "org/model")) == ["/tmp", SHM]


def test_each_file_system_once_also_where_a_folder_is_yet_to_be_made(tmp_path: Path) -> None:
    before = {name for name in os.listdir("/proc") if name.isdigit() and _child(int(name))}  # of other tests
    found = places.look({str(tmp_path / "not/there/yet"): "caches", str(tmp_path): "the same"}).value
    assert [(one.path, one.purpose) for one in found] == [(str(tmp_path / "not/there/yet"), "caches")]
    assert 0 <= found[0].free_bytes <= found[0].total_bytes
    assert not {name for name in os.listdir("/proc") if name.isdigit() and _child(int(name))} - before


def _child(pid: int) -> bool:
    try:
        return identity.stat(pid).ppid == os.getpid() and identity.stat(pid).state == "Z"
    except OSError:
        return False


def test_a_file_system_that_hangs_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def statvfs(path: str) -> Any:
        if path == str(tmp_path):
            time.sleep(60)
        return real(path)

    monkeypatch.setattr(places.os, "statvfs", statvfs)
    began = time.monotonic()
    found = places.look({str(tmp_path): "model"}, timeout_s=0.3)
    assert time.monotonic() - began < 5
    assert found.value is None and str(tmp_path) in found.why


# -- GPUs -------------------------------------------------------------------------------------------------------------


def process(pid: int, unit: str | None) -> identity.Process:
    return replace(identity.read(os.getpid()), pid=pid, unit=unit, comm="python")


def gpu(index: int, *clients: Client, used: int = 1000) -> Gpu:
    return Gpu(index, "GPU-%d" % index, memory=Memory(80000, used, 80000 - used, 0), clients=clients)


def snapshot(count: int) -> Snapshot:
    return Snapshot("smi", "", "580.0", "13.0", tuple(gpu(index) for index in range(count)))


def client(pid: int, mib: int | None, behind: identity.Process | None) -> Client:
    return Client(Entry(pid, ("compute",), mib), "GPU-0", behind)


def test_own_foreign_and_unknown_clients() -> None:
    (card,) = gpus.cards(
        [
            gpu(
                0,
                client(1, 10, process(1, "sglang-a.service")),
                client(2, 20, process(2, "other.service")),
                client(3, 30, process(3, None)),
                client(4, None, None),
            )
        ],
        "sglang-a.service",
        {3},
    )
    assert [(one.pid, one.own, one.memory_mib) for one in card.holders] == [
        (1, True, 10),
        (2, False, 20),
        (3, True, 30),
        (4, None, None),
    ]
    assert (card.total_mib, card.used_mib) == (80000, 1000)
    assert gpus.held_mib([card]) == 40
    assert gpus.held_mib(gpus.cards([gpu(0, used=700)], "sglang-a.service", set())) == 700
    assert gpus.held_mib([]) is None


@pytest.mark.parametrize(
    "environment, ranks, indexes",
    [
        ({"CUDA_VISIBLE_DEVICES": "2,1"}, 2, [2, 1]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-3"}, 1, [3]),
        ({"CUDA_VISIBLE_DEVICES": ""}, 1, []),
        ({"HOME": "/x"}, 2, [0, 1]),
        (None, 2, None),
    ],
)
def test_which_cards_are_the_servers(environment: Any, ranks: int, indexes: Any) -> None:
    found = gpus.visible(snapshot(4), environment, ranks)
    assert (None if found is None else [one.index for one in found]) == indexes


def test_a_single_card_is_the_servers_in_any_case() -> None:
    assert gpus.visible(snapshot(1), None, 1) == [gpu(0)]


def test_without_a_driver_the_gpus_are_unknown_and_not_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    looked = gpus.Gpus(source="smi")
    assert looked.look().value is None and "no NVIDIA driver" in looked.look().why
    host = gather.Host(Start("sglang-a.service", main_pid=os.getpid()))
    monkeypatch.setattr(host, "_gpus", looked)
    assert host.cards().value is None and host.gpu_mib() is None


# -- the stack --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose Python lies in a folder of its own, as that of a server does."""
    (tmp_path / "venv/bin").mkdir(parents=True)
    python = tmp_path / "venv/bin/python"
    python.symlink_to(sys.executable)
    child = subprocess.Popen([str(python), "-c", "import time; time.sleep(60)"], env={"PATH": "/nonexistent"})
    while not Path("/proc/%d/cmdline" % child.pid).read_bytes():  # Popen is back a moment before the kernel knows it
        time.sleep(0.01)
    yield child
    child.kill()
    child.wait()


def spy(folder: Path, text: str) -> None:
    program = folder / "venv/bin/py-spy"
    program.write_text("#!/bin/sh\n" + text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_py_spy_lies_beside_the_servers_python(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    spy(tmp_path, 'echo "Process $4: asked with $*"')
    found = stack.take(sleeper.pid)
    assert found.value == "Process %d: asked with dump --nonblocking --pid %d\n" % (sleeper.pid, sleeper.pid)


def test_no_py_spy_says_so(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = stack.take(sleeper.pid)
    assert found.value is None and "py-spy is not installed" in found.why


def test_py_spy_that_fails_or_hangs_says_so(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    spy(tmp_path, "echo 'Error: Permission Denied' >&2; exit 1")
    assert "Permission Denied" in stack.take(sleeper.pid).why
    spy(tmp_path, "exec sleep 60")
    began = time.monotonic()
    assert "no answer within 0.3 s" in stack.take(sleeper.pid, timeout_s=0.3).why
    assert time.monotonic() - began < 5


def test_the_kernel_says_that_a_process_is_halted(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while "halted" not in stack.state(sleeper.pid).get("state", "") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stack.state(sleeper.pid)["state"] == "halted (SIGSTOP)"


# -- all of it --------------------------------------------------------------------------------------------------------


def test_a_start_of_which_nobody_knows_when_it_began_gets_no_kernel_log() -> None:
    host = gather.Host(Start("sglang-a.service", main_pid=os.getpid()))
    assert host.ooms().value is None and "not known when this start began" in host.ooms().why


def test_the_environment_is_read_for_what_is_needed_and_nothing_else(sleeper: subprocess.Popen[bytes]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={"HF_TOKEN": "hf_secretsecret", "CUDA_VISIBLE_DEVICES": "1", "HF_HOME": "/srv/hf"},
    )
    try:
        deadline = time.monotonic() + 5  # until it has become that program
        host = gather.Host(Start("sglang-a.service", main_pid=child.pid))
        while (host._environment or {}).get("HF_HOME") != "/srv/hf" and time.monotonic() < deadline:
            host = gather.Host(Start("sglang-a.service", main_pid=child.pid))
        assert host._environment == {"CUDA_VISIBLE_DEVICES": "1", "HF_HOME": "/srv/hf"}
    finally:
        child.kill()
        child.wait()
