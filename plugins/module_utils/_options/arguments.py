# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Layers of arguments, merged in order; every problem of every layer collected, each argument with its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import names, values
from .model import Argument, Option, Problem, Schema

REMEDY = "remedy"  # the layer in which a null takes an argument away, as Remedy.arguments says

# What must not be readable by everybody on the host. They travel as `secrets`, never as `arguments`.
SECRETS = ("api_key", "admin_api_key", "ssl_keyfile_password")

# A path, and no abbreviation of ssl_keyfile_password.
BEGINS_LIKE_A_SECRET = ("ssl_keyfile",)

# Options that take a file or JSON, where the JSON would hold a key.
SECRET_INSIDE = ("watermark_config",)

# Options that this collection sets itself, and where to say it instead.
MANAGED = {
    "config": "put its keys into 'arguments'; 'config_path' is where the secrets of this server go",
    "help": "take it out",
    "h": "take it out",
    "version": "take it out",
}


@dataclass(frozen=True)
class Layer:
    """Arguments that one source asks for; ``unset`` takes away what earlier layers asked for."""

    origin: str
    arguments: Mapping[str, Any]
    unset: Sequence[str] = ()


def misplaced_secrets(layers: Sequence[Layer], extra: Sequence[str]) -> list[str]:
    """Secrets that stand where they are refused: they must be masked in what is said about it all the same."""
    found: list[Any] = []
    for layer in layers:
        found += [value for written, value in layer.arguments.items() if _may_be_secret(written)]
    words = [str(word) for word in extra]
    for position, word in enumerate(words):
        spelling, equals, attached = word.replace(" ", "=", 1).partition("=")
        if _may_be_secret(spelling):
            found += [attached] if equals else words[position + 1 : position + 2]
    return [str(value) for value in found if isinstance(value, (str, int, float)) and str(value).strip()]


def _may_be_secret(written: Any) -> bool:
    """Abbreviations too, as argparse takes them; an option whose whole name begins a secret's is none."""
    key = names.key_of(names.spelling_of(written)) if isinstance(written, str) else ""
    return len(key) > 4 and key not in BEGINS_LIKE_A_SECRET and any(secret.startswith(key) for secret in SECRETS)


@dataclass
class Collected:
    arguments: dict[str, Argument] = field(default_factory=dict)  # by the name of the option
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def value(self, key: str, default: Any = None) -> Any:
        for argument in self.arguments.values():
            if argument.key == key or argument.option.dest == key:
                return argument.value
        return default

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def collect(schema: Schema, layers: Sequence[Layer], extra: Sequence[str] = ()) -> Collected:
    """Merge the layers (the later wins), then the words of ``extra``."""
    collected = Collected()
    for layer in layers:
        _collect_layer(schema, layer, collected)
    for argument in _words(schema, extra, "extra_args", collected):
        _keep(argument, collected)
    return collected


def parse_argv(schema: Schema, argv: Sequence[str]) -> Collected:
    """The arguments of a command that was rendered or typed before; the interpreter and ``-m`` are skipped."""
    collected = Collected()
    start = next((index for index, word in enumerate(argv) if word.startswith("--")), len(argv))
    for argument in _words(schema, argv[start:], "argv", collected, lenient=True):
        _keep(argument, collected)
    return collected


def _collect_layer(schema: Schema, layer: Layer, collected: Collected) -> None:
    seen: dict[str, str] = {}
    for written in layer.unset:
        unwanted = names.resolve(schema, written, layer.origin)
        if isinstance(unwanted, Problem):
            collected.problems.append(unwanted)
        else:
            collected.arguments.pop(unwanted.option.name, None)
    for written, value in layer.arguments.items():
        named = _named(schema, written, layer.origin, collected)
        if named is None:
            continue
        option = named.option
        if option.name in seen:
            collected.problems.append(
                Problem(
                    option.key,
                    "duplicate",
                    f"{seen[option.name]} and {written} are the same option",
                    "keep one of them",
                    layer.origin,
                )
            )
            continue
        seen[option.name] = str(written)
        if value is None and layer.origin == REMEDY:
            collected.arguments.pop(option.name, None)
            continue
        if named.negated:
            value = _negate(value)
        _take(schema, option, value, layer.origin, collected)


def _named(schema: Schema, written: Any, origin: str, collected: Collected) -> names.Named | None:
    """The option, unless it may not be given here; problems and notes go to ``collected``."""
    key = names.key_of(names.spelling_of(written)) if isinstance(written, str) else ""
    if key in MANAGED:
        collected.problems.append(Problem(key, "not_allowed", f"{key} can't be given here", MANAGED[key], origin))
        return None
    named = names.resolve(schema, written, origin)
    if isinstance(named, Problem):
        collected.problems.append(named)
        return None
    if named.option.key in SECRETS:
        collected.problems.append(
            Problem(
                named.option.key,
                "secret",
                f"{named.option.key} is a secret: in 'arguments' it would be in logs and in the process list",
                f"give it as secrets: {{{named.option.key}: ...}} and name 'config_path'",
                origin,
            )
        )
        return None
    if named.option.removed:
        collected.problems.append(names.removed(named.option, schema, origin))
        return None
    if named.note:
        collected.note(named.note)
    return named


