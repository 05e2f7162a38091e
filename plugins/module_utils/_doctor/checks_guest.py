# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Checks of a Proxmox container from its node: where it is, who holds it, what its configuration does."""

from __future__ import annotations

import re
from typing import Any

from .._remedy import Remedy
from .check import Check, Result, View, fail, ok, role, skip, warn
from .facts import CONTAINER, NODE, Unread

GPU_DEVICE = re.compile(r"/dev/nvidia|/dev/dri\b")
ALLOW = re.compile(r"^c\s+(\d+):(\d+|\*)\s")
GPU_MAJORS = ("nvidia", "nvidiactl", "nvidia-frontend", "nvidia-uvm", "nvidia-caps")
PRESSURE_PERCENT = 20.0
NESTED_SYSTEMD = 241  # above it systemd wants nesting


def main(view: View) -> list[tuple[str, str]]:
    """The container's settings before the first section, in order."""
    config = view.node().need("config")
    if config is None:
        raise Unread("the container is not on this node")
    return [(str(key), str(value)) for key, value in config["main"]]


def setting(view: View, key: str) -> str | None:
    return next((value for name, value in main(view) if name == key), None)


def privileged(view: View) -> bool:
    return setting(view, "unprivileged") != "1"


def is_gpu_line(key: str, value: str) -> bool:
    """Whether a line of a configuration gives a GPU: devN, or a raw mount or allow line."""
    if re.match(r"dev\d+$", key) or key == "lxc.mount.entry":
        return bool(GPU_DEVICE.search(value))
    return bool(re.match(r"lxc\.cgroup2?\.devices\.allow$", key) and ALLOW.match(value + " "))


def _elsewhere(view: View) -> Result:
    if view.need("config") is not None:
        return ok("its configuration is on this node")
    vmid, found = view.ask.vmid, view.need("elsewhere")
    for place in found:
        if "/qemu-server/" in place:
            return fail(f"{vmid} is a VM ({place}), not a container", cure=f"Use the VMID of the container, not {vmid}")
    if found:
        node = found[0].split("/")[1]
        return fail(f"CT {vmid} is on node {node}", cure=f"Connect to {node}: set llmhost_gpu_node to it")
    return fail(f"no node of this cluster has a CT {vmid}", cure="Correct llmhost_vmid ('pct list' on each node)")


def _here(view: View) -> None:
    if view.need("config") is None:
        raise Unread("the container is not on this node")


def _stopped(view: View) -> Result:
    _here(view)
    state = view.need("guest_status")
    return ok("it runs") if state == "running" else fail(f"it is {state}", vmid=view.ask.vmid)


def _locked(view: View) -> Result:
    _here(view)
    lock = setting(view, "lock")
    if not lock:
        return ok("no lock")
    tasks = view.maybe("active_tasks")
    if tasks:
        return warn(f"locked ({lock}) by a task that runs: {tasks[0]}", cure="Wait until that task has ended")
    if tasks is None:
        return warn(
            f"locked ({lock}); whether a task of it runs could not be seen",
            cure=f"Look at the node's tasks; only if none runs, 'pct unlock {view.ask.vmid}'",
        )
    return warn(f"locked ({lock}), and no task of it runs", cure=f"Remove the lock: 'pct unlock {view.ask.vmid}'")


def _ha(view: View) -> Result:
    if view.need("ha"):
        return warn("it is a resource of the HA manager, so start and stop return before they are done")
    return ok("no HA resource")


def _quorum(view: View) -> Result:
    quorate = view.need("quorate")
    if quorate is None:
        return skip("this node is in no cluster")
    return ok("quorate") if quorate else fail("this node has no quorum: /etc/pve is read-only, and no guest starts")


def _pending(view: View) -> Result:
    _here(view)
    waiting = view.need("pending")
    if waiting:
        return warn(f"waiting for the next start: {', '.join(waiting)}", keys=", ".join(waiting), vmid=view.ask.vmid)
    return ok("no change waits")


def _snapshot(view: View) -> Result:
    _here(view)
    config = view.need("config")
    here = [value for key, value in config["main"] if is_gpu_line(key, value)]
    after = {
        name: [key for key, value in entries if is_gpu_line(key, value)]
        for name, entries in config["sections"].items()
        if name.lower() != "pve:pending"
    }
    lost = [name for name, keys in after.items() if keys]
    if lost and not here:
        return fail(
            f"the lines for the GPU ({', '.join(after[lost[0]][:4])}) are in section [{lost[0]}] and do nothing there",
            section=lost[0],
        )
    return ok("the GPU's lines, if any, are before the first section")


def _v1(view: View) -> Result:
    _here(view)
    old = [key for key, _value in main(view) if re.match(r"lxc\.cgroup\.", key)]
    if not old:
        return ok("no key of cgroup v1")
    told = f"{len(old)} lines such as {old[0]}, which LXC ignores on cgroup v2"
    return fail(told + ", so the device stays shut") if privileged(view) else warn(told)


