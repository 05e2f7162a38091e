# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Checks of the device nodes: there, of the driver's numbers on both sides, and open to who runs the server."""

from __future__ import annotations

from typing import Any

from .._remedy import Remedy
from .check import HERE, HOST, Check, Result, View, fail, ok, role, skip, warn
from .facts import BARE_METAL, CONTAINER, NODE, Unread

OPTIONAL = ("/dev/nvidia-uvm-tools",)
# cuInit's answer -> what it means, what to do. Other numbers are told as they are.
CUDA_SAYS = {
    3: ("the driver is not initialised", "read the kernel log of the host (NVRM)"),
    100: ("no GPU can be used", "pass /dev/nvidia0.. through, and look at CUDA_VISIBLE_DEVICES of the service"),
    101: ("no such GPU", "look at CUDA_VISIBLE_DEVICES of the service"),
    304: ("the operating system refuses a call", "give the devices mode=0666, and remove raw lxc.cgroup lines"),
    802: ("the system is not ready", "start the fabric manager on the host"),
    803: ("module and library have different versions", "install the libraries of the loaded module"),
    999: (
        "unknown, which is what a missing or stale /dev/nvidia-uvm gives while nvidia-smi works",
        "have the host make /dev/nvidia-uvm before its containers start (modprobe nvidia_uvm; nvidia-modprobe -c 0 "
        "-u), pass it through with devN, and restart the container",
    ),
}
SLOW_S = 20.0


def _missing(nodes: dict[str, Any]) -> list[str]:
    return sorted(
        path for path, node in nodes.items() if path not in OPTIONAL and (node is None or not node["character"])
    )


def _tell(nodes: dict[str, Any], paths: list[str]) -> str:
    return ", ".join(f"{path} {'is missing' if nodes[path] is None else 'is a plain file'}" for path in paths)


def _on_host(view: View) -> Result:
    if view.need("module") is None:
        return skip("no module is loaded, so no device can be there")
    nodes = view.need("nodes")
    missing = _missing(nodes)
    if not missing:
        return ok(f"{len(nodes)} device nodes are there")
    plain = [path for path in missing if nodes[path] is not None]
    first = f"remove the plain file{'s' if len(plain) > 1 else ''} {' '.join(plain)}, then " if plain else ""
    hint = " although nvidia_uvm is loaded" if view.maybe("uvm_loaded") and "/dev/nvidia-uvm" in missing else ""
    return fail(_tell(nodes, missing) + hint, first=first)


def _before_guests(view: View) -> Result:
    units = [unit for unit in view.need("node_units") if unit["enabled"]]
    good = [unit for unit in units if "pve-guests.service" in unit["before"]]
    if good:
        return ok(f"{good[0]['unit']} makes the nodes before the guests start")
    if units:
        return warn(f"{units[0]['unit']} makes the nodes, but is not ordered before pve-guests.service")
    return warn("no enabled unit makes the nodes before pve-guests.service: they come when a program first asks")


def _passed(view: View) -> Result:
    nodes, host = view.need("nodes"), view.node().need("nodes")
    wanted = {path for path, node in host.items() if node is not None and node["character"]} - set(OPTIONAL)
    cards = {path for path in wanted if path[len("/dev/nvidia") :].isdigit()}
    here = {path: nodes.get(path) for path in wanted}
    missing = _missing(here)
    if cards and all(path in missing for path in cards):
        return fail(_tell(here, missing) + ", while the node has them", devices=_lines(missing))
    others = [path for path in missing if path not in cards and "nvidia-caps" not in path and "modeset" not in path]
    if others:
        return fail(_tell(here, others) + ", while the node has them", devices=_lines(others))
    plain = [path for path in missing if here[path] is not None]
    if plain:
        return fail(_tell(here, plain), devices=_lines(plain))
    return ok(f"{len(wanted) - len(missing)} of the node's devices are passed through")


def _lines(paths: list[str]) -> str:
    return "; ".join(f"dev{number}: {path},mode=0666" for number, path in enumerate(paths))


