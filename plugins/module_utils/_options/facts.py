# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What the rules may look at: the arguments with SGLang's defaults below them, the model's config.json, the GPUs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from . import values
from .arguments import Collected
from .model import Schema

MASK = "********"


# Compute capabilities by name, for the GPUs that gpu_info lists without one: the first match counts.
CAPABILITY = (
    ("RTX PRO 6000 Blackwell", (12, 0)),
    ("RTX PRO", (12, 0)),
    ("RTX 50", (12, 0)),
    ("GB10", (12, 1)),
    ("B300", (10, 3)),
    ("B200", (10, 0)),
    ("H200", (9, 0)),
    ("H100", (9, 0)),
    ("H800", (9, 0)),
    ("H20", (9, 0)),
    ("GH200", (9, 0)),
    ("L40", (8, 9)),
    ("L4", (8, 9)),
    ("RTX 40", (8, 9)),
    ("Ada", (8, 9)),
    ("RTX A", (8, 6)),
    ("A6000", (8, 6)),
    ("A100", (8, 0)),
    ("A800", (8, 0)),
    ("A30", (8, 0)),
    ("A10", (8, 6)),
    ("A40", (8, 6)),
    ("A16", (8, 6)),
    ("RTX 30", (8, 6)),
    ("T4", (7, 5)),
    ("RTX 20", (7, 5)),
    ("V100", (7, 0)),
)
CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
LINEAR_KEYS = (
    "linear_num_value_heads",
    "mamba_d_state",
    "mamba_n_heads",
    "mamba_num_heads",
    "ssm_state_size",
    "linear_attn_config",
)


