# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to servers while they start, and what the watch says of it.

Most starts are replays of recorded ones (tests/lab/replay), several at once in one container. ``script/test full`` does
the same to the real server, of which a few starts are made in any case. No time is asserted but that the verdict does
not wait for a deadline; each delay is printed.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import time
from dataclasses import asdict, dataclass
from typing import Any

import pytest
import start_recordings
from conftest import FULL, ROOT, VMID, Controller, Lab, Play
from start_recordings import BEGINS

FILES = ROOT / "tests/scenarios/files"
REPLAY = "/opt/llmhost/replay/bin/python"
REAL = "/opt/llmhost/runtime/bin/python"
MODEL = "/opt/llmhost/models/tiny"
WORKERS = 4  # starts at once
SPEED = 20
LATER = 25.0  # seconds: a verdict that came later than this after the fault has waited for a deadline
GONE = ("scheduler_killed",)
WRITE = """
import json, os, sys
for path, text in json.load(sys.stdin).items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
"""


@dataclass
class Case:
    """One start, what is done to it, and what must be said."""

    name: str
    outcome: str
    cause: tuple[str | None, ...] = (None,)
    phase: tuple[str, ...] = ()
    words: str = ""  # in the message, the detail or the evidence
    # what is done: see files/start_agent.py
    do: str = "nothing"
    role: str = ""
    mark: str = ""
    delay: float = 0.0
    megabytes: int = 0
    restarts: int = 0
    swap: str = ""
    # the start
    recording: str = "ok-clean-recipe"
    pause: str = ""
    pause_s: float = start_recordings.PAUSE_S
    arguments: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    port: int = 0
    binds: int = 0  # where it is another one than the module is told
    restart: str = "no"
    drop_in: str = ""
    log: str = ""
    # the watch
    first: bool = False  # it begins after the fault
    keep: bool = False
    stall_s: int = 0
    timeout_s: int = 120
    full: bool = False  # script/test full alone


LOADING = ("init_distributed", "load_weights", "kv_cache", "http", "warmup")


def killed(role: str, phase: str, real: bool = False, full: bool = True) -> Case:
    """kill -9 of one process in one phase. The real server cannot be held in one: it may have gone on meanwhile."""
    return Case(
        "%s-%s%s" % (role, phase.replace("_", "-"), "-really" if real else ""),
        "failed",
        GONE,
        ("args", *LOADING) if real and phase == "load_weights" else (phase,),
        do="kill",
        role=role,
        mark=BEGINS[phase],
        pause="" if real or phase == "runtime" else r"spawn\tdetokenizer" if phase == "args" else BEGINS[phase],
        first=phase == "runtime",
        full=full,
    )


# Each process in each phase; the replays of a few in any case, all of them and the real server in script/test full.
IN_ANY_CASE = {
    ("launcher", "import"), ("launcher", "load_weights"), ("scheduler", "args"),
    ("scheduler", "kv_cache"), ("scheduler", "graph_capture"), ("scheduler", "runtime"), ("detokenizer", "http"),
    ("detokenizer", "runtime"),
}  # fmt: skip
ROLES = ("launcher", "scheduler", "detokenizer")
KILLED = [
    killed(role, phase, full=(role, phase) not in IN_ANY_CASE)
    for role in ROLES
    for phase in BEGINS
    # while the launcher imports it is alone, and a detokenizer without a title is known by nothing
    if phase != "import" or role == "launcher"
    if (role, phase) != ("detokenizer", "args")
]
TP2 = "f22b-tp2-bind"
LOGS = "/srv/faults/logs"
TOLD = r"Load weight begin"

