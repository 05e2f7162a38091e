# SPDX-License-Identifier: GPL-3.0-or-later
"""What of docs/ is made from the code: the page of the rooms (which imports which, as a picture and as a table) and the
numbers of the founding failure, which the planner computes; they stand between ".. made: NAME" and ".. made: end".

Usage: docs_pages.py ROOT [--check]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

PAGE = "docs/docsite/rst/rooms.rst"
CORE = "ansible_collections.llmhost.sglang.plugins.module_utils."
FOLDERS = ("modules", "action", "connection", "filter")  # the edge: what Ansible loads
WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT = 860, 92, 128, 38
HEAD = """..
  SPDX-License-Identifier: GPL-3.0-or-later
  Made by script/generate from the imports in plugins/: change those, not this.

.. _ansible_collections.llmhost.sglang.docsite.rooms:

The rooms of the code
=====================

Every arrow is an import that is in the code; arrows that follow from others are left out. They run downwards only, and
a test refuses an import against them.

.. raw:: html

"""
TABLE = """
What Ansible loads stands in the first rows, the core below it. The core imports nothing but Python's standard library
and what the last column names.

.. list-table::
  :header-rows: 1

  * - Folder
    - What lives there
    - Imports
"""


def words(path: Path) -> str:
    """The first sentence of a room's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else None
    return (text or "").split("\n\n")[0].replace("\n", " ").replace("*", "\\*").strip()


def targets(path: Path, package: list[str]) -> set[str]:
    """The rooms that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names = [stem + "." + alias.name for alias in node.names]
        found |= {name[len(CORE) :].split(".")[0] for name in names if name.startswith(CORE)}
    return found


def graph(root: Path) -> dict[str, set[str]]:
    plugins = root / "plugins"
    core = plugins / "module_utils"
    rooms = sorted(path.name for path in core.glob("_*") if path.is_dir() and path.name != "__pycache__")
    edges: dict[str, set[str]] = {}
    for name in [*FOLDERS, *rooms]:
        folder = core / name if name in rooms else plugins / name
        if not folder.is_dir():
            continue
        found: set[str] = set()
        for path in sorted(folder.rglob("*.py")):
            package = ["ansible_collections", "llmhost", "sglang", *path.relative_to(root).parent.parts]
            found |= targets(path, package)
        edges[name] = {room for room in found if room in rooms and room != name}
    return edges


def below(edges: dict[str, set[str]], name: str) -> set[str]:
    return edges[name] | {far for near in edges[name] for far in below(edges, near)}


def reduced(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows that do not follow from others."""
    return [
        (name, near)
        for name in edges
        for near in sorted(edges[name])
        if not any(near in below(edges, other) for other in edges[name] if other != near)
    ]


def depth(edges: dict[str, set[str]], name: str) -> int:
    return 1 + max((depth(edges, near) for near in edges[name]), default=0)


def picture(edges: dict[str, set[str]]) -> str:
    top = max(depth(edges, name) for name in edges if name not in FOLDERS) + 1
    levels: dict[int, list[str]] = {}
    for name in edges:
        levels.setdefault(top if name in FOLDERS else depth(edges, name), []).append(name)
    place: dict[str, tuple[float, float]] = {}
    for level, names in levels.items():
        for number, name in enumerate(names):
            place[name] = (WIDTH * (number + 0.5) / len(names), (top - level) * ROW + 30.0)
    height = top * ROW
    lines = [
        '<svg role="img" aria-label="Which room of the code imports which" viewBox="0 0 %d %d" width="100%%"'
        % (WIDTH, height),
        '     style="max-width: %dpx" font-family="sans-serif" font-size="14" fill="currentColor">' % WIDTH,
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '    <path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
    ]
    half = BOX_HEIGHT / 2
    for name, near in reduced(edges):
        (x1, y1), (x2, y2) = place[name], place[near]
        y1, y2 = y1 + half, y2 - half
        middle = (y1 + y2) / 2
        curve = "M%.0f %.0f C%.0f %.0f %.0f %.0f %.0f %.0f" % (x1, y1, x1, middle, x2, middle, x2, y2 - 1)
        lines.append('  <path d="%s" fill="none" stroke="currentColor" opacity="0.6" marker-end="url(#tip)"/>' % curve)
    for name, (x, y) in place.items():
        style = 'stroke-dasharray="4 3" ' if name in FOLDERS else ""
        lines.append(
            '  <rect x="%.0f" y="%.0f" width="%d" height="%d" rx="6" fill="#8884" stroke="currentColor" %s/>'
            % (x - BOX_WIDTH / 2, y - half, BOX_WIDTH, BOX_HEIGHT, style)
        )
        lines.append('  <text x="%.0f" y="%.0f" text-anchor="middle">%s</text>' % (x, y + 5, escape(name)))
    return "\n".join([*lines, "</svg>"])


