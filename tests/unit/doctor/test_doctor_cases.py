# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports of faults with GPUs in Proxmox containers: each read from a host on paper, with diagnosis and fix.

Situations in our own words. c19, c22, c23 and c24 are of the connection and have their tests there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.check import Ask, Finding
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.facts import Facts
from doctor_recorded import KERNEL, Recorded, V, both, devices, examine, libraries, loaded, look, pci

# id: (where it was reported, what happened, what is to be said)
CASES = {
    "c01": (
        "community-scripts/ProxmoxVE#5740",
        "After a reboot CUDA says 999 while nvidia-smi works.",
        "UVM, boot unit",
    ),
    "c02": ("community-scripts/ProxmoxVED#2047", "A script installed another driver in the container.", "skew"),
    "c03": ("community-scripts/ProxmoxVED#2047", "ninja, CUDA_HOME, then the C compiler were missing.", "toolchain"),
    "c04": ("jammsen/proxmox-setup-scripts#7", "A kernel upgrade moved the number that the file allowed.", "devN"),
    "c05": ("jammsen/proxmox-setup-scripts#11", "The host's driver is newer than what the container finds.", "pin"),
    "c06": ("NVIDIA/open-gpu-kernel-modules#1143", "Debian's 550 does not build for kernel 6.17.", "newer driver"),
    "c08": ("dockserver/dockserver#525", "'Insufficient permissions' as user, 'blocked' as root.", "cgroup or mode"),
    "c10": ("tteck/Proxmox#3758", "'is not a device': a plain file lies at the path.", "remove the file"),
    "c11": ("psalias2006/gpu-hot#48", "One docker container inside tells a mismatch, nobody else.", "its own copy"),
    "c14": ("blakeblackshear/frigate#4136", "cuInit fails; the file allows 195 and 238.", "number of UVM"),
    "c15": ("ollama/ollama#17069", "CUDA starts slowly, for no known reason.", "slow, nothing blamed"),
    "c16": ("AbdBarho/stable-diffusion-webui-docker#48", "libnvidia-ml.so.1 cannot be loaded.", "install libraries"),
    "c17": ("games-on-whales/wolf#361", "No device nodes until nvidia-smi ran on the host.", "boot unit"),
    "c20": ("dryvist/ansible-proxmox-ai", "A gate passed although the CPU served.", "count of GPUs"),
    "c21": ("dryvist/ansible-proxmox-ai", "Port 80 is blocked, so apt finds nothing.", "https or proxy"),
    "c25": ("opencontainers/runc#4968", "Docker in the container starts nothing any more.", "avoid docker, hold"),
    "c26": ("canonical/lxd#9755", "Memory in use and an empty table of processes.", "ask the node"),
    "c27": ("lxc/lxc#4122", "Close to its limit the container reads for ever.", "raise memory"),
    "c29": ("immich-app/immich#14438", "A host folder cannot be read in the container.", "id map"),
    "c30": ("vllm-project/vllm#14449", "Two A6000 hang at 100 %.", "P2P off"),
    "c32": ("vllm-project/vllm#33041", "Two cards hang after NCCL's start: IOMMU.", "iommu=pt, ACS"),
    "c33": ("local-inference-lab/rtx6kpro#15", "A killed run left a card at 100 %.", "reset on the host"),
    "c35": ("sgl-project/sglang#31645", "Schedulers outlive the launcher.", "units, clean"),
    "c36": ("sgl-project/sglang#22779", "/health says 200 and requests hang.", "TERM, real probe"),
    "c37": ("sgl-project/sglang#1533", "'unbalanced': somebody else holds a card.", "name who"),
    "c38": ("pytorch/torchtitan#853", "NCCL cannot make a segment in /dev/shm.", "full, by what"),
    "c39": ("badbread/crumbvms#395", "Upgraded, not rebooted; fails at the next start.", "reboot"),
    "c40": ("pando85/homelab#4110", "Unattended upgrades moved the libraries.", "hold, blacklist"),
    "c41": ("void-linux/void-packages#60171", "Kernel 7.0 and an older 580.", "580.142"),
    "c42": ("Jip-Hop/jailmaker#4", "Module loaded, /dev/nvidia-uvm not made.", "nvidia-modprobe"),
    "c43": ("sgl-project/sglang#11395", "'driver too old (found version 12040)'.", "580, then libraries"),
    "c44": ("gist egg82/90164a31", "An old guide's lxc.cgroup keys.", "remove, devN"),
    "c45": ("pve-container", "The container's log is two hours off.", "time zone"),
}
ELSEWHERE = {"c19", "c22", "c23", "c24"}  # of the connection
TESTS: dict[str, Callable[[Path], None]] = {}
ASK = Ask(vmid=129, user="root")
CONF = "cores: 16\ndev0: /dev/nvidia0,mode=0666\ndev1: /dev/nvidiactl,mode=0666\ndev2: /dev/nvidia-uvm,mode=0666\n"
CONF += "features: nesting=1\nmemory: 65536\n"
UNPRIVILEGED = CONF + "unprivileged: 1\n"
DPKG = "dpkg-query -W"
UNIT = {
    "/etc/systemd/system/llmhost-nvidia-nodes.service": "[Unit]\nBefore=pve-guests.service\n"
    "[Service]\nExecStart=/usr/bin/nvidia-modprobe -c 0 -u\n",
    "/etc/systemd/system/multi-user.target.wants/llmhost-nvidia-nodes.service": "",
}


