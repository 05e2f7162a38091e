# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The back end over nvidia-ml-py. Everything here runs in a child process with a deadline (``query.py``).

Several distributions install a module called ``pynvml``; only nvidia-ml-py itself, and only from the version on
whose process entries fit all drivers, is used.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
from typing import Any, Callable

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
    version_tuple,
)

DISTRIBUTION = "nvidia-ml-py"
OLDEST = (12, 535, 108)
SHADOWS = ("nvidia-ml-py3", "py3nvml")  # others that install or copy the same module
RECOVERY_FIELD = 230
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND = 3, 4, 6, 13


def refusal() -> str | None:
    """Why nvidia-ml-py is not used; None where it can be."""
    try:
        found = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return f"{DISTRIBUTION} is not installed for this Python"
    version = found.version
    if version_tuple(version) < OLDEST:
        return f"{DISTRIBUTION} {version} is older than {'.'.join(map(str, OLDEST))}"
    for name in SHADOWS:
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return f"{name} is installed beside {DISTRIBUTION} and may have replaced its module"
    spec = importlib.util.find_spec("pynvml")
    own = [str(found.locate_file(path)) for path in (found.files or ()) if str(path) == "pynvml.py"]
    if spec is None or not spec.origin or not own:
        return f"{DISTRIBUTION} {version} has no module pynvml"
    if os.path.realpath(spec.origin) != os.path.realpath(own[0]):
        return f"'import pynvml' gives {spec.origin}, which is not that of {DISTRIBUTION}"
    return None