EDGE_WORDS = {
    "modules": "Arguments, documentation, one call into the core.",
    "action": "What must happen on the controller: live progress.",
    "connection": "A Proxmox container over OpenSSH.",
    "filter": "Reports for people.",
    # rooms that say nothing of themselves
    "_doctor": "Checks of a host, one file a family.",
    "_memory": "What fits on a GPU: geometry of a model, pools, the planner and its remedies.",
    "_process": "Who a process is, how to signal exactly that one, what systemd says of a unit.",
    "_proxmox": "The configuration of a container, and what pct says.",
    "_startup": "From the bytes of a log to lines, phases and a verdict.",
}


def page(root: Path) -> str:
    edges = graph(root)
    text = HEAD + "".join("  " + line + "\n" for line in picture(edges).splitlines()) + TABLE
    for name, near in edges.items():
        what = words(root / "plugins/module_utils" / name / "__init__.py") or EDGE_WORDS.get(name, "")
        text += "  * - ``%s``\n    - %s\n    - %s\n" % (
            name,
            what,
            ", ".join("``%s``" % n for n in sorted(near)) or "\\-",
        )
    return text.replace("    - \n", "    -\n")


def founding() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The planner, and the problem that its tests begin with. The collection must be on the path (.cache/view)."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._memory.plan import evaluate
    from ansible_collections.llmhost.sglang.tests.unit.memory.memory_examples import founding as problem

    return evaluate, problem


ITEMS = {
    "driver": "what the driver keeps",
    "startup": "what the start takes before the weights",
    "weights": "weights",
    "load_drop": "left over from loading",
    "states": "states, one for each of 48 requests",
    "draft_states": "states of the draft, four more for each",
    "slack": "kept back by the fraction of 0.85",
    "unassigned": "left for the cache of tokens",
}
TRIALS: list[tuple[str, str, dict[str, Any]]] = [
    ("as it was", "0.5.9", {}),
    ("``mem_fraction_static: 0.90``", "0.5.9", {"mem_fraction_static": 0.90}),
    ("``mem_fraction_static: 0.96``", "0.5.9", {"mem_fraction_static": 0.96}),
    ("``max_running_requests: 8``", "0.5.9", {"max_running_requests": 8}),
    ("``max_running_requests: 16``", "0.5.9", {"max_running_requests": 16}),
    ("``max_running_requests: 40``", "0.5.9", {"max_running_requests": 40}),
    (
        "no speculation",
        "0.5.9",
        dict.fromkeys(
            (
                "speculative_algorithm",
                "speculative_num_steps",
                "speculative_eagle_topk",
                "speculative_num_draft_tokens",
            )
        ),
    ),
    ("as it was, on 0.5.10", "0.5.10", {}),
    ("as it was, on 0.5.14", "0.5.14", {}),
    ("as it was, on 0.5.23", "0.5.23", {}),
]
STAGES = {
    "kv": "no room for the cache",
    "late": "late",
    "args": "the arguments are refused",
    "state": "no room for states",
}


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [".. list-table::", "  :header-rows: 1", ""]
    for row in [head, *rows]:
        lines += ["  %s - %s" % ("*" if number == 0 else " ", cell) for number, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def founding_budget() -> str:
    evaluate, problem = founding()
    plan = evaluate(problem("0.5.9"))
    rows = [[ITEMS.get(name, name), "%.2f" % size] for name, size in plan.budget[0].items.items()]
    return table(["On each card", "GiB"], [*rows, ["**the card**", "%.2f" % plan.budget[0].total_gib]])


def founding_table() -> str:
    evaluate, problem = founding()
    rows = []
    for what, version, changes in TRIALS:
        plan = evaluate(problem(version, **changes))
        if plan.verdict == "fail":
            rows.append([what, "does not start: %s" % STAGES.get(plan.stage, plan.stage), "\\-", "\\-"])
        else:
            rows.append([what, "starts", f"{plan.tokens:,}".replace(",", " "), str(plan.requests)])
    return table(["Change", "Result", "Tokens", "Requests"], rows)


MADE: dict[str, Callable[[], str]] = {"founding_budget": founding_budget, "founding_table": founding_table}


def filled(text: str) -> str:
    """The page with everything between its marks made anew."""
    return re.sub(
        r"(?m)(^\.\. made: (\w+)\n).*?(^\.\. made: end\n)",
        lambda found: "%s\n%s\n%s" % (found[1], MADE[found[2]](), found[3]),
        text,
        flags=re.DOTALL,
    )


def generate(root: Path) -> dict[str, str]:
    sys.path.insert(0, str(root / ".cache/view"))
    made = {PAGE: page(root)}
    for path in sorted((root / "docs/docsite/rst").glob("*.rst")):
        text = path.read_text(encoding="utf-8")
        if "\n.. made: end\n" in text:
            made[str(path.relative_to(root))] = filled(text)
    return made


def stale(root: Path) -> list[str]:
    made = generate(root)
    return [
        name
        for name, text in made.items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(root: str, *flags: str) -> int:
    wrong = stale(Path(root))
    if "--check" in flags:
        print("\n".join("not as script/generate makes it: " + name for name in wrong) or "docs_pages: fresh")
        return 1 if wrong else 0
    made = generate(Path(root))
    for name in wrong:
        (Path(root) / name).write_text(made[name], encoding="utf-8")
    print("\n".join("wrote " + name for name in wrong) or "docs_pages: nothing to do")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
