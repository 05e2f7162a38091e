#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until an SGLang server is ready, or say why it will not be."""

from __future__ import annotations

DOCUMENTATION = r"""
module: server_wait
short_description: Wait until an SGLang server is ready, or say why it will not be
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Follows the start of one instance (the systemd unit C(sglang-NAME.service)) until it is ready, failed, stalled,
    stopped or out of time, and returns one verdict with the root cause, its evidence and what to change.
  - B(Ready) means servable - SGLang's own marker for this kind of node, the port answered by this very server, the
    served name among its models, the processes alive.
  - A server that speaks TLS is asked by TLS. Any certificate will do there, because the listening process is known to
    be this server's; M(llmhost.sglang.completion_probe) looks at the certificate.
  - A failure is reported at once, by the fatal line or by the death of a process, and not when a timeout has passed.
  - Reads the journal of this start only (by its invocation id), or a log file from a given point on.
  - While it waits, the play shows each phase with its duration and the last progress bar. For that the watch runs
    detached on the target as a transient systemd unit and the action plugin reads its small status file. Where that is
    not possible (no C(systemd-run), not root) the module waits by itself and shows nothing.
  - Interrupting the play, cancelling the job or losing the connection leaves the server as it is. The next
    M(llmhost.sglang.server_wait) picks up where the start is; on a server that is ready it returns at once.
options:
  name:
    description: Name of the instance, as given to M(llmhost.sglang.server).
    type: str
    required: true
  timeout_s:
    description: Seconds after which the wait ends with outcome V(timeout). The server goes on.
    type: int
    default: 3600
  stall_s:
    description:
      - Seconds of silence after which a start counts as stalled, for every phase.
      - By default each phase has its own limit, from measured starts. Silence with signs of life (processor time,
        compilers that run, GPU memory that grows) is given four times as long.
    type: int
  progress:
    description: Whether the play shows the phases while it waits.
    type: bool
    default: true
  fail:
    description:
      - Whether any outcome but V(ready) fails the task.
      - With V(false) the verdict is returned in any case and RV(outcome) tells.
    type: bool
    default: true
  host:
    description: Address on which the server listens. Read from what the server prints where not given.
    type: str
  port:
    description: Port on which the server listens. Read from what the server prints where not given, else 30000.
    type: int
  served_model_name:
    description: Name that must be among the served models for the server to count as ready.
    type: str
  api_key_file:
    description: File on the target that holds the API key of the server.
    type: path
  state_dir:
    description: Folder of this collection's state on the target.
    type: path
    default: /var/lib/llmhost
  log_path:
    description: Log file to read instead of the journal.
    type: path
  log_offset:
    description: Size of O(log_path) when this start began. What lies before belongs to earlier starts.
    type: int
    default: 0
  log_inode:
    description:
      - Inode of O(log_path) when this start began. If another file lies there now, it is read from its beginning.
    type: int
  plan:
    description:
      - What M(llmhost.sglang.memory_plan_info) returned before this start.
      - What the start took is kept below O(state_dir) for the next plan, see RV(calibration).
      - What the start took is held against it. An item that is off by more than 3 % is named in RV(plan_drift) and in a
        warning.
    type: dict
  together:
    description:
      - For one server on several hosts (C(nnodes)). Any word that the waits for all its ranks share in a run, and no
        other wait does.
      - When the wait on one of these hosts has ended without V(ready), the others go on for 20 s and then return what
        they know by then, instead of waiting for a rank that does not come. The filter
        P(llmhost.sglang.nodes_verdict#filter) makes one verdict of them.
    type: str
  watcher:
    description:
      - Between this module and its action plugin, which sets it; of no use in a playbook.
      - V(start) starts the detached watch and returns at once, the path of a verdict file returns that verdict.
    type: str
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
    details:
      - Waits and reports as ever, for it changes nothing. Where the unit does not run (because a check mode of an
        earlier
        task only predicted its start) RV(outcome=skipped) is returned and the task does not fail.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  platform:
    support: full
    platforms: posix
    details:
      - Linux with systemd.
  idempotent:
    support: full
  async:
    description: Supports being used with the C(async) keyword.
    support: full
    details:
      - With C(async) the module waits by itself in the background and shows nothing. Without it the watch runs detached
        on the target as well, and survives a lost connection.
notes:
  - Progress bars are written over themselves and end their line only when they are full. journald hands a line on when
    it ends (or after 48 KiB, C(LineMax)), so from the journal a bar such as C(weights 37 %) is seen in parts and late.
    The phases and the verdict are not touched by that. Where the bars matter, let the unit write to a file (a drop-in
    with C(StandardOutput=append:/var/log/sglang.log) and C(StandardError=inherit)) and give it as O(log_path), with
    O(log_offset) and O(log_inode) as they were before the start.
  - journald drops lines of a unit that writes too many of them (C(RateLimitBurst), 10,000 in 30 s by default). A unit
    that logs more than that while it starts needs C(LogRateLimitIntervalSec=0), or a file.
  - Files are polled, 20 times a second while a start is watched. C(inotify) would save little, for the processes have
    to be looked at as well. A silent start costs about 57 s of processor time per hour of watching, one that writes
    ten lines a second 180 s (C(benchmarks/startup_delay.py --cost 20), two busy cores).
seealso:
  - module: llmhost.sglang.server
  - module: llmhost.sglang.log_diagnosis_info
  - module: llmhost.sglang.completion_probe
"""

