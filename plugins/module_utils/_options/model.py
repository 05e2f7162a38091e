# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The nouns of this room: an option of SGLang, the schema of one version, an argument with its origin, a problem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Version = tuple[int, ...]

_RELEASE = re.compile(r"(\d+(?:\.\d+)*)(?:\.?(post|rc|a|b|dev)(\d+))?")
# Options whose name and alias changed places between versions: the rest of the collection says the short one.
_SHORT = {
    "attention_context_parallel_size": "attn_cp_size",
    "data_parallel_size": "dp_size",
    "expert_parallel_size": "ep_size",
    "moe_data_parallel_size": "moe_dp_size",
    "pipeline_parallel_size": "pp_size",
    "tensor_parallel_size": "tp_size",
}
_SUFFIX_RANK = {"dev": -4, "a": -3, "b": -2, "rc": -1, "post": 1}


def version_key(text: str) -> Version:
    """A comparable form of ``0.5.9``, ``0.4.6.post5``, ``0.5.23+replay`` (the part after ``+`` does not count)."""
    found = _RELEASE.match(text.strip())
    if not found:
        return (0, 0, 0, 0, 0)
    numbers = [int(part) for part in found.group(1).split(".")][:3]
    numbers += [0] * (3 - len(numbers))
    suffix = found.group(2)
    return (*numbers, _SUFFIX_RANK[suffix] if suffix else 0, int(found.group(3)) if suffix else 0)


def public_version(text: str) -> str:
    """``0.5.23+replay`` -> ``0.5.23``: the part by which tables are named."""
    return text.split("+", 1)[0].strip()


def in_range(version: str, since: str | None, until: str | None) -> bool:
    """``since`` is the first version that has it, ``until`` the first that no longer has it; ``None`` is open."""
    key = version_key(version)
    if since is not None and key < version_key(since):
        return False
    return until is None or key < version_key(until)


@dataclass(frozen=True)
class Option:
    """One option as argparse knows it. ``type`` is str, int, float, bool or the name of SGLang's own parser."""

    name: str
    dest: str
    aliases: tuple[str, ...] = ()
    type: str = "str"
    nargs: str | None = None
    choices: tuple[Any, ...] | None = None
    default: Any = None
    default_known: bool = True
    action: str = "store"
    required: bool = False
    const: Any = None
    deprecated: bool = False
    replaced_by: str | None = None
    removed: bool = False

    @property
    def key(self) -> str:
        """The Ansible spelling, one for all versions: ``tp_size`` for ``--tp-size``, ``--tensor-parallel-size``."""
        key = self.name.lstrip("-").replace("-", "_")
        short = _SHORT.get(key)
        return short if short and "--" + short.replace("_", "-") in self.aliases else key

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def is_flag(self) -> bool:
        """Takes no value on the command line."""
        return self.action in FLAG_ACTIONS and self.nargs is None and self.choices is None

    @property
    def negation(self) -> str | None:
        """``--no-x`` where the option has such a form."""
        if self.action != "BooleanOptionalAction":
            return None
        return "--no-" + self.name[2:]

    @property
    def is_list(self) -> bool:
        return self.nargs in ("+", "*")

    def as_dict(self) -> dict[str, Any]:
        """Only what differs from the defaults of this class; tuples become lists."""
        row: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if name in ("name", "dest") or value != _DEFAULTS[name]:
                row[name] = list(value) if isinstance(value, tuple) else value
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Option:
        values = dict(row)
        for name in ("aliases", "choices"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return cls(**values)


FLAG_ACTIONS = (
    "store_true",
    "store_false",
    "BooleanOptionalAction",
    "DeprecatedAction",
    "DeprecatedStoreTrueAction",
    "DeprecatedStoreConstAction",
)
_DEFAULTS = asdict(Option(name="", dest=""))


class Schema:
    """The options of one SGLang version."""

    def __init__(self, version: str, options: list[Option], source: str = "venv", notes: list[str] | None = None):
        self.version = version
        self.source = source  # venv | shipped
        self.notes = list(notes or [])
        self.options = sorted(options, key=lambda option: option.name)
        self._by_spelling: dict[str, Option] = {}
        for option in self.options:
            for spelling in option.spellings:
                self._by_spelling.setdefault(spelling, option)
        self._by_dest: dict[str, list[Option]] = {}
        for option in self.options:
            self._by_dest.setdefault(option.dest, []).append(option)

    def __iter__(self) -> Iterator[Option]:
        return iter(self.options)

    def __len__(self) -> int:
        return len(self.options)

    def spellings(self) -> list[str]:
        return list(self._by_spelling)

    def exact(self, spelling: str) -> Option | None:
        return self._by_spelling.get(spelling)

    def by_dest(self, dest: str) -> Option | None:
        """The option that fills a field of ServerArgs; the living one where a deprecated spelling fills it too."""
        found = self._by_dest.get(dest, [])
        living = [option for option in found if not option.deprecated]
        candidates = living or found
        return candidates[0] if candidates else None

    def prefixed(self, spelling: str) -> list[Option]:
        """What argparse would take ``spelling`` for, were it an abbreviation."""
        found: dict[str, Option] = {}
        for full, option in self._by_spelling.items():
            if full.startswith(spelling):
                found[option.name] = option
        return list(found.values())

    def at_least(self, version: str) -> bool:
        return version_key(self.version) >= version_key(version)


@dataclass(frozen=True)
class Argument:
    """An option with its value and the layer that it came from."""

    option: Option
    value: Any
    origin: str

    @property
    def key(self) -> str:
        return self.option.key


@dataclass(frozen=True)
class Problem:
    """Why an argument can't be used, and what to write instead."""

    option: str
    problem: str
    message: str
    cure: str
    origin: str
    detail: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        row = asdict(self)
        row.update(row.pop("detail"))
        return row