def case(test: Callable[[Path], None]) -> Callable[[Path], None]:
    TESTS[test.__name__[len("case_") :]] = test
    return test


def node(root: Path, conf: str = UNPRIVILEGED, files: dict[str, str] | None = None, **options: Any) -> Recorded:
    """A Proxmox node with one card and container 129."""
    version, kernel = options.pop("version", V), options.pop("kernel", KERNEL)
    on_disk = options.pop("on_disk", version)
    said = {
        f"modinfo -k {kernel} -F version nvidia": on_disk + "\n"
        if on_disk
        else (1, "modinfo: Module nvidia not found."),
        "pct status 129": "status: running\n",
        "pct pending 129": "cur memory: 65536\n",
        "dmesg": "",
        "timedatectl show": "yes\n",
        "ldconfig -p": "",
        DPKG: "",
        "pvesh get": "[]",
        **options.pop("said", {}),
    }
    given = both(options.pop("module", loaded(version)), libraries(options.pop("library", version)))
    written = {
        "/etc/pve/lxc/129.conf": conf,
        "/etc/pve/nodes/pve1/lxc/129.conf": conf,
        "/etc/hostname": "pve1\n",
        f"/lib/modules/{kernel}/modules.dep": "",
        f"/lib/modules/{kernel}/build/Makefile": "",
        **UNIT,
        **(files or {}),
    }
    reader = {"devices": devices(), "said": said, "links": given["links"], "files": {**given["files"], **written}}
    return Recorded(root / "node", **{**reader, **options})


def inside(root: Path, files: dict[str, str] | None = None, **options: Any) -> Recorded:
    """The container on it."""
    version = options.pop("version", V)
    library = options.pop("library", version)
    given = both(options.pop("module", loaded(version)), libraries(library) if library else ({}, {}))
    said = {
        "systemctl --version": "systemd 257 (257.8-1~deb13u2)\n",
        "systemctl show --state=failed": "",
        "systemctl is-active nvidia-persistenced.service": (3, "inactive\n"),
        "apt-cache madison": f" libnvidia-compute | {version}-1 | https://developer.download.nvidia.com/x Packages\n",
        "ldconfig -p": "",
        DPKG: "",
        **options.pop("said", {}),
    }
    tools = {f"/usr/bin/{name}": "" for name in ("gcc", "ninja", "nvcc")}
    reader = {
        "devices": devices(),
        "said": said,
        "links": given["links"],
        "files": {**given["files"], **tools, "/usr/include/python3.13/Python.h": "", **(files or {})},
        "cuda": {"init": 0, "driver": 13000, "count": 1, "seconds": 0.3},
    }
    return Recorded(root / "ct", **{**reader, **options})


def seen(reader: Recorded, ask: Ask = ASK, **values: Any) -> Facts:
    """What is seen through a reader; ``values`` stand for the driver's own answers and processes."""
    place = "node" if reader.root.endswith("/node") else "container"
    found = look(reader, place, ask)
    cards = [card(index=n, uuid=f"GPU-{n}") for n, _gpu in enumerate(found.values["bus_gpus"]) if _gpu["driver"]]
    return Facts(place, {**found.values, "strays": [], "gpus": cards, **values}, found.unread)


