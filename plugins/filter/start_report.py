# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One start of a server as one HTML page."""

from __future__ import annotations

DOCUMENTATION = r"""
name: start_report
short_description: One start of a server as one HTML page
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Makes a report of what M(llmhost.sglang.server_wait) or M(llmhost.sglang.log_diagnosis_info) returned - the verdict
    and what to change, the timeline of the phases by rank, the memory that SGLang printed, the evidence and the end of
    the output.
  - The page is one file. It needs no script and no network, works on a phone and in dark mode, and secrets are masked.
positional: host, name
options:
  _input:
    description: The verdict.
    type: dict
    required: true
  host:
    description: Name of the host, for the title.
    type: str
    default: ""
  name:
    description: Name of the instance, for the title. Taken from the verdict's C(unit) where not given.
    type: str
    default: ""
  plan:
    description: What M(llmhost.sglang.memory_plan_info) returned before the start. Its budget is drawn.
    type: dict
seealso:
  - plugin: llmhost.sglang.server_wait
    plugin_type: module
  - plugin: llmhost.sglang.log_diagnosis_info
    plugin_type: module
"""

EXAMPLES = r"""
- name: Follow the start
  llmhost.sglang.server_wait:
    name: chat
    fail: false
  register: llmhost_verdict

- name: Keep a report of it on the controller
  ansible.builtin.copy:
    content: "{{ llmhost_verdict | llmhost.sglang.start_report(host=inventory_hostname, name='chat') }}"
    dest: "./chat.html"
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _report


def start_report(verdict: Any, host: str = "", name: str = "", plan: Any = None) -> str:
    """Refuse what is no verdict, hand the rest on."""
    if not isinstance(verdict, Mapping):
        raise AnsibleFilterError(
            "start_report takes what llmhost.sglang.server_wait or llmhost.sglang.log_diagnosis_info returned, "
            "not a %s" % type(verdict).__name__
        )
    if plan is not None and not isinstance(plan, Mapping):
        raise AnsibleFilterError(
            "plan must be what llmhost.sglang.memory_plan_info returned, not a %s" % type(plan).__name__
        )
    return _report.start_report(verdict, str(host or ""), str(name or ""), plan)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"start_report": start_report}
