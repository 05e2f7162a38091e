# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Checks of the system: clocks, limits, memory of the host, shared memory, disks, package sources."""

from __future__ import annotations

from .._remedy import Remedy
from .check import EVERYWHERE, HERE, HOST, Check, Result, View, fail, ok, skip, warn
from .facts import BARE_METAL, CONTAINER

CLOCK_S = 2.0
SHM_MIB = 1024
DISK_MIB = 1024
FILES = 65536
NOBODY = 65534  # an owner outside the container's map
MIB = 1 << 20


def _clock(view: View) -> Result:
    mine = view.need("clock")
    theirs = view.node().need("clock") if view.place == CONTAINER else None
    if theirs is None:
        return skip("there is no other clock to compare with")
    apart = abs(mine["since_boot"] - theirs["since_boot"])  # of one kernel, so the runs need not be at one moment
    if apart > CLOCK_S:
        return fail(
            f"by their time since boot, the clocks of node and container are {apart:.0f} s apart",
            zone=theirs["zone"] or "host",
        )
    if mine["offset"] != theirs["offset"]:
        return warn(
            f"one clock, two time zones: {mine['offset']} here, {theirs['offset']} on the node; log lines of both do "
            "not line up",
            zone="host",
        )
    return ok(f"one clock, one time zone ({mine['offset']})")


def _synchronised(view: View) -> Result:
    state = view.need("synchronised")
    return ok("synchronised") if state else warn("not synchronised with any time server")


def _memlock(view: View) -> Result:
    limit = view.need("limits")["memlock"]
    if not view.need("infiniband"):
        return ok("no RDMA device is here: locked memory is not needed in quantity")
    if limit is None or limit >= 1 << 40:
        return ok("no limit")
    return warn(f"{limit >> 10} KiB, with an RDMA device here")


def _files(view: View) -> Result:
    limit = view.need("limits")["nofile"]
    if limit is not None and limit < FILES:
        return warn(f"{limit} open files at most")
    return ok("enough" if limit is None else f"{limit} open files")


