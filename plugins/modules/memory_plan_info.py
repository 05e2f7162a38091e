#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_plan_info
short_description: Know before the launch whether a model fits, and which change makes it fit
version_added: 0.1.0
author: llmhost.sglang contributors (@llmhost)
description:
  - Plans the GPU memory of an SGLang start from the model's C(config.json), the headers of its weights, the launch
    arguments, the
    SGLang version and the GPUs, with the arithmetic of that very version.
  - Returns whether it will start, with how many tokens and requests, the budget of every GPU, the defaults that
    SGLang sets by
    itself, and, where it will not, changes of which each was planned again and shown to help.
  - The verdict never makes the task fail. What the arithmetic does not cover is V(unknown) with the reason, and
    never a number.
  - Needs neither GPU nor SGLang on the target, only the model's files (or O(config)). No tensor is read.
notes:
  - SGLang prints "GB" and means GiB; so does this module.
  - Weights are taken from the headers of the safetensors files. With O(config) alone they are computed for models
    of 16 and 32 bits
    and for FP8 with blocks; for other quantisations the verdict is then V(unknown).
  - SGLang versions 0.4.3 to 0.5.23 are known. A newer one is planned with the newest rules and says so in RV(notes).
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.info_module
  - llmhost.sglang.attributes.actiongroup_sglang
