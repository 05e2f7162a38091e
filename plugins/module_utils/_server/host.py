# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""One instance on this host: reads its facts, and takes the steps of a plan."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from .._errors import LlmHostError
from .._process import identity, signals, systemd
from . import files, instance
from . import unit as units
from .instance import Facts, Plan, Step, Wish

POLL_S = 0.1
KILL_WAIT_S = 15.0
PROPERTIES = (*systemd.PROPERTIES, "ActiveEnterTimestamp", "DropInPaths")


@dataclass
class Host:
    """Where things are, how long to wait for them, and what was seen on the way."""

    name: str
    state_dir: str
    port: int = 0
    user: str = ""
    group: str = ""
    stop_timeout_s: float = 90.0
    drain_timeout_s: int | None = None  # for this stop alone, where it shall differ from the unit's
    start_timeout_s: float = 120.0
    unit_dir: str = units.UNIT_DIR
    run_dir: str = "/run/systemd/system"
    proc: str = "/proc"
    seen: dict[str, Any] = field(default_factory=dict)  # what a step wants to tell the caller
    notes: list[str] = field(default_factory=list)

    @property
    def unit(self) -> str:
        return units.unit_name(self.name)

    @property
    def unit_path(self) -> str:
        return f"{self.unit_dir}/{self.unit}"

    @property
    def folder(self) -> str:
        return f"{self.state_dir}/instances/{self.name}"

    def show(self) -> dict[str, str]:
        return systemd.show(self.unit, PROPERTIES)

    # --- facts

    def facts(self, wish: Wish, cache_dir: str = "") -> Facts:
        shown = self.show()
        if shown.get("LoadState") == "masked":
            raise LlmHostError("masked", f"{self.unit} is masked: 'systemctl unmask {self.unit}' if it shall run here")
        if shown.get("ActiveState") == "deactivating":  # somebody stops it: wait for what comes out of it
            shown = self._settled()
        paths = [want.path for want in wish.files] + list(wish.unwanted)
        if wish.unit_path and wish.unit_path not in paths:
            paths.append(wish.unit_path)
        found = {path: files.look(path) for path in paths}
        folders = {want.path: files.look(want.path) for want in wish.folders}
        facts = Facts(
            active_state=shown.get("ActiveState", "inactive"),
            sub_state=shown.get("SubState", "dead"),
            unit_file_state=shown.get("UnitFileState", ""),
            need_daemon_reload=shown.get("NeedDaemonReload") == "yes",
            files={path: file for path, file in found.items() if file is not None},
            folders={path: folder for path, folder in folders.items() if folder is not None},
            origin=self.origin(shown),
            state_folder=os.path.isdir(self.folder),
            cache_folder=bool(cache_dir) and os.path.isdir(cache_dir),
        )
        self._ours(facts)
        if facts.running:
            return facts
        return _with_leftovers(facts, self.processes())

    def _settled(self) -> dict[str, str]:
        deadline = time.monotonic() + self.stop_timeout_s
        while True:
            shown = self.show()
            if shown.get("ActiveState") != "deactivating":
                return shown
            if time.monotonic() >= deadline:
                raise LlmHostError(
                    "stop_timeout",
                    f"{self.unit} has been stopping for {self.stop_timeout_s:g} s: raise stop_timeout_s, or see "
                    f"'systemctl status {self.unit}'",
                )
            time.sleep(POLL_S)

    def _ours(self, facts: Facts) -> None:
        found = facts.files.get(self.unit_path)
        if found is not None and units.read_mark(found.content.decode("utf-8", "replace")) is None:
            raise LlmHostError(
                "foreign_unit",
                f"{self.unit_path} exists and is not of this collection: remove it, or give the instance another name",
                file=self.unit_path,
            )

    def origin(self, shown: dict[str, str]) -> dict[str, str] | None:
        """The digests that the running process was started with: from itself, else from this start's marker."""
        pid = shown.get("MainPID", "0")
        if pid.isdigit() and int(pid):
            found = instance.read_digests(environment(int(pid), self.proc).get(units.START_MARK, ""))
            if found:
                return found
        marker = self.marker()
        if marker.get("invocation_id") and marker["invocation_id"] == shown.get("InvocationID"):
            return instance.read_digests(str(marker.get("start", "")))
        return None

    def marker(self) -> dict[str, Any]:
        try:
            with open(f"{self.folder}/start.json", "rb") as handle:
                found = json.loads(handle.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def processes(self) -> list[int]:
        """Processes that belong to the unit by their cgroup, here and not in a container below."""
        try:
            here = identity.read(os.getpid(), self.proc).container
        except ProcessLookupError:
            here = None
        found = []
        for pid in identity.pids(self.proc):
            try:
                process = identity.read(pid, self.proc)
            except OSError:
                continue
            if process.unit == self.unit and process.container == here and not process.zombie:
                found.append(pid)
        return found

    # --- before a start

    def problems(self, program: str, required: Sequence[str]) -> list[tuple[str, str]]:
        """What an earlier task makes and is missing (account, runtime, weights): reason and message of each."""
        found = []
        if files.uid_of(self.user) is None:
            found.append(("user_missing", f"there is no user {self.user!r} on this host: make it, or set user"))
        if files.gid_of(self.group) is None:
            found.append(("user_missing", f"there is no group {self.group!r} on this host: make it, or set group"))
        known = not found
        if not os.path.exists(program):
            found.append(("runtime_missing", f"{program} does not exist: install the runtime, or correct argv[0]"))
        elif known and not files.accessible(program, os.X_OK, self.user, self.group):
            found.append(
                ("runtime_missing", f"user {self.user} may not execute {program}: check the modes of its folders")
            )
        for path in required:
            if not os.path.exists(path):
                found.append(
                    ("path_missing", f"{path} does not exist: mount or download it, or correct required_paths")
                )
            elif known and not files.accessible(path, _reading(path), self.user, self.group):
                found.append(
                    (
                        "path_unreadable",
                        f"user {self.user} may not read {path}: change its mode (SGLang would say 'No such file')",
                    )
                )
        return found

    def check_port(self) -> None:
        """Refuse a port that anybody but this instance's own processes listens on."""
        if not self.port:
            return
        try:
            holders = identity.listeners(self.port, self.proc)
        except LlmHostError as error:
            raise LlmHostError(
                "port_in_use",
                f"port {self.port} is taken by a process that cannot be seen from here (another container or "
                "namespace): free it, or choose another port",
                port=self.port,
                holders=[],
                **error.details,
            ) from None
        if not holders:
            return
        own = set(self.processes())
        foreign = [pid for pid in holders if pid not in own]
        if foreign:
            who = [self._holder(pid) for pid in foreign]
            raise LlmHostError(
                "port_in_use",
                f"port {self.port} is held by {', '.join(map(_naming, who))}: stop that, or choose another port",
                port=self.port,
                holders=who,
            )

    def _holder(self, pid: int) -> dict[str, Any]:
        try:
            process = identity.read(pid, self.proc)
        except OSError:
            return {"pid": pid, "comm": "gone", "unit": None, "cmdline": ""}
        return {"pid": pid, "comm": process.comm, "unit": process.unit, "cmdline": process.cmdline}

    def neighbours(self) -> list[str]:
        """Other instances of ours on this host that want the same port."""
        found = []
        for other, mark in instances(self.unit_dir):
            if other != self.name and self.port and mark.get("Port") == str(self.port):
                found.append(other)
        return found

    # --- steps

    def take(self, plan: Plan, wish: Wish, cache_dir: str, start: dict[str, Any]) -> None:
        """Take the steps of a plan. ``start`` is what the marker of a start shall hold."""
        for step in plan.steps:
            self._take(step, wish, cache_dir, start)

    def _take(self, step: Step, wish: Wish, cache_dir: str, start: dict[str, Any]) -> None:
        verb = step.verb
        if verb == "make_folder":
            files.make_folder(next(want for want in wish.folders if want.path == step.path))
        elif verb == "write":
            files.replace(next(want for want in wish.files if want.path == step.path))
        elif verb == "remove":
            _remove(step.path)
        elif verb == "daemon_reload":
            systemd.systemctl("daemon-reload", timeout_s=90)
        elif verb in ("enable", "disable"):
            systemd.systemctl(verb, self.unit, timeout_s=90)
        elif verb == "stop":
            self.stop()
        elif verb == "end_leftovers":
            self.end_leftovers()
        elif verb == "start":
            self.start(start)
        elif verb == "remove_unit":
            _remove(self.unit_path)
        elif verb == "remove_state":
            _remove_tree(self.folder)
        elif verb == "purge_caches":
            _remove_tree(cache_dir)
        else:
            raise ValueError(f"unknown step {verb!r}")

    def stop(self) -> None:
        """Stop the unit and prove that none of its processes is left."""
        began = time.monotonic()
        try:
            with self._draining():
                systemd.systemctl("stop", self.unit, timeout_s=self.stop_timeout_s)
        except LlmHostError as error:
            if error.reason != "systemd_timeout":
                raise
            raise LlmHostError(
                "stop_timeout",
                f"{self.unit} did not stop within {self.stop_timeout_s:g} s: raise stop_timeout_s, "
                f"or see 'systemctl status {self.unit}'",
                processes=[self._holder(pid) for pid in self.processes()],
            ) from None
        shown = self.show()
        self.end_leftovers()
        result = shown.get("Result", "")
        self.seen["stop"] = {
            "seconds": round(time.monotonic() - began, 3),
            "result": result,
            "drained": result not in ("timeout", "oom-kill"),
        }
        if shown.get("ActiveState") == "failed":
            # Old releases kill themselves when told to stop: that is no failure of this stop.
            self._reset_failed()

    @contextlib.contextmanager
    def _draining(self) -> Iterator[None]:
        """Let one stop drain for another time than the unit says: a drop-in that lives as long as the stop."""
        if self.drain_timeout_s is None:
            yield
            return
        folder = f"{self.run_dir}/{self.unit}.d"
        path = folder + "/90-llmhost-drain.conf"
        files.make_folder(instance.WantedFolder(folder, 0o755))
        text = f"[Service]\nTimeoutStopSec={self.drain_timeout_s}\n"
        files.replace(instance.WantedFile(path, text.encode(), 0o644))
        try:
            systemd.systemctl("daemon-reload", timeout_s=90)
            yield
        finally:
            _remove(path)
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # not ours to remove where somebody else's drop-ins lie in it
            systemd.systemctl("daemon-reload", timeout_s=90)

    def end_leftovers(self) -> None:
        """End what lives in the unit's cgroup though the unit does not run: children of a launcher that is gone."""
        left = self.processes()
        if not left:
            return
        self.seen.setdefault("ended", []).extend(self._holder(pid) for pid in left)
        handles = []
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                handles.append(signals.open_handle(pid, self.proc))
        try:
            for handle in handles:
                if handle.process.unit == self.unit:
                    handle.send(9)
            signals.wait(handles, KILL_WAIT_S)
        finally:
            for handle in handles:
                handle.close()
        still = self.processes()
        if still:
            raise LlmHostError(
                "still_running",
                f"processes of {self.unit} do not end, not even on SIGKILL (a device or a file system hangs): "
                + ", ".join(map(str, still)),
                processes=[self._holder(pid) for pid in still],
            )

    def start(self, marker: dict[str, Any]) -> None:
        """Start the unit and record the marker of this start; readiness is another module's work."""
        self.check_port()
        self._reset_failed()  # clears the count of starts too, else StartLimitBurst bites a play that means it
        try:
            systemd.systemctl("start", self.unit, timeout_s=self.start_timeout_s)
        except LlmHostError as error:
            if error.reason not in ("systemd_failed", "systemd_timeout"):
                raise
            shown = self.show()
            raise LlmHostError(
                "start_failed",
                f"{self.unit} did not start: {_first_line(error)} "
                f"(result {shown.get('Result')}, exit status {shown.get('ExecMainStatus')})",
                result=shown.get("Result"),
                exit_status=shown.get("ExecMainStatus"),
                log_tail=self.journal(shown.get("InvocationID", "")),
            ) from None
        self.record(marker)

    def record(self, marker: dict[str, Any]) -> None:
        """Write the marker for what runs now."""
        shown = self.show()
        content = {
            **marker,
            "invocation_id": shown.get("InvocationID", ""),
            "started_at": _started_at(shown),
            "boot_id": _boot_id(self.proc),
        }
        text = json.dumps(content, indent=2, sort_keys=True) + "\n"
        files.replace(instance.WantedFile(f"{self.folder}/start.json", text.encode(), 0o600))

    def _reset_failed(self) -> None:
        try:
            systemd.systemctl("reset-failed", self.unit)
        except LlmHostError as error:
            if error.reason != "systemd_failed":  # a unit that is not loaded has nothing to reset
                raise

    def journal(self, invocation: str, lines: int = 20) -> list[str]:
        """The last lines that systemd and the process wrote in one start, masked."""
        match = (
            [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"INVOCATION_ID={invocation}"]
            if invocation
            else ["-u", self.unit]
        )
        command = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--lines={lines}", *match]
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return [identity.mask(line) for line in done.stdout.decode("utf-8", "replace").splitlines()]


def _first_line(error: LlmHostError) -> str:
    return (str(error.details.get("stderr") or "") or error.message).splitlines()[0]


def _naming(holder: dict[str, Any]) -> str:
    return f"PID {holder['pid']} ({holder['comm']}, {holder['unit'] or 'no unit'})"


def _with_leftovers(facts: Facts, left: Sequence[int]) -> Facts:
    return Facts(**{**facts.__dict__, "leftovers": tuple(left)})


def _reading(path: str) -> int:
    return os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise files.write_failed(path, "removed", error) from None


def _remove_tree(path: str) -> None:
    if os.path.islink(path):
        return _remove(path)
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise files.write_failed(path, "removed", error) from None


def environment(pid: int, proc: str = "/proc") -> dict[str, str]:
    """The variables that a process was started with; empty where they cannot be read. Not for anybody's eyes."""
    try:
        with open(f"{proc}/{pid}/environ", "rb") as handle:
            items = handle.read().decode("utf-8", "surrogateescape").split("\0")
    except OSError:
        return {}
    return dict(item.split("=", 1) for item in items if "=" in item)


def instances(unit_dir: str = units.UNIT_DIR) -> list[tuple[str, dict[str, str]]]:
    """Every instance of ours on this host: its name and what our section of its unit says."""
    found = []
    try:
        names = sorted(os.listdir(unit_dir))
    except FileNotFoundError:
        return []
    for name in names:
        if not (name.startswith("sglang-") and name.endswith(".service")):
            continue
        try:
            with open(f"{unit_dir}/{name}", encoding="utf-8", errors="replace") as handle:
                mark = units.read_mark(handle.read())
        except OSError:
            continue
        if mark and units.unit_name(mark["Instance"]) == name:
            found.append((mark["Instance"], mark))
    return found


def _started_at(shown: dict[str, str]) -> str:
    """When the main process began, in UTC: the wall clock now less its age on the monotonic clock."""
    stamp = shown.get("ExecMainStartTimestampMonotonic", "0")
    age = time.clock_gettime(time.CLOCK_MONOTONIC) - int(stamp) / 1e6 if stamp.isdigit() and int(stamp) else 0.0
    moment = datetime.fromtimestamp(time.time() - max(0.0, age), timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _boot_id(proc: str) -> str:
    try:
        with open(f"{proc}/sys/kernel/random/boot_id") as handle:
            return handle.read().strip()
    except OSError:
        return ""
