# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that the module reads from the sources against those that the installed SGLang's own parser knows."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._options import rules
from ansible_collections.llmhost.sglang.plugins.module_utils._options.arguments import Layer, collect
from ansible_collections.llmhost.sglang.plugins.module_utils._options.model import Option, in_range
from ansible_collections.llmhost.sglang.plugins.module_utils._options.render import argv, config_file
from ansible_collections.llmhost.sglang.plugins.module_utils._placeholders import fill_yaml
from ansible_collections.llmhost.sglang.tests.unit.options.options_rule_examples import EXAMPLES
from ansible_collections.llmhost.sglang.tests.unit.options.options_support import differences, shipped
from conftest import ROOT, Controller, Lab

VENV = "/opt/llmhost/options-check/venv"
PLAY = """
- hosts: ct129
  gather_facts: false
  tasks:
    - llmhost.sglang.launch_args_info:
        venv: {venv}
        model_path: org/model
        extra_args: "{{{{ item }}}}"
      loop: {commands}
      failed_when: false
"""
# SGLang's parser refuses each of these; we blame this option of it.
BAD: list[tuple[list[str], str]] = [
    (["--no-such-flag", "1"], "no_such_flag"),
    (["--attention-backend", "nosuch"], "attention_backend"),
    (["--mem-fraction-static", "abc"], "mem_fraction_static"),
    (["--tp-size", "2.0"], "tp_size"),
    (["--cuda-graph-bs-decode"], "cuda_graph_bs_decode"),
    (["--enable-metrics", "true"], "true"),
    (["--enable-metrics=true"], "enable_metrics"),
    (["--kv-canary", "off"], "kv_canary"),
    (["--max-total-tokens", "1.5Ki"], "max_total_tokens"),
    (["--default-chat-template-kwargs", "{no"], "default_chat_template_kwargs"),
    (["--chat-template", "-x"], "chat_template"),
]
# It takes these; what we make of them must mean the same to it.
GOOD: list[str] = [
    *("--served-model-name=-x", "--speculative-algo", "NEXTN", "--tp", "2", "--chunked-prefill-size", "-1"),
    *("--no-dllm-fdfo", "--context-length", "64Ki", "--default-chat-template-kwargs", '{"a": "-b"}'),
    *("--lora-paths", "a=/a", "b=/b", "--mem-fraction-static", "1e-1", "--enable-metrics", "--model-checksum"),
]


# Rules whose examples SGLang can't confirm while it resolves its arguments on this machine, and why.
LATER = "SGLang finds out later, when it starts, loads or waits"
HARDWARE = "another check of SGLang comes first, of hardware that is not here"
OTHER = "the example is for another version or model: a second rule of this version speaks too"
NOT_SHOWN: dict[str, str] = {
    "open_without_key": "a rule of this collection: SGLang listens to everybody without a word",
    **dict.fromkeys(("size_positive", "port_range", "fraction_range", "requests_positive"), LATER),
    **dict.fromkeys(("node_rank_range", "nodes_need_address"), LATER),
    **dict.fromkeys(("heads_by_tp", "kv_heads_by_tp", "layers_by_pp", "quantization_differs"), LATER),
    **dict.fromkeys(("quant_communications_tp", "trtllm_mha_topk", "trtllm_mla_kv_dtype"), HARDWARE),
    **dict.fromkeys(("stochastic_rounding_state", "tls_refresh_http2"), HARDWARE),
    **dict.fromkeys(("moe_dp_divides_tp", "ep_moe_dp_within_tp", "moe_dp_without_pp"), OTHER),
    **dict.fromkeys(("context_positive", "decode_offload_side", "dspark_block_size"), OTHER),
    **dict.fromkeys(("encoder_or_language", "prefix_cache_needs_encoder"), OTHER),
}
LINEAR = ("no_buffer", "extra_buffer", "replayssm", "int8_checkpoint")


@pytest.fixture(scope="module")
def venv(lab: Lab) -> str:
    """A venv with the real SGLang: the runtime of another scenario, or one made for this."""
    runtime = "/opt/llmhost/runtime"
    if "yes" in lab.ct("sh", "-c", f"{runtime}/bin/python -c 'import sglang, torch' && echo yes || true"):
        return runtime
    install = "-q --no-index --find-links /srv/wheelhouse --no-deps -r /srv/wheelhouse/lock.txt"
    script = (
        f"test -e {VENV}/done || {{ python3 -m venv {VENV} && {VENV}/bin/pip install {install} && touch {VENV}/done; }}"
    )
    lab.ct("sh", "-c", script, timeout_s=900)
    return VENV


def in_python(lab: Lab, venv: str, program: str, *words: str) -> str:
    """Run a program in the container's SGLang; it is handed over as text, so nothing needs to be copied."""
    return lab.ct("env", "SGLANG_USE_CPU_ENGINE=1", f"{venv}/bin/python", "-c", program, *words, timeout_s=300)


def render(controller: Controller, work: pathlib.Path, venv: str, commands: list[list[str]]) -> list[dict[str, Any]]:
    """What the module makes of each command, in one play on the container."""
    path = work / "launch_args.yml"
    path.write_text(PLAY.format(venv=venv, commands=json.dumps(commands)))
    results = controller.play(path).result("launch_args_info")["results"]
    assert len(results) == len(commands)
    return results


