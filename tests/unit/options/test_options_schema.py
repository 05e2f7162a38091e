# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the schema comes from: venv, cache, shipped table."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._options import schema
from ansible_collections.llmhost.sglang.plugins.module_utils._options.model import in_range, version_key
from ansible_collections.llmhost.sglang.tests.unit.options.options_support import make_venv


def names(loaded: schema.Schema) -> list[str]:
    return [option.name for option in loaded]


def cache_of(venv: pathlib.Path, version: str = "9.9.1") -> pathlib.Path:
    return pathlib.Path(schema.cache_path(str(venv), version))


def test_venv_is_read_and_cached_beside_it(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    loaded = schema.load(str(venv))
    assert (loaded.version, loaded.source) == ("9.9.1", "venv")
    assert "--tp-size" in names(loaded)
    assert cache_of(venv).parent == tmp_path / ".llmhost-cache"
    assert [path.name for path in cache_of(venv).parent.iterdir()] == [cache_of(venv).name]
    assert not [path for path in venv.rglob("*") if "cache" in path.name]


def test_cache_is_what_the_next_run_uses(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    fresh = schema.load(str(venv))
    content = json.loads(cache_of(venv).read_text())
    content["options"].append({"name": "--only-in-the-cache", "dest": "only_in_the_cache"})
    cache_of(venv).write_text(json.dumps(content))
    assert names(schema.load(str(venv))) == sorted([*names(fresh), "--only-in-the-cache"])


def test_cached_schema_equals_the_fresh_one(tmp_path: pathlib.Path) -> None:
    for style in ("hand_written", "annotated", "structs"):
        venv = make_venv(tmp_path, style, name=style)
        assert (
            schema.load(str(venv)).options
            == schema.load(str(venv)).options
            == schema.load(str(venv), None, False).options
        )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_text("{"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("null"),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_text(path.read_text().replace('"format": 1', '"format": 0')),
        lambda path: path.write_text(path.read_text().replace('"version": "9.9.1"', '"version": "9.9.2"')),
        lambda path: path.write_text(path.read_text().replace('"--model-path"', '"--no-model"')),
        lambda path: path.write_text(path.read_text().replace('"aliases"', '"unknown_field"')),
    ],
)
def test_a_spoiled_cache_is_rebuilt(tmp_path: pathlib.Path, spoil) -> None:
    venv = make_venv(tmp_path, "structs")
    good = schema.load(str(venv)).options
    content = cache_of(venv).read_text()
    spoil(cache_of(venv))
    assert schema.load(str(venv)).options == good
    assert cache_of(venv).read_text() == content


def test_changed_sources_outdate_the_cache(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    schema.load(str(venv))
    fields = venv / "lib/python3.11/site-packages/sglang/srt/arg_groups/fields"
    text = (fields / "parallel.py").read_text()
    (fields / "parallel.py").write_text(text.replace("share: A", "part: A"))
    assert "--part" in names(schema.load(str(venv)))
    (fields / "more.py").write_text(
        "from sglang.srt.arg_groups.arg_utils import A\nclass More:\n    fresh: A[int, 'New.'] = 1\n"
    )
    assert "--fresh" in names(schema.load(str(venv)))


def test_check_mode_writes_nothing(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    schema.load(str(venv), None, write_cache=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["venv"]


def test_an_unwritable_place_is_no_failure(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    (tmp_path / ".llmhost-cache").write_text("a file where the folder would be")
    assert "--tp-size" in names(schema.load(str(venv)))


def test_a_cache_that_others_can_write_is_not_believed(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs")
    schema.load(str(venv))
    content = json.loads(cache_of(venv).read_text())
    content["options"].append({"name": "--planted", "dest": "planted"})
    cache_of(venv).write_text(json.dumps(content))
    os.chmod(cache_of(venv), 0o666)
    assert "--planted" not in names(schema.load(str(venv)))
    cache_of(venv).write_text(json.dumps(content))
    os.chmod(cache_of(venv).parent, 0o777)
    assert "--planted" not in names(schema.load(str(venv)))


def test_a_link_to_the_venv_shares_its_cache(tmp_path: pathlib.Path) -> None:
    (tmp_path / "runtimes").mkdir()
    venv = make_venv(tmp_path / "runtimes", "structs")
    (tmp_path / "runtime").symlink_to(venv)
    schema.load(str(tmp_path / "runtime"))
    assert cache_of(tmp_path / "runtime") == cache_of(venv)
    assert cache_of(venv).is_file()


def test_local_part_is_shown_and_does_not_count(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, None, "0.5.23+replay")
    loaded = schema.load(str(venv))
    assert (loaded.version, loaded.source) == ("0.5.23+replay", "shipped")
    assert len(loaded) == 531
    assert "server_args.py" in loaded.notes[0]


def test_version_file_stands_in_for_metadata(tmp_path: pathlib.Path) -> None:
    venv = make_venv(tmp_path, "structs", "1")
    packages = venv / "lib/python3.11/site-packages"
    (packages / "sglang-1.dist-info" / "METADATA").unlink()
    (packages / "sglang" / "_version.py").write_text("__version__: str\n__version__ = version = '7.8.9'\n")
    assert schema.find(str(venv)) == (str(packages), "7.8.9")


def test_without_venv_the_table_of_that_version(tmp_path: pathlib.Path) -> None:
    assert len(schema.load(None, "0.5.9")) == 331
    near = schema.load(None, "0.5.13")
    assert (near.version, near.source, len(near)) == ("0.5.13", "shipped", 331)
    assert "0.5.13" in near.notes[0] and "0.5.9" in near.notes[0]


def test_missing_things_are_told_apart(tmp_path: pathlib.Path) -> None:
    with pytest.raises(LlmHostError) as caught:
        schema.load(str(tmp_path / "nowhere"), "0.5.23")
    assert caught.value.reason == "venv_missing"
    (tmp_path / "empty").mkdir()
    with pytest.raises(LlmHostError) as caught:
        schema.load(str(tmp_path / "empty"), "0.5.23")
    assert caught.value.reason == "sglang_missing"
    for name in ("nowhere", "empty"):
        stand_in = schema.load(str(tmp_path / name), "0.5.23", write_cache=False, absent_ok=True)
        assert (len(stand_in), stand_in.source) == (531, "shipped")
        assert "check mode" in stand_in.notes[0]
    with pytest.raises(LlmHostError):
        schema.load(str(tmp_path / "nowhere"), None, absent_ok=True)


def test_sources_that_this_python_cannot_read_fall_back_to_the_same_version_only(tmp_path: pathlib.Path) -> None:
    for version, readable in (("0.5.23", True), ("0.5.22", False)):
        venv = make_venv(tmp_path, "structs", version, name=version)
        source = venv / "lib/python3.11/site-packages/sglang/srt/server_args.py"
        source.write_text(source.read_text() + "\nsyntax of a later Python ->\n")
        if readable:
            loaded = schema.load(str(venv))
            assert (len(loaded), loaded.source) == (531, "shipped")
        else:
            with pytest.raises(LlmHostError) as caught:
                schema.load(str(venv))
            assert caught.value.reason == "schema_unreadable"


def test_versions_in_order() -> None:
    order = ["0.4.6", "0.4.6.post5", "0.4.7", "0.5.9rc1", "0.5.9", "0.5.10", "0.5.23", "1.0"]
    assert sorted(order, key=version_key) == order
    assert version_key("0.5.23+cu130") == version_key("0.5.23")
    assert in_range("0.5.9", "0.5.9", "0.5.10") and not in_range("0.5.10", "0.5.9", "0.5.10")
    assert in_range("0.5.9", None, None) and not in_range("0.5.8", "0.5.9", None)
