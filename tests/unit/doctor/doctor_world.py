# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy node, container and bare-metal host with two GPUs, and for each check what breaks it and nothing else."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.check import Ask, View
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.facts import Facts

V = "595.91.07"
KERNEL = "6.17.13-2-pve"
GIB = 1 << 30


def gpu(index: int) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{index}{index}{index}{index}aaaa-0000-4000-8000-000000000000",
        "name": "NVIDIA RTX A6000",
        "pci_bus_id": f"0000:{index + 1:02x}:00.0",
        "memory_mib": {"total": 49140, "used": 4, "free": 48500, "reserved": 636},
        "utilization_percent": 0,
        "persistence": True,
        "health": "ok",
        "health_reasons": [],
        "clients_known": True,
        "clients": [],
    }


def node_of(major: int, minor: int) -> dict[str, Any]:
    return {"character": True, "major": major, "minor": minor, "mode": "0666", "uid": 0, "gid": 0}


NODES = {
    "/dev/nvidia0": node_of(195, 0),
    "/dev/nvidia1": node_of(195, 1),
    "/dev/nvidiactl": node_of(195, 255),
    "/dev/nvidia-uvm": node_of(511, 0),
    "/dev/nvidia-uvm-tools": node_of(511, 1),
}
MAJORS = {"nvidia": 195, "nvidia-uvm": 511, "nvidia-caps": 236}
LIBRARIES = {"libcuda.so.1": V, "libnvidia-ml.so.1": V}
ROOM = {"exists": True, "total_mib": 100_000, "free_mib": 50_000, "free_inodes": 9_000_000, "read_only": False}


def package(name: str, version: str = f"{V}-1", held: bool = True, driver: bool = True) -> dict[str, Any]:
    return {"name": name, "version": version, "held": held, "driver": driver}


HOST: dict[str, Any] = {
    "bus_gpus": [{"address": f"0000:0{n}:00.0", "driver": "nvidia"} for n in (1, 2)],
    "module": V,
    "kernel": KERNEL,
    "kernels": ["6.14.11-4-pve", KERNEL],
    "module_files": {"6.14.11-4-pve": V, KERNEL: V},
    "libraries": LIBRARIES,
    "dkms": [{"module": "nvidia", "version": V, "kernel": KERNEL, "state": "installed"}],
    "headers": {"6.14.11-4-pve": True, KERNEL: True},
    "secure_boot": False,
    "dkms_key_enrolled": None,
    "kernel_log": [],
    "packages": [package("nvidia-driver-cuda"), package("nvidia-kernel-open-dkms")],
    "pins": [],
    "unattended": {"enabled": True, "blacklist": ["nvidia"]},
    "nodes": NODES,
    "majors": MAJORS,
    "uvm_loaded": True,
    "node_units": [{"unit": "x.service", "enabled": True, "before": ["pve-guests.service"]}],
    "iommu": {"0000:01:00.0": "identity", "0000:02:00.0": "identity"},
    "gpus": [gpu(0), gpu(1)],
    "config": {
        "main": [
            ["cores", "16"],
            ["dev0", "/dev/nvidia0,mode=0666"],
            ["features", "nesting=1"],
            ["memory", "65536"],
            ["unprivileged", "1"],
        ],
        "sections": {},
    },
    "elsewhere": ["nodes/pve1/lxc/129"],
    "guest_status": "running",
    "pending": [],
    "active_tasks": [],
    "ha": False,
    "quorate": True,
    "guest_memory": {
        "events": {"high": 0, "oom_kill": 0},
        "pressure_full_avg10": 0.0,
        "current": 20 * GIB,
        "high": 63 * GIB,
        "max": 64 * GIB,
    },
    "clock": {"since_boot": 1_700_000_000.0, "offset": "+0200", "zone": "Europe/Vienna"},
    "synchronised": True,
    "memory_total": 256 * GIB,
    "arc": {"size": 10 * GIB, "c_max": 16 * GIB},
    "rooms": {"/var/lib/llmhost": ROOM},
}
INSIDE: dict[str, Any] = {
    "bus_gpus": HOST["bus_gpus"],
    "module": V,
    "kernel": KERNEL,
    "libraries": LIBRARIES,
    "packages": [package("libnvidia-compute"), package("containerd.io", "1.7.28-1", False, False)],
    "pins": [],
    "unattended": {"enabled": True, "blacklist": ["nvidia"]},
    "offered": [{"package": "libnvidia-compute", "version": f"{V}-1"}],
    "persistenced": "inactive",
    "nested_containers": False,
    "nodes": NODES,
    "majors": MAJORS,
    "opened": dict.fromkeys(NODES, "ok"),
    "cuda": {"init": 0, "driver": 13000, "count": 2, "seconds": 0.4},
    "gpus": [gpu(0), gpu(1)],
    "tools": {
        "gcc": "/usr/bin/gcc",
        "ninja": "/v/bin/ninja",
        "nvcc": "/c/nvcc",
        "Python.h": "/h/Python.h",
        "PATH": "/usr/bin",
    },
    "listeners": {"30000": [{"pid": 7, "comm": "python", "ppid": 1, "unit": "sglang-chat.service"}]},
    "strays": [],
    "answers": {"chat": {"health": 200, "seconds": 0.5, "problem": ""}},
    "p2p": {"outcome": "ok", "seconds": 7.0, "said": ""},
    "systemd_version": 257,
    "exec_status": {},
    "clock": {"since_boot": 1_700_000_000.4, "offset": "+0200", "zone": "Europe/Vienna"},
    "limits": {"memlock": 8 << 20, "nofile": 524288},
    "infiniband": False,
    "shm": {"total_mib": 128_000, "free_mib": 127_000, "leftovers": []},
    "rooms": {"/var/lib/llmhost": ROOM},
    "models": [{"path": "/models/x", "exists": True, "uid": 0, "refused": None}],
    "sources": {"https://deb.debian.org/debian/": "ok", "http://a/": "ok"},
}
ASK = Ask(vmid=129, gpus=("0", "1"), user="sglang", ports={"chat": 30000}, probe=True)