def on_node(root: Path, ask: Ask = ASK, values: dict[str, Any] | None = None, **options: Any) -> dict[str, Finding]:
    return examine(seen(node(root, **options), ask, **(values or {})), ask)


def in_ct(
    root: Path, ask: Ask = ASK, peer: Recorded | None = None, values: dict[str, Any] | None = None, **options: Any
) -> dict[str, Finding]:
    host = seen(peer or node(root), ask)
    return examine(seen(inside(root, **options), ask, **(values or {})), ask, host)


def wrong(found: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.status for name, finding in found.items() if finding.status in ("warn", "fail")}


def cure(finding: Finding) -> str:
    assert finding.remedy is not None, finding
    return finding.remedy.text


def test_the_hosts_on_paper_are_healthy(tmp_path: Path) -> None:
    assert wrong(on_node(tmp_path)) == {}
    found = in_ct(tmp_path / "x")
    assert wrong(found) == {}
    assert [f.id for f in found.values() if f.status == "unknown"] == []
    assert found["drv_skew"].status == found["node_stale"].status == found["nesting"].status == "ok"


@case
def case_c01(tmp_path: Path) -> None:
    host = node(tmp_path, devices=devices(uvm=None), files={name: "" for name in UNIT})
    on_host = examine(seen(host), ASK)
    assert wrong(on_host) == {"node_missing": "fail", "node_unit": "warn"}
    assert "although nvidia_uvm is loaded" in on_host["node_missing"].evidence
    assert "Before=pve-guests.service" in cure(on_host["node_unit"])
    found = in_ct(
        tmp_path,
        peer=node(tmp_path / "b"),
        devices=devices(uvm=509),
        cuda={"init": 999, "driver": 13000, "count": 0, "seconds": 0.1},
        said={"systemctl is-active nvidia-persistenced.service": (3, "failed\n")},
    )
    assert wrong(found) == {"persistenced_in_ct": "warn", "node_stale": "fail", "cuinit": "fail"}
    assert "while nvidia-smi works" in found["cuinit"].evidence and "nvidia-modprobe -c 0 -u" in cure(found["cuinit"])
    assert "pct reboot 129" in cure(found["node_stale"]) and "Mask" in cure(found["persistenced_in_ct"])


@case
def case_c02(tmp_path: Path) -> None:
    packages = "nvidia-driver-580\t580.95.05-0ubuntu1\tii \nlibnvidia-compute-580\t580.95.05-0ubuntu1\tii \n"
    found = in_ct(tmp_path, library="580.95.05", said={DPKG: packages})
    assert found["drv_skew"].status == "fail" and found["module_packages"].status == "warn"
    assert V in found["drv_skew"].evidence and "580.95.05" in found["drv_skew"].evidence
    assert f"exactly {V}" in cure(found["drv_skew"]) and "Purge nvidia-driver-580" in cure(found["module_packages"])
    assert found["drv_skew"].task == {"ansible.builtin.include_role": {"name": "llmhost.sglang.nvidia_userspace"}}


@case
def case_c03(tmp_path: Path) -> None:
    given = both(loaded(), libraries())
    found = in_ct(tmp_path, files={}, links=given["links"], said={})
    assert found["toolchain"].status == "ok"
    bare = inside(tmp_path / "b")
    for name in ("gcc", "ninja", "nvcc"):
        (tmp_path / "b/ct/usr/bin" / name).unlink()
    found = examine(seen(bare), ASK, seen(node(tmp_path / "c")))
    assert wrong(found) == {"toolchain": "fail"}
    assert "build-essential ninja-build cuda-nvcc-13-x" in cure(found["toolchain"])
    assert "CUDA_HOME" in cure(found["toolchain"]) and "PATH" in cure(found["toolchain"])


@case
def case_c04(tmp_path: Path) -> None:
    conf = (
        "memory: 65536\nfeatures: nesting=1\n"
        "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.cgroup2.devices.allow: c 508:* rwm\n"
        "lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file\n"
    )
    found = on_node(tmp_path, conf=conf)
    assert wrong(found) == {"conf_majors": "fail"}
    assert "nvidia-uvm has major 511" in found["conf_majors"].evidence and "devN" in cure(found["conf_majors"])
    assert on_node(tmp_path / "b", conf=conf + "unprivileged: 1\n")["conf_majors"].status == "ok"


