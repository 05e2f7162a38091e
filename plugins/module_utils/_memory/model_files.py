# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""A model on disk: where it is, its config.json, the headers of its weights."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from .._errors import LlmHostError
from . import headers
from .headers import Checkpoint

_REPOSITORY = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$")
_QUANTIZATION_FILE = "hf_quant_config.json"


def default_cache(environment: Mapping[str, str]) -> str:
    """Where the Hugging Face libraries keep downloaded models."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return environment[name]
    home = environment.get("HF_HOME")
    if not home:
        home = os.path.join(environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface")
    return os.path.join(home, "hub")


def locate(model_path: str, cache: str) -> str:
    """The directory of a model given by path, or by repository id where it was downloaded before."""
    if os.path.isdir(model_path):
        return model_path
    if not _REPOSITORY.match(model_path) or model_path.startswith((".", "/")):
        raise LlmHostError(
            "model_config_missing", f"model_path '{model_path}' is not a directory on this host.", path=model_path
        )
    repository = os.path.join(cache, "models--" + model_path.replace("/", "--"))
    snapshot = _snapshot(repository)
    if snapshot is None:
        raise LlmHostError(
            "model_config_missing",
            f"Model '{model_path}' is not in the cache {cache} of this host; download it first, or give its directory.",
            path=repository,
        )
    return snapshot


def _snapshot(repository: str) -> str | None:
    """The snapshot that ``main`` points to, else the only one there is."""
    snapshots = os.path.join(repository, "snapshots")
    try:
        with open(os.path.join(repository, "refs", "main"), encoding="utf-8") as reference:
            directory = os.path.join(snapshots, reference.read().strip())
        if os.path.isdir(directory):
            return directory
    except OSError:
        pass
    try:
        revisions = sorted(os.listdir(snapshots))
    except OSError:
        return None
    return os.path.join(snapshots, revisions[0]) if len(revisions) == 1 else None


def read_config(directory: str) -> dict[str, Any]:
    """config.json of a model directory, with a quantisation that stands in a file of its own."""
    config = _read_json(os.path.join(directory, "config.json"), required=True)
    if "quantization_config" not in config:
        quantization = _read_json(os.path.join(directory, _QUANTIZATION_FILE), required=False).get("quantization")
        if isinstance(quantization, dict):
            config = {**config, "quantization_config": quantization}
    return config


def _read_json(path: str, required: bool) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as text:
            document = json.load(text)
    except FileNotFoundError as error:
        if not required:
            return {}
        raise LlmHostError("model_config_missing", f"{path} does not exist; check model_path.", path=path) from error
    except OSError as error:
        raise LlmHostError("model_config_missing", f"{path} cannot be read ({error.strerror}).", path=path) from error
    except ValueError as error:
        raise LlmHostError(
            "model_config_invalid", f"{path} is not valid JSON; download it again.", path=path
        ) from error
    if not isinstance(document, dict):
        raise LlmHostError("model_config_invalid", f"{path} does not hold a mapping; download it again.", path=path)
    return document


def read_checkpoint(directory: str) -> Checkpoint:
    return headers.read(directory)
