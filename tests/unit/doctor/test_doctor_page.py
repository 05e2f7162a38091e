# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of the doctor: lines for a terminal, and a page that hostile text cannot change."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import doctor_world as world
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.filter.doctor_report import doctor_report
from ansible_collections.llmhost.sglang.plugins.filter.doctor_table import doctor_table
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor import checks

HOSTILE = "<script>alert(1)</script> {{ 7 * 7 }} --api-key sk-verysecret123456 \x1b[31m"


def result(host: str, place: str, **changes: Any) -> dict[str, Any]:
    found = checks.examine(world.view(place, **changes), checks.FAMILIES)
    return {"host": host, "place": place, "findings": [f.as_dict() for f in found], "summary": checks.summary(found)}


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_table_tells_what_is_wrong_and_what_to_do_the_worst_first() -> None:
    node = result("pve", "node", ha=True)
    ct = result("ct129", "container", libraries={**world.LIBRARIES, "libcuda.so.1": "590.48.01"}, clock=Exception)
    lines = doctor_table([node, ct])
    assert lines[0].startswith("1 broken, 1 not in order, 1 could not be seen, ")
    assert [line.split()[:3] for line in lines[1::2]][:2] == [["FAIL", "drv_skew", "ct129"], ["WARN", "ct_ha", "pve"]]
    assert "590.48.01" in lines[1] and lines[2].strip().startswith("-> Install the user space of exactly")
    assert lines[-1] == "could not be seen: clock on ct129"


def test_the_table_shows_the_statuses_that_are_asked_for() -> None:
    views = [result("pve", "node", ha=True)]
    assert not any(line.startswith("OK") for line in doctor_table(views))
    assert sum(line.startswith("OK") for line in doctor_table(views, status=["ok"])) > 20
    assert len(doctor_table(views, status=["fail"])) == 1


def test_a_page_holds_everything_and_no_script() -> None:
    page = doctor_report([result("pve", "node", ha=True), result("ct129", "container")], name="ct129")
    seen = Page()
    seen.feed(page)
    assert not {"script", "img", "link", "iframe"} & set(seen.tags)
    words = " ".join(seen.words)
    for check in checks.CHECKS:
        if set(check.places) & {"node", "container"}:
            assert check.id in words
    assert "ha-manager" in words and "Doctor: ct129" in words
    assert "http://" not in page and "https://" not in page


def test_hostile_text_stays_text_and_secrets_are_masked() -> None:
    ct = result("ct129", "container", strays=[{"pid": 1, "comm": HOSTILE, "ppid": 1, "unit": None}])
    page = doctor_report([ct], name=HOSTILE)
    assert "<script>" not in page and "{{" not in page.split("</style>")[1] and "verysecret" not in page
    assert "&lt;script&gt;" in page and "\x1b" not in page
    assert "verysecret" not in "\n".join(doctor_table([ct]))


@pytest.mark.parametrize("bad", [None, "x", [1], [{"gpus": []}], {"findings": []}])
def test_other_input_is_refused_by_name(bad: Any) -> None:
    for use in (doctor_report, doctor_table):
        with pytest.raises(AnsibleFilterError, match=r"doctor_info"):
            use(bad)
