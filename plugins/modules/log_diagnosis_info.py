#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on an SGLang log, after the fact."""

from __future__ import annotations

DOCUMENTATION = r"""
module: log_diagnosis_info
short_description: Say what an SGLang log tells of its start
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Reads the output of an SGLang server - a file on the target, a text, or the journal of a unit - and returns the
    verdict that M(llmhost.sglang.server_wait) would have come to - outcome, root cause, evidence and what to change.
  - Understands what docker, compose, Kubernetes, journald, Ray, torchrun and mpirun put before a line, progress bars,
    colours, several ranks in one log, and exports that list the newest line first.
  - A file or journal of any size is read in constant memory.
  - Never fails because the log tells of a failure.
options:
  path:
    description: Log file on the target.
    type: path
  content:
    description: Text of a log.
    type: str
  unit:
    description: Unit on the target whose journal is read, for example V(sglang-llama.service).
    type: str
  invocation:
    description: The start to look at, systemd's invocation id. The unit's last one where not given.
    type: str
  state_dir:
    description: Folder of this collection's state on the target, looked at for room with O(unit).
    type: path
    default: /var/lib/llmhost
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.info_module
  - llmhost.sglang.attributes.actiongroup_sglang
seealso:
  - module: llmhost.sglang.server_wait
"""

EXAMPLES = r"""
- name: What does this log tell
  llmhost.sglang.log_diagnosis_info:
    path: /var/log/sglang.log
  register: llmhost_diagnosis

- name: Look at a text
  llmhost.sglang.log_diagnosis_info:
    content: "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."

- name: Look at the last start of a unit
  llmhost.sglang.log_diagnosis_info:
    unit: sglang-llama.service
"""

RETURN = r"""
outcome:
  description:
    - What the log tells.
    - With O(unit) also V(stopped). Where the log of a start that has ended tells of no failure, and
      M(llmhost.sglang.server_wait) came to a verdict on it, it is that verdict, with C(detail.told_by_the_watch).
    - A start that was V(ready) and has ended is V(crashed_after_ready), also where its log tells of no failure, unless
      somebody stopped it. That is V(ready) with C(detail.ended).
  returned: success
  type: str
  sample: failed
  choices: [ready, failed, in_progress, crashed_after_ready, stopped, stalled, timeout]
cause:
  description:
    - Id of the cause in the failure catalogue; V(unknown) where the catalogue does not know it; null when ready.
  returned: success
  type: str
  sample: kv_cache_no_memory
phase:
  description: Phase in which it ended or is.
  returned: success
  type: str
  sample: kv_cache
  choices: [import, args, init_distributed, load_weights, kv_cache, graph_capture, compile, http, warmup, runtime]
message:
  description: One sentence that a person understands.
  returned: success
  type: str
  sample: After loading the weights no memory is left for the KV cache.
evidence:
  description:
    - The root line and where it is - C(line), C(number), C(offset), C(ranks) that said it, C(source), innermost
      C(frames), and C(discarded) lines that are only consequences.
    - With O(unit), C(outside) holds what is not in the log, as in RV(llmhost.sglang.server_wait#module:evidence).
      The kernel log of the time of that start may decide. GPUs, file systems and ports are seen as they are now and
      decide nothing.
  returned: success
  type: dict
  sample: {"line": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "number": 1}
detail:
  description: Numbers and names of this case.
  returned: success
  type: dict
  sample: {}
remedies:
  description:
    - What to change, the best first - C(id), C(text), C(arguments), C(host_action), C(proven_by), C(safe),
      C(docs).
  returned: success
  type: list
  elements: dict
not_remedies:
  description: What SGLang's own hint or the web would suggest here, and why it does not help.
  returned: success
  type: list
  elements: str
retryable:
  description: Whether the same start may succeed later without a changed argument.
  returned: success
  type: bool
docs:
  description: Anchor of the cause in the failure catalogue.
  returned: success
  type: str
  sample: catalogue.html#kv-cache-no-memory
memory:
  description: Every memory number that SGLang printed, with the rank and the point at which it was printed.
  returned: success
  type: list
  elements: dict
timeline:
  description:
    - Phases in the order in which they began, with C(seconds), C(ranks), the spread of the ranks C(rank_spread_s) and
      C(by_rank), the seconds after the first rank for up to 64 ranks, the last ones.
  returned: success
  type: list
  elements: dict
log_tail:
  description: Last 64 KiB of the log, secrets masked.
  returned: success
  type: str
reason:
  description:
    - Why the task failed - V(unreadable), V(unit_not_found), V(no_start), V(systemd_unavailable),
      V(systemd_timeout), V(systemd_failed).
  returned: failure
  type: str
  sample: unreadable
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._evidence.gather import Host
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import text


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "content": {"type": "str"},
            "unit": {"type": "str"},
            "invocation": {"type": "str"},
            "state_dir": {"type": "path", "default": "/var/lib/llmhost"},
        },
        required_one_of=[("path", "content", "unit")],
        mutually_exclusive=[("path", "content", "unit")],
        required_by={"invocation": ("unit",)},
        supports_check_mode=True,
    )
    params = module.params
    try:
        if params["content"] is not None:
            verdict = text.diagnose(params["content"].encode("utf-8", "surrogateescape"))
        elif params["path"] is not None:
            verdict = text.diagnose_file(params["path"])
        else:
            verdict = text.diagnose_unit(params["unit"], params["invocation"] or "", Host, params["state_dir"])
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, **verdict.as_dict())


if __name__ == "__main__":
    main()
