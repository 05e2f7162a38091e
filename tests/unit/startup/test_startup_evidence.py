# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence outside of the log: every rule of the table, and what must not change a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import causes, evidence
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.evidence import (
    Answer,
    Card,
    Holder,
    OomKill,
    Place,
    XidEvent,
    weigh,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.verdict import Verdict

GIB = 1024**3
OWN_KILL = OomKill(71, "sglang::schedul", True, "oom-kill:constraint=CONSTRAINT_MEMCG,task=sglang::schedul,pid=71")
OTHER_KILL = OomKill(9, "postgres", False, "Out of memory: Killed process 9 (postgres)")
BROKEN = XidEvent(79, "fatal", "the GPU fell off the bus", "0000:41:00.0", None, "NVRM: Xid (PCI:0000:41:00): 79")
PROGRAM = XidEvent(31, "app", "memory page fault of the program", "0000:41:00.0", 71, "NVRM: Xid (PCI:0000:41:00): 31")
OWN = Holder(71, "sglang::schedul", True, 60000)
OTHER = Holder(4711, "python3", False, 30000, "train.service")
SHM_SMALL = Place("/dev/shm", "shared memory", 8 << 20, 64 << 20)
SHM = Place("/dev/shm", "shared memory", 60 * GIB, 64 * GIB)
FULL = Place("/var/cache", "cache of Triton", 1 << 20, 100 * GIB)
ROOM = Place("/", "temporary files", 50 * GIB, 100 * GIB, 10_000)
HOLDER = {"pid": 12, "comm": "nginx"}


class World:
    """What the host would tell. What a test does not set would be told as unknown; every question is counted."""

    def __init__(self, **told: Any) -> None:
        self.told = told
        self.asked: list[str] = []

    def _answer(self, name: str) -> Answer:
        self.asked.append(name)
        found = self.told.get(name)
        return found if isinstance(found, Answer) else Answer(found, "" if found is not None else name + " is dark")

    def ooms(self) -> Answer:
        return self._answer("ooms")

    def xids(self) -> Answer:
        return self._answer("xids")

    def places(self) -> Answer:
        return self._answer("places")

    def cards(self) -> Answer:
        return self._answer("cards")

    def port(self, number: int) -> Answer:
        assert number == 30000
        return self._answer("port")

    def gpu_mib(self) -> int | None:
        raise AssertionError

    def stack(self, pid: int) -> Answer:
        raise AssertionError

    def state(self, pid: int) -> dict[str, Any]:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


def verdict(cause: str, outcome: str = "failed", **detail: Any) -> Verdict:
    row = causes.by_id()[cause]
    return Verdict(
        outcome,
        cause,
        "load_weights",
        row.meaning,
        evidence={"line": "the root line"},
        detail=detail,
        remedies=[one.as_dict() for one in row.remedies],
        retryable=row.retryable,
        docs=causes.docs(cause),
    )


def nothing() -> dict[str, Any]:
    """A host on which all is well."""
    return {"ooms": [], "xids": [], "places": [ROOM, SHM], "cards": [Card(0, 81559, 60000, (OWN,))], "port": [HOLDER]}


def card(*holders: Holder, used: int = 70000) -> Card:
    return Card(0, 81559, used, holders)


# rule -> (cause by the log, detail, what the host tells)
EXAMPLES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "oom_of_this_server": ("scheduler_killed", {}, {"ooms": [OTHER_KILL, OWN_KILL]}),
    "oom_is_in_the_kernel_log": ("host_oom_killed", {}, {"ooms": [OWN_KILL]}),
    "oom_of_another": ("scheduler_killed", {}, {"ooms": [OTHER_KILL]}),
    "xid_broken_gpu": ("nccl_error", {}, {"xids": [BROKEN]}),
    "xid_confirms": ("gpu_fault", {}, {"xids": [BROKEN]}),
    "xid_of_the_program": ("sglang_bug", {}, {"xids": [PROGRAM]}),
    "gpu_held": ("kv_cache_no_memory", {}, {"cards": [card(OWN, OTHER)]}),
    "gpu_still_held": ("gpu_occupied", {}, {"cards": [card(OTHER)]}),
    "gpu_free_by_now": ("gpu_occupied", {}, {"cards": [card(used=500)]}),
    "gpu_held_unseen": ("oom_load_weights", {}, {"cards": [card()]}),
    "disk_full_now": ("disk_full", {}, {"places": [FULL, ROOM]}),
    "disk_has_room_by_now": ("disk_full", {}, {"places": [ROOM]}),
    "disk_full_silent": ("unknown", {}, {"places": [FULL]}),
    "disk_full_beside": ("weights_corrupt", {}, {"places": [FULL]}),
    "shm_bus_error": ("native_crash", {"signal": 7}, {"places": [SHM_SMALL]}),
    "shm_small": ("nccl_error", {}, {"places": [SHM_SMALL]}),
    "port_held": ("port_in_use", {"port": 30000}, {"port": [HOLDER]}),
    "port_free_by_now": ("port_in_use", {"port": 30000}, {"port": []}),
}


