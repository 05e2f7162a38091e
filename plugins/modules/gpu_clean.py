#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_clean
short_description: Stop what is stale on GPUs, prove that their memory is back, touch nothing else
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Stops SGLang's processes that nobody manages any more and waits until the memory of the GPUs is at its baseline.
    The end of a
    process is no proof. Its memory can come back half a minute later, and a server that starts before that runs out
    of memory.
  - Stopped by default are SGLang's processes (launcher, schedulers, detokenizer) that belong to no active systemd
    unit. Whoever else
    uses the GPUs is a blocker, and then nothing is signalled at all.
  - SGLang in any other active unit, another container, of another user, or a server started by hand that still
    answers C(/health) is
    somebody's. It is reported and stays. So does one whose launcher lives for less than half an hour and does not
    answer. It may still load.
  - Every signal goes through a descriptor that was opened before the identity was read, so a PID that is used again
    is never hit.
    C(SIGTERM) first, to the launcher alone so that it drains; one C(SIGKILL) after O(grace_s).
  - Never touched are PID 1, this task and its ancestors, remote access, daemons of containers and of Proxmox,
    display servers,
    monitoring (killing DCGM can wedge a GPU), MPS daemons and the driver's own daemons, whatever the parameters say.
  - When it succeeds, the processes are gone, the driver no longer lists them, and memory stayed at the baseline for
    O(settle_samples)
    samples. A second run then changes nothing.
  - A client of MPS is never signalled before its MPS server let go of it (C(terminate_client) of
    C(nvidia-cuda-mps-control)). A client
    that is killed can hang every other one. Where no control daemon answers, or it does not let go, nothing is done
    to that client and the task fails with V(mps_in_use).
  - It never resets a GPU and never stops a container.
notes:
  - Run it on the host that owns the GPUs, as root. Only there can every client be seen. For a Proxmox container use
    C(delegate_to)
    with the node and O(vmid).
  - Seen from the node, the unit of a process inside a container is known, but not whether it is active there. So
    every unit inside a
    container counts as active. Stop the unit in the container first, or name it in O(units) together with O(vmid).
    Its processes
    are then stopped, but not the unit, and a unit that restarts them is the failure V(respawn).
  - The control daemon of MPS is asked in the environment of the task. Where it was started with its own
    E(CUDA_MPS_PIPE_DIRECTORY), give
    that to the task.
  - Two tasks never clean the same GPU at once. The second waits, at most O(timeout_s), and then fails with V(locked).
  - On GPUs that share their memory with the host (NUMA nodes) memory proves nothing, and only processes are waited
    for, with a
    warning.
  - With C(nvidia-smi) every sample starts a program; install C(nvidia-ml-py) for the interpreter of the task where
    that is slow.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
    details:
      - Returns the plan and signals nothing. Fails as the real run would where something blocks it.
  diff_mode:
    support: full
    details:
      - Shows each process that uses the GPUs, and which of them would go.
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
options:
  gpus:
    description:
      - Which GPUs to clean, by index, UUID, PCI address or UUID of a MIG device. V(all) is every GPU of the host.
      - An empty list does nothing, for hosts without a GPU.
    type: list
    elements: str
    required: true
  match:
    description:
      - Regular expressions for more programs than SGLang that may be stopped, searched in the name and the command
        line of processes
        that use the chosen GPUs.
      - A server that answers its health endpoint, or may still be starting, may be stopped where one of them names it.
    type: list
    elements: str
    default: []
  users:
    description: Only processes of these users, by name or number, may be stopped. Default is every user.
    type: list
    elements: str
  units:
    description:
      - Systemd units that may be stopped although they are active, for instance V(sglang-qwen.service).
      - On the host itself the unit is stopped before its processes. With O(vmid) the units are those inside the
        container, and only
        their processes are stopped.
    type: list
    elements: str
    default: []
  vmid:
    description:
      - Only processes of this Proxmox container may be stopped. Without it only those of the host itself, outside
        any container.
    type: int
  exclude:
    description:
      - Who else may stay on these GPUs. Their memory then belongs to the baseline instead of blocking the run.
      - Each is V(vmid:130), V(unit:sglang-small.service) (on the host, or in the container O(vmid)) or V(user:alice).
    type: list
    elements: str
    default: []
  grace_s:
    description:
      - Seconds between C(SIGTERM) and C(SIGKILL). A server that drains long requests, or holds much pinned host
        memory, needs more.
    type: int
    default: 30
  timeout_s:
    description: Seconds to wait for the memory after the last signal.
    type: int
    default: 180
  baseline:
    description:
      - MiB that may stay in use on each GPU, beside O(slack_mib). V(auto) is what the tolerated clients hold.
    type: str
    default: auto
  slack_mib:
    description: MiB above the baseline that still count as clean.
    type: int
    default: 64
  settle_samples:
    description: Samples in a row that must be clean.
    type: int
    default: 3
  force:
    description:
      - Widen the scope to every compute client of the chosen GPUs on this host (or in the container O(vmid)), with
        active units,
        which are stopped first, live servers and programs other than SGLang.
      - It never reaches protected processes, other containers, processes that cannot be identified, or those outside
        O(users).
    type: bool
    default: false
  protected:
    description: Regular expressions for processes that are never signalled, beside the built-in list.
    type: list
    elements: str
    default: []
  source:
    description: What to ask, as in M(llmhost.sglang.gpu_info).
    type: str
    choices: [auto, nvml, smi]
    default: auto
  query_timeout_s:
    description: Seconds that one query of the driver may take.
    type: int
    default: 20
