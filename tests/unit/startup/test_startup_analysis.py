# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole reading: incremental, without an exception on any bytes, without secrets, run after run."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.analysis import Analysis
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.text import diagnose, newest_first
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.verdict import Facts, Verdict, conclude
from hypothesis import given, settings
from hypothesis import strategies as st

START = (
    "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/models/a', port=30000, "
    "api_key='sk-abcdefgh12345', node_rank=0)\n"
)
READY = (
    START + "[2026-01-01 10:00:05] Load weight begin. avail mem=78.50 GB\n[2026-01-01 10:00:15] Load weight end. "
    "type=A, avail mem=60.00 GB\n"
    "[2026-01-01 10:00:20] max_total_num_tokens=1000\n[2026-01-01 10:00:21] INFO:     Uvicorn running on "
    "http://127.0.0.1:30000 (Press CTRL+C to quit)\n"
    '[2026-01-01 10:00:22] INFO:     127.0.0.1:1 - "GET /get_model_info HTTP/1.1" 200 OK\n[2026-01-01 '
    "10:00:23] The server is fired up and ready to roll!\n"
)
CRASH = (
    "[2026-01-01 10:00:06 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/v/sglang/srt/models/llama.py", line 9, in load_weights\n    load()\n'
    "KeyError: 'model.norm.weight'\n\n[2026-01-01 10:00:06] Received sigquit from a child process. It "
    "usually means the child failed.\n"
)
WORDS = st.sampled_from(
    [
        START,
        READY,
        CRASH,
        "\n",
        "\r",
        "Traceback (most recent call last):\n",
        '  File "/a.py", line 3, in f\n',
        "ValueError: x\n",
        "During handling of the above exception, another exception occurred:\n",
        "[2026-01-01 10:00:05 TP0] Load weight begin. avail mem=3 GB\n",
        "100%|####| 12/12 [00:01<00:00, 1.2it/s]",
        "Killed\n",
        "sglang-1  | ",
        "\x1b[31m",
        "\xff",
        "FAILED: [code=1] a.o\n",
        "  continued\n",
        "[Gloo] Rank 8 is NOT connected to: [1]\n",
        "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n",
        "error",
        "\x00",
        "é\u2588",
    ]
)
STREAMS = st.lists(st.one_of(WORDS, st.text(max_size=12)), max_size=25).map(
    lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
)


def read(data: bytes, sizes: list[int]) -> Verdict:
    analysis, pos = Analysis(), 0
    for size in [*sizes, len(data)]:
        analysis.feed(data[pos : pos + size])
        pos += size
    analysis.close()
    return conclude(analysis)


@settings(max_examples=60, deadline=None)
@given(STREAMS, st.lists(st.integers(1, 200), max_size=30))
def test_pieces_do_not_matter(data: bytes, sizes: list[int]) -> None:
    whole = read(data, [])
    assert read(data, sizes) == whole
    assert read(data, [1] * len(data)) == whole


@settings(max_examples=60, deadline=None)
@given(st.one_of(STREAMS, st.binary(max_size=2000)))
def test_any_bytes_have_a_verdict(data: bytes) -> None:
    verdict = diagnose(data)
    assert verdict.outcome in ("ready", "failed", "in_progress", "crashed_after_ready")
    assert (verdict.cause is None) == (verdict.outcome == "ready")


@settings(max_examples=60, deadline=None)
@given(STREAMS)
def test_no_secret_in_the_verdict(data: bytes) -> None:
    verdict = diagnose(
        data + b"RuntimeError: bad header Authorization: Bearer abcdefgh12345678 and --api-key sk-abcdefgh12345\n"
    )
    assert "abcdefgh12345" not in repr(verdict)


@settings(max_examples=60, deadline=None)
@given(STREAMS)
def test_looking_at_every_line_gives_the_same(data: bytes) -> None:
    fast = read(data, [])
    analysis = Analysis()
    analysis.splitter.everything = True
    for number in range(0, len(data), 7):
        analysis.splitter.everything = True
        analysis.feed(data[number : number + 7])
    analysis.close()
    slow = conclude(analysis)
    assert (fast.outcome, fast.cause) == (slow.outcome, slow.cause)


def test_ready() -> None:
    verdict = diagnose(READY.encode())
    assert (verdict.outcome, verdict.cause, verdict.phase) == ("ready", None, "runtime")
    seconds = {entry["phase"]: entry["seconds"] for entry in verdict.timeline}
    assert seconds["load_weights"] == 10
    assert seconds["warmup"] == 2
    assert {"at": "load_begin", "rank": "", "avail_mem_gb": 78.5} in verdict.memory