def rules_of(found: Verdict) -> list[str]:
    return [row["rule"] for row in found.evidence.get("outside", ())]


def test_every_rule_is_a_whole_row() -> None:
    assert [rule.id for rule in evidence.RULES] == list(EXAMPLES)
    for rule in evidence.RULES:
        assert set(rule.causes) <= set(causes.by_id()), rule.id
        assert rule.effect in (evidence.DECIDES, evidence.SUPPORTS, evidence.CONTRADICTS)
        assert (rule.effect == evidence.DECIDES) == bool(rule.becomes), rule.id
        assert not rule.becomes or rule.becomes in causes.by_id()
        assert rule.becomes not in rule.causes
        assert rule.meaning.endswith(".")
        assert hasattr(World, rule.asks)


@pytest.mark.parametrize("rule", evidence.RULES, ids=lambda rule: rule.id)
def test_an_example_hits_its_rule_and_only_it(rule: evidence.Rule) -> None:
    cause, detail, told = EXAMPLES[rule.id]
    before = verdict(cause, **detail)
    found = weigh(before, World(**{**nothing(), **told}))
    assert rules_of(found) == [rule.id]
    row = found.evidence["outside"][0]
    assert (row["source"], row["effect"]) == (rule.source, rule.effect)
    assert row["says"].endswith((".", "pid=71"))
    assert found.evidence["line"] == "the root line"
    if rule.effect == evidence.DECIDES:
        new = causes.by_id()[rule.becomes]
        assert (found.cause, found.docs, found.detail["cause_by_log"]) == (new.id, causes.docs(new.id), cause)
        assert found.remedies == [one.as_dict() for one in new.remedies]
        assert found.not_remedies == list(new.not_remedies)
        assert "{" not in found.message and found.message != before.message
    else:
        assert (found.cause, found.message, found.remedies) == (before.cause, before.message, before.remedies)
        assert found.retryable == (True if rule.effect == evidence.CONTRADICTS else before.retryable)


@pytest.mark.parametrize("rule", evidence.RULES, ids=lambda rule: rule.id)
def test_what_cannot_be_looked_at_is_unknown_and_decides_nothing(rule: evidence.Rule) -> None:
    cause, detail, _told = EXAMPLES[rule.id]
    before = verdict(cause, **detail)
    found = weigh(before, World())
    assert replace(found, evidence=before.evidence) == before
    assert {row["effect"] for row in found.evidence["outside"]} == {"unknown"}
    assert rule.asks + " is dark" in [row["says"] for row in found.evidence["outside"]]


@pytest.mark.parametrize("cause", sorted(causes.by_id()))
def test_a_host_on_which_all_is_well_changes_no_cause(cause: str) -> None:
    before = verdict(cause)
    assert weigh(before, World(**nothing())).cause == cause


@pytest.mark.parametrize(
    "cause", ["args_unrecognized", "hf_auth", "weight_mismatch", "context_too_long", "tp_indivisible"]
)
def test_a_clear_case_asks_nobody(cause: str) -> None:
    world = World(**nothing())
    before = verdict(cause)
    assert weigh(before, world) is before
    assert world.asked == []


def test_each_source_is_asked_once() -> None:
    world = World(**nothing())
    weigh(verdict("unknown"), world)
    assert len(world.asked) == len(set(world.asked)) >= 3


