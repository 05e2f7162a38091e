# SPDX-License-Identifier: GPL-3.0-or-later
"""The house rules of this collection. Each takes the root of a tree and returns what breaks it, one line each."""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomllib
import yaml

COLLECTION = "ansible_collections.llmhost.sglang"
GROUP = "sglang"
CORE = Path("plugins/module_utils")

# What a room of the core may import beside itself, the standard library and the base. It is never "everything below".
BASE = {"_errors", "_remedy", "_placeholders"}
ROOMS: dict[str, set[str]] = {
    "_process": set(),
    "_memory": set(),
    "_options": set(),
    "_gpu": {"_process"},
    "_startup": {"_process"},
    "_evidence": {"_process", "_gpu", "_startup"},
    "_proxmox": {"_process"},
    "_server": {"_process"},
    "_snapshot": {"_memory"},
    "_runtime": {"_process", "_gpu"},
    "_doctor": {"_process", "_memory", "_options", "_gpu", "_startup", "_proxmox", "_server"},
    "_monitor": {"_gpu", "_server"},
}
# The one file that may import each thing that is not in the standard library (guarded, or in a Python that has it).
OPTIONAL = {"pynvml": Path("_gpu/nvml.py"), "huggingface_hub": Path("_snapshot/client.py")}
# Files that are copied to the target as they stand and run there as programs: they speak and exit.
PROGRAMS = {CORE / "_server/prestart.py", CORE / "_snapshot/client.py", CORE / "_runtime/proof.py"}
# What the other folders may import of Ansible, and of this collection.
EDGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "modules": (("ansible.module_utils",), (f"{COLLECTION}.plugins.module_utils",)),
    "action": (("ansible",), (f"{COLLECTION}.plugins.plugin_utils",)),
    # What pct says is one table, for the controller and for the node.
    "connection": (("ansible",), (f"{COLLECTION}.plugins.plugin_utils", f"{COLLECTION}.plugins.module_utils._proxmox")),
    "filter": (("ansible",), (f"{COLLECTION}.plugins.plugin_utils",)),
    "plugin_utils": (("ansible",), (f"{COLLECTION}.plugins.module_utils", f"{COLLECTION}.plugins.plugin_utils")),
    "doc_fragments": (("ansible",), ()),  # options of Ansible's own plugins, as the version that runs has them
}
MAIN_LINES = 60

SPDX = "SPDX-" + "License-Identifier: GPL-3.0-or-later"  # in two, or the reuse tool reads it as this file's own
PRIVATE = "# Private to this collection: may change in any release."
TEXT = {".py", ".yml", ".yaml", ".md", ".rst", ".sh", ".toml", ".j2", ".txt", ".in", ""}


def files(root: Path) -> list[Path]:
    """The files of the tree, relative: what git knows or would take; without git all but caches."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=False
    )
    if listing.returncode == 0 and (root / ".git").exists():
        found = [Path(name) for name in listing.stdout.decode().split("\0") if name]
    else:
        found = [path.relative_to(root) for path in root.rglob("*")]
    skip = {".cache", ".git", "__pycache__"}
    return sorted(path for path in found if (root / path).is_file() and not skip & set(path.parts))


def sources(root: Path, folder: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((root / folder).rglob("*.py")):
        yield path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import that happens at run time; relative ones as full names."""
    package = [*COLLECTION.split("."), *path.parent.parts]
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{stem}.{alias.name}"


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def imports_run_one_way(root: Path) -> list[str]:
    broken = []
    core = f"{COLLECTION}.{'.'.join(CORE.parts)}."
    for path, tree in sources(root, str(CORE)):
        inside = path.relative_to(CORE)
        room = inside.parts[0].removesuffix(".py")
        if room not in ROOMS and room not in BASE:
            broken.append(f"{path}: the room {room} is not in the table ROOMS of {Path(__file__).name}")
            continue
        for line, name in imports(path, tree):
            if name.startswith(core):
                target = name[len(core) :].split(".")[0]
                allowed = BASE if room in BASE else {room} | BASE | ROOMS[room]
                if target not in allowed:
                    broken.append(f"{path}:{line}: {room} may not import {target}")
            elif OPTIONAL.get(name.split(".")[0]) != inside and name.split(".")[0] not in sys.stdlib_module_names:
                broken.append(f"{path}:{line}: the core imports the standard library alone, not {name}")
    for folder in sorted(path.name for path in (root / "plugins").iterdir() if path.is_dir()):
        if folder in ("module_utils", "__pycache__"):
            continue
        if folder not in EDGES:
            broken.append(f"plugins/{folder}: not in the table EDGES of {Path(__file__).name}")
            continue
        of_ansible, of_ours = EDGES[folder]
        for path, tree in sources(root, f"plugins/{folder}"):
            for line, name in imports(path, tree):
                known = name.split(".")[0] in sys.stdlib_module_names
                if not (known or within(name, of_ansible) or within(name, of_ours)):
                    broken.append(f"{path}:{line}: {folder} may not import {name}")
    return broken


