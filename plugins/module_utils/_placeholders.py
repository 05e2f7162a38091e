# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Where a secret belongs stands its placeholder; the secret takes its place at the last moment, as a file is written.

``launch_args_info`` writes placeholders, ``server`` fills them in, so that results, facts and logs carry no secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ._errors import LlmHostError

_PLACEHOLDER = re.compile(r"@llmhost-secret:([a-z_]+)@")
# In YAML a placeholder is a double-quoted scalar of its own; what stands elsewhere is filled as it is.
_IN_YAML = re.compile('"' + _PLACEHOLDER.pattern + '"|' + _PLACEHOLDER.pattern)


def placeholder(name: str) -> str:
    return f"@llmhost-secret:{name}@"


def names(text: str) -> list[str]:
    """The secrets that a text waits for."""
    return _PLACEHOLDER.findall(text)


def masked(text: str, mask: str) -> str:
    """The text for people."""
    return _PLACEHOLDER.sub(mask, text)


def fill(text: str, secrets: Mapping[str, str], option: str) -> str:
    """A word of a command, or a value of an environment, with its secrets."""
    return _PLACEHOLDER.sub(lambda found: _value(found.group(1), secrets, option), text)


def fill_yaml(text: str, secrets: Mapping[str, str], option: str) -> str:
    """A configuration file with its secrets. A secret that looks like a placeholder is not filled again."""

    def value(found: re.Match[str]) -> str:
        quoted, bare = found.groups()
        return yaml_text(_value(quoted, secrets, option)) if quoted else _value(bare, secrets, option)

    return _IN_YAML.sub(value, text)


def _value(name: str, secrets: Mapping[str, str], option: str) -> str:
    if name not in secrets:
        raise LlmHostError(
            "secret_missing",
            f"{option} waits for the secret {name!r}: give it in 'secrets', as to launch_args_info",
            option=option,
        )
    return str(secrets[name])


def yaml_text(value: str) -> str:
    """A double-quoted YAML scalar in ASCII: the value comes back byte for byte, whatever is in it."""
    parts = []
    for character in value:
        code = ord(character)
        if character in '"\\':
            parts.append("\\" + character)
        elif 0x20 <= code < 0x7F:
            parts.append(character)
        elif code <= 0xFF:
            parts.append(f"\\x{code:02x}")
        elif code <= 0xFFFF:
            parts.append(f"\\u{code:04x}")
        else:
            parts.append(f"\\U{code:08x}")
    return '"' + "".join(parts) + '"'
