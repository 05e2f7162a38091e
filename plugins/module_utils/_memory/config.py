# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Reading values out of a config.json that people wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._errors import LlmHostError

Config = Mapping[str, Any]

_TEXT_PATHS = (("thinker_config", "text_config"), ("llm_config",), ("language_config",), ("text_config",))
_CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")


def invalid(what: str) -> LlmHostError:
    return LlmHostError("model_config_invalid", f"The model's config.json cannot be planned: {what}.")


def text_config(config: Config) -> Config:
    for path in _TEXT_PATHS:
        part: Any = config
        for key in path:
            part = part.get(key) if isinstance(part, Mapping) else None
        if isinstance(part, Mapping):
            return part
    return config


def integer(config: Config, *keys: str) -> int:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        if value is not None and not (isinstance(value, int) and value == 0):
            raise invalid(f"'{key}' is {value!r}, not a positive whole number")
    raise invalid(f"'{keys[0]}' is missing")


def optional(config: Config, *keys: str) -> int:
    """The first of these that is there, 0 if none is."""
    for key in keys:
        if config.get(key) is not None:
            return integer(config, key) if config[key] != 0 else 0
    return 0


def context_length(text: Config) -> int:
    scaling = text.get("rope_scaling") or {}
    factor = 1.0
    plain = isinstance(scaling, Mapping) and "original_max_position_embeddings" not in scaling
    if plain and scaling.get("rope_type") != "llama3":
        factor = float(scaling.get("factor") or 1)
    for key in _CONTEXT_KEYS:
        if text.get(key) is not None:
            return int(factor * integer(text, key))
    return 2048


def dtype(config: Config, text: Config) -> str:
    for part in (config, text):
        for key in ("torch_dtype", "dtype"):
            if isinstance(part.get(key), str):
                return str(part[key])
    return "bfloat16"


def quantization(config: Config) -> str | None:
    for part in (config, text_config(config)):
        section = part.get("quantization_config") or part.get("compression_config")
        if isinstance(section, Mapping):
            return str(section.get("quant_method") or section.get("quant_algo") or "unnamed").lower()
    return None


def declares_fp8_kv(config: Config) -> bool:
    for part in (config, text_config(config)):
        section = part.get("quantization_config") or part.get("compression_config")
        if not isinstance(section, Mapping):
            continue
        scheme = section.get("kv_cache_scheme")
        named = str(section.get("kv_cache_quant_algo") or "").upper().startswith("FP8")
        described = isinstance(scheme, Mapping) and scheme.get("type") == "float" and scheme.get("num_bits") == 8
        if named or described:
            return True
    return False