# Replays of other things that happen.
OTHERS = [
    Case("tracker", "ready", do="kill", role="tracker", mark=TOLD, pause=TOLD, pause_s=60, full=True),
    Case(
        "halted", "stalled", ("hang_unknown",), ("load_weights",), "is halted",
        do="halt", role="scheduler", mark=TOLD, pause=TOLD, stall_s=4,
    ),
    Case("lagging", "stalled", ("hang_unknown",), ("init_distributed",), "TP0", recording=TP2,
         pause=r"TP1\] Load weight end", stall_s=4, full=True),
    Case("lagging-graphs", "stalled", ("hang_unknown",), ("kv_cache",), "TP1", recording=TP2,
         pause=r"TP0\] Capture cuda graph begin", stall_s=4),
    Case("tp2", "ready", recording=TP2, full=True),
    Case("tp2-killed", "failed", GONE, ("load_weights", "kv_cache"), "scheduler_TP1", recording=TP2, do="kill",
         role="scheduler_TP1", mark=r"TP1\] Load weight end", pause=r"TP1\] Load weight end", full=True),
    Case("rotated", "failed", ("weights_corrupt",), ("load_weights",), "header", recording="f15-corrupt-header",
         log=LOGS + "/rotated", do="rotate", mark=BEGINS["args"], pause=BEGINS["args"], pause_s=60),
    Case("truncated", "ready", log=LOGS + "/truncated", do="truncate", mark=TOLD, pause=TOLD, pause_s=60),
    Case("copytruncated", "failed", ("weights_corrupt",), ("load_weights",), "header", recording="f15-corrupt-header",
         log=LOGS + "/copytruncated", do="copytruncate", mark=BEGINS["args"], pause=BEGINS["args"], pause_s=60),
    Case("noise", "ready", log=LOGS + "/noise", do="noise", megabytes=100, mark=TOLD, pause=TOLD, pause_s=60),
    Case("loop", "failed", ("weights_corrupt",), ("load_weights",), "first_invocation", recording="f15-corrupt-header",
         restart="on-failure", do="restarts", restarts=2, first=True, mark=r"sigquit", swap="f18-no-weights"),
]  # fmt: skip
# In this order, in one worker: two servers in one log, and two that want one port.
IN_TURN = [
    Case("turn-one", "ready", log=LOGS + "/turn"),
    Case("turn-two", "failed", ("weights_corrupt",), ("load_weights",), "header", recording="f15-corrupt-header",
         log=LOGS + "/turn"),
    Case("holder", "ready", port=30190, keep=True),
    Case("held", "failed", ("port_in_use",), (), "sglang-holder", port=30191, binds=30190),
]  # fmt: skip
REPLAYS = [case for case in KILLED + OTHERS + IN_TURN if FULL or not case.full]

BOUND = ("--tp", "2")
# with two ranks a part of the model is compiled, and the container has no compiler
BOUND_VARIABLES = (("SGLANG_CPU_OMP_THREADS_BIND", "0|1"), ("TORCHDYNAMO_DISABLE", "1"))
# The real server: one start of each kind in any case, all of them in script/test full.
REALS = [
    Case("halted-really", "stalled", ("hang_unknown",), LOADING, "is halted", do="halt", role="scheduler",
         mark=r"Init parallel begin", stall_s=20, full=True),
    *[
        killed(role, phase, real=True)
        for role in ROLES
        for phase in ("import", "args", "load_weights", "warmup", "runtime")
        if phase != "import" or role == "launcher"
    ],
    Case("tracker-really", "ready", do="kill", role="tracker", mark=BEGINS["args"], delay=1, full=True),
    Case("tp2-really", "ready", arguments=BOUND, variables=BOUND_VARIABLES, timeout_s=300, full=True),
    Case("tp2-killed-really", "failed", GONE, LOADING, "scheduler", arguments=BOUND, variables=BOUND_VARIABLES,
         do="kill", role="scheduler_TP1", mark=r"TP1\] Init parallel begin", timeout_s=300, full=True),
    Case("rotated-really", "ready", log=LOGS + "/rotated-really", do="rotate", mark=BEGINS["args"], full=True),
    Case("copytruncated-really", "ready", log=LOGS + "/copytruncated-really", do="copytruncate", mark=BEGINS["args"],
         full=True),
    Case("noise-really", "ready", log=LOGS + "/noise-really", do="noise", megabytes=100, mark=BEGINS["args"],
         full=True),
    Case("turn-one-really", "ready", log=LOGS + "/turn-really", full=True),
    Case("turn-two-really", "failed", ("args_unrecognized",), (), "--no-such-flag", log=LOGS + "/turn-really",
         arguments=("--no-such-flag", "1"), full=True),
    # an option that SGLang does not know ends it with 2, after which systemd does not start it again
    Case("loop-really", "failed", ("model_path_invalid",), (), "first_invocation", full=True,
         arguments=("--model-path", "/opt/llmhost/models/nowhere"),
         restart="on-failure", do="restarts", restarts=2, first=True, mark="models/nowhere"),
    Case("holder-really", "ready", port=30192, keep=True, full=True),
    Case("held-really", "failed", ("port_in_use",), (), "sglang-holder-really", port=30193, binds=30192, full=True),
]  # fmt: skip
REALS = [case for case in REALS if FULL or not case.full]


