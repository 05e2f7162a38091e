# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The whole way: schema, layers, rules, rendering. What module launch_args_info does, without Ansible."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from . import render, rules, schema
from .arguments import Layer, collect
from .facts import facts, read_model
from .model import Problem, Schema

MAX_IN_MESSAGE = 5


@dataclass
class Request:
    """What is wanted, as the module's parameters give it."""

    venv: str | None = None
    sglang_version: str | None = None
    python: str | None = None
    layers: list[Layer] = field(default_factory=list)
    extra_args: list[str] = field(default_factory=list)
    secrets: dict[str, Any] = field(default_factory=dict)
    config_path: str | None = None
    allow_secret_in_argv: bool = False
    allow_open: bool = False
    gpus: list[Any] | None = None
    gpu_count: int | None = None
    running_argv: list[str] | None = None
    ignore_rules: list[str] = field(default_factory=list)
    check_mode: bool = False


def launch(request: Request) -> dict[str, Any]:
    """What the module returns.

    Raises ``LlmHostError``: ``arguments_invalid`` (details ``errors``) and those of ``schema.load`` and ``read_model``.
    """
    known = schema.load(request.venv, request.sglang_version, not request.check_mode, request.check_mode)
    collected = collect(known, request.layers, request.extra_args)
    problems = list(collected.problems)
    indices, listed, problem = _gpus(request.gpus)
    if problem is not None:
        problems.append(problem)
    count = request.gpu_count if request.gpu_count is not None else (len(listed) if indices is not None else None)
    model, note = read_model(collected.value("model_path"))
    ignored = [*request.ignore_rules, *(["open_without_key"] if request.allow_open else [])]
    checked = rules.check(facts(known, collected, model, count, listed, sorted(request.secrets)), ignored)
    problems += checked.problems
    problems += render.secret_problems(known, request.secrets, request.config_path, request.allow_secret_in_argv)
    if not any(row.option == "model_path" for row in problems):
        problems += _missing_model(collected.value("model_path"))

    in_file, in_argv = _placed(known, request.secrets)
    python = request.python or (os.path.join(request.venv, "bin", "python") if request.venv else "python3")
    argv = render.argv(python, collected, request.config_path if in_file else None, in_argv)
    result: dict[str, Any] = {
        "argv": argv,
        "command": render.command(argv),
        "environment": render.environment(indices, request.secrets),
        "config_file": render.config_file(in_file),
        "config_path": request.config_path if in_file else None,
        "secrets_used": sorted(request.secrets),
        "arguments": render.shown(collected, [*in_file, *in_argv]),
        "hidden_defaults": checked.hidden_defaults,
        "changes": render.changes(known, request.running_argv, collected) if request.running_argv else [],
        "sglang_version": known.version,
        "schema_source": known.source,
        "notes": [*known.notes, *collected.notes, *checked.notes, *([note] if note else [])],
    }
    problems += _masked_by_accident(result, request.secrets)
    if problems:
        raise LlmHostError(
            "arguments_invalid",
            _summary(problems, known.version),
            errors=[row.as_dict() for row in problems],
            sglang_version=known.version,
            schema_source=known.source,
            notes=result["notes"],
        )
    return result


def _placed(known: Schema, secrets: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Which secrets go into the configuration file, and which this version takes on the command line only."""
    names = sorted(name for name in secrets if name not in render.ENVIRONMENT_SECRETS)
    return (names, []) if known.at_least(render.CONFIG_SINCE) else ([], names)


def _missing_model(model_path: Any) -> list[Problem]:
    if model_path:
        return []
    cure = "give 'model_path': the folder of the weights or a repository name"
    return [Problem("model_path", "missing", "no model is named", cure, "parameters")]


def _gpus(given: Sequence[Any] | None) -> tuple[list[int] | None, list[Mapping[str, Any]], Problem | None]:
    """The indices of the GPUs for this server and what is known of them."""
    if given is None:
        return None, [], None
    indices: list[int] = []
    listed: list[Mapping[str, Any]] = []
    for item in given:
        gpu: Mapping[str, Any] = item if isinstance(item, Mapping) else {"index": item}
        try:
            index = int(gpu.get("index"))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            index = -1
        if index < 0 or isinstance(gpu.get("index"), bool):
            shown = json.dumps(item, default=str)[:80]
            message = f"{shown} is no GPU: an index, or an element of gpu_info's 'gpus', is wanted"
            return None, [], Problem("gpus", "wrong_type", message, "write for example gpus: [0, 1]", "parameters")
        if index in indices:
            message = f"GPU {index} is listed twice"
            return None, [], Problem("gpus", "duplicate", message, "list each GPU once", "parameters")
        indices.append(index)
        listed.append(gpu)
    return indices, listed, None


def _masked_by_accident(result: Mapping[str, Any], secrets: Mapping[str, Any]) -> list[Problem]:
    """Ansible masks every occurrence of a secret in a result: one that is part of an argument would break it."""
    text = json.dumps([result["argv"], result["environment"], result["config_file"], result["arguments"]])
    return [
        Problem(
            name,
            "secret_too_common",
            f"{name} also occurs inside the arguments or paths of this server, where it would be masked as well",
            "choose a longer, random one",
            "secrets",
        )
        for name, value in secrets.items()
        if isinstance(value, str) and value and json.dumps(value)[1:-1] in text
    ]


def _summary(problems: Sequence[Problem], version: str) -> str:
    shown = [f"{row.message} ({row.cure}) [{row.origin}]" for row in problems[:MAX_IN_MESSAGE]]
    more = f"; and {len(problems) - MAX_IN_MESSAGE} more" if len(problems) > MAX_IN_MESSAGE else ""
    count = "1 argument is" if len(problems) == 1 else f"{len(problems)} arguments are"
    return f"{count} not usable with SGLang {version}: " + "; ".join(shown) + more
