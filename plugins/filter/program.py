# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program with the parts of the core that it uses, as one file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: program
short_description: A program with the parts of this collection's core that it uses, as one file
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Makes one Python file of a program and of rooms of the collection's core, for a timer or a service of the target
    that works without Ansible. Used by the roles of this collection.
  - The core is private and may change with any release, so a program of your own that uses it may break.
positional: rooms
options:
  _input:
    description: The program. It imports the rooms from the package C(llmhost_core).
    type: str
    required: true
  rooms:
    description: Files (without their ending) and folders of the collection's C(module_utils).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Write the monitor
  ansible.builtin.copy:
    content: "{{ 'from llmhost_core import _errors\n' | llmhost.sglang.program(['_errors']) }}"
    dest: /tmp/llmhost-program.py
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""

from collections.abc import Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _bundle


def program(text: Any, rooms: Any) -> str:
    """The file; AnsibleFilterError where a room is not there."""
    if isinstance(rooms, str) or not isinstance(rooms, Sequence):
        raise AnsibleFilterError("program takes a list of rooms, not a %s" % type(rooms).__name__)
    try:
        return _bundle.bundle([str(room) for room in rooms], str(text))
    except OSError as error:
        raise AnsibleFilterError("the core has no room %s: %s" % (error.filename, error.strerror)) from error


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"program": program}
