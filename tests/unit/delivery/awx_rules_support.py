# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules by which AWX takes or refuses a survey and the answers to it, told again from how its API behaves."""

from __future__ import annotations

from typing import Any

TYPES: dict[str, type] = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": str,
    "integer": int,
    "float": float,
}
CHOOSING = ("multiplechoice", "multiselect")


def _lines(value: Any) -> list[str]:
    return [line for line in value.splitlines() if line.strip()] if isinstance(value, str) else list(value)


def _question(item: Any) -> str | None:
    """What is wrong with one question, or None."""
    if not isinstance(item, dict):
        return "is no object"
    for key, kind in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
        if key not in item:
            return "has no %s" % key
        if not isinstance(item[key], kind):
            return "%s must be of type %s" % (key, kind.__name__)
    kind = item["type"]
    if kind not in TYPES:
        return "type %s is not known" % kind
    default = item.get("default", "")
    if default != "" and not isinstance(default, TYPES[kind]):
        return "the default must be of type %s" % TYPES[kind].__name__
    for key in ("min", "max"):
        if item.get(key) is not None and not isinstance(item[key], int):
            return "%s must be an integer" % key
    if kind in CHOOSING:
        if "choices" not in item:
            return "needs choices"
        defaults = _lines(default)
        if kind == "multiplechoice" and len(defaults) > 1:
            return "may have one default"
        if any(value not in _lines(item["choices"]) for value in defaults):
            return "the default is none of the choices"
    if isinstance(default, str) and default.startswith("$encrypted$"):
        return "$encrypted$ is reserved"
    return None


def refusal(survey: Any) -> str | None:
    """Why AWX would answer 400 to this survey, or None."""
    for key, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(survey.get(key), kind):
            return "%s is missing or of another type than %s" % (key, kind.__name__)
    if not survey["spec"]:
        return "spec has no question"
    seen: set[str] = set()
    for number, item in enumerate(survey["spec"]):
        wrong = _question(item)
        if wrong:
            return "question %d: %s" % (number, wrong)
        if item["variable"] in seen:
            return "question %d: the variable %s was there before" % (number, item["variable"])
        seen.add(item["variable"])
    return None
