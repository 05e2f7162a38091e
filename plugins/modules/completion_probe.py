#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: completion_probe
short_description: One real answer from a server, checked and timed
version_added: 0.1.0
description:
  - Asks a server that speaks OpenAI's API for one answer, and fails unless it is a good one.
  - The answer comes from the model itself, so it proves more than a health check, and it may be asked for a text
    that only the right
    model with the right tokenizer gives.
  - It asks once and never again. Wait with M(llmhost.sglang.server_wait) until the server is ready.
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: none
    details:
      - Nothing is asked, because the server would not run yet. The task is skipped.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
    details:
      - This action does not modify state.
  platform:
    support: full
    platforms: linux
options:
  url:
    description: The server, as C(http://HOST:PORT). What follows is part of every path that is asked.
    type: str
    required: true
  kind:
    description:
      - What to ask for.
      - V(auto) asks for an embedding where the server says that its model makes no text, for a chat otherwise, and
        for a completion
        where the model has no chat template.
    type: str
    choices: [auto, chat, completion, embedding, rerank]
    default: auto
  model:
    description: The model, as the server calls it. Without it the first that it serves. Another one is a failure.
    type: str
  prompt:
    description: What to say to the model; with O(kind=rerank) the query.
    type: str
    default: Say hello.
  documents:
    description: With O(kind=rerank), what to rank.
    type: list
    elements: str
    default: []
  max_tokens:
    description: How long the answer may be.
    type: int
    default: 32
  parameters:
    description: More fields of the request, such as C(chat_template_kwargs). They win over those that the module
      sets.
    type: dict
    default: {}
  tools:
    description: Tools that the model may call, in the form of OpenAI's API.
    type: list
    elements: dict
    default: []
  expect_tool:
    description: Name of the function that the answer must call. The answer then needs no text.
    type: str
  expect_regex:
    description: A regular expression (Python's) that must be found in the text.
    type: str
  allow_replacement:
    description: Whether the text may hold U+FFFD. A model with random weights says such things, a good one does not.
    type: bool
    default: false
  instance:
    description:
      - The instance of M(llmhost.sglang.server) that must own the listening socket. Needs root on the host of the
        server.
      - A second SGLang on the port answers just as well, and so the wrong one may be tested.
    type: str
  timeout_s:
    description: How long all of it may take.
    type: float
    default: 60
  max_first_token_s:
    description: How long the first token may take.
    type: float
  max_total_s:
    description: How long the answer may take as a whole.
    type: float
  min_tokens_per_s:
    description: How many tokens a second must follow the first one.
    type: float
  api_key:
    description: The key that the server wants.
    type: str
  api_key_file:
    description: A file on the target that holds the key.
    type: path
  validate_certs:
    description: Whether a server with C(https) must have a certificate that is trusted.
    type: bool
    default: true
  ca_path:
    description: A file with certificates that are trusted.
    type: path
  server_name:
    description:
      - The name that the certificate must hold, where that is another than the host in the address. A server is asked
        on its own host by C(127.0.0.1), which no certificate of it may name.
    type: str
seealso:
  - module: llmhost.sglang.server_wait
  - module: llmhost.sglang.server_info
author:
  - llmhost.sglang contributors (@llmhost)
"""

EXAMPLES = r"""
- name: The server says something
  llmhost.sglang.completion_probe:
    url: http://127.0.0.1:30000

- name: The right server says the right thing, in time
  llmhost.sglang.completion_probe:
    url: http://127.0.0.1:30000
    instance: chat
    model: chat
    prompt: What is the capital of France? Answer with one word.
    expect_regex: (?i)paris
    max_first_token_s: 5

- name: The model calls a tool
  llmhost.sglang.completion_probe:
    url: http://127.0.0.1:30000
    prompt: What is the weather in Oslo?
    max_tokens: 256
    expect_tool: get_weather
    tools:
      - type: function
        function:
          name: get_weather
          parameters:
            type: object
            properties:
              city:
                type: string
"""

RETURN = r"""
text:
  description: What the model said. Empty for an embedding and a ranking.
  returned: success, and failure at stage V(content) or V(latency)
  type: str
  sample: Hello! How can I help you?
reasoning:
  description: What a reasoning model thought, where the server tells it apart.
  returned: as RV(text)
  type: str
  sample: null
tool_calls:
  description: The functions that the model called.
  returned: as RV(text)
  type: list
  elements: dict
  contains:
    name:
      description: Name of the function.
      type: str
    arguments:
      description: Its arguments as JSON.
      type: str
  sample: []
kind:
  description: What was asked for.
  returned: as RV(text)
  type: str
  sample: chat
model:
  description: The model that answered, in the server's words.
  returned: as RV(text)
  type: str
  sample: chat
url:
  description: The server that was asked.
  returned: as RV(text)
  type: str
  sample: http://127.0.0.1:30000
usage:
  description: Tokens as the server counts them.
  returned: as RV(text)
  type: dict
  sample: {prompt_tokens: 12, completion_tokens: 9, total_tokens: 21}
finish_reason:
  description: Why the model stopped.
  returned: as RV(text)
  type: str
  sample: stop
seconds:
  description: How long all of it took.
  returned: as RV(text)
  type: float
  sample: 0.412
first_token_s:
  description: How long the first token took. V(none) where no tokens were streamed.
  returned: as RV(text)
  type: float
  sample: 0.083
tokens_per_s:
  description: Tokens a second after the first. V(none) where they were too few to tell.
  returned: as RV(text)
  type: float
  sample: 61.3
dimensions:
  description: Length of the embedding.
  returned: as RV(text)
  type: int
  sample: null
scores:
  description: Scores of the documents.
  returned: as RV(text)
  type: list
  elements: float
  sample: null
stage:
  description: How far it came, one of V(connect), V(http), V(model), V(owner), V(content) and V(latency).
  returned: failure
  type: str
  sample: content
reason:
  description:
    - Why it failed.
    - At V(connect), V(invalid_argument), V(connection_refused), V(unknown_host), V(bad_certificate),
      V(connection_failed), V(timeout).
    - At V(http), V(unauthorized), V(http_error), V(bad_answer), V(connection_lost), V(timeout).
    - At V(model), V(no_model), V(model_not_served).
    - At V(owner), V(wrong_owner).
    - At V(content), V(empty_text), V(replacement_characters), V(no_match), V(no_tool_call), V(bad_tool_call),
      V(bad_vector).
    - At V(latency), V(slow_first_token), V(slow_answer), V(slow_tokens), V(unknown_speed).
  returned: failure
  type: str
  sample: no_match
status:
  description: The HTTP status.
  returned: failure, where there was one
  type: int
  sample: 503
option:
  description: The parameter that is wrong.
  returned: failure, with reason V(invalid_argument)
  type: str
  sample: url
models:
  description: What the server serves.
  returned: failure, with reason V(model_not_served)
  type: list
  elements: str
  sample: [chat]
holders:
  description: Who listens on the port instead, with C(pid), C(comm), C(unit) and C(cmdline).
  returned: failure, with reason V(wrong_owner)
  type: list
  elements: dict
  sample: [{pid: 812, comm: python3, unit: null, cmdline: "python3 -m sglang.launch_server"}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server import http, probe

ARGUMENT_SPEC = {
    "url": {"type": "str", "required": True},
    "kind": {"type": "str", "choices": ["auto", *probe.KINDS], "default": "auto"},
    "model": {"type": "str"},
    "prompt": {"type": "str", "default": "Say hello."},
    "documents": {"type": "list", "elements": "str", "default": []},
    "max_tokens": {"type": "int", "default": 32, "no_log": False},
    "parameters": {"type": "dict", "default": {}},
    "tools": {"type": "list", "elements": "dict", "default": []},
    "expect_tool": {"type": "str"},
    "expect_regex": {"type": "str"},
    "allow_replacement": {"type": "bool", "default": False},
    "instance": {"type": "str"},
    "timeout_s": {"type": "float", "default": 60},
    "max_first_token_s": {"type": "float", "no_log": False},
    "max_total_s": {"type": "float"},
    "min_tokens_per_s": {"type": "float", "no_log": False},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "server_name": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("api_key", "api_key_file")],
        required_if=[("kind", "rerank", ["documents"])],
        supports_check_mode=False,
    )
    given = module.params
    question = probe.Question(
        kind=given["kind"],
        model=given["model"],
        prompt=given["prompt"],
        documents=tuple(given["documents"]),
        max_tokens=given["max_tokens"],
        tools=tuple(given["tools"]),
        expect_tool=given["expect_tool"],
        expect_regex=given["expect_regex"],
        allow_replacement=given["allow_replacement"],
        instance=given["instance"],
        max_first_token_s=given["max_first_token_s"],
        max_total_s=given["max_total_s"],
        min_tokens_per_s=given["min_tokens_per_s"],
        parameters=given["parameters"],
    )
    try:
        key = http.api_key(given["api_key"], given["api_key_file"])
        module.no_log_values.update([key] if key else [])
        client = http.Client(given["url"], key, given["validate_certs"], given["ca_path"], given["server_name"])
        result = probe.ask(client, question, given["timeout_s"])
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
