# SPDX-License-Identifier: GPL-3.0-or-later
"""Every code block of README and docs holds, and each check of a block sees one that does not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "script/lib"))

import doc_blocks  # noqa: E402 (found by the line above)
import docs_pages  # noqa: E402

BLOCKS = doc_blocks.blocks(ROOT)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_the_block_holds(block: doc_blocks.Block) -> None:
    assert doc_blocks.wrong(ROOT, block) == []


def test_blocks_are_found_where_they_are() -> None:
    pages = {block.page for block in BLOCKS}
    assert {"README.md", "docs/docsite/rst/guide_deploy.rst", "roles/sglang_server/README.md"} <= pages
    for path in doc_blocks.pages(ROOT):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        seen = sum(block.page == str(path.relative_to(ROOT)) for block in BLOCKS)
        marks = text.count(".. code-block::") if path.suffix == ".rst" else len(re.findall(r"(?m)^ *```", text)) // 2
        assert seen == marks, path


@pytest.mark.parametrize(
    ("language", "text", "word"),
    [
        ("yaml", "a: [\n", "expected"),
        ("yaml", "sglang_server_prot: 1\n", "sglang_server_prot"),
        ("yaml", "- hosts: x\n  vars:\n    sglang_runtime_nothing: 1\n", "sglang_runtime_nothing"),
        ("shell", "ansible-playbook llmhost.sglang.deplyo\n", "deplyo"),
        ("shell", "script/nothing\n", "script/nothing"),
        ("shell", "rm -rf /\n", "rm is not"),
        ("shell", "ansible-playbook extensions/awx/no.yml\n", "no.yml"),
        ("shell", "cp $a b\n", "SC2086"),
        ("json", "{]\n", "Expecting"),
        ("ini", "x = 1\n", "section"),
        ("console", "x\n", "language"),
        ("text", "\n", "empty"),
    ],
)
def test_a_block_that_does_not_hold_is_seen(language: str, text: str, word: str) -> None:
    assert word in "\n".join(doc_blocks.wrong(ROOT, doc_blocks.Block("x.md", 1, language, text)))


def test_pages_made_from_the_code_are_fresh() -> None:
    assert docs_pages.stale(ROOT) == [], "run script/generate"


def test_arrows_that_follow_from_others_are_left_out() -> None:
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert docs_pages.reduced(edges) == [("a", "b"), ("b", "c")]
    assert docs_pages.depth(edges, "a") == 3


def test_every_page_is_in_the_table_of_contents() -> None:
    import yaml

    extra = yaml.safe_load((ROOT / "docs/docsite/extra-docs.yml").read_text())
    listed = [name for section in extra["sections"] for name in section["toctree"]]
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "docs/docsite/rst").glob("*.rst"))


def test_nothing_of_a_private_machine_is_named() -> None:
    for path in doc_blocks.pages(ROOT):
        if path.exists():
            assert str(ROOT) not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("path", [path for path in doc_blocks.pages(ROOT) if path.suffix == ".md"], ids=str)
def test_a_link_into_the_tree_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_readme_names_what_is_tested() -> None:
    """Its table against the locks and the commands."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| ([^|]+?) \| ([^|]+?) \|$", text))
    cores = {
        re.search(
            r"(?m)^ansible-core==(2\.\d+)\.[\d.]+(?: ;.*>= '3\.12'.*)?$",
            (ROOT / "script/requirements" / name).read_text(),
        )[1]
        for name in ("oldest.txt", "dev.txt")
    }
    assert set(re.findall(r"2\.\d+", rows["ansible-core"])) == cores
    floor = re.search(r'requires_ansible: ">=(2\.\d+)', (ROOT / "meta/runtime.yml").read_text())[1]
    assert floor in cores, "the oldest core that is tested is the oldest that is admitted"
    pythons = re.search(r"for version in (3\.9[ 0-9.]+); do", (ROOT / "script/lib/common.sh").read_text())[1]
    assert rows["Python of targets, for the code of modules"].replace(",", "") == pythons
    shipped = (
        path.stem[1:].replace("_", ".") for path in (ROOT / "plugins/module_utils/_options/tables").glob("v*.py")
    )
    assert all(version in rows["options of SGLang"] for version in shipped)


def test_the_readme_names_every_playbook_module_and_role() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = [path.stem for path in (ROOT / "plugins/modules").glob("*.py")]
    names += [path.stem for path in (ROOT / "playbooks").glob("*.yml") if not path.stem.endswith(".meta")]
    names += [path.parent.parent.name for path in (ROOT / "roles").glob("*/meta/main.yml")]
    missing = [name for name in names if not re.search(r"`(?:llmhost\.sglang\.)?%s`" % name, text)]
    assert missing == []
