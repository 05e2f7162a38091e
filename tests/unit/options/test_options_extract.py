# SPDX-License-Identifier: GPL-3.0-or-later
"""The static reader against real parsers: those of the fixtures here, those of SGLang where a copy is at hand."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._options import schema, tables
from ansible_collections.llmhost.sglang.plugins.module_utils._options.extract import extract
from ansible_collections.llmhost.sglang.tests.unit.options.options_support import (
    DATA,
    FIXTURES,
    HERE,
    STYLES,
    differences,
)


def real_parser(folder: pathlib.Path) -> list[dict]:
    done = subprocess.run(
        [sys.executable, "-B", str(HERE / "options_real_parser.py"), str(folder)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the fixtures use X | None at run time, as SGLang does")
@pytest.mark.parametrize("style", STYLES)
def test_equal_to_the_parser_of_the_package(style: str) -> None:
    options, _digests = extract(str(FIXTURES / style))
    assert differences(options, real_parser(FIXTURES / style)) == []


@pytest.mark.parametrize("style", STYLES)
def test_digests_name_every_source_that_decides(style: str) -> None:
    _options, digests = extract(str(FIXTURES / style))
    wanted = {"sglang/srt/server_args.py"}
    if style == "structs":
        wanted |= {"sglang/srt/arg_groups/fields/model.py", "sglang/srt/arg_groups/fields/parallel.py"}
        wanted |= {"sglang/srt/arg_groups/choices.py", "sglang/srt/parser/names.py"}
    assert wanted <= set(digests)
    assert all(len(digest) == 64 for digest in digests.values())


def test_facts_that_a_parser_does_not_show() -> None:
    options = {option.name: option for option in extract(str(FIXTURES / "annotated"))[0]}
    assert options["--old-sizes"].replaced_by == "--sizes"
    assert options["--no-graph"].replaced_by == "--graph=off"
    assert options["--old-quiet"].deprecated and not options["--old-quiet"].removed
    assert options["--gone"].removed
    assert "--inner" not in options and "--rank" not in options and "--plain" not in options
    old = {option.name: option for option in extract(str(FIXTURES / "hand_written"))[0]}
    assert old["--old-switch"].removed and old["--old-switch"].deprecated


def test_nothing_of_the_package_is_run(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "sglang" / "srt"
    package.mkdir(parents=True)
    (package / "server_args.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w')\n"
        "import torch_that_is_not_there\n"
        "class ServerArgs:\n"
        "    @staticmethod\n"
        "    def add_cli_args(parser):\n"
        "        parser.add_argument('--model-path', type=str)\n"
    )
    options, _digests = extract(str(tmp_path))
    assert [option.name for option in options] == ["--model-path"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    ["class Other:\n    pass\n", "class ServerArgs:\n    pass\n", "class ServerArgs(:\n", "\0", None],
    ids=["no class", "no options", "no syntax", "NUL", "no file"],
)
def test_what_cannot_be_read_says_so(tmp_path: pathlib.Path, text: str | None) -> None:
    package = tmp_path / "sglang" / "srt"
    package.mkdir(parents=True)
    if text is not None:
        (package / "server_args.py").write_text(text)
    with pytest.raises(LlmHostError) as caught:
        extract(str(tmp_path))
    assert caught.value.reason == "schema_unreadable"
    assert str(tmp_path) in caught.value.message


def test_names_that_go_round_in_a_circle_end(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "sglang" / "srt"
    package.mkdir(parents=True)
    (package / "server_args.py").write_text(
        "A = B\nB = A\nclass ServerArgs:\n    @staticmethod\n    def add_cli_args(parser):\n"
        "        C = C\n"
        "        parser.add_argument('--model-path', default=A)\n"
        "        parser.add_argument('--other', choices=C)\n"
    )
    options = {option.name: option for option in extract(str(tmp_path))[0]}
    assert not options["--model-path"].default_known
    assert options["--other"].choices is None


# -- the real ones -------------------------------------------------------------------------------------------


def recorded(version: str) -> dict[str, dict]:
    with open(DATA / f"recorded_{version}.json", encoding="utf-8") as handle:
        return {row["name"]: row for row in json.load(handle)["options"]}


@pytest.mark.parametrize("version", tables.AVAILABLE)
def test_shipped_table_equals_what_was_recorded_from_the_real_parser(version: str) -> None:
    mine = {option.name: option for option in tables.load(version)}
    theirs = recorded(version)
    assert sorted(mine) == sorted(theirs)
    for name, row in theirs.items():
        option = mine[name]
        assert list(option.aliases) == row["aliases"], name
        assert option.dest == row["dest"], name
        assert option.nargs == row.get("nargs"), name
        assert option.action == (row.get("action") or "store").split(".")[-1], name
        assert option.const == row.get("const"), name
        assert option.deprecated == row["deprecated"], name
        assert option.replaced_by == row.get("replaced_by"), name
        kind = row.get("type_parser") or row.get("type")
        if kind == "NoneType" or isinstance(kind, dict):
            kind = "str"  # the recording could not say it; SGLang's parser takes text
        if kind is not None:
            assert option.type == kind, name
        # Where the recording holds an expression, the reader may know more; it must never know something else.
        if isinstance(row.get("default"), dict):
            assert option.required or not option.default_known or option.default is not None, name
        else:
            assert option.default == row.get("default"), name
        if "choices_dynamic" in row or row.get("choices_partial"):
            assert option.choices, name
        elif "choices" in row:
            choices = row["choices"]
            if isinstance(choices, str):  # a set, which JSON does not have
                assert set(option.choices or ()) == set(
                    json.loads(choices.replace("{", "[").replace("}", "]").replace("'", '"'))
                )
            else:
                assert list(option.choices or ()) == choices, name
        else:
            assert option.choices is None, name


@pytest.mark.parametrize("version", tables.AVAILABLE)
def test_shipped_table_is_what_the_reader_makes_of_the_wheel(version: str) -> None:
    """LLMHOST_SGLANG_SOURCES: a folder with one unpacked wheel a version. The other tests need none."""
    root = os.environ.get("LLMHOST_SGLANG_SOURCES")
    if not root or not os.path.isdir(os.path.join(root, version)):
        pytest.skip(f"no unpacked wheel of SGLang {version} in LLMHOST_SGLANG_SOURCES")
    folder = os.path.join(root, version)
    assert schema.version_in(folder) == version
    options, _digests = extract(folder)
    assert tables.dump(options) == tables.dump(tables.load(version))


@pytest.mark.parametrize("version", tables.AVAILABLE)
def test_table_survives_its_own_text(version: str) -> None:
    options = tables.load(version)
    assert tables.parse(tables.dump(options)) == options
    assert all(len(line) <= 120 for line in tables.dump(options).splitlines())


def test_nearest_table_is_the_newest_that_is_not_newer() -> None:
    assert tables.nearest("0.5.23") == "0.5.23"
    assert tables.nearest("0.5.24rc1") == "0.5.23"
    assert tables.nearest("0.5.17") == "0.5.9"
    assert tables.nearest("0.4.6") == "0.4.6.post5"
    assert tables.nearest("0.4.6.post9") == "0.4.6.post5"