class Faults:
    """A container in which starts are disturbed."""

    def __init__(self, lab: Lab, work: pathlib.Path) -> None:
        self.lab = lab
        self.controller = Controller(lab, work)
        self.path = work / ("faults-%s.yml" % lab.folder.name)
        self.controller.inventories["faults"] = self.path
        lab("replay-runtime", str(lab.data / "replay"))
        self.sh(
            "getent group sglang >/dev/null || groupadd --system sglang; "
            "getent passwd sglang >/dev/null || useradd --system -g sglang -M -s /usr/sbin/nologin sglang; "
            "mkdir -p /srv/faults /run/faults " + LOGS
        )
        self.write({"/srv/faults/agent.py": (FILES / "start_agent.py").read_text()})
        lab.model("tiny")

    def sh(self, script: str, **options: Any) -> str:
        return self.lab.ct("sh", "-c", script, **options)

    def write(self, files: dict[str, str]) -> None:
        self.lab.ct("python3", "-c", WRITE, stdin=json.dumps(files))

    def prepared(self, case: Case, port: int, real: bool, files: dict[str, str]) -> dict[str, Any]:
        """A case as the playbook and the agent take it; the files that it needs."""
        port = case.port or port
        binds = case.binds or port
        environment = dict(case.variables)
        arguments = ["--model-path", MODEL, "--device", "cpu", "--max-total-tokens", "4096", "--port", str(binds)]
        if real:
            environment["SGLANG_USE_CPU_ENGINE"] = "1"
            arguments.append("--sleep-on-idle")  # some go on beside the others, and shall leave them the processor
        else:
            path = "/srv/faults/%s.tsv" % case.name
            files[path] = start_recordings.edited(case.recording, case.pause, case.pause_s)
            environment.update(LLMHOST_REPLAY=path, LLMHOST_REPLAY_SPEED=str(SPEED))
        more: dict[str, Any] = {"replayed": not real}
        if case.swap:
            more["swap"] = path + ".next"
            files[more["swap"]] = start_recordings.edited(case.swap)
        drop_in = case.drop_in
        if case.log:
            drop_in += "StandardOutput=append:%s\nStandardError=append:%s\n" % (case.log, case.log)
        if drop_in:
            files["/etc/systemd/system/sglang-%s.service.d/fault.conf" % case.name] = "[Service]\n" + drop_in
        argv = [REAL if real else REPLAY, "-m", "sglang.launch_server", *arguments, *case.arguments]
        return {**asdict(case), **more, "argv": argv, "environment": environment, "port": port}

    def run(self, workers: list[list[Case]], real: bool = False, first_port: int = 30100, **options: Any) -> Play:
        """Run the cases of each worker one after another, the workers beside each other."""
        hosts = self.lab.addresses(VMID)
        ports = iter(range(first_port, first_port + 90))
        files: dict[str, str] = {}
        prepared = [[self.prepared(case, next(ports), real, files) for case in cases] for cases in workers if cases]
        self.write(files)
        inventory = {
            "worker%d" % number: {**hosts["ct%d" % VMID], "fault_cases": cases} for number, cases in enumerate(prepared)
        }
        self.path.write_text(json.dumps({"faults": {"hosts": inventory}}))
        return self.controller.play("start_faults.yml", "--forks", str(len(prepared)), way="faults", **options)

    def task(self, module: str, **args: Any) -> dict[str, Any]:
        """The result of one module in the container."""
        path = self.path.with_name("task.yml")
        tasks = [{"name": "Do it", "llmhost.sglang." + module: args}]
        path.write_text(json.dumps([{"hosts": "worker0", "gather_facts": False, "tasks": tasks}]))
        play = self.controller.play(path, way="faults")
        assert play.status == "successful", play.text()
        return play.result(module)

    def show(self, name: str, key: str) -> str:
        return self.sh("systemctl show --value -p %s sglang-%s.service" % (key, name)).strip()

    def clean(self) -> None:
        self.sh(
            "for unit in $(cd /etc/systemd/system && ls -d sglang-*.service 2>/dev/null); do "
            'systemctl kill --signal=SIGKILL "$unit" 2>/dev/null || true; systemctl disable -q --now "$unit" || true; '
            'rm -rf "/etc/systemd/system/$unit"*; done; systemctl stop "fault-*"; systemctl daemon-reload; '
            "systemctl reset-failed; rm -rf /var/lib/llmhost/instances /var/cache/llmhost /srv/faults /run/faults"
        )


