# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX and AAP need of each playbook: its pattern, its survey and its job template.

From playbooks/NAME.yml, playbooks/NAME.meta.yml and the roles' argument specifications come

    playbooks/NAME.meta.yml                      options that are a role's get the role's type, choices and words
    extensions/patterns/NAME/meta/pattern.json   the pattern, with its survey, as the Galaxy importer reads it
    extensions/patterns/NAME/playbooks/NAME.yml  two lines that hand over to the playbook of the collection
    extensions/patterns/NAME/README.md
    extensions/awx/job_templates.yml             the same surveys, as a play that makes the job templates in AWX

A playbook without a .meta.yml gets one to begin with. Usage: patterns.py ROOT [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

SPDX = "# SPDX-" + "License-Identifier: GPL-3.0-or-later\n"
COLLECTION = "llmhost.sglang"
MADE = "# Made by script/generate from playbooks/%s.meta.yml and the roles' argument specifications: change those.\n"
EXECUTION_ENVIRONMENT = "llmhost.sglang execution environment"
IMAGE = "llmhost/sglang_ee"
LABEL = "llmhost.sglang"
# An option's type -> the type of its question. What is not here (dict, list) belongs into the inventory.
QUESTIONS = {"str": "text", "path": "text", "int": "integer", "float": "float", "bool": "multiplechoice"}
PREFIXES = ("sglang_", "gpu_container_", "nvidia_")
FROM_ROLE = ("type", "elements", "choices", "description", "default")


class _Loader(yaml.SafeLoader):
    """Argument specifications may hold !unsafe and the like: their text is enough here."""


_Loader.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


class _Dumper(yaml.SafeDumper):
    """Sequences indented below their key, as yamllint wants them, and no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def load(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (it is a SafeLoader)


def dump(data: Any) -> str:
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=140, allow_unicode=True))


def role_options(root: Path) -> dict[str, dict[str, Any]]:
    """Every public variable of a role, by name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((root / "roles").glob("*/meta/argument_specs.yml")):
        for entry in load(path)["argument_specs"].values():
            for name, option in (entry.get("options") or {}).items():
                if not name.startswith("_"):
                    found.setdefault(name, option)
    return found


def playbooks(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "playbooks").glob("*.yml") if not path.stem.endswith(".meta"))


def sentences(description: Any) -> str:
    return " ".join([description] if isinstance(description, str) else description)


def plain(text: str) -> str:
    """Words for people: without the markup of Ansible's documentation."""
    return re.sub(r"\b[A-Z]+\(([^()]*)\)", r"\1", text)


