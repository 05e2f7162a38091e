# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a start: what stands in it, and what never does."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmhost.sglang.plugins.filter.start_report import FilterModule
from ansible_collections.llmhost.sglang.plugins.plugin_utils import _report
from hypothesis import given, settings
from hypothesis import strategies as st
from report_support import failed, phase, plan

VOID = {"meta", "br"}
report = FilterModule().filters()["start_report"]


class Page(HTMLParser):
    """Refuses what is not closed in order; keeps tags and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def of(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_tells_the_verdict_and_what_to_change() -> None:
    page = Page(report(failed(), "gpu1", "chat", plan()))
    for words in (
        "chat on gpu1",
        "failed",
        "no memory is left for the KV cache",
        "kv_cache_no_memory",
        "Not enough memory. Please try",
        "line 212",
        "TP0, TP1",
        "mem_fraction_static: 0.9",
        "speculative_algorithm: leave it out",
        "stop the other server",
        "A larger --shm-size",
        "python (pid 7) holds 30000 MiB.",
        "weights: 38.00 GiB",
        "54 s",
    ):
        assert words in page.text, words


def test_draws_each_rank_from_when_it_entered_a_phase() -> None:
    page = Page(report(failed()))
    bars = [(float(one["x"][:-1]), float(one["width"][:-1])) for one in page.of("rect") if one.get("height") == "12"]
    whole = 54.0
    assert bars == [
        (0.0, pytest.approx(100 * 12 / whole, abs=0.01)),  # the launcher, until the ranks begin
        (pytest.approx(100 * 12 / whole, abs=0.01), pytest.approx(100 * 40 / whole, abs=0.01)),
        (pytest.approx(100 * 52 / whole, abs=0.01), pytest.approx(100 * 2 / whole, abs=0.01)),
        (pytest.approx(100 * 15 / whole, abs=0.01), pytest.approx(100 * 38.5 / whole, abs=0.01)),
        (pytest.approx(100 * 53.5 / whole, abs=0.01), pytest.approx(100 * 0.5 / whole, abs=0.01)),
    ]


def test_memory_is_that_of_the_rank_with_least() -> None:
    page = Page(report(failed()))
    assert "rank TP1, which had least" in page.text
    assert "45.50" in page.text and "46.00" not in page.text


def test_names_the_instance_by_its_unit_where_nobody_does() -> None:
    assert "<h1>chat</h1>" in report(failed())
    assert "<h1>SGLang on gpu1</h1>" in report({"outcome": "failed"}, host="gpu1")


def test_plan_against_start_marks_what_is_off() -> None:
    compared = [
        {"item": "weights", "text": "weights", "unit": "GiB", "planned": 38.0, "actual": 39.5, "off_percent": -3.8},
        {"item": "left", "text": "left", "unit": "GiB", "planned": 3.5, "actual": 3.5, "off_percent": 0.0},
    ]
    page = report(failed(plan_compared=compared, plan_drift=compared[:1]))
    assert "<strong>-3.8 %</strong>" in page
    assert "<strong>+0.0 %</strong>" not in page and "+0.0 %" in page


def test_a_card_that_is_too_small_shows_what_is_missing() -> None:
    short = plan()
    short["budget"][0].update(missing_gib=4.0)
    assert "4.00 GiB missing" in report(failed(), plan=short)


def test_loads_nothing_and_runs_nothing() -> None:
    hostile = "<script>alert(1)</script><img src=http://192.0.2.1/x onerror=x>\" onload='x' {{ lookup('env') }} {% x %}"
    verdict = failed(message=hostile, log_tail=hostile, cause=hostile, docs=hostile, detail={hostile: hostile})
    verdict["evidence"].update(line=hostile, outside=hostile, ranks=[hostile])
    verdict["timeline"] = [phase(hostile, 0, 1, **{hostile: 0.0})]
    verdict["memory"][0].update(rank=hostile, at=hostile)
    verdict["remedies"] = [{"text": hostile, "arguments": {hostile: hostile}}]
    named = plan()
    named["budget"][0].update(name=hostile)
    text = report(verdict, hostile, hostile, named)
    page = Page(text)
    assert {tag for tag, _attributes in page.tags} <= {
        "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "p", "span", "section",
        "code", "pre", "ol", "ul", "li", "br", "svg", "line", "text", "rect", "div", "table", "tr", "th", "td",
        "details", "summary", "footer",
    }  # fmt: skip
    for _tag, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on")}
        assert not {"href", "src"} & set(attributes)
    assert "default-src 'none'" in next(one["content"] for one in page.of("meta") if "http-equiv" in one)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    # handed on in a variable, it must not be taken for a template
    assert not re.search(r"\{\{|\{%|\{#", text)


def test_secrets_are_masked_wherever_they_stand() -> None:
    secrets = ["hf_abcdefghijklmnop", "sk-abcdefghijklmnop"]
    line = "--api-key sk-abcdefghijklmnop HF_TOKEN=hf_abcdefghijklmnop"
    verdict = failed(message=line, log_tail=line, detail={"api_key": "verysecretvalue", "command": line})
    verdict["evidence"].update(line=line, discarded=[line], frames=[line], outside=[{"says": line}])
    verdict["remedies"] = [{"text": line, "arguments": {"api_key": "verysecretvalue"}, "host_action": line}]
    page = report(verdict, plan=plan(verdict=line))
    for secret in (*secrets, "verysecretvalue"):
        assert secret not in page


def test_a_page_has_an_end() -> None:
    big = "x " * 500_000
    verdict = failed(
        message=big, log_tail=big, remedies=[{"text": big}] * 1000, detail={str(n): big for n in range(99)}
    )
    verdict["timeline"] = [phase("load_weights", 0, 5, **{"TP%d" % n: float(n % 3) for n in range(500)})]
    page = report(verdict)
    assert len(page) < 1_000_000
    assert "484 more ranks are not drawn" in page


@pytest.mark.parametrize("wrong", [None, "failed", ["failed"], 3])
def test_says_what_it_takes(wrong: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="server_wait"):
        report(wrong)
    with pytest.raises(AnsibleFilterError, match="memory_plan_info"):
        report({}, plan=wrong or "x")


def test_durations_as_people_say_them() -> None:
    said = [_report.duration(seconds) for seconds in (0, 3.21, 59.6, 119, 120, 3725, 7200)]
    assert said == ["0.0 s", "3.2 s", "60 s", "119 s", "2 min", "1 h 2 min", "2 h 0 min"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["outcome", "cause", "phase", "message", "evidence", "detail", "remedies", "not_remedies", "memory", "timeline",
     "log_tail", "seconds", "plan_compared", "plan_drift", "unit", "retryable"]
)  # fmt: skip


@settings(max_examples=60)
@given(st.dictionaries(KEYS, VALUES), st.dictionaries(st.sampled_from(["budget", "verdict", "sizes"]), VALUES))
def test_whatever_comes_in_a_page_comes_out(verdict: dict[str, Any], plan: dict[str, Any]) -> None:
    Page(report(verdict, "h", "n", plan))


@settings(max_examples=60)
@given(
    st.lists(
        st.fixed_dictionaries({}, optional={"began": VALUES, "seconds": VALUES, "by_rank": VALUES, "phase": VALUES})
    ),
    st.lists(st.fixed_dictionaries({"avail_mem_gb": VALUES}, optional={"at": VALUES, "rank": VALUES})),
)
def test_whatever_the_numbers_are_a_page_comes_out(timeline: list[Any], memory: list[Any]) -> None:
    Page(report(failed(timeline=timeline, memory=memory)))
