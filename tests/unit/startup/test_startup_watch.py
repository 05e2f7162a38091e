# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch on real processes, files and ports."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import unit
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import watch as watch_module
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.verdict import Verdict
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.watch import Report
from startup_support import FakeUnit, free_port, wait_until

STAY = "\ntime.sleep(60)\n"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    units: list[FakeUnit] = []

    def make(program: str, **environment: str) -> FakeUnit:
        units.append(FakeUnit(tmp_path, program, **environment))
        return units[-1]

    yield make
    for one in units:
        one.stop()


def timed(one: FakeUnit, **options: Any) -> tuple[Verdict, float]:
    began = time.monotonic()
    verdict = one.watch(**options).run()
    return verdict, time.monotonic() - began


def test_ready(start: Any) -> None:
    one = start("args(); load(); time.sleep(0.3); serve(); health[0] = 200; fired()" + STAY, NAME="tiny")
    reports: list[Report] = []
    verdict = one.watch(reports, served_name="tiny").run()
    assert (verdict.outcome, verdict.cause) == ("ready", None)
    assert verdict.detail["served"] == ["tiny"]
    assert verdict.detail["listener"] == "own"
    assert one.process.poll() is None
    assert reports and all(report.outcome == "" for report in reports)


def test_a_server_that_is_ready_already_is_told_at_once(start: Any) -> None:
    one = start("args(); load(); serve(); health[0] = 200; fired()" + STAY)
    wait_until(lambda: b"fired up" in one.log.read_bytes())
    verdict, seconds = timed(one)
    assert verdict.outcome == "ready"
    assert seconds < 1.0


def test_application_startup_complete_is_not_ready(start: Any) -> None:
    one = start("args(); load(); line('INFO:     Application startup complete.'); serve()" + STAY)
    verdict, _seconds = timed(one, timeout_s=2.0)
    assert (verdict.outcome, verdict.phase) == ("timeout", "warmup")


def test_death_is_told_at_once(start: Any) -> None:
    one = start("args(); load(); time.sleep(1.0); open('/nonexistent/eplb.json')")
    watch = one.watch()
    verdict = watch.run()
    ended = time.monotonic()
    assert (verdict.outcome, verdict.cause) == ("failed", "file_missing")
    assert verdict.detail["exit_code"] == 1
    assert verdict.evidence["line"].startswith("FileNotFoundError")
    assert ended - watch.heard_at < 1.0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_death_by_a_signal(start: Any, number: int) -> None:
    one = start("args(); load(); time.sleep(0.5); os.kill(os.getpid(), %d)" % number)
    verdict, _seconds = timed(one)
    assert verdict.outcome == "failed"
    assert verdict.detail["signal"] == number
    assert verdict.cause == ("scheduler_killed" if number == signal.SIGKILL else "native_crash")


def test_a_stop_by_the_operator_is_no_failure(start: Any) -> None:
    one = start("args(); load(); time.sleep(0.5); os.kill(os.getpid(), signal.SIGTERM)" + STAY)
    verdict, _seconds = timed(one)
    assert (verdict.outcome, verdict.cause) == ("stopped", "stopped")


@pytest.mark.parametrize(
    ("code", "outcome", "cause"),
    [(-9, "failed", "scheduler_killed"), (-6, "failed", "native_crash"), (-15, "stopped", "stopped")],
)
def test_the_launcher_of_another_node_ends_well_over_a_dead_scheduler(
    start: Any, code: int, outcome: str, cause: str
) -> None:
    one = start(
        "args(', node_rank=1'); load(); time.sleep(0.5)\n"
        "line('Scheduler or DataParallelController 77 terminated with %d')" % code
    )
    verdict, _seconds = timed(one)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)
    assert verdict.detail.get("exit_code", 0) == 0  # the line may be read before the end is seen
    assert outcome == "stopped" or "77 terminated with %d" % code in verdict.message


def test_a_fatal_line_is_enough(start: Any) -> None:
    """A port that is taken: SGLang goes on for two minutes, the watch does not."""
    one = start(
        "args(); load(); time.sleep(0.3)\n"
        "line(\"ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', %d): "
        'address already in use" % port)' + STAY
    )
    verdict, seconds = timed(one)
    assert (verdict.outcome, verdict.cause) == ("failed", "port_in_use")
    assert verdict.detail["port"] == one.port
    assert seconds < 5
    assert one.process.poll() is None


