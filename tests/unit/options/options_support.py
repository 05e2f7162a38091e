# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of this room share: fixture packages as venvs, and options held against a parser."""

from __future__ import annotations

import functools
import pathlib
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._options import schema
from ansible_collections.llmhost.sglang.plugins.module_utils._options.model import Option, Schema

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
DATA = HERE / "data"
STYLES = ("hand_written", "annotated", "structs")


def make_venv(folder: pathlib.Path, style: str | None, version: str = "9.9.1", name: str = "venv") -> pathlib.Path:
    """A venv that holds a fixture package (``None``: metadata only, as the lab's replayer has it)."""
    packages = folder / name / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    if style is not None:
        shutil.copytree(FIXTURES / style / "sglang", packages / "sglang", ignore=shutil.ignore_patterns("__pycache__"))
    info = packages / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: sglang\nVersion: {version}\n\nVersion: not this\n")
    return folder / name


@functools.cache
def shipped(version: str) -> Schema:
    return schema.shipped(version)


def differences(options: Iterable[Option], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Where extracted options and the actions of a real parser (options_real_parser.py) are not the same."""
    mine = {option.name: option for option in options}
    theirs = {next(s for s in row["spellings"] if s.startswith("--")): row for row in rows}
    found = [f"missing {name}" for name in sorted(set(theirs) - set(mine))]
    found += [f"extra {name}" for name in sorted(set(mine) - set(theirs))]
    for name in sorted(set(mine) & set(theirs)):
        option, row = mine[name], theirs[name]
        flag = option.is_flag
        pairs: dict[str, tuple[Any, Any]] = {
            "spellings": (sorted(option.spellings), sorted(row["spellings"])),
            "dest": (option.dest, row["dest"]),
            "action": (option.action, row["action"]),
            "type": (None if flag else option.type.split(".")[-1], row["type"] or (None if flag else "str")),
            "nargs": (0 if flag else option.nargs, row["nargs"] if option.action != "BooleanOptionalAction" else 0),
            "choices": (_sorted(option.choices), _sorted(row["choices"])),
            "required": (option.required, row["required"]),
        }
        if option.default_known:
            pairs["default"] = (_plain(option.default), row["default"])
        if option.nargs == "?":
            pairs["const"] = (option.const, row["const"])
        found += [
            f"{name}: {key} is {have!r}, the parser has {want!r}" for key, (have, want) in pairs.items() if have != want
        ]
    return found


def _sorted(values: Iterable[Any] | None) -> list[Any] | None:
    return None if values is None else sorted(values, key=str)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
