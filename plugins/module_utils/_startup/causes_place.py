# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Refusals that no row knows by their words: whoever raised them says what kind of thing was refused.

SGLang holds thousands of checks with a sentence of their own ("X is not supported with Y"). Their words differ, their
shape and the module that they come from do not. Tried after all rows but those of last resort, and weaker than any.
"""

from __future__ import annotations

from .cause import Pattern
from .cause import pattern as p

_WORDS = (
    r"[Uu]nsupported|[Ss]upport(?:s|ed)?\b|[Uu]nimplemented|[Uu]nknown|[Uu]nrecognized|[Ii]nvalid|[Oo]nly\b|[Rr]equire|"
    r"[Pp]lease|[Ii]ncompatible|[Nn]ot (?:yet |been )?(?:implemented|available|allowed|compatible|enabled|set)\b|"
    r"[Ff]ailed to (?:set up|register|create|init)"
)
_OPTIONS = (
    r"\b(?:tp|pp|dp|ep|cp|moe_dp|attn_tp|page)[_-]size|\b[TPDEC]P\b|(?:pipeline|tensor|expert|data|context) parallel|"
    r"[Ss]peculative|EAGLE|MTP|LoRA|lora_|[Oo]verlap|[Dd]isaggregation|cuda[ _-]graph|chunked|"
    r"--[a-z][a-z-]{3,}|SGLANG_[A-Z]"
)


def _raised(also: str = "") -> str:
    """A sentence that was raised on purpose; ``also`` is what else it must hold.

    What torch raises from C++ is a RuntimeError too, so that one needs the clearer words.
    """
    more = r"(?=[^\n]{0,400}?(?:" + also + "))" if also else ""
    return (
        r"^(?![^\n]{0,40}signal only works)(?:\w{1,40}\.){0,6}"
        r"(?:(?:ValueError|AssertionError|NotImplementedError): (?=[^\n]{0,300}?(?:" + _WORDS + r"|\b(?:must|should)\b|"
        r"[Cc]annot|[Cc]an not|[Cc]an't|divisible|multiple of|[Mm]ismatch|exceeds?\b|[Aa]ligned))|"
        r"(?:RuntimeError|InternalError|ImportError|Exception): (?=[^\n]{0,300}?(?:"
        + _WORDS
        + r")))"
        + more
        + r"(?P<problem>[^\n]{1,400})"
    )


_RAISED = _raised()
_CHOSEN = _raised(_OPTIONS)  # of what is chosen by arguments
_STARTING = ("import", "args", "init_distributed", "load_weights", "kv_cache", "graph_capture", "compile")

# Python's own words about another package's insides: SGLang was written for another version of it.
_FOREIGN = r"^(?P<problem>(?:AttributeError|TypeError|ImportError): [^\n]{1,400})"

PLACES: tuple[tuple[str, Pattern], ...] = (
    (
        "package_version_mismatch",
        p(
            _FOREIGN,
            last=r"/(?:transformers|outlines|vllm|xgrammar|torchao|compressed_tensors|huggingface_hub|tokenizers|pydantic|"
            r"fastapi|starlette|uvicorn|llguidance|gguf|accelerate|timm|peft|flashinfer|aiter)/",
            phases=_STARTING,
        ),
    ),
    ("mm_processor", p(_RAISED, last=r"/multimodal/|/image_processing|/processing_\w{1,60}\.py|/processors/")),
    (
        "rdma_transport",
        p(_RAISED, last=r"/disaggregation/(?:mooncake|nixl|mori|ascend)/\w{1,40}\.py:\w{0,40}(?:regist|engine|init)"),
    ),
    (
        "quant_unsupported",
        p(
            _RAISED,
            last=r"/layers/quantization/|/modelopt|/quantization/|model_loader/.{0,60}[Qq]uant|:\w{0,40}quant_config$",
        ),
    ),
    (
        "backend_unsupported",
        p(
            _RAISED,
            last=r"/layers/(?:attention|moe)/|/kernels/ops/|/jit_kernel/|/(?:flashinfer|sgl_kernel|deep_gemm|flash_attn|"
            r"flash_mla|aiter|flash_attention|fla|sageattention|deep_ep)/|attention_backend|attn_backend",
        ),
    ),
    (
        "args_invalid_value",
        p(_RAISED, last=r"/environ\.py|cuda_graph_config\.py|_attention_backend_from_str$|_kv_cache_dtype$"),
    ),
    ("args_invalid_combination", p(_CHOSEN, last=r"/sglang/", phases=_STARTING)),
    ("weight_mismatch", p(_RAISED, last=r"/model_loader/|:(?:load_weights|\w{0,40}weight_loader\w{0,20})$")),
    ("arch_unsupported", p(_RAISED, last=r"/srt/(?:models|configs)/|rotary_embedding|/hf_transformers")),
    (
        "args_invalid_combination",
        p(
            _RAISED,
            last=r"/srt/(?:model_executor|speculative|lora|mem_cache|eplb|distributed|managers|entrypoints|"
            r"disaggregation|hardware_backend|connector|elastic_ep|batch_overlap)/|"
            r"/srt/(?:server_args|two_batch_overlap|operations\w{0,30})\.py|"
            r"/layers/(?:dp_attention|communicator\w{0,20}|linear|sampler|logits_processor|vocab_parallel\w{0,20}|"
            r"radix_attention|pooler|activation|layernorm)\.py|/layers/cp/",
            phases=_STARTING,
        ),
    ),
)
