# SPDX-License-Identifier: GPL-3.0-or-later
"""Every code block of README and docs, and what is wrong with one.

YAML is parsed, and variables of our roles must exist; the plays among it are held against every module's arguments by
ansible-lint (stage "site" of script/test). Shell goes through shellcheck; commands and playbooks in it must exist. JSON
and INI are parsed. "text" is what a program printed.

Usage: doc_blocks.py ROOT FOLDER writes the plays of all pages as files into FOLDER, for ansible-lint.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import patterns
import yaml

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"^( *)\.\. code-block::[ ]*(\w*)\n((?:\1[ ]+\S.*\n|[ ]*\n)+)", re.MULTILINE)
LANGUAGES = ("yaml", "shell", "json", "ini", "text")
PROGRAMS = {
    "ansible-builder",
    "ansible-doc",
    "ansible-galaxy",
    "ansible-playbook",
    "apt-get",
    "cd",
    "cp",
    "export",
    "git",
    "journalctl",
    "mkdir",
    "molecule",
    "ssh",
    "sudo",
}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return "%s:%d" % (self.page, self.line)


def pages(root: Path) -> list[Path]:
    found = [root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    found += sorted([*(root / "docs").rglob("*.rst"), *(root / "docs").rglob("*.md")])
    found += sorted((root / "roles").glob("*/README.md"))
    found += sorted((root / "extensions").rglob("README.md"))
    return found


def blocks_of(page: str, text: str) -> list[Block]:
    pattern = DIRECTIVE if page.endswith(".rst") else FENCE
    found = []
    for match in pattern.finditer(text):
        body = textwrap.dedent(match[3]).strip("\n") + "\n"
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, match[2], body))
    return found


def blocks(root: Path) -> list[Block]:
    return [
        block
        for path in pages(root)
        if path.exists()
        for block in blocks_of(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    ]


def is_play(data: Any) -> bool:
    return isinstance(data, list) and all(isinstance(item, dict) and "hosts" in item for item in data)


def is_tasks(data: Any) -> bool:
    return isinstance(data, list) and all(
        isinstance(item, dict) and "name" in item and any("." in key for key in item) for item in data
    )


def wrong_yaml(root: Path, block: Block) -> list[str]:
    try:
        data = yaml.load(block.text, Loader=patterns._Loader)  # noqa: S506 (it is a SafeLoader)
    except yaml.YAMLError as error:
        return [str(error).replace("\n", " ")]
    roles = patterns.role_options(root)
    names = set(data) if isinstance(data, dict) else set()
    for play in data if is_play(data) else []:
        names |= set(play.get("vars") or {})
        for task in play.get("tasks") or []:
            names |= set(task.get("vars") or {})
    ours = tuple(path.name + "_" for path in (root / "roles").iterdir())
    return [
        "no role has the variable %s" % name for name in sorted(names) if name.startswith(ours) and name not in roles
    ]


def wrong_shell(root: Path, block: Block) -> list[str]:
    done = subprocess.run(
        ["shellcheck", "--shell=bash", "--exclude=SC2034,SC2154", "--format=gcc", "-"],
        input=block.text,
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = done.stdout.splitlines() or ([done.stderr] if done.returncode else [])
    known = set(patterns.playbooks(root))
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        if words and words[0] == "sudo":
            words = words[1:]
        if not words:
            continue
        program = words[0]
        if "/" in program and not program.startswith("$"):
            if not (root / program).is_file():
                wrong.append("there is no %s" % program)
        elif program not in PROGRAMS and not program.startswith("$"):
            wrong.append("%s is not in the list of programs" % program)
        wrong += ["there is no playbook %s" % word for word in words if _unknown_playbook(word, known)]
        if program == "ansible-playbook":
            files = [word for word in words[1:] if word.startswith(("extensions/", "playbooks/", "tests/"))]
            wrong += ["there is no %s" % word for word in files if not (root / word).is_file()]
    return wrong


def _unknown_playbook(word: str, known: set[str]) -> bool:
    found = re.fullmatch(r"llmhost\.sglang\.(\w+)", word)
    return bool(found) and found[1] not in known


def wrong_json(_root: Path, block: Block) -> list[str]:
    try:
        json.loads(block.text)
    except ValueError as error:
        return [str(error)]
    return []


def wrong_ini(_root: Path, block: Block) -> list[str]:
    try:
        configparser.ConfigParser(strict=False, interpolation=None).read_string(block.text)
    except configparser.Error as error:
        return [str(error).replace("\n", " ")]
    return []


CHECKS = {"yaml": wrong_yaml, "shell": wrong_shell, "json": wrong_json, "ini": wrong_ini}


def wrong(root: Path, block: Block) -> list[str]:
    if block.language not in LANGUAGES:
        found = ["the language %r is none of %s" % (block.language, ", ".join(LANGUAGES))]
    elif block.language in CHECKS:
        found = CHECKS[block.language](root, block)
    else:
        found = [] if block.text.strip() else ["empty"]
    return ["%s: %s" % (block.where, line) for line in found]


def play_text(block: Block) -> str | None:
    """The block as a playbook file, or None."""
    if block.language != "yaml":
        return None
    data = yaml.load(block.text, Loader=patterns._Loader)  # noqa: S506 (it is a SafeLoader)
    head = "---\n" + patterns.SPDX + "# " + block.where + "\n"
    body = block.text.removeprefix("---\n")
    if is_play(data):
        return head + body
    if is_tasks(data):
        play = "- name: Tasks of the documentation\n  hosts: all\n  gather_facts: false\n  tasks:\n"
        return head + play + textwrap.indent(body, "    ")
    return None


def main(root: str, folder: str) -> int:
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    count = 0
    for block in blocks(Path(root)):
        text = play_text(block)
        if text:
            name = re.sub(r"\W+", "_", block.where) + ".yml"
            (home / name).write_text(text, encoding="utf-8")
            count += 1
    print("%d plays" % count)
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
