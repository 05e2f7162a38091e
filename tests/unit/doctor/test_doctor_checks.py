# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of the table of checks: an example hits it and only it, and what cannot be read is unknown."""

from __future__ import annotations

import json
import string

import doctor_world as world
import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor import checks
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.check import SEVERITIES, Ask
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.facts import PLACES, Facts, from_dict

IDS = [check.id for check in checks.CHECKS]
ALL = checks.FAMILIES


@pytest.mark.parametrize("place", PLACES)
def test_a_healthy_host_is_ok_and_nothing_of_it_unknown(place: str) -> None:
    found = checks.examine(world.view(place), ALL)
    wrong = [(f.id, f.status, f.evidence) for f in found if f.status not in ("ok", "not_applicable")]
    assert wrong == []
    assert sum(f.status == "ok" for f in found) >= 20
    assert all(f.remedy is None and f.evidence for f in found)


@pytest.mark.parametrize("place", PLACES)
def test_a_host_without_a_gpu_says_nothing_of_one(place: str) -> None:
    peer = world.facts("node", bus_gpus=[], module=None, gpus=[])
    seen = world.view(place, Ask(), peer, bus_gpus=[], module=None, gpus=[])
    found = {f.id: f for f in checks.examine(seen, ALL)}
    assert [f.id for f in found.values() if f.status in ("warn", "fail")] == []
    assert {found[c.id].status for c in checks.CHECKS if c.gpu and c.id in found} == {"not_applicable"}


@pytest.mark.parametrize("name", IDS)
def test_an_example_hits_its_row_and_only_it(name: str) -> None:
    place, changes, of_node, words = world.EXAMPLES[name]
    seen = world.view(place, peer=world.facts("node", **of_node), **changes)
    found = {f.id: f for f in checks.examine(seen, ALL)}
    hit = found[name]
    assert hit.status in ("warn", "fail"), hit
    others = {f.id for f in found.values() if f.status in ("warn", "fail")} - {name}
    assert others == world.FOLLOW.get(name, set()), [(found[i].id, found[i].evidence) for i in others]
    assert hit.remedy is not None
    for word in words:
        assert word in hit.evidence + hit.remedy.text, (word, hit.evidence, hit.remedy.text)
    assert "{" not in hit.remedy.text, hit.remedy.text
    json.dumps(hit.as_dict())


def test_every_row_has_an_example_and_every_example_a_row() -> None:
    assert sorted(world.EXAMPLES) == sorted(IDS)
    assert len(IDS) == len(set(IDS))


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.id)
def test_a_row_is_whole(check) -> None:
    assert check.severity in SEVERITIES and set(check.places) <= set(PLACES) and check.places
    assert check.meaning.endswith(".") and check.remedy.text.endswith(".")
    assert check.look and not check.look.endswith(".")
    names = {name for _t, name, _f, _c in string.Formatter().parse(check.remedy.text) if name}
    assert all(name.isidentifier() for name in names)


@pytest.mark.parametrize("place", PLACES)
def test_what_cannot_be_read_is_unknown_and_never_ok(place: str) -> None:
    """Every fact in turn is unread: no check that is ok with it may stay ok unless it does not need it."""
    base = {f.id: f for f in checks.examine(world.view(place), ALL)}
    needed: dict[str, set[str]] = {}
    for name in world.facts(place).values:
        seen = world.view(place, **{name: Exception})
        for finding in checks.examine(seen, ALL):
            assert finding.status in ("ok", "unknown", "not_applicable"), (name, finding)
            if finding.status != base[finding.id].status:
                assert finding.status == "unknown" and finding.evidence == "it was not readable", (name, finding)
                needed.setdefault(finding.id, set()).add(name)
    looked = [f for f in base.values() if f.status == "ok"]
    guests = {"nesting", "clock"}  # these also need the node's facts
    assert [f.id for f in looked if f.id not in needed and f.id not in guests] == []


def test_nothing_at_all_could_be_read() -> None:
    for place in PLACES:
        found = checks.examine(world.View(Facts(place), world.ASK), ALL)
        assert {f.status for f in found} <= {"unknown", "not_applicable"}, [f for f in found if f.status == "ok"]


def test_without_the_view_of_the_node_the_container_says_what_it_needs() -> None:
    seen = world.View(world.facts("container"), world.ASK)
    found = {f.id: f for f in checks.examine(seen, ALL)}
    for name in ("node_not_passed", "nesting", "clock"):
        assert found[name].status == "unknown" and "llmhost_gpu_node" in found[name].evidence
    assert found["drv_skew"].status == "ok"  # the loaded module is seen in a container as well


def test_a_view_survives_json() -> None:
    seen = world.facts("node", dkms=Exception)
    again = from_dict(json.loads(json.dumps(seen.as_dict())))
    assert again == seen
    for bad in ({}, {"place": "moon", "values": {}, "unread": {}}, {"place": "node", "values": [], "unread": {}}):
        with pytest.raises(ValueError, match="place, values and unread"):
            from_dict(bad)


def test_every_check_of_the_design_is_there() -> None:
    design = """CT_ELSEWHERE CT_LOCKED CT_HA NO_QUORUM CT_PENDING GPU_VFIO DKMS_MISSING SB_UNSIGNED DRV_NOT_REBOOTED
    DRV_SKEW DRV_OLD NODE_MISSING NODE_STALE NODE_MODE CONF_SNAP CONF_V1 CUINIT MEM_HIGH ARC NESTING TOOLCHAIN P2P
    GPU_FOREIGN ORPHAN CLOCK FALSE_READY"""
    assert {name.lower() for name in design.split()} <= set(IDS)


def test_the_summary_counts_and_the_worst_come_first() -> None:
    seen = world.view("node", guest_status="stopped", ha=True, node_units=[])
    found = checks.examine(seen, ALL)
    assert checks.summary(found)["fail"] == 1 and checks.summary(found)["warn"] == 2
    assert [f.id for f in checks.worst(found)] == ["ct_stopped", "node_unit", "ct_ha"]
    assert sum(checks.summary(found).values()) == len(found)
