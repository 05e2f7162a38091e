# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor found as lines of text."""

from __future__ import annotations

DOCUMENTATION = r"""
name: doctor_table
short_description: What the doctor found as lines of text
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Makes lines for a terminal of what M(llmhost.sglang.doctor_info) returned - a count, then what
    is wrong with what to do, the worst first, then the names of what could not be seen.
positional: status
options:
  _input:
    description:
      - What M(llmhost.sglang.doctor_info) returned, for each host that it looked at, with the host's name in C(host).
    type: list
    elements: dict
    required: true
  status:
    description: Which statuses have lines of their own.
    type: list
    elements: str
    choices: [fail, warn, unknown, ok, not_applicable]
    default: [fail, warn]
seealso:
  - plugin: llmhost.sglang.doctor_info
    plugin_type: module
"""

EXAMPLES = r"""
- name: Look at this host
  llmhost.sglang.doctor_info:
  register: llmhost_found

- name: Tell people
  ansible.builtin.debug:
    msg: "{{ [llmhost_found | combine({'host': inventory_hostname})] | llmhost.sglang.doctor_table }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _doctor_page


def doctor_table(views: Any, status: Any = ("fail", "warn")) -> list[str]:
    """Refuse what the doctor did not return, hand the rest on."""
    if not isinstance(views, Sequence) or not all(isinstance(view, Mapping) and "findings" in view for view in views):
        raise AnsibleFilterError("doctor_table takes a list of what llmhost.sglang.doctor_info returned")
    return _doctor_page.table(views, [str(one) for one in status])


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"doctor_table": doctor_table}