def test_fired_up_over_the_port_of_another_process(start: Any, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = FakeUnit(tmp_path / "other", "serve(); health[0] = 200" + STAY)
    try:
        wait_until(lambda: b"Uvicorn" in other.log.read_bytes())
        one = start(
            "args(); load(); time.sleep(0.2); line('INFO:     Uvicorn running on x'); fired()" + STAY,
            PORT=str(other.port),
        )
        verdict, _seconds = timed(one)
        assert (verdict.outcome, verdict.cause) == ("failed", "port_in_use")
        assert verdict.detail["holders"][0]["pid"] == other.process.pid
        assert str(other.process.pid) in verdict.message
    finally:
        other.stop()


def test_a_parent_that_lives_on_over_a_dead_scheduler(start: Any) -> None:
    one = start("args(); load(); child(1.5)" + STAY)
    verdict, seconds = timed(one)
    assert (verdict.outcome, verdict.cause) == ("failed", "scheduler_killed")
    assert verdict.detail["dead_processes"][0].startswith("sglang::scheduler")
    assert seconds < 6
    assert one.process.poll() is None


def test_without_a_marker_the_port_decides(start: Any) -> None:
    quiet = start(
        "line(\"server_args=ServerArgs(port=%d, log_level='error')\" % port); health[0] = 200\n"
        "sys.stderr = open(os.devnull, 'w'); serve()" + STAY
    )
    verdict, seconds = timed(quiet)
    assert verdict.outcome == "ready"
    assert seconds < 6


def test_a_port_that_is_open_but_not_healthy_is_not_ready(start: Any) -> None:
    one = start("line(\"server_args=ServerArgs(port=%d, log_level='error')\" % port); serve()" + STAY)
    verdict, _seconds = timed(one, timeout_s=3.0)
    assert verdict.outcome == "timeout"


def test_another_served_name_is_not_ready(start: Any) -> None:
    one = start("args(); load(); serve(); health[0] = 200; fired()" + STAY, NAME="tiny")
    verdict, _seconds = timed(one, timeout_s=2.0, served_name="large")
    assert verdict.outcome == "timeout"
    assert verdict.detail["wanted"] == "large"
    assert verdict.detail["served"] == ["tiny"]


def test_silence_is_a_stall(start: Any) -> None:
    one = start("args(); line('Load weight begin. avail mem=70.00 GB')" + STAY)
    verdict, seconds = timed(one, stall_s={"load_weights": 1.0})
    assert (verdict.outcome, verdict.phase) == ("stalled", "load_weights")
    assert verdict.detail["silent_s"] >= 1.0
    assert 0.9 < seconds < 5
    assert one.process.poll() is None


def test_silence_with_processor_time_is_given_longer(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = start("args(); line('Load weight begin. avail mem=70.00 GB')\nwhile True: pass\n")
    monkeypatch.setattr(watch_module, "BUSY_FACTOR", 3.0)
    verdict, seconds = timed(one, stall_s={"load_weights": 2.5})
    assert verdict.outcome == "stalled"
    assert verdict.detail["busy"] is True
    assert seconds > 6


def test_a_server_whose_scheduler_died_unseen_is_not_ready(start: Any) -> None:
    """The port answers for seconds after it, and the watch came too late to see the scheduler alive."""
    one = start(
        "args(); load(); serve(); health[0] = 200; fired()\n"
        'named = \'open("/proc/self/comm", "w").write("sglang::schedul")\'\n'
        "dead = subprocess.Popen([sys.executable, '-c', named])\n"
        "while open('/proc/%d/stat' % dead.pid).read().rsplit(')', 1)[1].split()[0] != 'Z': time.sleep(0.01)\n"
        "line('dead')" + STAY
    )
    wait_until(lambda: b"dead" in one.log.read_bytes())
    verdict, seconds = timed(one)
    assert (verdict.outcome, verdict.cause) == ("failed", "scheduler_killed")
    assert verdict.detail["dead_processes"][0].startswith("sglang::")
    assert seconds < 6


def test_a_child_that_was_killed_while_it_imports(start: Any) -> None:
    """It has no title yet, and SGLang looks for a dead detokenizer only when all is loaded."""
    spawn = "from multiprocessing.spawn import spawn_main; import time; time.sleep(60)"
    one = start("args(); one = subprocess.Popen([sys.executable, '-c', %r]); line('pid %%d' %% one.pid)" % spawn + STAY)
    wait_until(lambda: b"] pid " in one.log.read_bytes())
    watch = one.watch()
    assert watch.step() is None
    [child] = watch.processes.importing
    os.kill(child, signal.SIGKILL)
    verdict = watch.run()
    assert (verdict.outcome, verdict.cause, verdict.phase) == ("failed", "scheduler_killed", "args")
    assert str(child) in verdict.message
    assert one.process.poll() is None


def test_a_child_that_ends_well_is_no_failure(start: Any) -> None:
    spawn = "from multiprocessing.spawn import spawn_main; import time; time.sleep(1.5)"
    one = start("args(); one = subprocess.Popen([sys.executable, '-c', %r]); line('pid %%d' %% one.pid)" % spawn + STAY)
    verdict, _seconds = timed(one, timeout_s=4.0)
    assert verdict.outcome == "timeout"


def test_a_crash_that_was_told_is_no_readiness(start: Any) -> None:
    crash = "line('Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup...')"
    one = start("args(); load(); serve(); health[0] = 200; fired(); %s" % crash + STAY)
    wait_until(lambda: b"crashed" in one.log.read_bytes())
    verdict, _seconds = timed(one)
    assert (verdict.outcome, verdict.cause) == ("failed", "scheduler_killed")


def test_a_halted_process_is_named(start: Any) -> None:
    one = start("args(); line('Load weight begin. avail mem=70.00 GB'); scheduler = child(60)" + STAY)
    wait_until(lambda: [pid for pid in identity.children(one.process.pid) if unit._title(pid).startswith("sglang")])
    [scheduler] = identity.children(one.process.pid)
    os.kill(scheduler, signal.SIGSTOP)
    verdict, _seconds = timed(one, stall_s={"load_weights": 1.0})
    assert (verdict.outcome, verdict.cause, verdict.phase) == ("stalled", "hang_unknown", "load_weights")
    [halted] = verdict.detail["halted_processes"]
    assert halted.startswith("sglang::scheduler") and "(pid %d)" % scheduler in halted
    assert halted + " is halted" in verdict.message


def test_a_ready_server_with_a_halted_scheduler_is_not_servable(start: Any) -> None:
    one = start(
        "args(); load(); serve(); health[0] = 200; one = child(60)\n"
        "os.kill(one.pid, signal.SIGSTOP); time.sleep(0.5); fired()" + STAY
    )
    verdict, _seconds = timed(one, stall_s={"runtime": 1.0})
    assert (verdict.outcome, verdict.phase) == ("stalled", "runtime")
    assert verdict.detail["halted_processes"]


def test_a_stall_behind_a_bar_is_not_called_slow(start: Any) -> None:
    one = start(
        "args(); line('Capture cuda graph begin. avail mem=3 GB')\n"
        "say('Capturing batches (bs=1):  23%|##3  | 12/52 [00:01<00:02,  2.0it/s]\\r')" + STAY
    )
    verdict, _seconds = timed(one, stall_s={"graph_capture": 1.0})
    assert (verdict.outcome, verdict.cause, verdict.phase) == ("stalled", "hang_unknown", "graph_capture")
    assert verdict.detail["progress"]["done"] == 12


def test_timeout(start: Any) -> None:
    one = start("args()" + STAY)
    verdict, seconds = timed(one, timeout_s=1.0)
    assert (verdict.outcome, verdict.phase) == ("timeout", "args")
    assert 0.9 < seconds < 3
    assert one.process.poll() is None


def test_another_invocation_means_that_this_one_died(start: Any) -> None:
    one = start(
        "args(); load()\nline('RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.')" + STAY
    )
    watch = one.watch()
    wait_until(lambda: b"Not enough" in one.log.read_bytes())
    one.invocation, one.restarts = "inv2", 1
    verdict = watch.run()
    assert (verdict.outcome, verdict.cause) == ("failed", "kv_cache_no_memory")
    assert verdict.detail["restarts"] == 1


def test_a_log_that_comes_later(start: Any) -> None:
    one = start("args(); load(); serve(); health[0] = 200; fired()" + STAY)
    hidden = one.log.with_name("hidden")
    os.rename(one.log, hidden)
    watch = one.watch()
    assert watch.step() is None
    os.rename(hidden, one.log)
    assert watch.run().outcome == "ready"


def test_progress_is_told(start: Any) -> None:
    one = start(
        "args(); line('Load weight begin. avail mem=70.00 GB')\n"
        "say('Loading safetensors checkpoint shards:  37% Completed | 3/8 [00:01<00:02,  2.0it/s]\\r'); "
        "time.sleep(1.5)\n"
        "line('Load weight end. type=A'); line('Capture cuda graph begin. avail mem=3 GB')\n"
        "say('Capturing batches (bs=1):  23%|##3  | 12/52 [00:01<00:02,  2.0it/s]\\r'); time.sleep(1.5); sys.exit(3)"
    )
    reports: list[Report] = []
    one.watch(reports).run()
    assert {(report.phase, report.progress) for report in reports} >= {
        ("load_weights", "weights 37 %"),
        ("graph_capture", "graph 12/52"),
    }


def test_nobody_listens_on_an_unused_port() -> None:
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup import readiness

    assert readiness.owner(free_port(), set()) == ("none", [])


def test_a_stop_that_takes_its_time_is_a_stop(start: Any) -> None:
    """systemd says "deactivating" while the main process still lives: somebody asked for the stop."""
    one = start("args(); load(); signal.signal(signal.SIGTERM, signal.SIG_IGN)" + STAY)
    watch = one.watch()
    real = one.state

    def leaving() -> unit.State:
        now = real()
        return replace(now, active="deactivating", sub="stop-sigterm") if now.running else now

    wait_until(lambda: b"Load weight end" in one.log.read_bytes())
    assert watch.step() is None
    watch.ask_state = leaving
    watch.last_state = 0.0
    watch.last_look = 0.0
    assert watch.step() is None
    assert watch.step() is None
    one.stop()
    assert watch.run().outcome == "stopped"


def test_a_stop_by_systemd_after_an_out_of_memory_kill_is_a_failure(start: Any) -> None:
    """The kernel killed the scheduler, the launcher lives: systemd stops the unit (OOMPolicy) and says why."""
    one = start("args(); load(); signal.signal(signal.SIGTERM, signal.SIG_IGN)" + STAY)
    watch = one.watch()
    real = one.state
    watch.ask_state = lambda: replace(
        real(), active="deactivating" if real().running else "failed", sub="stop-sigterm", result="oom-kill"
    )
    wait_until(lambda: b"Load weight end" in one.log.read_bytes())
    watch.state = watch.ask_state()
    assert watch.step() is None
    one.stop()
    verdict = watch.run()
    assert (verdict.outcome, verdict.cause) == ("failed", "host_oom_killed")


@pytest.mark.parametrize(
    ("after", "cause"), [(7, "scheduler_killed"), (9, "host_oom_killed"), (None, "scheduler_killed")]
)
def test_the_counter_of_the_host_where_the_control_group_went_with_its_own(
    start: Any, monkeypatch: pytest.MonkeyPatch, after: int | None, cause: str
) -> None:
    one = start("args(); load(); time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)")
    counts = iter([7, after])
    monkeypatch.setattr(unit, "host_kills", lambda: next(counts))
    monkeypatch.setattr(unit, "memory_is_watched", lambda: False)
    verdict, _seconds = timed(one)
    assert (verdict.outcome, verdict.cause) == ("failed", cause)


def test_a_crash_of_which_systemd_clears_up_is_a_failure(start: Any) -> None:
    one = start("args(); load(); time.sleep(0.5); sys.exit(3)")
    watch = one.watch()
    real = one.state
    watch.ask_state = lambda: (
        replace(real(), active="deactivating", sub="stop-sigterm") if not real().running else real()
    )
    verdict = watch.run()
    assert (verdict.outcome, verdict.detail["exit_code"]) == ("failed", 3)
