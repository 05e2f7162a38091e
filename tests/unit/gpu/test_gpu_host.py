# SPDX-License-Identifier: GPL-3.0-or-later
"""The real host: what a process holds, whether a server answers, and the whole against real processes."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import host as host_module
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.host import Host
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity, systemd
from ansible_collections.llmhost.sglang.plugins.module_utils._process.identity import Process, container_of, unit_of
from nvml_sim_support import Sim

HOST = Host()


def process(cgroup: str = "/", **more: Any) -> Process:
    values = {"pid": 4000, "start_time": 1, "uid": 0, "comm": "x", "cmdline": "x", "state": "S", "ppid": 1, **more}
    return Process(cgroup=cgroup, unit=unit_of(cgroup), container=container_of(cgroup), **values)


def test_an_open_or_mapped_file_is_held_and_another_is_not(tmp_path: Path) -> None:
    opened, mapped, other = (tmp_path / name for name in ("nvidia0", "nvidia1", "nvidia2"))
    for path in (opened, mapped, other):
        path.write_bytes(b"x" * 8192)
    code = (
        "import mmap, os, sys\n"
        f"keep = open({str(opened)!r}, 'rb')\n"
        f"fd = os.open({str(mapped)!r}, os.O_RDONLY)\n"
        "area = mmap.mmap(fd, 0, prot=mmap.PROT_READ)\n"
        "os.close(fd)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin and child.stdout
    try:
        assert child.stdout.readline() == b"ready\n"
        assert HOST.holds(child.pid, [str(opened)])
        assert not HOST.holds(child.pid, [str(other)])
        assert not HOST.holds(child.pid, [])
    finally:
        child.communicate()
    assert not HOST.holds(child.pid, [str(opened)])


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(self.server.status if self.path == "/health" else 404)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
    found.status = 200  # type: ignore[attr-defined]
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def test_a_server_answers_or_does_not(server: http.server.HTTPServer) -> None:
    port = server.server_address[1]
    me = identity.read(os.getpid())
    asked = Process(**{**me.__dict__, "cmdline": f"python -m sglang.launch_server --port {port}"})
    assert HOST.answers(asked) == f"http://127.0.0.1:{port}/health"
    server.status = 503  # type: ignore[attr-defined]
    assert HOST.answers(asked) is None
    assert HOST.answers(Process(**{**asked.__dict__, "state": "Z"})) is None


def test_what_accepts_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(host_module, "HEALTH_TIMEOUT_S", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        me = identity.read(os.getpid())
        assert HOST.answers(Process(**{**me.__dict__, "cmdline": f"x --port {port}"})) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "127.0.0.1"),
        ("0" * 32, "::1"),
        ("0A01A8C0", "192.168.1.10"),
        ("zz", None),
    ],
)
def test_an_address_of_the_kernel(text: str, address: str | None) -> None:
    if sys.byteorder != "little":
        pytest.skip("the kernel prints addresses in its own byte order")
    assert host_module._address(text) == address


@pytest.mark.parametrize(
    ("cgroup", "state", "active"),
    [
        ("/system.slice/a.service", "active", True),
        ("/system.slice/a.service", "activating", True),
        ("/system.slice/a.service", "deactivating", True),
        ("/system.slice/a.service", "failed", False),
        ("/system.slice/a.service", "inactive", False),
        ("/system.slice/a.service", None, None),
        ("/user.slice/user-0.slice/session-1.scope", "active", None),
        ("/lxc/129/ns/system.slice/a.service", "inactive", None),
        ("/user.slice/user-5.slice/user@5.service/app.slice/a.service", "inactive", None),
        ("/", "inactive", None),
    ],
)
def test_whether_a_unit_is_active(
    cgroup: str, state: str | None, active: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(_unit: str, _properties: Any = ()) -> dict[str, str]:
        if state is None:
            raise LlmHostError("systemd_unavailable", "no systemd here")
        return {"ActiveState": state, "LoadState": "loaded"}

    monkeypatch.setattr(systemd, "show", show)
    assert Host().unit_active(process(cgroup)) is active


def test_how_old_a_process_is() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert 0 <= HOST.age(identity.read(child.pid)) < 30
        assert HOST.age(identity.read(1)) > HOST.age(identity.read(child.pid))
    finally:
        child.kill()
        child.wait()


def test_no_mps_control_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert HOST.mps_control("get_server_list") is None
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text('#!/bin/sh\nread line\necho "got $line"\n')
    program.chmod(0o755)
    assert HOST.mps_control("get_server_list") == "got get_server_list\n"


# Everything real but the driver: in a PID namespace of its own. Prints what clean() returned.
WHOLE = """
import ctypes, json, os, signal, sys, time
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import query
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.host import Host
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.policy import Scope
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.release import Release, Request
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity

