# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor found as one HTML page."""

from __future__ import annotations

DOCUMENTATION = r"""
name: doctor_report
short_description: What the doctor found as one HTML page
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Makes a page of what M(llmhost.sglang.doctor_info) returned - what to change first, then what
    could not be seen, then what is in order.
  - The page is one file. It needs no script and no network, works on a phone and in dark mode, and secrets are masked.
positional: name
options:
  _input:
    description:
      - What M(llmhost.sglang.doctor_info) returned, for each host that it looked at, with the host's name in C(host).
    type: list
    elements: dict
    required: true
  name:
    description: What was looked at, for the title.
    type: str
    default: ""
seealso:
  - plugin: llmhost.sglang.doctor_info
    plugin_type: module
"""

EXAMPLES = r"""
- name: Look at this host
  llmhost.sglang.doctor_info:
  register: llmhost_found

- name: Keep a page of it on the controller
  ansible.builtin.copy:
    content: "{{ [llmhost_found | combine({'host': inventory_hostname})] | llmhost.sglang.doctor_report }}"
    dest: "./doctor.html"
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _doctor_page


def doctor_report(views: Any, name: str = "") -> str:
    """Refuse what the doctor did not return, hand the rest on."""
    if not isinstance(views, Sequence) or not all(isinstance(view, Mapping) and "findings" in view for view in views):
        raise AnsibleFilterError("doctor_report takes a list of what llmhost.sglang.doctor_info returned")
    return _doctor_page.page(views, str(name or ""))


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"doctor_report": doctor_report}
