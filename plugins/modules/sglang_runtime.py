#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_runtime
short_description: SGLang in environments of its own, side by side, proven before one is used
version_added: 0.1.0
description:
  - Builds SGLang in a virtual environment below O(root) that is named by its version and what it was built from, beside
    those that are there, proves it, and then turns O(link) to it.
  - Before a byte is downloaded it looks at the Python, the C library, the driver and the GPUs, the disk, and where the
    packages come from. Each fault is told with its remedy.
  - An environment counts as finished when its marker is there, which is written last. What an interrupted build left is
    begun again. One build at a time works on a host.
  - Older environments stay, so that going back is one switch; those beyond O(keep) go, unless something uses them.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
    details:
      - Looks at everything that it would look at, and builds nothing. What a build would free is not foreseen.
  diff_mode:
    support: full
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
options:
  state:
    description:
      - V(checked) looks whether the runtime is there and, where it is not, whether it can be built. It changes nothing.
      - V(present) builds it beside the others.
      - V(current) also turns the link to it.
    type: str
    choices: [checked, present, current]
    default: current
  version:
    description: Version of SGLang. What was installed is held against it.
    type: str
    required: true
  runtime:
    description:
      - Name of a finished runtime, to turn the link to, or V(previous) for the one that was in use before. Nothing is
        built then.
    type: str
  broken:
    description:
      - Says that the runtime which is left did not come to an answer. V(previous) does not mean it again until it was
        switched to anew.
    type: bool
    default: false
  requirements:
    description: What is installed where no lock is required. By default C(sglang==VERSION).
    type: list
    elements: str
    default: []
  lock:
    description:
      - With V(require), exactly what O(lock_file) names is installed, without dependencies, and what came is held
        against it. Without O(lock_file) it means nothing.
      - With V(record), O(requirements) are installed, and O(lock_file) is written after the proof. It has hashes where
        the installer tells all of them. Those of pip are of the files that it installed, so that such a lock fits hosts
        with the same Python and architecture; those of uv are of every file that the source has.
    type: str
    choices: [require, record]
    default: require
  lock_file:
    description: A requirements file on the target that names every package with its version (and hash, where it has
      them).
    type: str
    default: ""
  wheelhouse:
    description: A folder of wheels on the target, used instead of any index.
    type: str
    default: ""
  index_url:
    description: Package index to use instead of the configuration of pip and uv.
    type: str
    default: ""
  proxy:
    description: Proxy for C(http) and C(https), instead of that in the task's environment.
    type: str
    default: ""
  extra_args:
    description: More arguments for C(pip install) or C(uv pip install).
    type: list
    elements: str
    default: []
  installer:
    description: V(auto) takes uv where it is there and pip elsewhere; V(uv) installs it below O(root) where it is
      missing.
    type: str
    choices: [auto, uv, pip]
    default: auto
  python:
    description:
      - Interpreter to build with. V(auto) takes the first of the target that is new enough and fits the wheels, the
        distribution's own before others, then what uv has.
    type: str
    default: auto
  root:
    description: Folder of all runtimes. Packages are downloaded below it, too.
    type: path
    default: /opt/llmhost/runtimes
  link:
    description: Link to the runtime in use.
    type: path
    default: /opt/llmhost/runtime
  imports:
    description: Modules that must import before a runtime counts as finished.
    type: list
    elements: str
    default: [sglang, torch]
  gpus:
    description:
      - V(auto) looks at the driver where there is a sign of an NVIDIA GPU, V(required) fails without one, V(none) does
        not look.
    type: str
    choices: [auto, required, none]
    default: auto
  toolchain:
    description: Whether the tools for just-in-time compilation must be there (compiler, ninja, Python's headers, nvcc).
    type: bool
    default: false
  need_gib:
    description: GiB that a build takes. V(0) for an estimate, by the wheels of O(wheelhouse) or by the version.
    type: float
    default: 0
  reserve_gib:
    description: GiB that must stay free.
    type: float
    default: 1
  keep:
    description: How many finished runtimes stay beside the one in use.
    type: int
    default: 2
  spare:
    description: Names of runtimes that stay whatever their age.
    type: list
    elements: str
    default: []
  prune:
    description: Whether older runtimes, unfinished builds, downloads and stale caches go.
    type: bool
    default: true
  cache_folders:
    description:
      - Folders with a folder for each instance, below which caches of compiled kernels are. Those last written before
        any runtime that stays was built go when O(prune) is set.
    type: list
    elements: path
    default: []
  timeout_s:
    description: How long the installation may take.
    type: float
    default: 3600
  lock_timeout_s:
    description: How long to wait for another run that works on O(root).
    type: float
    default: 3600
notes:
  - C(PIP_*), C(UV_*) and proxy variables of the task's environment are used.
seealso:
  - module: llmhost.sglang.launch_args_info
  - module: llmhost.sglang.server
author:
  - llmhost.sglang contributors (@llmhost)
"""

EXAMPLES = r"""
- name: SGLang from the index
  llmhost.sglang.sglang_runtime:
    version: 0.5.23

- name: Build the next one beside it, without using it
  llmhost.sglang.sglang_runtime:
    version: 0.5.24
    state: present

- name: From a folder of wheels, exactly what the lock names
  llmhost.sglang.sglang_runtime:
    version: 0.5.23
    wheelhouse: /srv/wheelhouse
    lock_file: /srv/wheelhouse/lock.txt

- name: Back to what was in use before
  llmhost.sglang.sglang_runtime:
    version: 0.5.23
    runtime: previous
"""

RETURN = r"""
runtime:
  description: Name of the runtime.
  returned: success
  type: str
  sample: 0.5.23-1f9a3c2e
folder:
  description: Its folder.
  returned: success
  type: str
  sample: /opt/llmhost/runtimes/0.5.23-1f9a3c2e
version:
  description: Its version of SGLang.
  returned: success
  type: str
  sample: 0.5.23
ready:
  description: Whether it is finished.
  returned: success
  type: bool
  sample: true
built:
  description: Whether it was built, or would be.
  returned: success
  type: bool
  sample: false
switched:
  description: Whether the link was turned, or would be.
  returned: success
  type: bool
  sample: false
current:
  description: Name of the runtime that the link leads to. V(none) where there is none.
  returned: success
  type: str
  sample: 0.5.23-1f9a3c2e
current_before:
  description: The same before.
  returned: success
  type: str
  sample: 0.5.22-0c4d1b7a
previous:
  description: Name of the runtime that V(previous) would be. V(none) where there is none.
  returned: success
  type: str
  sample: 0.5.22-0c4d1b7a
runtimes:
  description: All finished runtimes, the last used first, each with C(name), C(folder), C(version), C(current),
    C(finished_at).
  returned: success
  type: list
  elements: dict
  sample: []
marker:
  description: What was recorded of the build, such as C(python), C(torch_cuda), C(packages), C(installer), C(seconds).
  returned: success
  type: dict
  sample: {sglang_version: 0.5.23, python: 3.12.3, torch_cuda: "13.0", packages: 207, installer: uv}
checks:
  description: What was looked at before a build, each with C(id), C(status), C(message) and C(remedy).
  returned: where the runtime is not there yet
  type: list
  elements: dict
  sample: [{id: glibc, status: ok, message: "glibc 2.36, and 2.34 is needed.", remedy: null}]
venv_missing:
  description: Whether the interpreter cannot make an environment until a package of the distribution is installed.
  returned: success
  type: bool
  sample: false
pruned:
  description:
    - What went, or would, each with C(path), C(kind) and C(bytes). Kinds are V(runtime), V(unfinished),
      V(download_cache) and V(jit_cache).
  returned: success
  type: list
  elements: dict
  sample: [{path: /opt/llmhost/runtimes/0.5.20-77aa0c21, kind: runtime, bytes: 9663676416}]
freed_gib:
  description: GiB that this frees.
  returned: success
  type: float
  sample: 9.0
in_use:
  description: Names of runtimes that would go, and stay because a process or a unit uses them.
  returned: success
  type: list
  elements: str
  sample: []
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 112.4
reason:
  description:
    - Why it failed.
    - Of the parameters, V(bad_version), V(bad_path), V(two_sources), V(no_lock_file), V(lock_missing), V(lock_invalid),
      V(no_previous), V(not_ready).
    - Of the host, V(preflight), V(link_is_no_link), V(write_failed), V(locked), V(in_use).
    - Of the build, V(environment_failed), V(install_failed), V(no_space), V(timeout), V(lock_not_written).
    - Of the proof, V(proof_failed), V(wrong_version), V(import_failed), V(lock_mismatch), V(kernel_mismatch),
      V(driver_too_old), V(no_devices).
  returned: failure
  type: str
  sample: preflight
failed_checks:
  description: The checks that failed, by their ids.
  returned: failure, with reason V(preflight)
  type: list
  elements: str
  sample: [driver]
problems:
  description: What the proof found, each with C(reason) and C(message).
  returned: failure of the proof
  type: list
  elements: dict
  sample: [{reason: import_failed, message: "torch does not import (ImportError: ...)"}]
known:
  description: The runtimes that are there.
  returned: failure, with reason V(no_previous) or V(not_ready)
  type: str
  sample: 0.5.23-1f9a3c2e
file:
  description: The file that it is about.
  returned: failure, with reason V(lock_missing) or V(lock_invalid)
  type: str
  sample: /srv/wheelhouse/lock.txt
path:
  description: The link.
  returned: failure, with reason V(link_is_no_link)
  type: str
  sample: /opt/llmhost/runtime
holder:
  description: Who works on the folder.
  returned: failure, with reason V(locked)
  type: str
  sample: '{"pid": 812, "version": "0.5.23"}'
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._runtime import runtime

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["checked", "present", "current"], "default": "current"},
    "version": {"type": "str", "required": True},
    "runtime": {"type": "str"},
    "broken": {"type": "bool", "default": False},
    "requirements": {"type": "list", "elements": "str", "default": []},
    "lock": {"type": "str", "choices": ["require", "record"], "default": "require"},
    "lock_file": {"type": "str", "default": ""},
    "wheelhouse": {"type": "str", "default": ""},
    "index_url": {"type": "str", "default": ""},
    "proxy": {"type": "str", "default": ""},
    "extra_args": {"type": "list", "elements": "str", "default": []},
    "installer": {"type": "str", "choices": ["auto", "uv", "pip"], "default": "auto"},
    "python": {"type": "str", "default": "auto"},
    "root": {"type": "path", "default": "/opt/llmhost/runtimes"},
    "link": {"type": "path", "default": "/opt/llmhost/runtime"},
    "imports": {"type": "list", "elements": "str", "default": ["sglang", "torch"]},
    "gpus": {"type": "str", "choices": ["auto", "required", "none"], "default": "auto"},
    "toolchain": {"type": "bool", "default": False},
    "need_gib": {"type": "float", "default": 0},
    "reserve_gib": {"type": "float", "default": 1},
    "keep": {"type": "int", "default": 2},
    "spare": {"type": "list", "elements": "str", "default": []},
    "prune": {"type": "bool", "default": True},
    "cache_folders": {"type": "list", "elements": "path", "default": []},
    "timeout_s": {"type": "float", "default": 3600},
    "lock_timeout_s": {"type": "float", "default": 3600},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = runtime.run(runtime.read(module.params, os.environ, module.check_mode))
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    for check in result["checks"]:
        if check["status"] == "unknown":
            module.warn(f"{check['id']}: {check['message']} {check['remedy'] or ''}".strip())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