def spawn(name, parent=None, stubborn=False, children=(), uid=None, reap=True):
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(15, name.encode()[:15], 0, 0, 0)
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    for child in children:
        spawn(child, reap=reap)
    if uid is not None:
        os.setuid(uid)
    while True:
        signal.pause()

def alive(pid):
    try:
        return identity.read(pid).state != "Z"
    except ProcessLookupError:
        return False

def clean(gpus=("all",), source="smi", **more):
    keys = ("grace_s", "timeout_s", "check", "baseline_mib")
    scope = Scope(**{k: v for k, v in more.items() if k not in keys})
    times = {"grace_s": 2, "timeout_s": 15, **{k: v for k, v in more.items() if k in keys}}
    request = Request(gpus=gpus, scope=scope, lock_dir=FOLDER + "/locks", **times)
    driver, name, note = query.open_driver(source, 30)
    try:
        return {"reason": None, **Release(request, driver, lambda: query.look(driver, name, note), Host()).run()}
    except LlmHostError as error:
        return {"reason": error.reason, "message": error.message, **error.details}
    finally:
        driver.close()
"""


def whole(sim: Sim, tmp_path: Path, code: str) -> Any:
    return json.loads(sim.python(WHOLE + f"\nFOLDER = {str(tmp_path)!r}\n" + code, isolated=True))


def test_a_tree_drains_through_its_top(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nrelease_ms 600\nhold gpu=0 mem=50000 comm=^sglang::sched")
    found = whole(
        sim,
        tmp_path,
        """
pids = [spawn("sglang::scheduler_TP0"), spawn("sglang::scheduler_TP1", stubborn=True)]
pids += [spawn("sglang::detokenizer"), spawn("bash")]
time.sleep(0.5)
found = clean()
print(json.dumps([found, [alive(pid) for pid in pids], pids]))
""",
    )
    result, living, pids = found
    assert result["reason"] is None, result
    assert living == [False, False, False, True]
    sent = [(action["pid"], action["signal"]) for action in result["actions"]]
    assert sorted(sent) == sorted(
        [(pids[0], "SIGTERM"), (pids[1], "SIGTERM"), (pids[2], "SIGTERM"), (pids[1], "SIGKILL")]
    )
    assert result["gpus"][0]["after_mib"] == 4 and result["gpus"][0]["released_s"] >= 0.5


def test_a_neighbour_in_the_way_saves_everybody(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\ngpu 1\nhold gpu=0 mem=5000 comm=^(sglang::sched|other)\nhold gpu=1 mem=5000 comm=^neighbour")
    found = whole(
        sim,
        tmp_path,
        """
pids = [spawn("sglang::scheduler"), spawn("other"), spawn("neighbour")]
time.sleep(0.5)
first = clean(gpus=("0",))
before = [alive(pid) for pid in pids]
os.kill(pids[1], 9)
second = clean(gpus=("0",))
print(json.dumps([first["reason"], before, second["reason"], [alive(pid) for pid in pids]]))
""",
    )
    assert found == ["blocked", [True, True, True], None, [False, False, True]]


def test_a_server_that_is_brought_back_is_not_killed_again(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nrelease_ms 4000\nhold gpu=0 mem=5000 comm=^sglang::sched")
    found = whole(
        sim,
        tmp_path,
        """