@case
def case_c05(tmp_path: Path) -> None:
    madison = " libnvidia-compute-590 | 590.48.01-1 | https://developer.download.nvidia.com/x Packages\n"
    found = in_ct(tmp_path, library=None, said={"apt-cache madison": madison})
    assert wrong(found) == {"lib_missing": "fail", "drv_offered": "fail"}
    assert "590.48.01-1" in found["drv_offered"].evidence
    assert "Pin the host" in cure(found["drv_offered"]) and "--no-kernel-module" in cure(found["drv_offered"])
    packages = f"nvidia-driver-cuda\t{V}-1\tii \n"
    loose = on_node(tmp_path / "b", said={DPKG: packages})
    assert wrong(loose) == {"drv_held": "warn"}
    pin = {"/etc/apt/preferences.d/x": f"Package: *nvidia*\nPin: version {V}*\nPin-Priority: 1001\n"}
    assert on_node(tmp_path / "c", said={DPKG: packages}, files=pin)["drv_held"].status == "ok"


@case
def case_c06(tmp_path: Path) -> None:
    found = on_node(
        tmp_path,
        module=both(pci(driver=None)) and (pci(driver=None)[0] | {"/proc/sys/kernel/osrelease": KERNEL + "\n"}, {}),
        on_disk=None,
        devices={},
        said={
            "dkms status": f"nvidia-current/550.163.01: added\nnvidia-current/550.163.01, {KERNEL}, x86_64: broken\n"
        },
    )
    assert wrong(found) == {"gpu_vfio": "fail", "dkms_missing": "fail", "drv_kernel": "fail"}
    assert "dkms says 'broken' of nvidia-current 550.163.01" in found["dkms_missing"].evidence
    assert "make.log" in cure(found["dkms_missing"]) and "kernel pin" in cure(found["dkms_missing"])
    assert "550.163.01 does not build" in found["drv_kernel"].evidence and "580" in cure(found["drv_kernel"])


@case
def case_c08(tmp_path: Path) -> None:
    found = in_ct(tmp_path, opened={"/dev/nvidiactl": "EPERM"})
    assert wrong(found) == {"node_mode": "fail"} and "device cgroup" in cure(found["node_mode"])
    found = in_ct(tmp_path / "b", opened={"/dev/nvidiactl": "EACCES"})
    assert "mode=0666" in cure(found["node_mode"]) and "cgroup" not in cure(found["node_mode"])


@case
def case_c10(tmp_path: Path) -> None:
    there = devices()
    del there["/dev/nvidia-uvm"]
    found = on_node(tmp_path, devices=there, files={"/dev/nvidia-uvm": ""})
    assert wrong(found) == {"node_missing": "fail"}
    assert "/dev/nvidia-uvm is a plain file" in found["node_missing"].evidence
    assert "remove the plain file /dev/nvidia-uvm, then" in cure(found["node_missing"])


@case
def case_c11(tmp_path: Path) -> None:
    found = in_ct(tmp_path, files={"/var/lib/docker/containers/a/config.v2.json": "{}"})
    assert wrong(found) == {} and "a container inside reports is in its own copy" in found["drv_skew"].evidence


@case
def case_c14(tmp_path: Path) -> None:
    conf = "memory: 65536\nlxc.cgroup2.devices.allow: c 195:* rwm\nlxc.cgroup2.devices.allow: c 238:* rwm\n"
    assert "511" in on_node(tmp_path, conf=conf)["conf_majors"].evidence
    found = in_ct(
        tmp_path / "b", cuda={"init": 999, "driver": 12040, "count": 0, "seconds": 0.1}, devices=devices(uvm=238)
    )
    assert wrong(found) == {"node_stale": "fail", "cuinit": "fail"}


@case
def case_c15(tmp_path: Path) -> None:
    found = in_ct(tmp_path, cuda={"init": 0, "driver": 13000, "count": 1, "seconds": 31.0})
    assert wrong(found) == {"cuinit": "warn"}
    assert "reachable" in found["cuinit"].evidence and "not known" in found["cuinit"].evidence
    assert "the versions are not what is wrong" in cure(found["cuinit"])


@case
def case_c16(tmp_path: Path) -> None:
    found = in_ct(tmp_path, library=None, cuda=None)
    assert wrong(found) == {"lib_missing": "fail"}
    assert f"user space of {V}" in cure(found["lib_missing"])