def results(play: Play) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """name -> (verdict, times) of every case that came to its end."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    verdicts: dict[str, dict[str, Any]] = {}
    for task in play.tasks:
        module = task["action"].split(".")[-1]
        if module == "server_wait" and "outcome" in task["res"]:
            ended = datetime.datetime.fromisoformat(task["created"]).timestamp()
            verdicts[task["host"]] = {**task["res"], "ended": ended}
        elif module == "command" and "times" in task["res"].get("cmd", []) and task["host"] in verdicts:
            name = task["res"]["cmd"][-1]
            found[name] = verdicts.pop(task["host"]), json.loads(task["res"]["stdout"])
    return found


def check(case: Case, found: dict[str, Any], play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    assert case.name in found, "the case %s did not come to its end:\n%s" % (case.name, play.text()[-6000:])
    verdict, times = found[case.name]
    delay = times["verdict"] - times["fault"] if times.get("fault") and times["verdict"] else None
    if case.do == "nothing":  # the fault is of the start itself, and nobody noted when it came
        delay = None
    with capsys.disabled():
        words = (case.name, verdict["outcome"], verdict["cause"], verdict["phase"])
        seconds = [
            "-" if one is None else "%.2f" % one
            for one in (delay, times["verdict"] and verdict["ended"] - times["verdict"])
        ]
        print(
            "\n%-24s %-8s %-18s %-15s verdict %6s s after the fault, the task's end %6s s after that: %s"
            % (*words, *seconds, verdict["message"][:80])
        )
    said = json.dumps([verdict["message"], verdict["detail"], verdict["evidence"]])
    assert case.do == "nothing" or times.get("fault"), "nothing was done to it: " + said
    assert verdict["outcome"] == case.outcome, said
    assert verdict["cause"] in case.cause, said
    assert not case.phase or verdict["phase"] in case.phase, said
    assert case.words in said
    if case.outcome == "failed":
        assert verdict["remedies"], "a cause that is known has a remedy"
        assert delay is None or case.first or delay < LATER


@pytest.fixture(scope="module")
def faults(lab: Lab, work: pathlib.Path):
    made = Faults(lab, work)
    yield made
    made.clean()


@pytest.fixture(scope="module")
def replayed(faults: Faults) -> Play:
    alone = [case for case in REPLAYS if case not in IN_TURN]
    workers = [IN_TURN, *(alone[number :: WORKERS - 1] for number in range(WORKERS - 1))]
    return faults.run(workers, timeout_s=1500)


@pytest.fixture(scope="module")
def really(faults: Faults, runtime: str) -> Play:
    return faults.run([REALS], real=True, first_port=30200, timeout_s=4000)


@pytest.fixture(scope="module")
def limited(lab: Lab, faults: Faults, work: pathlib.Path):
    """A container whose memory limits hold: this one, or where the machine's memory controller is v1 another."""
    if "memory" in faults.sh("cat /sys/fs/cgroup/cgroup.controllers 2>/dev/null || true").split():
        yield faults
        return
    other = Lab(lab.folder.with_name(lab.folder.name + "-hybrid"))
    other.data = lab.data
    other.env["LAB_CGROUP"] = "hybrid"
    try:
        other("up")
        other("ct", str(VMID), "bookworm", "--data", str(lab.data))
        yield Faults(other, work)
    finally:
        other("down", check=False)