seealso:
  - module: llmhost.sglang.gpu_info
"""

EXAMPLES = r"""
- name: Release the GPUs of container 129, from the Proxmox node that owns them
  llmhost.sglang.gpu_clean:
    gpus: [all]
    vmid: 129
  delegate_to: "{{ llmhost_gpu_node }}"

- name: Show what would be stopped on the first GPU
  llmhost.sglang.gpu_clean:
    gpus: ["0"]
  check_mode: true
  diff: true
  register: plan

- name: Stop one server with its unit, and leave its neighbour on the same card alone
  llmhost.sglang.gpu_clean:
    gpus: [GPU-5f9a2c1e-0000-4000-8000-000000000000]
    units: [sglang-large.service]
    exclude: ["unit:sglang-small.service"]
    grace_s: 90
"""

RETURN = r"""
gpus:
  description: The numbers of each target.
  returned: always, as soon as the driver answered
  type: list
  elements: dict
  contains:
    uuid:
      description: UUID of the GPU or the MIG device.
      type: str
    index:
      description: Index of the GPU.
      type: int
    name:
      description: Its model.
      type: str
    before_mib:
      description: Memory in use when the plan was made.
      type: int
    after_mib:
      description: Memory in use at the end.
      type: int
    baseline_mib:
      description: What may stay in use, without the slack; V(null) where memory does not count.
      type: int
    baseline_from:
      description: Where that number comes from.
      type: str
    released_s:
      description: Seconds from the last signal until memory was at the baseline; V(null) where it was not.
      type: float
    problem:
      description: Why this GPU is not fit for use; V(null) where it is.
      type: str
targets:
  description: Processes that are stopped, or would be in check mode.
  returned: always
  type: list
  elements: dict
  contains: &process
    pid:
      description: Its PID.
      type: int
    start_time:
      description: When it started, in clock ticks since boot.
      type: int
    comm:
      description: Its name.
      type: str
    cmdline:
      description: Its command line, secrets masked.
      type: str
    user:
      description: Its user.
      type: str
    uid:
      description: Its effective user id as this host sees it.
      type: int
    state:
      description: One letter, as in C(ps).
      type: str
    ppid:
      description: Its parent.
      type: int
    unit:
      description: Its systemd unit.
      type: str
    container:
      description: Its container.
      type: dict
    kinds:
      description: How it uses the chosen GPUs; empty where it does not.
      type: list
      elements: str
    memory_mib:
      description: What it holds of each target; V(null) where that is not known.
      type: dict
    why:
      description: Why it is in this list.
      type: str
stopped_units:
  description: Units of this host that are stopped, or would be in check mode.
  returned: always
  type: list
  elements: str
actions:
  description: What was done, in order. Empty in check mode and on a clean GPU.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: The process.
      type: int
    identity:
      description: Who that was, as C(pid), C(start_time), C(comm) and C(uid).
      type: dict
    signal:
      description: V(SIGTERM), V(SIGKILL) or V(mps terminate_client).
      type: str
    outcome:
      description:
        - V(exited), V(still running), V(gone before), V(sent), V(drained) where MPS let go of it, V(not permitted), or
          why it was not sent.
      type: str
tolerated:
  description: Processes that stay and whose memory belongs to the baseline.
  returned: always
  type: list
  elements: dict
  contains: *process
