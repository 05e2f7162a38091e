#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_snapshot
short_description: Weights at a pinned revision, resumable, verified, with room checked first
version_added: 0.1.0
description:
  - Brings a model to a folder of the target, from a repository of a Hugging Face hub, from addresses, or from
    another folder.
  - A branch is resolved to a commit, which is recorded in C(.llmhost-snapshot.json) in the folder. From then on that
    commit is the model,
    whatever happens to the branch, until O(update=true).
  - Files come to a folder beside their places (on the same file system), go on where a cut ended them, and are held
    against what the
    source publishes. Only when all are there are they put in place, and the record is written last. So a run that
      was cut at any
    moment leaves nothing that is called present, and the next run goes on.
  - A server that runs from the folder keeps its open files; it must not be restarted while files are put in place.
  - One run at a time works on a folder, also where hosts share it; the others wait, and then find it done.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
    details:
      - Asks the source for its files, and tells how much would move in RV(to_move_gib). Where O(venv) is not there yet,
        nobody can be asked, and it is V(none).
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - With O(update=true) and a branch that has moved in between, the second run follows it.
  platform:
    support: full
    platforms: linux
  async:
    description: Supports being used with the C(async) keyword.
    support: full
    details:
      - With C(async) the module works in the background and shows no progress.
options:
  path:
    description:
      - Folder of the model. It is made.
      - On a shared file system the lock beside it (C(.NAME.llmhost-lock)) keeps hosts apart, if that file system has
        C(flock).
    type: path
    required: true
  state:
    description:
      - V(present) makes sure that all files are there. What was recorded is taken as it was found when its size and
        time of change are the
        same; what was touched is read again.
      - V(verified) looks, fetches nothing, needs no network and no source. It fails where something is wrong, each
        fault with its reason. A
        folder without a record is judged by its own index, headers and sizes.
      - V(absent) removes what was fetched, and nothing else.
    type: str
    choices: [present, verified, absent]
    default: present
  repo_id:
    description: Repository on the hub, as C(owner/name).
    type: str
  revision:
    description: Branch, tag or commit.
    type: str
    default: main
  update:
    description: Whether a branch is asked again where its model is already there.
    type: bool
    default: false
  endpoint:
    description:
      - Address of the hub or of a mirror of it. Without it C(HF_ENDPOINT) of the task's environment, then
        C(https://huggingface.co).
      - A mirror of the same repository is the same source.
    type: str
  urls:
    description: Files by their addresses, instead of a repository. They are fetched with the target's own Python.
    type: list
    elements: dict
    default: []
    suboptions:
      url:
        description: An C(http) or C(https) address without credentials.
        type: str
        required: true
      filename:
        description: Name in O(path). By default the last part of the address.
        type: str
      size:
        description: Bytes that it has.
        type: int
      sha256:
        description: What its bytes must be.
        type: str
  source_path:
    description: A folder of the target (a mounted share, a hub's cache) that is copied, instead of a repository.
    type: path
  venv:
    description: Environment whose C(huggingface_hub) does the work for O(repo_id), usually the runtime.
    type: path
    default: /opt/llmhost/runtime
  token:
    description:
      - Token for the hub. Without it O(token_file), then C(HF_TOKEN) of the task's environment.
      - It reaches the program that downloads by its standard input, and no command line.
    type: str
  token_file:
    description: File on the target that holds the token.
    type: path
  allow_patterns:
    description: Names to take, with C(*). All without it. Such a part need not be a whole model.
    type: list
    elements: str
    default: []
  ignore_patterns:
    description: Names to leave out.
    type: list
    elements: str
    default: []
  verify:
    description:
      - With V(size), a file whose size and time of change are as recorded is taken for what it was.
      - With V(hash), every byte is read and held against the recorded hash; expect minutes for a large model.
    type: str
    choices: [size, hash]
    default: size
  reader:
    description: User that must be able to read every file, usually that of the server. The check waits until the
      user exists.
    type: str
  workers:
    description: How many files come at the same time.
    type: int
    default: 4
  stall_s:
    description: How long no byte may come before the connection is given up and begun anew.
    type: float
    default: 120
  timeout_s:
    description: How long the transfer may take as a whole. V(0) for no end.
    type: float
    default: 0
  progress:
    description: Whether the play shows how far a transfer came, at first every twenty seconds, later every two minutes.
    type: bool
    default: true
  slice_s:
    description:
      - Between this module and its action plugin, which sets it; of no use in a playbook.
      - After so many seconds in which something came, the module ends and tells how far it is. The next call goes on.
    type: float
    default: 0
  retries:
    description: How often in a row, without progress in between, a fault that passes is tried again.
    type: int
    default: 5
  retry_delay_s:
    description: Wait before the first of these. It doubles, up to a minute, and what the server asks for
      (C(Retry-After)) goes first.
    type: float
    default: 5
  reserve_gib:
    description: GiB that must stay free on the file system.
    type: float
    default: 1
  lock_timeout_s:
    description: How long to wait for another run that works on the folder.
    type: float
    default: 7200
notes:
  - The transfer is plain HTTP with ranges, so that it can go on after a cut. Set C(HF_HUB_DISABLE_XET=0) in the
    task's environment to let
    the client use its chunk storage instead, where it has that.
  - C(HTTPS_PROXY), C(NO_PROXY), C(SSL_CERT_FILE) and C(REQUESTS_CA_BUNDLE) of the task's environment are used.
  - To show progress, a transfer is cut into calls of twenty seconds to two minutes, each of which goes on where the
    last one ended. With C(async) or O(progress=false) it is one call, and nothing is shown.
seealso:
  - module: llmhost.sglang.memory_plan_info
author:
  - llmhost.sglang contributors (@llmhost)
"""

EXAMPLES = r"""
- name: A model from the hub, pinned to what its branch is today
  llmhost.sglang.model_snapshot:
    path: /srv/models/qwen3-8b
    repo_id: Qwen/Qwen3-8B
    reader: sglang

- name: A gated model at a commit, by a mirror
  llmhost.sglang.model_snapshot:
    path: /srv/models/private
    repo_id: owner/private
    revision: 0123456789abcdef0123456789abcdef01234567
    endpoint: https://hub.example.com
    token_file: /etc/llmhost/hub-token

- name: How much would have to come
  llmhost.sglang.model_snapshot:
    path: /srv/models/qwen3-8b
    repo_id: Qwen/Qwen3-8B
  check_mode: true

- name: Is what lies there a whole model that the server may read
  llmhost.sglang.model_snapshot:
    path: /srv/models/qwen3-8b
    state: verified
    reader: sglang

- name: One file from an own server
  llmhost.sglang.model_snapshot:
    path: /srv/models/small
    urls:
      - url: https://files.example.com/small.gguf
        sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
"""

RETURN = r"""
folder:
  description: The folder.
  returned: success
  type: str
  sample: /srv/models/qwen3-8b
commit:
  description: The commit that the files are of. V(none) for addresses and folders without a record.
  returned: success, with O(state=present) and O(state=verified)
  type: str
  sample: 0123456789abcdef0123456789abcdef01234567
source:
  description: Where the files come from, as recorded. V(none) where nothing is recorded.
  returned: success, with O(state=present) and O(state=verified)
  type: dict
  sample: {kind: hub, repo_id: Qwen/Qwen3-8B, revision: main, endpoint: "https://huggingface.co"}
files:
  description: Number of files.
  returned: success
  type: int
  sample: 14
size_gib:
  description: Size of all files.
  returned: success, with O(state=present) and O(state=verified)
  type: float
  sample: 15.267
to_move_gib:
  description: Size of the files that have to come, or had to.
  returned: success, with O(state=present)
  type: float
  sample: 15.267
fetched:
  description: The first 20 files that came, or would.
  returned: success, with O(state=present)
  type: list
  elements: str
  sample: [config.json]
fetched_files:
  description: Their number.
  returned: success, with O(state=present)
  type: int
  sample: 14
moved_gib:
  description: What was really transferred by this run; what an earlier one had brought is not in it.
  returned: success, with O(state=present)
  type: float
  sample: 3.1
moved_bytes:
  description: The same in bytes.
  returned: success, with O(state=present)
  type: int
  sample: 3328599654
repaired:
  description: Files that were there and not as they should be, each with C(file), C(reason) and C(message).
  returned: success, with O(state=present)
  type: list
  elements: dict
  sample: []
removed:
  description: Files of an earlier revision that were removed.
  returned: success, with O(state=present)
  type: list
  elements: str
  sample: []
retried:
  description: Reasons for which something was tried again.
  returned: success, with O(state=present)
  type: list
  elements: str
  sample: [interrupted]
verified:
  description: How files that did not come in this run were looked at, V(size) or V(hash).
  returned: success, with O(state=present) and O(state=verified)
  type: str
  sample: size
recorded:
  description: Whether the folder has a record.
  returned: success, with O(state=present) and O(state=verified)
  type: bool
  sample: true
removed_gib:
  description: What was freed.
  returned: success, with O(state=absent)
  type: float
  sample: 15.267
left:
  description: Files in the folder that are not of this module and stay.
  returned: success, with O(state=absent)
  type: list
  elements: str
  sample: []
unfinished:
  description: That the transfer goes on with the next call.
  returned: with O(slice_s), where its time was over
  type: bool
  sample: true
came_bytes:
  description: Bytes that have come so far, by this and earlier calls.
  returned: with O(slice_s), where its time was over
  type: int
  sample: 3328599654
all_bytes:
  description: Bytes that have to come.
  returned: with O(slice_s), where its time was over
  type: int
  sample: 16393008742
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 412.7
reason:
  description:
    - Why it failed.
    - Of the parameters, V(bad_path), V(no_source), V(repo_id_invalid), V(bad_url), V(bad_file_name), V(token_file),
      V(source_missing).
    - Of the source, V(repo_not_found), V(revision_not_found), V(file_not_found), V(no_files), V(unauthorized),
      V(forbidden), V(gated),
      V(repo_disabled), V(rate_limited), V(hub_unavailable), V(hub_unreachable), V(certificate), V(not_a_hub),
        V(source_unreadable).
    - Of the transfer, V(client_missing), V(client_failed), V(interrupted), V(stalled), V(timeout), V(hash_mismatch).
    - Of the target, V(no_room), V(no_space), V(write_failed), V(permission_denied), V(locked).
    - Of what is there, V(not_present), V(incomplete), V(wrong_snapshot), V(no_hashes), V(unreadable),
      V(missing_file), V(missing_shard),
      V(lfs_pointer), V(zero_bytes), V(truncated), V(size_mismatch), V(hash_mismatch), V(header_corrupt),
        V(index_invalid),
      V(index_mismatch), V(config_missing), V(config_invalid), V(no_weights), V(not_ours).
  returned: failure
  type: str
  sample: gated
problems:
  description: What is wrong with which file, the first 20, each with C(file), C(reason) and C(message).
  returned: failure, where files are wrong
  type: list
  elements: dict
  sample: [{file: model-00002-of-00004.safetensors, reason: missing_shard, message: is named by the index and is not
    there}]
status:
  description: HTTP status.
  returned: failure of the source, where there was one
  type: int
  sample: 403
file:
  description: The file that it is about.
  returned: failure, where it is about one
  type: str
  sample: model-00002-of-00004.safetensors
user:
  description: The O(reader).
  returned: failure, with reason V(permission_denied)
  type: str
  sample: sglang
retryable:
  description: Whether the fault may pass by itself.
  returned: failure of the source or the transfer
  type: bool
  sample: false
needed_gib:
  description: GiB that have to come.
  returned: failure, with reason V(no_room), V(no_space) or V(write_failed)
  type: float
  sample: 15.267
free_gib:
  description: GiB that are free.
  returned: failure, with reason V(no_room)
  type: float
  sample: 3.2
mount:
  description: The folder whose file system was looked at.
  returned: failure, with reason V(no_room)
  type: str
  sample: /srv/models
holder:
  description: Who works on the folder, with C(pid) and C(host).
  returned: failure, with reason V(locked)
  type: dict
  sample: {pid: 812, host: gpu-host-1}
found:
  description: What is recorded there instead.
  returned: failure, with reason V(wrong_snapshot)
  type: dict
  sample: {commit: 0123456789abcdef0123456789abcdef01234567}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._snapshot import snapshot, wish

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "verified", "absent"], "default": "present"},
    "repo_id": {"type": "str"},
    "revision": {"type": "str", "default": "main"},
    "update": {"type": "bool", "default": False},
    "endpoint": {"type": "str"},
    "urls": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "url": {"type": "str", "required": True},
            "filename": {"type": "str"},
            "size": {"type": "int"},
            "sha256": {"type": "str"},
        },
    },
    "source_path": {"type": "path"},
    "venv": {"type": "path", "default": "/opt/llmhost/runtime"},
    "token": {"type": "str", "no_log": True},
    "token_file": {"type": "path", "no_log": False},
    "allow_patterns": {"type": "list", "elements": "str", "default": []},
    "ignore_patterns": {"type": "list", "elements": "str", "default": []},
    "verify": {"type": "str", "choices": ["size", "hash"], "default": "size"},
    "reader": {"type": "str"},
    "workers": {"type": "int", "default": 4},
    "stall_s": {"type": "float", "default": 120},
    "progress": {"type": "bool", "default": True},
    "slice_s": {"type": "float", "default": 0},
    "timeout_s": {"type": "float", "default": 0},
    "retries": {"type": "int", "default": 5},
    "retry_delay_s": {"type": "float", "default": 5},
    "reserve_gib": {"type": "float", "default": 1},
    "lock_timeout_s": {"type": "float", "default": 7200},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("repo_id", "source_path"), ("token", "token_file")],
        supports_check_mode=True,
    )
    try:
        asked = wish.read(module.params, os.environ, module.check_mode)
        if asked.way.token:
            module.no_log_values.add(asked.way.token)
        result = snapshot.run(asked)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