def imports_have_no_circle(root: Path) -> list[str]:
    stem = COLLECTION + "."
    graph: dict[str, set[str]] = {}
    for path, tree in sources(root, str(CORE)):
        parts = path.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph[name] = {target[len(stem) :] for _line, target in imports(path, tree) if target.startswith(stem)}

    def known(name: str) -> str | None:
        """The file that an imported name is in: the name itself, or what it is an attribute of."""
        return name if name in graph else (name.rpartition(".")[0] if name.rpartition(".")[0] in graph else None)

    edges = {name: {file for file in map(known, targets) if file and file != name} for name, targets in graph.items()}
    done: set[str] = set()
    broken: list[str] = []

    def walk(name: str, trail: list[str]) -> None:
        if name in trail:
            broken.append("circle: " + " -> ".join([*trail[trail.index(name) :], name]))
        elif name not in done:
            for target in sorted(edges[name]):
                walk(target, [*trail, name])
            done.add(name)

    for name in sorted(edges):
        walk(name, [])
    return broken


def modules_are_thin(root: Path) -> list[str]:
    broken = []
    for path, tree in sources(root, "plugins/modules"):
        mains = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
        if not mains:
            broken.append(f"{path}: no main()")
            continue
        lines = (mains[0].end_lineno or 0) - mains[0].lineno + 1
        if lines > MAIN_LINES:
            broken.append(f"{path}:{mains[0].lineno}: main() has {lines} lines, more than {MAIN_LINES}")
    return broken


def core_does_not_print_or_exit(root: Path) -> list[str]:
    broken = []
    for folder in (str(CORE), "plugins/modules", "plugins/action", "plugins/connection"):
        for path, tree in sources(root, folder):
            for node in ast.walk(tree):
                if isinstance(node, ast.Assert):
                    broken.append(f"{path}:{node.lineno}: assert (python -O takes it away)")
                elif path in PROGRAMS:
                    continue
                elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.exit", "exit"):
                    broken.append(f"{path}:{node.lineno}: {ast.unparse(node.func)}()")
    return broken


def _glob(pattern: str) -> re.Pattern[str]:
    """A path of REUSE.toml: * stays within a folder, ** does not."""
    parts = re.split(r"(\*\*/|\*\*|\*)", pattern)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts) + r"\Z")


def files_name_their_licence(root: Path) -> list[str]:
    covered = []
    if (root / "REUSE.toml").exists():
        for note in tomllib.loads((root / "REUSE.toml").read_text(encoding="utf-8"))["annotations"]:
            if SPDX.partition(":")[0] in note:
                covered += [_glob(path) for path in ([note["path"]] if isinstance(note["path"], str) else note["path"])]
    broken = []
    for path in files(root):
        if path.parts[0] == "LICENSES" or any(pattern.match(path.as_posix()) for pattern in covered):
            continue
        content = (root / path).read_bytes()
        if content and SPDX.encode() not in b"\n".join(content.split(b"\n")[:10]):
            broken.append(f"{path}: no line '{SPDX}' among its first ten")
        elif content and path.is_relative_to(CORE) and path.suffix == ".py":
            lines = content.decode().splitlines()
            if lines[:2] != [f"# {SPDX}", PRIVATE]:
                broken.append(f"{path}: its first two lines are not '# {SPDX}' and '{PRIVATE}'")
    return broken


class _Loader(yaml.SafeLoader):
    """Knows no tag of Ansible's (!vault, !unsafe) and takes each for its bare value."""