blockers:
  description: Processes that may not be stopped, so that nothing was.
  returned: always
  type: list
  elements: dict
  contains: *process
zombies:
  description: Dead processes that their parent does not reap.
  returned: always
  type: list
  elements: dict
  contains: *process
unknown:
  description: PIDs that the driver lists and that could not be identified.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: The PID that the driver told.
      type: int
    gpus:
      description: The targets that it uses.
      type: list
      elements: str
    problem:
      description: Why it is not known.
      type: str
source:
  description: What was asked, V(nvml) or V(smi).
  returned: always
  type: str
simulated:
  description: Whether the driver is a simulation.
  returned: always
  type: bool
reason:
  description:
    - Why it failed. Before any signal, V(blocked), V(unknown_client), V(pid_invisible), V(struct_mismatch),
      V(mps_in_use),
      V(memory_unknown), V(clients_unknown), V(baseline_unknown), V(gpu_unknown), V(gpu_ambiguous), V(gpu_lost),
      V(reset_required),
      V(locked), V(lock_failed), V(pidfd_unavailable), V(invalid_parameter), or one of the driver's as in
      M(llmhost.sglang.gpu_info).
    - After it began, V(unit_stop_failed), V(not_permitted), V(respawn), V(gpu_missing), V(mps_in_use), or the
      diagnosis of memory
      that did not come back, V(unkillable), V(zombie_parent), V(ipc_peer), V(pinned_teardown), V(pid_invisible),
      V(leaked_context),
      V(above_baseline).
  returned: failure
  type: str
stuck:
  description: Processes that survived C(SIGKILL), with C(pid), C(comm), C(state) and C(wait_channel) in the kernel.
  returned: failure with RV(reason) V(unkillable)
  type: list
  elements: dict
peers:
  description: Processes that map the memory of others, with C(pid), C(comm), C(gpu), C(before_mib) and C(memory_mib).
  returned: failure with RV(reason) V(ipc_peer)
  type: list
  elements: dict
holders:
  description: Processes that have the device open without being listed.
  returned: failure with RV(reason) V(above_baseline)
  type: list
  elements: dict
respawned:
  description: The new client and its C(parent).
  returned: failure with RV(reason) V(respawn)
  type: dict
driver_said:
  description: The driver's own words.
  returned: failure of the driver
  type: str
token:
  description: What the driver gave where a PID belongs.
  returned: failure with RV(reason) V(parse_error)
  type: str
missing:
  description: UUIDs that were not in the driver's answer.
  returned: failure with RV(reason) V(gpu_missing)
  type: list
  elements: str
gpu:
  description: The GPU that was meant.
  returned: failure with RV(reason) V(gpu_unknown) or V(locked)
  type: str
falling:
  description: Whether memory still fell when the time was over.
  returned: failure with RV(reason) V(pinned_teardown)
  type: bool
pids:
  description: PIDs that the driver lists although they do not exist.
  returned: failure with RV(reason) V(leaked_context)
  type: list
  elements: int
parent:
  description: The process that does not reap its dead child.
  returned: failure with RV(reason) V(zombie_parent)
  type: str
owner:
  description: PID of the task that holds the lock.
  returned: failure with RV(reason) V(locked)
  type: str
since:
  description: When it took the lock.
  returned: failure with RV(reason) V(locked)
  type: str
