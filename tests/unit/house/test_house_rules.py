# SPDX-License-Identifier: GPL-3.0-or-later
"""This tree keeps the house rules, and each rule sees the tree that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import house_rules
import pytest

ROOT = Path(__file__).resolve().parents[3]
LICENCE = f"# {house_rules.SPDX}\n"
HEAD = LICENCE + house_rules.PRIVATE + "\n"
Rule = Callable[[Path], list[str]]

RULES: list[Rule] = [
    house_rules.imports_run_one_way,
    house_rules.imports_have_no_circle,
    house_rules.modules_are_thin,
    house_rules.core_does_not_print_or_exit,
    house_rules.files_name_their_licence,
    house_rules.role_specs_equal_defaults,
    house_rules.modules_are_in_the_action_group,
    house_rules.playbooks_hide_nothing,
    house_rules.text_is_tidy,
]

DOCUMENTATION = """
DOCUMENTATION = r'''
module: look
extends_documentation_fragment: [llmhost.sglang.attributes, llmhost.sglang.attributes.actiongroup_sglang]
'''
"""

# A small tree that keeps every rule.
GOOD = {
    "plugins/module_utils/_errors.py": HEAD + "from __future__ import annotations\nimport os\n",
    "plugins/module_utils/_process/__init__.py": "",
    "plugins/module_utils/_process/identity.py": HEAD + "from .._errors import LlmHostError\n",
    "plugins/module_utils/_gpu/nvml.py": HEAD
    + "from .._process import identity\ntry:\n    import pynvml\nexcept ImportError:\n    pass\n",
    "plugins/modules/look.py": LICENCE
    + DOCUMENTATION
    + "from ansible.module_utils.basic import AnsibleModule\n"
    + "from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity\n"
    + "def main():\n    pass\n",
    "plugins/action/wait.py": LICENCE + "from ansible.plugins.action import ActionBase\n",
    "meta/runtime.yml": LICENCE + "action_groups: {sglang: [look]}\n",
    "roles/pot/defaults/main.yml": LICENCE + "pot_size: 3\npot_home: '{{ somewhere }}'\n",
    "roles/pot/vars/main.yml": LICENCE + "_pot_secret: !unsafe '{{'\n",
    "roles/pot/tasks/main.yml": LICENCE + "- ansible.builtin.user: {name: x, shell: /bin/false}\n",
    "roles/pot/meta/argument_specs.yml": LICENCE
    + "argument_specs:\n  main:\n    options:\n      pot_size: {type: int, default: 3}\n"
    + "      pot_home: {type: path}\n      pot_name: {type: str, required: true}\n",
    "REUSE.toml": LICENCE
    + 'version = 1\n[[annotations]]\npath = ["data/**/*.bin"]\n'
    + house_rules.SPDX.replace(": ", ' = "')
    + '"\n',
    "data/deep/er/x.bin": "x",
    "data/x.bin": "x",
}

CORE = "plugins/module_utils/"
# (rule, file, content that breaks it, a word of what the rule must say)
BAD: list[tuple[Rule, str, str, str]] = [
    (
        house_rules.imports_run_one_way,
        CORE + "_process/up.py",
        "from .._gpu import nvml\n",
        "_process may not import _gpu",
    ),
    (
        house_rules.imports_run_one_way,
        CORE + "_memory/side.py",
        "from .._process import identity\n",
        "_memory may not import",
    ),
    (
        house_rules.imports_run_one_way,
        CORE + "_gpu/full.py",
        "from ansible_collections.llmhost.sglang.plugins.module_utils._options import schema\n",
        "_gpu may not import _options",
    ),
    (
        house_rules.imports_run_one_way,
        CORE + "_gpu/late.py",
        "def f():\n    from .. import _startup\n",
        "may not import _startup",
    ),
    (
        house_rules.imports_run_one_way,
        CORE + "_errors.py",
        "from ._process import identity\n",
        "_errors may not import",
    ),
    (
        house_rules.imports_run_one_way,
        CORE + "_gpu/a.py",
        "from ansible.module_utils.basic import x\n",
        "standard library",
    ),
    (house_rules.imports_run_one_way, CORE + "_gpu/a.py", "import pynvml\n", "standard library"),
    (house_rules.imports_run_one_way, CORE + "_attic/a.py", "", "_attic is not in the table"),
    (house_rules.imports_run_one_way, CORE + "common.py", "", "common is not in the table"),
    (house_rules.imports_run_one_way, "plugins/modules/look.py", "import requests\n", "may not import requests"),
    (
        house_rules.imports_run_one_way,
        "plugins/modules/look.py",
        "import ansible.plugins\n",
        "may not import ansible.plugins",
    ),
    (
        house_rules.imports_run_one_way,
        "plugins/action/wait.py",
        "from ..module_utils import _errors\n",
        "action may not import",
    ),
    (house_rules.imports_run_one_way, "plugins/vars/x.py", "", "EDGES"),
    (house_rules.imports_have_no_circle, CORE + "_errors.py", "from ._process.identity import x\n", "circle"),
    (house_rules.imports_have_no_circle, CORE + "_process/__init__.py", "from .identity import Process\n", ""),
    (house_rules.modules_are_thin, "plugins/modules/look.py", "def main():\n" + "    pass\n" * 60, "61 lines"),
    (house_rules.modules_are_thin, "plugins/modules/look.py", "def run():\n    pass\n", "no main"),
    (house_rules.core_does_not_print_or_exit, CORE + "_gpu/a.py", "def f():\n    print(1)\n", "print()"),
    (house_rules.core_does_not_print_or_exit, CORE + "_gpu/a.py", "import sys\nsys.exit(1)\n", "sys.exit()"),
    (house_rules.core_does_not_print_or_exit, "plugins/modules/look.py", "assert True\n", "assert"),
    (house_rules.files_name_their_licence, "roles/pot/README.md", "# A pot\n", "README.md: no line"),
    (house_rules.files_name_their_licence, "other/x.bin", "x", "other/x.bin"),
    (house_rules.files_name_their_licence, CORE + "_gpu/a.py", LICENCE + "x = 1\n", "first two lines"),
    (
        house_rules.role_specs_equal_defaults,
        "roles/pot/defaults/main.yml",
        "pot_size: 4\npot_home: '{{ x }}'\n",
        "is 3 in",
    ),
    (house_rules.role_specs_equal_defaults, "roles/pot/defaults/main.yml", "pot_size: 3\n", "pot_home is in meta"),
    (
        house_rules.role_specs_equal_defaults,
        "roles/pot/defaults/main.yml",
        "pot_size: 3\npot_home: /x\npot_lid: 1\n",
        "pot_lid is in defaults",
    ),
    (
        house_rules.role_specs_equal_defaults,
        "roles/pot/defaults/main.yml",
        "pot_size: 3\npot_home: '{{ x }}'\npot_name: x\n",
        "pot_name is required",
    ),
    (house_rules.role_specs_equal_defaults, "roles/pot/defaults/main.yml", "lid: 1\n", "lid does not begin with pot_"),
    (
        house_rules.role_specs_equal_defaults,
        "roles/pot/vars/main.yml",
        "pot_secret: 1\n",
        "pot_secret does not begin with _pot_",
    ),
    (house_rules.role_specs_equal_defaults, "roles/pan/tasks/main.yml", "[]\n", "roles/pan: no meta"),
    (house_rules.modules_are_in_the_action_group, "plugins/modules/act.py", DOCUMENTATION, "act is not in sglang"),
    (
        house_rules.modules_are_in_the_action_group,
        "meta/runtime.yml",
        "action_groups: {sglang: [gone, look]}\n",
        "gone is no module",
    ),
    (
        house_rules.modules_are_in_the_action_group,
        "meta/runtime.yml",
        "action_groups: {two: [], sglang: [look]}\n",
        "group two",
    ),
    (
        house_rules.modules_are_in_the_action_group,
        "plugins/modules/look.py",
        "DOCUMENTATION = 'module: look'\n",
        "does not use",
    ),
    (
        house_rules.playbooks_hide_nothing,
        "roles/pot/tasks/more.yml",
        "- block:\n    - ignore_errors: true\n",
        "ignore_errors",
    ),
    (house_rules.playbooks_hide_nothing, "playbooks/x.yml", "- tasks: [{ansible.builtin.shell: ls}]\n", "shell"),
    (house_rules.text_is_tidy, "roles/pot/README.md", "a \n", "README.md:1: space"),
    (house_rules.text_is_tidy, "script/x", "#!/bin/sh\n\ttrue\n", "script/x:2: tab"),
    (house_rules.text_is_tidy, "a.yml", "a: 1", "one newline"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in GOOD.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_this_tree_keeps_the_rule(rule: Rule) -> None:
    broken = rule(ROOT)
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_good_tree_passes(rule: Rule, tree: Path) -> None:
    assert rule(tree) == []


@pytest.mark.parametrize(
    ("rule", "name", "content", "word"), BAD, ids=lambda value: value.__name__ if callable(value) else None
)
def test_the_rule_sees_what_breaks_it(rule: Rule, name: str, content: str, word: str, tree: Path) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(content, encoding="utf-8")
    broken = rule(tree)
    if word:
        assert any(word in line for line in broken), broken
    else:
        assert broken == []


def test_every_rule_has_a_tree_that_breaks_it() -> None:
    assert {rule for rule, _name, _content, word in BAD if word} == set(RULES)
