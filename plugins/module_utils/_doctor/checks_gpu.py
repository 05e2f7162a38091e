# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Checks of the GPUs themselves: there, healthy, not wedged, used by nobody else, and able to talk to each other."""

from __future__ import annotations

from typing import Any

from .._remedy import Remedy
from .check import EVERYWHERE, HERE, HOST, Check, Result, View, fail, ok, skip, warn
from .facts import CONTAINER

BUSY_PERCENT = 90
FOREIGN_MIB = 256  # below that a client is no hindrance
HIDDEN_MIB = 512  # in use by nobody that can be seen


def chosen(view: View) -> list[dict[str, Any]]:
    """The GPUs that are meant: those asked for, else all."""
    gpus: list[dict[str, Any]] = view.need("gpus")
    wanted = view.ask.gpus
    if not wanted or "all" in wanted:
        return gpus
    return [gpu for gpu in gpus if any(_is(gpu, word) for word in wanted)]


def _is(gpu: dict[str, Any], word: str) -> bool:
    if word.isdigit() and len(word) < 4:
        return str(gpu["index"]) == word
    low = word.lower()
    return low in str(gpu["uuid"]).lower() or low in str(gpu["pci_bus_id"]).lower() or low in str(gpu["name"]).lower()


def _there(view: View) -> Result:
    gpus, wanted = view.need("gpus"), [word for word in view.ask.gpus if word != "all"]
    missing = [word for word in wanted if not any(_is(gpu, word) for gpu in gpus)]
    if view.place == CONTAINER and not gpus and not view.nvidia():
        return skip("no NVIDIA GPU and no driver is to be seen in this container; its node answers for GPUs")
    on_bus = [gpu for gpu in view.need("bus_gpus") if gpu["driver"] == "nvidia"]
    if missing:
        return fail(f"of the GPUs asked for, {', '.join(missing)} cannot be seen; there are {len(gpus)}")
    if view.place != CONTAINER and len(gpus) < len(on_bus):
        return fail(f"{len(on_bus)} cards are bound to the driver, but it shows {len(gpus)}")
    if not gpus:
        return skip("no GPU was asked for, and none is here")
    return ok(f"{len(gpus)} GPUs: " + ", ".join(sorted({str(gpu["name"]) for gpu in gpus})))


def _healthy(view: View) -> Result:
    gpus = chosen(view)
    if not gpus:
        return skip("no GPU is here")
    worst = [gpu for gpu in gpus if gpu["health"] == "unusable"]
    bad = worst or [gpu for gpu in gpus if gpu["health"] == "degraded"]
    told = "; ".join(f"GPU {gpu['index']}: {', '.join(gpu['health_reasons'])}" for gpu in bad)
    if worst:
        return fail(told)
    return warn(told) if bad else ok(f"{len(gpus)} GPUs are well")


def _wedged(view: View) -> Result:
    stuck = []
    for gpu in view.need("gpus"):
        busy = (gpu["utilization_percent"] or 0) >= BUSY_PERCENT
        if busy and gpu["clients_known"] and not gpu["clients"]:
            stuck.append(f"GPU {gpu['index']} is at {gpu['utilization_percent']} %")
    if stuck:
        return fail(", ".join(stuck) + ", and no process uses it")
    return ok("no GPU computes for nobody")


def _foreign(view: View) -> Result:
    mine = view.ask.vmid
    told = []
    for gpu in chosen(view):
        for client in gpu["clients"]:
            box = client["container"] or {}
            ours = box.get("vmid") == mine if mine is not None else (client["unit"] or "").startswith("sglang-")
            if ours or client["kind"] == "graphics" or (client["memory_mib"] or 0) < FOREIGN_MIB:
                continue
            where = (
                f"CT {box['vmid']}"
                if box.get("vmid")
                else f"{box['kind']} {box.get('id')}"
                if box
                else f"{client['unit'] or 'a process'} of the host"
            )
            told.append(
                f"GPU {gpu['index']}: {client['memory_mib']} MiB by PID {client['pid']} ({client['comm']}), {where}"
            )
    return warn("; ".join(told)) if told else ok("nobody else holds memory of these GPUs")


def _hidden(view: View) -> Result:
    told = []
    peers = {gpu["uuid"]: gpu for gpu in (view.peer.maybe("gpus", []) if view.peer else [])}
    for gpu in chosen(view):
        used = (gpu["memory_mib"] or {}).get("used")
        if used is None or used < HIDDEN_MIB or gpu["clients"]:
            continue
        behind = (peers.get(gpu["uuid"]) or {}).get("clients", [])
        if not behind:
            return warn(f"GPU {gpu['index']}: {used} MiB are in use, and this container sees by nobody")
        for client in behind:
            inside = client["ns_pid"][-1] if len(client["ns_pid"]) > 1 else None
            box = (client["container"] or {}).get("vmid")
            whose = f"CT {box}" + (f", PID {inside} there" if inside else "") if box else "the host"
            told.append(f"GPU {gpu['index']}: PID {client['pid']} of the node is of {whose} ({client['comm']})")
    return ok("; ".join(told) if told else "no memory is in use by somebody unseen")


