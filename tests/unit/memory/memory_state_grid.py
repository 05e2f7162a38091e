# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts of a linear-attention model, over which the state pool is held against SGLang's own code."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._memory.arguments import ArgumentsRefused, Launch, resolve
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.geometry import Geometry, from_config
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import Version
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_facts

MODEL = "Qwen/Qwen3.6-27B"
LEFT_GIB = (3.7, 14.2, 60.0)
REQUESTS = (None, 1, 8, 48)
SLOTS = (None, 40)
DRAFTING = {
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}


def geometry() -> Geometry:
    return from_config(memory_facts.config_of(MODEL))


def starts(version: Version) -> Iterator[tuple[Launch, float]]:
    """(arguments, GiB left for all pools), always in the same order; without what this version refuses."""
    shape = geometry()
    for drafts, requests, slots, radix, ranks in itertools.product(
        (False, True), REQUESTS, SLOTS, (True, False), ((1, 1), (2, 1), (2, 2))
    ):
        arguments: dict[str, Any] = {"tp_size": ranks[0], **(DRAFTING if drafts else {})}
        if ranks[1] > 1:
            arguments.update(enable_dp_attention=True, dp_size=ranks[1])
        if requests is not None:
            arguments["max_running_requests"] = requests
        if slots is not None:
            arguments["max_mamba_cache_size"] = slots
        if not radix:
            arguments["disable_radix_cache"] = True
        try:
            launch = resolve(arguments, shape, version)
        except ArgumentsRefused:
            continue
        for left_gib in LEFT_GIB:
            yield launch, left_gib