def _numbers(view: View) -> Result:
    nodes = {path: node for path, node in view.need("nodes").items() if node and node["character"]}
    if not nodes:
        return skip("no device node is here")
    majors = view.need("majors")
    try:
        host = view.node().need("nodes") if view.place == CONTAINER else {}
        host_unread = ""
    except Unread as why:
        host, host_unread = {}, str(why)
    wrong = []
    for path, node in sorted(nodes.items()):
        there = host.get(path)
        if there and there["character"] and (there["major"], there["minor"]) != (node["major"], node["minor"]):
            wrong.append(f"{path} is {node['major']}:{node['minor']}, on the node {there['major']}:{there['minor']}")
        expected = _majors_of(path, majors)
        if not wrong and expected and node["major"] not in expected:
            wrong.append(f"{path} has major {node['major']}, the driver {' or '.join(map(str, sorted(expected)))}")
    if wrong:
        return fail("; ".join(wrong), vmid=view.ask.vmid or "VMID")
    if host_unread:
        return ok("the numbers are those of /proc/devices; the node's own were not handed in")
    return ok("the numbers are the driver's")


def _majors_of(path: str, majors: dict[str, int]) -> set[int]:
    """The majors that a device may have. The name of the cards' changed with driver 550: any of them will do."""
    if path.startswith("/dev/nvidia-uvm"):
        return {majors[name] for name in ("nvidia-uvm",) if name in majors}
    if path.startswith("/dev/nvidia-caps/"):
        return {majors[name] for name in ("nvidia-caps",) if name in majors}
    names = ("nvidia", "nvidiactl", "nvidia-frontend", "nvidia-modeset")
    return {majors[name] for name in names if name in majors}


def _open(view: View) -> Result:
    opened = view.need("opened")
    if not opened:
        return skip("no device node is here")
    who = view.ask.user or "this user"
    refused = {path: said for path, said in opened.items() if said != "ok"}
    if not refused:
        return ok(f"{who} can open all {len(opened)}")
    said = next(iter(sorted(refused.values())))
    cure = {
        "EACCES": "the mode of the node refuses it: set mode=0666 on its devN entry (the default is 0660 root:root) "
        "and restart the container",
        "EPERM": "the device cgroup refuses it: remove raw lxc.cgroup lines, pass the device with devN, and restart "
        "the container",
        "ENXIO": "no driver is behind the node: load it on the host",
        "ENODEV": "no driver is behind the node: load it on the host",
        "EIO": "the driver cannot start the card: read the host's kernel log (NVRM, Xid)",
    }.get(said, "read the host's kernel log")
    told = ", ".join(f"{path}: {error}" for path, error in sorted(refused.items()))
    return fail(f"{who} cannot open {told}", cure=cure[0].upper() + cure[1:])


def _cuda(view: View) -> Result:
    found = view.need("cuda")
    if found is None:
        return skip("libcuda.so.1 is not here")
    code, seconds = found["init"], found["seconds"]
    if code:
        meaning, cure = CUDA_SAYS.get(code, ("no row of this check knows it", "read the host's kernel log (NVRM)"))
        return fail(f"cuInit says {code}: {meaning}", cure=cure[0].upper() + cure[1:])
    if seconds > SLOW_S:
        return warn(
            f"cuInit works, but took {seconds:.0f} s: GPU and driver are reachable, and why it is slow is not known",
            cure="Measure it again outside docker and with persistence mode on; the versions are not what is wrong",
        )
    return ok(f"cuInit works, in {seconds:.1f} s")


def _count(view: View) -> Result:
    found = view.need("cuda")
    if found is None or found["init"]:
        return skip("CUDA does not start")
    count = found["count"]
    wanted = len(view.ask.gpus) if view.ask.gpus and "all" not in view.ask.gpus else None
    if wanted is None:
        seen = [node for path, node in view.need("nodes").items() if node and path[len("/dev/nvidia") :].isdigit()]
        wanted = len(seen)
    if count < wanted:
        return fail(
            f"CUDA sees {count} GPUs, {wanted} are meant to be used: the rest would be served by the CPU or fail"
        )
    return ok(f"CUDA sees {count} GPUs")


