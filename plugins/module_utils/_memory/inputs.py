# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""From what a module is given (plain data, files) to a ``Problem``. Every fault of the input is named here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._errors import LlmHostError
from . import calibration, geometry, model_files, versions
from .arguments import canonical
from .coverage import DEVICES
from .geometry import Geometry
from .headers import Tensor
from .problem import Gpu, Problem


def problem(
    params: Mapping[str, Any], environment: Mapping[str, str], host_available_gib: float | None = None
) -> Problem:
    """The question that these parameters of ``memory_plan_info`` ask."""
    version = versions.parse(params["sglang_version"])
    cache = params.get("cache_path") or model_files.default_cache(environment)
    arguments = _without_own_draft(params, canonical(params.get("args") or {}))
    gpus = _gpus(params)
    device = _device(params, arguments, gpus)
    shape, tensors = _model(params, arguments, cache)
    draft, draft_tensors = _draft(params, arguments, cache)
    document = params.get("calibration")
    return Problem(
        geometry=shape,
        arguments=arguments,
        version=version,
        gpus=gpus or (() if device in DEVICES else (Gpu(0, device, 1),)),
        tensors=tensors,
        draft=draft,
        draft_tensors=draft_tensors,
        device=device,
        wanted_context=params.get("wanted_context"),
        wanted_requests=params.get("wanted_requests"),
        calibration=calibration.from_dict(document) if document else None,
        host_available_gib=host_available_gib,
    )


def _without_own_draft(params: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """A draft path that is the model's own means the next-token layers in it."""
    own_path = params.get("model_path") or arguments.get("model_path")
    if own_path and arguments.get("speculative_draft_model_path") == own_path:
        del arguments["speculative_draft_model_path"]
    return arguments


def _device(params: Mapping[str, Any], arguments: Mapping[str, Any], gpus: Sequence[Gpu]) -> str:
    device = str(params.get("device") or arguments.get("device") or "cuda")
    if device == "cuda" and any("MI3" in gpu.name.upper() or "INSTINCT" in gpu.name.upper() for gpu in gpus):
        device = "rocm"
    if device in DEVICES and not gpus:
        raise LlmHostError(
            "gpus_missing", "No GPU was given: set gpus (from gpu_info), or gpu_total_mib and gpu_count."
        )
    return device


# --- cards ------------------------------------------------------------------------------------------------------


def _gpus(params: Mapping[str, Any]) -> tuple[Gpu, ...]:
    listed = params.get("gpus") or []
    if not listed:
        total_mib = params.get("gpu_total_mib")
        if total_mib is None:
            return ()
        if total_mib <= 0 or params["gpu_count"] <= 0:
            raise LlmHostError("gpus_invalid", "gpu_total_mib and gpu_count must be positive.")
        return tuple(Gpu(index, params.get("gpu_name") or "GPU", total_mib) for index in range(params["gpu_count"]))
    cards = [_gpu(entry, position) for position, entry in enumerate(listed)]
    freed = [*(params.get("reclaimable") or []), *_of_targets(params.get("clean_targets") or [], listed)]
    return _with_reclaimable(cards, listed, freed)


def _of_targets(targets: Sequence[Mapping[str, Any]], listed: Sequence[Any]) -> list[dict[str, Any]]:
    """What the targets of ``gpu_clean`` hold of the given GPUs, as far as the driver tells it."""
    ours = {str(entry.get("uuid")) for entry in listed}
    return [
        {"gpu": uuid, "memory_mib": held, "pid": target.get("pid")}
        for target in targets
        for uuid, held in (target.get("memory_mib") or {}).items()
        if uuid in ours and isinstance(held, int)
    ]


def _gpu(entry: Any, position: int) -> Gpu:
    memory = entry.get("memory_mib") if isinstance(entry, Mapping) else None
    if not isinstance(memory, Mapping) or not isinstance(memory.get("total"), int) or memory["total"] <= 0:
        raise LlmHostError(
            "gpus_invalid", f"gpus[{position}] has no memory_mib.total; give the list that gpu_info returns."
        )
    free = memory.get("free")
    return Gpu(
        index=int(entry.get("index", position)),
        name=str(entry.get("name") or "GPU"),
        total_mib=memory["total"],
        free_mib=free if isinstance(free, int) else None,
        clients=tuple(_client(client) for client in entry.get("clients") or []),
        unified_memory=bool(entry.get("unified_memory")),
        generation=_generation(entry.get("compute_capability")),
    )


def _generation(capability: Any) -> int | None:
    major = str(capability).partition(".")[0]
    return int(major) if major.isdigit() else None


def _client(client: Mapping[str, Any]) -> str:
    """One client for people: ``PID 4711 python3 (20480 MiB)``."""
    text = f"PID {client.get('pid')}"
    if client.get("comm"):
        text += f" {client['comm']}"
    if client.get("memory_mib"):
        text += f" ({client['memory_mib']} MiB)"
    return text


def _with_reclaimable(cards: list[Gpu], listed: Sequence[Any], reclaimable: Sequence[Any]) -> tuple[Gpu, ...]:
    """Add what will be freed to the card that it will be freed on."""
    names = {str(entry.get("uuid")): position for position, entry in enumerate(listed) if entry.get("uuid")}
    names.update({str(card.index): position for position, card in enumerate(cards)})
    freed = [0] * len(cards)
    for number, entry in enumerate(reclaimable):
        wanted = str(entry.get("gpu"))
        if wanted not in names:
            raise LlmHostError(
                "gpus_invalid", f"reclaimable[{number}].gpu '{wanted}' is neither index nor UUID of a given GPU."
            )
        freed[names[wanted]] += int(entry.get("memory_mib") or 0)
    return tuple(
        Gpu(**{**vars(card), "reclaimable_mib": freed[position]}) if freed[position] else card
        for position, card in enumerate(cards)
    )


# --- models -----------------------------------------------------------------------------------------------------


def _model(
    params: Mapping[str, Any], arguments: Mapping[str, Any], cache: str
) -> tuple[Geometry, tuple[Tensor, ...] | None]:
    """Geometry and, where there is a checkpoint, its tensors."""
    config, model_path = params.get("config"), params.get("model_path") or arguments.get("model_path")
    if config:
        return geometry.from_config(config), None
    if not model_path:
        raise LlmHostError("model_config_missing", "No model was given: set model_path, or config.")
    directory = model_files.locate(str(model_path), cache)
    shape = geometry.from_config(model_files.read_config(directory))
    if shape.not_covered:
        return shape, None
    return shape, model_files.read_checkpoint(directory).tensors


def _draft(
    params: Mapping[str, Any], arguments: Mapping[str, Any], cache: str
) -> tuple[Geometry | None, tuple[Tensor, ...] | None]:
    """The draft model, where it is one of its own. One that is not found makes the plan ``unknown``, not wrong."""
    if params.get("draft_config"):
        return geometry.from_config(params["draft_config"]), None
    draft_path = arguments.get("speculative_draft_model_path")
    if not draft_path:
        return None, None
    try:
        directory = model_files.locate(str(draft_path), cache)
        shape = geometry.from_config(model_files.read_config(directory))
        return shape, model_files.read_checkpoint(directory).tensors
    except LlmHostError as error:
        if error.reason != "model_config_missing":
            raise
        return None, None


def host_available_gib(meminfo: str) -> float | None:
    """MemAvailable of /proc/meminfo, in GiB."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / (1 << 20)
    return None