options:
  model_path:
    description:
      - The folder of the model, or the name of its repository where it was downloaded before.
      - Where neither this nor O(config) is set, C(model_path) in O(args) is taken.
    type: str
  config:
    description: What stands in the model's C(config.json), for a plan without its files.
    type: dict
  draft_config:
    description:
      - What stands in the C(config.json) of the draft model.
      - Where it is not set, the folder that C(speculative_draft_model_path) in O(args) names is read.
    type: dict
  args:
    description:
      - Launch arguments, by SGLang's option names with underscores or dashes. V(null) and V(false) are the same
        as leaving one out.
    type: dict
    default: {}
  sglang_version:
    description: The version of SGLang that will run.
    type: str
    required: true
  gpus:
    description:
      - The GPUs of the host, as RV(llmhost.sglang.gpu_info#module:gpus). What is free now counts, not the size of
        the card.
      - All of the host, even where the server uses only some; SGLang looks at the smallest of all.
    type: list
    elements: dict
    default: []
  gpu_total_mib:
    description: Memory of one GPU in MiB, for a plan without GPUs at hand. They count as idle.
    type: int
  gpu_count:
    description: How many GPUs of O(gpu_total_mib) there are.
    type: int
    default: 1
  gpu_name:
    description: Model name of the GPUs of O(gpu_total_mib). Some models lose more memory to the driver than others.
    type: str
  reclaimable:
    description:
      - Memory that is in use now and will be free before the start, for instance what M(llmhost.sglang.gpu_clean)
        would stop.
    type: list
    elements: dict
    default: []
    suboptions:
      gpu:
        description: Index or UUID of the GPU.
        type: str
        required: true
      memory_mib:
        description: How much will be free.
        type: int
        required: true
      pid:
        description: The process that holds it. For people only.
        type: int
  clean_targets:
    description:
      - Processes that will be stopped before the start, RV(llmhost.sglang.gpu_clean#module:targets) in check mode. The
        memory that they hold counts as free, beside O(reclaimable).
    type: list
    elements: dict
    default: []
  wanted_context:
    description:
      - Tokens that one request must be able to use. By default C(context_length) in O(args), or the model's own.
    type: int
  wanted_requests:
    description: Requests that must be able to run at once.
    type: int
  calibration:
    description: Numbers of an earlier start on this host. They replace the constants that were measured elsewhere.
    type: dict
    suboptions:
      schema:
        description: The version of this structure.
        type: int
        required: true
      key:
        description: What was started, with C(host), C(model), C(sglang_version) and C(layout).
        type: dict
        default: {}
      measured_at:
        description: When.
        type: str
      numbers:
        description: What SGLang logged, in GiB by name.
        type: dict
        required: true
      observed:
        description: The capacity that it had, with C(max_total_num_tokens) and C(max_running_requests).
        type: dict
        default: {}
  state_dir:
    description:
      - The folder of this collection's state on the target. What an earlier start of this host, model, version and
        layout taught is read from it, as M(llmhost.sglang.server_wait) has stored it.
      - O(calibration) wins.
    type: path
  candidates:
    description:
      - Remedies that somebody else proposes, such as RV(llmhost.sglang.server_wait#module:remedies) of a start that
        failed. They come back in RV(candidates), each with its own plan.
    type: list
    elements: dict
    default: []
  device:
    description:
      - What the server will run on. By default C(device) in O(args), else V(cuda), or V(rocm) for AMD's Instinct cards.
      - For V(cpu), V(xpu) and V(hpu) the verdict is V(unknown).
    type: str
    choices: [cuda, rocm, npu, cpu, xpu, hpu]
  cache_path:
    description:
      - Where downloaded models are, for a O(model_path) that names a repository. By default as E(HF_HUB_CACHE) or
        E(HF_HOME) say.
    type: path
  picture:
    description: Whether to return the budget as a picture too.
    type: bool
    default: false
seealso:
  - module: llmhost.sglang.gpu_info
  - module: llmhost.sglang.launch_args_info
  - module: llmhost.sglang.server_wait
"""

EXAMPLES = r"""
- name: See whether a model of 0.6 billion parameters fits on a card of 24 GB
  llmhost.sglang.memory_plan_info:
    sglang_version: 0.5.23
    gpu_total_mib: 24564
    gpu_name: NVIDIA GeForce RTX 4090
    args:
      context_length: 32768
    config:
      architectures: [Qwen3ForCausalLM]
      num_hidden_layers: 28
      hidden_size: 1024
      num_attention_heads: 16
      num_key_value_heads: 8
      head_dim: 128
      intermediate_size: 3072
      vocab_size: 151936
      tie_word_embeddings: true
      max_position_embeddings: 40960
      torch_dtype: bfloat16
  register: plan

- name: Stop here when it does not
  ansible.builtin.assert:
    that:
      - plan.verdict in ['ok', 'tight']
      - plan.useful

- name: See the GPUs of this host
  llmhost.sglang.gpu_info:
  register: seen

- name: Plan a model on this host, with the memory that is free now
  llmhost.sglang.memory_plan_info:
    model_path: /opt/models/Qwen3.6-27B
    sglang_version: 0.5.9
    gpus: "{{ seen.gpus }}"
    wanted_context: 65536
    args:
      tp_size: 2
      mem_fraction_static: 0.85
      context_length: 65536
      speculative_algorithm: NEXTN
      speculative_num_steps: 3
      speculative_eagle_topk: 1
      speculative_num_draft_tokens: 4
"""

RETURN = r"""
verdict:
  description:
    - V(ok) where it starts, V(tight) where it may fail within the uncertainty of the numbers, V(fail) where it will
      not start,
      V(unknown) where the arithmetic does not cover it.
  returned: success
  type: str
summary:
  description: The plan in a few sentences, with what is proven to help.
  returned: success
  type: str
stage:
  description:
    - Where a start would stop. V(args), V(imbalance), V(weights), V(state), V(kv), V(slots), V(late) or V(host);
      V(null) where it would not.
  returned: success
  type: str
message_expected:
  description: What SGLang would print there, the beginning of it; V(null) where it would not stop.
  returned: success
  type: str
unknown:
  description: Why the verdict is V(unknown).
  returned: success
  type: list
  elements: str
sglang_version:
  description: The version whose rules were used.
  returned: success
  type: str
fraction_given:
  description: C(mem_fraction_static) as given.
  returned: success
  type: float
fraction_automatic:
  description: The one that SGLang picks; V(null) where one was given.
  returned: success
  type: float
fraction_effective:
  description: What SGLang makes of it.
  returned: success
  type: float
fraction_window:
  description: The lowest and the highest fraction that work with these arguments; V(null) where none does.
  returned: success
  type: list
  elements: float
fraction_lowest:
  description: The lowest that holds RV(wanted_context).
  returned: success
  type: float
fraction_highest:
  description: The highest that leaves room for what comes after the pools.
  returned: success
  type: float
max_total_num_tokens:
  description: Tokens of context for all requests together; V(null) where it does not start.
  returned: success
  type: int
max_running_requests:
  description: Requests that can run at once; V(null) where it does not start.
  returned: success
  type: int
useful:
  description: Whether RV(wanted_context) fits. A server with less starts too.
  returned: success
  type: bool
wanted_context:
  description: Tokens that one request must be able to use.
  returned: success
  type: int
wanted_requests:
  description: As O(wanted_requests).
  returned: success
  type: int
hidden_defaults:
  description: What nobody set and SGLang sets, as far as it costs memory.
  returned: success
  type: list
  elements: dict
  contains:
    option:
      description: The option.
      type: str
    value:
      description: What SGLang sets it to.
      type: raw
    why:
      description: When it does that.
      type: str
budget:
  description: Where the memory of each used GPU goes.
  returned: success
  type: list
  elements: dict
  contains:
    gpu:
      description: Its index.
      type: int
    name:
      description: Its model.
      type: str
    total_gib:
      description: All of its memory.
      type: float
    missing_gib:
      description: What does not fit.
      type: float
    entries:
      description: The items, which sum up to the total. A negative V(unassigned) is what is missing.
      type: list
      elements: dict
      contains:
        item:
          description: A word for programs.
          type: str
        text:
          description: Words for people.
          type: str
        gib:
          description: Its size.
          type: float
table:
  description: The budget as lines of text.
  returned: success
  type: list
  elements: str
picture:
  description: The budget as an SVG picture.
  returned: with O(picture=true)
  type: str
sizes:
  description: Sizes that the plan was computed from, of the fullest rank; V(null) where it did not get that far.
  returned: success
  type: dict
  contains:
    before_load_gib:
      description: Free memory before loading.
      type: float
    weights_gib:
      description: What loading the model takes.
      type: float
    draft_weights_gib:
      description: What loading the draft model takes before the pools.
      type: float
    weights_from:
      description: V(headers), V(config) or V(calibration).
      type: str
    weights_by_item_gib:
      description: The weights by part of the model.
      type: dict
    after_load_gib:
      description: Free memory after loading.
      type: float
    slack_gib:
      description: What the fraction keeps free for everything after the pools.
      type: float
    static_gib:
      description: What is left for all pools.
      type: float
    kv_budget_gib:
      description: What is left for keys and values.
      type: float
    kv_bytes_per_token:
      description: Keys and values of one token, in bytes.
      type: float
    window_bytes_per_token:
      description: The same for window layers.
      type: float
    draft_bytes_per_token:
      description: The same for the draft model.
      type: float
    window_tokens:
      description: Tokens of the window pool.
      type: int
    state_slots:
      description: Slots for recurrent states.
      type: int
    state_slots_per_request:
      description: Slots that one running request needs.
      type: int
    state_bytes_per_slot:
      description: One slot, in bytes.
      type: int
late_need:
  description: What has to fit after the pools; V(null) where it did not get that far.
  returned: success
  type: dict
  contains:
    expected_gib:
      description: The expected size.
      type: float
    least_gib:
      description: Without this no start succeeds.
      type: float
    most_gib:
      description: With this every start succeeds.
      type: float
    slack_gib:
      description: What there is.
      type: float
remedies:
  description: Changes that help, the one that costs least first. Each was planned again.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: A word for programs.
      type: str
    text:
      description: Words for people.
      type: str
    arguments:
      description: Changed launch arguments; V(null) takes one away.
      type: dict
    host_action:
      description: What to do on the host, where it is not an argument.
      type: str
    proven_by:
      description:
        - The plan with this change, with C(verdict), C(max_total_num_tokens), C(max_running_requests),
          C(fraction_window) and C(useful).
      type: dict
    safe:
      description: Whether it may be applied unattended.
      type: bool
    docs:
      description: Where to read more.
      type: str
candidates:
  description: O(candidates), each with its own plan in C(proven_by), or V(null) there where it cannot be planned.
  returned: success
  type: list
  elements: dict
calibration:
  description: How a start of this plan is remembered. See O(llmhost.sglang.server_wait#module:plan).
  returned: success
  type: dict
  contains:
    key:
      description: Host, model, version and layout; V(null) where there is nothing to calibrate.
      type: dict
    measured_at:
      description: When the numbers that were used were measured; V(null) where there were none.
      type: str
    free_before_gib:
      description: What the driver reports as free on the fullest used GPU; V(null) where it is not known.
      type: float
confidence:
  description:
    - V(high) with numbers of an earlier start on this host, V(medium) with weights and free memory as they are,
      else V(low).
  returned: success
  type: str
empirical:
  description: Constants in this plan that were measured elsewhere.
  returned: success
  type: list
  elements: dict
  contains:
    item:
      description: What.
      type: str
    gib:
      description: The value taken; V(null) where there are several.
      type: float
    spread_gib:
      description: How far nine in ten measurements are from it.
      type: float
    spread_percent:
      description: The same in percent.
      type: int
notes:
  description: What else is to be known about this plan.
  returned: success
  type: list
  elements: str
reason:
  description:
    - Why the module failed. V(model_config_missing), V(model_config_invalid), V(weights_unreadable),
      V(gpus_missing), V(gpus_invalid),
      V(version_unknown), V(arguments_invalid) or V(calibration_invalid).
  returned: failure
  type: str
path:
  description: The file or folder that is at fault.
  returned: failure, where there is one
  type: str
missing:
  description: Files that the checkpoint names and that are not there.
  returned: failure with reason V(weights_unreadable), where files are missing
  type: list
  elements: str
option:
  description: The launch argument that is at fault.
  returned: failure with reason V(arguments_invalid)
  type: str
needed:
  description: How many GPUs the arguments need.
  returned: failure with reason V(gpus_missing), where there are too few
  type: int
given:
  description: How many GPUs there are.
  returned: failure with reason V(gpus_missing), where there are too few
  type: int
"""

import os
import platform
from dataclasses import replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import LlmHostError
from ..module_utils._memory import budget, calibration, inputs, remedies, svg, words
from ..module_utils._memory.problem import Problem


def calibrated(problem: Problem, params: dict[str, Any]) -> tuple[Problem, dict[str, str] | None, list[str]]:
    """The problem with what an earlier start taught, by which key that is found, and what is to be said about it."""
    model = params["model_path"] or params["args"].get("model_path")
    key = problem.calibration_key(platform.node(), str(model)) if model else None
    if key is None or problem.calibration is not None or not params["state_dir"]:
        return problem, key, []
    try:
        return replace(problem, calibration=calibration.load(params["state_dir"], key)), key, []
    except LlmHostError as error:
        return problem, key, [error.message]


def look(params: dict[str, Any]) -> dict[str, Any]:
    """The plan, its remedies and its pictures."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as text:
            host_available_gib = inputs.host_available_gib(text.read())
    except OSError:
        host_available_gib = None
    problem, key, notes = calibrated(inputs.problem(params, os.environ, host_available_gib), params)
    answer, found = remedies.plan(problem)
    result = answer.as_dict()
    result["notes"] += notes
    result["summary"] = words.summary(answer, found)
    result["remedies"] = [remedy.as_dict() for remedy in found]
    result["candidates"] = [remedy.as_dict() for remedy in remedies.prove(problem, params["candidates"])]
    result["calibration"] = {
        "key": key,
        "measured_at": problem.calibration.measured_at if problem.calibration else None,
        "free_before_gib": answer.free_before_gib,
    }
    result["table"] = budget.table(result["budget"])
    if params["picture"]:
        name = params["model_path"] or params["args"].get("model_path") or "model"
        result["picture"] = svg.draw(result["budget"], f"{name} on SGLang {answer.version}: {answer.verdict}")
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "model_path": {"type": "str"},
            "config": {"type": "dict"},
            "draft_config": {"type": "dict"},
            "args": {"type": "dict", "default": {}},
            "sglang_version": {"type": "str", "required": True},
            "gpus": {"type": "list", "elements": "dict", "default": []},
            "gpu_total_mib": {"type": "int"},
            "gpu_count": {"type": "int", "default": 1},
            "gpu_name": {"type": "str"},
            "reclaimable": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "gpu": {"type": "str", "required": True},
                    "memory_mib": {"type": "int", "required": True},
                    "pid": {"type": "int"},
                },
            },
            "clean_targets": {"type": "list", "elements": "dict", "default": []},
            "wanted_context": {"type": "int"},
            "wanted_requests": {"type": "int"},
            "calibration": {
                "type": "dict",
                "options": {
                    "schema": {"type": "int", "required": True},
                    "key": {"type": "dict", "default": {}, "no_log": False},
                    "measured_at": {"type": "str"},
                    "numbers": {"type": "dict", "required": True},
                    "observed": {"type": "dict", "default": {}},
                },
            },
            "state_dir": {"type": "path"},
            "candidates": {"type": "list", "elements": "dict", "default": []},
            "device": {"type": "str", "choices": ["cuda", "rocm", "npu", "cpu", "xpu", "hpu"]},
            "cache_path": {"type": "path"},
            "picture": {"type": "bool", "default": False},
        },
        mutually_exclusive=[("model_path", "config"), ("gpus", "gpu_total_mib")],
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, **look(module.params))
    except LlmHostError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