EXAMPLES = r"""
- name: Wait until the server is ready, show the phases
  llmhost.sglang.server_wait:
    name: llama
    timeout_s: 3600

- name: Take the verdict as data, and go on
  llmhost.sglang.server_wait:
    name: llama
    served_model_name: llama-3
    progress: false
    fail: false
  register: llmhost_verdict

- name: Say what to change
  ansible.builtin.debug:
    msg: "{{ llmhost_verdict.remedies | map(attribute='text') | list }}"
  when: llmhost_verdict.outcome != 'ready'
"""

RETURN = r"""
outcome:
  description:
    - What became of the start.
    - V(skipped) is returned in check mode where the unit does not run.
  returned: when there is a verdict
  type: str
  sample: failed
  choices: [ready, failed, stalled, timeout, stopped, skipped]
reason:
  description:
    - Why the task failed. An RV(outcome) other than V(ready), or one of
      V(unit_not_found), V(not_started), V(api_key_unreadable), V(watcher_failed), V(watcher_incomplete),
      V(arguments_invalid),
      V(systemd_unavailable), V(systemd_timeout), V(systemd_failed).
  returned: failure
  type: str
  sample: failed
cause:
  description:
    - Id of the cause in the failure catalogue; V(unknown) where the catalogue does not know it; null when ready.
  returned: when there is a verdict
  type: str
  sample: port_in_use
phase:
  description: Phase in which it ended or is.
  returned: when there is a verdict
  type: str
  sample: load_weights
  choices: [import, args, init_distributed, load_weights, kv_cache, graph_capture, compile, http, warmup, runtime]
message:
  description: One sentence that a person understands.
  returned: when there is a verdict
  type: str
  sample: Port 30000 is taken by another process.
evidence:
  description:
    - The root line and where it is - C(line), C(number), C(offset), C(ranks) that said it, C(source), innermost
      C(frames), and C(discarded) lines that are only consequences.
    - C(outside) lists what was seen beside the log, where the log leaves room for doubt - C(source) (V(kernel),
      V(cgroup), V(port), V(disk), V(gpu)), C(rule), C(says) in words, and C(effect). V(decides) changed the cause,
      V(supports) did not, V(contradicts) means that what stood in the way has gone by now, V(unknown) that it could
      not be looked at.
  returned: when there is a verdict
  type: dict
  sample: {"line": "RuntimeError: Not enough memory.", "number": 212, "ranks": ["TP0", "TP1"]}
detail:
  description:
    - Numbers and names of this case, for example C(port), C(holders), C(asked), C(free), C(option),
      C(architecture), C(exit_code), C(signal), C(served), C(xid), C(full), C(cause_by_log).
    - After a silence also C(ranks) (rank to phase), C(lagging_ranks), C(stuck_process) with its state in the kernel,
      C(stack) of it by py-spy or C(stack_missing) with the reason, C(silent_s) and C(signs_of_life).
  returned: when there is a verdict
  type: dict
  sample: {"port": 30000}
remedies:
  description:
    - What to change, the best first - C(id), C(text), C(arguments), C(host_action), C(proven_by), C(safe),
      C(docs).
  returned: when there is a verdict
  type: list
  elements: dict
not_remedies:
  description: What SGLang's own hint or the web would suggest here, and why it does not help.
  returned: when there is a verdict
  type: list
  elements: str
retryable:
  description: Whether the same start may succeed later without a changed argument.
  returned: when there is a verdict
  type: bool
docs:
  description: Anchor of the cause in the failure catalogue.
  returned: when there is a verdict
  type: str
  sample: catalogue.html#port-in-use
memory:
  description: Every memory number that SGLang printed, with the rank and the point at which it was printed.
  returned: when there is a verdict
  type: list
  elements: dict
timeline:
  description:
    - Phases in the order in which they began, with C(seconds), C(ranks), the spread of the ranks C(rank_spread_s) and
      C(by_rank), the seconds after the first rank for up to 64 ranks, the last ones.
  returned: when there is a verdict
  type: list
  elements: dict
plan_compared:
  description:
    - Every item that both the plan and the log know. Memory is that of the rank that had least before loading.
    - An item that is missing here could not be compared.
  returned: with O(plan), when there is a verdict
  type: list
  elements: dict
  contains:
    item:
      description: The item.
      type: str
      choices: [weights, kv_pool, state_pool, graphs, left, tokens]
    text:
      description: Words for people.
      type: str
    unit:
      description: Unit of both numbers.
      type: str
      choices: [GiB, tokens]
    planned:
      description: What the plan had said.
      type: float
    actual:
      description: What SGLang printed.
      type: float
    off_percent:
      description: How far the plan was off, of what was printed; null where that is 0.
      type: float
    drift:
      description: Whether that is more than 3 %, and more than the rounding of the log.
      type: bool
plan_drift:
  description: Those of RV(plan_compared) that are off by more than 3 %.
  returned: with O(plan), when there is a verdict
  type: list
  elements: dict
  sample: [{"item": "weights", "planned": 15.2, "actual": 16.1, "unit": "GiB", "off_percent": -5.6}]
calibration:
  description:
    - Where the memory that this start took is kept for the next plan of the same host, model, version and layout. Null
      where there is nothing to keep.
  returned: with O(plan), when there is a verdict
  type: dict
  contains:
    path:
      description: The file.
      type: str
    stored:
      description: Whether it was written now. Where it tells the same already, it was not.
      type: bool
    problem:
      description: Why it could not be written, where it could not.
      type: str
log_tail:
  description: Last 64 KiB of this start's output, secrets masked, long lines cut.
  returned: when there is a verdict
  type: str
detached:
  description: Where the detached watch writes, for the action plugin, or C(why_not) it was not started.
  returned: with O(watcher=start)
  type: dict
unit:
  description: Name of the unit.
  returned: always
  type: str
  sample: sglang-llama.service
invocation_id:
  description: The start that was watched, systemd's id of it.
  returned: when there is a verdict
  type: str
seconds:
  description: Seconds that this wait took.
  returned: when there is a verdict
  type: float
verdict_delay_s:
  description: Seconds between the last output and the verdict.
  returned: when there is a verdict
  type: float
url:
  description: Address of the server on the target.
  returned: when there is a verdict
  type: str
  sample: http://127.0.0.1:30000
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def request_of(params):
    """The parameters as the core takes them."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.session import Request

    return Request(
        name=params["name"],
        timeout_s=float(params["timeout_s"]),
        stall_s=float(params["stall_s"] or 0),
        host=params["host"] or "",
        port=params["port"] or 0,
        served_name=params["served_model_name"] or "",
        api_key_file=params["api_key_file"] or "",
        state_dir=params["state_dir"],
        log_path=params["log_path"] or "",
        log_offset=params["log_offset"],
        log_inode=params["log_inode"] or 0,
    )


