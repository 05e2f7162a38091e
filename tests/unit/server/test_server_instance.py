# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts and a wish in, steps out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._server import instance, unit
from ansible_collections.llmhost.sglang.plugins.module_utils._server.instance import (
    Facts,
    FoundFile,
    WantedFile,
    WantedFolder,
    Wish,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._server.unit import Unit

UNIT = "/etc/systemd/system/sglang-a.service"
CONFIG = "/state/config.yaml"
FOLDER = "/state"


def rendered(argv=("/bin/true",), config=None, weights="", **more):
    """A unit file and its digests, as the module writes them."""
    made = Unit(name="a", argv=argv, **more)
    found = instance.digests(made, config, {}, b"k" * 32 if config is not None else b"", "/rt", weights)
    return unit.render(replace(made, start_digests=instance.write_digests(found))).encode(), found


def wish(state="started", enabled=True, config=None, **more):
    text, found = rendered(config=config, **more)
    files = [WantedFile(UNIT, text, 0o644)]
    if config is not None:
        files.insert(0, WantedFile(CONFIG, config, 0o600, "sglang", "sglang", True, "config_file"))
    return Wish(
        state=state,
        unit_path=UNIT,
        files=tuple(files),
        unwanted=() if config is not None else (CONFIG,),
        folders=(WantedFolder(FOLDER, 0o755),),
        enabled=enabled,
        digests=found,
    )


def deployed(wanted=None, **more):
    """Facts after a successful start of a wish."""
    wanted = wanted or wish()
    facts = Facts(
        active_state="active",
        sub_state="running",
        unit_file_state="enabled",
        files={want.path: FoundFile(want.content, want.mode, want.owner, want.group) for want in wanted.files},
        folders={FOLDER: FoundFile(b"", 0o755, "root", "root")},
        origin=dict(wanted.digests),
        state_folder=True,
        cache_folder=True,
    )
    return replace(facts, **more)


def down(facts, **more):
    return replace(facts, **{"active_state": "inactive", "sub_state": "dead", "origin": None, **more})


FRESH = Facts()
NEW = ["make_folder", "write", "daemon_reload", "enable"]
CHANGED = wish(argv=("/bin/true", "--tp", "2"))
DESCRIBED = replace(wish(), files=(replace(wish().files[0], content=wish().files[0].content + b"# a note\n"),))

# what is there, what is wanted -> verbs, changes, start needed, restart needed
TABLE = {
    "fresh, present": (FRESH, wish("present"), NEW, instance.WORDS, True, False),
    "fresh, started": (FRESH, wish(), [*NEW, "start"], instance.WORDS, False, False),
    "fresh, restarted": (FRESH, wish("restarted"), [*NEW, "start"], instance.WORDS, False, False),
    "fresh, stopped": (FRESH, Wish("stopped", UNIT), [], (), False, False),
    "fresh, stopped and not enabled": (FRESH, Wish("stopped", UNIT, enabled=False), [], (), False, False),
    "fresh, absent": (FRESH, Wish("absent", UNIT), [], (), False, False),
    "fresh, not enabled": (FRESH, wish(enabled=False), [*NEW[:3], "start"], instance.WORDS, False, False),
    "deployed, present": (deployed(), wish("present"), [], (), False, False),
    "deployed, started": (deployed(), wish(), [], (), False, False),
    "deployed, restarted": (deployed(), wish("restarted"), ["stop", "start"], (), False, False),
    "deployed, stopped": (deployed(), Wish("stopped", UNIT), ["stop"], (), False, False),
    "deployed, stopped for good": (
        deployed(),
        Wish("stopped", UNIT, enabled=False),
        ["stop", "disable"],
        (),
        False,
        False,
    ),
    "deployed, absent": (
        deployed(),
        Wish("absent", UNIT),
        ["stop", "disable", "remove_unit", "daemon_reload", "remove_state"],
        (),
        False,
        False,
    ),
    "deployed, absent with caches": (
        deployed(),
        Wish("absent", UNIT, purge=True),
        ["stop", "disable", "remove_unit", "daemon_reload", "remove_state", "purge_caches"],
        (),
        False,
        False,
    ),
    "stopped, present": (down(deployed()), wish("present"), [], (), True, False),
    "stopped, started": (down(deployed()), wish(), ["start"], (), False, False),
    "failed, started": (down(deployed(), active_state="failed"), wish(), ["start"], (), False, False),
    "an argument changed, present": (
        deployed(),
        replace(CHANGED, state="present"),
        ["write", "daemon_reload"],
        ("arguments",),
        True,
        True,
    ),
    "an argument changed, started": (
        deployed(),
        CHANGED,
        ["write", "daemon_reload", "stop", "start"],
        ("arguments",),
        False,
        False,
    ),
    "an argument changed, written before, still the old process": (
        deployed(CHANGED, origin=dict(wish().digests)),
        CHANGED,
        ["stop", "start"],
        ("arguments",),
        False,
        False,
    ),
    "a variable changed": (
        deployed(),
        wish(environment=(("X", "1"),)),
        ["write", "daemon_reload", "stop", "start"],
        ("environment",),
        False,
        False,
    ),
    "a limit changed": (
        deployed(),
        wish(limit_nofile="4096"),
        ["write", "daemon_reload", "stop", "start"],
        ("unit",),
        False,
        False,
    ),
    "the weights changed": (
        deployed(),
        wish(weights="rev2"),
        ["write", "daemon_reload", "stop", "start"],
        ("weights",),
        False,
        False,
    ),
    "a configuration is new": (
        deployed(),
        wish(config=b"api-key: x\n"),
        ["write", "write", "daemon_reload", "stop", "start"],
        ("config_file",),
        False,
        False,
    ),
    "a configuration is gone": (
        deployed(wish(config=b"api-key: x\n")),
        wish(),
        ["write", "remove", "daemon_reload", "stop", "start"],
        ("config_file",),
        False,
        False,
    ),
    "the configuration was edited by hand": (
        deployed(
            wish(config=b"a: 1\n"),
            files={**deployed(wish(config=b"a: 1\n")).files, CONFIG: FoundFile(b"a: 2\n", 0o600, "sglang", "sglang")},
        ),
        wish(config=b"a: 1\n"),
        ["write", "stop", "start"],
        ("config_file",),
        False,
        False,
    ),
    "the configuration may be read by all": (
        deployed(
            wish(config=b"a: 1\n"),
            files={**deployed(wish(config=b"a: 1\n")).files, CONFIG: FoundFile(b"a: 1\n", 0o644, "sglang", "sglang")},
        ),
        wish(config=b"a: 1\n"),
        ["write"],
        (),
        False,
        False,
    ),
    "the unit was edited by hand": (
        deployed(
            files={
                UNIT: FoundFile(rendered()[0].replace(b"Nofile", b"").replace(b"1048576", b"64"), 0o644, "root", "root")
            }
        ),
        wish(),
        ["write", "daemon_reload", "stop", "start"],
        ("unit",),
        False,
        False,
    ),
    "a comment in the unit changed": (deployed(), DESCRIBED, ["write", "daemon_reload"], (), False, False),
    "written, and systemd was not told": (
        deployed(need_daemon_reload=True),
        wish(),
        ["daemon_reload"],
        (),
        False,
        False,
    ),
    "somebody disabled it": (deployed(unit_file_state="disabled"), wish(), ["enable"], (), False, False),
    "it runs, and nobody knows with what": (
        deployed(origin=None),
        wish(),
        ["stop", "start"],
        instance.WORDS,
        False,
        False,
    ),
    "it waits for its next attempt, started": (
        down(deployed(), active_state="activating", sub_state="auto-restart"),
        wish(),
        ["stop", "start"],
        (),
        False,
        False,
    ),
    "it waits for its next attempt, stopped": (
        down(deployed(), active_state="activating", sub_state="auto-restart"),
        Wish("stopped", UNIT),
        ["stop"],
        (),
        False,
        False,
    ),
    "children of a launcher that is gone, started": (
        down(deployed(), leftovers=(7, 8)),
        wish(),
        ["end_leftovers", "start"],
        (),
        False,
        False,
    ),
    "children of a launcher that is gone, stopped": (
        down(deployed(), leftovers=(7, 8)),
        Wish("stopped", UNIT),
        ["end_leftovers"],
        (),
        False,
        False,
    ),
    "children of a launcher that is gone, present": (
        down(deployed(), leftovers=(7, 8)),
        wish("present"),
        [],
        (),
        True,
        False,
    ),
    "the state was lost, the server runs": (
        deployed(folders={}, state_folder=False),
        wish(),
        ["make_folder"],
        (),
        False,
        False,
    ),
    "cut after the unit was written": (
        replace(FRESH, files={UNIT: FoundFile(rendered()[0], 0o644, "root", "root")}),
        wish(),
        ["make_folder", "enable", "start"],
        (),
        False,
        False,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_plan(case):
    facts, wanted, verbs, changes, start, restart = TABLE[case]
    made = instance.plan(wanted, facts)
    assert made.verbs == verbs
    assert made.changes == tuple(changes)
    assert (made.start_needed, made.restart_needed) == (start, restart)


@pytest.mark.parametrize("case", TABLE)
def test_present_never_starts_and_never_stops(case):
    facts, wanted, *_rest = TABLE[case]
    if wanted.state not in ("stopped", "absent"):
        assert not {"start", "stop", "end_leftovers"} & set(
            instance.plan(replace(wanted, state="present"), facts).verbs
        )


@pytest.mark.parametrize("case", TABLE)
def test_every_verb_is_known(case):
    facts, wanted, *_rest = TABLE[case]
    assert set(instance.plan(wanted, facts).verbs) <= set(instance.VERBS)


def test_digests_know_borders_and_keys():
    assert instance.digest("ab", "c") != instance.digest("a", "bc")
    assert instance.digest("a", key=b"1") != instance.digest("a", key=b"2")
    assert instance.digest("a", key=b"1") != instance.digest("a")


def test_a_digest_of_a_secret_tells_nothing_without_the_key():
    made = Unit(name="a", argv=("/bin/true",))
    one = instance.digests(made, b"secret", {"K": "secret"}, b"1" * 32, "", "")
    two = instance.digests(made, b"secret", {"K": "secret"}, b"2" * 32, "", "")
    assert {word for word in instance.WORDS if one[word] != two[word]} == {"config_file", "environment"}


def test_digests_are_read_back_whole_or_not_at_all():
    _text, found = rendered()
    assert instance.read_digests(instance.write_digests(found)) == found
    assert instance.read_digests("") is None
    assert instance.read_digests("unit=1 arguments=2") is None