@dataclass
class Facts:
    """Read like a mapping: options by key, then the names in ``COMPUTED``; unknown names are ``None``."""

    version: str
    given: dict[str, Any]  # what the user asked for, by key
    defaults: dict[str, Any]  # what SGLang has where the user said nothing; its keys are what this version knows
    origins: dict[str, str] = field(default_factory=dict)
    model: Mapping[str, Any] | None = None  # config.json
    gpu_count: int | None = None
    gpus: Sequence[Mapping[str, Any]] = ()

    def __getitem__(self, key: str) -> Any:
        if key in self.given:
            return self.given[key]
        if key in self.defaults:
            return self.defaults[key]
        return getattr(self, key) if key in COMPUTED else None

    def has(self, *keys: str) -> bool:
        """Whether this version knows the options."""
        return all(key in self.defaults for key in keys)

    def number(self, key: str, otherwise: int = 1) -> int:
        value = values.human_number(self[key])
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise

    # -- how the GPUs are divided ----------------------------------------------------------------------------

    @property
    def attn_dp(self) -> int:
        """Attention groups inside the tensor parallel group: ``attn_dp_size``, before 0.5.20 ``dp_size`` + a switch."""
        own = self.number("attn_dp_size")
        if own > 1:
            return own
        return self.number("dp_size") if self["enable_dp_attention"] else 1

    @property
    def replicas(self) -> int:
        return 1 if self["enable_dp_attention"] else self.number("dp_size")

    @property
    def attn_tp(self) -> int:
        """How many ways the attention heads are split."""
        return max(1, self.number("tp_size") // (self.attn_dp * self.number("attn_cp_size")))

    @property
    def gpus_needed(self) -> int:
        """On this node."""
        ranks = self.number("tp_size") * self.number("pp_size") * self.replicas
        return -(-ranks // max(1, self.number("nnodes")))

    @property
    def last_gpu(self) -> int:
        return self.number("base_gpu_id", 0) + (self.gpus_needed - 1) * self.number("gpu_id_step")

    @property
    def on_gpu(self) -> bool:
        return self["device"] in (None, "cuda")

    @property
    def capability(self) -> tuple[int, int] | None:
        """The lowest compute capability among the GPUs, or ``None`` where one is unknown."""
        found = [_capability(gpu) for gpu in self.gpus]
        known = [item for item in found if item is not None]
        return min(known) if known and len(known) == len(found) else None

    @property
    def gpu_name(self) -> str:
        return ", ".join(sorted({str(gpu.get("name") or "unknown GPU") for gpu in self.gpus}))

    # -- speculation and caches ------------------------------------------------------------------------------

    @property
    def algorithm(self) -> str | None:
        """The speculative algorithm as SGLang sees it."""
        value = self["speculative_algorithm"]
        return None if value is None else {"NEXTN": "EAGLE"}.get(str(value).upper(), str(value).upper())

    @property
    def eagle(self) -> bool:
        return self.algorithm in ("EAGLE", "EAGLE3", "STANDALONE")

    @property
    def strategy(self) -> Any:
        """How the radix cache keeps the states of linear attention: it changed its name."""
        own = self["mamba_radix_cache_strategy"]
        return self["mamba_scheduler_strategy"] if own is None else own

    @property
    def disaggregated(self) -> bool:
        return self["disaggregation_mode"] in ("prefill", "decode")

    # -- the model -------------------------------------------------------------------------------------------

    @property
    def text_model(self) -> Mapping[str, Any]:
        """The part of config.json that describes the language model (multimodal ones nest it)."""
        if self.model is None:
            return {}
        for name in ("text_config", "llm_config", "language_config"):
            inner = self.model.get(name)
            if isinstance(inner, dict) and inner:
                return inner
        return self.model

    @property
    def model_heads(self) -> int | None:
        return _integer(self.text_model.get("num_attention_heads"))

    @property
    def model_kv_heads(self) -> int | None:
        """``None`` for models that keep one latent vector instead of heads (MLA)."""
        if self.text_model.get("kv_lora_rank"):
            return None
        own = _integer(self.text_model.get("num_key_value_heads"))
        return self.model_heads if own is None else own

    @property
    def model_layers(self) -> int | None:
        return _integer(self.text_model.get("num_hidden_layers"))

    @property
    def model_context(self) -> int | None:
        """The context that SGLang derives from config.json."""
        factor = 1.0
        scaling = self.text_model.get("rope_scaling") or self.text_model.get("rope_parameters")
        if isinstance(scaling, dict) and "original_max_position_embeddings" not in scaling:
            kind = scaling.get("rope_type") or scaling.get("type")
            if kind not in ("llama3", "default") and isinstance(scaling.get("factor"), (int, float)):
                factor = float(scaling["factor"])
        for key in CONTEXT_KEYS:
            value = _integer(self.text_model.get(key))
            if value is not None:
                return int(value * factor)
        return None

    @property
    def linear_model(self) -> bool:
        """Whether layers keep a recurrent state instead of a KV cache."""
        if any(self.text_model.get(key) for key in LINEAR_KEYS):
            return True
        kinds = self.text_model.get("layer_types")
        return isinstance(kinds, list) and any(str(kind) in ("linear_attention", "mamba") for kind in kinds)

    @property
    def model_quantization(self) -> str | None:
        config = self.text_model.get("quantization_config") or (self.model or {}).get("quantization_config")
        method = config.get("quant_method") if isinstance(config, dict) else None
        return str(method).lower() if method else None


# What a message or a rule may name besides the options.
COMPUTED = (
    "attn_dp",
    "attn_tp",
    "gpu_count",
    "gpu_name",
    "gpus_needed",
    "last_gpu",
    "model_context",
    "model_heads",
    "model_kv_heads",
    "model_layers",
    "model_quantization",
    "strategy",
    "version",
)


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _capability(gpu: Mapping[str, Any]) -> tuple[int, int] | None:
    given = gpu.get("compute_capability")
    if isinstance(given, str) and "." in given:
        major, _point, minor = given.partition(".")
        if major.isdigit() and minor.isdigit():
            return int(major), int(minor)
    if isinstance(given, (list, tuple)) and len(given) == 2 and all(isinstance(part, int) for part in given):
        return int(given[0]), int(given[1])
    name = str(gpu.get("name") or "")
    return next((capability for part, capability in CAPABILITY if part.lower() in name.lower()), None)


def facts(
    schema: Schema,
    collected: Collected,
    model: Mapping[str, Any] | None = None,
    gpu_count: int | None = None,
    gpus: Sequence[Mapping[str, Any]] = (),
    secrets: Sequence[str] = (),
) -> Facts:
    """``secrets``: the names of those that are given; no rule needs to know more."""
    given: dict[str, Any] = dict.fromkeys(secrets, MASK)
    origins: dict[str, str] = dict.fromkeys(secrets, "secrets")
    for argument in collected.arguments.values():
        given[argument.key] = argument.value
        origins[argument.key] = argument.origin
    defaults = {option.key: option.default for option in schema if not option.removed}
    return Facts(schema.version, given, defaults, origins, model, gpu_count, gpus)


def read_model(model_path: str | None) -> tuple[Mapping[str, Any] | None, str | None]:
    """config.json of a model folder, or ``None`` and why the model's rules can't be checked."""
    if not model_path:
        return None, None
    if not os.path.isdir(model_path):
        return None, f"{model_path} is not a folder that can be read here; what depends on the model was not checked"
    path = os.path.join(model_path, "config.json")
    if not os.path.lexists(path):
        return None, f"{model_path} has no config.json; what depends on the model was not checked"
    try:
        with open(path, encoding="utf-8") as handle:
            content = json.load(handle)
    except (OSError, ValueError) as error:
        raise LlmHostError(
            "model_config_unreadable",
            f"{path} can't be read as JSON ({error}): SGLang would fail on it too. Fetch the model again",
            path=path,
        ) from None
    if not isinstance(content, dict):
        raise LlmHostError("model_config_unreadable", f"{path} is not a JSON object: fetch the model again", path=path)
    return content, None