def validate(params):
    """Refuse what argument_spec cannot."""
    if NAME.fullmatch(params["name"]) is None:
        raise LlmHostError(
            "arguments_invalid",
            "name must be lower-case letters, digits, - and _, at most 63 characters: %r is not" % params["name"],
        )
    for key in ("timeout_s", "stall_s", "port"):
        if params[key] is not None and params[key] <= 0:
            raise LlmHostError("arguments_invalid", "%s must be a positive number: %s is not" % (key, params[key]))


def run(module):
    """Wait in one of three ways: as a module, by starting the detached watcher, by collecting its verdict."""
    params = module.params
    validate(params)
    if params["watcher"] and params["watcher"] != "start":
        from ansible_collections.llmhost.sglang.plugins.module_utils._startup.detached import collect

        return collect(params["watcher"])
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup import session, unit

    request = request_of(params)
    state = unit.state(request.unit)
    if module.check_mode and not state.running:
        return {"outcome": "skipped", "message": "%s does not run, nothing to wait for in check mode" % request.unit}
    if params["watcher"] == "start":
        from ansible_collections.llmhost.sglang.plugins.module_utils._startup import detached

        why_not = detached.available()
        if state.running and not why_not:
            return {"detached": detached.start(request, state.invocation_id)}
        if why_not and state.running:
            return {"detached": {"why_not": why_not}}
    from ansible_collections.llmhost.sglang.plugins.module_utils._evidence.gather import Host

    return session.watch(request, outside=Host)