def facts(place: str, **changes: Any) -> Facts:
    """A healthy host of that kind, with changes; a change to ``Exception`` makes a fact unread."""
    values = {"node": HOST, "container": INSIDE, "bare_metal": {**HOST, **INSIDE}}[place]
    values = copy.deepcopy({**values, **{k: v for k, v in changes.items() if v is not Exception}})
    unread = {name: "it was not readable" for name, value in changes.items() if value is Exception}
    return Facts(place, {name: value for name, value in values.items() if name not in unread}, unread)


def view(place: str, ask: Ask = ASK, peer: Facts | None = None, **changes: Any) -> View:
    return View(facts(place, **changes), ask, (peer or facts("node")) if place == "container" else None)


def client(pid: int, vmid: int | None, unit: str | None, mib: int = 20000, comm: str = "python") -> dict[str, Any]:
    return {
        "pid": pid,
        "kind": "compute",
        "memory_mib": mib,
        "comm": comm,
        "unit": unit,
        "container": {"kind": "lxc", "vmid": vmid} if vmid else None,
        "ns_pid": [pid, 212] if vmid else [pid],
    }


def with_config(*main: tuple[str, str], sections: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"main": [list(pair) for pair in main], "sections": sections or {}}


def with_nodes(**changed: Any) -> dict[str, Any]:
    return {**NODES, **{"/dev/" + name.replace("_", "-"): node for name, node in changed.items()}}


PLAIN = {"character": False, "major": None, "minor": None, "mode": "0000", "uid": 0, "gid": 0}
RAW = ("lxc.mount.entry", "/dev/nvidia0 dev/nvidia0 none bind,optional,create=file")
OLD = "550.163.01"

