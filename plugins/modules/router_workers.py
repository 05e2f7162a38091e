#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_workers
short_description: Which servers SGLang's router sends requests to
version_added: 0.1.0
description:
  - Registers servers with a running router of SGLang, or removes them, and waits until the router says that it is so.
  - A server that is removed gets no new request. Those in flight go on, so remove it, then restart it with
    M(llmhost.sglang.server), which drains, then register it again.
  - A server has to answer before it can be registered. Wait for it with M(llmhost.sglang.server_wait).
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A changed O(worker_api_key) of a server that is registered is not seen, because the router never shows it.
        Remove the server first.
  platform:
    support: full
    platforms: posix
options:
  url:
    description: The router, as C(http://HOST:PORT).
    type: str
    required: true
  api_key:
    description: The key that the router wants.
    type: str
  workers:
    description: The servers as the router reaches them, each as C(http://HOST:PORT).
    type: list
    elements: str
    required: true
  worker_api_key:
    description: The key that these servers want from the router. It is given when a server is registered.
    type: str
  state:
    description:
      - V(present), these are registered and healthy, whoever else is. V(absent), these are not. V(exact), these are and
        no others.
    type: str
    choices: [present, absent, exact]
    default: present
  timeout_s:
    description: How long the router may take until it says so, in seconds.
    type: float
    default: 60
  validate_certs:
    description: Whether a router with C(https) must have a certificate that is trusted.
    type: bool
    default: true
  ca_path:
    description: A file with certificates that are trusted.
    type: path
seealso:
  - module: llmhost.sglang.server
  - module: llmhost.sglang.server_wait
author:
  - llmhost.sglang contributors (@llmhost)
"""

EXAMPLES = r"""
- name: Take a server out before its restart
  llmhost.sglang.router_workers:
    url: http://127.0.0.1:30000
    workers: ["http://192.0.2.11:30001"]
    state: absent
  delegate_to: router

- name: Put it back, once it answers
  llmhost.sglang.router_workers:
    url: http://127.0.0.1:30000
    workers: ["http://192.0.2.11:30001"]
  delegate_to: router
"""

RETURN = r"""
workers:
  description: The workers that the router knows, with C(id), C(url), C(healthy) and C(model). In check mode those of
    before.
  returned: success, and when the time was over
  type: list
  elements: dict
  sample:
    - {id: 7db0cd5f-0f19-4884-b3b5-433b4f3d8dce, url: "http://192.0.2.11:30001", healthy: true, model: chat}
added:
  description: URLs that were registered.
  returned: success, and when the time was over
  type: list
  elements: str
removed:
  description: URLs that were removed.
  returned: success, and when the time was over
  type: list
  elements: str
status:
  description: What the router answered, where it refused something.
  returned: failure, with RV(reason=router_failed) or RV(reason=unauthorized)
  type: int
  sample: 401
stage:
  description: How far a request came, where the connection failed.
  returned: failure, with a reason of the connection
  type: str
  sample: connect
reason:
  description:
    - Why the module failed. V(invalid_argument), V(unauthorized), V(router_failed), V(worker_not_ready) (it was not
      registered or not healthy in time), V(worker_not_removed), V(bad_answer), or that of the connection,
      V(connection_refused), V(connection_lost), V(connection_failed), V(unknown_host), V(bad_certificate), V(timeout).
  returned: failure
  type: str
  sample: worker_not_ready
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server import router
from ansible_collections.llmhost.sglang.plugins.module_utils._server.http import Client


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "api_key": {"type": "str", "no_log": True},
            "workers": {"type": "list", "elements": "str", "required": True},
            "worker_api_key": {"type": "str", "no_log": True},
            "state": {"type": "str", "choices": ["present", "absent", "exact"], "default": "present"},
            "timeout_s": {"type": "float", "default": 60},
            "validate_certs": {"type": "bool", "default": True},
            "ca_path": {"type": "path"},
        },
        supports_check_mode=True,
    )
    given = module.params
    wish = router.Wish(tuple(router.plain(url) for url in given["workers"]), given["state"], given["worker_api_key"])
    client = Client(given["url"], given["api_key"], given["validate_certs"], given["ca_path"])
    try:
        client.check()
        for url in wish.urls:
            Client(url).check()
        result = router.bring(client, wish, given["timeout_s"], module.check_mode)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    before, after = result.pop("before"), result.pop("after")
    lists = {"before": "".join(url + "\n" for url in before), "after": "".join(url + "\n" for url in after)}
    module.exit_json(diff={**lists, "before_header": "workers", "after_header": "workers"}, **result)


if __name__ == "__main__":
    main()
