# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""From what YAML, a survey or a command line gave to the value that SGLang's parser sees; YAML's traps named."""

from __future__ import annotations

import difflib
import json
import math
import re
from decimal import Decimal
from typing import Any

from .model import Option, Problem

# Options that take text which must be JSON, though their type is a plain string.
JSON_TEXT = (
    "deepep_config",
    "hicache_storage_backend_extra_config",
    "hierarchical_sparse_attention_extra_config",
    "hisparse_config",
    "json_model_override_args",
    "kv_events_config",
    "model_loader_extra_config",
    "modelexpress_config",
    "preferred_sampling_params",
    "speculative_adaptive_config",
    "watermark_config",
)
JSON_TYPES = ("json.loads", "json_list_type", "parse_cuda_graph_config_arg", "loads", "orjson.loads")
FALSE_WORDS = ("off", "no", "false", "n")
TRUE_WORDS = ("on", "yes", "true", "y")
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)")
_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")  # what argparse takes for a value although it begins with a dash
_SCALE = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SCALE_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Wrong(Exception):
    """A value that can't be used: the kind of problem, what is wrong, what to write."""

    def __init__(self, problem: str, message: str, cure: str) -> None:
        super().__init__(message)
        self.problem = problem
        self.message = message
        self.cure = cure


def convert(option: Option, value: Any, origin: str, from_text: bool = False) -> Any:
    """The typed value, or a ``Problem``. ``from_text``: it stood on a command line, so everything is text already."""
    try:
        return _convert(option, value, from_text)
    except Wrong as wrong:
        return Problem(option.key, wrong.problem, wrong.message, wrong.cure, origin)


def tokens(option: Option, value: Any) -> list[str]:
    """What stands on the command line for a converted value."""
    if option.is_flag:
        if value:
            return [option.name]
        return [option.negation] if option.negation else []
    if option.is_list:
        return [option.name, *(text_of(item) for item in value)]
    if option.nargs == "?" and value is True:
        return [option.name]
    text = text_of(value)
    if text.startswith("-") and not _NEGATIVE.fullmatch(text):
        return [f"{option.name}={text}"]  # as a word of its own argparse would take it for an option
    return [option.name, text]


def is_negative_number(word: str) -> bool:
    return _NEGATIVE.fullmatch(word) is not None


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    return repr(value) if isinstance(value, float) else str(value)


def _convert(option: Option, value: Any, from_text: bool) -> Any:
    if value is None:
        raise Wrong("null", f"{option.key} has no value (null)", _null_cure(option))
    if option.is_flag:
        return _flag(option, value)
    if option.is_list:
        return _list(option, value, from_text)
    if option.nargs == "?" and isinstance(value, bool):
        return value  # the option alone, or not at all
    if is_json(option):
        return _json(option, value)
    if isinstance(value, (list, tuple)):
        raise Wrong(
            "wrong_arity", f"{option.key} takes one value, not a list", f"write {option.key}: {_example(option)}"
        )
    return _scalar(option, value, from_text)


def is_json(option: Option) -> bool:
    return option.type in JSON_TYPES or option.key in JSON_TEXT


def _flag(option: Option, value: Any) -> bool:
    if isinstance(value, bool):
        if not value and option.default is True and option.negation is None:
            raise Wrong("cannot_unset", f"{option.name} can only switch on", "leave it out")
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"  # what Jinja makes of a boolean
    raise Wrong(
        "flag_with_value",
        f"{option.key} is a switch and takes no value, but {_shown(value)} was given",
        f"write {option.key}: true, or leave it out",
    )


def _list(option: Option, value: Any, from_text: bool) -> list[Any]:
    if option.key == "lora_paths" and isinstance(value, dict):
        value = [f"{name}={path}" for name, path in value.items()]
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not items and option.nargs == "+":
        raise Wrong("wrong_arity", f"{option.key} needs at least one value", "leave it out, or list what it shall have")
    result = []
    for item in items:
        if item is None:
            raise Wrong("null", f"a value of {option.key} is null", "take it out of the list")
        if isinstance(item, dict) and option.type == "str":
            result.append(json.dumps(item, sort_keys=True))
            continue
        if isinstance(item, str) and option.type in ("int", "float") and len(re.split(r"[\s,]+", item.strip())) > 1:
            parts = ", ".join(re.split(r"[\s,]+", item.strip()))
            raise Wrong("wrong_type", f"{option.key} got one text {_shown(item)}", f"write a list: [{parts}]")
        converted = _scalar(option, item, from_text)
        text = text_of(converted)
        if text.startswith("-") and not _NEGATIVE.fullmatch(text):
            raise Wrong(
                "wrong_type",
                f"{_shown(text)} begins with a dash: SGLang would take it for an option",
                f"take it out of {option.key}",
            )
        result.append(converted)
    return result