def _iommu(view: View) -> Result:
    if len(chosen(view)) < 2:
        return skip("there is one GPU")
    types = view.need("iommu")
    translated = sorted(address for address, kind in types.items() if kind and kind.startswith("DMA"))
    if translated:
        return warn(
            f"the IOMMU translates for {', '.join(translated)}: peer-to-peer over PCIe may hang (not over NVLink)"
        )
    return ok("no address translation between the GPUs")


def _p2p(view: View) -> Result:
    found = view.need("p2p")
    if found["outcome"] == "ok":
        return ok(f"two ranks summed in {found['seconds']:.0f} s")
    if found["outcome"] == "hang":
        return fail(f"two ranks had not summed after {found['seconds']:.0f} s")
    return fail(f"two ranks could not sum: {found['said']}")


ROWS = (
    Check(
        id="gpu_present",
        family="gpu",
        places=EVERYWHERE,
        severity="high",
        meaning="A GPU that is meant to be used cannot be seen.",
        look="the driver's list against the GPUs asked for, and against the PCI bus",
        remedy=Remedy(
            "find_gpu",
            "Correct the list of GPUs, or look on the host: lspci for the card, the kernel log (NVRM) for why the "
            "driver leaves it out.",
        ),
        find=_there,
        gpu=False,
    ),
    Check(
        id="gpu_health",
        family="gpu",
        places=EVERYWHERE,
        severity="high",
        meaning="A GPU is sick.",
        look="its errors, the recovery action that it asks for, Xid events in the kernel log",
        remedy=Remedy(
            "recover_gpu",
            "Stop what uses the GPU and reset it on the host, or reboot the host; after Xid 79 switch its power off.",
            host_action="recover the GPU",
        ),
        find=_healthy,
        gpu=False,
    ),
    Check(
        id="gpu_wedged",
        family="gpu",
        places=HOST,
        severity="high",
        meaning="A GPU computes for nobody: what it ran was killed and it did not stop.",
        look="utilisation of 90 % and more without any client",
        remedy=Remedy(
            "reset_gpu",
            "Look again in a minute; if it stays, reset the GPU on the host or reboot the host. A container cannot.",
            host_action="reset the GPU",
        ),
        find=_wedged,
        cases=("local-inference-lab/rtx6kpro#15",),
    ),
    Check(
        id="gpu_foreign",
        family="gpu",
        places=HOST,
        severity="medium",
        meaning="Somebody else holds memory of a GPU that is meant to be used.",
        look="the driver's clients by container and unit, on the node",
        remedy=Remedy("stop_foreign", "Stop it, or leave that GPU to it; the server's memory would be unbalanced."),
        find=_foreign,
        gpu=False,
        cases=("sgl-project/sglang#1533",),
    ),
    Check(
        id="gpu_hidden",
        family="gpu",
        places=(CONTAINER,),
        severity="medium",
        meaning="Memory of a GPU is in use by a process that the container cannot see.",
        look="memory in use against the clients seen here and, by UUID, on the node",
        remedy=Remedy(
            "ask_node",
            "An empty list of processes in a container is no free GPU: look on the node (llmhost_gpu_node), which "
            "sees every client.",
        ),
        find=_hidden,
        gpu=False,
        cases=("canonical/lxd#9755", "NVIDIA/nvidia-docker#179"),
    ),
    Check(
        id="p2p_iommu",
        family="p2p",
        places=HOST,
        severity="low",
        meaning="The IOMMU translates addresses between the GPUs.",
        look="the type of each card's IOMMU group",
        remedy=Remedy(
            "iommu_pt",
            "If collective operations hang, boot with iommu=pt and turn ACS off in the firmware; the way round is "
            "NCCL_P2P_DISABLE=1 with --disable-custom-all-reduce. Do not on a host that gives PCI devices to VMs.",
            host_action="turn ACS off",
        ),
        find=_iommu,
        cases=("vllm-project/vllm#33041",),
    ),
    Check(
        id="p2p",
        family="p2p",
        places=HERE,
        severity="high",
        meaning="Two GPUs cannot exchange data.",
        look="an all_reduce of two ranks with a limit of 60 s, where asked for",
        remedy=Remedy(
            "p2p_off",
            "It is ACS or the IOMMU of the host (p2p_iommu). The way round: NCCL_P2P_DISABLE=1 in the environment and "
            "--disable-custom-all-reduce.",
            arguments={"disable_custom_all_reduce": True},
        ),
        find=_p2p,
        probe=True,
        cases=("vllm-project/vllm#14449",),
    ),
)