def _majors(view: View) -> Result:
    _here(view)
    if not privileged(view):
        return ok("unprivileged: every device is allowed")
    allowed = [
        (int(hit.group(1)), value)
        for key, value in main(view)
        if key == "lxc.cgroup2.devices.allow"
        for hit in [ALLOW.match(value + " ")]
        if hit
    ]
    if not allowed:
        return ok("no raw allow line")
    majors = view.need("majors")
    known = {majors[name] for name in GPU_MAJORS if name in majors}
    mine = {number for number, _value in allowed}
    missing = sorted(
        name for name in ("nvidia-uvm", "nvidia", "nvidiactl") if name in majors and majors[name] not in mine
    )
    strays = sorted(number for number in mine if number not in set(majors.values()))
    if missing or (strays and known - mine):
        told = f"allowed are {', '.join(map(str, sorted(mine)))}, but " + ", ".join(
            f"{name} has major {majors[name]}" for name in missing
        )
        return fail(told, majors=", ".join(f"{name} {majors[name]}" for name in missing))
    return ok("the allowed numbers are the driver's")


def _nesting(view: View) -> Result:
    features = (setting(view, "features") or "").replace(";", ",").split(",")
    version = view.need("systemd_version")
    failed = [unit for unit, status in view.need("exec_status").items() if status == 226]
    if "nesting=1" in features:
        return ok("nesting=1")
    others = ",".join(part for part in features if part and not part.startswith("nesting"))
    values: dict[str, Any] = {"vmid": view.ask.vmid or "VMID", "others": "," + others if others else ""}
    if failed:
        return fail(f"nesting is off, and {failed[0]} failed with status 226 (NAMESPACE)", **values)
    if version > NESTED_SYSTEMD:
        return warn(
            f"nesting is off, and systemd {version} wants it: units with hardening fail with status 226", **values
        )
    return ok(f"systemd {version} does without nesting")


def _oci(view: View) -> Result:
    _here(view)
    entry = setting(view, "entrypoint")
    if entry and entry.split()[0] not in ("/sbin/init", "/lib/systemd/systemd", "/usr/lib/systemd/systemd"):
        return fail(f"an application container (entrypoint {entry.split()[0]}): it has no systemd")
    return ok("a system container")


def _docker(view: View) -> Result:
    packages = view.need("packages")
    if packages is None:
        return skip("this is no system with dpkg")
    docker = next((package for package in packages if package["name"] in ("containerd.io", "containerd")), None)
    if docker is None:
        return skip("no containerd is installed")
    words = [int(word) for word in re.findall(r"\d+", docker["version"])[:3]]
    if words >= [1, 7, 29]:
        return warn(
            f"{docker['name']} {docker['version']}: from 1.7.29 on nested containers fail under LXC's AppArmor profile",
            package=docker["name"],
        )
    return ok(f"{docker['name']} {docker['version']}")


def _memory(view: View) -> Result:
    _here(view)
    found = view.need("guest_memory")
    high, killed = found["events"].get("high", 0), found["events"].get("oom_kill", 0)
    pressure = found["pressure_full_avg10"] or 0.0
    told = (
        f"memory.high passed {high} times, {killed} processes killed, stalled {pressure:g} % of the last 10 s; "
        f"{_mib(found['current'])} of {_mib(found['max'])} in use"
    )
    if high and pressure > PRESSURE_PERCENT:
        return fail(told, vmid=view.ask.vmid)
    near = found["current"] and found["high"] and found["current"] > 0.98 * found["high"]
    return warn(told, vmid=view.ask.vmid) if killed or (high and near) else ok(told)


def _mib(size: int | None) -> str:
    return "no limit" if size is None else f"{size >> 20} MiB"


