# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The sandbox of the unit as a table: what is set, what is not, and why. It works in an unprivileged container."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One directive of systemd; ``value`` is ``None`` where it is left out on purpose."""

    directive: str
    value: str | None
    reason: str
    root_too: bool = True  # also where the service runs as root


HARDENING = (
    Setting(
        "NoNewPrivileges",
        "yes",
        "Nothing in SGLang needs setuid. CUDA would call nvidia-modprobe, which is setuid, to make device nodes that "
        "are missing: with this it cannot, so they must be there before the start (nvidia-persistenced, or the "
        "container's own entries; ExecStartPre waits for them)",
    ),
    Setting(
        "CapabilityBoundingSet",
        "",
        "A service user needs no capability",
        root_too=False,
    ),
    Setting("ProtectSystem", "full", "/usr, /boot and /etc are not its to write; models are only read"),
    Setting("ProtectHome", "read-only", "Models may lie in a home folder, but nothing is written there"),
    Setting("ProtectKernelTunables", "yes", "It reads /proc/sys and never writes it"),
    Setting("ProtectKernelModules", "yes", "It loads no modules"),
    Setting("ProtectKernelLogs", "yes", "It has no business in the kernel's ring buffer"),
    Setting("ProtectControlGroups", "yes", "It makes no cgroups; systemd does"),
    Setting("RestrictSUIDSGID", "yes", "It makes no setuid files"),
    Setting("RestrictNamespaces", "yes", "It makes no namespaces"),
    Setting("LockPersonality", "yes", "It never changes its execution domain"),
    Setting("UMask", "0027", "Caches and dumps are nobody else's to read"),
    Setting("PrivateDevices", None, "Hides /dev/nvidia*"),
    Setting(
        "ProtectClock",
        None,
        "Adds a DeviceAllow=, which makes the device list an allow-list and shuts out the GPUs",
    ),
    Setting("DevicePolicy", None, "The same; the container's own device list decides"),
    Setting("PrivateTmp", None, "Sockets, locks and crash dumps in /tmp are shared with tools that look from outside"),
    Setting("PrivateIPC", None, "Ranks share memory through /dev/shm"),
    Setting("MemoryDenyWriteExecute", None, "Triton, inductor and DeepGEMM compile at run time"),
    Setting("RestrictAddressFamilies", None, "InfiniBand and RDMA use families of their own"),
    Setting("SystemCallFilter", None, "CUDA's calls differ by driver; a wrong list kills the server in the field"),
    Setting("RestrictRealtime", None, "Communication libraries may ask for a real-time thread"),
    Setting("ProtectProc", None, "NVML and psutil look at other processes of the GPU"),
    Setting("ProtectHostname", None, "Needs a UTS namespace, which an unprivileged container may refuse"),
)


def directives(user: str) -> list[tuple[str, str]]:
    """The directives that are set for a service user, in the order of the table."""
    root = user in ("root", "0")
    return [(row.directive, row.value) for row in HARDENING if row.value is not None and (row.root_too or not root)]
