# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict of several ranks: which of them is the root, and what is told of the others."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.group import Rank, conclude

CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:544] Connection closed by peer [192.0.2.2]:45492"
READY: dict[str, Any] = {"outcome": "ready", "phase": "runtime", "message": "The server is ready.", "seconds": 40.0}
OOM: dict[str, Any] = {
    "outcome": "failed",
    "cause": "oom_graph_capture",
    "phase": "graph_capture",
    "message": "The memory ran out.",
    "evidence": {"line": "torch.OutOfMemoryError: CUDA out of memory"},
    "remedies": [{"id": "smaller"}],
    "seconds": 31.0,
}
PEER: dict[str, Any] = {
    "outcome": "failed",
    "cause": "peer_rank_died",
    "phase": "graph_capture",
    "message": "Another rank or node died; this log shows only the consequence.",
    "evidence": {"line": CLOSED},
    "seconds": 30.0,
}
WAITS: dict[str, Any] = {"outcome": "timeout", "cause": "hang_unknown", "phase": "init_distributed", "message": "Late."}


def of(*verdicts: dict[str, Any] | None) -> dict[str, Any]:
    return conclude([Rank(number, "gpu%d" % (number + 1), verdict) for number, verdict in enumerate(verdicts)])


def parts(found: dict[str, Any]) -> list[str]:
    return [one["part"] for one in found["ranks"]]


def test_all_ready() -> None:
    found = of(READY, READY)
    assert found["outcome"] == "ready" and found["root"] is None and found["cause"] is None
    assert parts(found) == ["ready", "ready"] and found["message"] == "All 2 ranks are ready."


def test_rank_0_decides_about_ready_and_who_did_not_tell_is_named() -> None:
    found = of(READY, WAITS)
    assert found["outcome"] == "ready" and "rank 1 on gpu2 did not tell" in found["message"]
    found = of(WAITS, READY)
    assert found["outcome"] == "timeout" and found["root"] == {"rank": 0, "host": "gpu1"}


@pytest.mark.parametrize("order", [(PEER, OOM), (OOM, PEER), (PEER, OOM, PEER)])
def test_the_rank_with_a_cause_of_its_own_is_the_root_whoever_failed_first(order: tuple[dict[str, Any], ...]) -> None:
    found = of(*order)
    at = order.index(OOM)
    assert found["outcome"] == "failed" and found["cause"] == "oom_graph_capture"
    assert found["root"] == {"rank": at, "host": "gpu%d" % (at + 1)}
    assert found["remedies"] == [{"id": "smaller"}] and found["evidence"] == OOM["evidence"]
    assert parts(found) == ["root" if number == at else "consequence" for number in range(len(order))]
    assert "on gpu%d, failed in phase graph_capture: The memory ran out." % (at + 1) in found["message"]
    assert "is a consequence: Connection closed by peer." in found["message"]


def test_a_crash_whose_line_tells_of_the_peer_is_a_consequence_by_any_name() -> None:
    crash = {**PEER, "cause": "native_crash", "seconds": 1.0}
    assert of(crash, OOM)["root"] == {"rank": 1, "host": "gpu2"}
    unknown = {**OOM, "cause": "unknown", "evidence": {"line": "ValueError: what is this"}}
    assert of(unknown, {**OOM, "seconds": 99.0})["root"] == {"rank": 1, "host": "gpu2"}
    assert of(unknown, PEER)["root"] == {"rank": 0, "host": "gpu1"}


def test_who_has_no_verdict_comes_before_those_that_tell_of_a_connection() -> None:
    for nothing in (None, {"failed": True, "msg": "Data could not be sent to the host."}):
        found = of(PEER, nothing)
        assert found["outcome"] == "failed" and found["root"] == {"rank": 1, "host": "gpu2"}
        assert parts(found) == ["consequence", "root"] and found["cause"] == "unknown"
        assert "Rank 1 of 2, on gpu2, has told nothing" in found["message"]
    assert "Data could not be sent" in found["message"]
    assert of(OOM, None)["root"] == {"rank": 0, "host": "gpu1"}


def test_where_nobody_failed_it_is_who_is_behind() -> None:
    ahead = {**WAITS, "outcome": "stalled", "phase": "load_weights"}
    assert of(WAITS, ahead)["root"] == {"rank": 0, "host": "gpu1"}
    found = of(ahead, WAITS)
    assert found["root"] == {"rank": 1, "host": "gpu2"} and found["outcome"] == "timeout"
    assert found["message"].endswith("Rank 0 on gpu1 still waited in phase load_weights.")
    # rank 0 waits for all others, so of two that are equally far it is not rank 0
    assert of(WAITS, WAITS)["root"] == {"rank": 1, "host": "gpu2"}


def test_a_rank_that_was_given_up_waits_for_the_one_that_failed() -> None:
    found = of(WAITS, OOM)
    assert found["outcome"] == "failed" and parts(found) == ["waiting", "root"]
    assert "Rank 0 on gpu1 still waited in phase init_distributed." in found["message"]


def test_a_rank_that_ended_by_itself_comes_before_those_that_lost_it() -> None:
    ended = {"outcome": "stopped", "phase": "runtime", "message": "It was stopped.", "seconds": 60.0}
    found = of(PEER, ended)
    assert found["outcome"] == "failed" and found["root"] == {"rank": 1, "host": "gpu2"}
    assert found["message"].startswith("Rank 1 of 2, on gpu2, has ended: It was stopped.")
    assert of(ended, OOM)["root"] == {"rank": 1, "host": "gpu2"}
    assert of(ended, ended)["outcome"] == "stopped"


def test_a_rank_that_failed_counts_though_rank_0_came_up() -> None:
    found = of(READY, OOM)
    assert found["outcome"] == "failed" and found["root"] == {"rank": 1, "host": "gpu2"}
    assert found["message"].endswith("Rank 0 on gpu1 was ready.") and parts(found) == ["ready", "root"]


def test_only_consequences_the_first_of_them() -> None:
    found = of({**PEER, "seconds": 50.0}, {**PEER, "seconds": 48.0, "verdict_delay_s": 1.0})
    assert found["root"] == {"rank": 1, "host": "gpu2"} and found["cause"] == "peer_rank_died"


def test_two_with_a_cause_of_their_own_the_first_of_them() -> None:
    found = of({**OOM, "seconds": 50.0}, OOM)
    assert found["root"] == {"rank": 1, "host": "gpu2"} and parts(found) == ["failed too", "root"]


def test_check_mode() -> None:
    assert of({"outcome": "skipped"}, {"outcome": "skipped"})["outcome"] == "skipped"