def hold_against_plan(module, result):
    """What the plan had said of what the log tells."""
    plan = module.params["plan"]
    if not plan or "memory" not in result:
        return result
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup import plan_drift

    compared = plan_drift.compare(plan, result["memory"])
    words = plan_drift.warning(compared)
    if words:
        module.warn(words)
    kept = remember(module, plan, result["memory"])
    drift = [one for one in compared if one["drift"]]
    return {**result, "plan_compared": compared, "plan_drift": drift, "calibration": kept}


def remember(module, plan, memory):
    """Keep what this start took for the next plan, whether it was a good start or a bad one."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._memory import calibration

    measured = calibration.of_start(plan, memory)
    if measured is None or module.check_mode:
        return None
    return calibration.store(module.params["state_dir"], measured)


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "timeout_s": {"type": "int", "default": 3600},
            "stall_s": {"type": "int"},
            "progress": {"type": "bool", "default": True},
            "fail": {"type": "bool", "default": True},
            "host": {"type": "str"},
            "port": {"type": "int"},
            "served_model_name": {"type": "str"},
            "api_key_file": {"type": "path", "no_log": False},
            "state_dir": {"type": "path", "default": "/var/lib/llmhost"},
            "log_path": {"type": "path"},
            "log_offset": {"type": "int", "default": 0},
            "log_inode": {"type": "int"},
            "plan": {"type": "dict"},
            "together": {"type": "str"},
            "watcher": {"type": "str"},
        },
        supports_check_mode=True,
    )
    unit_name = "sglang-%s.service" % module.params["name"]
    try:
        result = {"changed": False, "unit": unit_name, **hold_against_plan(module, run(module))}
    except LlmHostError as error:
        module.fail_json(**{"unit": unit_name, **error.as_result()})
    outcome = result.get("outcome")
    if outcome in (None, "ready", "skipped") or not module.params["fail"]:
        module.exit_json(**result)
    cures = [remedy["text"] for remedy in result.get("remedies", [])[:1]]
    module.fail_json(msg=" ".join(["%s: %s" % (unit_name, result["message"]), *cures]), reason=outcome, **result)


if __name__ == "__main__":
    main()
