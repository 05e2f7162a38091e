# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The verdicts of the hosts that serve one model together, as the controller has them -> one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._startup import group


def verdict(nodes: Sequence[Any]) -> dict[str, Any]:
    """``nodes`` are {host, verdict} in the order of their ranks. Raises ValueError where they are not."""
    if not nodes:
        raise ValueError("there are no nodes")
    ranks = []
    for number, one in enumerate(nodes):
        if not isinstance(one, Mapping) or not isinstance(one.get("host"), str):
            raise ValueError("node %d is no mapping with a host and its verdict" % number)
        found = one.get("verdict")
        ranks.append(group.Rank(number, str(one["host"]), found if isinstance(found, Mapping) else None))
    return group.conclude(ranks)
