#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: See the GPUs of a host, their health, their memory and who holds it
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Returns every NVIDIA GPU of a host with memory, health, MIG devices and clients, each client with the process,
    systemd unit and
    container (Proxmox VMID, docker, podman, Kubernetes) behind it.
  - What is not known is V(null), never V(0). A card that is lost does not hide the others.
  - Every query has a deadline, so a driver that hangs is the failure V(driver_hung) and no hung play.
  - Only the host's first PID namespace sees every client of a GPU. Run it on the node that owns the GPUs
    (C(delegate_to)); inside a
    container it says that clients may be missing.
notes:
  - Needs no package on the target. Where C(nvidia-ml-py) 12.535.108 or newer is importable by the interpreter of the
    task it is used
    instead of C(nvidia-smi), which is faster on hosts with many GPUs.
  - Run it as root (C(become)) to identify the processes of other users and to read the kernel log.
  - Environment variables of processes are never read, and secrets in command lines are masked.
  - E(CUDA_VISIBLE_DEVICES) is not looked at. On hosts with different models the order of indexes is not CUDA's; use
    UUIDs.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.info_module
  - llmhost.sglang.attributes.actiongroup_sglang
options:
  gpus:
    description:
      - Which GPUs to return, by index, UUID (or at least eight characters of it after C(GPU-)), PCI address, UUID of
        one of its MIG
        devices, or part of the model name. V(all) is every GPU.
    type: list
    elements: str
    default: [all]
  gather:
    description:
      - What to find out beside what the driver itself says. An empty list is the fastest call.
      - V(clients) identifies the processes that use a GPU.
      - V(xid) reads Xid events since boot from the kernel log.
      - V(capability) asks for the compute capability where that takes a call of its own.
    type: list
    elements: str
    choices: [clients, xid, capability]
    default: [clients, xid, capability]
  source:
    description:
      - What to ask. V(auto) is V(nvml) where it can be used and else V(smi).
      - V(nvml) is C(nvidia-ml-py), V(smi) is C(nvidia-smi).
    type: str
    choices: [auto, nvml, smi]
    default: auto
  query_timeout_s:
    description: Seconds that one query of the driver may take. Without persistence mode the first one can take tens
      of seconds.
    type: int
    default: 20
  required:
    description: Whether a host without driver or GPU is a failure. With V(false) it returns an empty list and
      RV(absent).
    type: bool
    default: true
seealso:
  - module: llmhost.sglang.gpu_clean
"""

EXAMPLES = r"""
- name: See all GPUs of a host
  llmhost.sglang.gpu_info:
  register: seen

- name: See which processes of the Proxmox node hold memory of the first GPU
  llmhost.sglang.gpu_info:
    gpus: ["0"]
    gather: [clients]
  register: first
  delegate_to: "{{ llmhost_gpu_node | default(inventory_hostname) }}"

- name: Go on where there is no GPU
  llmhost.sglang.gpu_info:
    required: false
    gather: []
  register: maybe
"""

RETURN = r"""
gpus:
  description: The GPUs, by index.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: Its place in the driver's order, which need not be the same after a reboot.
      type: int
    uuid:
      description: Its UUID; V(null) where the card is lost.
      type: str
    name:
      description: Its model.
      type: str
    pci_bus_id:
      description: Its PCI address.
      type: str
    minor:
      description: The number of its device file C(/dev/nvidiaN).
      type: int
    memory_mib:
      description: Memory in MiB. RV(gpus[].memory_mib.used) is without what the driver reserves. Numbers that cannot
        be are V(null).
      type: dict
      contains:
        total:
          description: All of it.
          type: int
        used:
          description: Held by clients.
          type: int
        free:
          description: Free.
          type: int
        reserved:
          description: Reserved by the driver.
          type: int
    memory_note:
      description: Why memory is not known; V(null) where it is.
      type: str
    utilization_percent:
      description: Part of the last moment in which a kernel ran.
      type: int
    memory_utilization_percent:
      description: Part of the last moment in which memory was read or written.
      type: int
    compute_capability:
      description: Compute capability, such as V(9.0).
      type: str
    persistence:
      description: Whether persistence mode is on.
      type: bool
    ecc:
      description: Whether ECC is on.
      type: bool
    display_active:
      description: Whether a display is attached.
      type: bool
    mig_mode:
      description: Whether it is in MIG mode.
      type: bool
    mig_devices:
      description: Its MIG devices.
      type: list
      elements: dict
      contains:
        index:
          description: Its index on this GPU.
          type: int
        uuid:
          description: Its UUID, by which CUDA and O(gpus) address it.
          type: str
        gpu_instance:
          description: Number of the GPU instance.
          type: int
        compute_instance:
          description: Number of the compute instance.
          type: int
        profile:
          description: Its profile, such as V(1g.10gb).
          type: str
        memory_mib:
          description: As that of the GPU.
          type: dict
    unified_memory:
      description: Whether its memory is also the host's. What is used then says nothing of its clients.
      type: bool
    numa_node:
      description: NUMA node of the host that it is close to; V(null) where there is only one.
      type: int
    memory_numa_node:
      description: NUMA node that its own memory is.
      type: int
    recovery_action:
      description: What the driver asks for, V(none) or for instance V(reset) or V(reboot); V(null) where it does not
        say.
      type: str
    health:
      description: V(ok), V(degraded) or V(unusable).
      type: str
    health_reasons:
      description: Why it is not V(ok).
      type: list
      elements: str
    errors:
      description: Calls that failed for this GPU.
      type: list
      elements: dict
      contains:
        call:
          description: The call.
          type: str
        reason:
          description: A short word, as the failure reasons.
          type: str
        message:
          description: What it means.
          type: str
    xids:
      description: The last ten Xid events of this boot, oldest first.
      type: list
      elements: dict
      contains:
        xid:
          description: Its number.
          type: int
        class:
          description: V(fatal), V(reset), V(app), V(info) or V(unknown).
          type: str
        meaning:
          description: What it means.
          type: str
        time_s:
          description: Seconds since boot.
          type: float
        text:
          description: The rest of the line.
          type: str
    clients_known:
      description: Whether the driver gave its list of clients.
      type: bool
    clients:
      description: Who uses it. Empty without V(clients) in O(gather).
      type: list
      elements: dict
      contains:
        pid:
          description: The PID that the driver told.
          type: int
        kind:
          description: V(compute), V(graphics) or V(mps).
          type: str
        memory_mib:
          description: What it holds; V(null) where the driver does not know.
          type: int
        gpu_instance:
          description: MIG instance that it runs in.
          type: int
        identified:
          description: Whether the process behind the PID is known.
          type: bool
        problem:
          description: Why it is not.
          type: str
        user:
          description: Its user, by name where this host knows it.
          type: str
        uid:
          description: Its effective user id as this host sees it.
          type: int
        comm:
          description: Its name, at most 15 characters.
          type: str
        cmdline:
          description: Its command line, secrets masked.
          type: str
        start_time:
          description: When it started, in clock ticks since boot. With the PID it identifies the process.
          type: int
        state:
          description: One letter, as in C(ps).
          type: str
        ppid:
          description: Its parent.
          type: int
        cgroup:
          description: Its control group.
          type: str
        unit:
          description: Its systemd unit, that inside the container where it is in one.
          type: str
        container:
          description: Its container, with C(kind) (V(lxc), V(qemu), V(docker), V(podman), V(k8s), ...) and C(vmid)
            or C(id).
          type: dict
        ns_pid:
          description: Its PID in each PID namespace, the host's first.
          type: list
          elements: int
