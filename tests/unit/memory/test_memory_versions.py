# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of version gates."""

from __future__ import annotations

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import versions
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.versions import RULES, Rule, parse, rule


def _rows(topic: str) -> list[Rule]:
    return [row for row in RULES if row.topic == topic]


def _just_before(row: Rule) -> versions.Version:
    """A version that the row's predecessor still rules."""
    major, minor, patch = row.since
    return (major, minor, patch - 1)


@pytest.mark.parametrize("row", RULES, ids=lambda row: f"{row.topic}-{versions.show(row.since)}")
def test_a_row_rules_from_its_version_on_and_not_before(row: Rule) -> None:
    assert rule(row.topic, row.since) == row.value
    if row.since > versions.OLDEST:
        assert rule(row.topic, _just_before(row)) != row.value


@pytest.mark.parametrize("topic", sorted({row.topic for row in RULES}))
def test_a_topic_starts_at_the_oldest_version_and_goes_up(topic: str) -> None:
    since = [row.since for row in _rows(topic)]
    assert since[0] == versions.OLDEST
    assert since == sorted(set(since))
    assert since[-1] <= versions.NEWEST


def test_a_newer_version_keeps_the_newest_rules() -> None:
    assert rule("state_solver", (0, 6, 0)) == rule("state_solver", versions.NEWEST)


def test_a_topic_that_is_not_there_is_an_error_of_the_code() -> None:
    with pytest.raises(KeyError):
        rule("no_such_topic", (0, 5, 23))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.5.23", (0, 5, 23)),
        ("v0.5.9", (0, 5, 9)),
        ("0.4.6.post5", (0, 4, 6)),
        ("0.5.17.dev20260819", (0, 5, 17)),
        (" 0.5.3rc0 ", (0, 5, 3)),
    ],
)
def test_versions_are_read(text: str, version: versions.Version) -> None:
    assert parse(text) == version


@pytest.mark.parametrize("text", ["", "latest", "0.5", "0.4.2", "0.0.0.dev1+g5f55db35e"])
def test_a_version_that_cannot_be_planned_is_refused(text: str) -> None:
    with pytest.raises(LlmHostError) as caught:
        parse(text)
    assert caught.value.reason == "version_unknown"
    assert text in caught.value.message