def _arc(view: View) -> Result:
    arc = view.need("arc")
    if arc is None:
        return skip("no ZFS")
    total = view.need("memory_total")
    told = f"ZFS caches {arc['size'] // MIB} MiB and may take {arc['c_max'] // MIB} MiB of {total // MIB} MiB"
    if arc["c_max"] > total // 2 or arc["size"] > total // 2:
        return warn(told, half=total // 4)
    return ok(told)


def _shm(view: View) -> Result:
    shm = view.need("shm")
    if shm is None:
        return fail("/dev/shm is no tmpfs")
    told = f"{shm['free_mib']} of {shm['total_mib']} MiB are free"
    if shm["free_mib"] >= SHM_MIB:
        return ok(told)
    left = shm["leftovers"]
    return (fail if shm["free_mib"] < 64 else warn)(
        told + (f"; {len(left)} files such as {left[0]} fill it" if left else "")
    )


def _disk(view: View) -> Result:
    rooms = view.need("rooms")
    bad, thin = [], []
    for path, room in sorted(rooms.items()):
        if room["read_only"]:
            bad.append(f"{path} is on a read-only file system")
        elif room["free_mib"] < DISK_MIB // 4 or room["free_inodes"] == 0:
            bad.append(f"{path}: {room['free_mib']} MiB free" + (", no inode" if room["free_inodes"] == 0 else ""))
        elif room["free_mib"] < DISK_MIB:
            thin.append(f"{path}: {room['free_mib']} MiB free")
    if bad:
        return fail("; ".join(bad + thin))
    return (
        warn("; ".join(thin))
        if thin
        else ok("; ".join(f"{p}: {r['free_mib']} MiB free" for p, r in sorted(rooms.items())))
    )


def _models(view: View) -> Result:
    models, who = view.need("models"), view.ask.user or "this user"
    if not models:
        return skip("no model was named")
    for model in models:
        path, refused = model["path"], model["refused"]
        if not model["exists"]:
            return fail(f"{path} does not exist here", cure="Mount it into the container, or correct the path")
        if refused and model["uid"] == NOBODY:
            return fail(
                f"{who} cannot read {refused} (owner nobody, 65534)",
                cure="Its owner is outside the container's id map: on the node, 'chmod -R o+rX' is enough to read; to "
                "write, 'chown' it to 100000 plus the container's uid, or give the mount point idmap= (from "
                "pve-container 6.1.6 on)",
            )
        if refused:
            return fail(f"{who} cannot read {refused}", cure=f"Give {who} the right to read it ('chmod -R o+rX')")
    return ok(f"{who} can read {', '.join(model['path'] for model in models)}")


def _sources(view: View) -> Result:
    sources = view.need("sources")
    if not sources:
        return skip("no package source is configured")
    bad = {uri: said for uri, said in sources.items() if said != "ok"}
    if not bad:
        return ok(f"all {len(sources)} package sources answer")
    reached = {uri.split(":", 1)[0] for uri, said in sources.items() if said == "ok"}
    told = "; ".join(f"{uri}: {said}" for uri, said in sorted(bad.items()))
    if all(uri.startswith("http:") for uri in bad) and "https" in reached:
        return fail(
            told + "; https answers",
            cure="Port 80 is blocked on the way: use https:// sources, or a proxy for http alone "
            '(Acquire::http::Proxy, and Acquire::https::Proxy "DIRECT")',
        )
    return fail(told, cure="Give the host a way to its package sources, or a mirror that it can reach")


ROWS = (
    Check(
        id="clock",
        family="system",
        places=(CONTAINER,),
        severity="low",
        meaning="Node and container tell different times.",
        look="time since boot and time zone on both sides",
        remedy=Remedy(
            "timezone_host",
            "Set the container's time zone ('pct set VMID --timezone {zone}', applied at its next start), or write "
            "logs with their offset.",
            host_action="set the time zone",
            safe=True,
        ),
        find=_clock,
        gpu=False,
    ),
    Check(
        id="clock_sync",
        family="system",
        places=HOST,
        severity="low",
        meaning="The clock is not synchronised.",
        look="timedatectl",
        remedy=Remedy("time_server", "Configure chrony or systemd-timesyncd.", host_action="synchronise the clock"),
        find=_synchronised,
        gpu=False,
    ),
    Check(
        id="memlock",
        family="limits",
        places=HERE,
        severity="low",
        meaning="Little memory may be locked, and RDMA needs it.",
        look="the limit of process 1, RDMA devices",
        remedy=Remedy(
            "raise_memlock",
            "In the container's configuration 'lxc.prlimit.memlock: unlimited' (an unprivileged container cannot raise "
            "it itself); elsewhere LimitMEMLOCK=infinity in the unit.",
            host_action="raise the limit",
        ),
        find=_memlock,
        gpu=False,
    ),
    Check(
        id="nofile",
        family="limits",
        places=HERE,
        severity="low",
        meaning="Few files may be open at once.",
        look="the hard limit of process 1",
        remedy=Remedy("raise_nofile", "Raise it: 'lxc.prlimit.nofile: 524288', or LimitNOFILE in the unit."),
        find=_files,
        gpu=False,
    ),
    Check(
        id="arc",
        family="memory",
        places=HOST,
        severity="medium",
        meaning="The cache of ZFS may take most of the host's memory.",
        look="size and c_max in /proc/spl/kstat/zfs/arcstats against MemTotal",
        remedy=Remedy(
            "limit_arc",
            "Set zfs_arc_max ('options zfs zfs_arc_max={half}' in /etc/modprobe.d/zfs.conf, update-initramfs, reboot).",
            host_action="limit the ARC",
        ),
        find=_arc,
        gpu=False,
        cases=("openzfs/zfs#10255",),
    ),
    Check(
        id="shm",
        family="storage",
        places=HERE,
        severity="high",
        meaning="Shared memory is missing or full.",
        look="/dev/shm, and what NCCL and SGLang left in it",
        remedy=Remedy(
            "free_shm",
            "Remove what no process uses from /dev/shm (nccl-*, sglang*), or mount it larger. An application container "
            "of pve-container before 6.1.10 has none.",
            host_action="free /dev/shm",
        ),
        find=_shm,
        gpu=False,
        cases=("pytorch/torchtitan#853",),
    ),
    Check(
        id="disk",
        family="storage",
        places=EVERYWHERE,
        severity="high",
        meaning="A file system is full or read-only.",
        look="the file systems of the folders that are written",
        remedy=Remedy(
            "free_disk",
            "Make room there, or put TMPDIR, caches and state on the data volume.",
            host_action="make room",
        ),
        find=_disk,
        gpu=False,
    ),
    Check(
        id="model_access",
        family="storage",
        places=HERE,
        severity="high",
        meaning="Who runs the server cannot read the model.",
        look="the folder and its files, as that user",
        remedy=Remedy("open_model", "{cure}.", host_action="open the model to the service user"),
        find=_models,
        gpu=False,
        cases=("immich-app/immich#14438",),
    ),
    Check(
        id="apt_sources",
        family="network",
        places=(CONTAINER, BARE_METAL),
        severity="medium",
        meaning="A package source cannot be reached.",
        look="a request to each source of apt, where asked for",
        remedy=Remedy("reach_sources", "{cure}.", host_action="open the way to the package sources"),
        find=_sources,
        gpu=False,
        cases=("dryvist/ansible-proxmox-ai (port 80 blocked)",),
    ),
)
