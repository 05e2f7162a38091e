#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor_info
short_description: Check host, container, driver, devices, GPUs and what a server needs
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Runs every check that is for such a host and returns what it saw, what it means and what to do about it.
  - Runs on a Proxmox node, in a container, and on a machine without either. In a container it joins its own view with
    that of the node where O(node_view) is given, for device numbers, versions and processes have two sides.
  - What cannot be read is V(unknown), never V(ok). Nothing is changed.
  - The checks are listed in the guide "Checks of the doctor".
notes:
  - Run it as root (C(become)). Without root much is V(unknown).
  - To ask CUDA and to open device nodes wakes a GPU up, which takes seconds where persistence mode is off.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.info_module
  - llmhost.sglang.attributes.actiongroup_sglang
options:
  families:
    description:
      - Which families of checks to run. An empty list is all but V(network), which asks every package source.
    type: list
    elements: str
    choices: [driver, devices, cuda, gpu, p2p, container, memory, system, limits, storage, network, toolchain, server]
    default: []
  place:
    description: What this host is. V(auto) finds out.
    type: str
    choices: [auto, node, container, bare_metal]
    default: auto
  node_view:
    description: RV(view) of a run on the node that owns the GPUs, for the run in its container.
    type: dict
  vmid:
    description: VMID of the container, on its node and in it. Without it nothing is said of a container on the node.
    type: int
  gpus:
    description:
      - The GPUs that are meant to be used, by index, UUID, PCI address or part of the name. An empty list is all that
        are there.
    type: list
    elements: str
    default: []
  user:
    description: User that runs the server, as whom devices and model are opened.
    type: str
  model_paths:
    description: Folders of the models that the user is to read.
    type: list
    elements: path
    default: []
    aliases: [model_path]
  runtime:
    description: Virtual environment of SGLang, whose C(bin) is in the service's PATH and whose Python needs headers.
    type: path
  paths:
    description: Folders that are written, whose file systems are checked.
    type: list
    elements: path
    default: [/var/lib/llmhost]
  ports:
    description: Name of an instance mapped to the port that it is to listen on.
    type: dict
    default: {}
  environment:
    description: Environment of the server; E(PATH) and E(CUDA_HOME) of it count.
    type: dict
    default: {}
  driver_min:
    description: The oldest driver that will do.
    type: str
    default: "580"
  probe:
    description:
      - Whether to ask servers that listen on O(ports) for a token and, in family V(p2p), to let two GPUs exchange data
        with torch of O(runtime). It uses the GPUs for seconds, so do it only where that disturbs nobody.
    type: bool
    default: false
  query_timeout_s:
    description: Seconds that a command or a query of the driver may take.
    type: int
    default: 20
  fail_on:
    description: Which status of a finding fails the task. V(warn) is V(warn) or V(fail).
    type: str
    choices: [fail, warn, never]
    default: never
seealso:
  - module: llmhost.sglang.gpu_info
  - module: llmhost.sglang.log_diagnosis_info
"""

EXAMPLES = r"""
- name: Look at the node that owns the GPUs
  llmhost.sglang.doctor_info:
    vmid: 129
  register: node
  delegate_to: pve1

- name: Look at the container, with what the node saw
  llmhost.sglang.doctor_info:
    node_view: "{{ node.view }}"
    vmid: 129
    gpus: ["0", "1"]
    user: sglang
    model_paths: [/models/llama]
    ports: {chat: 30000}
  register: container

- name: Stop where the driver is not in order
  llmhost.sglang.doctor_info:
    families: [driver, devices, cuda]
    fail_on: fail
"""

RETURN = r"""
findings:
  description: What each check says, in the order of the guide. With a failure of O(fail_on) they are returned as well.
  returned: success, and failure by O(fail_on)
  type: list
  elements: dict
  contains:
    id:
      description: The check.
      type: str
    family:
      description: Its family.
      type: str
    place:
      description: Where it looked, V(node), V(container) or V(bare_metal).
      type: str
    status:
      description: V(ok), V(warn), V(fail), V(unknown) or V(not_applicable).
      type: str
    severity:
      description: How much it matters, V(high), V(medium) or V(low).
      type: str
    meaning:
      description: What is wrong where it is not V(ok).
      type: str
    evidence:
      description: What was seen, or why it could not be.
      type: str
    remedy:
      description: What to do; V(null) unless it is V(warn) or V(fail).
      type: dict
      contains:
        id:
          description: Its name.
          type: str
        text:
          description: What to do, in words.
          type: str
        arguments:
          description: Launch arguments to change.
          type: dict
        host_action:
          description: What is done on the host.
          type: str
        proven_by:
          description: The check.
          type: dict
        safe:
          description: Whether it may be applied unattended.
          type: bool
        docs:
          description: Where the documentation tells more.
          type: str
    task:
      description: The task that applies the remedy, where there is one.
      type: dict
    docs:
      description: Where the documentation tells more.
      type: str
