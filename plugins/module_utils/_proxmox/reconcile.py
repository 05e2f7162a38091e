# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""From what is wanted and what stands in the file to what has to be done. Reads nothing and does nothing.

Plain keys go through ``pct set``, which knows what a running container takes at once and what waits. Raw ``lxc.*``
keys, which ``pct set`` does not take, are changed in the file, before its first section.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .._errors import LlmHostError
from . import container, devices, stale
from .container import Config

DEVICE_DEFAULTS = {"mode": "0660", "uid": "0", "gid": "0", "deny-write": "0"}
MOUNT_DEFAULTS = {"ro": "0", "backup": "0", "shared": "0", "quota": "0", "replicate": "1"}
MAX_INDEX = 255
# Raw keys that may stand several times, each line for something else: others' lines stay.
REPEATABLE = re.compile(
    r"lxc\.(?:mount\.entry|mount\.auto|environment(?:\..*)?|hook\..*|idmap|cap\.(?:drop|keep)|include|group"
    r"|cgroup2\.devices\.(?:allow|deny))\Z"
)
_KEY = re.compile(r"lxc\.[a-z0-9_.\-]+\Z")
_PLAIN_KEY = re.compile(r"[a-z][a-z_]*[0-9]*\Z")
# What the module has options for, what belongs to a creation, what Proxmox keeps for itself, and what is no line.
NOT_AN_OPTION = re.compile(
    r"(?:dev\d+|mp\d+|features|lock|snaptime|snapstate|parent|template|rootfs|delete|digest|lxc|description)\Z"
)


@dataclass(frozen=True)
class Mount:
    """A folder of the node in the container. ``idmap`` and the like are in ``options``."""

    source: str
    target: str
    read_only: bool = False
    backup: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    present: bool = True

    def properties(self) -> dict[str, str]:
        return {
            **self.options,
            "volume": self.source,
            "mp": self.target,
            "ro": "1" if self.read_only else "0",
            "backup": "1" if self.backup else "0",
        }


@dataclass(frozen=True)
class Wanted:
    """``None`` leaves a thing as it is."""

    devices: tuple[str, ...] | None = None  # device files; an empty tuple takes all GPU devices away
    device_mode: str = "0666"
    device_gid: int | None = None
    mounts: tuple[Mount, ...] = ()
    features: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str | None] = field(default_factory=dict)  # plain keys; None deletes
    lxc: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)  # raw keys; None removes all lines
    tidy: bool = False


@dataclass(frozen=True)
class Plan:
    """``set`` and ``delete`` are for ``pct set``; ``raw`` says that the file has to be edited."""

    set: dict[str, str]
    delete: tuple[str, ...]
    raw: bool
    stale: tuple[stale.Stale, ...]
    misplaced: tuple[str, ...]

    @property
    def empty(self) -> bool:
        return not (self.set or self.delete or self.raw)

    def arguments(self) -> list[str]:
        words = [word for key in sorted(self.set, key=_order) for word in (f"--{key}", self.set[key])]
        return words + (["--delete", ",".join(sorted(self.delete, key=_order))] if self.delete else [])


def _order(key: str) -> tuple[str, int]:
    match = re.match(r"(\D+)(\d*)\Z", key)
    return (match.group(1), int(match.group(2) or -1)) if match else (key, -1)


def plan(config: Config, wanted: Wanted, majors: Mapping[int, str]) -> Plan:
    there = config.after_start
    changes: dict[str, str] = {}
    gone: list[str] = []
    if wanted.devices is not None:
        _devices(there, wanted, changes, gone)
    for mount in wanted.mounts:
        _mount(there, mount, changes, gone, taken=_keys(config))
    if wanted.features:
        have = container.properties(there.get("features", ""))
        merged = {key: value for key, value in {**have, **wanted.features}.items() if value != "0"}
        if merged != {key: value for key, value in have.items() if value != "0"}:
            if merged:
                changes["features"] = container.property_text(merged)
            else:
                gone.append("features")
    for key, value in wanted.values.items():
        if value is None:
            if key in there:
                gone.append(key)
        elif there.get(key) != value:
            changes[key] = value
    found = stale.find(config, majors, wanted.devices is not None)
    return Plan(
        changes, tuple(gone), edit(config, wanted, found) != config, tuple(found), tuple(stale.misplaced(config))
    )


def _keys(config: Config) -> set[str]:
    return {*config.current.values, *config.pending}


def _devices(there: Mapping[str, str], wanted: Wanted, changes: dict[str, str], gone: list[str]) -> None:
    by_path: dict[str, list[str]] = {}
    for key in sorted((key for key in there if re.match(r"dev\d+\Z", key)), key=_order):
        by_path.setdefault(container.properties(there[key], "path").get("path", ""), []).append(key)
    free = _free("dev", {*there, *changes})
    for path in wanted.devices or ():
        keys = by_path.get(path, [])
        value: dict[str, str] = container.properties(there[keys[0]], "path") if keys else {}
        value.update({"path": path, "mode": wanted.device_mode})
        if wanted.device_gid is not None:
            value["gid"] = str(wanted.device_gid)
        text = container.property_text(value, "path")
        if not keys:
            changes[next(free)] = text
        elif not container.same_properties(there[keys[0]], text, "path", DEVICE_DEFAULTS):
            changes[keys[0]] = text
        gone += keys[1:]
    for path, keys in by_path.items():
        if devices.OURS.match(path) and path not in (wanted.devices or ()):
            gone += keys