@pytest.mark.parametrize("count", range(1, len(READY.splitlines())))
def test_nothing_before_the_marker_is_ready(count: int) -> None:
    assert diagnose("".join(READY.splitlines(True)[:count]).encode()).outcome == "in_progress"


def test_an_earlier_run_does_not_count() -> None:
    assert diagnose((READY + START).encode()).outcome == "in_progress"
    verdict = diagnose((READY + START + CRASH).encode())
    assert (verdict.outcome, verdict.cause) == ("failed", "weight_mismatch")
    assert diagnose((START + CRASH + READY).encode()).outcome == "ready"


def test_a_crash_loop_has_the_cause_of_its_first_run() -> None:
    verdict = diagnose((START + CRASH + START + CRASH + START).encode())
    assert (verdict.outcome, verdict.cause) == ("failed", "weight_mismatch")
    assert verdict.detail["earlier_failed_runs"] == 2


def test_fired_up_with_a_taken_port_is_a_failure() -> None:
    bind = (
        "[2026-01-01 10:00:21] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', "
        "30000): address already in use\n"
    )
    log = READY.replace("[2026-01-01 10:00:22]", bind + "[2026-01-01 10:00:22]", 1)
    verdict = diagnose(
        (log + "[2026-01-01 10:00:24] Subprocess scheduler_0 (pid=7) crashed with exit code -9.\n").encode()
    )
    assert (verdict.outcome, verdict.cause, verdict.detail["port"]) == ("failed", "port_in_use", 30000)


def test_skip_server_warmup_needs_the_socket_too() -> None:
    start = START.replace("node_rank=0", "node_rank=0, skip_server_warmup=True")
    fired = "[2026-01-01 10:00:23] The server is fired up and ready to roll!\n"
    assert diagnose((start + fired).encode()).outcome == "in_progress"
    assert (
        diagnose(
            (start + fired + "INFO:     Uvicorn running on http://:30000 (Press CTRL+C to quit)\n").encode()
        ).outcome
        == "ready"
    )


def test_a_later_node_is_ready_with_its_health_server() -> None:
    start = START.replace("node_rank=0", "node_rank=1, nnodes=2")
    log = start + "[2026-01-01 10:00:23] Dummy health check server started in background thread at 127.0.0.1:30000\n"
    assert diagnose(log.encode()).outcome == "ready"


def test_a_crash_after_ready() -> None:
    verdict = diagnose((READY + CRASH).encode())
    assert (verdict.outcome, verdict.cause) == ("crashed_after_ready", "weight_mismatch")


def test_a_stop_after_ready_is_no_crash() -> None:
    stop = (
        "[2026-01-01 11:00:00] Gracefully exiting... Remaining number of requests 0\n[2026-01-01 11:00:01] "
        "kill_process_tree called: include_parent=True\n"
    )
    assert diagnose((READY + stop).encode()).outcome == "ready"


def test_what_users_write_is_no_word_of_the_server() -> None:
    """--log-requests prints prompts, and they may hold anything."""
    prompt = "[2026-01-01 10:00:30] Receive: obj=GenerateReqInput(text='Received sigquit from a child process. %s')"
    log = READY + prompt % "Scheduler hit an exception: Traceback (most recent call last):" + "\n"
    assert diagnose(log.encode()).outcome == "ready"
    verdict = diagnose((log + CRASH).encode())
    assert (verdict.outcome, verdict.cause) == ("crashed_after_ready", "weight_mismatch")


def test_every_rank_is_named_once() -> None:
    crashes = "".join(CRASH.replace("TP1", "TP%d" % rank) for rank in range(8))
    verdict = diagnose((START + crashes).encode())
    assert verdict.evidence["ranks"] == ["TP%d" % rank for rank in range(8)]
    assert verdict.evidence["line"] == "KeyError: 'model.norm.weight'"


def test_secondary_texts_are_discarded() -> None:
    first = "[2026-01-01 10:00:06] Received sigquit from a child process. It usually means the child failed.\n"
    verdict = diagnose((START + first + CRASH).encode())
    assert verdict.evidence["line"] == "KeyError: 'model.norm.weight'"
    assert any("sigquit" in text for text in verdict.evidence["discarded"])


def test_an_unknown_exception_is_unknown_and_named() -> None:
    log = (
        START
        + 'Traceback (most recent call last):\n  File "/w/mine.py", line 1, in main\nmine.OddError: something new\n'
    )
    verdict = diagnose(log.encode())
    assert (verdict.outcome, verdict.cause) == ("failed", "unknown")
    assert verdict.evidence["line"] == "mine.OddError: something new"
    assert verdict.message == "mine.OddError: something new"


