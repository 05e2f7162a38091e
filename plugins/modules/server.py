#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server
short_description: The systemd unit of one SGLang server
version_added: 0.1.0
description:
  - Writes the unit, the configuration file and the folders of one instance, starts and stops it, and removes it
    again.
  - The process receives O(argv) byte for byte, whatever characters are in it.
  - A server is restarted only when its unit, arguments, environment, configuration, runtime or weights differ from
    those that the
    running process was started with. The running process itself carries what it was started with, so a restart by
    systemd (after a
    crash, after a boot) is judged right too.
  - It does not wait until the server answers. That is M(llmhost.sglang.server_wait).
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
    details:
      - On a host where the account, the runtime or the weights are still missing it tells so in RV(notes) and goes
        on, because an
        earlier task of the same run would have made them.
  diff_mode:
    support: full
    details:
      - Secrets are shown as C(<hidden>).
  idempotent:
    support: partial
    details:
      - Not with O(state=restarted), which starts the server anew each time.
  platform:
    support: full
    platforms: linux
options:
  name:
    description:
      - Name of the instance. Its unit is C(sglang-NAME.service).
      - One to 63 of C(a-z), C(0-9), C(_) and C(-), beginning with a letter or a digit.
    type: str
    required: true
  state:
    description:
      - V(present) writes everything and starts nothing. RV(start_needed) tells whether a start is due.
      - V(started) is V(present), and the server runs with exactly this; it is restarted only if it runs with
        something else.
      - V(restarted) is V(present), and the server is started anew.
      - V(stopped) stops the server and proves that no process of it is left. It writes nothing.
      - V(absent) is V(stopped), and unit, configuration and state of the instance are removed.
    type: str
    choices: [present, started, restarted, stopped, absent]
    default: started
  argv:
    description:
      - The program with its absolute path, and its arguments. Use RV(llmhost.sglang.launch_args_info#module:argv).
      - Required unless O(state) is V(stopped) or V(absent).
    type: list
    elements: str
    default: []
  environment:
    description:
      - Variables of the process. They win over those that the module sets (caches below O(cache_dir), C(PATH),
        C(PYTHONUNBUFFERED)).
      - A variable whose name says that it is a secret (it ends in C(TOKEN), C(KEY), C(SECRET) or C(PASSWORD)) is
        kept out of the unit,
        in a file that root alone may read.
    type: dict
    default: {}
  secret_environment:
    description: Variables that nobody may see. They are kept in a file that root alone may read.
    type: dict
  config_file:
    description:
      - Content of a configuration file for SGLang's C(--config), with what must not stand in its arguments.
      - It is written to O(config_path) with mode 0600 for O(user), and C(--config) is added to O(argv) if it is not
        there.
    type: str
  config_path:
    description:
      - Where O(config_file) is written. SGLang wants C(.yaml) or C(.yml). Without it C(config.yaml) in
        RV(state_path).
    type: path
  secrets:
    description:
      - Values for the places that M(llmhost.sglang.launch_args_info) left open in O(argv), O(environment) and
        O(config_file), by name.
    type: dict
  user:
    description: The account that the server runs as. It must exist.
    type: str
    default: sglang
  group:
    description: The group that the server runs as. It must exist.
    type: str
    default: sglang
  host:
    description: The address that the server binds, as O(argv) says it.
    type: str
    default: 127.0.0.1
  port:
    description:
      - The port that the server listens on, as O(argv) says it.
      - Before a start it must be free, or held by this very instance. SGLang itself loads the whole model before it
        notices, and
        then takes another server's answers for its own.
    type: int
    default: 30000
  enabled:
    description:
      - Whether the server starts at boot.
      - Without it a server that is V(present), V(started) or V(restarted) is enabled, and one that is V(stopped)
        stays as it is.
    type: bool
  state_dir:
    description: Where the collection keeps its state. The instance's own is in C(instances/NAME) below it.
    type: path
    default: /var/lib/llmhost
  cache_dir:
    description: The caches of the instance (Triton, inductor, DeepGEMM, FlashInfer, Hugging Face, ...) are in
      C(NAME) below it.
    type: path
    default: /var/cache/llmhost
  working_directory:
    description: Where the process starts. Without it, the instance's folder below O(cache_dir).
    type: path
  required_paths:
    description:
      - What must be there and readable for O(user) before a start, such as the weights. systemd mounts what is
        needed for them first.
    type: list
    elements: path
    default: []
  cuda_home:
    description: The CUDA toolkit, for kernels that are compiled at run time. Sets C(CUDA_HOME) and C(PATH).
    type: path
  runtime:
    description:
      - Any text that is another one when the runtime is another one. The real path of the program's folder counts
        anyway.
    type: str
  weights:
    description: Any text that is another one when the weights are, such as their revision. A change restarts the
      server.
    type: str
  hardening:
    description: Whether the process is confined (see the documentation of the unit). Turn it off where a container
      refuses it.
    type: bool
    default: true
  restart:
    description: What systemd does when the server ends by itself. The limits below are finite, so a broken server
      does not loop.
    type: str
    choices: ['on-failure', 'no']
    default: on-failure
  restart_delay_s:
    description: How long systemd waits before it tries again.
    type: int
    default: 10
  restart_limit:
    description: How many starts systemd makes within O(restart_window_s) before it gives up.
    type: int
    default: 4
  restart_window_s:
    description: The time that O(restart_limit) counts in. Longer than O(restart_limit) starts take, or the limit is
      never reached.
    type: int
    default: 3600
  start_timeout_s:
    description: How long the start of the process itself may take (not the loading of the model).
    type: int
    default: 90
  wait_devices:
    description:
      - Device nodes that systemd waits for before each start, such as C(/dev/nvidia0), because a boot may be faster
        than
        the driver. It happens without Ansible, too.
    type: list
    elements: path
    default: []
  wait_gpus:
    description:
      - GPUs by index or UUID on which systemd waits before each start until no more than O(wait_gpu_used_mib) is in
        use,
        because a restart may be faster than the driver's clean-up after a crash. Not for GPUs that others use as
        well.
    type: list
    elements: str
    default: []
  wait_gpu_used_mib:
    description: Memory in MiB that may be in use on a GPU of O(wait_gpus).
    type: int
    default: 1024
  wait_timeout_s:
    description: How long O(wait_devices) and O(wait_gpus) are waited for. The start fails then and says what was
      missing.
    type: int
    default: 60
  drain_timeout_s:
    description:
      - How long a server that was told to stop may go on with the requests that it has. What is left then is killed.
      - Without it 60, or 15 less than O(stop_timeout_s).
      - With O(state=stopped) and O(state=absent) it holds for this stop alone; without both it is what the unit says.
    type: int
  stop_timeout_s:
    description: How long a stop may take as a whole. Without it 15 more than O(drain_timeout_s).
    type: int
  lock_timeout_s:
    description: How long to wait for another run that works on the same instance.
    type: int
    default: 30
  limit_nofile:
    description: Open files. A number or V(infinity). A container may give less.
    type: str
    default: '1048576'
  limit_memlock:
    description: Locked memory in bytes, or V(infinity). Pinned buffers need it. A container may give less.
    type: str
    default: infinity
  tasks_max:
    description: Threads and processes. A number or V(infinity).
    type: str
    default: infinity
  oom_score_adjust:
    description:
      - Who is killed first when memory is short, from -1000 (never) to 1000 (first). In a container a value below
        that of the container
        lets the start fail.
    type: int
    default: 200
  purge:
    description: With O(state=absent), also remove the caches of the instance.
    type: bool
    default: false
seealso:
  - module: llmhost.sglang.launch_args_info
  - module: llmhost.sglang.server_wait
  - module: llmhost.sglang.server_info
  - module: llmhost.sglang.completion_probe
author:
  - llmhost.sglang contributors (@llmhost)
"""

EXAMPLES = r"""
- name: A server on port 30000
  llmhost.sglang.server:
    name: chat
    argv:
      - /opt/llmhost/runtime/bin/python
      - -m
      - sglang.launch_server
      - --model-path
      - /opt/llmhost/models/chat
      - --port
      - "30000"
    environment:
      CUDA_VISIBLE_DEVICES: "0,1"
    port: 30000
    required_paths:
      - /opt/llmhost/models/chat

- name: Write everything, start nothing, and see whether a start is due
  llmhost.sglang.server:
    name: chat
    state: present
    argv: [/opt/llmhost/runtime/bin/python, -m, sglang.launch_server, --model-path, /opt/llmhost/models/chat]
  register: unit

- name: Stop it, with two minutes for the requests that it has
  llmhost.sglang.server:
    name: chat
    state: stopped
    drain_timeout_s: 120

- name: Remove it with its caches
  llmhost.sglang.server:
    name: chat
    state: absent
    purge: true
"""

RETURN = r"""
name:
  description: Name of the instance.
  returned: success
  type: str
  sample: chat
unit:
  description: Name of the unit.
  returned: success
  type: str
  sample: sglang-chat.service
unit_path:
  description: File of the unit.
  returned: success
  type: str
  sample: /etc/systemd/system/sglang-chat.service
active:
  description: Whether the server's process runs; in check mode whether it would. It says nothing about answers.
  returned: success
  type: bool
  sample: true
invocation_id:
  description: systemd's name of this very start. V(none) where nothing runs, and in check mode where a new start
    would be made.
  returned: success
  type: str
  sample: 0e1c9c2ad0a74b5ba0b3f9a5b4a1d1c2
main_pid:
  description: PID of the launcher. V(none) as RV(invocation_id).
  returned: success
  type: int
  sample: 4711
start_needed:
  description: With O(state=present), whether the server has to be started or restarted to run with this.
  returned: success
  type: bool
  sample: true
restart_needed:
  description: With O(state=present), whether a server runs, but with something else.
  returned: success
  type: bool
  sample: false
changes:
  description:
    - What differs from what the running process was started with, or where none runs from what was written before.
    - Of V(unit), V(arguments), V(environment), V(config_file), V(runtime) and V(weights). All of them where it is
      not known.
  returned: success
  type: list
  elements: str
  sample: [arguments]
actions:
  description: What was done, or in check mode would be, in this order.
  returned: success
  type: list
  elements: str
  sample: [write, daemon_reload, stop, start]
config_path:
  description: The configuration file that O(config_file) is written to, if there is one.
  returned: success
  type: str
  sample: /var/lib/llmhost/instances/chat/config.yaml
state_path:
  description: Folder of the instance's state.
  returned: success
  type: str
  sample: /var/lib/llmhost/instances/chat
cache_path:
  description: Folder of the instance's caches.
  returned: success
  type: str
  sample: /var/cache/llmhost/chat
argv_sha256:
  description: A digest of the argument vector.
  returned: success
  type: str
  sample: 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
stop:
  description: What came of a stop, if there was one.
  returned: success
  type: dict
  contains:
    seconds:
      description: How long it took.
      type: float
    result:
      description: systemd's word for it.
      type: str
    drained:
      description: Whether the server ended by itself in time.
      type: bool
  sample:
    seconds: 1.93
    result: success
    drained: true
ended:
  description: Processes that the unit had left behind and that were killed.
  returned: success
  type: list
  elements: dict
  sample: []
notes:
  description: What a person should know, such as what a dry run found missing.
  returned: success
  type: list
  elements: str
  sample: []
reason:
  description:
    - Why the module failed.
    - V(invalid_argument), a parameter that cannot be meant (RV(option) names it); V(secret_missing), a value in
      O(secrets).
    - V(user_missing), V(runtime_missing), V(path_missing), V(path_unreadable), something that the start needs.
    - V(port_in_use), the port belongs to somebody else (RV(holders)).
    - V(foreign_unit) or V(masked), the unit is not the collection's, or is masked.
    - V(start_failed), systemd could not start the process (RV(log_tail)).
    - V(stop_timeout) or V(still_running), it did not stop, or processes did not end (RV(processes)).
    - V(locked), another run works on the instance (RV(holder)).
    - V(write_failed) or V(permission_denied), a file could not be written or read.
    - V(systemd_unavailable), V(systemd_failed), V(systemd_timeout), systemd is not there, refused, or gave no answer.
    - V(pidfd_unavailable), processes cannot be ended safely here.
  returned: failure
  type: str
  sample: port_in_use
option:
  description: The parameter that is wrong.
  returned: failure, with reason V(invalid_argument) or V(secret_missing)
  type: str
  sample: stop_timeout_s
holders:
  description: Processes that listen on the port, with C(pid), C(comm), C(unit) and C(cmdline).
  returned: failure, with reason V(port_in_use)
  type: list
  elements: dict
  sample: [{pid: 812, comm: nginx, unit: nginx.service, cmdline: "nginx: master process"}]
file:
  description: The file that could not be used.
  returned: failure, with reason V(foreign_unit), V(write_failed) or V(permission_denied)
  type: str
  sample: /etc/systemd/system/sglang-chat.service
holder:
  description: The run that holds the lock, with C(pid) and C(since).
  returned: failure, with reason V(locked)
  type: dict
  sample: {pid: 4242, since: "2026-11-29T20:00:00Z"}
processes:
  description: Processes that did not end, with C(pid), C(comm), C(unit) and C(cmdline).
  returned: failure, with reason V(stop_timeout) or V(still_running)
  type: list
  elements: dict
  sample: [{pid: 812, comm: "sglang::schedul", unit: sglang-chat.service, cmdline: "sglang::scheduler"}]
result:
  description: systemd's result of the start.
  returned: failure, with reason V(start_failed)
  type: str
  sample: exit-code
exit_status:
  description: Exit status of the process.
  returned: failure, with reason V(start_failed)
  type: str
  sample: "203"
log_tail:
  description: The last lines of the start's journal, secrets masked.
  returned: failure, with reason V(start_failed)
  type: list
  elements: str
  sample: ["sglang-chat.service: Failed to locate executable: No such file or directory"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server import request, run

ARGUMENT_SPEC = {
    "name": {"type": "str", "required": True},
    "state": {
        "type": "str",
        "choices": ["present", "started", "restarted", "stopped", "absent"],
        "default": "started",
    },
    "argv": {"type": "list", "elements": "str", "default": []},
    "environment": {"type": "dict", "default": {}},
    "secret_environment": {"type": "dict", "no_log": True},
    "config_file": {"type": "str", "no_log": True},
    "config_path": {"type": "path"},
    "secrets": {"type": "dict", "no_log": True},
    "user": {"type": "str", "default": "sglang"},
    "group": {"type": "str", "default": "sglang"},
    "host": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 30000},
    "enabled": {"type": "bool"},
    "state_dir": {"type": "path", "default": "/var/lib/llmhost"},
    "cache_dir": {"type": "path", "default": "/var/cache/llmhost"},
    "working_directory": {"type": "path"},
    "required_paths": {"type": "list", "elements": "path", "default": []},
    "cuda_home": {"type": "path"},
    "runtime": {"type": "str"},
    "weights": {"type": "str"},
    "hardening": {"type": "bool", "default": True},
    "restart": {"type": "str", "choices": ["on-failure", "no"], "default": "on-failure"},
    "restart_delay_s": {"type": "int", "default": 10},
    "restart_limit": {"type": "int", "default": 4},
    "restart_window_s": {"type": "int", "default": 3600},
    "start_timeout_s": {"type": "int", "default": 90},
    "wait_devices": {"type": "list", "elements": "path", "default": []},
    "wait_gpus": {"type": "list", "elements": "str", "default": []},
    "wait_gpu_used_mib": {"type": "int", "default": 1024},
    "wait_timeout_s": {"type": "int", "default": 60},
    "drain_timeout_s": {"type": "int"},
    "stop_timeout_s": {"type": "int"},
    "lock_timeout_s": {"type": "int", "default": 30},
    "limit_nofile": {"type": "str", "default": "1048576"},
    "limit_memlock": {"type": "str", "default": "infinity"},
    "tasks_max": {"type": "str", "default": "infinity"},
    "oom_score_adjust": {"type": "int", "default": 200},
    "purge": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        supports_check_mode=True,
    )
    module.no_log_values.update(request.secret_values(module.params))
    try:
        result = run.run(module.params, module.check_mode)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    if not module._diff:
        result.pop("diff")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