def first(root: Path, name: str) -> dict[str, Any]:
    """The .meta.yml of a playbook that has none: the comment at its head, and the hosts."""
    path = root / "playbooks" / (name + ".yml")
    play = load(path)[0]["name"]
    lines = [line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    comment = " ".join(line for line in lines if line and not line.startswith("SPDX-"))
    return {
        "short_description": play,
        "description": comment or play + ".",
        "argument_specs": {"main": {"short_description": play, "options": {"llmhost_hosts": HOSTS}}},
    }


HOSTS: dict[str, Any] = {
    "type": "str",
    "default": "sglang",
    "description": "Name the hosts or groups of the inventory that the servers run on.",
}


def meta(root: Path, name: str, roles: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """playbooks/NAME.meta.yml as it must be."""
    path = root / "playbooks" / (name + ".meta.yml")
    data = load(path) if path.exists() else first(root, name)
    spec = data["argument_specs"]["main"]
    for option, given in spec["options"].items():
        if option.startswith(PREFIXES) and option not in roles:
            raise SystemExit("%s: no role has the variable %s" % (path, option))
        if option in roles:
            role = roles[option]
            taken = {key: role[key] for key in FROM_ROLE if key in role}
            taken["description"] = plain(sentences(role["description"]))
            spec["options"][option] = {**{key: value for key, value in given.items() if key not in FROM_ROLE}, **taken}
    spec["examples"] = "ansible-playbook -i my-inventory %s.%s\n" % (COLLECTION, name)
    return dict(data)


WORDS = {"gpus": "GPUs", "gpu": "GPU", "vmid": "VMID", "url": "URL", "s": "in seconds", "mib": "in MiB"}


def title(name: str) -> str:
    """sglang_server_drain_timeout_s -> Drain timeout in seconds"""
    words = re.sub(r"^(llmhost|sglang_[a-z]+|gpu_container|nvidia_[a-z]+)_", "", name).split("_")
    text = " ".join(WORDS.get(word, word) for word in words)
    return text[0].upper() + text[1:]


def question(name: str, option: dict[str, Any], of_role: bool) -> dict[str, Any] | None:
    kind = QUESTIONS.get(option.get("type", "str"))
    if kind is None:
        return None
    text = sentences(option["description"])
    choices = option.get("choices") or (["true", "false"] if option.get("type") == "bool" else None)
    default = option.get("default")
    # An answer is an extra variable and beats the inventory. So no question about a role's variable comes with an
    # answer: who leaves it empty gets what the inventory says, else the role's own default, which the help names.
    if of_role and default not in (None, "") and "{{" not in str(default):
        told = str(default).lower() if isinstance(default, bool) else default
        text += " Leave it empty for what the inventory says, else %s." % told
    elif of_role:
        text += " Leave it empty for what the inventory says."
    elif kind in ("integer", "float") and not choices and default is not None:
        # AWX wants a number as default, the schema of patterns a text: it goes without
        text += " Leave it empty for %s." % default
        default = None
    asked: dict[str, Any] = {
        "type": "multiplechoice" if choices else kind,
        "question_name": title(name),
        "question_description": text,
        "variable": name,
        "required": bool(option.get("required") or (not of_role and default is not None)),
    }
    if choices:
        asked["choices"] = [str(choice) for choice in choices]
    if not of_role and default is not None:
        asked["default"] = str(default).lower() if isinstance(default, bool) else str(default)
    return asked


def survey(data: dict[str, Any], roles: dict[str, dict[str, Any]]) -> dict[str, Any]:
    options = data["argument_specs"]["main"]["options"]
    asked = [question(name, option, name in roles) for name, option in options.items()]
    return {
        "name": data["short_description"],
        "description": data["description"],
        "spec": [item for item in asked if item],
    }


def pattern(name: str, data: dict[str, Any], roles: dict[str, dict[str, Any]]) -> dict[str, Any]:
    template: dict[str, Any] = {
        "name": "SGLang: " + name.replace("_", " "),
        "description": data["short_description"],
        "execution_environment": EXECUTION_ENVIRONMENT,
        "playbook": name + ".yml",
        "primary": True,
        "ask_inventory_on_launch": True,
        "ask_credential_on_launch": True,
        "ask_verbosity_on_launch": True,
        "labels": [LABEL],
        "survey": survey(data, roles),
    }
    return {
        "schema_version": "1.0",
        "name": name,
        "title": data["short_description"],
        "description": data["description"],
        "short_description": data["argument_specs"]["main"]["short_description"],
        "tags": ["ai", "gpu", "inference", "sglang"],
        "aap_resources": {
            "controller_project": {
                "name": COLLECTION,
                "description": "The playbooks of the collection %s" % COLLECTION,
            },
            "controller_execution_environment": {
                "name": EXECUTION_ENVIRONMENT,
                "description": "ansible-core and what the collection needs on a controller",
                "image_name": IMAGE,
                "pull": "missing",
            },
            "controller_labels": [LABEL],
            "controller_job_templates": [template],
        },
    }


def readme(name: str, data: dict[str, Any]) -> str:
    lines = [
        "<!-- %s -->" % SPDX[2:].strip(),
        "<!-- Made by script/generate from playbooks/%s.meta.yml. -->" % name,
        "# %s" % data["short_description"],
        "",
        data["description"],
        "",
        "A job template that runs `%s.%s`. Bring an inventory (see the collection's `inventories/`) and a machine"
        % (COLLECTION, name),
        "credential; `meta/execution-environment.yml` of the collection says what the execution environment needs.",
        "",
        "| variable | type | |",
        "| --- | --- | --- |",
    ]
    for option, spec in data["argument_specs"]["main"]["options"].items():
        lines.append(
            "| `%s` | %s | %s |" % (option, spec.get("type", "str"), sentences(spec["description"]).replace("|", "\\|"))
        )
    return "\n".join(lines) + "\n"


TEMPLATES_HEAD = SPDX + (
    MADE.replace("%s.meta.yml", "*.meta.yml")
    + """\
#
# Makes one job template for each playbook in AWX or AAP, with its survey. It needs the collection awx.awx (in AAP
# ansible.controller), CONTROLLER_HOST and a login in the environment, and in the controller an inventory, a project
# whose folder holds the playbooks of extensions/patterns, and an execution environment as in extensions/awx.
#
#   ansible-playbook extensions/awx/job_templates.yml -e llmhost_awx_inventory=GPUs -e llmhost_awx_project=llmhost
"""
)


def templates(metas: dict[str, dict[str, Any]], roles: dict[str, dict[str, Any]]) -> str:
    tasks = []
    for name, data in metas.items():
        tasks.append(
            {
                "name": "Job template " + name,
                "awx.awx.job_template": {
                    "name": "SGLang: " + name.replace("_", " "),
                    "description": data["short_description"],
                    "organization": "{{ llmhost_awx_organization }}",
                    "inventory": "{{ llmhost_awx_inventory }}",
                    "project": "{{ llmhost_awx_project }}",
                    "playbook": "extensions/patterns/%s/playbooks/%s.yml" % (name, name),
                    "execution_environment": "{{ llmhost_awx_execution_environment | default(omit) }}",
                    "ask_credential_on_launch": True,
                    "ask_inventory_on_launch": True,
                    "ask_limit_on_launch": True,
                    "ask_verbosity_on_launch": True,
                    "survey_enabled": True,
                    "survey_spec": survey(data, roles),
                },
            }
        )
    play = {
        "name": "Make the job templates",
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {
            "llmhost_awx_organization": "Default",
            "llmhost_awx_inventory": "GPUs",
            "llmhost_awx_project": COLLECTION,
        },
        "tasks": tasks,
    }
    return "---\n" + TEMPLATES_HEAD + dump([play])


def generate(root: Path) -> dict[str, str]:
    """Path -> content of everything that is made."""
    roles = role_options(root)
    made: dict[str, str] = {}
    metas: dict[str, dict[str, Any]] = {}
    for name in playbooks(root):
        data = metas[name] = meta(root, name, roles)
        folder = "extensions/patterns/%s/" % name
        made["playbooks/%s.meta.yml" % name] = "---\n" + SPDX + dump(data)
        made[folder + "meta/pattern.json"] = json.dumps(pattern(name, data, roles), indent=2, ensure_ascii=False) + "\n"
        hand_over = [
            {"name": data["short_description"], "ansible.builtin.import_playbook": "%s.%s" % (COLLECTION, name)}
        ]
        made[folder + "playbooks/%s.yml" % name] = "---\n" + SPDX + MADE % name + dump(hand_over)
        made[folder + "README.md"] = readme(name, data)
    made["extensions/awx/job_templates.yml"] = templates(metas, roles)
    return made


def leftovers(root: Path) -> list[str]:
    """Patterns and .meta.yml files whose playbook is gone."""
    known = set(playbooks(root))
    gone = [
        path for path in sorted((root / "extensions/patterns").glob("*")) if path.is_dir() and path.name not in known
    ]
    gone += [
        path for path in sorted((root / "playbooks").glob("*.meta.yml")) if path.name[: -len(".meta.yml")] not in known
    ]
    return [str(path.relative_to(root)) for path in gone]


def stale(root: Path) -> list[str]:
    wrong = []
    for name, content in generate(root).items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            wrong.append(name)
    return wrong + leftovers(root)


def write(root: Path) -> list[str]:
    changed = stale(root)
    for name, content in generate(root).items():
        if name in changed:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content, encoding="utf-8")
    return changed


def main(root: str, *flags: str) -> int:
    if "--check" in flags:
        wrong = stale(Path(root))
        print("\n".join("not as script/generate makes it: " + name for name in wrong) or "patterns: fresh")
        return 1 if wrong else 0
    changed = write(Path(root))
    print("\n".join("wrote " + name for name in changed) or "patterns: nothing to do")
    gone = leftovers(Path(root))
    if gone:
        print("no playbook belongs to these, remove them: " + ", ".join(gone))
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