LIMIT = "MemoryMax=%s\nMemorySwapMax=0\n"
SHORT_OF_MEMORY = [
    Case("oom", "failed", ("host_oom_killed",), ("load_weights",), "oom_kill", do="memory", megabytes=1000, mark=TOLD,
         pause=TOLD, drop_in=LIMIT % "200M"),
    Case("oom-really", "failed", ("host_oom_killed",), (), "oom_kill", drop_in=LIMIT % "1G", full=True),
]  # fmt: skip
SHORT_OF_MEMORY = [case for case in SHORT_OF_MEMORY if FULL or not case.full]


@pytest.mark.parametrize("case", SHORT_OF_MEMORY, ids=lambda case: case.name)
def test_memory_that_ends(
    limited: Faults, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], case: Case
) -> None:
    if case.full:
        request.getfixturevalue("runtime")
    play = limited.run([[case]], real=case.full, first_port=30300)
    check(case, results(play), play, capsys)


def test_a_connection_that_is_cut(faults: Faults, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case("cut", "ready", do="cut", mark=TOLD, delay=1, pause=TOLD, pause_s=100)
    play = faults.run([[case]], first_port=30310)
    assert play.status == "successful", play.text()
    check(case, results(play), play, capsys)


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.skipif(not FULL, reason="full"))])
def test_a_job_that_is_cancelled(
    faults: Faults, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], real: bool
) -> None:
    """The server goes on, and so does its watcher; the next wait picks up where it is."""
    if real:
        request.getfixturevalue("runtime")
    case = Case("cancelled%d" % real, "ready", pause="" if real else TOLD, pause_s=500, keep=True)
    status = "grep -l watching /var/lib/llmhost/instances/%s/watch/*.status.json 2>/dev/null || true" % case.name
    seen: list[float | bool] = [0.0, False]

    def watched() -> bool:
        if not seen[1] and time.monotonic() - seen[0] > 1:
            seen[:] = time.monotonic(), bool(faults.sh(status).strip())
        return bool(seen[1])

    play = faults.run([[case]], real=real, first_port=30320 + real, cancel=watched)
    assert play.status == "canceled", play.text()
    started = faults.show(case.name, "InvocationID")
    assert faults.show(case.name, "ActiveState") == "active"
    assert faults.sh("systemctl list-units --plain --no-legend 'llmhost-watch-%s-*'" % case.name).split()[2] == "active"
    verdict = faults.task("server_wait", name=case.name, timeout_s=200, progress=False)
    with capsys.disabled():
        print("\nthe next wait took %.1f s: %s" % (verdict["seconds"], verdict["message"]))
    assert (verdict["outcome"], verdict["invocation_id"]) == ("ready", started)
    assert faults.show(case.name, "InvocationID") == started


@pytest.mark.parametrize("case", REPLAYS, ids=lambda case: case.name)
def test_a_replayed_start(replayed: Play, capsys: pytest.CaptureFixture[str], case: Case) -> None:
    check(case, results(replayed), replayed, capsys)


@pytest.mark.parametrize("case", REALS, ids=lambda case: case.name)
def test_a_real_start(really: Play, capsys: pytest.CaptureFixture[str], case: Case) -> None:
    check(case, results(really), really, capsys)