def _mount(
    there: Mapping[str, str], mount: Mount, changes: dict[str, str], gone: list[str], taken: Iterable[str]
) -> None:
    keys = [
        key
        for key in sorted((key for key in there if re.match(r"mp\d+\Z", key)), key=_order)
        if os.path.normpath(container.properties(there[key], "volume").get("mp", "")) == os.path.normpath(mount.target)
    ]
    managed = [key for key in keys if not container.properties(there[key], "volume").get("volume", "").startswith("/")]
    if managed:
        raise LlmHostError(
            "mount_conflict",
            f"mounts: {mount.target} is {managed[0]} already, a volume that Proxmox manages ({there[managed[0]]}): "
            "choose another target, or move what is on it and remove it yourself",
            target=mount.target,
        )
    if not mount.present:
        gone += keys
        return
    value = {**(container.properties(there[keys[0]], "volume") if keys else {}), **mount.properties()}
    value = {key: word for key, word in value.items() if not (key in ("ro", "backup") and word == "0")}
    text = container.property_text(value, "volume")
    if not keys:
        changes[next(_free("mp", {*there, *changes, *taken}))] = text
    elif not container.same_properties(there[keys[0]], text, "volume", MOUNT_DEFAULTS):
        changes[keys[0]] = text
    gone += keys[1:]


def _free(prefix: str, taken: set[str]) -> Iterator[str]:
    return (f"{prefix}{number}" for number in range(MAX_INDEX + 1) if f"{prefix}{number}" not in taken)


def edit(config: Config, wanted: Wanted, found: Sequence[stale.Stale]) -> Config:
    """The file with its raw keys as they are wanted, and without what is stale where that was asked for."""
    if wanted.tidy:
        config = config.without(one.line for one in found)
    for key, values in wanted.lxc.items():
        here = [line for line in config.current.lines if line.kind == "lxc" and line.key == key]
        if values is None:
            config = config.without(here)
        elif REPEATABLE.match(key):
            have = [line.value for line in here]
            for value in values:
                config = config if value in have else config.with_lxc(key, value)
        elif [line.value for line in here] != list(values):
            config = config.without(here)
            for value in values:
                config = config.with_lxc(key, value)
    return config


def after(config: Config, todo: Plan, wanted: Wanted) -> Config:
    """The file as the next start would find it, for a check that changes nothing."""
    for key in todo.delete:
        config = config.without_key(key)
    for name, text in todo.set.items():
        config = config.with_value(name, text)
    return edit(config, wanted, todo.stale)


def listing(config: Config) -> str:
    """What counts at the next start, as ``pct config`` prints it: for a diff."""
    lines = [f"{key}: {value}\n" for key, value in sorted(config.after_start.items(), key=lambda item: _order(item[0]))]
    return "".join(lines + [f"{key}: {value}\n" for key, value in config.current.lxc])


def effective(config: Config) -> Config:
    """The same file with its pending changes made."""
    settled = config
    for key in config.pending_delete:
        settled = settled.without_key(key)
    for key, value in config.pending.items():
        settled = settled.with_value(key, value)
    kept = tuple(section for section in settled.sections if section.name.lower() != container.PENDING)
    return replace(settled, sections=kept)


# ---------------------------------------------------------------- what may be asked for
def check(wanted: Wanted) -> None:
    """Refuse what cannot be meant, before anything is looked at."""

    def refuse(option: str, message: str) -> LlmHostError:
        return LlmHostError("invalid_argument", f"{option}: {message}", option=option)

    if not re.match(r"0[0-7]{3}\Z", wanted.device_mode):
        raise refuse(
            "device_mode", f"{wanted.device_mode!r} is not a mode as Proxmox writes it: four digits, such as '0666'"
        )
    for key, values in wanted.lxc.items():
        if not _KEY.match(key):
            raise refuse("lxc", f"{key!r} is not a raw key: they begin with 'lxc.'")
        if key.startswith("lxc.cgroup."):
            raise refuse("lxc", f"{key} is a key of cgroup v1, which LXC ignores: write lxc.cgroup2.{key[11:]}")
        for value in values or ():
            if "\n" in value or "\r" in value:
                raise refuse("lxc", f"a value of {key} has a line break in it")
        if values is not None and len(values) > 1 and not REPEATABLE.match(key):
            raise refuse("lxc", f"{key} can have one value, and {len(values)} were given")
    for key, plain in wanted.values.items():
        if not _PLAIN_KEY.match(key) or NOT_AN_OPTION.match(key):
            raise refuse("settings", f"{key!r} cannot be set here: use the module's own option for it, or pct")
        if plain is not None and ("\n" in plain or "\r" in plain):
            raise refuse("settings", f"the value of {key} has a line break in it")
    seen: set[str] = set()
    for mount in wanted.mounts:
        for option, path in (("source", mount.source), ("target", mount.target)):
            if path and (not path.startswith("/") or "," in path or "\n" in path or "/../" in path + "/"):
                raise refuse("mounts", f"{option} {path!r} must be an absolute path with no comma and no '..' in it")
        if os.path.normpath(mount.target) in ("/", "."):
            raise refuse("mounts", f"target {mount.target!r} is the container's root")
        if mount.target in seen:
            raise refuse("mounts", f"target {mount.target} is there twice")
        seen.add(mount.target)
