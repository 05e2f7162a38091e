# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The back end over nvidia-smi: its XML for a whole look, its CSV for memory alone.

Its output is not promised to stay, so only a few fields are read and each may be absent. A word where a number
should be (``N/A``, ``Insufficient Permissions``, ``ERR!``) is "not known". A row that is missing is an error and no
idle GPU.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import Callable
from xml.etree import ElementTree

from .._errors import LlmHostError
from . import errors
from .model import (
    COMPUTE,
    GRAPHICS,
    MPS,
    NO_OWN_MEMORY,
    RECOVERY,
    Entry,
    Gpu,
    Memory,
    MigDevice,
    Snapshot,
    memory,
    merged,
)

Run = Callable[[list[str]], tuple[int, str, str]]  # arguments of nvidia-smi -> exit code, stdout, stderr

PROGRAM = "nvidia-smi"
PLACES = ("/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/opt/bin")
_DENIED = re.compile(r"insufficient permissions|permission", re.I)
_ABSENT = re.compile(r"n/a|not supported|not found", re.I)
MAX_GPUS = 64


def program() -> str | None:
    """Where nvidia-smi is; become may have a shorter PATH than the shell."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path=":".join(PLACES))


def number(text: str | None) -> int | None:
    """``30004 MiB`` -> 30004; a word is None."""
    found = re.match(r"\s*(\d+)(?:\.\d+)?\s*(?:MiB|%|W|C)?\s*$", text or "")
    return int(found.group(1)) if found else None


def _text(node: ElementTree.Element | None, path: str) -> str | None:
    found = node.find(path) if node is not None else None
    return found.text.strip() if found is not None and found.text and found.text.strip() else None


def _flag(text: str | None) -> bool | None:
    return {"enabled": True, "yes": True, "disabled": False, "no": False}.get((text or "").lower())


def _memory(node: ElementTree.Element | None) -> Memory:
    words = [_text(node, "fb_memory_usage/" + key) for key in ("total", "used", "free", "reserved")]
    total, used, free, reserved = (number(word) for word in words)
    note = ""
    if total is None:
        word = words[0] or ""
        note = (
            "the driver refuses it to us (Insufficient Permissions)"
            if _DENIED.search(word)
            else NO_OWN_MEMORY
            if _ABSENT.search(word)
            else f"the driver says '{word or 'nothing'}'"
        )
    return memory(total, used, free, reserved, note)


def _recovery(node: ElementTree.Element) -> str | None:
    word = _text(node, "gpu_recovery_action")
    if word and not _ABSENT.search(word):
        key = re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_")
        key = {"gpu_reset": "reset", "node_reboot": "reboot"}.get(key, key)
        return key if key in RECOVERY else f"unknown ({word})"
    status = node.find("gpu_reset_status")
    if status is None:
        return None
    if _flag(_text(status, "reset_required")):
        return "reset"
    if _flag(_text(status, "drain_and_reset_recommended")):
        return "drain_and_reset"
    return "none" if _text(status, "reset_required") else None


def _kinds(word: str) -> tuple[str, ...]:
    parts = set(re.split(r"[^A-Z]+", word.upper()))
    kinds = tuple(kind for letter, kind in (("M", MPS), ("C", COMPUTE), ("G", GRAPHICS)) if letter in parts)
    return kinds or (COMPUTE,)  # a kind that we do not know is none that may be overlooked


def _entries(node: ElementTree.Element) -> tuple[Entry, ...] | None:
    processes = node.find("processes")
    if processes is None:
        return None
    if not len(processes) and (processes.text or "").strip():  # a word instead of a list
        return () if (processes.text or "").strip().lower() == "none" else None
    found = []
    for info in processes.findall("process_info"):
        word = _text(info, "pid") or ""
        if not re.fullmatch(r"\d{1,10}", word):
            raise LlmHostError(
                "parse_error",
                f"nvidia-smi gave '{word or 'nothing'}' where a PID belongs: its answer is not used",
                token=word,
            )
        instance = number(_text(info, "gpu_instance_id"))
        found.append(Entry(int(word), _kinds(_text(info, "type") or ""), number(_text(info, "used_memory")), instance))
    return merged(found)


def _mig_devices(node: ElementTree.Element, uuids: dict[int, tuple[str, str]]) -> tuple[MigDevice, ...]:
    found = []
    for device in node.findall("mig_devices/mig_device"):
        index = number(_text(device, "index"))
        if index is None:
            continue
        uuid, profile = uuids.get(index, (None, None))
        found.append(
            MigDevice(
                index=index,
                uuid=_text(device, "uuid") or uuid,
                gpu_instance=number(_text(device, "gpu_instance_id")),
                compute_instance=number(_text(device, "compute_instance_id")),
                memory=_memory(device),
                profile=profile,
            )
        )
    return tuple(found)


def parse_list(text: str) -> tuple[list[str], dict[str, dict[int, tuple[str, str]]]]:
    """``nvidia-smi -L`` -> UUIDs in order, and for each GPU its MIG devices: index -> (UUID, profile)."""
    order: list[str] = []
    migs: dict[str, dict[int, tuple[str, str]]] = {}
    for line in text.splitlines():
        gpu = re.match(r"GPU \d+: .*\(UUID: (GPU-[0-9a-fA-F-]+)\)\s*$", line)
        mig = re.match(r"\s+MIG\s+(\S.*?)\s+Device\s+(\d+): \(UUID: (MIG-[0-9A-Za-z/-]+)\)\s*$", line)
        if gpu:
            order.append(gpu.group(1))
            migs[gpu.group(1)] = {}
        elif mig and order:
            migs[order[-1]][int(mig.group(2))] = (mig.group(3), mig.group(1))
    return order, migs


def parse(text: str, migs: dict[str, dict[int, tuple[str, str]]] | None = None, first: int = 0) -> Snapshot:
    """The XML of ``nvidia-smi -q -x``; indexes count from ``first``, the tool lists in the order of its indexes."""
    start = text.find("<?xml")
    try:
        root = ElementTree.fromstring(text[max(start, 0) :])
    except ElementTree.ParseError as error:
        raise LlmHostError(
            "parse_error", f"nvidia-smi -q -x gave no XML: {error}; it began with {text[:80]!r}"
        ) from None
    gpus = []
    for offset, node in enumerate(root.findall("gpu")):
        uuid = _text(node, "uuid")
        mode = _text(node, "addressing_mode")
        gpus.append(
            Gpu(
                index=first + offset,
                uuid=uuid if uuid and uuid.startswith("GPU-") else None,
                name=_text(node, "product_name"),
                pci_bus_id=_text(node, "pci/pci_bus_id") or node.get("id"),
                minor=number(_text(node, "minor_number")),
                memory=_memory(node),
                entries=_entries(node),
                utilization=number(_text(node, "utilization/gpu_util")),
                memory_utilization=number(_text(node, "utilization/memory_util")),
                persistence=_flag(_text(node, "persistence_mode")),
                ecc=_flag(_text(node, "ecc_mode/current_ecc")),
                display_active=_flag(_text(node, "display_active")),
                mig_mode=_flag(_text(node, "mig_mode/current_mig")),
                mig_devices=_mig_devices(node, (migs or {}).get(uuid or "", {})),
                addressing_mode=mode.lower() if mode and not _ABSENT.search(mode) else None,
                recovery_action=_recovery(node),
            )
        )
    return Snapshot(
        source="smi",
        source_note="",
        driver_version=_text(root, "driver_version"),
        cuda_version=_text(root, "cuda_version"),
        gpus=tuple(gpus),
    )


def _failure(code: int, out: str, err: str, nested: bool) -> LlmHostError:
    said = (out.strip() or err.strip())[:400]
    row = errors.by_text(out + err, nested) or errors.by_code(code if code != 255 else 999, nested)
    return errors.raised(row, said or f"exit code {code}")


def look(run: Run, nested: bool = False) -> Snapshot:
    """One look at all GPUs. Where the tool stops at one that is lost, the others are asked one by one."""
    code, out, err = run(["-q", "-x"])
    if code == 0:
        found = parse(out)
        attached = re.search(r"<attached_gpus>(\d+)</attached_gpus>", out)
        if attached and int(attached.group(1)) == len(found.gpus):
            return _with_migs(found, run)
    else:
        row = errors.by_text(out + err, nested)
        if row is None or not row.one_gpu or "Failed to initialize" in out + err:
            raise _failure(code, out, err, nested)
    return _with_migs(_one_by_one(run, nested), run)


def _one_by_one(run: Run, nested: bool) -> Snapshot:
    gpus: list[Gpu] = []
    frame: Snapshot | None = None
    for index in range(MAX_GPUS):
        code, out, err = run(["-q", "-x", "-i", str(index)])
        if code == 0:
            seen = parse(out, first=index)
            if seen.gpus:
                frame = seen
                gpus.extend(seen.gpus[:1])
                continue
            out = ""  # a frame without a GPU: what is wrong is told beside it
        row = errors.by_text(out + err, nested)
        if row is None or not row.one_gpu:
            if (row is not None and row.reason == "no_gpu") and index:
                break
            raise _failure(code, out, err, nested)
        said = (out.strip() or err.strip())[:400]
        bus = re.search(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])", said)
        gpus.append(
            Gpu(
                index=index,
                uuid=None,
                pci_bus_id=bus.group(1) if bus else None,
                memory=Memory(note=row.meaning),
                entries=None,
                errors=({"call": "nvidia-smi", "reason": row.reason, "message": f"{row.meaning}: {said}"},),
            )
        )
    if frame is None:
        return Snapshot("smi", "", None, None, tuple(gpus))  # not one of them answers
    return Snapshot("smi", "", frame.driver_version, frame.cuda_version, tuple(gpus))


def _with_migs(found: Snapshot, run: Run) -> Snapshot:
    """UUIDs of MIG devices are in ``-L`` alone."""
    if not any(gpu.mig_devices for gpu in found.gpus):
        return found
    code, out, _err = run(["-L"])
    if code:
        return found
    _order, migs = parse_list(out)
    gpus = []
    for gpu in found.gpus:
        names = migs.get(gpu.uuid or "", {})
        devices = tuple(
            replace(
                device,
                uuid=device.uuid or names.get(device.index, (None, None))[0],
                profile=names.get(device.index, (None, None))[1],
            )
            for device in gpu.mig_devices
        )
        gpus.append(replace(gpu, mig_devices=devices))
    return replace(found, gpus=tuple(gpus))


def capabilities(run: Run, uuids: list[str]) -> dict[str, str]:
    """UUID -> compute capability; empty where the tool does not know the field."""
    if not uuids:
        return {}
    fields = ["--query-gpu=uuid,compute_cap", "--format=csv,noheader,nounits", "-i", ",".join(uuids)]
    code, out, _err = run(fields)
    rows = ([cell.strip() for cell in line.split(",")] for line in out.splitlines()) if code == 0 else ()
    return {row[0]: row[1] for row in rows if len(row) == 2 and re.fullmatch(r"\d+\.\d+", row[1])}


def used_memory(run: Run, uuids: list[str], nested: bool = False) -> dict[str, Memory]:
    """Memory of GPUs by UUID, cheaply. Each UUID that was asked for is in the answer, or it is an error."""
    if not uuids:  # an empty list would mean none of them, and fail
        return {}
    fields = "uuid,memory.total,memory.used,memory.free,memory.reserved"
    code, out, err = run([f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-i", ",".join(uuids)])
    if code == 2 and "memory.reserved" in out + err:  # an older driver
        code, out, err = run(
            [
                "--query-gpu=uuid,memory.total,memory.used,memory.free",
                "--format=csv,noheader,nounits",
                "-i",
                ",".join(uuids),
            ]
        )
    if code:
        raise _failure(code, out, err, nested)
    found = {}
    for line in out.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) >= 4 and cells[0] in uuids:
            total, used, free = (number(cell) for cell in cells[1:4])
            found[cells[0]] = memory(total, used, free, number(cells[4]) if len(cells) > 4 else None)
    missing = [uuid for uuid in uuids if uuid not in found]
    if missing:
        raise LlmHostError(
            "gpu_missing",
            f"nvidia-smi gave no row for {', '.join(missing)}: a missing row is no idle GPU",
            missing=missing,
        )
    return found