def test_interleaved_ranks_do_not_hide_the_exception() -> None:
    log = (
        START + "[2026-01-01 10:00:06 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/v/sglang/srt/models/llama.py", line 9, in load_weights\n'
        "[2026-01-01 10:00:06 TP0] Load weight end. type=A\nLoading shards:  50%|#####     | 2/4 "
        "[00:01<00:01,  1.2it/s]\n    load()\n"
        "[rank2]:[W ProcessGroupNCCL.cpp:1] Warning: process group has NOT been destroyed\n"
        "KeyError: 'model.norm.weight'\n"
    )
    verdict = diagnose(log.encode())
    assert (verdict.cause, verdict.evidence["ranks"]) == ("weight_mismatch", ["TP1"])


def test_two_containers_in_one_stream_keep_their_tracebacks_apart() -> None:
    one = [
        "a  | Traceback (most recent call last):",
        'a  |   File "/v/sglang/x.py", line 9, in f',
        "a  | OSError: [Errno 28] No space left on device",
    ]
    other = [
        "b  | Traceback (most recent call last):",
        'b  |   File "/v/sglang/y.py", line 9, in g',
        "b  | ModuleNotFoundError: No module named 'zzz'",
    ]
    mixed = [line for pair in zip(one, other) for line in pair]
    verdict = diagnose("\n".join(mixed).encode())
    assert (verdict.cause, verdict.evidence["source"]) == ("disk_full", "a")


def test_a_log_with_the_newest_line_first() -> None:
    log = "".join(reversed((START + CRASH).splitlines(True)))
    lines = [line if line.startswith("[") else "[2026-01-01 10:00:06 TP1] " + line for line in log.splitlines(True)]
    many = "".join("[2026-01-01 09:%02d:00] something\n" % minute for minute in range(59, 40, -1))
    assert newest_first((("".join(lines)) + many).encode())
    assert not newest_first(READY.encode())


def test_words_in_the_dump_of_the_arguments_are_nothing() -> None:
    log = START.replace(
        "node_rank=0",
        "node_rank=0, watchdog_timeout=300, log_level_http='error', crash_dump_folder='RuntimeError: "
        "CUDA out of memory'",
    )
    assert diagnose(log.encode()).outcome == "in_progress"


def test_memory_and_failures_are_bounded() -> None:
    analysis = Analysis()
    for number in range(3000):
        analysis.feed(
            b"ValueError: number %d\n[2026-01-01 10:00:00 TP%d] Load weight begin. avail mem=%d GB\n"
            % (number, number, number)
        )
    assert len(analysis.collector.failures) <= 300
    assert len(analysis.tracker.ranks) <= 1024
    assert len(analysis.tracker.memory) <= 400
    assert len(analysis.tail) <= 65536
    assert analysis.collector.failures[0].text == "ValueError: number 0"


def test_the_tail_is_bounded_and_masked() -> None:
    verdict = diagnose((START * 3000).encode())
    assert len(verdict.log_tail) <= 65536
    assert "sk-abcdefgh12345" not in verdict.log_tail
    assert replace(verdict, log_tail="").log_tail == ""


@pytest.mark.parametrize("unit", ["a-", "key-", "a.b.", "token=", "requires ", "'"])
def test_the_verdict_on_an_odd_line_takes_little_time(unit: str) -> None:
    data = ("ValueError: " + (unit * 40000)[:40000] + "\n").encode()
    began = time.process_time()
    diagnose(data)
    assert time.process_time() - began < 3.0


def test_the_tail_of_the_log_is_cut_to_what_people_read() -> None:
    verdict = diagnose((START + "server_args={" + "'a': 1, " * 4000 + "}\n" + CRASH).encode())
    assert max(map(len, verdict.log_tail.splitlines())) <= 503
    assert "KeyError: 'model.norm.weight'" in verdict.log_tail


def test_the_peer_that_a_rank_misses_is_the_scheduler_that_is_gone() -> None:
    log = START + (
        "[2026-01-01 10:00:06 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/v/sglang/srt/managers/tp_worker.py", line 9, in __init__\n    call()\n'
        "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [192.0.2.1]:4\n\n"
    )
    analysis = Analysis()
    analysis.feed(log.encode())
    analysis.close()

    def seen(*dead: str) -> str | None:
        return conclude(analysis, "failed", Facts(dead_schedulers=dead)).cause

    assert seen("sglang::scheduler_TP1 (pid 7)") == "scheduler_killed"
    assert seen("sglang::scheduler_TP01 (pid 7)") == "scheduler_killed"  # another rank than TP0
    assert seen("sglang::scheduler_TP0 (pid 6)") == "peer_rank_died"  # it died of what it missed
    assert seen() == "peer_rank_died"