supervisor = os.fork()
if supervisor == 0:
    ctypes.CDLL(None).prctl(15, b"supervisord", 0, 0, 0)
    while True:
        child = spawn("sglang::scheduler")
        os.waitpid(child, 0)
        time.sleep(0.5)
time.sleep(0.7)
found = clean()
print(json.dumps([found["reason"], found["respawned"]["parent"], len(found["actions"]), alive(supervisor),
                  alive(found["respawned"]["pid"])]))
""",
    )
    reason, parent, signals, supervisor, second = found
    assert reason == "respawn" and "supervisord" in parent
    assert signals == 1 and supervisor and second


def test_a_stopped_process_is_ended_too(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nhold gpu=0 mem=5000 comm=^sglang::sched")
    found = whole(
        sim,
        tmp_path,
        """
pid = spawn("sglang::scheduler")
time.sleep(0.5)
os.kill(pid, signal.SIGSTOP)
found = clean()
print(json.dumps([found["reason"], [action["signal"] for action in found["actions"]], alive(pid)]))
""",
    )
    assert found == [None, ["SIGTERM", "SIGKILL"], False]


# The two daemons of MPS, by their command lines.
DAEMONS = """
def daemon(name):
    pid = os.fork()
    if pid == 0:
        os.execv("/usr/bin/tail", [name, "-f", "/dev/null"])
    return pid
"""


@pytest.mark.parametrize("stubborn", [False, True])
def test_clients_of_mps_leave_it_before_any_signal(stubborn: bool, tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write(
        "gpu 0\nrelease_ms 600\nmps_ms 300\nhold gpu=0 type=M mem=9000 comm=^sglang::sched\n"
        "hold gpu=0 type=M mem=30 cmd=^nvidia-cuda-mps-server"
    )
    found = whole(
        sim,
        tmp_path,
        DAEMONS
        + f"""
client = spawn("sglang::scheduler", stubborn={stubborn})
time.sleep(0.5)
without = clean()
control, server = daemon("nvidia-cuda-mps-control"), daemon("nvidia-cuda-mps-server")
time.sleep(0.5)
found = clean()
again = clean()
print(json.dumps([without, found, again, [alive(pid) for pid in (client, control, server)]]))
""",
    )
    without, first, again, living = found
    assert (
        without["reason"] == "mps_in_use"
        and without["actions"] == []
        and "no MPS control answers" in without["message"]
    )
    assert first["reason"] is None, first
    sent = [(action["signal"], action["outcome"]) for action in first["actions"]]
    wanted = [("mps terminate_client", "drained"), ("SIGTERM", "still running" if stubborn else "exited")]
    assert sent == wanted + [("SIGKILL", "exited")] * stubborn
    assert living == [False, True, True], "the daemons of MPS stay"
    assert [item["why"] for item in first["tolerated"]] == ["'nvidia-cuda-mps-' is protected: MPS control and server"]
    assert first["gpus"][0]["before_mib"] == 9034 and first["gpus"][0]["after_mib"] == 34
    assert again["reason"] is None and not again["changed"] and again["actions"] == []


def test_a_client_that_mps_does_not_let_go_of_gets_no_signal(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nmps_ms -1\nhold gpu=0 type=M mem=9000 comm=^sglang::sched")
    found = whole(
        sim,
        tmp_path,
        DAEMONS
        + """
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import release
release.MPS_S = 1.0
client = spawn("sglang::scheduler")
daemons = daemon("nvidia-cuda-mps-control"), daemon("nvidia-cuda-mps-server")
time.sleep(0.5)
found = clean()
print(json.dumps([found["reason"], found["message"], [a["signal"] for a in found["actions"]], alive(client)]))
""",
    )
    reason, message, sent, living = found
    assert reason == "mps_in_use" and sent == ["mps terminate_client"] and living
    assert "did not let go" in message and "echo quit" in message


# A small space of PIDs, and a host in which a PID goes to somebody else at a chosen moment.
REUSED = """
kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
if kernel >= (6, 14):  # before that the limit is the whole machine's
    try:
        with open("/proc/sys/kernel/pid_max", "w") as limit:
            limit.write("400")
    except OSError:
        pass
