# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a plan is made of: the machine, the model, the arguments, the version, what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import expected, overheads, weights
from .arguments import ArgumentsRefused, Launch, resolve
from .calibration import Calibration, layout, matches
from .geometry import Geometry
from .headers import Tensor
from .units import KIB
from .versions import Version, show
from .weights import Weights


@dataclass(frozen=True)
class Gpu:
    """One card. ``free_mib`` is None where only the size is known; then the card counts as idle.

    ``reclaimable_mib`` is memory that will be freed before the start and counts as free.
    """

    index: int
    name: str
    total_mib: int
    free_mib: int | None = None
    reclaimable_mib: int = 0
    clients: tuple[str, ...] = ()
    unified_memory: bool = False
    generation: int | None = None  # major number of the compute capability

    @property
    def idle_free_gib(self) -> float:
        return self.total_mib / KIB - overheads.DRIVER_GIB

    @property
    def free_gib(self) -> float:
        if self.free_mib is None:
            return self.idle_free_gib
        return min(self.total_mib, self.free_mib + self.reclaimable_mib) / KIB

    @property
    def foreign_gib(self) -> float:
        """What other processes hold, beyond what the driver keeps."""
        return max(0.0, self.idle_free_gib - self.free_gib)

    def emptied(self) -> Gpu:
        return replace(self, free_mib=None, reclaimable_mib=0, clients=())


@dataclass(frozen=True)
class Problem:
    """One question to the planner. ``tensors`` is None where there is no checkpoint to read."""

    geometry: Geometry
    arguments: Mapping[str, Any]
    version: Version
    gpus: tuple[Gpu, ...]
    tensors: tuple[Tensor, ...] | None = None
    draft: Geometry | None = None
    draft_tensors: tuple[Tensor, ...] | None = None
    device: str = "cuda"
    wanted_context: int | None = None
    wanted_requests: int | None = None
    calibration: Calibration | None = None
    host_available_gib: float | None = None
    _weights: dict[tuple[Any, ...], Weights] = field(default_factory=dict, compare=False, repr=False)

    @property
    def rocm(self) -> bool:
        return self.device == "rocm"

    @property
    def ascend(self) -> bool:
        return self.device == "npu"

    @property
    def smallest_total_mib(self) -> int:
        return min(gpu.total_mib for gpu in self.gpus)

    def with_changes(self, changes: Mapping[str, Any]) -> Problem:
        """The same question with other arguments; ``None`` takes one away."""
        arguments = dict(self.arguments)
        for name, value in changes.items():
            if value is None:
                arguments.pop(name, None)
            else:
                arguments[name] = value
        return replace(self, arguments=arguments)

    def calibrated(self, launch: Launch) -> Calibration | None:
        """The numbers of an earlier start, where it was one like this."""
        like = {"sglang_version": show(self.version), "layout": layout(launch.tp, launch.dp, launch.pp, launch.ep)}
        if self.calibration is None or not matches(self.calibration, like):
            return None
        return self.calibration

    def calibration_key(self, host: str, model: str) -> dict[str, str] | None:
        """By which a start of this problem is remembered; None where its numbers would be of no use."""
        if not (self.rocm or self.ascend or self.device == "cuda"):
            return None
        try:
            launch = self.resolve()
        except ArgumentsRefused:
            return None
        shape = layout(launch.tp, launch.dp, launch.pp, launch.ep)
        return {"host": host, "model": model, "sglang_version": show(self.version), "layout": shape}

    def resolve(self) -> Launch:
        """The arguments as SGLang fills them in on these cards; raises ``ArgumentsRefused``."""
        known = {card.generation for card in self.gpus}
        generation = known.pop() if len(known) == 1 else None
        return resolve(self.arguments, self.geometry, self.version, self.device, generation)

    def used_gpus(self, launch: Launch) -> tuple[Gpu, ...]:
        """The cards that the ranks of this host run on; fewer than needed where the host has not enough."""
        count = ranks_on_host(launch)
        first = int(launch.given.get("base_gpu_id") or 0)
        step = int(launch.given.get("gpu_id_step") or 1)
        return self.gpus[first::step][:count]

    def weights(self, launch: Launch) -> Weights | None:
        """What the fullest rank loads; None where neither checkpoint nor config tell."""
        key = (self.geometry, self.draft, launch.tp, launch.pp, launch.attention_dp, launch.language_only)
        if key not in self._weights:
            held = self._weigh(launch)
            if held is None:
                return None
            self._weights[key] = held
        return self._weights[key]

    def _weigh(self, launch: Launch) -> Weights | None:
        if self.tensors is not None:
            held = weights.per_rank(self.tensors, self.geometry, launch)
        elif expected.can_expect(self.geometry):
            held = weights.per_rank(expected.tensors(self.geometry), self.geometry, launch, "config")
        else:
            return None
        return self._with_own_draft(held, launch)

    def _with_own_draft(self, held: Weights, launch: Launch) -> Weights:
        """A draft model that has a checkpoint of its own."""
        if self.draft is None:
            return held
        tensors = self.draft_tensors
        if tensors is None and expected.can_expect(self.draft):
            tensors = tuple(expected.tensors(self.draft))
        if tensors is None:
            return replace(held, draft_bytes=0.0, draft_peak_bytes=0.0)
        drafted = weights.per_rank(tensors, self.draft, launch)
        size = drafted.target_bytes + drafted.draft_bytes
        return replace(held, draft_bytes=size, draft_peak_bytes=size)


def ranks_on_host(launch: Launch) -> int:
    """Processes that each need a card of this host."""
    replicas = launch.dp if launch.attention_dp == 1 else 1
    nodes = int(launch.given.get("nnodes") or 1)
    return max(1, launch.tp * launch.pp * replicas // nodes)
