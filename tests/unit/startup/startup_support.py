# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for a unit: a real process with a real log file, real children and a real port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import unit
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.sources import FileSource
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.watch import Options, Report, Watch

PROGRAM = r"""
import http.server, json, os, signal, subprocess, sys, threading, time
port = int(os.environ["PORT"])
health = [503]
def say(text):
    sys.stderr.write(text); sys.stderr.flush()
def line(text):
    say(time.strftime("[%Y-%m-%d %H:%M:%S] ") + text + "\n")
def args(more=""):
    line("server_args=ServerArgs(model_path='/models/a', host='127.0.0.1', port=%d, log_level='info'%s)" % (port, more))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"{}"
        code = 200
        if self.path == "/v1/models":
            body = json.dumps({"data": [{"id": os.environ.get("NAME", "a")}]}).encode()
        elif self.path.startswith("/health"):
            code = health[0]
        else:
            code = 404
        self.send_response(code); self.send_header("Content-Length", str(len(body)))
        self.end_headers(); self.wfile.write(body)
    def log_message(self, *a):
        pass
def serve():
    http.server.ThreadingHTTPServer.allow_reuse_address = True
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    line("INFO:     Uvicorn running on http://127.0.0.1:%d (Press CTRL+C to quit)" % port)
def child(seconds):
    arguments = ["sglang::scheduler", "-c", "import time; time.sleep(%r)" % seconds]
    return subprocess.Popen(arguments, executable=sys.executable)
def load():
    line("Load weight begin. avail mem=70.00 GB"); line("Load weight end. type=A, avail mem=60.00 GB")
def fired():
    line("The server is fired up and ready to roll!")
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class FakeProcesses(unit.Processes):
    """The tree of one process in place of a control group."""

    root = 0

    def living(self) -> list[int]:
        return [pid for pid in [self.root, *identity.children(self.root)] if unit._alive(pid)]


class FakeUnit:
    """Runs a program as a unit would, its output into a file."""

    def __init__(self, folder: Path, program: str, **environment: str) -> None:
        self.port = int(environment.pop("PORT", "0") or 0) or free_port()
        self.log = folder / "server.log"
        self.invocation = "inv1"
        self.restarts = 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM + program],
                stdout=log,
                stderr=log,
                env={**os.environ, "PORT": str(self.port), **environment},
                start_new_session=True,
            )

    def state(self) -> unit.State:
        code = self.process.poll()
        running = code is None
        ended_well = code in (0, -signal.SIGTERM)
        return unit.State(
            "loaded",
            "active" if running else ("inactive" if ended_well else "failed"),
            "running" if running else "dead",
            "success" if running or ended_well else "signal",
            self.process.pid if running else 0,
            self.invocation,
            self.restarts,
            "",
            code if code is not None and code >= 0 else None,
            -code if code is not None and code < 0 else None,
        )

    def watch(self, reports: list[Report] | None = None, source: Any = None, **options: Any) -> Watch:
        kind = type("Here", (FakeProcesses,), {"root": self.process.pid})
        settings = {"unit": "sglang-a.service", "timeout_s": 20.0, **options}
        return Watch(
            Options(**settings),
            source or FileSource(str(self.log)),
            self.state,
            (reports.append if reports is not None else None),
            processes=kind,
        )

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


def wait_until(condition: Any, seconds: float = 10.0) -> None:
    """Wait for a condition, fail if it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("the condition did not come")
        time.sleep(0.02)