ROWS = (
    Check(
        id="node_missing",
        family="devices",
        places=HOST,
        severity="high",
        meaning="A device node of the driver is missing on the host, or something else lies at its path.",
        look="/dev/nvidia0.., nvidiactl, nvidia-uvm: a character device each",
        remedy=Remedy(
            "make_nodes",
            "On the host, {first}run 'nvidia-smi -L' and 'nvidia-modprobe -c 0 -u', and have a unit do so at each boot "
            "before the guests start; then restart the containers that use them.",
            host_action="make the device nodes",
        ),
        find=_on_host,
        task=role("nvidia_host"),
        cases=(
            "tteck/Proxmox#3758",
            "games-on-whales/wolf#361",
            "Jip-Hop/jailmaker#4",
            "community-scripts/ProxmoxVE#5740",
        ),
    ),
    Check(
        id="node_unit",
        family="devices",
        places=(NODE,),
        severity="medium",
        meaning="Nothing makes the device nodes before Proxmox starts its containers.",
        look="enabled units that run nvidia-modprobe or nvidia-smi, and what they are ordered before",
        remedy=Remedy(
            "boot_unit",
            "Install a oneshot unit with Before=pve-guests.service that runs 'nvidia-smi -L' and "
            "'nvidia-modprobe -c 0 -u' (the role nvidia_host does).",
            host_action="install the unit",
            safe=True,
        ),
        find=_before_guests,
        task=role("nvidia_host"),
        cases=("games-on-whales/wolf#361", "jammsen/proxmox-setup-scripts#11"),
    ),
    Check(
        id="node_not_passed",
        family="devices",
        places=(CONTAINER,),
        severity="high",
        meaning="The node has device nodes that the container was not given.",
        look="the device nodes on both sides",
        remedy=Remedy(
            "pass_devices",
            "Add to the container's configuration: {devices}; then restart it.",
            host_action="pass the devices through",
        ),
        find=_passed,
        task=role("gpu_container"),
        cases=("Jip-Hop/jailmaker#4",),
    ),
    Check(
        id="node_stale",
        family="devices",
        places=(CONTAINER, BARE_METAL),
        severity="high",
        meaning="A device node has numbers that the driver no longer has.",
        look="major and minor of each node against the node's and against /proc/devices",
        remedy=Remedy(
            "restart_container",
            "The driver was loaded anew while the container ran: 'pct reboot {vmid}' makes the nodes again. With raw "
            "lxc lines in its configuration, replace them by devN entries first.",
            host_action="restart the container",
        ),
        find=_numbers,
        cases=("blakeblackshear/frigate#4136", "community-scripts/ProxmoxVE#5740"),
    ),
    Check(
        id="node_mode",
        family="devices",
        places=HERE,
        severity="high",
        meaning="Who runs the server cannot open a device node.",
        look="open(O_RDWR) as that user: EACCES is the mode, EPERM the device cgroup, ENXIO or EIO the driver",
        remedy=Remedy("open_devices", "{cure}.", host_action="open the devices to the service user"),
        find=_open,
        cases=("dockserver/dockserver#525",),
    ),
    Check(
        id="cuinit",
        family="cuda",
        places=HERE,
        severity="high",
        meaning="CUDA does not start, whatever nvidia-smi says.",
        look="cuInit(0) in a process of its own, with its time",
        remedy=Remedy("start_cuda", "{cure}.", host_action="give the container what CUDA needs"),
        find=_cuda,
        cases=("community-scripts/ProxmoxVE#5740", "blakeblackshear/frigate#4136", "ollama/ollama#17069"),
    ),
    Check(
        id="gpu_count",
        family="cuda",
        places=HERE,
        severity="high",
        meaning="CUDA sees fewer GPUs than are meant to be used.",
        look="cuDeviceGetCount against the GPUs asked for",
        remedy=Remedy(
            "all_gpus",
            "Pass each /dev/nvidiaN of the GPUs meant through, and look at CUDA_VISIBLE_DEVICES of the service.",
            host_action="pass the devices through",
        ),
        find=_count,
        cases=("dryvist/ansible-proxmox-ai (a gate passed on a CPU)",),
    ),
)
