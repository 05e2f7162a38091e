# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Looks at device nodes: what is there, whether it opens, and whether CUDA starts behind it."""

from __future__ import annotations

import re
from typing import Any

from .check import EVERYWHERE, HERE, HOST
from .facts import NODE, Unread
from .look import Look, Scene

FIXED = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
NAMES = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)$")
CUDA_S = 60.0
UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")

# Asked in a process of its own: it may crash, hang, or leave a context behind.
CUDA = """
import ctypes, json, time
began = time.monotonic()
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    print("null")
else:
    code, version, count = cuda.cuInit(0), ctypes.c_int(), ctypes.c_int()
    if hasattr(cuda, "cuDriverGetVersion"):
        cuda.cuDriverGetVersion(ctypes.byref(version))
    if code == 0:
        cuda.cuDeviceGetCount(ctypes.byref(count))
    took = time.monotonic() - began
    print(json.dumps({"init": code, "driver": version.value, "count": count.value, "seconds": took}))
"""


def nodes(scene: Scene) -> dict[str, Any]:
    """Path -> what is there, for every device that the driver should have, and each that is there."""
    reader = scene.reader
    cards = sum(1 for gpu in scene.need("bus_gpus") if gpu["driver"] == "nvidia")
    wanted = [f"/dev/nvidia{number}" for number in range(cards if scene.place != "container" else 0)]
    there = ["/dev/" + name for name in reader.names("/dev") if NAMES.match(name)]
    caps = ["/dev/nvidia-caps/" + name for name in reader.names("/dev/nvidia-caps")]
    return {path: reader.node(path) for path in sorted({*wanted, *FIXED, *there, *caps})}


def majors(scene: Scene) -> dict[str, int]:
    """Name -> major number of the character devices of the kernel."""
    text = scene.reader.text("/proc/devices")
    if text is None:
        raise Unread("/proc/devices is missing")
    found: dict[str, int] = {}
    for line in text.split("Block devices:")[0].splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit() and "nvidia" in words[1]:
            found.setdefault(words[1], int(words[0]))
    return found


def opened(scene: Scene) -> dict[str, str]:
    """Path -> 'ok' or the error of opening it for reading and writing, as who runs the server."""
    paths = [path for path, node in scene.need("nodes").items() if node and node["character"]]
    paths = [path for path in paths if "nvidia-caps" not in path and "modeset" not in path]
    return scene.reader.opens(paths, scene.ask.user)


def cuda(scene: Scene) -> dict[str, Any] | None:
    """What CUDA's own initialisation says; None where its library is not here."""
    found: dict[str, Any] | None = scene.reader.python(CUDA, CUDA_S)
    return found


def node_units(scene: Scene) -> list[dict[str, Any]]:
    """Units that make device nodes: whether they are enabled, and what they are ordered before."""
    reader, found = scene.reader, []
    wanted = {name for folder in UNIT_FOLDERS for name in _wants(scene, folder)}
    for folder in UNIT_FOLDERS[:2]:
        for name in reader.names(folder):
            text = (reader.text(f"{folder}/{name}") or "") if name.endswith(".service") else ""
            if not re.search(r"^ExecStart\S*=.*(?:nvidia-modprobe|nvidia-smi)", text, re.M):
                continue
            before = " ".join(re.findall(r"^Before=(.*)$", text, re.M)).split()
            found.append({"unit": name, "enabled": name in wanted, "before": before})
    return found


def _wants(scene: Scene, folder: str) -> list[str]:
    targets = [name for name in scene.reader.names(folder) if name.endswith((".wants", ".requires"))]
    return [unit for target in targets for unit in scene.reader.names(f"{folder}/{target}")]


def iommu(scene: Scene) -> dict[str, str | None]:
    """Card -> the type of its IOMMU group; None where it is in none."""
    top = "/sys/bus/pci/devices"
    found: dict[str, str | None] = {}
    for gpu in scene.need("bus_gpus"):
        text = scene.reader.text(f"{top}/{gpu['address']}/iommu_group/type")
        found[gpu["address"]] = text.strip() if text else None
    return found


LOOKS = (
    Look("nodes", ("devices", "cuda"), nodes, EVERYWHERE),
    Look("majors", ("devices", "container"), majors, EVERYWHERE),
    Look("uvm_loaded", ("devices",), lambda scene: scene.reader.exists("/sys/module/nvidia_uvm"), HOST),
    Look("opened", ("devices",), opened, HERE),
    Look("node_units", ("devices",), node_units, (NODE,)),
    Look("cuda", ("cuda",), cuda, HERE),
    Look("iommu", ("p2p",), iommu, HOST),
)
