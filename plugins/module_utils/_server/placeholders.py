# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Secrets take the place of their placeholders at the last moment, when a file is written."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._errors import LlmHostError

_PLACEHOLDER = re.compile(r"@llmhost-secret:([a-z_]+)@")


def names(text: str) -> list[str]:
    """The secrets that a text waits for."""
    return _PLACEHOLDER.findall(text)


def fill(text: str, secrets: Mapping[str, str], option: str) -> str:
    """The text with its secrets."""
    return _PLACEHOLDER.sub(lambda found: _value(found.group(1), secrets, option), text)


def fill_yaml(text: str, secrets: Mapping[str, str], option: str) -> str:
    """The same for YAML, where placeholders stand as double-quoted scalars of their own."""

    def scalar(found: re.Match[str]) -> str:
        return _yaml(_value(found.group(1), secrets, option))

    return fill(re.sub('"' + _PLACEHOLDER.pattern + '"', scalar, text), secrets, option)


def _value(name: str, secrets: Mapping[str, str], option: str) -> str:
    if name not in secrets:
        raise LlmHostError(
            "secret_missing",
            f"{option} waits for the secret {name!r}: give it in 'secrets', as to launch_args_info",
            option=option,
        )
    return str(secrets[name])


def _yaml(value: str) -> str:
    """A double-quoted scalar in ASCII."""

    def escape(char: str) -> str:
        code = ord(char)
        if char in '"\\':
            return "\\" + char
        if 0x20 <= code < 0x7F:
            return char
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

    return '"' + "".join(map(escape, value)) + '"'