@case
def case_c17(tmp_path: Path) -> None:
    found = on_node(tmp_path, devices={}, files={name: "" for name in UNIT})
    assert wrong(found) == {"node_missing": "fail", "node_unit": "warn"}
    assert "nvidia-smi -L" in cure(found["node_missing"]) and "Before=pve-guests.service" in cure(found["node_unit"])
    late = dict(UNIT, **{next(iter(UNIT)): "[Service]\nExecStart=/usr/bin/nvidia-smi -L\n"})
    assert "not ordered" in on_node(tmp_path / "b", files=late)["node_unit"].evidence


@case
def case_c20(tmp_path: Path) -> None:
    found = in_ct(
        tmp_path,
        module=loaded(count=2),
        cuda={"init": 0, "driver": 13000, "count": 1, "seconds": 0.2},
        devices=devices(count=2),
        peer=node(tmp_path, module=loaded(count=2), devices=devices(count=2)),
    )
    assert wrong(found) == {"gpu_count": "fail"} and "by the CPU" in found["gpu_count"].evidence
    asked = Ask(vmid=129, gpus=("0",))
    assert in_ct(tmp_path / "b", asked, values={"gpus": []})["gpu_present"].status == "fail"


@case
def case_c21(tmp_path: Path) -> None:
    sources = {
        "/etc/apt/sources.list": "deb [arch=amd64] http://deb.debian.org/debian trixie main\n",
        "/etc/apt/sources.list.d/n.sources": "Types: deb\nURIs: https://developer.download.nvidia.com/x/\nSuites: /\n",
    }
    found = in_ct(tmp_path, files=sources, reached={"http://deb.debian.org/debian/": "timed out"})
    assert wrong(found) == {"apt_sources": "fail"}
    assert "https answers" in found["apt_sources"].evidence and '"DIRECT"' in cure(found["apt_sources"])


@case
def case_c25(tmp_path: Path) -> None:
    found = in_ct(tmp_path, said={DPKG: "containerd.io\t1.7.29-1~debian.12~bookworm\tii \n"})
    assert wrong(found) == {"docker_in_ct": "warn"}
    assert "1.7.28" in cure(found["docker_in_ct"]) and "no docker" in cure(found["docker_in_ct"])


def card(**values: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "uuid": "GPU-a",
        "name": "A6000",
        "pci_bus_id": "0000:01:00.0",
        "health": "ok",
        "health_reasons": [],
        "memory_mib": {"used": 4},
        "utilization_percent": 0,
        "persistence": True,
        "clients_known": True,
        "clients": [],
        **values,
    }


def holder(vmid: int | None, inside_pid: int = 212) -> dict[str, Any]:
    return {
        "pid": 13936,
        "kind": "compute",
        "memory_mib": 20000,
        "comm": "python",
        "unit": "x.service",
        "container": {"kind": "lxc", "vmid": vmid} if vmid else None,
        "ns_pid": [13936, inside_pid],
    }


@case
def case_c26(tmp_path: Path) -> None:
    used = card(memory_mib={"used": 20000})
    found = in_ct(tmp_path, values={"gpus": [used]})
    assert wrong(found) == {"gpu_hidden": "warn"} and "no free GPU" in cure(found["gpu_hidden"])
    host = seen(node(tmp_path / "b"), gpus=[card(clients=[holder(130)])])
    found = examine(seen(inside(tmp_path / "b"), gpus=[used]), ASK, host)
    assert found["gpu_hidden"].status == "ok"
    assert "PID 13936 of the node is of CT 130, PID 212 there" in found["gpu_hidden"].evidence


@case
def case_c27(tmp_path: Path) -> None:
    top = "/sys/fs/cgroup/lxc/129"
    files = {
        f"{top}/memory.events": "low 0\nhigh 481516\nmax 0\noom 0\noom_kill 0\n",
        f"{top}/memory.pressure": "some avg10=71.00 avg60=70.1 total=9\nfull avg10=44.10 avg60=40.0 total=9\n",
        f"{top}/memory.current": f"{68585259008 - 4096}\n",
        f"{top}/memory.high": "68585259008\n",
        f"{top}/memory.max": f"{64 << 30}\n",
    }
    found = on_node(tmp_path, files=files)
    assert wrong(found) == {"mem_high": "fail"}
    assert "481516 times, 0 processes killed" in found["mem_high"].evidence
    assert "128 MiB below" in cure(found["mem_high"]) and "pct set 129 --memory" in cure(found["mem_high"])


