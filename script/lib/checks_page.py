# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the doctor's checks, made from their table.

Usage: checks_page.py ROOT [--check]
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

PAGE = "docs/docsite/rst/checks.rst"
PACKAGE = "ansible_collections.llmhost.sglang.plugins.module_utils"
HEAD = """..
  SPDX-License-Identifier: GPL-3.0-or-later
  Made by script/generate from plugins/module_utils/_doctor: change that, not this.

.. _ansible_collections.llmhost.sglang.docsite.checks:

Checks of the doctor
====================

What :ansplugin:`llmhost.sglang.doctor_info#module` and the playbook ``llmhost.sglang.doctor`` look at, by family. A
check says ``ok``, ``warn``, ``fail``, ``unknown`` where it could not be seen, or ``not_applicable``. Words in braces
are filled in by the check.
"""
PLACES = {"node": "Proxmox node", "container": "container", "bare_metal": "host without Proxmox"}
FAMILIES = {
    "driver": "Driver",
    "devices": "Device nodes",
    "cuda": "CUDA",
    "gpu": "GPUs",
    "p2p": "Between GPUs",
    "container": "Proxmox container",
    "memory": "Memory",
    "system": "System",
    "limits": "Limits",
    "storage": "Storage",
    "network": "Network",
    "toolchain": "Compilers",
    "server": "Servers",
}


def rows(root: Path) -> list[dict[str, Any]]:
    """The table, imported from this checkout wherever it lies."""
    parts = PACKAGE.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*parts[3:depth]))] if depth >= 3 else []
        sys.modules[name] = package
    found: list[dict[str, Any]] = importlib.import_module(PACKAGE + "._doctor.checks").table()
    return found


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("`", "\\`").replace("|", "\\|")


def report(case: str) -> str:
    """A public report, as a link where it is one of GitHub's."""
    name, mark, number = case.partition("#")
    if mark and number.isdigit() and name.count("/") == 1:
        return f"`{case} <https://github.com/{name}/issues/{number}>`__"
    return escape(case)


def page(table: list[dict[str, Any]]) -> str:
    parts = [HEAD]
    for family in dict.fromkeys(row["family"] for row in table):
        title = FAMILIES[family]
        parts.append(f"\n{title}\n{'-' * len(title)}\n")
        for row in table:
            if row["family"] == family:
                parts.append(entry(row))
    return "".join(parts)


def entry(row: dict[str, Any]) -> str:
    lines = [
        "",
        f"``{row['id']}``",
        "~" * (len(row["id"]) + 4),
        "",
        escape(row["meaning"]),
        "",
    ]
    where = ", ".join(PLACES[place] for place in row["places"])
    lines.append(f"- **Where**: {where}; severity {row['severity']}" + ("; only on demand" if row["on_demand"] else ""))
    lines.append(f"- **Seen by**: {escape(row['look'])}")
    lines.append(f"- **What to do**: {escape(row['remedy'])}")
    if row["cases"]:
        lines.append("- **Reported in**: " + ", ".join(report(case) for case in row["cases"]))
    return "\n".join(lines) + "\n"


def main() -> int:
    root, check = Path(sys.argv[1]).resolve(), "--check" in sys.argv[2:]
    made, target = page(rows(root)), root / PAGE
    if target.exists() and target.read_text(encoding="utf-8") == made:
        return 0
    if check:
        print(f"{PAGE} is not what script/generate makes of the table", file=sys.stderr)
        return 1
    target.write_text(made, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
