#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_known_good
short_description: Keep the arguments of an SGLang server that reached ready
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Keeps, in the state folder of an instance, what its server was started with when it last reached ready, so that a
    change that fails can be taken back.
  - Call it when M(llmhost.sglang.server_wait) has said V(ready). In check mode it tells whether what was kept differs
    from what is given, and RV(known_good) is what a rollback would return to.
  - The file C(known_good.json) has mode 0600 and holds no secret. Secrets are kept as the placeholders that
    M(llmhost.sglang.launch_args_info) writes, or, where a variable of O(environment) is one by its name, as that name
    alone.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  state_dir:
    description: Folder of this collection's state on the target.
    type: path
    default: /var/lib/llmhost
  argv:
    description: The command, as given to M(llmhost.sglang.server).
    type: list
    elements: str
    required: true
  environment:
    description: The variables, as given to M(llmhost.sglang.server).
    type: dict
    default: {}
  config_file:
    description: The configuration file with its placeholders, as given to M(llmhost.sglang.server).
    type: str
  host:
    description: The address that it listens on.
    type: str
    default: 127.0.0.1
  port:
    description: The port that it listens on.
    type: int
    default: 30000
  required_paths:
    description: As given to M(llmhost.sglang.server).
    type: list
    elements: path
    default: []
  arguments:
    description: The arguments with their origins, RV(llmhost.sglang.launch_args_info#module:arguments).
    type: list
    elements: dict
    default: []
  own:
    description:
      - The arguments that the inventory asked for, RV(llmhost.sglang.server_remedy_info#module:own). What
        O(arguments) has from a remedy is kept together with what the inventory said there.
    type: dict
    default: {}
  remedy:
    description: The layer C(remedy) that these arguments were rendered with.
    type: dict
    default: {}
  why:
    description: Why that remedy was applied.
    type: str
    default: ''
  context:
    description: What the remedy depends on, such as model, version and GPUs. It counts only while these are the same.
    type: dict
    default: {}
  sglang_version:
    description: The version of SGLang.
    type: str
    default: ''
  invocation_id:
    description: systemd's name of the start, RV(llmhost.sglang.server_wait#module:invocation_id).
    type: str
    default: ''
seealso:
  - module: llmhost.sglang.server_remedy_info
  - module: llmhost.sglang.server
"""

EXAMPLES = r"""
- name: Render the arguments
  llmhost.sglang.launch_args_info:
    venv: /opt/llmhost/runtime
    model_path: /opt/llmhost/models/qwen3-8b
  register: rendered

- name: Wait for the server
  llmhost.sglang.server_wait:
    name: chat

- name: Keep what worked
  llmhost.sglang.server_known_good:
    name: chat
    argv: "{{ rendered.argv }}"
    environment: "{{ rendered.environment }}"
    arguments: "{{ rendered.arguments }}"
    required_paths: [/opt/llmhost/models/qwen3-8b]
    sglang_version: "{{ rendered.sglang_version }}"
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /var/lib/llmhost/instances/chat/known_good.json
known_good:
  description:
    - What was kept before, C(null) where nothing was. C(launch) is what M(llmhost.sglang.server) takes, with C(argv),
      C(environment), C(secret_environment) (names alone), C(config_file), C(host), C(port) and C(required_paths); it
      is C(null) where the arguments themselves held a secret. C(arguments), C(sglang_version), C(context), C(remedy),
      C(recorded_at) and C(invocation_id) say what that was.
  returned: success
  type: dict
can_return:
  description: Whether there is something to return to, which is not what was given now.
  returned: success
  type: bool
reason:
  description: Why the module failed, V(write_failed).
  returned: failure
  type: str
file:
  description: The file that could not be written.
  returned: failure
  type: str
"""

import json
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._memory import attempts
from ansible_collections.llmhost.sglang.plugins.module_utils._server import known_good, request

ARGUMENT_SPEC = {
    "name": {"type": "str", "required": True},
    "state_dir": {"type": "path", "default": "/var/lib/llmhost"},
    "argv": {"type": "list", "elements": "str", "required": True},
    "environment": {"type": "dict", "default": {}},
    "config_file": {"type": "str"},
    "host": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 30000},
    "required_paths": {"type": "list", "elements": "path", "default": []},
    "arguments": {"type": "list", "elements": "dict", "default": []},
    "own": {"type": "dict", "default": {}},
    "remedy": {"type": "dict", "default": {}},
    "why": {"type": "str", "default": ""},
    "context": {"type": "dict", "default": {}},
    "sglang_version": {"type": "str", "default": ""},
    "invocation_id": {"type": "str", "default": ""},
}


def keep(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Write what is given where it differs from what is there."""
    layer = attempts.rendered(params["arguments"], params["remedy"])
    told = known_good.record(params, attempts.remembered(layer, params["own"], params["why"]))
    before = known_good.read(params["state_dir"], params["name"])
    changed = known_good.differs(before, told)
    if changed and not check_mode:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        once = {"recorded_at": now, "invocation_id": params["invocation_id"]}
        known_good.write(params["state_dir"], params["name"], {**told, **once})
    return {
        "changed": changed,
        "path": known_good.path_of(params["state_dir"], params["name"]),
        "known_good": before,
        "can_return": bool((before or {}).get("launch")) and not known_good.same_launch(before, told),
        "diff": {"before": shown(before), "after": shown(told)},
    }


def shown(record: dict[str, Any] | None) -> str:
    """The record for a diff, without what differs at every start."""
    if record is None:
        return ""
    told = {name: value for name, value in record.items() if name not in known_good.OF_ONE_START}
    return json.dumps(told, indent=1, sort_keys=True) + "\n"


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    module.no_log_values.update(request.secret_values(module.params))
    try:
        result = keep(module.params, module.check_mode)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    if not module._diff:
        result.pop("diff")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
