# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario of this collection: a start that fails for want of memory, and the change that is proven to help.

A model like Qwen3.6-27B on two cards of 48 GB with SGLang 0.5.9. SGLang's message asks for a larger fraction, and no
fraction helps: 48 running requests, which nobody asked for, keep recurrent states.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import FULL, Controller, Lab, Play
from founding_support import NAME, RECORD, STATE, UNIT, Founding, prepared, starts

more = pytest.mark.skipif(not FULL, reason="script/test full: several more plays")


@pytest.fixture(scope="module")
def world(lab: Lab, controller: Controller) -> Iterator[Founding]:
    with prepared(lab, controller) as founding:
        yield founding


@pytest.fixture
def founding(world: Founding) -> Founding:
    world.remove()
    return world


def decisions(play: Play) -> list[dict[str, Any]]:
    return [one["res"] for one in play.tasks if one["action"].endswith("server_remedy_info")]


def test_the_plan_refuses_the_start_and_names_what_helps(founding: Founding) -> None:
    play = founding.deploy()
    assert play.status == "failed"
    plan = play.result("memory_plan_info")
    assert (plan["verdict"], plan["stage"], plan["fraction_window"]) == ("fail", "kv", None)
    assert {"option": "max_running_requests", "value": 48} in [
        {"option": one["option"], "value": one["value"]} for one in plan["hidden_defaults"]
    ]
    said = play.result("fail")["msg"]
    for word in ("Not enough memory", "max_running_requests=48", "max_running_requests: 8", "Nothing was started"):
        assert word in said
    assert founding.active() == "inactive"
    assert "No such file" in founding.sh(f"ls /etc/systemd/system/{UNIT} 2>&1 || true"), "nothing was touched"


@more
def test_apply_changes_what_the_plan_has_proven_before_anything_is_started(founding: Founding) -> None:
    play = founding.deploy(remedy="apply")
    assert play.status == "successful", play.text()
    assert starts(play) == 1, "a start that the plan refuses is not made"
    assert "--max-running-requests 8" in founding.argv()
    published = play.artifacts["llmhost_servers"][f"ct129/{NAME}"]
    assert [one["outcome"] for one in published["attempts"]] == ["refused_by_plan"]
    assert published["remedy"] == {"max_running_requests": 8}
    assert "max_running_requests is changed from left out to 8" in play.text()


def test_a_failed_start_is_followed_by_the_proven_remedy_and_it_is_kept(founding: Founding) -> None:
    """The scenario: fails, cleaned, one argument changed, ready; remembered, told each time, adopted, forgotten."""
    play = founding.deploy(remedy="apply", plan="warn")
    assert play.status == "successful", play.text()
    verdicts = [one["res"] for one in play.tasks if one["action"].endswith("server_wait") and "outcome" in one["res"]]
    assert [(one["outcome"], one["cause"]) for one in verdicts] == [
        ("failed", "kv_cache_no_memory"),
        ("ready", None),
    ]
    assert starts(play) == 2
    running = founding.invocation()
    published = play.artifacts["llmhost_servers"][f"ct129/{NAME}"]
    assert [(one["outcome"], one["cause"]) for one in published["attempts"]] == [("failed", "kv_cache_no_memory")]
    assert published["remedy"] == {"max_running_requests": 8}
    chosen = next(one for one in decisions(play) if one["changes"])
    assert chosen["remedy"]["proven_by"]["verdict"] in ("ok", "tight")
    assert 365_000 < chosen["remedy"]["proven_by"]["max_total_num_tokens"] < 380_000
    cleaned = [one["res"] for one in play.tasks if one["action"].endswith("gpu_clean")][-1]
    assert all(card["after_mib"] <= card["baseline_mib"] + 64 for card in cleaned["gpus"]), "proven free before"
    # what the log told is kept, from the bad start and from the good one
    kept = json.loads(founding.sh(f"cat {STATE}/calibration/founding-*.json"))
    assert kept["numbers"]["weights_gib"] == pytest.approx(25.64)
    assert kept["observed"]["max_total_num_tokens"] == 372110
    assert kept["key"]["layout"] == "tp2-dp1-pp1-ep1"
    assert founding.sh(f"stat -c %a {RECORD}").strip() == "600"
    assert founding.record()["remedy"]["instead_of"] == {"max_running_requests": None}

    again = founding.deploy(remedy="apply", plan="warn")
    assert again.status == "successful" and again.changed() == [], again.text()
    assert founding.invocation() == running
    assert decisions(again)[0]["overridden"] == [
        {"option": "max_running_requests", "value": 8, "inventory": None},
    ]
    assert "To adopt it, write max_running_requests: 8" in again.text(), "said in each run"

    adopted = founding.deploy(remedy="apply", plan="warn", arguments={"max_running_requests": 8})
    assert adopted.status == "successful", adopted.text()
    assert founding.invocation() == running, "the same arguments, so no new start"
    assert decisions(adopted)[0]["overridden"] == [] and "To adopt it" not in adopted.text()
    assert founding.record()["remedy"] is None


