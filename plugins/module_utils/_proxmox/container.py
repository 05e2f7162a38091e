# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The configuration file of a container, /etc/pve/lxc/VMID.conf: read, changed, and every other line as it was.

Proxmox reads ``key: value`` lines, comments (together the description) and raw ``lxc.*`` keys (``:`` or ``=``). What
comes before the first ``[section]`` is the container; ``[pve:pending]`` waits for its next start, and every other
section is a snapshot. A plain key that stands twice counts where it stands last; raw keys add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

PENDING = "pve:pending"

# Proxmox reads bytes: only ASCII is space.
_SPACE = " \t\r\f\v"
_HEADER = re.compile(r"\[([A-Za-z][A-Za-z0-9_:\-]+)\]\s*\Z", re.ASCII)
_LXC = re.compile(r"(lxc\.[a-z0-9_.\-]+)(?::|\s*=)\s*(.*?)\s*\Z", re.ASCII)
_PLAIN = re.compile(r"([a-z][a-z_]*[0-9]*):\s*(.+?)\s*\Z", re.ASCII)
_WORDS = re.compile(r"[,;\s\x00]+", re.ASCII)


@dataclass(frozen=True)
class Line:
    """One line as it stands in the file, with its ending, and what Proxmox reads in it."""

    raw: str
    kind: str  # plain, lxc, comment, blank, unknown, header
    key: str = ""
    value: str = ""
    number: int = 0  # from 1; 0 for one that was added

    @property
    def text(self) -> str:
        return self.raw.rstrip("\r\n")


@dataclass(frozen=True)
class Section:
    """The container itself (``name`` is empty), ``pve:pending`` or a snapshot; ``header`` is its ``[name]`` line."""

    name: str
    lines: tuple[Line, ...]
    header: Line | None = None

    @property
    def entries(self) -> tuple[Line, ...]:
        """The lines with a key, in their order."""
        return tuple(line for line in self.lines if line.key)

    @property
    def values(self) -> dict[str, str]:
        """The plain keys with the value that counts."""
        return {line.key: line.value for line in self.lines if line.kind == "plain"}

    @property
    def lxc(self) -> tuple[tuple[str, str], ...]:
        """The raw keys in their order."""
        return tuple((line.key, line.value) for line in self.lines if line.kind == "lxc")

    @property
    def unknown(self) -> tuple[Line, ...]:
        """Lines that Proxmox drops when it next writes the file."""
        return tuple(line for line in self.lines if line.kind == "unknown")


