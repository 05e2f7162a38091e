# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The watcher as a process of its own on the target.

A module cannot stream and its payload vanishes with the task, so the watch is written once as a zip that Python runs,
below the instance's folder, and started as a transient unit (an inherited descriptor would hold ssh or ``pct exec``
open). It writes a small status file; the verdict lies beside it. It ends with its verdict and touches nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from dataclasses import asdict
from typing import Any, Callable

from .._errors import LlmHostError
from . import evidence
from .session import Request, watch
from .watch import Report

PACKAGE = "llmhost_watch"
PARTS = (
    "_errors", "_remedy", "_process", "_process.identity", "_process.systemd", "_startup", "_startup.analysis",
    "_startup.cause", "_startup.causes", "_startup.causes_config", "_startup.causes_install", "_startup.causes_kernel",
    "_startup.causes_memory", "_startup.causes_network", "_startup.causes_place", "_startup.causes_process",
    "_startup.detached", "_startup.evidence", "_startup.failures", "_startup.journal", "_startup.life",
    "_startup.lines", "_startup.phases", "_startup.readiness",
    "_startup.session", "_startup.sources", "_startup.unit", "_startup.verdict", "_startup.watch", "_evidence",
    "_evidence.gather", "_evidence.gpus", "_evidence.kernel", "_evidence.places", "_evidence.stack", "_gpu",
    "_gpu.clients", "_gpu.errors", "_gpu.model", "_gpu.nvml", "_gpu.query", "_gpu.smi", "_gpu.xid",
)  # fmt: skip
# Evidence is handed in; it is imported when it is asked for first, which a start that succeeds never does.
MAIN = f"""import sys
from {PACKAGE}._startup.detached import main


def outside(start):
    from {PACKAGE}._evidence.gather import Host

    return Host(start)


sys.exit(main(sys.argv[1:], outside))
"""
SWEEP_S = 300.0
ALIVE_S = 1.0  # the status file is written at least so often


def payload() -> bytes:
    """The zip: the source of these rooms under a package of their own."""
    base = __name__.rsplit("._startup.", 1)[0]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", MAIN)
        _add(archive, PACKAGE + "/__init__.py", "")
        for part in PARTS:
            spec = importlib.util.find_spec(base + "." + part)
            loader: Any = spec.loader if spec else None
            if spec is None or loader is None or not hasattr(loader, "get_source"):
                raise LlmHostError("watcher_incomplete", "the part %s of the watcher cannot be read" % part)
            name = part.replace(".", "/") + ("/__init__.py" if spec.submodule_search_locations is not None else ".py")
            _add(archive, PACKAGE + "/" + name, loader.get_source(base + "." + part) or "")
    return out.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, text)


def available() -> str:
    """Why the watcher cannot be started detached here; empty where it can."""
    if os.geteuid() != 0:
        return "the task does not run as root"
    if shutil.which("systemd-run") is None:
        return "systemd-run is not on this host"
    if not os.path.isdir("/run/systemd/system"):
        return "this host was not booted with systemd"
    return ""


def start(request: Request, invocation: str) -> dict[str, Any]:
    """Start the watcher, or join the one that already watches this start. Raises LlmHostError where that fails."""
    folder = os.path.join(request.folder, "watch")
    os.makedirs(folder, mode=0o755, exist_ok=True)
    asked = {key: value for key, value in asdict(request).items() if key != "timeout_s"}
    key = hashlib.sha256((invocation + json.dumps(asked, sort_keys=True)).encode()).hexdigest()[:12]
    watcher = "llmhost-watch-%s-%s" % (request.name, key)
    paths = {
        name: os.path.join(folder, "%s.%s" % (key, name)) for name in ("status.json", "verdict.json", "request.json")
    }
    answer = {
        "watcher": watcher + ".service",
        "status_path": paths["status.json"],
        "verdict_path": paths["verdict.json"],
    }
    if _active(watcher + ".service"):
        return {**answer, "joined": True}
    for path in (paths["status.json"], paths["verdict.json"]):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    _sweep(folder, key)
    program = os.path.join(folder, "watch.pyz")
    _write(program, payload(), 0o600)
    _write(paths["request.json"], json.dumps(asdict(request)).encode(), 0o600)
    _write(paths["status.json"], json.dumps({"state": "starting", "updated": time.time()}).encode(), 0o600)
    command = [
        "systemd-run",
        "--quiet",
        "--collect",
        "--unit=" + watcher,
        "--description=Start-up watch of " + request.unit,
        "--property=Nice=5",
        "--property=RuntimeMaxSec=%d" % int(request.timeout_s + 120),
        "--property=StandardOutput=null",
        sys.executable,
        "-I",
        program,
        paths["request.json"],
        paths["status.json"],
        paths["verdict.json"],
    ]
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30, check=False
    )
    if done.returncode:
        raise LlmHostError(
            "watcher_failed",
            "systemd-run failed (%d): %s" % (done.returncode, done.stderr.decode("utf-8", "replace").strip()),
        )
    return {**answer, "joined": False}