@more
def test_without_apply_the_failure_names_the_proven_remedy_and_the_unit_does_not_loop(founding: Founding) -> None:
    play = founding.deploy(plan="warn")
    assert play.status == "failed"
    said = play.result("fail")["msg"]
    assert "no memory is left for the KV cache" in said and "max_running_requests: 8" in said, said
    assert starts(play) == 1
    assert founding.active() == "inactive", "systemd must not go on with the same arguments"
    attempts = play.artifacts["llmhost_servers"][f"ct129/{NAME}"]["attempts"]
    assert [(one["cause"], one["deterministic"]) for one in attempts] == [("kv_cache_no_memory", True)]


@more
def test_a_remedy_outside_of_what_is_allowed_is_not_applied(founding: Founding) -> None:
    play = founding.deploy(remedy="apply", plan="warn", remedy_allowed=["swa_full_tokens_ratio"], max_attempts=3)
    assert play.status == "failed"
    assert starts(play) == 1, "never the same arguments twice for a cause that is in them"
    last = decisions(play)[-1]
    assert last["action"] == "give_up"
    assert "max_running_requests may not be changed" in json.dumps(last["rejected"])
    assert "max_running_requests: 8" in play.result("fail")["msg"], "it is told all the same"


@more
def test_a_cause_that_no_plan_can_prove_is_not_tried_again(founding: Founding) -> None:
    play = founding.deploy(
        remedy="apply",
        max_attempts=3,
        arguments={"max_running_requests": 8},
        story="f09-bad-json",
    )
    assert play.status == "failed"
    assert starts(play) <= 1
    last = decisions(play)[-1]
    assert last["action"] == "give_up" and last["arguments"] == {}
    assert founding.active() == "inactive"


@more
def test_a_change_that_fails_goes_back_to_what_worked(founding: Founding) -> None:
    good = founding.deploy(arguments={"max_running_requests": 8})
    assert good.status == "successful", good.text()
    bad = founding.deploy(plan="warn", rollback=True)
    assert bad.status == "failed", "told all the same"
    assert "The server runs again with the arguments that last worked" in bad.result("fail")["msg"]
    assert founding.active() == "active" and "--max-running-requests 8" in founding.argv()
    assert bad.result("completion_probe")["text"].strip()
    assert bad.artifacts["llmhost_servers"][f"ct129/{NAME}"]["rolled_back"] is True
    # and what worked is known still
    calm = founding.deploy(arguments={"max_running_requests": 8})
    assert calm.status == "successful" and calm.changed() == [], calm.text()

    lenient = founding.deploy(plan="warn", rollback=True, rollback_fail=False)
    assert lenient.status == "successful", lenient.text()
    assert founding.active() == "active"
