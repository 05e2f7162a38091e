# SPDX-License-Identifier: GPL-3.0-or-later
"""A host on paper: files below a folder, and what its commands, devices and probes say. The looks read it so."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._doctor import checks, looks
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.check import Ask, Finding, View
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.facts import Facts, Unread
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.reader import Reader, Said

V = "595.91.07"
KERNEL = "6.17.13-2-pve"
OPEN = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {V}  Release Build  (x)\nGCC version:  gcc\n"
DEVICES = (
    "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n236 nvidia-caps\n{uvm} nvidia-uvm\n\n"
    "Block devices:\n  7 loop\n"
)
LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n" + "".join(
    f"{name:<26}{soft:<21}{hard:<21}x\n"
    for name, soft, hard in (("Max locked memory", 8388608, 8388608), ("Max open files", 1024, 524288))
)


class Recorded(Reader):
    """``said``: command line (a prefix of it) -> output or (code, output). What is not in it is not installed."""

    def __init__(
        self,
        root: Path,
        files: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
        said: Mapping[str, Any] | None = None,
        devices: Mapping[str, tuple[int, int]] | None = None,
        opened: Mapping[str, str] | None = None,
        cuda: Any = None,
        shm: tuple[int, int] = (64000, 63000),
        offset: str = "+0000",
        unreadable: str | None = None,
        reached: Mapping[str, str] | None = None,
        owner: int = 0,
    ) -> None:
        super().__init__(str(root))
        self.said, self.devices, self.opened = dict(said or {}), dict(devices or {}), dict(opened or {})
        self.cuda, self.shm, self.offset, self.unreadable = cuda, shm, offset, unreadable
        self.reached, self.owner = dict(reached or {}), owner
        for name, text in (files or {}).items():
            place = root / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        for name, target in (links or {}).items():
            place = root / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
        for name in self.devices:  # a name in /dev; the numbers are on paper
            place = root / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()

    def node(self, path: str) -> dict[str, Any] | None:
        if path in self.devices:
            major, minor = self.devices[path]
            return {"character": True, "major": major, "minor": minor, "mode": "0666", "uid": 0, "gid": 0}
        found = super().node(path)
        return dict(found, uid=self.owner) if found else None

    def program(self, name: str, path: str | None = None) -> str | None:
        if path is not None:
            return next(
                (f"{part}/{name}" for part in path.split(":") if os.path.exists(f"{self.root}{part}/{name}")), None
            )
        if name == "python3":
            return "/usr/bin/python3"
        return f"/usr/bin/{name}" if any(line.split()[0] == name for line in self.said) else None

    def run(self, command: Sequence[str], timeout_s: float | None = None) -> Said:
        line = " ".join(command)
        hits = [known for known in self.said if line == known or line.startswith(known + " ")]
        if not hits:
            raise Unread(f"{command[0]} is not installed")
        answer = self.said[max(hits, key=len)]
        code, out = answer if isinstance(answer, tuple) else (0, answer)
        return Said(code, out, "" if code == 0 else out)

    def python(self, code: str, timeout_s: float, path: str | None = None) -> Any:
        if "cuInit" in code:
            return self.cuda
        return "/usr/include/python3.13/Python.h"

    def opens(self, paths: Sequence[str], user: str | None) -> dict[str, str]:
        return {path: self.opened.get(path, "ok") for path in paths}

    def refused(self, path: str, user: str | None) -> str | None:
        return self.unreadable

    def reaches(self, uri: str, timeout_s: float) -> str:
        return self.reached.get(uri, "ok")

    def room(self, path: str) -> dict[str, Any]:
        total, free = self.shm if path == "/dev/shm" else (100_000, 50_000)
        return {"exists": True, "total_mib": total, "free_mib": free, "free_inodes": 1000, "read_only": False}

    def kernel(self) -> str:
        return (self.text("/proc/sys/kernel/osrelease") or KERNEL).strip()

    def clock(self) -> dict[str, Any]:
        return {"since_boot": 1.7e9, "offset": self.offset, "zone": None}


def pci(count: int = 1, driver: str | None = "nvidia", iommu: str = "") -> tuple[dict[str, str], dict[str, str]]:
    """Files and links of ``count`` cards on the bus."""
    files, links = {"/sys/bus/pci/drivers/x/y": ""}, {}
    for number in range(1, count + 1):
        top = f"/sys/bus/pci/devices/0000:0{number}:00.0"
        files.update({f"{top}/vendor": "0x10de\n", f"{top}/class": "0x030000\n"})
        if iommu:
            files[f"{top}/iommu_group/type"] = iommu + "\n"
        if driver:
            files[f"/sys/bus/pci/drivers/{driver}/bind"] = ""
            links[f"{top}/driver"] = f"../../drivers/{driver}"
    return files, links


def loaded(version: str = V, uvm: int = 511, count: int = 1) -> tuple[dict[str, str], dict[str, str]]:
    """Files and links of a loaded module, as node and container see them."""
    files, links = pci(count)
    files.update(
        {
            "/proc/driver/nvidia/version": OPEN.replace(V, version),
            "/proc/devices": DEVICES.format(uvm=uvm),
            "/proc/sys/kernel/osrelease": KERNEL + "\n",
            "/proc/1/limits": LIMITS,
            "/proc/meminfo": "MemTotal:       263786496 kB\n",
            "/proc/self/mounts": "tmpfs /dev/shm tmpfs rw 0 0\n",
            "/sys/module/nvidia_uvm/refcnt": "2\n",
        }
    )
    return files, links


def libraries(version: str = V) -> tuple[dict[str, str], dict[str, str]]:
    top = "/usr/lib/x86_64-linux-gnu"
    return (
        {f"{top}/libcuda.so.{version}": "", f"{top}/libnvidia-ml.so.{version}": ""},
        {f"{top}/libcuda.so.1": f"libcuda.so.{version}", f"{top}/libnvidia-ml.so.1": f"libnvidia-ml.so.{version}"},
    )


def devices(uvm: int | None = 511, count: int = 1) -> dict[str, tuple[int, int]]:
    found = {f"/dev/nvidia{number}": (195, number) for number in range(count)}
    found["/dev/nvidiactl"] = (195, 255)
    if uvm is not None:
        found.update({"/dev/nvidia-uvm": (uvm, 0), "/dev/nvidia-uvm-tools": (uvm, 1)})
    return found


def both(*pairs: tuple[dict[str, str], dict[str, str]], **more: str) -> dict[str, Any]:
    """Several pairs of files and links as arguments of ``Recorded``."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    for some_files, some_links in pairs:
        files.update(some_files)
        links.update(some_links)
    return {"files": {**files, **more}, "links": links}


def look(reader: Recorded, place: str, ask: Ask, families: Sequence[str] = checks.FAMILIES) -> Facts:
    return looks.look(reader, ask, place, families)


def examine(
    facts: Facts, ask: Ask, peer: Facts | None = None, families: Sequence[str] = checks.FAMILIES
) -> dict[str, Finding]:
    return {finding.id: finding for finding in checks.examine(View(facts, ask, peer), families)}