def test_options_equal_those_of_the_real_parser(
    lab: Lab, controller: Controller, work: pathlib.Path, venv: str
) -> None:
    (result,) = render(controller, work, venv, [[]])
    assert result["schema_source"] == "venv", result
    cached = lab.ct("sh", "-c", f"cat $(dirname $(readlink -f {venv}))/.llmhost-cache/options-*.json")
    options = [Option.from_dict(row) for row in json.loads(cached)["options"]]
    program = (ROOT / "tests/unit/options/options_real_parser.py").read_text()
    rows = json.loads(in_python(lab, venv, program).splitlines()[-1])
    assert len(rows) > 400
    assert differences(options, rows) == []


PARSE = """
import json, sys
from sglang.srt.server_args import ServerArgs
import argparse
verdicts = []
for words in json.loads(sys.argv[1]):
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    try:
        values = vars(parser.parse_args(["--model-path", "org/model", *words]))
        verdicts.append({k: repr(v) for k, v in values.items()})
    except SystemExit:
        verdicts.append(None)
print(json.dumps(verdicts))
"""


def parsed(lab: Lab, venv: str, commands: list[list[str]]) -> list[dict[str, str] | None]:
    """What SGLang's parser makes of them; ``None`` where it refuses."""
    return json.loads(in_python(lab, venv, PARSE, json.dumps(commands)).splitlines()[-1])


def test_both_refuse_and_accept_the_same(lab: Lab, controller: Controller, work: pathlib.Path, venv: str) -> None:
    bad = [words for words, _option in BAD]
    refused, accepted = render(controller, work, venv, [[word for words in bad for word in words], GOOD])
    *verdicts, wanted, found = parsed(lab, venv, [*bad, GOOD, accepted["argv"][5:]])  # past --model-path
    assert verdicts == [None] * len(BAD)  # what this test says of SGLang is true
    assert sorted(row["option"] for row in refused["errors"]) == sorted(["-x", *(option for _words, option in BAD)])
    assert found == wanted is not None


def test_renamed_options_are_accepted_under_their_new_name(
    lab: Lab, controller: Controller, work: pathlib.Path, venv: str
) -> None:
    old = [["--cuda-graph-max-bs", "8"], ["--mamba-scheduler-strategy", "auto"]]
    (result,) = render(controller, work, venv, [[word for words in old for word in words]])
    *before, after = parsed(lab, venv, [*old, result["argv"][5:]])
    assert before == [None, None]
    assert after is not None and after["cuda_graph_max_bs_decode"] == "8"


def test_rules_say_what_sglang_says(lab: Lab, venv: str) -> None:
    """Each rule's bad example is refused by the real resolution of arguments, its good one and all notes are not."""
    version = in_python(lab, venv, "import sglang; print(sglang.__version__)").splitlines()[-1]
    known = shipped(version)
    asked: dict[str, Any] = {}
    for rule in rules.RULES:
        example = EXAMPLES[rule.id]
        if rule.id in NOT_SHOWN or example.gpus or example.gpu_count or not in_range(version, rule.since, rule.until):
            continue
        row: dict[str, Any] = {"linear": rule.id.startswith(LINEAR) and example.model is None}
        for kind, given, secrets in (
            ("bad", example.bad, example.bad_secrets),
            ("good", example.good, example.good_secrets),
        ):
            collected = collect(known, [Layer(kind, given)])
            row[kind] = argv("python", collected, None, secrets)[3:] if not collected.problems else None
        if row["bad"] is not None and row["good"] is not None:
            asked[rule.id] = row
    assert len(asked) > 100
    program = (ROOT / "tests/unit/options/options_real_rules.py").read_text()
    answers = json.loads(in_python(lab, venv, program, json.dumps(asked)).splitlines()[-1])
    wrong = []
    for rule in rules.RULES:
        if rule.id in asked:
            bad, good = answers[rule.id]["bad"], answers[rule.id]["good"]
            if (bad is None) == (rule.kind == "error") or good is not None:
                wrong.append(f"{rule.id} ({rule.kind}): bad: {bad}; good: {good}")
    assert not wrong, "\n".join(wrong)


def test_secrets_of_a_config_file_arrive(lab: Lab, work: pathlib.Path, venv: str) -> None:
    """SGLang's own reader of --config gives back what was filled in, whatever is in it."""
    secrets = {"api_key": "it's \"#: {x}\\ \u00e4\u20ac\U0001f600\t% end ", "admin_api_key": "null"}
    text = fill_yaml(config_file(sorted(secrets)) or "", secrets, "config_file")
    program = (
        "import json, os, sys, tempfile\n"
        "from sglang.srt.server_args import prepare_server_args\n"
        "path = os.path.join(tempfile.mkdtemp(), 'x.yaml')\n"
        "open(path, 'w').write(sys.argv[1])\n"
        "args = prepare_server_args(['--config', path, '--model-path', 'org/model'])\n"
        "print(json.dumps({'api_key': args.api_key, 'admin_api_key': args.admin_api_key}))\n"
    )
    assert json.loads(in_python(lab, venv, program, text).splitlines()[-1]) == secrets
