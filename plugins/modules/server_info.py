#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_info
short_description: What the SGLang servers of a host are doing
version_added: 0.1.0
description:
  - Tells of one instance, or of all that M(llmhost.sglang.server) made on this host, what systemd says, which
    processes it has, whether
    it makes tokens, and what it says of itself.
  - It comes to an end in bounded time with a server that is dead, starting or frozen, too. A state that is not good
    is no failure.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.info_module
  - llmhost.sglang.attributes.actiongroup_sglang
options:
  name:
    description: The instance. Without it all of this host.
    type: str
  host:
    description: The address to ask. Without it the one that the instance was made with.
    type: str
  port:
    description: The port to ask. Without it the one that the instance was made with.
    type: int
  scheme:
    description: V(https) for a server that was given a certificate. Without it as the unit's own command says.
    type: str
    choices: [http, https]
  api_key:
    description: The key that the server wants. Without it the one in its configuration file, if it is there.
    type: str
  api_key_file:
    description: A file on the target that holds the key.
    type: path
  health_timeout_s:
    description:
      - How long C(/health) may take. It makes a token, which takes a second, and a frozen scheduler is noticed after
        20.
    type: float
    default: 25
  timeout_s:
    description: How long the questions to one server may take.
    type: float
    default: 35
  state_dir:
    description: Taken for the sake of symmetry with M(llmhost.sglang.server). The unit itself says where its state
      is.
    type: path
  validate_certs:
    description: Whether a server with C(https) must have a certificate that is trusted.
    type: bool
    default: true
  ca_path:
    description: A file with certificates that are trusted.
    type: path
  server_name:
    description:
      - The name that the certificate must hold, where that is another than the host in the address. A server is asked
        on its own host by C(127.0.0.1), which no certificate of it may name.
    type: str
seealso:
  - module: llmhost.sglang.server
  - module: llmhost.sglang.completion_probe
author:
  - llmhost.sglang contributors (@llmhost)
"""

EXAMPLES = r"""
- name: See all servers of the host
  llmhost.sglang.server_info:
  register: servers

- name: Insist on one
  llmhost.sglang.server_info:
    name: chat
  register: chat
  failed_when: chat.instances[0].health != 'ready'
"""

RETURN = r"""
instances:
  description: One entry for each instance, sorted by name. With O(name) exactly one, also where there is no such
    instance.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
    unit:
      description: Name of its unit.
      type: str
    exists:
      description: Whether there is such an instance.
      type: bool
    active_state:
      description: systemd's word for the unit's state.
      type: str
    sub_state:
      description: systemd's word for the state within it.
      type: str
    enabled:
      description: Whether it starts at boot.
      type: bool
    result:
      description: systemd's word for how it ended last.
      type: str
    restarts:
      description: How often systemd has restarted it by itself.
      type: int
    invocation_id:
      description: systemd's name of this start.
      type: str
    started_at:
      description: When it was started. V(none) where that was not recorded.
      type: str
    url:
      description: Where it is asked.
      type: str
    health:
      description:
        - V(ready), it makes tokens. V(starting), it is on its way. V(frozen), it runs and makes no token.
          V(stopping), it drains.
        - V(down), it does not run. V(foreign), another process holds its port. V(unknown), none of these could be
          shown.
      type: str
    health_detail:
      description: What showed that.
      type: str
    processes:
      description:
        - Its processes with C(pid), C(role) (V(launcher), V(scheduler), V(detokenizer), V(data_parallel_controller),
          V(resource_tracker), V(starting) for a child that has not told its role yet, V(other)), C(rank), C(comm),
          C(state),
          C(rss_mib) and C(cmdline).
      type: list
      elements: dict
    outdated:
      description: What was written since it was started and needs a restart, in the words of
        RV(llmhost.sglang.server#module:changes).
      type: list
      elements: str
    model:
      description: The first model that it serves.
      type: str
    version:
      description: Its version of SGLang.
      type: str
    arguments:
      description: Its arguments and what it worked out from them, as it reports them. Secrets are masked.
      type: dict
    drift:
      description: Arguments that it was given and that it reports otherwise, with C(option), C(rendered) and
        C(reported).
      type: list
      elements: dict
    capacity:
      description: C(max_total_num_tokens), C(max_running_requests), C(context_length) and C(max_req_input_len).
        V(none) is unknown.
      type: dict
    notes:
      description: What could not be learnt, and why.
      type: list
      elements: str
  sample:
    - name: chat
      unit: sglang-chat.service
      exists: true
      active_state: active
      sub_state: running
      enabled: true
      result: success
      restarts: 0
      invocation_id: 0e1c9c2ad0a74b5ba0b3f9a5b4a1d1c2
      started_at: "2026-11-29T20:00:00.000Z"
      url: http://127.0.0.1:30000
      health: ready
      health_detail: /health made a token in 1.0 s
      processes:
        - {pid: 4711, role: launcher, rank: null, comm: python, state: S, rss_mib: 620, cmdline: python -m
          sglang.launch_server}
      outdated: []
      model: chat
      version: 0.5.23
      arguments: {tp_size: 1}
      drift: []
      capacity: {max_total_num_tokens: 415744, max_running_requests: 48, context_length: 32768}
      notes: []
reason:
  description: Why the module failed, V(invalid_argument), V(systemd_unavailable), V(systemd_failed) or
    V(systemd_timeout).
  returned: failure
  type: str
  sample: systemd_unavailable
option:
  description: The parameter that is wrong.
  returned: failure, with reason V(invalid_argument)
  type: str
  sample: name
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server import host, http, info, unit

ARGUMENT_SPEC = {
    "name": {"type": "str"},
    "host": {"type": "str"},
    "port": {"type": "int"},
    "scheme": {"type": "str", "choices": ["http", "https"]},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
    "health_timeout_s": {"type": "float", "default": 25},
    "timeout_s": {"type": "float", "default": 35},
    "state_dir": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "server_name": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("api_key", "api_key_file")],
        supports_check_mode=True,
    )
    given = module.params
    try:
        key = http.api_key(given["api_key"], given["api_key_file"])
        module.no_log_values.update([key] if key else [])
        asking = info.Asking(
            api_key=key,
            host=given["host"],
            port=given["port"],
            timeout_s=given["timeout_s"],
            health_timeout_s=given["health_timeout_s"],
            scheme=given["scheme"],
            validate_certs=given["validate_certs"],
            ca_path=given["ca_path"],
            server_name=given["server_name"],
        )
        names = [given["name"]] if given["name"] else [name for name, _mark in host.instances(unit.UNIT_DIR)]
        found = [info.look(name, asking) for name in names]
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, instances=found)


if __name__ == "__main__":
    main()