@case
def case_c29(tmp_path: Path) -> None:
    ask = Ask(vmid=129, user="root", model_paths=("/models/x",))
    found = in_ct(tmp_path, ask, files={"/models/x/config.json": "{}"}, unreadable="/models/x/config.json", owner=65534)
    assert wrong(found) == {"model_access": "fail"}
    assert "idmap=" in cure(found["model_access"]) and "100000" in cure(found["model_access"])


@case
def case_c30(tmp_path: Path) -> None:
    ask = Ask(vmid=129, probe=True)
    found = in_ct(tmp_path, ask, values={"p2p": {"outcome": "hang", "seconds": 60.0, "said": ""}})
    assert wrong(found) == {"p2p": "fail"}
    remedy = found["p2p"].remedy
    assert remedy is not None and remedy.arguments == {"disable_custom_all_reduce": True}
    assert "NCCL_P2P_DISABLE=1" in remedy.text and "ACS" in remedy.text


@case
def case_c32(tmp_path: Path) -> None:
    files, links = loaded(count=2)
    more, _links = pci(2, iommu="DMA-FQ")
    cards = [card(), card(index=1, uuid="GPU-b")]
    found = on_node(tmp_path, module=({**files, **more}, links), devices=devices(count=2), values={"gpus": cards})
    assert wrong(found) == {"p2p_iommu": "warn"}
    assert "iommu=pt" in cure(found["p2p_iommu"]) and "--disable-custom-all-reduce" in cure(found["p2p_iommu"])


@case
def case_c33(tmp_path: Path) -> None:
    found = on_node(tmp_path, values={"gpus": [card(utilization_percent=100)]})
    assert wrong(found) == {"gpu_wedged": "fail"}
    assert "reset the GPU on the host" in cure(found["gpu_wedged"]) and "container cannot" in cure(found["gpu_wedged"])


@case
def case_c35(tmp_path: Path) -> None:
    proc = {
        "/proc/1/stat": "1 (systemd) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n",
        "/proc/88/stat": "88 (sglang::schedul) S 1 88 88 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n",
        "/proc/88/cmdline": "sglang::scheduler_TP0\0",
        "/proc/88/cgroup": "0::/init.scope\n",
        "/proc/89/stat": "89 (sglang::schedul) S 70 89 89 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n",
        "/proc/89/cmdline": "sglang::scheduler_TP0\0",
        "/proc/89/cgroup": "0::/system.slice/sglang-chat.service\n",
    }
    facts = look(inside(tmp_path, files=proc), "container", ASK)
    found = examine(facts, ASK, seen(node(tmp_path)))
    assert found["orphan"].status == "warn" and "PID 88 (sglang::schedul, parent 1" in found["orphan"].evidence
    assert "PID 89" not in found["orphan"].evidence
    assert "control group" in cure(found["orphan"]) and "units" in cure(found["orphan"])


@case
def case_c36(tmp_path: Path) -> None:
    ask = Ask(vmid=129, ports={"chat": 30000}, probe=True)
    answers = {"chat": {"health": 200, "seconds": 40.0, "problem": "no token came within 40 s"}}
    p2p = {"outcome": "ok", "seconds": 1.0, "said": ""}
    found = in_ct(tmp_path, ask, values={"answers": answers, "listeners": {}, "p2p": p2p})
    assert wrong(found) == {"false_ready": "fail"}
    assert "SIGTERM" in cure(found["false_ready"])


@case
def case_c37(tmp_path: Path) -> None:
    found = on_node(tmp_path, values={"gpus": [card(clients=[holder(130)])]})
    assert wrong(found) == {"gpu_foreign": "warn"}
    assert "20000 MiB by PID 13936 (python), CT 130" in found["gpu_foreign"].evidence
    assert "unbalanced" in cure(found["gpu_foreign"])
    assert on_node(tmp_path / "b", values={"gpus": [card(clients=[holder(129)])]})["gpu_foreign"].status == "ok"
    assert (
        "of the host"
        in on_node(tmp_path / "c", values={"gpus": [card(clients=[holder(None)])]})["gpu_foreign"].evidence
    )


@case
def case_c38(tmp_path: Path) -> None:
    found = in_ct(tmp_path, shm=(64, 2), files={"/dev/shm/nccl-abc": "", "/dev/shm/other": ""})
    assert wrong(found) == {"shm": "fail"} and "nccl-abc" in found["shm"].evidence
    assert "6.1.10" in cure(found["shm"])
    none = in_ct(tmp_path / "b", files={"/proc/self/mounts": "overlay / overlay rw 0 0\n"})
    assert "no tmpfs" in none["shm"].evidence


