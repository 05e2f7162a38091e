# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict on a server that spans several hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes_verdict
short_description: One verdict on a server that spans several hosts
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Makes one verdict of those that M(llmhost.sglang.server_wait) returned on each host of one SGLang with C(nnodes).
  - It is that of the rank that is the root. A rank that tells of its own failure comes before one that tells only of a
    lost connection, whichever failed first; where nobody has failed, it is the rank that is furthest behind.
  - It is ready when rank 0 is, and no other has failed.
options:
  _input:
    description:
      - The nodes in the order of their ranks. Each is C(host), its name, and C(verdict), what the module returned
        there; null where there is none.
    type: list
    elements: dict
    required: true
seealso:
  - plugin: llmhost.sglang.server_wait
    plugin_type: module
"""

EXAMPLES = r"""
- name: Say which host is to blame
  ansible.builtin.debug:
    msg: "{{ (llmhost_nodes | llmhost.sglang.nodes_verdict).message }}"
  vars:
    llmhost_nodes:
      - host: gpu1
        verdict:
          outcome: failed
          cause: peer_rank_died
          phase: graph_capture
          message: Another rank or node died; this log shows only the consequence.
          evidence: {line: "RuntimeError: Connection closed by peer [192.0.2.2]:45492"}
      - host: gpu2
        verdict:
          outcome: failed
          cause: oom_graph_capture
          phase: graph_capture
          message: The GPU's memory ran out while the graphs were captured.
"""

RETURN = r"""
_value:
  description:
    - The verdict of the root with the keys of M(llmhost.sglang.server_wait). Its C(message) names every rank.
    - C(root) is the C(rank) and the C(host) that failed, or null.
    - C(ranks) is a list with C(rank), C(host), C(outcome), C(cause), C(phase), C(message) and C(part) of each. A part
      is C(root), C(consequence), C(failed too), C(waiting), C(silent) (there is no verdict), C(ready) or C(skipped).
  type: dict
"""

from collections.abc import Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _nodes


def nodes_verdict(nodes: Any) -> dict[str, Any]:
    """Refuse what are no nodes, hand the rest on."""
    if isinstance(nodes, str) or not isinstance(nodes, Sequence):
        raise AnsibleFilterError("nodes_verdict takes a list of nodes, not a %s" % type(nodes).__name__)
    try:
        return _nodes.verdict(nodes)
    except ValueError as error:
        raise AnsibleFilterError("nodes_verdict: %s" % error) from error


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"nodes_verdict": nodes_verdict}
