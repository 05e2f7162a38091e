# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What has to be done to bring one instance to its state: facts and a wish in, steps out. Touches nothing."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import unit as units
from .unit import Unit

# What a start depends on; each has a digest that the running process carries in its environment.
WORDS = ("unit", "arguments", "environment", "config_file", "runtime", "weights")

VERBS = (
    "make_folder",
    "write",
    "remove",
    "daemon_reload",
    "enable",
    "disable",
    "stop",
    "end_leftovers",
    "start",
    "remove_unit",
    "remove_state",
    "purge_caches",
)


@dataclass(frozen=True)
class WantedFile:
    """A file as it has to be. ``word`` names it in ``changes`` (none: a change of it concerns no running process); a
    ``secret`` one is never shown."""

    path: str
    content: bytes
    mode: int
    owner: str = "root"
    group: str = "root"
    secret: bool = False
    word: str = "unit"


@dataclass(frozen=True)
class WantedFolder:
    path: str
    mode: int
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class FoundFile:
    """A file as it is; owner and group by name, or by number where they have none."""

    content: bytes
    mode: int
    owner: str
    group: str


@dataclass(frozen=True)
class Wish:
    """What the caller wants."""

    state: str  # present, started, restarted, stopped, absent
    unit_path: str = ""
    files: tuple[WantedFile, ...] = ()
    folders: tuple[WantedFolder, ...] = ()
    unwanted: tuple[str, ...] = ()  # files of ours that must not be there (a config that is no longer given)
    enabled: bool | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    purge: bool = False


@dataclass(frozen=True)
class Facts:
    """What is there."""

    active_state: str = "inactive"
    sub_state: str = "dead"
    unit_file_state: str = ""
    need_daemon_reload: bool = False
    files: Mapping[str, FoundFile] = field(default_factory=dict)
    folders: Mapping[str, FoundFile] = field(default_factory=dict)
    origin: Mapping[str, str] | None = None  # the digests that the running process was started with
    leftovers: tuple[int, ...] = ()  # processes in the unit's cgroup while the unit does not run
    state_folder: bool = False
    cache_folder: bool = False

    @property
    def running(self) -> bool:
        """Whether there is a server, or one is on its way: a unit that waits for its next attempt is none."""
        return self.active_state in ("active", "reloading", "refreshing", "deactivating") or (
            self.active_state == "activating" and self.sub_state != "auto-restart"
        )

    @property
    def stoppable(self) -> bool:
        """Whether ``systemctl stop`` has something to do; it also ends the waiting for the next attempt."""
        return self.running or self.active_state == "activating"

    @property
    def enabled(self) -> bool:
        return self.unit_file_state in ("enabled", "enabled-runtime")


@dataclass(frozen=True)
class Step:
    verb: str
    path: str = ""


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]
    changes: tuple[str, ...]  # words: what differs from what runs, or from what is on disk where nothing runs
    start_needed: bool
    restart_needed: bool

    @property
    def verbs(self) -> list[str]:
        return [step.verb for step in self.steps]


def digest(*parts: str | bytes, key: bytes = b"") -> str:
    """A digest of a list of texts: their borders count. With a key it tells nothing about a short secret."""
    data = b"".join(
        b"%d:" % len(part) + part
        for part in (item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item for item in parts)
    )
    return (hmac.new(key, data, hashlib.sha256) if key else hashlib.sha256(data)).hexdigest()


def digests(
    unit: Unit,
    config: bytes | None,
    secrets: Mapping[str, str],
    key: bytes,
    runtime: str,
    weights: str,
) -> dict[str, str]:
    """A short digest for each word of ``WORDS``. ``key`` is the instance's own random secret."""
    variables = [text for item in sorted(units.full_environment(unit).items()) for text in item]
    hidden = [text for item in sorted(secrets.items()) for text in item]
    settings = [text for item in units.service_settings(unit) for text in item]
    full = {
        "unit": digest(*settings),
        "arguments": digest(*unit.argv),
        "environment": digest(digest(*variables), digest(*hidden, key=key) if hidden else ""),
        "config_file": digest(config, key=key) if config is not None else "0" * 16,
        "runtime": digest(runtime),
        "weights": digest(weights),
    }
    return {word: full[word][:16] for word in WORDS}


def write_digests(found: Mapping[str, str]) -> str:
    return " ".join(f"{word}={found[word]}" for word in WORDS)