@pytest.mark.parametrize("outcome", ["ready", "stopped", "in_progress"])
def test_a_start_that_did_not_fail_asks_nobody(outcome: str) -> None:
    world = World(**nothing())
    weigh(verdict("unknown", outcome), world)
    weigh(Verdict("ready", None, "runtime", "The server is ready."), world)
    assert world.asked == []


def test_without_anybody_to_ask_nothing_changes() -> None:
    before = verdict("unknown")
    assert weigh(before, None) is before


def test_one_piece_of_evidence_decides_and_the_others_are_told() -> None:
    found = weigh(verdict("unknown"), World(ooms=[OWN_KILL], xids=[BROKEN], places=[FULL]))
    assert found.cause == "host_oom_killed"
    assert [(row["rule"], row["effect"]) for row in found.evidence["outside"]] == [
        ("oom_of_this_server", "decides"),
        ("xid_broken_gpu", "supports"),
        ("disk_full_silent", "supports"),
    ]


def test_a_full_disk_does_not_decide_where_an_exception_was_told() -> None:
    found = weigh(verdict("unknown", exception="StrangeError"), World(ooms=[], xids=[], places=[FULL]))
    assert (found.cause, rules_of(found)) == ("unknown", ["disk_full_beside"])


@pytest.mark.parametrize(
    "holders",
    [
        (OWN,),
        (replace(OTHER, memory_mib=8000),),  # less than 15 % of the card
        (replace(OTHER, memory_mib=None),),
        (replace(OTHER, own=None),),  # it may be this server's own
    ],
)
def test_a_card_is_not_called_occupied_without_proof(holders: tuple[Holder, ...]) -> None:
    found = weigh(verdict("kv_cache_no_memory"), World(cards=[card(*holders)]))
    assert found.cause == "kv_cache_no_memory"


def test_who_holds_the_card_is_named() -> None:
    found = weigh(verdict("oom_load_weights"), World(cards=[Card(0, 81559, 100), replace(card(OWN, OTHER), index=1)]))
    assert found.cause == "gpu_occupied"
    assert found.detail["holders"] == [
        {"pid": 4711, "comm": "python3", "unit": "train.service", "memory_mib": 30000, "gpu": 1}
    ]
    assert "python3 (pid 4711, train.service) holds 29.3 of 79.6 GiB of GPU 1" in found.message


def test_a_holder_that_cannot_be_identified_keeps_the_card_from_being_called_free() -> None:
    for one in (replace(OTHER, own=None), replace(OTHER, memory_mib=100)):
        assert rules_of(weigh(verdict("gpu_occupied"), World(cards=[card(one, used=500)]))) == []


def test_a_bus_error_with_room_in_shm_stays_a_crash() -> None:
    assert weigh(verdict("native_crash", signal=7), World(ooms=[], xids=[], places=[SHM])).cause == "native_crash"
    assert (
        weigh(verdict("native_crash", signal=11), World(ooms=[], xids=[], places=[SHM_SMALL])).cause == "native_crash"
    )


def test_the_words_are_masked() -> None:
    kill = replace(OWN_KILL, line="Killed process 71 (sh) HF_TOKEN=hf_abcdefghijkl")
    found = weigh(
        verdict("scheduler_killed"), World(ooms=[kill], xids=[], places=Answer(None, "--api-key sk-12345678901"))
    )
    assert "hf_abcdefghijkl" not in str(found) and "sk-12345678901" not in str(found)


def test_of_a_start_that_lies_back_only_the_kernel_log_decides() -> None:
    late = weigh(verdict("kv_cache_no_memory"), World(cards=[card(OTHER)]), late=True)
    assert (late.cause, late.evidence["outside"][0]["effect"]) == ("kv_cache_no_memory", "supports")
    assert late.evidence["outside"][0]["says"].endswith("(Seen now, not then.)")
    assert weigh(verdict("unknown"), World(ooms=[OWN_KILL], xids=[], places=[]), late=True).cause == "host_oom_killed"


@pytest.mark.parametrize("options, count", [({}, 1), ({"tp_size": "4", "pp_size": "2"}, 8), ({"tp_size": "x"}, 1)])
def test_how_many_cards_a_server_uses(options: dict[str, str], count: int) -> None:
    assert evidence.ranks(options) == count
