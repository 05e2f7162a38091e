# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Rooms of the core and a program that uses them as the text of one Python file, for what runs without Ansible."""

from __future__ import annotations

import json
import os

CORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "module_utils")
PACKAGE = "llmhost_core"

HEAD = '''\
# SPDX-License-Identifier: GPL-3.0-or-later
"""Written by the Ansible collection llmhost.sglang: the parts of its core that this program needs, and the program."""
import importlib.abc
import importlib.util
import json
import sys

SOURCES = json.loads(r"""
%s
""")


class Inside(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the modules that this file carries."""

    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=self.is_package(name))

    def is_package(self, name):
        return SOURCES[name][0]

    def get_source(self, name):
        return SOURCES[name][1]


sys.meta_path.insert(0, Inside())

'''


def bundle(rooms: list[str], program: str) -> str:
    """``rooms`` are files or folders of module_utils; ``program`` imports them as ``llmhost_core.ROOM``.

    Raises OSError for a room that is not there.
    """
    sources: dict[str, tuple[bool, str]] = {PACKAGE: (True, "")}
    for room in rooms:
        path = os.path.join(CORE, room)
        if os.path.isdir(path):
            for name in sorted(os.listdir(path)):
                if name == "__init__.py":
                    sources["%s.%s" % (PACKAGE, room)] = (True, _read(os.path.join(path, name)))
                elif name.endswith(".py"):
                    sources["%s.%s.%s" % (PACKAGE, room, name[:-3])] = (False, _read(os.path.join(path, name)))
        else:
            sources["%s.%s" % (PACKAGE, room)] = (False, _read(path + ".py"))
    # one module a line, so that a diff shows which one changed; ASCII, so three quotes cannot end the text early
    lines = ("%s: %s" % (json.dumps(name), json.dumps(sources[name]).replace('"""', '""\\u0022')) for name in sources)
    return HEAD % ("{\n" + ",\n".join(lines) + "\n}") + program


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as handle:
        return handle.read()