@case
def case_c39(tmp_path: Path) -> None:
    found = on_node(tmp_path, on_disk="610.57.04")
    assert wrong(found) == {"drv_not_rebooted": "warn"}
    assert "Reboot the host" in cure(found["drv_not_rebooted"]) and "rmmod" in cure(found["drv_not_rebooted"])


@case
def case_c40(tmp_path: Path) -> None:
    packages = f"libnvidia-compute\t{V}-1\tii \nnvidia-driver-pinning-595\t595\trc \n"
    auto = {
        "/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";\n',
        "/etc/apt/apt.conf.d/50unattended-upgrades": 'Unattended-Upgrade::Package-Blacklist {\n// "nvidia";\n};\n',
        "/usr/bin/unattended-upgrade": "",
    }
    found = in_ct(tmp_path, said={DPKG: packages}, files=auto)
    assert wrong(found) == {"drv_held": "fail"}
    assert "apt-mark hold libnvidia-compute" in cure(found["drv_held"]) and "blacklist" in cure(found["drv_held"])
    held = in_ct(tmp_path / "b", said={DPKG: packages.replace("ii ", "hi ")}, files=auto)
    assert held["drv_held"].status == "ok"


@case
def case_c41(tmp_path: Path) -> None:
    new = "7.0.14-12-pve"
    missing = (1, "modinfo: ERROR: Module nvidia not found.")
    found = on_node(
        tmp_path,
        version="580.126.18",
        said={
            f"modinfo -k {new} -F version nvidia": missing,
            "dkms status": f"nvidia/580.126.18, {KERNEL}, x86_64: installed\n",
        },
        files={f"/lib/modules/{new}/modules.dep": "", f"/lib/modules/{new}/build/Makefile": ""},
    )
    assert wrong(found) == {"dkms_missing": "fail", "drv_kernel": "fail"}
    assert "580.142" in cure(found["drv_kernel"]) and f"dkms autoinstall -k {new}" in cure(found["dkms_missing"])


@case
def case_c42(tmp_path: Path) -> None:
    found = in_ct(
        tmp_path,
        devices=devices(uvm=None),
        cuda={"init": 999, "driver": 13000, "count": 0, "seconds": 0.1},
    )
    assert wrong(found) == {"node_not_passed": "fail", "cuinit": "fail"}
    assert "/dev/nvidia-uvm is missing" in found["node_not_passed"].evidence
    host = on_node(tmp_path / "b", devices=devices(uvm=None))
    assert wrong(host) == {"node_missing": "fail"} and "nvidia-modprobe -c 0 -u" in cure(host["node_missing"])


@case
def case_c43(tmp_path: Path) -> None:
    found = in_ct(tmp_path, version="550.163.01", peer=node(tmp_path, version="550.163.01"))
    assert wrong(found) == {"drv_old": "fail"}
    assert "580 or newer" in cure(found["drv_old"]) and "then the libraries of each container" in cure(found["drv_old"])


@case
def case_c44(tmp_path: Path) -> None:
    raw = "lxc.cgroup.devices.allow: c 195:* rwm\nlxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,create=file\n"
    found = on_node(tmp_path, conf="features: nesting=1\nmemory: 65536\n" + raw)
    assert wrong(found) == {"conf_v1": "fail"}
    assert "ignores" in found["conf_v1"].evidence and "devN" in cure(found["conf_v1"])
    snapshot = on_node(tmp_path / "b", conf="memory: 65536\nunprivileged: 1\n\n[clean]\nmemory: 512\n" + raw)
    assert wrong(snapshot) == {"conf_snap": "fail"} and "[clean]" in cure(snapshot["conf_snap"])


@case
def case_c45(tmp_path: Path) -> None:
    found = in_ct(tmp_path, peer=node(tmp_path, offset="+0200"))
    assert wrong(found) == {"clock": "warn"}
    assert "one clock, two time zones" in found["clock"].evidence and "--timezone host" in cure(found["clock"])


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name: str, tmp_path: Path) -> None:
    TESTS[name](tmp_path)


def test_every_case_has_a_test() -> None:
    assert sorted(TESTS) == sorted(CASES)
    assert not ELSEWHERE & set(CASES) and len(CASES) + len(ELSEWHERE) == 37
