# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals reach the process that was opened, and nobody else. Real processes of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity, signals
from nvml_sim_support import alone


def child(code: str = "import time; time.sleep(60)") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


def test_a_signal_ends_the_child_and_the_handle_says_so() -> None:
    process = child()
    with signals.open_handle(process.pid) as handle:
        assert handle.process.pid == process.pid and not handle.exited()
        assert signals.wait([handle], 0.05) == [handle]
        assert handle.send(signal.SIGTERM)
        assert signals.wait([handle], 10) == []
        assert handle.exited()
        assert process.wait() == -signal.SIGTERM
        assert handle.send(signal.SIGKILL) is False  # gone: nobody is hit, nothing is raised
    with pytest.raises(ValueError, match="closed"):
        handle.send(signal.SIGTERM)


def test_a_zombie_counts_as_ended() -> None:
    process = child("pass")
    deadline = time.monotonic() + 10
    while identity.read(process.pid).state != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    with signals.open_handle(process.pid) as handle:
        assert handle.process.zombie and handle.exited()
    process.wait()


def test_waiting_ends_with_the_last_one() -> None:
    fast, slow = child("import time; time.sleep(0.2)"), child()
    with signals.open_handle(fast.pid) as one, signals.open_handle(slow.pid) as other:
        start = time.monotonic()
        assert signals.wait([one, other], 1.0) == [other]
        assert 0.9 < time.monotonic() - start < 5
        other.send(signal.SIGKILL)
        assert signals.wait([one, other], 10) == []
    fast.wait()
    slow.wait()


@pytest.mark.parametrize("number", [0, -1])
def test_no_number_that_means_a_group_is_opened(number: int) -> None:
    with pytest.raises(ProcessLookupError):
        signals.open_handle(number)


def test_nobody_is_a_lookup_error() -> None:
    process = child("pass")
    process.wait()
    with pytest.raises(ProcessLookupError):
        signals.open_handle(process.pid)


def test_an_old_python_or_kernel_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_old(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", too_old)
    with pytest.raises(LlmHostError) as caught:
        signals.open_handle(os.getpid())
    assert caught.value.reason == "pidfd_unavailable"
    monkeypatch.delattr(os, "pidfd_open")
    with pytest.raises(LlmHostError) as caught:
        signals.open_handle(os.getpid())
    assert caught.value.reason == "pidfd_unavailable"


def test_no_descriptor_is_left_open() -> None:
    process = child()
    before = len(os.listdir("/proc/self/fd"))
    for _round in range(5):
        signals.open_handle(process.pid).close()
    process.kill()
    process.wait()
    for _round in range(5):
        with pytest.raises(ProcessLookupError):
            signals.open_handle(process.pid)
    assert len(os.listdir("/proc/self/fd")) == before


REUSE = """
import os, signal, sys, time
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity, signals
kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
if kernel >= (6, 14):  # before that the limit is the whole machine's
    try:
        with open("/proc/sys/kernel/pid_max", "w") as limit:
            limit.write("400")
    except OSError:
        pass
if identity.pid_max() > 40000:
    print("skip")
    raise SystemExit
def spawn():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid
victim = spawn()
while victim < 310:  # the kernel hands out numbers below 300 only once
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
    victim = spawn()
handle = signals.open_handle(victim)
os.kill(victim, signal.SIGKILL)  # what the kernel or somebody else did meanwhile
os.waitpid(victim, 0)
heir = None
for _try in range(40000):
    pid = os.fork()
    if pid == 0:
        if os.getpid() == victim:
            signal.pause()
        os._exit(0)
    if pid == victim:
        heir = pid
        break
    os.waitpid(pid, 0)
assert heir == victim, "the number never came round"
reused = identity.read(victim)
assert not reused.same(handle.process)
assert handle.exited()
assert handle.send(signal.SIGTERM) is False
assert handle.send(signal.SIGKILL) is False
time.sleep(0.2)
assert os.waitpid(heir, os.WNOHANG) == (0, 0), "the heir was hit"
print("alive")
"""


def test_a_pid_that_is_used_again_is_not_hit() -> None:
    """In a PID namespace of its own, small where the kernel has a limit for each."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [*alone(), sys.executable, "-c", REUSE],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.stdout.strip() == "skip":
        pytest.skip("PIDs come round too late here to be used again in a test")
    assert done.stdout.strip() == "alive", done.stderr
