# SPDX-License-Identifier: GPL-3.0-or-later
"""Surveys, patterns and job templates are what the playbooks and roles say, and AWX would take them."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from awx_rules_support import refusal

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "script/lib"))

import patterns  # noqa: E402 (found by the line above)

NAMES = patterns.playbooks(ROOT)
ROLES = patterns.role_options(ROOT)
SURVEYS = {name: patterns.survey(patterns.load(ROOT / ("playbooks/%s.meta.yml" % name)), ROLES) for name in NAMES}


def test_what_is_made_is_fresh() -> None:
    assert NAMES
    assert patterns.stale(ROOT) == [], "run script/generate"


def test_a_changed_role_or_a_playbook_that_is_gone_makes_it_stale(tmp_path: Path) -> None:
    for folder in ("roles", "playbooks", "extensions"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    spec = tmp_path / "roles/sglang_server/meta/argument_specs.yml"
    spec.write_text(spec.read_text().replace("default: 3600", "default: 1234"))
    wrong = patterns.stale(tmp_path)
    assert {"playbooks/deploy.meta.yml", "extensions/patterns/deploy/meta/pattern.json"} <= set(wrong)
    patterns.write(tmp_path)
    assert "1234" in (tmp_path / "extensions/awx/job_templates.yml").read_text()
    (tmp_path / "playbooks/stop.yml").unlink()
    assert {"extensions/patterns/stop", "playbooks/stop.meta.yml"} <= set(patterns.stale(tmp_path))
    shutil.copy(ROOT / "playbooks/status.yml", tmp_path / "playbooks/fresh.yml")
    patterns.write(tmp_path)
    assert json.loads((tmp_path / "extensions/patterns/fresh/meta/pattern.json").read_text())["name"] == "fresh"


def test_a_variable_that_no_role_has_is_refused(tmp_path: Path) -> None:
    for folder in ("roles", "playbooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    path = tmp_path / "playbooks/stop.meta.yml"
    path.write_text(path.read_text().replace("sglang_server_drain_timeout_s", "sglang_server_dran_timeout_s"))
    with pytest.raises(SystemExit, match="dran_timeout"):
        patterns.generate(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_awx_takes_the_survey(name: str) -> None:
    assert refusal(SURVEYS[name]) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_survey_does_not_hide_the_inventory(name: str) -> None:
    """An answer beats every inventory, so a variable of a role comes without one."""
    for question in SURVEYS[name]["spec"]:
        if question["variable"] in ROLES:
            assert "default" not in question and not question["required"]
        assert question["type"] != "password", "secrets come from credentials"


@pytest.mark.parametrize("name", NAMES)
def test_every_question_is_about_an_option_of_its_playbook(name: str) -> None:
    options = patterns.load(ROOT / ("playbooks/%s.meta.yml" % name))["argument_specs"]["main"]["options"]
    asked = {question["variable"] for question in SURVEYS[name]["spec"]}
    assert asked <= set(options)
    assert all(options[left]["type"] in ("dict", "list") for left in set(options) - asked)


GOOD: dict[str, Any] = {
    "name": "n",
    "description": "d",
    "spec": [
        {"type": "text", "question_name": "q", "variable": "a", "required": True, "default": "x"},
        {
            "type": "integer",
            "question_name": "q",
            "variable": "b",
            "required": False,
            "default": 3,
            "min": 1,
            "max": None,
        },
        {
            "type": "multiplechoice",
            "question_name": "q",
            "variable": "c",
            "required": False,
            "choices": "1\n2",
            "default": "2",
        },
        {
            "type": "multiselect",
            "question_name": "q",
            "variable": "d",
            "required": False,
            "choices": ["x", "y"],
            "default": "x\ny",
        },
    ],
}
BAD: list[tuple[str, Any]] = [
    ("name is missing", {"name": None}),
    ("description is missing", {"description": 1}),
    ("spec is missing", {"spec": {}}),
    ("no question", {"spec": []}),
    ("no object", {"spec": ["x"]}),
    ("no type", {"spec": [{"question_name": "q", "variable": "v", "required": True}]}),
    ("required must be", {"spec": [{**GOOD["spec"][0], "required": "yes"}]}),
    ("not known", {"spec": [{**GOOD["spec"][0], "type": "boolean"}]}),
    ("default must be", {"spec": [{**GOOD["spec"][1], "default": "3"}]}),
    ("min must be", {"spec": [{**GOOD["spec"][1], "min": "1"}]}),
    ("needs choices", {"spec": [{**GOOD["spec"][0], "type": "multiselect"}]}),
    ("one default", {"spec": [{**GOOD["spec"][2], "default": "1\n2"}]}),
    ("none of the choices", {"spec": [{**GOOD["spec"][2], "default": "3"}]}),
    ("reserved", {"spec": [{**GOOD["spec"][0], "default": "$encrypted$x"}]}),
    ("was there before", {"spec": [GOOD["spec"][0], GOOD["spec"][0]]}),
]


def test_a_good_survey_is_taken() -> None:
    assert refusal(copy.deepcopy(GOOD)) is None


@pytest.mark.parametrize(("why", "change"), BAD, ids=[why for why, _change in BAD])
def test_a_bad_survey_is_refused(why: str, change: dict[str, Any]) -> None:
    assert why in str(refusal({**copy.deepcopy(GOOD), **change}))


def _tasks(data: Any) -> Any:
    for item in data if isinstance(data, list) else []:
        if isinstance(item, dict):
            yield item
            for block in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
                yield from _tasks(item.get(block))


FILES = sorted([*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("tasks/*.yml")])


def test_nobody_is_asked_at_a_prompt() -> None:
    """A job of AWX has no terminal."""
    for path in FILES:
        for task in _tasks(patterns.load(path)):
            assert not {"vars_prompt", "pause", "ansible.builtin.pause"} & set(task), path


def test_the_hosts_of_every_play_can_be_chosen() -> None:
    """By the variable that each survey asks for; delegation to the node goes by llmhost_gpu_node."""
    for name in NAMES:
        for play in patterns.load(ROOT / ("playbooks/%s.yml" % name)):
            if "ansible.builtin.import_playbook" not in play and play["hosts"] not in ("localhost", "all"):
                assert re.search(r"llmhost_\w*(hosts|node)", play["hosts"]), (name, play["hosts"])


def bare(condition: Any, name: str) -> bool:
    """Whether this condition takes the variable as it is: from a survey, or -e on a command line, it comes as text."""
    text = str(condition)
    return any(
        not re.match(r"\s*\|\s*(bool|default\([^()]*\)\s*\|\s*bool)", text[found.end() :])
        for found in re.finditer(r"(?<![\w.'\"])%s(?!\w)" % re.escape(name), text)
    )


def test_a_bare_condition_is_seen() -> None:
    assert bare("x_y", "x_y") and bare("a and not x_y", "x_y") and bare("x_y | default(true)", "x_y")
    assert (
        not bare("x_y | bool", "x_y") and not bare("not x_y | default(false) | bool", "x_y") and not bare("x_yz", "x_y")
    )


def test_conditions_take_a_switch_that_comes_as_text() -> None:
    switches = [name for name, option in ROLES.items() if option.get("type") == "bool"]
    found = []
    for path in FILES:
        for task in _tasks(yaml.load(path.read_text(), Loader=patterns._Loader)):
            for key in ("when", "failed_when", "changed_when", "until"):
                conditions = task.get(key, [])
                for condition in conditions if isinstance(conditions, list) else [conditions]:
                    found += [
                        "%s: %s" % (path.relative_to(ROOT), condition) for name in switches if bare(condition, name)
                    ]
    assert found == [], "write '| bool': a survey's answer and -e x=false are text, and a text is no condition"


def _strings(data: Any) -> Any:
    if isinstance(data, str):
        yield data
    elif isinstance(data, (dict, list)):
        for item in [*data.keys(), *data.values()] if isinstance(data, dict) else data:
            yield from _strings(item)


def test_a_back_reference_is_written_as_ansible_reads_it() -> None:
    r"""Ansible doubles a backslash within an expression: '\\1' after YAML is no group any more, it stays as it is."""
    found = [
        "%s: %s" % (path.relative_to(ROOT), text)
        for path in sorted([*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")])
        for text in _strings(yaml.load(path.read_text(), Loader=patterns._Loader))
        if re.search(r"\\\\\d", text)
    ]
    assert found == []