"""

import pwd
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import query
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.host import Host
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.policy import Scope
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.release import Release, Request

LEAST = {"grace_s": 0, "timeout_s": 1, "slack_mib": 0, "settle_samples": 1, "query_timeout_s": 1}


def patterns(name: str, words: list[str]) -> tuple[re.Pattern[str], ...]:
    found = []
    for word in words:
        try:
            pattern = re.compile(word)
        except re.error as error:
            raise LlmHostError("invalid_parameter", f"{name}: '{word}' is no regular expression: {error}") from None
        if pattern.search(""):
            raise LlmHostError("invalid_parameter", f"{name}: '{word}' fits every process: name the program")
        found.append(pattern)
    return tuple(found)


def uid(name: str, word: str) -> int:
    if word.isdigit():
        return int(word)
    try:
        return pwd.getpwnam(word).pw_uid
    except KeyError:
        raise LlmHostError("invalid_parameter", f"{name}: this host has no user '{word}': give its number") from None


def scope(params: dict, euid: int) -> Scope:
    """The scope that the parameters describe; raises ``invalid_parameter``."""
    vmids, units, uids = set(), set(), set()
    for word in params["exclude"]:
        kind, _colon, value = word.partition(":")
        if kind == "vmid" and value.isdigit():
            vmids.add(int(value))
        elif kind == "unit" and value:
            units.add(value)
        elif kind == "user" and value:
            uids.add(uid("exclude", value))
        else:
            raise LlmHostError(
                "invalid_parameter", f"exclude: '{word}' is none of vmid:NUMBER, unit:NAME.service, user:NAME"
            )
    for word in params["units"]:
        if not re.fullmatch(r"[A-Za-z0-9:_.\\@-]+\.(?:service|scope)", word) or word.startswith("-"):
            raise LlmHostError("invalid_parameter", f"units: '{word}' is no full unit name such as sglang-qwen.service")
    return Scope(
        match=patterns("match", params["match"]),
        users=None if params["users"] is None else frozenset(uid("users", word) for word in params["users"]),
        units=frozenset(params["units"]),
        vmid=params["vmid"],
        force=params["force"],
        protected=patterns("protected", params["protected"]),
        exclude_vmids=frozenset(vmids),
        exclude_units=frozenset(units),
        exclude_uids=frozenset(uids),
        euid=euid,
    )


def request(params: dict, check: bool, euid: int) -> Request:
    """What the core is asked; raises ``invalid_parameter``."""
    for name, least in (
        ("grace_s", 0),
        ("timeout_s", 1),
        ("slack_mib", 0),
        ("settle_samples", 1),
        ("query_timeout_s", 1),
    ):
        if params[name] < least:
            raise LlmHostError("invalid_parameter", f"{name} must be {least} or more, not {params[name]}")
    baseline = params["baseline"].strip()
    if baseline != "auto" and not baseline.isdigit():
        raise LlmHostError("invalid_parameter", f"baseline: '{baseline}' is neither auto nor a number of MiB")
    return Request(
        gpus=tuple(params["gpus"]),
        scope=scope(params, euid),
        grace_s=params["grace_s"],
        timeout_s=params["timeout_s"],
        baseline_mib=None if baseline == "auto" else int(baseline),
        slack_mib=params["slack_mib"],
        settle_samples=params["settle_samples"],
        check=check,
    )


def diff(result: dict) -> dict:
    """The processes on the GPUs, before and after."""

    def line(item: dict) -> str:
        sizes = [size for size in item["memory_mib"].values() if size is not None]
        who = f"{item['pid']} {item['comm']} (user {item['user']}, unit {item['unit']})"
        return f"{who}: {sum(sizes)} MiB, {item['why']}\n"

    stay = [line(item) for key in ("tolerated", "blockers", "zombies") for item in result.get(key, [])]
    go = [] if result.get("blockers") else [line(item) for item in result.get("targets", [])]
    head = "processes on the GPUs"
    return {"before": "".join(go + stay), "after": "".join(stay), "before_header": head, "after_header": head}


def clean(params: dict, check: bool) -> tuple[dict, list[str]]:
    """The result of the module and its warnings."""
    host = Host()
    wanted = request(params, check, host.euid())
    if not wanted.gpus:
        empty: list = []
        keys = ("gpus", "targets", "stopped_units", "actions", "tolerated", "blockers", "zombies", "unknown")
        return {"changed": False, **{key: empty for key in keys}, "source": None, "simulated": None}, []
    driver, name, note = query.open_driver(params["source"], params["query_timeout_s"])
    try:
        release = Release(wanted, driver, lambda: query.look(driver, name, note), host)
        return release.run(), release.warnings
    finally:
        driver.close()


def main() -> None:
    words = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "str", "required": True},
            "match": words,
            "users": {"type": "list", "elements": "str"},
            "units": words,
            "vmid": {"type": "int"},
            "exclude": words,
            "grace_s": {"type": "int", "default": 30},
            "timeout_s": {"type": "int", "default": 180},
            "baseline": {"type": "str", "default": "auto"},
            "slack_mib": {"type": "int", "default": 64},
            "settle_samples": {"type": "int", "default": 3},
            "force": {"type": "bool", "default": False},
            "protected": words,
            "source": {"type": "str", "choices": list(query.SOURCES), "default": "auto"},
            "query_timeout_s": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    try:
        result, warnings = clean(module.params, module.check_mode)
    except LlmHostError as error:
        failed = error.as_result()
        if "targets" in failed and module._diff:
            failed["diff"] = diff(failed)
        module.fail_json(**failed)
    for text in warnings:
        module.warn(text)
    if module._diff:
        result["diff"] = diff(result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
