# SPDX-License-Identifier: GPL-3.0-or-later
"""What the options leave open, the server fills in."""

from __future__ import annotations

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils import _placeholders as placeholders
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._options import render
from ansible_collections.llmhost.sglang.plugins.module_utils._server import request

yaml = pytest.importorskip("yaml")

SECRETS = {"api_key": 'a"b\\c: #\u00e4\U0001f600\n', "admin_api_key": "plain"}


def test_the_configuration_file_of_the_options_is_filled_and_reads_back():
    text = render.config_file(["api_key", "admin_api_key"])
    assert text is not None
    filled = placeholders.fill_yaml(text, SECRETS, "config_file")
    assert yaml.safe_load(filled) == {"api-key": SECRETS["api_key"], "admin-api-key": "plain"}


def test_what_is_no_scalar_of_its_own_is_filled_too():
    text = "a: " + placeholders.placeholder("admin_api_key") + "\n"
    assert placeholders.fill_yaml(text, SECRETS, "config_file") == "a: plain\n"


def test_words_are_filled():
    word = "x" + placeholders.placeholder("api_key") + "y"
    assert placeholders.names(word) == ["api_key"]
    assert placeholders.fill(word, SECRETS, "argv") == "x" + SECRETS["api_key"] + "y"
    assert placeholders.masked(word, "***") == "x***y"


def test_a_secret_that_was_not_given_is_named():
    with pytest.raises(LlmHostError, match="hf_token") as caught:
        placeholders.fill(placeholders.placeholder("hf_token"), SECRETS, "environment")
    assert caught.value.reason == "secret_missing"


def test_values_that_nobody_may_print():
    found = request.secret_values(
        {
            "secrets": {"api_key": "one"},
            "environment": {"HF_TOKEN": "two", "CUDA_VISIBLE_DEVICES": "0", "X": placeholders.placeholder("api_key")},
            "argv": ["/p", "--api-key", "three", "--admin-api-key=four", "--port", "5", "--tokenizer-path", "/m"],
        }
    )
    assert sorted(found) == ["four", "one", "three", "two"]
