# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a driver's error means and what to do: one row each, found by NVML's code or by nvidia-smi's words."""

from __future__ import annotations

from dataclasses import dataclass

from .._errors import LlmHostError


@dataclass(frozen=True)
class DriverError:
    """``codes``: NVML's (nvidia-smi exits with the same, cut to 255). ``texts``: parts of what nvidia-smi prints."""

    reason: str
    codes: tuple[int, ...]
    texts: tuple[str, ...]
    meaning: str
    cure: str
    one_gpu: bool = False  # concerns one GPU: the others can still be looked at
    nested_only: bool = False  # only in a container (another PID namespace than the first)


ERRORS: tuple[DriverError, ...] = (
    DriverError(
        "driver_not_loaded",
        (9,),
        ("couldn't communicate with the NVIDIA driver", "Driver Not Loaded", "driver is not loaded"),
        "the NVIDIA kernel module is not loaded",
        "load it ('modprobe nvidia'), on the host where this is a container; a new kernel needs the module built again",
    ),
    DriverError(
        "library_missing",
        (12,),
        ("couldn't find libnvidia-ml", "libnvidia-ml.so.1: cannot open"),
        "the driver's user space (libnvidia-ml.so.1) is not installed here",
        "install the user-space libraries of the very version of the loaded module (/proc/driver/nvidia/version)",
    ),
    DriverError(
        "version_mismatch",
        (18,),
        ("Driver/library version mismatch",),
        "the driver's library and its loaded kernel module have different versions; running jobs are not affected",
        "bring both to one version: in a container install the host's version, on a host reload the module or reboot; "
        "hold the packages back from unattended upgrades; stop nothing for it",
    ),
    DriverError(
        "blocked_by_os",
        (17,),
        ("operating system has blocked the request",),
        "the operating system or a control group keeps us from the device",
        "allow the device in the container (lxc.cgroup2.devices.allow) and pass it through",
    ),
    DriverError(
        "container_cut_off",
        (999,),
        ("Failed to initialize NVML: Unknown Error",),
        "this container lost its right to the GPU devices, as happens after a 'systemctl daemon-reload' on its host",
        "restart the container; its device rules must be in its own configuration",
        nested_only=True,
    ),
    DriverError(
        "gpu_lost",
        (15,),
        ("GPU is lost",),
        "the GPU fell off the bus (Xid 79)",
        "read the kernel log for its Xid, then power-cycle the host; the other GPUs go on",
        one_gpu=True,
    ),
    DriverError(
        "reset_required",
        (16,),
        ("GPU requires reset", "GPU requires restart"),
        "the GPU needs a reset before anything can run on it",
        "stop what uses it and reset it, or reboot the host; nothing here resets a GPU",
        one_gpu=True,
    ),
    DriverError(
        "not_permitted",
        (4,),
        ("Insufficient Permissions",),
        "the driver refuses this call to us; of a GPU in MIG mode only root may ask the whole",
        "run with become: true; with MIG, name the MIG devices",
        one_gpu=True,
    ),
    DriverError(
        "function_missing",
        (13,),
        ("Function Not Found",),
        "the driver is older than a call that was made",
        "nothing needs doing where an older call was used instead; else update the driver",
        one_gpu=True,
    ),
    DriverError(
        "no_gpu",
        (6,),
        ("No devices were found",),
        "the driver is there but shows no GPU",
        "look whether the card is on the bus (lspci) and, in a container, whether its devices are passed through",
    ),
    DriverError(
        "driver_error",
        (),
        ("Unable to determine the device handle", "Unknown Error"),
        "the driver answered with an error that says no more",
        "read the kernel log (NVRM, Xid)",
        one_gpu=True,
    ),
)
UNKNOWN = ERRORS[-1]


def by_code(code: int, nested: bool = True) -> DriverError:
    """The row of an NVML code; ``UNKNOWN`` where there is none."""
    return next((row for row in ERRORS if code in row.codes and (nested or not row.nested_only)), UNKNOWN)


def by_text(text: str, nested: bool = True) -> DriverError | None:
    """The row whose words are in the text; None where no row knows it."""
    return next(
        (row for row in ERRORS if (nested or not row.nested_only) and any(part in text for part in row.texts)), None
    )


def raised(row: DriverError, said: str) -> LlmHostError:
    """The failure for a row: what it means, what was said, what to do."""
    text = f"{row.meaning} (the driver said: {said.strip() or 'nothing'})"
    return LlmHostError(row.reason, f"{text}. {row.cure[0].upper()}{row.cure[1:]}", driver_said=said.strip())
