# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated driver keeps what its README says; the tests of the GPU room lean on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nvml_sim_support import SOURCE, Sim


def used(sim: Sim, *options: str) -> int:
    done = sim.run("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", *options)
    assert done.returncode == 0, done.stdout
    return int(done.stdout.split()[0])


def test_it_says_that_it_is_a_simulation(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    done = sim.run("nvidia-smi", "--query-gpu=driver_version,name,uuid", "--format=csv")
    assert done.stdout.splitlines()[0] == "driver_version, name, uuid"
    assert "sim" in done.stdout.splitlines()[1]
    assert "simulation" in sim.run("nvidia-smi").stdout
    assert sim.run("nvidia-smi", "-L").stdout.startswith("GPU 0: ")


CHILD = (
    "import ctypes, signal, sys; ctypes.CDLL(None).prctl(15, sys.argv[1].encode()); "
    "print(1, flush=True); signal.pause()"
)


def child(name: str) -> subprocess.Popen[bytes]:
    found = subprocess.Popen([sys.executable, "-c", CHILD, name], stdout=subprocess.PIPE)
    assert found.stdout is not None
    found.stdout.readline()
    return found


def test_a_real_process_holds_memory_and_gives_it_back_after_its_time(tmp_path: Path) -> None:
    import time

    sim = Sim(tmp_path)
    name = f"held-{os.getpid() % 10000}"
    sim.write(f"gpu 0\nrelease_ms 700\nhold gpu=0 mem=3000 comm=^{name}$")
    assert used(sim) == 4
    process = child(name)
    try:
        assert used(sim) == 3004
        apps = sim.run("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits").stdout
        assert apps.split() == [f"{process.pid},", "3000"]
    finally:
        process.kill()
        process.wait()
    assert used(sim) == 3004  # dead, not listed, still charged
    assert sim.run("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader").stdout == ""
    time.sleep(0.8)
    assert used(sim) == 4


def test_a_hold_may_ask_for_a_container_and_a_number(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    name = f"held-{os.getpid() % 10000}"
    process = child(name)
    groups = Path("/proc/self/cgroup").read_text().split()
    group = next((line.rsplit("/", 1)[1] for line in groups if not line.endswith("/")), "")
    try:
        for extra, mib in (
            ("", 3004),
            (" vmid=129", 4),
            (" unit=nobody.service", 4),
            (f" unit={group}" if group else "", 3004),
            (f" unit={group[:-1]}" if group else " max=0", 4),
            (" max=0", 4),
            (f' cmd="{sys.executable}"', 3004),
            (" cmd=nobody", 4),
        ):
            sim.write(f"gpu 0\nhold gpu=0 mem=3000 comm=^{name}${extra}")
            assert used(sim) == mib, extra
    finally:
        process.kill()
        process.wait()


def test_a_process_line_counts_while_that_very_process_lives(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    start = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    for when, mib in (("", 1004), (f" start={start}", 1004), (" start=5", 4)):
        sim.write(f"gpu 0\nproc gpu=0 pid={os.getpid()} mem=1000{when}")
        assert used(sim) == mib
    sim.write(f"gpu 0\nproc gpu=0 pid={os.getpid()} mem=-1 report=4294967295")
    done = sim.run("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader")
    assert done.stdout.strip() == "4294967295, [N/A]"


def test_a_field_that_is_not_known_is_refused(tmp_path: Path) -> None:
    done = Sim(tmp_path).run("nvidia-smi", "--query-gpu=nonsense", "--format=csv")
    assert done.returncode == 2 and 'Field "nonsense"' in done.stdout


@pytest.mark.parametrize(
    ("state", "code", "text"),
    [
        ("gpu 0\nerr nvmlInit 18", 18, "Driver/library version mismatch"),
        ("gpu 0\nerr nvmlInit 999", 255, "Failed to initialize NVML: Unknown Error"),
        ("gpu 0\nerr nvmlInit 9", 9, "couldn't communicate"),
        ("gpu 0 lost=1", 15, "GPU is lost"),
        ("# none", 6, "No devices were found"),
    ],
)
def test_a_failure_looks_like_the_real_one(state: str, code: int, text: str, tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write(state)
    done = sim.run("nvidia-smi", "-q", "-x")
    assert done.returncode == code and text in done.stdout


def test_a_list_ends_where_the_driver_s_does(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\n" + "\n".join(f"proc pid={1000 + n} mem=1 static=1" for n in range(1000)))
    lines = sim.run("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader").stdout.split()
    assert len(lines) == 950


def test_the_kernel_log(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\ngpu 1 bus=00000000:C1:00.0\nxid 1 79 pid=7, GPU has fallen off the bus.\nxid 0 13")
    lines = sim.run("dmesg").stdout.splitlines()
    assert re.fullmatch(
        r"\[ +\d+\.\d+\] NVRM: Xid \(PCI:0000:c1:00\): 79, pid=7, GPU has fallen off the bus\.", lines[0]
    )
    assert "(PCI:0000:01:00): 13," in lines[1]


def test_each_statement_of_the_readme_is_read() -> None:
    readme = (SOURCE / "README.md").read_text()
    code = "".join((SOURCE / name).read_text() for name in ("state.c", "nvml.c", "smi.c", "dmesg", "mps_control.py"))
    table = [line for line in readme.splitlines() if line.startswith("| `")]
    words = {re.match(r"\| `(\w+)", line).group(1) for line in table}  # type: ignore[union-attr]
    keys = {word for line in table for word in re.findall(r"(\w+)=", line.split(" | ")[0])}
    assert words and keys
    for word in words | keys:
        assert f'"{word}"' in code or f'"{word} ' in code or f"{word}" in json.dumps(code), word