class Nvml:
    """One started NVML in this process."""

    def __init__(self, nested: bool) -> None:
        self._n: Any = importlib.import_module("pynvml")
        self._nested = nested
        self._calls: dict[str, int] = {}
        try:
            self._n.nvmlInit()
        except self._n.NVMLError as error:
            raise self._failure(error) from None
        if self._early_layout():
            raise LlmHostError(
                "struct_mismatch",
                "this driver's library is an early R535, whose process entries have another layout than nvidia-ml-py "
                "reads: update the driver, or use source: smi",
            )

    def start(self) -> None:
        """It is started already, or its constructor said why not."""

    def _failure(self, error: Any) -> LlmHostError:
        return errors.raised(errors.by_code(error.value, self._nested), str(error))

    def _early_layout(self) -> bool:
        """The first R535 libraries gave 32 bytes an entry without saying so; told by the symbols that they have."""
        lookup = getattr(self._n, "_nvmlGetFunctionPointer", None)
        if lookup is None:
            return False

        def has(name: str) -> bool:
            try:
                lookup(name)
            except Exception:  # the binding raises several classes for a missing symbol
                return False
            return True

        return (
            has("nvmlDeviceGetComputeRunningProcesses_v3")
            and has("nvmlDeviceGetConfComputeMemSizeInfo")
            and not has("nvmlDeviceGetRunningProcessDetailList")
        )

    def _try(self, problems: list[dict[str, Any]], name: str, *arguments: Any) -> Any:
        """A call whose failure concerns one value of one GPU: None, and the problem noted where it says something."""
        try:
            return getattr(self._n, name)(*arguments)
        except (AttributeError, self._n.NVMLError) as error:
            code = getattr(error, "value", FUNCTION_NOT_FOUND)
            if code not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND, NOT_FOUND):
                row = errors.by_code(code, self._nested)
                problems.append({"call": name, "reason": row.reason, "message": f"{row.meaning} ({name}: {error})"})
            return None
        except Exception as error:  # NVMLLibraryMismatchError is no NVMLError
            problems.append({"call": name, "reason": "function_missing", "message": f"{name}: {error}"})
            return None

    def _system(self, name: str) -> Any:
        try:
            return getattr(self._n, name)()
        except self._n.NVMLError:
            return None

    def look(self) -> Snapshot:
        n = self._n
        try:
            count = n.nvmlDeviceGetCount()
        except n.NVMLError as error:
            raise self._failure(error) from None
        if not count:
            raise errors.raised(errors.by_code(6), "0 devices")
        cuda = self._system("nvmlSystemGetCudaDriverVersion")
        return Snapshot(
            source="nvml",
            source_note="",
            driver_version=_word(self._system("nvmlSystemGetDriverVersion")),
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
            gpus=tuple(self._gpu(index) for index in range(count)),
        )

    def _gpu(self, index: int) -> Gpu:
        problems: list[dict[str, Any]] = []
        handle = self._try(problems, "nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            return Gpu(index, None, memory=Memory(note="no handle"), entries=None, errors=tuple(problems))

        def ask(name: str, *arguments: Any) -> Any:
            return self._try(problems, name, handle, *arguments)

        uuid = _word(ask("nvmlDeviceGetUUID"))
        pci = ask("nvmlDeviceGetPciInfo")
        use = ask("nvmlDeviceGetUtilizationRates")
        capability = ask("nvmlDeviceGetCudaComputeCapability")
        ecc = ask("nvmlDeviceGetEccMode")
        mig = ask("nvmlDeviceGetMigMode")
        display = ask("nvmlDeviceGetDisplayActive")
        persistence = ask("nvmlDeviceGetPersistenceMode")
        addressing = ask("nvmlDeviceGetAddressingMode")
        mig_mode = None if mig is None else bool(mig[0])
        devices = self._migs(handle, problems) if mig_mode else []
        entries = self._entries(handle, problems)
        if entries is None and devices:  # the whole is not ours to ask, its parts are
            parts = [self._entries(part, problems) for _device, part in devices]
            known = [entry for part in parts if part is not None for entry in part]
            entries = merged(known) if all(part is not None for part in parts) else None
        return Gpu(
            index=index,
            uuid=uuid,
            name=_word(ask("nvmlDeviceGetName")),
            pci_bus_id=_word(pci.busId) if pci is not None else None,
            minor=ask("nvmlDeviceGetMinorNumber"),
            memory=self._memory(handle, problems),
            entries=entries,
            utilization=int(use.gpu) if use is not None else None,
            memory_utilization=int(use.memory) if use is not None else None,
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
            persistence=None if persistence is None else bool(persistence),
            ecc=None if ecc is None else bool(ecc[0]),
            display_active=None if display is None else bool(display),
            mig_mode=mig_mode,
            mig_devices=tuple(device for device, _part in devices),
            addressing_mode={0: "none", 1: "hmm", 2: "ats"}.get(addressing) if addressing is not None else None,
            memory_numa_node=_small(ask("nvmlDeviceGetNumaNodeId")),
            recovery_action=self._recovery(handle, problems),
            errors=tuple(problems),
        )

    def _memory(self, handle: Any, problems: list[dict[str, Any]]) -> Memory:
        n = self._n
        try:
            try:
                found = n.nvmlDeviceGetMemoryInfo(handle, n.nvmlMemory_v2)
                reserved = int(found.reserved) >> 20
                return memory(int(found.total) >> 20, int(found.used) >> 20, int(found.free) >> 20, reserved)
            except n.NVMLError as error:
                if error.value != FUNCTION_NOT_FOUND:
                    raise
                found = n.nvmlDeviceGetMemoryInfo(handle)
                return memory(int(found.total) >> 20, int(found.used) >> 20, int(found.free) >> 20, None)
        except n.NVMLError as error:
            if error.value == NOT_SUPPORTED:
                return Memory(note=NO_OWN_MEMORY)
            row = errors.by_code(error.value, self._nested)
            if error.value != NO_PERMISSION:
                problems.append({"call": "memory", "reason": row.reason, "message": f"{row.meaning} ({error})"})
            return Memory(note=f"the driver refuses it: {error}")

    def _entries(self, handle: Any, problems: list[dict[str, Any]]) -> tuple[Entry, ...] | None:
        n = self._n
        lists = (
            (COMPUTE, "nvmlDeviceGetComputeRunningProcesses"),
            (GRAPHICS, "nvmlDeviceGetGraphicsRunningProcesses"),
            (MPS, "nvmlDeviceGetMPSComputeRunningProcesses"),
        )
        found: list[Entry] = []
        for kind, name in lists:
            listed: Any = None
            for version in ("", "_v2", ""):
                call: Callable[[Any], Any] | None = getattr(n, name + version, None)
                if call is None:
                    continue
                try:
                    listed = call(handle)
                    break
                except n.NVMLError as error:
                    if error.value == FUNCTION_NOT_FOUND:
                        continue
                    if kind != COMPUTE and error.value == NOT_SUPPORTED:
                        listed = []
                        break
                    row = errors.by_code(error.value, self._nested)
                    if error.value != NO_PERMISSION:
                        problems.append({"call": name, "reason": row.reason, "message": f"{row.meaning} ({error})"})
                    return None
                except Exception:  # the binding's own class for a missing symbol is no NVMLError
                    continue
            if listed is None:
                if kind == MPS:  # drivers before R460 have no such list
                    continue
                problems.append(
                    {"call": name, "reason": "function_missing", "message": f"{name} is not in this driver"}
                )
                return None
            for one in listed:
                size = getattr(one, "usedGpuMemory", None)
                instance = getattr(one, "gpuInstanceId", None)
                found.append(
                    Entry(
                        int(one.pid),
                        (kind,),
                        None if size is None else int(size) >> 20,
                        None if instance is None or int(instance) >= 0xFFFFFFFF else int(instance),
                    )
                )
        return merged(found)

    def _migs(self, handle: Any, problems: list[dict[str, Any]]) -> list[tuple[MigDevice, Any]]:
        found = []
        for index in range(self._try(problems, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            part = self._try(problems, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            if part is None:
                continue
            name = _word(self._try(problems, "nvmlDeviceGetName", part)) or ""
            device = MigDevice(
                index=index,
                uuid=_word(self._try(problems, "nvmlDeviceGetUUID", part)),
                gpu_instance=self._try(problems, "nvmlDeviceGetGpuInstanceId", part),
                compute_instance=self._try(problems, "nvmlDeviceGetComputeInstanceId", part),
                memory=self._memory(part, problems),
                profile=name.rsplit("MIG ", 1)[1] if "MIG " in name else None,
            )
            found.append((device, part))
        return found

    def _recovery(self, handle: Any, problems: list[dict[str, Any]]) -> str | None:
        values = self._try(problems, "nvmlDeviceGetFieldValues", handle, [RECOVERY_FIELD])
        if not values or values[0].nvmlReturn != 0:
            return None
        action = int(values[0].value.uiVal)
        return RECOVERY[action] if action < len(RECOVERY) else f"unknown ({action})"

    def used_memory(self, uuids: list[str]) -> dict[str, Memory]:
        """Memory of GPUs (or MIG devices) by UUID; any failure is raised."""
        found = {}
        for uuid in uuids:
            problems: list[dict[str, Any]] = []
            try:
                handle = self._n.nvmlDeviceGetHandleByUUID(uuid)
            except self._n.NVMLError as error:
                raise self._failure(error) from None
            found[uuid] = self._memory(handle, problems)
            if problems:
                raise LlmHostError(problems[0]["reason"], f"{uuid}: {problems[0]['message']}")
        return found


def _word(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _small(value: Any) -> int | None:
    return int(value) if value is not None and 0 <= int(value) < 4096 else None
