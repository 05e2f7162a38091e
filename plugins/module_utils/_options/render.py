# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Arguments -> the command as a list, the command for people, the environment and the configuration file.

Secrets are never in any of them. Where one belongs stands a placeholder; whoever writes the file, the unit or the
environment fills it in at the last moment (``_placeholders``), so results, facts and logs carry none.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .._placeholders import masked, placeholder, yaml_text
from . import values
from .arguments import SECRETS, Collected, parse_argv
from .model import Argument, Problem, Schema

CONFIG_SINCE = "0.5.3"
ENTRY_POINT = ("-m", "sglang.launch_server")  # in every version; `sglang serve` can't take model_path from a file
FIRST = ("model_path", "served_model_name", "host", "port")
ENVIRONMENT_SECRETS = {"hf_token": "HF_TOKEN"}
MASK = "********"


def ordered(collected: Collected) -> list[Argument]:
    """The same arguments always in the same order, so that a unit changes only when an argument does."""

    def rank(argument: Argument) -> tuple[int, str]:
        key = argument.key
        return (FIRST.index(key) if key in FIRST else len(FIRST), argument.option.name)

    return sorted(collected.arguments.values(), key=rank)


def argv(
    python: str,
    collected: Collected,
    config_path: str | None = None,
    on_argv: Sequence[str] = (),
) -> list[str]:
    """The command. ``on_argv``: secrets that this version can take there only (their placeholders)."""
    words = [python, *ENTRY_POINT]
    if config_path is not None:
        words += ["--config", config_path]  # two words: SGLang does not see --config=PATH
    for argument in ordered(collected):
        words += values.tokens(argument.option, argument.value)
    for name in on_argv:
        words += ["--" + name.replace("_", "-"), placeholder(name)]
    return words


def command(words: Sequence[str]) -> str:
    """For people: quoted for a shell, secrets masked."""
    return " ".join(shlex.quote(masked(word, MASK)) for word in words)


def config_file(names: Sequence[str]) -> str | None:
    """The YAML for ``--config`` with a placeholder for each secret; ``None`` where there is none."""
    if not names:
        return None
    lines = ["# Secrets of this server. Written by llmhost.sglang; mode 0600.\n"]
    lines += [f"{name.replace('_', '-')}: {yaml_text(placeholder(name))}\n" for name in names]
    return "".join(lines)


def environment(gpu_indices: Sequence[int] | None, secrets: Mapping[str, str]) -> dict[str, str]:
    """What the server finds in its environment.

    The GPUs go by index: SGLang's all-reduce reads CUDA_VISIBLE_DEVICES as integers, so UUIDs break it. The order is
    pinned to that of the PCI bus, which is the order of gpu_info.
    """
    result = {}
    if gpu_indices is not None:
        result["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        result["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in gpu_indices)
    for name, variable in ENVIRONMENT_SECRETS.items():
        if name in secrets:
            result[variable] = placeholder(name)
    return result


def secret_problems(
    schema: Schema, secrets: Mapping[str, Any], config_path: str | None, allow_argv: bool
) -> list[Problem]:
    """What is wrong with the secrets, without ever saying one."""
    problems = []

    def problem(name: str, kind: str, message: str, cure: str) -> None:
        problems.append(Problem(name, kind, message, cure, "secrets"))

    for name, value in secrets.items():
        if name in ENVIRONMENT_SECRETS:
            if not isinstance(value, str) or not value.strip() or not value.isprintable():
                problem(
                    name, "wrong_type", f"{name} must be printable text that is not empty", "correct it or leave it out"
                )
            continue
        option = schema.exact("--" + name.replace("_", "-"))
        if name not in SECRETS:
            known = ", ".join([*SECRETS, *ENVIRONMENT_SECRETS])
            problem(name, "unknown", f"{name} is not a secret that SGLang takes", f"known: {known}")
        elif option is None:
            problem(
                name, "unknown", f"SGLang {schema.version} has no option --{name.replace('_', '-')}", "leave it out"
            )
        elif not isinstance(value, str) or not value:
            problem(name, "wrong_type", f"{name} must be text that is not empty", "quote it, or leave it out")
        elif value.startswith("-"):
            problem(name, "wrong_type", f"{name} begins with a dash: SGLang takes it for an option", "choose another")
        elif "\0" in value or any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            problem(name, "wrong_type", f"{name} holds a character that no argument can carry", "choose another")
        elif schema.at_least(CONFIG_SINCE):
            if config_path is None:
                problem(name, "no_config_path", f"{name} needs a configuration file", "give 'config_path'")
            elif not config_path.endswith((".yaml", ".yml")):
                problem("config_path", "wrong_type", "SGLang reads only *.yaml or *.yml", f"write {config_path}.yaml")
        elif not allow_argv:
            problem(
                name,
                "secret_on_argv",
                f"SGLang {schema.version} takes {name} on the command line only, where every user of the host reads it",
                f"install {CONFIG_SINCE} or later, or accept that with allow_secret_in_argv: true",
            )
    return problems


def changes(schema: Schema, running: Sequence[str], collected: Collected) -> list[dict[str, Any]]:
    """What differs from the command that the running server was started with; secrets only by name."""
    before = parse_argv(schema, running).arguments
    after = collected.arguments
    known_options = {name: argument.option for name, argument in {**before, **after}.items()}
    rows = []
    for name in sorted(known_options):
        old, new = before.get(name), after.get(name)
        option = known_options[name]
        if option.key in (*SECRETS, "config"):
            continue
        if _effective(old) != _effective(new):
            rows.append(
                {
                    "option": option.key,
                    "before": old.value if old else None,
                    "after": new.value if new else None,
                    "origin": new.origin if new else None,
                }
            )
    return rows


def _effective(argument: Argument | None) -> Any:
    if argument is None:
        return None
    return values.tokens(argument.option, argument.value)


def shown(collected: Collected, secrets: Sequence[str]) -> list[dict[str, Any]]:
    """The arguments as the module returns them."""
    rows = [
        {"option": argument.key, "value": argument.value, "origin": argument.origin} for argument in ordered(collected)
    ]
    return rows + [{"option": name, "value": MASK, "origin": "secrets"} for name in secrets]