def _scalar(option: Option, value: Any, from_text: bool) -> Any:
    if isinstance(value, dict):
        raise Wrong("wrong_type", f"{option.key} takes {_kind(option)}, not a mapping", _write(option))
    if isinstance(value, str) and "\0" in value:
        raise Wrong("wrong_type", f"{option.key} holds a NUL character", "take it out")
    if option.choices is not None:
        return _choice(option, value, from_text)
    if option.type == "int":
        return _int(option, value)
    if option.type == "human_readable_int":
        return _human_int(option, value)
    if option.type == "float":
        return _float(option, value)
    return _text(option, value)


def _choice(option: Option, value: Any, from_text: bool) -> Any:
    choices = option.choices or ()
    if isinstance(value, bool):
        words = [choice for choice in choices if str(choice).lower() in (TRUE_WORDS if value else FALSE_WORDS)]
        cure = f'quote it: {option.key}: "{words[0]}"' if words else f"write one of {_all(choices)}, in quotes"
        raise Wrong("yaml_trap", f"YAML read the value of {option.key} as {str(value).lower()}", cure)
    if option.type == "int":
        value = _int(option, value)
    elif option.type == "float":
        value = _float(option, value)
    elif not isinstance(value, str):
        if text_of(value) in choices:
            raise Wrong(
                "yaml_trap",
                f"YAML read the value of {option.key} as a number",
                f'quote it: {option.key}: "{text_of(value)}"',
            )
        value = text_of(value)
    if value in choices:
        return value
    words = [str(choice) for choice in choices]
    same = [word for word in words if word.lower() == str(value).strip().lower()]
    longer = [word for word in words if value and word.startswith(str(value))]
    near = same or longer or difflib.get_close_matches(str(value), words, n=1, cutoff=0.6)
    hint = f"did you mean {' or '.join(near[:3])}? " if near else ""
    raise Wrong("not_a_choice", f"{option.key} can't be {_shown(value)}", f"{hint}choices: {_all(choices)}")


def _int(option: Option, value: Any) -> int:
    if isinstance(value, bool):
        raise Wrong("yaml_trap", f"YAML read the value of {option.key} as {str(value).lower()}", _write(option))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        cure = f"write {option.key}: {int(value)}" if math.isfinite(value) and value == int(value) else _write(option)
        raise Wrong("wrong_type", f"{option.key} takes an integer, not {value!r}", cure)
    text = str(value).strip()
    if _INTEGER.fullmatch(text):
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0":
            raise Wrong(
                "yaml_trap",
                f"{option.key} is {_shown(text)}: YAML reads a leading 0 as octal, SGLang as decimal",
                f"write {option.key}: {int(text)} (decimal) without the leading 0",
            )
        return int(text)
    if re.fullmatch(r"0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+", text):
        number = int(text, 0) if text[1:2].isalpha() else int(text, 8)
        raise Wrong("yaml_trap", f"{option.key} takes a decimal integer, not {_shown(text)}", f"write {number}")
    if re.fullmatch(r"[+-]?\d+(_\d+)+", text):
        raise Wrong("yaml_trap", f"{option.key} takes plain digits, not {_shown(text)}", f"write {int(text)}")
    if _FLOAT.fullmatch(text) and float(text) == int(float(text)):
        raise Wrong("wrong_type", f"{option.key} takes an integer, not {_shown(text)}", f"write {int(float(text))}")
    human = _HUMAN.fullmatch(text)
    if human:
        raise Wrong(
            "wrong_type", f"{option.key} takes plain digits here, not {_shown(text)}", f"write {_scaled(human)}"
        )
    raise Wrong("wrong_type", f"{option.key} takes an integer, not {_shown(value)}", _write(option))


def _human_int(option: Option, value: Any) -> Any:
    found = _HUMAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return _int(option, value)
    if found.group(2) in _SCALE_BINARY and "." in found.group(1):
        raise Wrong("wrong_type", f"{option.key} takes no decimals with {found.group(2)}", f"write {_scaled(found)}")
    return value.strip()