if identity.pid_max() > 40000:
    print("null")
    raise SystemExit

def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

victim = spawn("sglang::scheduler", stubborn=True)
while victim < 310:  # the kernel hands out numbers below 300 only once
    end(victim)
    victim = spawn("sglang::scheduler", stubborn=True)
handed_over = []

def hand_over():
    end(victim)
    for _try in range(2000):
        pid = spawn("postgres")
        if pid == victim:
            handed_over.append(pid)
            return
        end(pid)
    raise SystemExit("the number never came round")

class Host(Host):
    def open(self, pid):
        if MOMENT == "open" and pid == victim and not handed_over:
            hand_over()  # the driver has just told that number
        return super().open(pid)

    def wait(self, handles, timeout_s):
        if MOMENT == "wait" and timeout_s and not handed_over:
            hand_over()  # SIGTERM was sent, SIGKILL comes next
        return super().wait(handles, timeout_s)

time.sleep(0.3)
found = clean()
print(json.dumps([found, victim, handed_over, alive(victim), identity.read(victim).comm]))
"""


@pytest.mark.parametrize("moment", ["open", "wait"])
def test_whoever_gets_the_number_of_a_target_is_not_hit(moment: str, tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nhold gpu=0 mem=5000 comm=^sglang::sched")
    found = whole(sim, tmp_path, f"MOMENT = {moment!r}\n" + REUSED)
    if found is None:
        pytest.skip("PIDs come round too late here to be used again in a test")
    result, victim, handed_over, living, comm = found
    assert handed_over == [victim] and living and comm == "postgres"
    if moment == "open":  # the driver listed that number, and it is no SGLang's: somebody else's job, as far as we know
        assert result["reason"] == "blocked" and result["actions"] == []
    else:
        assert result["reason"] is None, result
        assert [action["signal"] for action in result["actions"]] == ["SIGTERM"]


def test_a_card_that_is_a_numa_node_is_waited_for_by_its_processes_alone(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0 numa=1 mem=na\norphan gpu=0 mem=7000\nhold gpu=0 mem=5000 comm=^sglang::sched")
    found = whole(
        sim,
        tmp_path,
        """
pid = spawn("sglang::scheduler", stubborn=True)
time.sleep(0.5)
found = clean()
again = clean()
print(json.dumps([found, again, alive(pid)]))
""",
    )
    first, again, living = found
    assert first["reason"] is None and not living
    [row] = first["gpus"]
    assert row["baseline_mib"] is None and "only processes count" in row["baseline_from"]
    assert [action["signal"] for action in first["actions"]] == ["SIGTERM", "SIGKILL"]
    assert again["reason"] is None and again["actions"] == [] and not again["changed"]


def test_nine_hundred_and_fifty_clients(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0 total=200000\nhold gpu=0 mem=100 comm=^sglang::sched max=949\nhold gpu=0 mem=100 comm=^other$")
    found = whole(
        sim,
        tmp_path,
        """
pids = [spawn("sglang::scheduler") for number in range(949)]
other = spawn("other")
time.sleep(1)
blocked = clean()
os.kill(other, 9)
start = time.monotonic()
found = clean(timeout_s=60)
print(json.dumps([blocked["reason"], len(blocked["targets"]), found["reason"], len(found["targets"]),
                  found["gpus"][0]["before_mib"], sum(alive(pid) for pid in pids)]))
""",
    )
    assert found == ["blocked", 949, None, 949, 94904, 0]
