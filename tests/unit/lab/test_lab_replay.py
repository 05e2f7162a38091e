# SPDX-License-Identifier: GPL-3.0-or-later
"""The replayer: it plays each recording to its recorded end, and does to signals and deaths what the real server did.

Played up to sixty times as fast. Nothing here is a mock: processes, signals, ports and HTTP are real.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

LAB = pathlib.Path(__file__).resolve().parents[2] / "lab"
RECORDINGS = LAB / "replay" / "recordings"
SPEED = 60
READY = "fired up and ready to roll"


def load(path, name):
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


compare = load(LAB / "replay" / "compare.py", "lab_replay_compare")


def recorded(name):
    """-> (events, exit word) of a recording."""
    rows = [row.split("\t") for row in (RECORDINGS / (name + ".tsv")).read_text().splitlines() if row[0] != "#"]
    return rows, next(row[2] for row in rows if row[1] == "exit")


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runtime") / "replay"
    version = "%d.%d" % sys.version_info[:2]
    load(LAB / "lablib" / "lab_replay.py", "lab_replay_maker").runtime(
        folder, version, os.path.realpath(sys.executable)
    )
    return folder


class Start:
    """A replayed start: its process, what it printed, and its family by real process titles."""

    def __init__(self, runtime, tmp_path, recording, *arguments, speed=SPEED):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.out = tmp_path / "out"
        environment = {"PATH": os.environ["PATH"], "LLMHOST_REPLAY": recording, "LLMHOST_REPLAY_SPEED": str(speed)}
        argv = [str(runtime / "bin/python"), "-m", "sglang.launch_server", "--model-path", "/models/tiny"]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*argv, "--port", str(self.port), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )

    def text(self):
        return self.out.read_bytes().decode("utf-8", "replace")  # with its carriage returns

    def family(self):
        """pid -> (ppid, comm, command line) of everything in its session."""
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                fields = pathlib.Path("/proc", name, "stat").read_text()
                comm, rest = fields[fields.index("(") + 1 : fields.rindex(")")], fields.rsplit(")", 1)[1].split()
                if int(rest[3]) == self.process.pid and rest[0] not in "ZX":
                    cmdline = pathlib.Path("/proc", name, "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                    found[int(name)] = (int(rest[1]), comm, cmdline.decode())
        return found

    def pid(self, title):
        return next((pid for pid, what in self.family().items() if what[2] == title), None)

    def until(self, condition, what, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "%s did not come; it printed:\n%s" % (what, self.text()[-2000:])
            time.sleep(0.02)

    def ready(self):
        self.until(lambda: READY in self.text(), "readiness")
        return self

    def end(self, seconds=30):
        return self.process.wait(seconds)

    def get(self, path, body=None, key=None, timeout=20):
        headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + key} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.port, path), data, headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (urllib.error.URLError, TimeoutError) as error:
            return ("refused" if "refused" in str(error) else "timeout"), ""

    def clean(self):
        for pid in [*self.family(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
def start(runtime, tmp_path):
    started = []

    def begin(recording="ok-clean-recipe", *arguments, **more):
        started.append(Start(runtime, tmp_path, recording, *arguments, **more))
        return started[-1]

    yield begin
    for one in started:
        one.clean()


NAMES = sorted(path.stem for path in RECORDINGS.glob("*.tsv"))
# Those in which the one who recorded did something to the launcher, or ended it: they wait for a test to do it.
WAITING = {name for name in NAMES if recorded(name)[1] == "none"} | {
    name for name in NAMES if any(row[1] == "signal" and row[3] in ("launcher", "group") for row in recorded(name)[0])
}


def test_there_are_recordings_of_both_kinds():
    assert len(NAMES) >= 20
    assert 5 <= len(WAITING) <= 12
    assert [name for name in NAMES if name.startswith("ok-")]


ENDING = [name for name in NAMES if name not in WAITING]


@pytest.fixture(scope="session")
def ended(runtime, tmp_path_factory):
    """All starts that end by themselves, played at once: they sleep most of the time."""
    starts = {name: Start(runtime, tmp_path_factory.mktemp(name), name, speed=20) for name in ENDING}
    yield starts
    for one in starts.values():
        one.clean()


@pytest.mark.parametrize("name", ENDING)
def test_a_failing_start_ends_as_it_was_recorded(ended, name):
    events, code = recorded(name)
    played = ended[name]
    assert played.end() == int(code)
    lines = [json.loads(row[2]) for row in events if row[1] in ("stdout", "stderr")]
    assert compare.markers(played.text().splitlines()) == compare.markers(lines)
    assert len(played.text().split("\n")) == len("\n".join(lines).split("\n")) + 1, "line for line"
    assert "<<" not in re.sub(r"<<<", "", played.text()), "a placeholder was left unfilled"
    played.until(lambda: not played.family(), "the end of its children")


def test_a_good_start_has_the_real_processes(start):
    played = start().ready()
    family = played.family()
    launcher = family.pop(played.process.pid)
    assert launcher[1] == "python"
    assert launcher[2].split()[1:3] == ["-m", "sglang.launch_server"]
    assert {what[0] for what in family.values()} == {played.process.pid}, "all are the launcher's children"
    assert sorted(what[1] for what in family.values() if "::" in what[1]) == ["sglang::detoken", "sglang::schedul"]
    titles = sorted(what[2] for what in family.values() if "::" in what[2])
    assert titles == ["sglang::detokenizer", "sglang::scheduler"]
    assert [what for what in family.values() if "multiprocessing.resource_tracker" in what[2]]


def test_children_are_called_spawn_main_while_they_import(start):
    played = start(speed=10)
    played.until(lambda: "server_args=" in played.text(), "the arguments")
    played.until(lambda: len(played.family()) == 4, "the children")
    names = [what[2] for what in played.family().values()]
    assert len([name for name in names if "multiprocessing.spawn import spawn_main" in name]) == 2
    assert not [name for name in names if "sglang::" in name]


def test_statuses_of_a_good_start(start):
    """refused, then 503 from /health while it warms up, then 200: as each probe.tsv shows."""
    played = start("ok-clean-recipe", "--served-model-name", "demo", speed=5)
    seen = {"/health": [], "/v1/models": [], "/metrics": []}

    def look(path):
        status = played.get(path)[0]
        if seen[path][-1:] != [status]:
            seen[path].append(status)
        return status

    for path in seen:
        look(path)
    played.until(lambda: look("/health") != "refused", "the port")
    look("/v1/models")
    look("/metrics")
    played.until(lambda: look("/health") == 200, "readiness")
    events = recorded("ok-clean-recipe")[0]
    for path, statuses in seen.items():
        want = [row[3] for row in events if row[1] == "http" and row[2] == path and float(row[0]) < 34]
        assert list(map(str, statuses)) == want, path
    assert json.loads(played.get("/v1/models")[1])["data"][0]["id"] == "demo"
    body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}]}
    status, text = played.get("/v1/chat/completions", body)
    assert (status, json.loads(text)["choices"][0]["message"]["content"]) == (200, " hello world")
    assert json.loads(played.get("/v1/completions", {"prompt": "x"})[1])["choices"][0]["text"] == " hello world"
    assert json.loads(played.get("/generate", {"text": "x"})[1])["text"] == " hello world"
    assert played.get("/v1/chat/completions", {**body, "stream": True})[1].endswith("data: [DONE]\n\n")
    assert played.get("/nowhere")[0] == 404
    assert '"GET /v1/models HTTP/1.1" 200 OK' in played.text()


def test_an_api_key_is_asked_for_as_recorded(start):
    events = recorded("e13-api-key")[0]
    played = start("e13-api-key", "--api-key", "sekret").ready()
    for path in ("/v1/models", "/model_info", "/server_info", "/metrics", "/health"):
        want = [row[3] for row in events if row[1] == "http" and row[2] == path and row[3].isdigit()]
        assert str(played.get(path)[0]) in want, path
    assert played.get("/v1/models", key="sekret")[0] == 200
    assert played.get("/generate", {"text": "x"})[0] == 401


def test_the_key_may_stand_in_a_configuration_file(start, tmp_path):
    (tmp_path / "c.yaml").write_text("api-key: sekret\nserved-model-name: demo\n")
    played = start("ok-clean-recipe", "--config", str(tmp_path / "c.yaml")).ready()
    assert played.get("/v1/models")[0] == 401
    assert "demo" in played.get("/v1/models", key="sekret")[1]


def test_sigterm_when_ready_drains_and_exits_with_zero(start):
    played = start().ready()
    played.process.send_signal(signal.SIGTERM)
    assert played.end() == 0
    shown = compare.markers(played.text().splitlines())
    assert [m for m in shown if m in ("drain", "graceful", "shutting down", "shut down")] == [
        "drain",
        "graceful",
        "shutting down",
        "shut down",
    ]
    # multiprocessing's own helper sees the launcher's end by a closed pipe: some moments after it
    played.until(lambda: not played.family(), "the end of its children")


def test_running_requests_are_finished_first(start, tmp_path):
    played = start().ready()
    code = "import sys,urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], data=sys.argv[2].encode())).status)"
    url = "http://127.0.0.1:%d/generate" % played.port
    client = subprocess.Popen(
        [sys.executable, "-c", code, url, json.dumps({"replay_seconds": 60})], stdout=subprocess.PIPE, text=True
    )
    time.sleep(0.5)
    played.process.send_signal(signal.SIGTERM)
    played.until(lambda: "Remaining number of requests 1" in played.text(), "the drain")
    assert played.get("/health")[0] == 503
    assert played.end() == 0
    assert client.communicate(timeout=10)[0].strip() == "200"


@pytest.mark.parametrize(
    ("name", "code"), [(signal.SIGINT, -2), (signal.SIGHUP, -1), (signal.SIGKILL, -9)], ids=["INT", "HUP", "KILL"]
)
def test_other_signals_when_ready(start, name, code):
    played = start().ready()
    played.process.send_signal(name)
    assert played.end() == code
    played.until(lambda: not played.family(), "the end of its children")


def test_sigterm_to_the_whole_group_is_a_crash(start):
    """Why a unit needs KillMode=mixed."""
    played = start().ready()
    os.killpg(played.process.pid, signal.SIGTERM)
    assert played.end() == -9
    assert re.search(r"Subprocess scheduler_0 \(pid=\d+\) crashed with exit code -15", played.text())


def test_sigterm_while_children_import_leaves_orphans(start):
    played = start(speed=10)
    played.until(lambda: played.text().count("Triton is not supported") == 2, "the children's first line")
    played.process.send_signal(signal.SIGTERM)
    assert played.end() == -15
    assert len(played.family()) == 3, "they ask to die with the launcher only after their imports"
    played.until(lambda: "BrokenPipeError" in played.text(), "the orphaned scheduler's end")
    played.until(lambda: not played.pid("sglang::scheduler"), "the orphaned scheduler's end")
    left = played.family()
    assert played.pid("sglang::detokenizer") in left
    assert played.process.pid not in {what[0] for what in left.values()}


def test_sigterm_while_loading_takes_the_children_along(start):
    played = start(speed=10)
    played.until(lambda: played.pid("sglang::scheduler") and played.pid("sglang::detokenizer"), "the titles")
    assert READY not in played.text()
    played.process.send_signal(signal.SIGTERM)
    assert played.end() == -15
    played.until(lambda: not played.family(), "the end of its children", seconds=5)


def test_a_scheduler_killed_while_loading(start):
    played = start(speed=10)
    played.until(lambda: played.pid("sglang::scheduler"), "the scheduler's title")
    os.kill(played.pid("sglang::scheduler"), signal.SIGKILL)
    assert played.end() == 1
    assert "Rank 0 scheduler died during initialization (exit code: -9)" in played.text()


def test_a_scheduler_killed_when_ready(start):
    played = start().ready()
    os.kill(played.pid("sglang::scheduler"), signal.SIGKILL)
    assert played.end() == -9
    assert "crashed with exit code -9" in played.text()


def test_a_detokenizer_killed_when_ready_hangs_before_it_ends(start):
    played = start().ready()
    os.kill(played.pid("sglang::detokenizer"), signal.SIGKILL)
    played.until(lambda: "Waiting 60.0 seconds" in played.text(), "the wait")
    assert played.get("/health", timeout=0.5)[0] == "timeout"
    assert played.end() == -9


def test_a_frozen_scheduler_is_seen_by_health_alone(start):
    played = start().ready()
    scheduler = pathlib.Path("/proc/%d/stat" % played.pid("sglang::scheduler"))
    os.kill(int(scheduler.parent.name), signal.SIGSTOP)
    played.until(lambda: scheduler.read_text().rsplit(")", 1)[1].split()[0] == "T", "the stop")
    assert played.get("/health")[0] == 503
    assert played.get("/v1/models")[0] == 200
    assert played.get("/server_info", timeout=0.5)[0] == "timeout"
    assert played.process.poll() is None


def test_a_port_that_is_taken(runtime, start, tmp_path):
    (tmp_path / "other").mkdir()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        played = start("ok-clean-recipe", "--port", str(other.getsockname()[1]))
        played.until(lambda: "address already in use" in played.text(), "the bind error")
    time.sleep(0.3)
    assert played.process.poll() is None, "the real server hangs here for a long time"
    assert READY not in played.text()


def test_an_unknown_recording_is_named(start):
    played = start("no-such-run")
    assert played.end() == 3
    assert "no-such-run" in played.text()
    assert "ok-clean-recipe" in played.text()


def test_the_runtime_says_its_version(runtime):
    code = "import sglang, importlib.metadata as m; print(sglang.__version__, m.version('sglang'))"
    done = subprocess.run([str(runtime / "bin/python"), "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.5.23+replay"] * 2


@pytest.mark.parametrize("name", NAMES)
def test_no_recording_holds_what_belongs_to_one_machine(name):
    text = (RECORDINGS / (name + ".tsv")).read_text()
    assert not re.search(r"(?<![\w>])/(root|work|home|tmp|opt|mnt)/", text)
    assert not re.search(r"\[20\d\d-\d\d-\d\d ", text), "a time stamp of the recording"


def test_differences_are_found():
    events = recorded("ok-clean-recipe")[0]
    good = [json.loads(row[2]) for row in events if row[1] in ("stdout", "stderr")]
    start_of = {"lines": good, "exit": 0, "statuses": {"/health": ["refused", "503", "200"]}, "titles": {"a"}}
    assert compare.differences(start_of, start_of) == []
    for change in (
        {"lines": [line for line in good if "Load weight begin" not in line]},
        {"exit": 1},
        {"statuses": {"/health": ["refused", "200"]}},
        {"titles": {"b"}},
    ):
        assert len(compare.differences(start_of, {**start_of, **change})) == 1


def test_two_ways_of_the_launcher_s_end_are_the_same_start():
    lines = [json.loads(row[2]) for row in recorded("f16-truncated")[0] if row[1] in ("stdout", "stderr")]
    killed = {"lines": lines, "exit": -9, "titles": {"sglang::schedul", "sglang::detoken"}}
    words = ["Rank 0 scheduler died during initialization (exit code: -3).", "RuntimeError: Rank 0 scheduler died"]
    raised = {"lines": [*lines, *words], "exit": 1, "titles": {"sglang::schedul"}}
    assert compare.differences(killed, raised) == []
    for change in ({"exit": 0}, {"titles": set()}, {"lines": [*lines[:-30], *words]}):
        assert compare.differences(killed, {**raised, **change}) != []


recording = load(LAB / "replay" / "runtime" / "sglang" / "recording.py", "lab_replay_recording")


@pytest.mark.parametrize(
    ("name", "arguments", "played"),
    [
        ("f16-truncated", ["--port", "1"], "f16-truncated"),
        ("--tp-size?a:b", ["--tp-size", "2"], "a"),
        ("--tp-size?a:b", ["--port", "2"], "b"),
        ("--tp-size=2?a:/x/b.tsv", ["--tp-size", "2"], "a"),
        ("--tp-size=2?a:/x/b.tsv", ["--tp-size", "4"], "/x/b.tsv"),
        ("--tp-size=2?a:b", ["--tp-size"], "b"),
    ],
)
def test_the_arguments_can_choose_the_recording(name, arguments, played):
    assert recording.chosen(name, arguments) == played
