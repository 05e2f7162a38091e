# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The option tables that ship with the collection, one file a version, written by script/options-table.

A row is a line: the option, then what differs from the defaults of ``Option`` as JSON. Lines that start with blanks
belong to the row above. Imports are inside the functions: a module that has the venv at hand reads no table.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable

from ..model import Option, version_key

AVAILABLE = ("0.4.6.post5", "0.5.9", "0.5.18", "0.5.23")


def load(version: str) -> list[Option]:
    """The options of one of ``AVAILABLE``."""
    return parse(_text(version))


def nearest(version: str) -> str:
    """The newest table that is not newer than ``version``; the oldest where all are newer."""
    key = version_key(version)
    older = [name for name in AVAILABLE if version_key(name) <= key]
    return older[-1] if older else AVAILABLE[0]


def parse(text: str) -> list[Option]:
    rows: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            rows[-1] += " " + line.strip()
        elif line:
            rows.append(line)
    options = []
    for row in rows:
        name, _blank, facts = row.partition(" ")
        values = json.loads(facts) if facts else {}
        values.setdefault("dest", name[2:].replace("-", "_"))
        options.append(Option.from_dict({"name": name, **values}))
    return options


def dump(options: Iterable[Option], width: int = 116) -> str:
    """The text of a table; ``parse`` gives the options back."""
    lines: list[str] = []
    for option in sorted(options, key=lambda item: item.name):
        facts = option.as_dict()
        name = facts.pop("name")
        if facts["dest"] == name[2:].replace("-", "_"):
            del facts["dest"]
        row = name + (" " + json.dumps(facts) if facts else "")
        lines.extend(
            textwrap.wrap(row, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        )
    return "\n".join(lines) + "\n"


def _text(version: str) -> str:
    if version == "0.4.6.post5":
        from . import v0_4_6_post5

        return v0_4_6_post5.TABLE
    if version == "0.5.9":
        from . import v0_5_9

        return v0_5_9.TABLE
    if version == "0.5.18":
        from . import v0_5_18

        return v0_5_18.TABLE
    if version == "0.5.23":
        from . import v0_5_23

        return v0_5_23.TABLE
    raise KeyError(version)
