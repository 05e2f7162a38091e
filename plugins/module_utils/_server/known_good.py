# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The arguments of an instance that last reached ready: kept in its state, without any secret, to return to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .. import _placeholders as placeholders
from .._process import identity
from . import files, request
from .instance import WantedFile

SCHEMA = 1
FILE = "known_good.json"
# What belongs to one start and is no difference.
OF_ONE_START = ("recorded_at", "invocation_id")


def path_of(state_dir: str, name: str) -> str:
    return f"{state_dir.rstrip('/')}/instances/{name}/{FILE}"


def read(state_dir: str, name: str) -> dict[str, Any] | None:
    """The record; ``None`` where there is none, or one that another version of this collection has written."""
    found = files.look(path_of(state_dir, name))
    if found is None:
        return None
    try:
        record = json.loads(found.content)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get("schema") == SCHEMA else None


def launch(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What ``server`` needs to start it again. Secrets by reference: a placeholder, or the name of a variable.

    ``None`` where the arguments themselves hold a secret: then nothing is kept to return to.
    """
    argv = [str(word) for word in given["argv"]]
    masked = identity.mask_arguments(argv)
    if any(before != after and not placeholders.names(before) for before, after in zip(argv, masked)):
        return None
    variables = {name: str(value) for name, value in given["environment"].items()}
    hidden = [name for name, value in variables.items() if request.is_secret(name, value)]
    kept = [name for name in hidden if placeholders.names(variables[name])]
    return {
        "argv": argv,
        "environment": {name: value for name, value in variables.items() if name not in hidden or name in kept},
        "secret_environment": sorted(set(hidden) - set(kept)),
        "config_file": given.get("config_file") or None,
        "host": given["host"],
        "port": given["port"],
        "required_paths": [str(path) for path in given["required_paths"]],
    }


def record(given: Mapping[str, Any], remedy: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is kept of a start that reached ready."""
    return {
        "schema": SCHEMA,
        "launch": launch(given),
        "arguments": {str(row["option"]): row.get("value") for row in given["arguments"]},
        "sglang_version": given["sglang_version"],
        "context": dict(given["context"]),
        "remedy": dict(remedy) if remedy else None,
    }


def differs(one: Mapping[str, Any] | None, other: Mapping[str, Any]) -> bool:
    if one is None:
        return True
    told = {name: value for name, value in one.items() if name not in OF_ONE_START}
    return bool(told != json.loads(json.dumps(dict(other))))


def same_launch(one: Mapping[str, Any] | None, other: Mapping[str, Any]) -> bool:
    """Whether both start the same: then there is nothing to return to."""
    return one is not None and one.get("launch") == json.loads(json.dumps(other.get("launch")))


def write(state_dir: str, name: str, told: Mapping[str, Any]) -> None:
    text = json.dumps(told, indent=1, sort_keys=True) + "\n"
    files.replace(WantedFile(path_of(state_dir, name), text.encode(), 0o600))