_Loader.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def load(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (it is a SafeLoader)


def role_specs_equal_defaults(root: Path) -> list[str]:
    """Every option has a default in defaults/main.yml, unless it is required; the two files tell the same one."""
    broken = []
    for role in sorted((root / "roles").glob("*/")):
        name, spec_file = role.name, role / "meta" / "argument_specs.yml"
        if not spec_file.exists():
            broken.append(f"roles/{name}: no meta/argument_specs.yml")
            continue
        options: dict[str, dict[str, Any]] = {}
        for entry in load(spec_file)["argument_specs"].values():
            options.update(entry.get("options") or {})
        defaults = (load(role / "defaults" / "main.yml") if (role / "defaults" / "main.yml").exists() else None) or {}
        private = (load(role / "vars" / "main.yml") if (role / "vars" / "main.yml").exists() else None) or {}
        prefix = name.lstrip("_") + "_"
        public = {key: option for key, option in options.items() if not key.startswith("_")}
        for key in sorted({*public, *defaults}):
            if not key.startswith(prefix):
                broken.append(f"roles/{name}: {key} does not begin with {prefix}")
            if key not in public:
                broken.append(f"roles/{name}: {key} is in defaults/main.yml and not in meta/argument_specs.yml")
            elif public[key].get("required"):
                if key in defaults:
                    broken.append(f"roles/{name}: {key} is required and has a default in defaults/main.yml")
            elif key not in defaults:
                broken.append(f"roles/{name}: {key} is in meta/argument_specs.yml and not in defaults/main.yml")
            elif "{{" in str(defaults[key]):
                if "default" in public[key] and public[key]["default"] != defaults[key]:
                    broken.append(f"roles/{name}: {key} has one default in the specification and another in defaults")
            elif public[key].get("default") != defaults[key]:
                broken.append(
                    f"roles/{name}: {key} is {public[key].get('default')!r} in meta/argument_specs.yml"
                    f" and {defaults[key]!r} in defaults/main.yml"
                )
        for key in sorted({*private, *(set(options) - set(public))}):
            if not key.startswith(f"_{prefix}"):
                broken.append(f"roles/{name}: the private {key} does not begin with _{prefix}")
    return broken


def modules_are_in_the_action_group(root: Path) -> list[str]:
    modules = {path.stem for path in (root / "plugins/modules").glob("*.py") if path.stem != "__init__"}
    groups = load(root / "meta/runtime.yml").get("action_groups", {})
    broken = [f"meta/runtime.yml: action group {name}; there is one, {GROUP}" for name in groups if name != GROUP]
    members = groups.get(GROUP, [])
    if members != sorted(members):
        broken.append(f"meta/runtime.yml: the members of {GROUP} are not sorted")
    broken += [f"meta/runtime.yml: {name} is no module" for name in sorted(set(members) - modules)]
    broken += [f"meta/runtime.yml: the module {name} is not in {GROUP}" for name in sorted(modules - set(members))]
    fragments = {"llmhost.sglang.attributes", "llmhost.sglang.attributes.actiongroup_sglang"}
    for path, tree in sources(root, "plugins/modules"):
        texts = [
            node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "DOCUMENTATION"
            and isinstance(node.value, ast.Constant)
        ]
        used = yaml.safe_load(texts[0]).get("extends_documentation_fragment", []) if texts else []
        missing = fragments - set([used] if isinstance(used, str) else used)
        broken += [f"{path}: its documentation does not use the fragment {name}" for name in sorted(missing)]
    return broken


BLOCKS = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")


def _tasks(data: Any) -> Iterator[dict[str, Any]]:
    """Plays, blocks and tasks of a file, at any depth."""
    for item in data if isinstance(data, list) else []:
        if isinstance(item, dict):
            yield item
            for block in BLOCKS:
                yield from _tasks(item.get(block))


def playbooks_hide_nothing(root: Path) -> list[str]:
    banned = {"ignore_errors", "shell", "ansible.builtin.shell", "raw", "ansible.builtin.raw"}
    broken = []
    for path in files(root):
        if path.parts[0] in ("roles", "playbooks") and path.suffix in (".yml", ".yaml"):
            for task in _tasks(load(root / path)):
                broken += [f"{path}: {key} in '{task.get('name')}'" for key in sorted(banned & set(task))]
    return broken


def text_is_tidy(root: Path) -> list[str]:
    as_it_came = {"corpus", "data", "files", "nvml"}  # recordings, and the C sources
    broken = []
    for path in files(root):
        written_by_tool = path.parts[0] == "LICENSES" or path.name.startswith("CHANGELOG")
        if written_by_tool or path.suffix not in TEXT or as_it_came & set(path.parts):
            continue
        content = (root / path).read_bytes()
        if not content or b"\0" in content:
            continue
        for number, line in enumerate(content.split(b"\n"), 1):
            if line != line.rstrip():
                broken.append(f"{path}:{number}: space at the end of the line")
            if b"\t" in line and not fnmatch.fnmatch(path.name, "Makefile*"):
                broken.append(f"{path}:{number}: tab")
        if not content.endswith(b"\n") or content.endswith(b"\n\n"):
            broken.append(f"{path}: does not end with one newline")
    return broken
