# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated driver under the versions of nvidia-ml-py that are about, and which of them gpu_info uses.

Each version is fetched from the package index once and kept in LLMHOST_CACHE.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/unit/nvml"))
from nvml_sim_support import Sim  # noqa: E402

CACHE = pathlib.Path(os.environ.get("LLMHOST_CACHE") or pathlib.Path.home() / ".cache/llmhost-sglang")
PIDS = [1184, 16040, 19984]

# version -> the call that it makes for the processes (v3 wide: entries of 32 bytes), and whether gpu_info uses it
VERSIONS = {
    "11.450.51": ("v1", False),
    "11.450.129": ("v2", False),
    "11.510.69": ("v3", False),
    "12.535.77": ("v3 wide", False),
    "12.535.108": ("v3", True),
    "12.560.30": ("v3", True),
    "newest": ("v3", True),
}

RAW = """
import json
import pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
text = lambda value: value.decode() if isinstance(value, bytes) else value
print(json.dumps({
    "count": n.nvmlDeviceGetCount(),
    "uuid": text(n.nvmlDeviceGetUUID(handle)),
    "driver": text(n.nvmlSystemGetDriverVersion()),
    "used": n.nvmlDeviceGetMemoryInfo(handle).used >> 20,
    "pids": [one.pid for one in n.nvmlDeviceGetComputeRunningProcesses(handle)],
}))
n.nvmlShutdown()
"""

OURS = """
import json
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import nvml, query
driver, name, note = query.open_driver("auto", 20)
found = query.look(driver, name, note)
driver.close()
print(json.dumps([name, note, [entry.pid for gpu in found.gpus for entry in gpu.entries], found.gpus[0].memory.used]))
"""


def package(version: str) -> pathlib.Path:
    """The folder of a version, fetched where it is not there yet."""
    folder = CACHE / "nvidia-ml-py" / version
    if not (folder / "pynvml.py").exists():
        wanted = "nvidia-ml-py" if version == "newest" else f"nvidia-ml-py=={version}"
        said = ["no uv and no pip"]
        for tool in ([os.environ.get("UV", "uv"), "pip"], [sys.executable, "-m", "pip"], ["python3", "-m", "pip"]):
            if shutil.which(tool[0]) is None:
                continue
            command = [*tool, "install", "-q", "--no-deps", "--target", str(folder), wanted]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            said.append(done.stderr.strip()[-200:])
        else:
            pytest.fail(f"{wanted} cannot be fetched: {'; '.join(said)}")
    return folder


def run(sim: Sim, code: str, folder: pathlib.Path) -> object:
    """Run code with that version and nothing else that is installed."""
    view = next(path for path in sys.path if (pathlib.Path(path) / "ansible_collections/llmhost/sglang").exists())
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**sim.environment(), "PYTHONPATH": os.pathsep.join([str(folder), view])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_reads_the_simulated_driver(version: str, tmp_path: pathlib.Path) -> None:
    call, used = VERSIONS[version]
    folder = package(version)
    sim = Sim(tmp_path)
    lines = "\n".join(f"proc pid={pid} mem=2000 static=1" for pid in PIDS)
    sim.write("gpu 0\n" + lines)
    found = run(sim, RAW, folder)
    assert found["count"] == 1 and found["driver"] == "999.00-llmhost-sim"
    assert found["used"] == 6000 + 4 + 500  # the old call counts what is reserved
    assert (found["pids"] == PIDS) is (call != "v3 wide")
    sim.write("gpu 0\nprocsize 32\n" + lines)  # the first R535 drivers, which only one version fits
    assert (run(sim, RAW, folder)["pids"] == PIDS) is (call != "v3")
    sim.write("gpu 0\n" + lines)
    name, note, pids, memory = run(sim, OURS, folder)
    assert (name == "nvml") is used, note
    assert pids == PIDS and memory == 6004
    assert used or "older than 12.535.108" in note