def human_number(value: Any) -> Any:
    """``32k`` -> 32000, ``64Ki`` -> 65536; everything else as it is. For the rules."""
    found = _HUMAN.fullmatch(value) if isinstance(value, str) else None
    return _scaled(found) if found else value


def _scaled(found: re.Match[str]) -> int:
    scale = _SCALE_BINARY.get(found.group(2)) or _SCALE[found.group(2)]
    return int(Decimal(found.group(1)) * scale)


def _float(option: Option, value: Any) -> float:
    if isinstance(value, bool):
        raise Wrong("yaml_trap", f"YAML read the value of {option.key} as {str(value).lower()}", _write(option))
    if isinstance(value, (int, float)):
        number = float(value)
    else:
        text = str(value).strip()
        if text.endswith("%") and _FLOAT.fullmatch(text[:-1]):
            raise Wrong(
                "wrong_type", f"{option.key} takes a fraction, not {_shown(text)}", f"write {float(text[:-1]) / 100:g}"
            )
        if re.fullmatch(r"\d+,\d+", text):
            raise Wrong("wrong_type", f"{option.key} takes a point, not a comma", f"write {text.replace(',', '.')}")
        if not _FLOAT.fullmatch(text):
            raise Wrong("wrong_type", f"{option.key} takes a number, not {_shown(value)}", _write(option))
        number = float(text)
    if not math.isfinite(number):
        raise Wrong("wrong_type", f"{option.key} takes a finite number, not {number!r}", _write(option))
    return number


def _text(option: Option, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise Wrong(
            "yaml_trap",
            f"YAML read the value of {option.key} as {str(value).lower()}",
            f'quote it if that text is meant: {option.key}: "{str(value).lower()}"',
        )
    raise Wrong(
        "yaml_trap",
        f"{option.key} takes text, but YAML read a number ({value!r}; 0123, 1e3 and 12:30 are numbers too)",
        f'quote it: {option.key}: "..."',
    )


def _json(option: Option, value: Any) -> Any:
    """JSON as text, checked; mappings and lists are turned into it when the command line is written."""
    if isinstance(value, str):
        text = value.strip()
        if option.type == "str" and not text.startswith(("{", "[")):
            return value  # a path or a preset name, where the option takes those too
        try:
            parsed = json.loads(text)
        except ValueError as error:
            raise Wrong(
                "wrong_type", f"{option.key} is not valid JSON: {error}", "write it as a YAML mapping"
            ) from None
    elif isinstance(value, (dict, list)):
        parsed = value
    else:
        raise Wrong("wrong_type", f"{option.key} takes JSON, not {_shown(value)}", "write it as a YAML mapping")
    if option.type == "json_list_type" and not isinstance(parsed, list):
        raise Wrong("wrong_type", f"{option.key} takes a JSON list", f"write {option.key}: [...]")
    if option.type == "parse_cuda_graph_config_arg" and not isinstance(parsed, dict):
        raise Wrong("wrong_type", f"{option.key} takes a JSON object", f"write {option.key}: {{...}}")
    try:
        json.dumps(parsed, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Wrong("wrong_type", f"{option.key} can't be written as JSON: {error}", "use plain values") from None
    return value.strip() if isinstance(value, str) else parsed


def _null_cure(option: Option) -> str:
    words = [choice for choice in option.choices or () if str(choice).lower() in ("null", "none")]
    if words:
        return f'leave it out, or quote it if that word is meant: {option.key}: "{words[0]}"'
    return "leave it out (in Ansible: | default(omit) has no effect inside a mapping), or give it a value"


def _kind(option: Option) -> str:
    return {"int": "an integer", "float": "a number", "human_readable_int": "an integer"}.get(option.type, "text")


def _example(option: Option) -> str:
    if option.choices:
        return str(option.choices[0])
    if option.default not in (None, "", []):
        return str(option.default)
    return {"int": "1", "float": "0.5", "human_readable_int": "4096"}.get(option.type, '"..."')


def _write(option: Option) -> str:
    return f"write for example {option.key}: {_example(option)}"


def _all(choices: tuple[Any, ...]) -> str:
    return ", ".join(str(choice) for choice in choices)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return f"'{text[:60]}...'" if len(text) > 60 else f"'{text}'"
