#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables to a validated launch command for the SGLang that is installed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: launch_args_info
short_description: Render and validate the launch arguments of an SGLang server
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Turns variables into the command, the environment and the configuration file of an SGLang server, checked against
    the options of the SGLang that is installed, without importing or running it.
  - All problems are reported at once, each with the option, what is wrong, what to write instead and the layer it
    came from.
  - Options are read from the sources in O(venv) and cached beside it, in C(.llmhost-cache). In check mode nothing is
    written. For SGLang 0.4.6.post5, 0.5.9, 0.5.18 and 0.5.23 tables are shipped, for hosts where no SGLang is at hand.
notes:
  - SGLang itself prints C(api_key) in the C(server_args) line of its log and in its C(/server_info). Keep the journal
    of the unit readable by root alone; this collection masks it in everything that it returns.
  - Secrets never come back from this module. Where one belongs, RV(argv), RV(environment) and RV(config_file) hold a
    placeholder that M(llmhost.sglang.server) fills in from its own O(llmhost.sglang.server#module:secrets).
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.info_module
  - llmhost.sglang.attributes.actiongroup_sglang
options:
  venv:
    description:
      - The virtual environment that SGLang is installed in. A link to it is fine.
      - In check mode, where it is missing and O(sglang_version) is given, the shipped table stands in.
    type: path
  sglang_version:
    description:
      - The version to check against where there is no O(venv) to read.
      - A version without a shipped table is checked against the nearest older one, and RV(notes) says so.
    type: str
  python:
    description:
      - The interpreter in RV(argv).
      - Without it, C(bin/python) of O(venv), or C(python3).
    type: path
  arguments:
    description:
      - Launch arguments by SGLang's names, in any spelling, with V(_) or V(-), with V(--) or without.
      - Switches take a boolean; options with several values a list; those that take JSON a mapping or a list.
      - An abbreviation that fits one option is accepted and noted.
      - They win over O(layers).
    type: dict
    default: {}
  layers:
    description:
      - Arguments from several sources, the later wins over the earlier.
      - In the layer C(remedy) a null takes an argument away.
    type: list
    elements: dict
    default: []
    suboptions:
      origin:
        description: The name of the source, such as V(defaults), V(group), V(host) or V(remedy).
        type: str
        required: true
      arguments:
        description: As O(arguments).
        type: dict
        default: {}
      unset:
        description: Arguments of earlier layers to take away.
        type: list
        elements: str
        default: []
  extra_args:
    description:
      - Words for the command line, checked like everything else. Each word is one element.
      - They win over O(arguments).
    type: list
    elements: str
    default: []
  model_path:
    description:
      - The folder of the model, or the name of its repository. The same as C(model_path) in O(arguments).
      - Where it is a folder that can be read, its C(config.json) is looked at, so that heads, context and quantisation
        are checked too.
    type: str
  served_model_name:
    description: The name that clients ask for. The same as C(served_model_name) in O(arguments).
    type: str
  host:
    description: The address to listen on. The same as C(host) in O(arguments).
    type: str
  port:
    description: The port to listen on. The same as C(port) in O(arguments).
    type: int
  secrets:
    description:
      - What must be readable neither in the process list nor in the unit. In O(arguments) and O(extra_args) these are
        refused.
      - They go into the configuration file (SGLang 0.5.3 and later); O(secrets.hf_token) goes into the environment.
    type: dict
    suboptions:
      api_key:
        description: The key that clients send.
        type: str
      admin_api_key:
        description: The key for the endpoints that change the server.
        type: str
      ssl_keyfile_password:
        description: The password of the TLS key.
        type: str
      hf_token:
        description: The token for the Hugging Face Hub, as C(HF_TOKEN) in the environment.
        type: str
  config_path:
    description:
      - Where RV(config_file) will be written on the target. Needed as soon as a secret goes there.
      - SGLang reads C(*.yaml) and C(*.yml) only.
    type: path
  allow_secret_in_argv:
    description: Accept that an SGLang before 0.5.3 takes its secrets on the command line, where every user reads them.
    type: bool
    default: false
  allow_open:
    description: Accept that a server listens on another address than loopback without an API key.
    type: bool
    default: false
  gpus:
    description:
      - The GPUs for this server, as indices or as elements of RV(llmhost.sglang.gpu_info#module:gpus).
      - Sets C(CUDA_VISIBLE_DEVICES) (by index, SGLang can't read UUIDs there) and C(CUDA_DEVICE_ORDER), and checks that
        they are as many as the arguments need.
    type: list
    elements: raw
  gpu_count:
    description: How many GPUs there are, where only the number matters.
    type: int
  running_argv:
    description: The command that the running server was started with, for RV(changes).
    type: list
    elements: str
  ignore_rules:
    description:
      - Rules between options not to apply, by their id (C(rule) in RV(errors)).
      - For the day on which a rule of this collection is wrong for your build of SGLang.
    type: list
    elements: str
    default: []
seealso:
  - module: llmhost.sglang.server
  - module: llmhost.sglang.memory_plan_info
  - module: llmhost.sglang.gpu_info
"""

EXAMPLES = r"""
- name: Render the command of a server
  llmhost.sglang.launch_args_info:
    venv: /opt/llmhost/runtime
    model_path: /opt/llmhost/models/qwen3-8b
    port: 30000
    arguments:
      tp_size: 2
      mem_fraction_static: 0.85
      enable_metrics: true
  register: rendered

- name: Say where each argument came from
  llmhost.sglang.launch_args_info:
    sglang_version: 0.5.23
    layers:
      - origin: defaults
        arguments: {model_path: Qwen/Qwen3-8B, tp_size: 1}
      - origin: group
        arguments: {tp_size: 2, speculative_algorithm: NEXTN}
      - origin: host
        arguments: {max_running_requests: 8}
        unset: [speculative_algorithm]
    gpus: [0, 1]

- name: Keep the API key out of the command line
  llmhost.sglang.launch_args_info:
    sglang_version: 0.5.23
    model_path: Qwen/Qwen3-8B
    secrets:
      api_key: "{{ lookup('ansible.builtin.password', '/dev/null', length=32) }}"
    config_path: /etc/llmhost/main.yaml
"""

RETURN = r"""
argv:
  description: The command, one element a word. Never to be joined for a shell.
  returned: success
  type: list
  elements: str
  sample: [/opt/llmhost/runtime/bin/python, -m, sglang.launch_server, --model-path, /opt/llmhost/models/qwen3-8b]
command:
  description: The command for people, quoted, secrets masked.
  returned: success
  type: str
environment:
  description: Environment variables for the server. A secret is a placeholder.
  returned: success
  type: dict
  sample: {CUDA_DEVICE_ORDER: PCI_BUS_ID, CUDA_VISIBLE_DEVICES: "0,1"}
config_file:
  description:
    - The text of the file for C(--config), with a placeholder for each secret, or null where none is needed.
    - M(llmhost.sglang.server) fills it and writes it with mode 0600.
  returned: success
  type: str
config_path:
  description: Where RV(config_file) belongs, or null.
  returned: success
  type: str
secrets_used:
  description: The names of the secrets that the placeholders stand for.
  returned: success
  type: list
  elements: str
arguments:
  description: The rendered arguments with their origin.
  returned: success
  type: list
  elements: dict
  contains:
    option:
      description: The option by SGLang's name with underscores.
      type: str
    value:
      description: The value. Secrets are masked.
      type: raw
    origin:
      description: The layer that it came from, V(arguments), V(parameters), V(extra_args) or V(secrets).
      type: str
  sample: [{option: tp_size, value: 2, origin: group}]
hidden_defaults:
  description: What SGLang will set by itself, and matters.
  returned: success
  type: list
  elements: dict
  contains:
    option:
      description: The option.
      type: str
    value:
      description: What SGLang sets.
      type: raw
    why:
      description: When it does and what follows.
      type: str
  sample: [{option: max_running_requests, value: 48, why: speculative decoding without max_running_requests}]
changes:
  description: What differs from O(running_argv). Secrets are left out.
  returned: success
  type: list
  elements: dict
  contains:
    option:
      description: The option.
      type: str
    before:
      description: The value in O(running_argv), or null.
      type: raw
    after:
      description: The value now, or null.
      type: raw
    origin:
      description: The layer of the new value, or null where the option is gone.
      type: str
sglang_version:
  description: The version that the arguments were checked against, with its local part.
  returned: success or RV(reason) is V(arguments_invalid)
  type: str
schema_source:
  description: V(venv) where the options were read from the installed SGLang, V(shipped) where a table stood in.
  returned: success or RV(reason) is V(arguments_invalid)
  type: str
notes:
  description: What was renamed, expanded, deprecated or could not be checked.
  returned: success or RV(reason) is V(arguments_invalid)
  type: list
  elements: str
reason:
  description:
    - V(arguments_invalid), see RV(errors).
    - V(venv_missing) or V(sglang_missing), there is nothing at O(venv).
    - V(schema_unreadable), the options of this SGLang can't be read.
    - V(model_config_unreadable), C(config.json) of the model is broken.
  returned: failure
  type: str
errors:
  description: Every argument that can't be used.
  returned: RV(reason) is V(arguments_invalid)
  type: list
  elements: dict
  contains:
    option:
      description: The option.
      type: str
    problem:
      description:
        - What kind of problem it is. V(unknown), V(removed), V(ambiguous), V(duplicate), V(not_allowed), V(null),
          V(wrong_type), V(yaml_trap), V(not_a_choice), V(wrong_arity), V(flag_with_value), V(cannot_unset),
          V(stray_value), V(missing), V(rule), V(secret), V(secret_on_argv), V(secret_too_common) or V(no_config_path).
      type: str
    message:
      description: What is wrong.
      type: str
    cure:
      description: What to write instead.
      type: str
    origin:
      description: The layer that it came from.
      type: str
    rule:
      description: The id of the rule, for V(rule).
      type: str
    nearest:
      description: Options with a similar name, for V(unknown).
      type: list
    known_in:
      description: The recorded versions that have the option, for V(unknown) and V(removed).
      type: list
    candidates:
      description: The options that it could mean, for V(ambiguous).
      type: list
path:
  description: The file or folder that could not be read.
  returned: RV(reason) is V(schema_unreadable) or V(model_config_unreadable)
  type: str
venv:
  description: Where SGLang was looked for.
  returned: RV(reason) is V(venv_missing) or V(sglang_missing)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._options.arguments import Layer, misplaced_secrets
from ansible_collections.llmhost.sglang.plugins.module_utils._options.launch import Request, launch

SECRETS = ("api_key", "admin_api_key", "ssl_keyfile_password", "hf_token")
NAMED = ("model_path", "served_model_name", "host", "port")


def argument_spec() -> dict[str, Any]:
    layer = {
        "origin": {"type": "str", "required": True},
        "arguments": {"type": "dict", "default": {}},
        "unset": {"type": "list", "elements": "str", "default": []},
    }
    return {
        "venv": {"type": "path"},
        "sglang_version": {"type": "str"},
        "python": {"type": "path"},
        "arguments": {"type": "dict", "default": {}},
        "layers": {"type": "list", "elements": "dict", "default": [], "options": layer},
        "extra_args": {"type": "list", "elements": "str", "default": []},
        "model_path": {"type": "str"},
        "served_model_name": {"type": "str"},
        "host": {"type": "str"},
        "port": {"type": "int"},
        "secrets": {
            "type": "dict",
            "no_log": True,
            "options": {name: {"type": "str", "no_log": True} for name in SECRETS},
        },
        "config_path": {"type": "path"},
        "allow_secret_in_argv": {"type": "bool", "default": False, "no_log": False},
        "allow_open": {"type": "bool", "default": False},
        "gpus": {"type": "list", "elements": "raw"},
        "gpu_count": {"type": "int"},
        "running_argv": {"type": "list", "elements": "str"},
        "ignore_rules": {"type": "list", "elements": "str", "default": []},
    }


def request(params: dict[str, Any], check_mode: bool) -> Request:
    layers = [Layer(row["origin"], row["arguments"], row["unset"]) for row in params["layers"]]
    layers.append(Layer("arguments", params["arguments"]))
    layers.append(Layer("parameters", {name: params[name] for name in NAMED if params[name] is not None}))
    secrets = {name: value for name, value in (params["secrets"] or {}).items() if value is not None}
    same = (
        "venv",
        "sglang_version",
        "python",
        "extra_args",
        "config_path",
        "allow_secret_in_argv",
        "allow_open",
        "gpus",
        "gpu_count",
    )
    return Request(
        layers=layers,
        secrets=secrets,
        running_argv=params["running_argv"],
        ignore_rules=params["ignore_rules"],
        check_mode=check_mode,
        **{name: params[name] for name in same},
    )


def main() -> None:
    module = AnsibleModule(argument_spec(), required_one_of=[("venv", "sglang_version")], supports_check_mode=True)
    wanted = request(module.params, module.check_mode)
    module.no_log_values.update(misplaced_secrets(wanted.layers, wanted.extra_args))
    try:
        result = launch(wanted)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