def _take(
    schema: Schema, option: Option, value: Any, origin: str, collected: Collected, from_text: bool = False
) -> None:
    converted = _converted(option, value, origin, from_text)
    if isinstance(converted, Problem):
        collected.problems.append(converted)
        return
    _keep(_modernised(schema, Argument(option, converted, origin), collected), collected)


def _converted(option: Option, value: Any, origin: str, from_text: bool = False) -> Any:
    if option.key in SECRET_INSIDE and (isinstance(value, Mapping) or str(value).lstrip().startswith("{")):
        return Problem(
            option.key,
            "secret",
            f"the JSON of {option.key} holds a key, which would be readable in the process list",
            "write it to a file that only the server's user can read, and give its path",
            origin,
        )
    return values.convert(option, value, origin, from_text)


def _keep(argument: Argument, collected: Collected) -> None:
    option = argument.option
    off = argument.value is False if option.nargs == "?" else option.is_flag and not argument.value
    if off and option.negation is None:
        collected.arguments.pop(option.name, None)  # a switch that is off is not written
        return
    collected.arguments[option.name] = argument


def _modernised(schema: Schema, argument: Argument, collected: Collected) -> Argument:
    """Write a deprecated option under its new name where that says exactly the same; else note it."""
    option = argument.option
    if not option.deprecated:
        return argument
    instead = option.replaced_by or ""
    name, _equals, value = instead.partition("=")
    new = schema.exact(name)
    if new is not None and not (option.is_flag and not argument.value):
        if value and option.is_flag:
            converted = values.convert(new, value, argument.origin)
        elif value or new.is_flag != option.is_flag:
            converted = None
        else:
            converted = values.convert(new, argument.value, argument.origin)
        if converted is not None and not isinstance(converted, Problem):
            collected.note(f"{option.key} is deprecated in SGLang {schema.version}; it is rendered as {new.name}")
            return Argument(new, converted, argument.origin)
    hint = f"; use {instead}" if instead else ""
    collected.note(f"{option.key} is deprecated in SGLang {schema.version}{hint}")
    return argument


def _negate(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() != "true"
    return value


def _words(
    schema: Schema, words: Sequence[str], origin: str, collected: Collected, lenient: bool = False
) -> list[Argument]:
    """Read words as argparse does. ``lenient``: skip what is unknown, secret or managed instead of refusing it."""
    found: list[Argument] = []
    scratch = Collected()
    sink = scratch if lenient else collected
    position = 0
    while position < len(words):
        word = str(words[position])
        position += 1
        if not word.startswith("--") or word == "--":
            sink.problems.append(_stray(word, origin))
            continue
        if " " in word.split("=", 1)[0]:
            sink.problems.append(_unsplit(word, origin))
            continue
        spelling, equals, attached = word.partition("=")
        following: list[str] = []
        while position + len(following) < len(words) and _is_value(str(words[position + len(following)])):
            following.append(str(words[position + len(following)]))
        named = _known(schema, spelling, origin) if lenient else _named(schema, spelling, origin, sink)
        if named is None:
            position += len(following)  # its values say nothing without it
            continue
        given = [attached] if equals else following
        value, used, problem = _value_for(named, given, bool(equals), origin)
        position += 0 if equals else used
        if problem is not None:
            sink.problems.append(problem)
            continue
        converted = _converted(named.option, value, origin, from_text=True)
        if isinstance(converted, Problem):
            sink.problems.append(converted)
            continue
        argument = Argument(named.option, converted, origin)
        found.append(argument if lenient else _modernised(schema, argument, collected))
    return found


def _known(schema: Schema, spelling: str, origin: str) -> names.Named | None:
    named = names.resolve(schema, spelling, origin)
    return named if isinstance(named, names.Named) and not named.option.removed else None


def _is_value(word: str) -> bool:
    return not word.startswith("-") or values.is_negative_number(word)


def _value_for(named: names.Named, given: list[str], attached: bool, origin: str) -> tuple[Any, int, Problem | None]:
    """The value among the words that follow an option, and how many of them belong to it."""
    option = named.option
    if option.is_flag:
        if attached:
            message = f"{option.name} takes no value, but '{given[0]}' was given"
            return None, 0, Problem(option.key, "flag_with_value", message, f"write {option.name} alone", origin)
        return not named.negated, 0, None
    if option.is_list:
        return given, len(given), None
    if option.nargs == "?" and not given:
        return True, 0, None
    if not given:
        message = f"{option.name} needs a value"
        return None, 0, Problem(option.key, "wrong_arity", message, f"write {option.name} VALUE", origin)
    return given[0], 1, None


def _stray(word: str, origin: str) -> Problem:
    return Problem(
        word[:60],
        "stray_value",
        f"'{word[:60]}' belongs to no option",
        "write the option before it, each word an element of the list of its own",
        origin,
    )


def _unsplit(word: str, origin: str) -> Problem:
    option, _blank, value = word.partition(" ")
    return Problem(
        names.key_of(option),
        "wrong_arity",
        f"'{option}' and its value are one element of the list",
        f"write two elements: ['{option}', '{'...' if names.key_of(option) in SECRETS else value[:60]}']",
        origin,
    )
