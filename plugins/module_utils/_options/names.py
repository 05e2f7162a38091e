# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""From what somebody wrote (``tp_size``, ``tp-size``, ``--tensor-parallel-size``, an abbreviation) to one option."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from . import history, tables
from .model import Option, Problem, Schema, version_key


@dataclass(frozen=True)
class Named:
    """The option that a name stands for; ``negated`` where it was written as ``--no-x``."""

    option: Option
    negated: bool = False
    note: str | None = None


def spelling_of(key: str) -> str:
    return "--" + key.strip().lstrip("-").replace("_", "-")


def key_of(spelling: str) -> str:
    return spelling.lstrip("-").replace("-", "_")


def resolve(schema: Schema, written: object, origin: str) -> Named | Problem:
    """The option for a name as written, or why there is none."""
    if not isinstance(written, str) or not written.strip("- \t"):
        return Problem(
            str(written),
            "unknown",
            f"{written!r} is not the name of an option",
            "quote the name: YAML reads on, off, yes, no and numbers as other things than text",
            origin,
        )
    spelling = spelling_of(written)
    key = key_of(spelling)
    option = schema.exact(spelling)
    if option is not None:
        return Named(option, option.is_flag and spelling not in _positive(option))
    option = schema.by_dest(key)
    if option is not None:
        return Named(option)
    for partner in history.partners(key):
        option = schema.exact(spelling_of(partner))
        if option is not None:
            note = f"{key} is called {option.key} in SGLang {schema.version}; it is rendered as {option.name}"
            return Named(option, note=note)
    candidates = schema.prefixed(spelling)
    if len(candidates) == 1:
        option = candidates[0]
        note = f"{written} was taken for {option.name}: write it out, a later SGLang may have others that begin like it"
        return Named(option, spelling.startswith("--no-") and option.negation is not None, note)
    if candidates:
        names = sorted(option.key for option in candidates)
        return Problem(
            key,
            "ambiguous",
            f"{written} could mean {_listed(names)}",
            "write the whole name",
            origin,
            {"candidates": names},
        )
    return _unknown(schema, key, spelling, origin)


def removed(option: Option, schema: Schema, origin: str) -> Problem:
    """The parser still knows the option, only to refuse it."""
    advice = history.cure(option.key) or "leave it out"
    message = f"SGLang {schema.version} refuses {option.name}: it was removed"
    return Problem(option.key, "removed", message, advice, origin)


def _unknown(schema: Schema, key: str, spelling: str, origin: str) -> Problem:
    known_in = history.versions_with(spelling)
    detail = {"known_in": known_in} if known_in else {}
    now = version_key(schema.version)
    if known_in and all(version_key(version) < now for version in known_in):
        return Problem(
            key,
            "removed",
            f"SGLang {schema.version} no longer has {spelling} (known in {_span(known_in)})",
            history.cure(key) or f"leave it out{_nearest_hint(schema, key)}",
            origin,
            detail,
        )
    if known_in and all(version_key(version) > now for version in known_in):
        return Problem(
            key,
            "unknown",
            f"SGLang {schema.version} does not have {spelling} yet (known in {_span(known_in)})",
            "leave it out, or install a newer SGLang",
            origin,
            detail,
        )
    near = nearest(schema, key)
    cure = f"did you mean {_listed(near, 'or')}?" if near else "see the options of this version with --help"
    return Problem(
        key, "unknown", f"SGLang {schema.version} has no option {spelling}", cure, origin, {**detail, "nearest": near}
    )


def nearest(schema: Schema, key: str) -> list[str]:
    """Names of this version that look like ``key``, best first; parts in another order count too."""
    keys = sorted({key_of(spelling) for spelling in schema.spellings()})
    found = difflib.get_close_matches(key, keys, n=3, cutoff=0.7)
    words = set(key.split("_"))
    if len(words) > 1:
        found += [other for other in keys if set(other.split("_")) == words and other not in found]
    return found[:3]


def _nearest_hint(schema: Schema, key: str) -> str:
    near = nearest(schema, key)
    return f", or use what took its place (near: {', '.join(near)})" if near else ""


def _span(versions: list[str]) -> str:
    if len(versions) == 1:
        return versions[0]
    every = list(tables.AVAILABLE)
    first, last = every.index(versions[0]), every.index(versions[-1])
    if every[first : last + 1] == versions:
        return f"{versions[0]} to {versions[-1]}"
    return ", ".join(versions)


def _positive(option: Option) -> tuple[str, ...]:
    if option.action != "BooleanOptionalAction":
        return option.spellings
    return tuple(spelling for spelling in option.spellings if not spelling.startswith("--no-"))


def _listed(names: list[str], word: str = "or") -> str:
    shown = names[:8]
    if len(names) > 8:
        return ", ".join(shown) + f" and {len(names) - 8} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + f" {word} " + shown[-1]