# check -> (place, facts that differ, facts of the node that differ, words of evidence or remedy)
EXAMPLES: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "gpu_vfio": (
        "node",
        {"bus_gpus": [HOST["bus_gpus"][0], {"address": "0000:02:00.0", "driver": "nouveau"}], "gpus": [gpu(0), gpu(1)]},
        {},
        ("nouveau", "update-initramfs"),
    ),
    "dkms_missing": (
        "node",
        {
            "module_files": {"6.14.11-4-pve": V, KERNEL: V, "6.17.20-1-pve": None},
            "kernels": [KERNEL, "6.17.20-1-pve"],
            "headers": {KERNEL: True, "6.17.20-1-pve": True},
        },
        {},
        ("6.17.20-1-pve", "kernel pin 6.17.13-2-pve"),
    ),
    "headers_missing": (
        "node",
        {"headers": {"6.14.11-4-pve": True, KERNEL: False}},
        {},
        (f"proxmox-headers-{KERNEL}",),
    ),
    "drv_kernel": (
        "node",
        {
            "kernels": [KERNEL, "7.1.2-1-pve"],
            "module": "580.142",
            "libraries": dict.fromkeys(LIBRARIES, "580.142"),
            "module_files": {KERNEL: "580.142", "7.1.2-1-pve": None},
            "headers": {KERNEL: True, "7.1.2-1-pve": True},
        },
        {},
        ("580.159.04", "7.1.2-1-pve"),
    ),
    "sb_unsigned": ("node", {"secure_boot": True, "dkms_key_enrolled": False}, {}, ("mokutil --import",)),
    "drv_not_rebooted": (
        "node",
        {"module_files": {KERNEL: "610.57.04"}, "kernels": [KERNEL], "headers": {KERNEL: True}},
        {},
        ("610.57.04", "Reboot"),
    ),
    "drv_skew": (
        "container",
        {"libraries": {**LIBRARIES, "libcuda.so.1": "590.48.01"}},
        {},
        ("590.48.01", V, "container 129"),
    ),
    "drv_lib_host": ("node", {"libraries": dict.fromkeys(LIBRARIES, "610.57.04")}, {}, ("610.57.04",)),
    "lib_missing": ("container", {"libraries": dict.fromkeys(LIBRARIES)}, {}, ("libnvidia-ml.so.1", V)),
    "drv_old": (
        "node",
        {
            "module": OLD,
            "module_files": dict.fromkeys(HOST["module_files"], OLD),
            "libraries": dict.fromkeys(LIBRARIES, OLD),
        },
        {},
        ("580", OLD),
    ),
    "drv_offered": (
        "container",
        {
            "libraries": dict.fromkeys(LIBRARIES),
            "offered": [{"package": "libnvidia-compute", "version": "590.48.01-1"}],
        },
        {},
        ("590.48.01-1", "--no-kernel-module"),
    ),
    "module_packages": ("container", {"packages": [package("nvidia-dkms-595")]}, {}, ("nvidia-dkms-595",)),
    "drv_held": (
        "container",
        {"packages": [package("libnvidia-compute", held=False)], "unattended": {"enabled": True, "blacklist": []}},
        {},
        ("apt-mark hold libnvidia-compute",),
    ),
    "api_mismatch": (
        "node",
        {"kernel_log": ["[9.1] NVRM: API mismatch: the client has the version 590.48.01, but"]},
        {},
        ("590.48.01",),
    ),
    "persistence": ("node", {"gpus": [{**gpu(0), "persistence": False}, gpu(1)]}, {}, ("GPU 0", "nvidia-persistenced")),
    "persistenced_in_ct": ("container", {"persistenced": "failed"}, {}, ("failed", "Mask")),
    "node_missing": (
        "node",
        {"nodes": with_nodes(nvidia_uvm=None)},
        {},
        ("/dev/nvidia-uvm is missing", "nvidia-modprobe -c 0 -u"),
    ),
    "node_unit": ("node", {"node_units": []}, {}, ("Before=pve-guests.service",)),
    "node_not_passed": ("container", {"nodes": with_nodes(nvidia_uvm=None)}, {}, ("dev0: /dev/nvidia-uvm,mode=0666",)),
    "node_stale": (
        "container",
        {"nodes": with_nodes(nvidia_uvm=node_of(509, 0))},
        {},
        ("509:0, on the node 511:0", "pct reboot 129"),
    ),
    "node_mode": (
        "container",
        {"opened": {**dict.fromkeys(NODES, "ok"), "/dev/nvidiactl": "EACCES"}},
        {},
        ("EACCES", "mode=0666"),
    ),
    "cuinit": (
        "container",
        {"cuda": {"init": 999, "driver": 13000, "count": 0, "seconds": 0.1}},
        {},
        ("999", "nvidia-uvm"),
    ),
    "gpu_count": ("container", {"cuda": {"init": 0, "driver": 13000, "count": 1, "seconds": 0.1}}, {}, ("sees 1",)),
    "gpu_present": ("container", {"gpus": [gpu(0)]}, {}, ("asked for, 1",)),
    "gpu_health": (
        "node",
        {"gpus": [{**gpu(0), "health": "unusable", "health_reasons": ["Xid 79"]}, gpu(1)]},
        {},
        ("Xid 79", "reset"),
    ),
    "gpu_wedged": (
        "node",
        {"gpus": [{**gpu(0), "utilization_percent": 100}, gpu(1)]},
        {},
        ("100 %", "A container cannot"),
    ),
    "gpu_foreign": (
        "node",
        {"gpus": [{**gpu(0), "clients": [client(4711, 130, "sglang-x.service")]}, gpu(1)]},
        {},
        ("CT 130", "4711"),
    ),
    "gpu_hidden": (
        "container",
        {"gpus": [{**gpu(0), "memory_mib": {"total": 49140, "used": 20000}}, gpu(1)]},
        {},
        ("20000 MiB",),
    ),
    "p2p_iommu": (
        "node",
        {"iommu": {"0000:01:00.0": "DMA-FQ", "0000:02:00.0": "DMA-FQ"}},
        {},
        ("iommu=pt", "NCCL_P2P_DISABLE=1"),
    ),
    "p2p": ("container", {"p2p": {"outcome": "hang", "seconds": 60.0, "said": ""}}, {}, ("60 s", "NCCL_P2P_DISABLE=1")),
    "ct_elsewhere": (
        "node",
        {"config": None, "elsewhere": ["nodes/pve2/lxc/129"]},
        {},
        ("node pve2", "llmhost_gpu_node"),
    ),
    "ct_stopped": ("node", {"guest_status": "stopped"}, {}, ("pct start 129",)),
    "ct_locked": (
        "node",
        {
            "config": with_config(("lock", "backup"), *map(tuple, HOST["config"]["main"])),
            "active_tasks": ["UPID:pve1:vzdump"],
        },
        {},
        ("UPID:pve1:vzdump", "Wait"),
    ),
    "ct_ha": ("node", {"ha": True}, {}, ("ha-manager",)),
    "no_quorum": ("node", {"quorate": False}, {}, ("read-only",)),
    "ct_pending": ("node", {"pending": ["dev1", "memory"]}, {}, ("dev1, memory", "pct reboot 129")),
    "conf_snap": (
        "node",
        {"config": with_config(("unprivileged", "1"), sections={"before": [["dev0", "/dev/nvidia0"]]})},
        {},
        ("[before]",),
    ),
    "conf_v1": (
        "node",
        {"config": with_config(RAW, ("lxc.cgroup.devices.allow", "c 195:* rwm"), ("unprivileged", "1"))},
        {},
        ("devN",),
    ),
    "conf_majors": (
        "node",
        {
            "config": with_config(
                RAW, ("lxc.cgroup2.devices.allow", "c 195:* rwm"), ("lxc.cgroup2.devices.allow", "c 238:* rwm")
            )
        },
        {},
        ("nvidia-uvm has major 511",),
    ),
    "ct_oci": (
        "node",
        {"config": with_config(("entrypoint", "/usr/bin/python"), ("unprivileged", "1"))},
        {},
        ("/usr/bin/python",),
    ),
    "nesting": (
        "container",
        {},
        {"config": with_config(("features", "keyctl=1"), ("unprivileged", "1"))},
        ("nesting=1,keyctl=1", "systemd 257"),
    ),
    "docker_in_ct": (
        "container",
        {"packages": [package("containerd.io", "1.7.29-1~debian", False, False)]},
        {},
        ("1.7.28",),
    ),
    "mem_high": (
        "node",
        {
            "guest_memory": {
                "events": {"high": 90210, "oom_kill": 0},
                "pressure_full_avg10": 44.1,
                "current": 63 * GIB,
                "high": 63 * GIB,
                "max": 64 * GIB,
            }
        },
        {},
        ("90210", "128 MiB below"),
    ),
    "clock": ("container", {"clock": {**INSIDE["clock"], "offset": "+0000"}}, {}, ("time zones", "--timezone host")),
    "clock_sync": ("node", {"synchronised": False}, {}, ("chrony",)),
    "memlock": ("container", {"infiniband": True}, {}, ("8192 KiB", "lxc.prlimit.memlock")),
    "nofile": ("container", {"limits": {"memlock": None, "nofile": 1024}}, {}, ("1024",)),
    "arc": ("node", {"arc": {"size": 100 * GIB, "c_max": 250 * GIB}}, {}, ("zfs_arc_max",)),
    "shm": ("container", {"shm": {"total_mib": 64, "free_mib": 3, "leftovers": ["nccl-a"]}}, {}, ("nccl-a",)),
    "disk": ("container", {"rooms": {"/var/lib/llmhost": {**ROOM, "free_mib": 20}}}, {}, ("20 MiB",)),
    "model_access": (
        "container",
        {"models": [{"path": "/models/x", "exists": True, "uid": 65534, "refused": "/models/x/a"}]},
        {},
        ("100000", "idmap="),
    ),
    "apt_sources": (
        "container",
        {"sources": {"https://b/": "ok", "http://a/": "timed out"}},
        {},
        ("Port 80", "DIRECT"),
    ),
    "toolchain": (
        "container",
        {"tools": {**INSIDE["tools"], "gcc": None, "ninja": None}},
        {},
        ("build-essential ninja-build",),
    ),
    "port_taken": (
        "container",
        {"listeners": {"30000": [{"pid": 9, "comm": "nginx", "ppid": 1, "unit": "nginx.service"}]}},
        {},
        ("nginx",),
    ),
    "orphan": (
        "container",
        {"strays": [{"pid": 88, "comm": "sglang::schedul", "ppid": 1, "unit": "init.scope"}]},
        {},
        ("PID 88", "gpu_clean"),
    ),
    "false_ready": (
        "container",
        {"answers": {"chat": {"health": 200, "seconds": 40.0, "problem": "no token within 40 s"}}},
        {},
        ("/health says 200", "SIGTERM"),
    ),
}
# A fault that others follow from: lib_missing is what drv_offered is about, and the newest kernel lacks its module
# because the driver does not build for it.
FOLLOW = {"drv_offered": {"lib_missing"}, "drv_kernel": {"dkms_missing"}, "ct_elsewhere": set()}