ROWS = (
    Check(
        id="ct_elsewhere",
        family="container",
        places=(NODE,),
        severity="high",
        meaning="The container is not on this node, or the number is that of a VM.",
        look="/etc/pve/nodes/*/lxc/VMID.conf and qemu-server/VMID.conf",
        remedy=Remedy("right_node", "{cure}."),
        find=_elsewhere,
        gpu=False,
        guest=True,
    ),
    Check(
        id="ct_stopped",
        family="container",
        places=(NODE,),
        severity="high",
        meaning="The container does not run.",
        look="pct status",
        remedy=Remedy("start_container", "Start it: 'pct start {vmid}'.", host_action="start the container"),
        find=_stopped,
        gpu=False,
        guest=True,
    ),
    Check(
        id="ct_locked",
        family="container",
        places=(NODE,),
        severity="medium",
        meaning="The container is locked: its configuration cannot be changed and it does not start.",
        look="'lock' before the first section of its configuration; the node's active tasks",
        remedy=Remedy("wait_for_lock", "{cure}."),
        find=_locked,
        gpu=False,
        guest=True,
    ),
    Check(
        id="ct_ha",
        family="container",
        places=(NODE,),
        severity="low",
        meaning="The container is managed by HA.",
        look="'ct: VMID' in /etc/pve/ha/resources.cfg",
        remedy=Remedy("use_ha", "Start and stop it with ha-manager, and wait for its state, not for the exit code."),
        find=_ha,
        gpu=False,
        guest=True,
    ),
    Check(
        id="no_quorum",
        family="container",
        places=(NODE,),
        severity="high",
        meaning="The cluster has no quorum.",
        look="pvecm status",
        remedy=Remedy(
            "restore_quorum", "Restore quorum ('pvecm status' names the votes): nothing can be changed before."
        ),
        find=_quorum,
        gpu=False,
    ),
    Check(
        id="ct_pending",
        family="container",
        places=(NODE,),
        severity="medium",
        meaning="Changes of the container's configuration wait for its next start.",
        look="pct pending",
        remedy=Remedy("apply_pending", "Restart it to apply {keys}: 'pct reboot {vmid}'.", host_action="restart"),
        find=_pending,
        gpu=False,
        guest=True,
    ),
    Check(
        id="conf_snap",
        family="container",
        places=(NODE,),
        severity="high",
        meaning="The lines for the GPU are in a snapshot's section of the configuration, where they do nothing.",
        look="devN, lxc.mount.entry and lxc.cgroup2 lines by section",
        remedy=Remedy(
            "move_lines",
            "Set the devices with 'pct set' (the role gpu_container does), which writes above the first section, and "
            "remove the lines from [{section}].",
            host_action="move the lines",
        ),
        find=_snapshot,
        guest=True,
        task=role("gpu_container"),
    ),
    Check(
        id="conf_v1",
        family="container",
        places=(NODE,),
        severity="high",
        meaning="The configuration has device keys of cgroup v1, which LXC ignores.",
        look="lines 'lxc.cgroup.devices...' in its configuration",
        remedy=Remedy(
            "drop_v1", "Delete the lxc.cgroup. lines and use devN entries instead.", host_action="use devN entries"
        ),
        find=_v1,
        guest=True,
        task=role("gpu_container"),
        cases=("gist egg82/90164a31",),
    ),
    Check(
        id="conf_majors",
        family="container",
        places=(NODE,),
        severity="high",
        meaning="A privileged container allows device numbers that the driver no longer has.",
        look="lxc.cgroup2.devices.allow against /proc/devices",
        remedy=Remedy(
            "use_devn",
            "Replace the lines by devN entries, whose numbers are looked up at each start; today they are {majors}.",
            host_action="use devN entries",
        ),
        find=_majors,
        guest=True,
        task=role("gpu_container"),
        cases=("jammsen/proxmox-setup-scripts#7",),
    ),
    Check(
        id="ct_oci",
        family="container",
        places=(NODE,),
        severity="high",
        meaning="It is an application (OCI) container, which this collection does not serve.",
        look="entrypoint in its configuration",
        remedy=Remedy("system_container", "Make a system container from a Debian or Ubuntu template."),
        find=_oci,
        gpu=False,
        guest=True,
    ),
    Check(
        id="nesting",
        family="container",
        places=(CONTAINER,),
        severity="medium",
        meaning="systemd in the container lacks nesting.",
        look="'features' of the container, systemd's version, units that ended with status 226",
        remedy=Remedy(
            "set_nesting",
            "On the node: 'pct set {vmid} --features nesting=1{others}', then restart the container.",
            host_action="set nesting=1",
        ),
        find=_nesting,
        gpu=False,
        guest=True,
        task=role("gpu_container"),
    ),
    Check(
        id="docker_in_ct",
        family="container",
        places=(CONTAINER,),
        severity="low",
        meaning="Docker in the container is of a version that fails under LXC.",
        look="the version of containerd",
        remedy=Remedy(
            "no_docker",
            "SGLang needs no docker here. Where it must stay, hold {package} at 1.7.28 or take a newer lxc-pve.",
        ),
        find=_docker,
        gpu=False,
        cases=("opencontainers/runc#4968",),
    ),
    Check(
        id="mem_high",
        family="memory",
        places=(NODE,),
        severity="high",
        meaning="The container is throttled at its memory limit, or was killed for it.",
        look="memory.events (high, oom_kill) and memory.pressure of /sys/fs/cgroup/lxc/VMID on the node",
        remedy=Remedy(
            "more_memory",
            "Raise it: 'pct set {vmid} --memory ...', to what the server holds plus the page cache of its files. "
            "Proxmox throttles from 128 MiB below the limit on (memory.high), long before anything is killed.",
            host_action="raise the memory of the container",
        ),
        find=_memory,
        gpu=False,
        guest=True,
        cases=("lxc/lxc#4122",),
    ),
)