@dataclass(frozen=True)
class Config:
    """A whole file. Changes make a new one; a line that is not named by a change stays byte for byte."""

    sections: tuple[Section, ...]

    @property
    def current(self) -> Section:
        return self.sections[0]

    @property
    def entries(self) -> tuple[Line, ...]:
        """Those of the container itself; pending ones and snapshots have their own in ``sections``."""
        return self.current.entries

    @property
    def pending(self) -> dict[str, str]:
        """Values that wait for the next start, by key; keys that will go are in ``pending_delete``."""
        return {key: value for key, value in self._pending().items() if key != "delete"}

    @property
    def pending_delete(self) -> tuple[str, ...]:
        words = _WORDS.split(self._pending().get("delete", ""))
        return tuple(word.lstrip("!") for word in words if word.lstrip("!"))

    @property
    def snapshots(self) -> tuple[Section, ...]:
        return tuple(section for section in self.sections[1:] if section.name.lower() != PENDING)

    @property
    def after_start(self) -> dict[str, str]:
        """The plain keys as the next start will have them."""
        values = {key: value for key, value in self.current.values.items() if key not in self.pending_delete}
        return {**values, **self.pending}

    def get(self, key: str) -> str | None:
        return self.current.values.get(key)

    def render(self) -> str:
        return render(self)

    # -- changes ------------------------------------------------------------------------------------------------

    def without(self, lines: Iterable[Line]) -> Config:
        """Without these very lines of the container itself."""
        gone = {id(line) for line in lines}
        return self._with(tuple(line for line in self.current.lines if id(line) not in gone))

    def without_key(self, key: str) -> Config:
        return self.without(line for line in self.current.lines if line.key == key)

    def with_value(self, key: str, value: str) -> Config:
        """A plain key with this value, once: in the place that it has, or where Proxmox would sort it."""
        lines = list(self.current.lines)
        there = [index for index, line in enumerate(lines) if line.kind == "plain" and line.key == key]
        if not there:
            return self._insert(self._place(key), self._new(f"{key}: {value}", "plain", key, value))
        last = there[-1]
        if lines[last].value != value:
            ending = lines[last].raw[len(lines[last].text) :]
            lines[last] = replace(lines[last], raw=f"{key}: {value}{ending}", value=value)
        return self._with(tuple(line for index, line in enumerate(lines) if index not in there[:-1]))

    def with_lxc(self, key: str, value: str) -> Config:
        """One raw key more, behind those that are there."""
        return self._insert(self._end(), self._new(f"{key}: {value}", "lxc", key, value))

    # -- how ----------------------------------------------------------------------------------------------------

    def _pending(self) -> dict[str, str]:
        for section in self.sections[1:]:
            if section.name.lower() == PENDING:
                return section.values
        return {}

    def _with(self, lines: tuple[Line, ...]) -> Config:
        return Config((replace(self.current, lines=lines), *self.sections[1:]))

    def _new(self, text: str, kind: str, key: str, value: str) -> Line:
        if "\n" in text or "\r" in text:
            raise ValueError(f"a value of {key} has a line break in it")
        every = [line for section in self.sections for line in ((section.header,) if section.header else ())]
        every += [line for section in self.sections for line in section.lines]
        ending = "\r\n" if any(line.raw.endswith("\r\n") for line in every) else "\n"
        return Line(text + ending, kind, key, value)

    def _insert(self, place: int, new: Line) -> Config:
        lines = list(self.current.lines)
        if place and not lines[place - 1].raw.endswith("\n"):  # the file's last line, which had no ending
            lines[place - 1] = replace(lines[place - 1], raw=lines[place - 1].raw + new.raw[len(new.text) :])
        lines.insert(place, new)
        return self._with(tuple(lines))

    def _place(self, key: str) -> int:
        """Behind the last plain key that sorts before it; else before the first entry; else at the end."""
        places = [i + 1 for i, line in enumerate(self.current.lines) if line.kind == "plain" and line.key < key]
        places = places or [index for index, line in enumerate(self.current.lines) if line.key][:1]
        return places[-1] if places else self._end()

    def _end(self) -> int:
        """Behind the last line that is not blank: the blank one before the first section stays before it."""
        full = [index for index, line in enumerate(self.current.lines) if line.kind != "blank"]
        return full[-1] + 1 if full else 0


def parse(text: str) -> Config:
    """Read a file. Every text can be read, and ``render`` gives it back byte for byte."""
    sections: list[Section] = []
    name = ""
    header: Line | None = None
    lines: list[Line] = []
    pieces = text.split("\n")
    for number, piece in enumerate(pieces, 1):
        raw = piece + "\n" if number < len(pieces) else piece
        if not raw:
            continue
        line = _line(raw, number)
        if line.kind == "header":
            sections.append(Section(name, tuple(lines), header))
            name, header, lines = line.value, line, []
        else:
            lines.append(line)
    sections.append(Section(name, tuple(lines), header))
    return Config(tuple(sections))


def render(config: Config) -> str:
    return "".join(
        (section.header.raw if section.header else "") + "".join(line.raw for line in section.lines)
        for section in config.sections
    )


def _line(raw: str, number: int) -> Line:
    text = raw.rstrip("\n")
    if not text.strip(_SPACE):
        return Line(raw, "blank", number=number)
    if text.startswith("#"):
        return Line(raw, "comment", number=number)
    found = _HEADER.match(text)
    if found:
        return Line(raw, "header", "", found.group(1), number)
    for kind, pattern in (("lxc", _LXC), ("plain", _PLAIN)):
        found = pattern.match(text)
        if found:
            return Line(raw, kind, found.group(1), found.group(2), number)
    return Line(raw, "unknown", number=number)


# ---------------------------------------------------------------- values
def properties(value: str, first: str = "") -> dict[str, str]:
    """``/dev/nvidia0,mode=0666`` as a dict; a part without ``=`` is the value of the key ``first``."""
    found: dict[str, str] = {}
    for part in value.split(","):
        key, equals, rest = part.partition("=")
        if equals and not (first and "/" in key):  # a path may hold "=", a property's name no "/"
            found[key.strip()] = rest.strip()
        elif part.strip():
            found[first] = part.strip()
    return found


def property_text(wanted: dict[str, str], first: str = "") -> str:
    """The inverse: the bare value first, then the others by name, as Proxmox prints them."""
    head = [wanted[first]] if first in wanted else []
    return ",".join(head + [f"{key}={wanted[key]}" for key in sorted(wanted) if key != first])


def same_properties(one: str, other: str, first: str, defaults: dict[str, str]) -> bool:
    """Whether two values mean the same, given what a missing property means."""
    return {**defaults, **properties(one, first)} == {**defaults, **properties(other, first)}
