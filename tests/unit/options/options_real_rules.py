# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a real SGLang (0.5.20 or newer, its CPU build is enough) what it says to the examples of the rules.

python options_real_rules.py JSON      id -> {"bad": WORDS, "good": WORDS, "linear": whether the model has states}

Prints id -> {"bad": MESSAGE or null, "good": MESSAGE or null}. The whole resolution of arguments runs, and the checks
after it; faked is the machine only, which is a CUDA one here.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import sys
import tempfile

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "num_hidden_layers": 64,
    "max_position_embeddings": 40960,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
LINEAR = {
    **LLAMA,
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "full_attention_interval": 4,
    "mlp_only_layers": [],
}


def verdict(words):
    """``None`` where SGLang has nothing against them."""
    from sglang.srt.arg_groups.validation_hook import check_server_args
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            arguments = ServerArgs.from_cli_args(parser.parse_args(words))
        arguments.resolve_once()
        check_server_args(arguments)
    except SystemExit:
        return said.getvalue()[-200:]
    except Exception as error:  # whatever it is: it would not have started
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def main():
    import sglang.srt.arg_groups.memory_hook as memory_hook
    import sglang.srt.model_executor.cuda_graph_config as graph_config
    from sglang.srt.runtime_context import override_platform

    logging.disable(logging.CRITICAL)
    graph_config.default_prefill_backend = lambda: graph_config.Backend.BREAKABLE
    memory_hook.get_device_memory_capacity = lambda device=None: 81559
    answers = {}
    with tempfile.TemporaryDirectory() as folder, override_platform(is_cuda=True):
        for name, config in (("draft", LLAMA), ("linear", LINEAR)):
            os.makedirs(os.path.join(folder, name))
            with open(os.path.join(folder, name, "config.json"), "w") as file:
                json.dump(config, file)
        for name in ("k.pem", "c.pem", "ca.pem", "corpus", "w.json", "uno"):
            with open(os.path.join(folder, name), "w") as file:
                file.write("{}")
        for name, row in json.loads(sys.argv[1]).items():
            answers[name] = {}
            for kind in ("bad", "good"):
                model = os.path.join(folder, "linear" if row["linear"] else "draft")
                words = [
                    folder + word if word[:1] == "/" and os.path.exists(folder + word) else word for word in row[kind]
                ]
                usual = {"--device": "cuda", "--attention-backend": "triton"}
                words += [word for key, value in usual.items() if key not in words for word in (key, value)]
                answers[name][kind] = verdict(["--model-path", model, *words])
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
