#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_remedy_info
short_description: Decide what to do next with a start of an SGLang server
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Says whether a server is to be started with its arguments, with a changed argument, or not at all. It is asked three
    times in the course of a start. It decides and changes nothing; M(llmhost.sglang.launch_args_info) renders what it
    decided as the layer C(remedy).
  - With neither O(plan) nor O(verdict), at the beginning. A remedy that an earlier run has found
    (M(llmhost.sglang.server_known_good)) is still in force while the inventory says there what it said then, and model,
    version and GPUs are the same. Each run warns of it until the inventory names the same values, or others.
  - With O(plan) alone, before anything is touched.
  - With O(verdict), after a start that was not ready.
  - A change is made only where a plan proves it and O(allowed) names each option that it changes. The same arguments
    are never started twice where the cause of the failure was in them.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.info_module
  - llmhost.sglang.attributes.actiongroup_sglang
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  state_dir:
    description: Folder of this collection's state on the target.
    type: path
    default: /var/lib/llmhost
  arguments:
    description: The arguments with their origins, RV(llmhost.sglang.launch_args_info#module:arguments).
    type: list
    elements: dict
    required: true
  remedy:
    description: The layer C(remedy) that they were rendered with, RV(arguments) of the decision before.
    type: dict
    default: {}
  own:
    description: RV(own) of the first decision. Not for the first one itself.
    type: dict
  plan:
    description: The plan of these arguments, as M(llmhost.sglang.memory_plan_info) returns it.
    type: dict
  verdict:
    description: The verdict on the start, as M(llmhost.sglang.server_wait) returns it.
    type: dict
  attempts:
    description: RV(attempts) of the decision before.
    type: list
    elements: dict
    default: []
  context:
    description: What a remedy depends on, such as model, version and GPUs.
    type: dict
    default: {}
  mode:
    description:
      - V(none) tells no remedies, V(suggest) tells what is proven to help, V(apply) changes the arguments and starts
        again.
    type: str
    choices: [none, suggest, apply]
    default: suggest
  max_attempts:
    description: How many starts are made at most, the first included. At most 3.
    type: int
    default: 2
  allowed:
    description: Options of SGLang that may be changed.
    type: list
    elements: str
    default: []
  must_fit:
    description: Whether a plan with the verdict V(fail) stops the start.
    type: bool
    default: true
seealso:
  - module: llmhost.sglang.memory_plan_info
  - module: llmhost.sglang.server_wait
  - module: llmhost.sglang.server_known_good
"""

EXAMPLES = r"""
- name: Render the arguments
  llmhost.sglang.launch_args_info:
    sglang_version: 0.5.9
    model_path: /opt/models/Qwen3.6-27B
    arguments: {tp_size: 2, mem_fraction_static: 0.85, speculative_algorithm: NEXTN}
  register: rendered

- name: Decide what to begin with
  llmhost.sglang.server_remedy_info:
    name: chat
    arguments: "{{ rendered.arguments }}"
    mode: apply
    allowed: [max_running_requests]
  register: decision
"""

RETURN = r"""
action:
  description:
    - Before a start, V(start) goes on with RV(arguments), V(change) renders them anew with RV(arguments) and plans
      again, V(refuse) stops before anything was touched.
    - After it, V(again) renders them anew with RV(arguments), which may be the same, and starts again, V(give_up) says
      that nothing more is tried.
  returned: success
  type: str
  sample: again
why:
  description: The reason, for people.
  returned: success
  type: str
arguments:
  description: The layer C(remedy) for M(llmhost.sglang.launch_args_info). C(null) takes an argument away.
  returned: success
  type: dict
  sample: {max_running_requests: 8}
changes:
  description: What this decision changes, with C(option), C(before) and C(after).
  returned: success
  type: list
  elements: dict
remedy:
  description: The remedy that was chosen, with the plan that proves it; V(null) where none was.
  returned: success
  type: dict
rejected:
  description: Remedies that were not taken, with C(id) and C(why).
  returned: success
  type: list
  elements: dict
attempts:
  description:
    - What was tried so far, with C(attempt), C(outcome) (V(refused_by_plan) where it was not even started), C(cause),
      C(deterministic), C(message), C(remedy) and C(arguments_digest).
  returned: success
  type: list
  elements: dict
overridden:
  description: What a remedy of an earlier run says instead of the inventory, with C(option), C(value), C(inventory).
  returned: success
  type: list
  elements: dict
own:
  description: The arguments that the inventory asks for.
  returned: success
  type: dict
message:
  description: For V(refuse) and V(give_up), what to tell people.
  returned: success
  type: str
notes:
  description: What else is to be known.
  returned: success
  type: list
  elements: str
reason:
  description: Why the module failed, V(invalid_argument).
  returned: failure
  type: str
option:
  description: The parameter that is wrong.
  returned: failure
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import attempts
from ansible_collections.llmhost.sglang.plugins.module_utils._memory.attempts import Decision, Policy
from ansible_collections.llmhost.sglang.plugins.module_utils._server import known_good

MOST_ATTEMPTS = 3


def decide(params: dict[str, Any]) -> tuple[Decision, dict[str, Any]]:
    """The decision, and the arguments that the inventory asks for."""
    if not 1 <= params["max_attempts"] <= MOST_ATTEMPTS:
        raise LlmHostError(
            "invalid_argument",
            f"max_attempts is {params['max_attempts']}: give 1 to {MOST_ATTEMPTS}",
            option="max_attempts",
        )
    policy = Policy(params["mode"], params["max_attempts"], tuple(params["allowed"]), params["must_fit"])
    start = attempts.start(params["arguments"], params["remedy"])
    own = dict(start.values) if params["own"] is None else params["own"]
    if params["verdict"]:
        return attempts.after(start, params["verdict"], params["plan"], policy, params["attempts"]), own
    if params["plan"]:
        return attempts.before(start, params["plan"], policy, params["attempts"]), own
    record = known_good.read(params["state_dir"], params["name"])
    return attempts.begin(start, record, params["context"], policy), own


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state_dir": {"type": "path", "default": "/var/lib/llmhost"},
            "arguments": {"type": "list", "elements": "dict", "required": True},
            "remedy": {"type": "dict", "default": {}},
            "own": {"type": "dict"},
            "plan": {"type": "dict"},
            "verdict": {"type": "dict"},
            "attempts": {"type": "list", "elements": "dict", "default": []},
            "context": {"type": "dict", "default": {}},
            "mode": {"type": "str", "choices": ["none", "suggest", "apply"], "default": "suggest"},
            "max_attempts": {"type": "int", "default": 2},
            "allowed": {"type": "list", "elements": "str", "default": []},
            "must_fit": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        decision, own = decide(module.params)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    for warning in attempts.warnings(module.params["name"], decision):
        module.warn(warning)
    module.exit_json(changed=False, own=own, **decision.as_dict())


if __name__ == "__main__":
    main()
