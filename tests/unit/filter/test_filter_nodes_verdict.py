# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter takes what a playbook has of its hosts, and refuses what is no list of them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.filter.nodes_verdict import nodes_verdict


def test_the_order_is_that_of_the_ranks() -> None:
    failed = {"outcome": "failed", "cause": "port_in_use", "phase": "http", "message": "Port 30000 is taken."}
    found = nodes_verdict([{"host": "gpu1", "verdict": None}, {"host": "gpu2", "verdict": failed}])
    assert found["root"] == {"rank": 1, "host": "gpu2"} and found["cause"] == "port_in_use"
    assert [one["host"] for one in found["ranks"]] == ["gpu1", "gpu2"]
    assert found["message"].startswith("Rank 1 of 2, on gpu2, failed in phase http: Port 30000 is taken.")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("gpu1", "takes a list"),
        ({"host": "gpu1"}, "takes a list"),
        ([], "no nodes"),
        (["gpu1"], "node 0"),
        ([{"host": "gpu1"}, {"verdict": {}}], "node 1"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(given: Any, word: str) -> None:
    with pytest.raises(AnsibleFilterError, match=word):
        nodes_verdict(given)