def read_digests(text: str) -> dict[str, str] | None:
    """The digests of a mark, ``None`` where the text is none."""
    found = dict(item.split("=", 1) for item in text.split() if "=" in item)
    return {word: found[word] for word in WORDS} if set(WORDS) <= set(found) else None


def service_section(text: str) -> list[str]:
    """The lines of a unit's [Service] section: what decides how the process is started."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("["):
            inside = line.strip() == "[Service]"
        elif inside and line.strip():
            lines.append(line)
    return lines


def same_file(wanted: WantedFile, found: FoundFile | None) -> bool:
    return (
        found is not None
        and found.content == wanted.content
        and (found.mode, found.owner, found.group) == (wanted.mode, wanted.owner, wanted.group)
    )


def _same_folder(wanted: WantedFolder, found: FoundFile | None) -> bool:
    return found is not None and (found.mode, found.owner, found.group) == (wanted.mode, wanted.owner, wanted.group)


def plan(wish: Wish, facts: Facts) -> Plan:
    """The steps from the facts to the wish, in their order."""
    if wish.state == "absent":
        return _absent(wish, facts)
    if wish.state == "stopped":
        return Plan(tuple(_stop(facts) + _enablement(wish, facts)), (), False, False)
    steps = [
        Step("make_folder", want.path) for want in wish.folders if not _same_folder(want, facts.folders.get(want.path))
    ]
    stale = [want for want in wish.files if not same_file(want, facts.files.get(want.path))]
    steps += [Step("write", want.path) for want in stale]
    steps += [Step("remove", path) for path in wish.unwanted if path in facts.files]
    if facts.need_daemon_reload or any(want.path == wish.unit_path for want in stale):
        steps.append(Step("daemon_reload"))
    steps += _enablement(wish, facts)
    edited = _edited(wish, facts)
    changes = _differing(wish, facts, edited)
    restart_needed = facts.running and bool(changes)
    if wish.state == "restarted" or (wish.state == "started" and (restart_needed or not facts.running)):
        steps += _stop(facts)
        steps.append(Step("start"))
        return Plan(tuple(steps), changes, False, False)
    if wish.state == "started":
        return Plan(tuple(steps), changes, False, False)
    return Plan(tuple(steps), changes, restart_needed or not facts.running, restart_needed)


def _stop(facts: Facts) -> list[Step]:
    steps = [Step("stop")] if facts.stoppable else []
    return steps + ([Step("end_leftovers")] if facts.leftovers else [])


def _enablement(wish: Wish, facts: Facts) -> list[Step]:
    if wish.enabled is None or wish.enabled == facts.enabled:
        return []
    if not wish.enabled and not facts.unit_file_state:
        return []  # no unit file: nothing to disable
    return [Step("enable" if wish.enabled else "disable")]


def _absent(wish: Wish, facts: Facts) -> Plan:
    steps = _stop(facts)
    if wish.unit_path in facts.files:
        if facts.enabled:
            steps.append(Step("disable"))
        steps += [Step("remove_unit"), Step("daemon_reload")]
    steps += [Step("remove", path) for path in wish.unwanted if path in facts.files]
    if facts.state_folder:
        steps.append(Step("remove_state"))
    if wish.purge and facts.cache_folder:
        steps.append(Step("purge_caches"))
    return Plan(tuple(steps), (), False, False)


def _edited(wish: Wish, facts: Facts) -> set[str]:
    """Words of files that somebody else changed: the digests on disk are the wanted ones, the content is not.

    Whether the running process has read such a change cannot be known, so it counts as one that it was started with.
    """
    if _on_disk(wish, facts) != dict(wish.digests):
        return set()
    words = set()
    for want in wish.files:
        found = facts.files.get(want.path)
        if not want.word or found is None or found.content == want.content:
            continue
        if want.path != wish.unit_path or service_section(_text(found.content)) != service_section(_text(want.content)):
            words.add(want.word)
    return words


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _on_disk(wish: Wish, facts: Facts) -> dict[str, str] | None:
    found = facts.files.get(wish.unit_path)
    mark = units.read_mark(_text(found.content)) if found else None
    return read_digests((mark or {}).get("Start", ""))


def _differing(wish: Wish, facts: Facts, edited: set[str]) -> tuple[str, ...]:
    known = facts.origin if facts.running else _on_disk(wish, facts)
    if known is None:  # unknown is not "the same"
        return WORDS
    return tuple(word for word in WORDS if known.get(word) != wish.digests.get(word) or word in edited)