source:
  description: What was asked, V(nvml) or V(smi).
  returned: success
  type: str
source_note:
  description: Why that one and not the other.
  returned: success
  type: str
driver_version:
  description: Version of the driver.
  returned: success
  type: str
cuda_version:
  description: Newest version of CUDA that the driver offers.
  returned: success
  type: str
pid_namespace:
  description: V(initial) where every process of the host can be seen, V(nested) in a container.
  returned: success
  type: str
simulated:
  description: Whether the driver is a simulation.
  returned: success
  type: bool
absent:
  description: Why there is no GPU; only with O(required=false) on a host without one.
  returned: success, when there is none
  type: str
reason:
  description:
    - Why it failed. V(no_driver), V(no_gpu), V(gpu_unknown), V(gpu_ambiguous), V(source_unavailable), V(driver_hung),
      V(driver_not_loaded), V(library_missing), V(version_mismatch), V(blocked_by_os), V(container_cut_off),
      V(not_permitted),
      V(struct_mismatch), V(parse_error), V(gpu_lost), V(reset_required), V(function_missing), V(driver_error) or
      V(invalid_parameter).
  returned: failure
  type: str
driver_said:
  description: The driver's own words.
  returned: failure, where it said something
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import choose, clients, query


def look(params: dict) -> tuple[dict, list[str]]:
    """The result of the module and its warnings."""
    timeout_s = params["query_timeout_s"]
    driver, name, note = query.open_driver(params["source"], timeout_s)
    try:
        want = set(params["gather"])
        found = query.look(driver, name, note)
        uuids = [gpu.uuid for gpu in found.gpus if gpu.uuid]
        capabilities = driver.capabilities(uuids) if "capability" in want else {}
    finally:
        driver.close()
    found = clients.enrich(found, want, driver.nested, capabilities, timeout_s)
    chosen = {target.gpu.index for target in choose.choose(found, params["gpus"], by_name=True)}
    result = {
        "gpus": [gpu.as_dict() for gpu in found.gpus if gpu.index in chosen],
        "source": found.source,
        "source_note": found.source_note,
        "driver_version": found.driver_version,
        "cuda_version": found.cuda_version,
        "pid_namespace": "nested" if driver.nested else "initial",
        "simulated": found.simulated,
    }
    return result, list(found.warnings)


def main() -> None:
    parts = ["clients", "xid", "capability"]
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "str", "default": ["all"]},
            "gather": {"type": "list", "elements": "str", "choices": parts, "default": parts},
            "source": {"type": "str", "choices": list(query.SOURCES), "default": "auto"},
            "query_timeout_s": {"type": "int", "default": 20},
            "required": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    if module.params["query_timeout_s"] < 1:
        module.fail_json(msg="query_timeout_s must be 1 or more", reason="invalid_parameter")
    try:
        result, warnings = look(module.params)
    except LlmHostError as error:
        if module.params["required"] or error.reason not in ("no_driver", "no_gpu"):
            module.fail_json(**error.as_result())
        result = {"gpus": [], "absent": error.message, "source": None, "source_note": None, "simulated": False}
        result.update(driver_version=None, cuda_version=None, pid_namespace="nested" if query.nested() else "initial")
        warnings = []
    for text in warnings:
        module.warn(text)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
