# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes -> lines: whatever the pieces, the same lines; prefixes, colours, bars, over-long lines."""

from __future__ import annotations

import time

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.lines import Raw, Splitter, parse, pieces, wanted
from hypothesis import given, settings
from hypothesis import strategies as st


def split(data: bytes, sizes: list[int], limit: int = 64, everything: bool = True) -> list[tuple[bytes, int, int]]:
    splitter = Splitter(limit=limit, everything=everything)
    out, pos = [], 0
    for size in [*sizes, len(data)]:
        out += [(raw.data, raw.offset, raw.number) for raw in splitter.feed(data[pos : pos + size])]
        pos += size
    out += [(raw.data, raw.offset, raw.number) for raw in splitter.close()]
    return out


LINES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from(
            [
                b"an error here",
                b"\n",
                b"\r",
                b"\r\n",
                b"x" * 63,
                b"y" * 200 + b"rror",
                b"Traceback (most recent",
                b"ok",
                b"\xff\xfe",
                b"100%|##| 1/2",
            ]
        ),
    ),
    max_size=40,
).map(b"\n".join)


@settings(max_examples=200, deadline=None)
@given(LINES, st.lists(st.integers(1, 50), max_size=60), st.booleans())
def test_pieces_do_not_matter(data: bytes, sizes: list[int], everything: bool) -> None:
    whole = split(data, [], everything=everything)
    assert split(data, sizes, everything=everything) == whole
    assert split(data, [1] * len(data), everything=everything) == whole


@settings(max_examples=200, deadline=None)
@given(LINES)
def test_lines_are_those_of_a_plain_split(data: bytes) -> None:
    plain, number, start = [], 1, 0
    for pos in range(len(data) + 1):
        if pos == len(data) or data[pos : pos + 1] in (b"\n", b"\r"):
            if pos > start:
                plain.append((data[start:pos][:64], start, number))
            number += data[pos : pos + 1] == b"\n"
            start = pos + 1
    assert split(data, []) == plain
    assert split(data, [], everything=False) == [one for one in plain if wanted(one[0])]


def test_an_endless_line_takes_no_memory() -> None:
    splitter = Splitter(everything=True)
    for _count in range(200):
        assert list(splitter.feed(b"x" * 65536)) == []
    assert len(splitter.partial) == splitter.limit
    found = list(splitter.feed(b"\nnext error\n"))
    assert [(len(raw.data), raw.offset, raw.number) for raw in found] == [
        (splitter.limit, 0, 1),
        (10, 200 * 65536 + 1, 2),
    ]


STAMP = "[2026-01-02 03:04:05 DP1 TP4] "


@pytest.mark.parametrize(
    ("before", "source"),
    [
        ("", ""),
        ("sglang-1  | ", "sglang-1"),
        ("inference_engine | ", "inference_engine"),
        ("Mar 18 11:23:46 host1 sglang[931930]: ", "sglang[931930]"),
        ("Mar  8 11:23:46 unit[9]: ", "unit[9]"),
        ("2026-01-02T03:04:05.123456789Z stderr F ", ""),
        ("2026-01-02T03:04:05.1Z ", ""),
        ("ERROR 2026-01-02T03:04:05.123Z ", ""),
        ("(SGLangActor pid=1234, ip=10.0.0.1) ", "SGLangActor pid=1234, ip=10.0.0.1"),
        ("[rank3]: ", ""),
        ("[1,0]<stderr>: ", ""),
        ("> ", ""),
        ("\x1b[32m", ""),
        ("[32m", ""),
        ("[pod/sglang-0/sglang] 2026-01-02T03:04:05Z ", "sglang-0/sglang"),
        ("> sglang-1  | 2026-01-02T03:04:05Z ", "sglang-1"),
    ],
)
def test_prefixes_of_others_are_taken_off(before: str, source: str) -> None:
    line = parse(Raw((before + STAMP + "Load weight begin. avail mem=1.0 GB").encode(), 7, 9))
    assert line.text == "Load weight begin. avail mem=1.0 GB"
    assert (line.rank, line.source, line.stamped, line.offset, line.number) == ("DP1 TP4", source, True, 7, 9)


@pytest.mark.parametrize(
    ("text", "rest", "rank"),
    [
        ("[gpu_id=0] Load weight begin.", "Load weight begin.", "GPU0"),
        ("[gpu=3] Load weight begin.", "Load weight begin.", "GPU3"),
        ("[16:29:01 TP0] Load weight begin.", "Load weight begin.", "TP0"),
        ("[xxxxxx TP6] Load weight begin.", "Load weight begin.", "TP6"),
        ("[2026-01-01 10:00:00] INFO server_args.py:1669: server_args={", "server_args={", ""),
        ("[2026-01-01 10:00:00] INFO:     Uvicorn running on http://x", "Uvicorn running on http://x", ""),
        ("2026-01-01 14:52:44 INFO 228 [engine.py:420] Load weight begin.", "Load weight begin.", ""),
        ("ERROR 16:58:08 scheduler.py:2626] Scheduler hit an exception", "Scheduler hit an exception", ""),
        ("INFO 03-18 11:23:44 __init__.py:190] Automatically detected", "Automatically detected", ""),
    ],
)
def test_stamps_of_sglang(text: str, rest: str, rank: str) -> None:
    line = parse(Raw(text.encode(), 0, 1))
    assert (line.text, line.rank, line.stamped) == (rest, rank, True)


def test_times_are_seconds() -> None:
    one = parse(Raw(b"[2026-02-28 23:59:59] a", 0, 1)).time
    other = parse(Raw(b"[2026-03-01 00:00:01] a", 0, 1)).time
    assert one is not None and other is not None
    assert other - one == 2


def test_a_word_glued_to_a_bar_is_a_line_of_its_own() -> None:
    line = parse(Raw(b"13%|#3 | 3/23 [00:11<00:55,  2.79s/it]Failed: Cuda error", 0, 1))
    assert [one.text for one in pieces(line)] == ["13%|#3 | 3/23 [00:11<00:55,  2.79s/it]", "Failed: Cuda error"]


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
)
def test_any_bytes_are_a_line(data: bytes) -> None:
    for one in pieces(parse(Raw(data, 0, 1))):
        assert isinstance(one.text, str)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "> ",
        "x | ",
        "[",
        "\x1b[",
        "0%|",
        'File "',
        "A.",
        "a.b.",
        "[2026-01-01 10:00:00",
        "E",
        "Error: ",
        "1,",
        "(a pid=",
        "'",
        "-",
        "TP0 ",
        "Caught signal ",
    ],
)
def test_reading_takes_linear_time(unit: str) -> None:
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.analysis import Analysis

    def seconds(size: int) -> float:
        data = ((unit * size)[:size] + " error Traceback ( %|\n").encode()
        best = 9.0
        for _try in range(3):
            began = time.perf_counter()
            analysis = Analysis()
            analysis.feed(data)
            analysis.close()
            best = min(best, time.perf_counter() - began)
        return best

    seconds(1000)
    small, large = seconds(4000), seconds(32000)
    assert large < 0.25 or large < 16 * max(small, 0.001)