def _active(watcher: str) -> bool:
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        ["systemctl", "is-active", "--quiet", watcher],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=30,
        check=False,
    )
    return done.returncode == 0


def _sweep(folder: str, key: str) -> None:
    """Remove the files of earlier watchers; one that still works writes its status every few seconds."""
    for name in os.listdir(folder):
        other, _dot, kind = name.partition(".")
        if kind != "status.json" or other == key:
            continue
        with contextlib.suppress(OSError):
            if time.time() - os.stat(os.path.join(folder, name)).st_mtime < SWEEP_S:
                continue
        for kind in ("request.json", "verdict.json", "status.json"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, "%s.%s" % (other, kind)))


def _write(path: str, data: bytes, mode: int) -> None:
    """Write a file so that a reader sees the old or the new content, never half of it."""
    descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".watch-")
    try:
        os.fchmod(descriptor, mode)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
        os.rename(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class StatusFile:
    """Writes where the start is, when it changes, at most twice a second, at least every few seconds."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._last = ""
        self._at = 0.0

    def __call__(self, report: Report) -> None:
        now = time.monotonic()
        shown = "%s|%s" % (report.phase, report.progress)
        if now - self._at < 0.5 or (shown == self._last and now - self._at < ALIVE_S):
            return
        self._last, self._at = shown, now
        self.write(
            {
                "state": "watching",
                "phase": report.phase,
                "seconds": round(report.seconds, 1),
                "phase_seconds": round(report.phase_seconds, 1),
                "bar": report.progress,
            }
        )

    def write(self, data: dict[str, Any]) -> None:
        _write(self.path, json.dumps({**data, "pid": os.getpid(), "updated": time.time()}).encode(), 0o600)


def main(arguments: list[str], outside: Callable[[evidence.Start], evidence.Outside] | None = None) -> int:
    """The detached watcher: request, status and verdict files."""
    request_path, status_path, verdict_path = arguments
    with open(request_path, encoding="utf-8") as handle:
        request = Request(**json.load(handle))
    status = StatusFile(status_path)
    answer: dict[str, Any]
    try:
        answer = {"result": watch(request, status, outside)}
    except LlmHostError as error:
        answer = {"error": error.as_result()}
    except Exception as error:  # the watcher must never leave its reader waiting
        answer = {
            "error": {
                "reason": "watcher_failed",
                "msg": "the watcher broke: %r" % error,
                "traceback": traceback.format_exc()[-4000:],
            }
        }
    _write(verdict_path, json.dumps(answer).encode(), 0o600)
    result = answer.get("result") or {}
    status.write(
        {
            "state": "done",
            "outcome": result.get("outcome", "error"),
            "cause": result.get("cause"),
            "seconds": result.get("seconds"),
        }
    )
    return 0


def collect(verdict_path: str) -> dict[str, Any]:
    """The verdict of a detached watcher."""
    try:
        with open(verdict_path, encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError) as error:
        raise LlmHostError("watcher_failed", "the watcher left no verdict in %s: %s" % (verdict_path, error)) from None
    if not isinstance(found, dict):
        found = {}
    if "error" in found:
        details = dict(found["error"])
        raise LlmHostError(
            str(details.pop("reason", "watcher_failed")), str(details.pop("msg", "the watcher failed")), **details
        )
    result = found.get("result")
    if not isinstance(result, dict):
        raise LlmHostError("watcher_failed", "the watcher left no verdict in %s" % verdict_path)
    return result


def told(folder: str, invocation: str) -> dict[str, Any] | None:
    """The verdict that a watcher of this instance (its ``folder``) came to on this start; None where none did."""
    found: list[tuple[float, dict[str, Any]]] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(os.path.join(folder, "watch")):
            if entry.name.endswith(".verdict.json"):
                with contextlib.suppress(OSError, LlmHostError):
                    result = collect(entry.path)
                    if result.get("invocation_id") == invocation:
                        found.append((entry.stat().st_mtime, result))
    return max(found, key=lambda one: one[0])[1] if found else None
