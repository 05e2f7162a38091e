# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Why memory did not come back: what is still there when the time is over -> a reason, in words, with what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError
from .host import Host
from .model import COMPUTE, Snapshot
from .plan import Candidate, Plan

FALLING_S = 15.0  # memory that fell within this time is still being released


@dataclass(frozen=True)
class Evidence:
    seconds: float
    running: list[Candidate]  # targets that did not end
    listed: list[int]  # targets that the driver still lists
    over_mib: dict[str, int]  # UUID -> what is used above the baseline
    history: dict[str, list[tuple[float, int]]]
    plan: Plan
    nested: bool
    snapshot: Snapshot | None
    slack_mib: int


def diagnose(evidence: Evidence, host: Host) -> LlmHostError:
    """The first diagnosis that fits, from the surest to the vaguest."""
    for finder in (_unkillable, _zombie, _peer, _releasing, _invisible, _leaked):
        found = finder(evidence, host)
        if found is not None:
            return found
    return LlmHostError(
        "above_baseline",
        f"after {evidence.seconds:.0f} s {_over(evidence)} above the baseline, held by no process that the driver "
        "lists, "
        "and not what was stopped here. It may be memory that a process outside these lists maps (CUDA IPC), or a "
        "leak of "
        "the driver: look at 'holders', then reset the GPU or reboot the host",
        holders=_holders(evidence, host),
    )


def _over(evidence: Evidence) -> str:
    return ", ".join(f"{size} MiB of {uuid} are" for uuid, size in sorted(evidence.over_mib.items())) or "0 MiB are"


def _unkillable(evidence: Evidence, host: Host) -> LlmHostError | None:
    if not evidence.running:
        return None
    stuck: list[dict[str, Any]] = []
    for candidate in evidence.running:
        pid = candidate.process.pid
        try:
            state = host.read(pid).state
        except OSError:
            state = "?"
        stuck.append(
            {"pid": pid, "comm": candidate.process.comm, "state": state, "wait_channel": host.wait_channel(pid)}
        )
    first = stuck[0]
    return LlmHostError(
        "unkillable",
        f"PID {first['pid']} ({first['comm']}) still runs {evidence.seconds:.0f} s after SIGKILL, in state "
        f"{first['state']} at "
        f"{first['wait_channel'] or 'an unknown place'} of the kernel: it is stuck in the driver. No second signal "
        "was sent; "
        "it ends by itself or the host must be rebooted",
        stuck=stuck,
    )


def _zombie(evidence: Evidence, host: Host) -> LlmHostError | None:
    zombies = dict(evidence.plan.zombies)
    if not zombies or not (evidence.over_mib or evidence.listed):
        return None
    first = next(iter(zombies.values())).process
    try:
        parent = host.read(first.ppid)
        name = f"PID {parent.pid} ({parent.comm}, unit {parent.unit})"
    except OSError:
        name = f"PID {first.ppid}"
    return LlmHostError(
        "zombie_parent",
        f"PID {first.pid} ({first.comm}) is dead, but its parent {name} does not reap it. Stop the parent, through "
        "its unit "
        "where it has one; PID 1 of a container without init never reaps",
        parent=name,
    )


def _peer(evidence: Evidence, host: Host) -> LlmHostError | None:
    """Another client that grew while ours died: it maps their memory."""
    peers = []
    for gpu in evidence.snapshot.gpus if evidence.snapshot else ():
        for entry in gpu.entries or ():
            candidate = evidence.plan.tolerated.get(entry.pid)
            if COMPUTE not in entry.kinds or candidate is None or entry.memory_mib is None:
                continue
            before = candidate.memory.get(gpu.uuid or "")
            if before is not None and entry.memory_mib - before > evidence.slack_mib:
                peers.append(
                    {
                        "pid": entry.pid,
                        "comm": candidate.process.comm,
                        "gpu": gpu.uuid,
                        "before_mib": before,
                        "memory_mib": entry.memory_mib,
                    }
                )
    if not peers or not evidence.over_mib:
        return None
    first = peers[0]
    return LlmHostError(
        "ipc_peer",
        f"PID {first['pid']} ({first['comm']}) went from {first['before_mib']} to {first['memory_mib']} MiB while the "
        "others ended: "
        "it maps their memory (CUDA IPC), which comes back when it ends. Stop its service",
        peers=peers,
    )


def _releasing(evidence: Evidence, host: Host) -> LlmHostError | None:
    """Memory of what was stopped here, or memory that still falls."""
    if not evidence.over_mib:
        return None
    ours = True
    for uuid, over in evidence.over_mib.items():
        held = [c.memory[uuid] for c in evidence.plan.targets.values() if uuid in c.memory]
        known = sum(size for size in held if size is not None)
        ours = ours and bool(held) and (None in held or over <= known + evidence.slack_mib)
    falling = any(_falls(evidence.history.get(uuid, []), evidence.slack_mib) for uuid in evidence.over_mib)
    if not ours and not falling:
        return None
    return LlmHostError(
        "pinned_teardown",
        f"after {evidence.seconds:.0f} s {_over(evidence)} above the baseline with no listed process: still "
        "releasing. The driver "
        "unpins host memory for a while after a process has ended; raise timeout_s, or run again",
        falling=falling,
    )


def _falls(samples: list[tuple[float, int]], slack_mib: int) -> bool:
    if not samples:
        return False
    end = samples[-1][0]
    recent = [used for at, used in samples if at >= end - FALLING_S]
    return recent[0] - recent[-1] > slack_mib


def _invisible(evidence: Evidence, host: Host) -> LlmHostError | None:
    if not evidence.nested or not evidence.over_mib:
        return None
    return LlmHostError(
        "pid_invisible",
        f"after {evidence.seconds:.0f} s {_over(evidence)} above the baseline, and this is a container (another PID "
        "namespace), "
        "which does not see every client. Run the task on the host that owns the GPUs (delegate_to, with 'vmid')",
    )


def _leaked(evidence: Evidence, host: Host) -> LlmHostError | None:
    ghosts = [item["pid"] for item in evidence.plan.gone] + list(evidence.listed)
    if not ghosts:
        return None
    return LlmHostError(
        "leaked_context",
        f"the driver lists PID {ghosts[0]}, but no such process runs on this host, and after {evidence.seconds:.0f} s "
        f"{_over(evidence)} above the baseline: its context leaked in the driver. Reset the GPU, or reboot the host",
        pids=ghosts,
    )


def _holders(evidence: Evidence, host: Host) -> list[dict[str, Any]]:
    """Who has the device open without being listed; an open file alone proves no use."""
    gpus = evidence.snapshot.gpus if evidence.snapshot else ()
    files = [f"/dev/nvidia{gpu.minor}" for gpu in gpus if gpu.uuid in evidence.over_mib and gpu.minor is not None]
    found = []
    for pid in host.pids():
        if pid in evidence.plan.tolerated or not host.holds(pid, files):
            continue
        try:
            found.append(host.read(pid).as_dict())
        except OSError:
            continue
    return found[:20]