summary:
  description: How many findings have each status.
  returned: success, and failure by O(fail_on)
  type: dict
  contains:
    ok:
      description: In order.
      type: int
    warn:
      description: Not in order, but it may do.
      type: int
    fail:
      description: Broken.
      type: int
    unknown:
      description: Could not be seen.
      type: int
    not_applicable:
      description: Says nothing here.
      type: int
place:
  description: What this host is.
  returned: success, and failure by O(fail_on)
  type: str
view:
  description: What was seen, for O(node_view) of the run in the container.
  returned: success, and failure by O(fail_on)
  type: dict
reason:
  description: Why it failed. V(findings) or V(invalid_parameter).
  returned: failure
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor import checks, facts, looks
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.check import Ask, View
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.reader import Reader
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError


def wanted(params: dict) -> Ask:
    """What is wanted of the host."""
    try:
        ports = {str(name): int(port) for name, port in params["ports"].items()}
    except (TypeError, ValueError):
        raise LlmHostError("invalid_parameter", "ports must map the name of an instance to a port number") from None
    return Ask(
        vmid=params["vmid"],
        gpus=tuple(params["gpus"]),
        user=params["user"],
        model_paths=tuple(params["model_paths"]),
        runtime=params["runtime"],
        paths=tuple(params["paths"]),
        ports=ports,
        environment={str(name): str(value) for name, value in params["environment"].items()},
        driver_min=params["driver_min"],
        probe=params["probe"],
    )


def look(params: dict) -> dict:
    """The result of the module."""
    ask, reader = wanted(params), Reader(timeout_s=params["query_timeout_s"])
    try:
        peer = facts.from_dict(params["node_view"]) if params["node_view"] else None
    except ValueError as error:
        raise LlmHostError("invalid_parameter", f"node_view is not what doctor_info returned: {error}") from None
    place = looks.place_of(reader) if params["place"] == "auto" else params["place"]
    families = params["families"] or list(checks.DEFAULT)
    seen = looks.look(reader, ask, place, families)
    findings = checks.examine(View(seen, ask, peer), families)
    return {
        "findings": [finding.as_dict() for finding in findings],
        "summary": checks.summary(findings),
        "place": place,
        "view": seen.as_dict(),
    }


def verdict(result: dict, fail_on: str) -> str:
    """Why the task fails; empty where it does not."""
    bad = {"fail": ("fail",), "warn": ("fail", "warn"), "never": ()}[fail_on]
    found = [finding for finding in result["findings"] if finding["status"] in bad]
    told = [f"{f['id']} ({f['status']}): {f['evidence']}. {f['remedy']['text']}" for f in found]
    return " -- ".join(told)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "families": {"type": "list", "elements": "str", "choices": list(checks.FAMILIES), "default": []},
            "place": {"type": "str", "choices": ["auto", *facts.PLACES], "default": "auto"},
            "node_view": {"type": "dict"},
            "vmid": {"type": "int"},
            "gpus": {"type": "list", "elements": "str", "default": []},
            "user": {"type": "str"},
            "model_paths": {"type": "list", "elements": "path", "default": [], "aliases": ["model_path"]},
            "runtime": {"type": "path"},
            "paths": {"type": "list", "elements": "path", "default": ["/var/lib/llmhost"]},
            "ports": {"type": "dict", "default": {}},
            "environment": {"type": "dict", "default": {}},
            "driver_min": {"type": "str", "default": "580"},
            "probe": {"type": "bool", "default": False},
            "query_timeout_s": {"type": "int", "default": 20},
            "fail_on": {"type": "str", "choices": ["fail", "warn", "never"], "default": "never"},
        },
        supports_check_mode=True,
    )
    if module.params["query_timeout_s"] < 1:
        module.fail_json(msg="query_timeout_s must be 1 or more", reason="invalid_parameter")
    try:
        result = look(module.params)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    why = verdict(result, module.params["fail_on"])
    if why:
        module.fail_json(msg=why, reason="findings", **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
