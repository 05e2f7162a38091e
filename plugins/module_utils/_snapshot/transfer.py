# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Runs the program that moves bytes: asks it for a listing, lets it fetch, watches that bytes come, tries again."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Callable

from .._errors import LlmHostError
from . import client, failures
from .model import File, Listing, Source, safe_name

POLL_S = 0.5
LONGEST_WAIT_S = 60.0
OFFICIAL = "https://huggingface.co"


@dataclass(frozen=True)
class Way:
    """How bytes come: by which Python, with which patience."""

    python: str
    token: str | None = None
    workers: int = 4
    timeout_s: float = 0.0  # for all of it; 0 for no end
    stall_s: float = 120.0
    slice_s: float = 0.0  # 0 for no end
    request_timeout_s: float = 30.0
    retries: int = 5
    retry_delay_s: float = 5.0
    environment: Mapping[str, str] = field(default_factory=dict)
    keep_open: Sequence[int] = ()  # locks that must live as long as the program


@dataclass(frozen=True)
class Clock:
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class SliceOver(Exception):
    """Something came, and it is time to tell so. What came stays, and the next run goes on."""


class Transfer:
    def __init__(self, source: Source, way: Way, staging: str, clock: Clock | None = None) -> None:
        self.source = source
        self.way = way
        self.staging = staging
        self.clock = clock or Clock()
        self.deadline = self.clock.now() + way.timeout_s if way.timeout_s else None
        self.retried: list[str] = []
        self.said: IO[bytes] | None = None
        self.began = self.clock.now()

    # ------------------------------------------------------------ questions
    def listing(self) -> Listing:
        """All files of a repository at the commit that the revision names now."""
        answer: dict[str, Any] = {}

        def take(event: Mapping[str, Any]) -> None:
            if event["event"] == "listing":
                answer.update(event)

        self._patiently("list", [], take, lambda: [{}] if not answer else [])
        files = tuple(
            File(safe_name(str(item["name"])), item["size"], item["sha256"], item["git_sha1"])
            for item in answer["files"]
        )
        return Listing(str(answer["commit"]), files)

    def sizes(self, files: Sequence[File], commit: str | None) -> list[File]:
        """The same files, with the sizes that were not known asked for one by one."""
        found: dict[str, Mapping[str, Any]] = {}

        def take(event: Mapping[str, Any]) -> None:
            if event["event"] == "file":
                found[event["name"]] = event

        def left() -> list[dict[str, Any]]:
            return [
                {"name": item.name, "url": item.url} for item in files if item.size is None and item.name not in found
            ]

        if left():
            self._patiently("sizes", [], take, left, commit)
        answer = []
        for item in files:
            new = found.get(item.name, {})
            answer.append(
                File(
                    item.name,
                    item.size if item.size is not None else new.get("size"),
                    item.sha256 or new.get("sha256"),
                    item.git_sha1 or (None if item.sha256 else new.get("git_sha1")),
                    item.url,
                )
            )
        return answer

    # ------------------------------------------------------------ deeds
    def fetch(self, files: Sequence[File], commit: str | None, accept: Callable[[File, str], None]) -> None:
        """Bring every file as ``part`` to ``accept``, which takes it away or raises."""
        todo = {item.name: item for item in files}
        self.began = self.clock.now()
        paths = {item.name: os.path.join(self.staging, item.key + ".part") for item in files}

        def take(event: Mapping[str, Any]) -> None:
            if event["event"] == "done" and event["name"] in todo:
                accept(todo[event["name"]], paths[event["name"]])
                del todo[event["name"]]

        def left() -> list[dict[str, Any]]:
            return [
                {"name": item.name, "url": item.url, "size": item.size, "part": paths[item.name]}
                for item in todo.values()
            ]

        if todo:
            self._patiently("fetch", list(paths.values()), take, left, commit)

    # ------------------------------------------------------------ the program
    def _patiently(
        self,
        deed: str,
        grows: Sequence[str],
        take: Callable[[Mapping[str, Any]], None],
        left: Callable[[], list[dict[str, Any]]],
        commit: str | None = None,
    ) -> None:
        """Run the program until nothing is left, again after failures that pass; progress renews the patience."""
        failed_in_a_row = 0
        while True:
            before = (_bytes_in(grows), len(left()))
            error, wait_s = self._once(deed, grows, take, left, commit)
            if not left():
                return
            if error is None:
                error = LlmHostError("client_failed", "the download program ended without a result and without a word")
            if (_bytes_in(grows), len(left())) != before:
                failed_in_a_row = 0
            failed_in_a_row += 1
            if not error.details.get("retryable") or failed_in_a_row > self.way.retries:
                raise error
            self.retried.append(error.reason)
            pause = min(wait_s or self.way.retry_delay_s * 2 ** (failed_in_a_row - 1), LONGEST_WAIT_S)
            if self.deadline is not None and self.clock.now() + pause > self.deadline:
                raise error
            self.clock.sleep(pause)

    def _once(
        self,
        deed: str,
        grows: Sequence[str],
        take: Callable[[Mapping[str, Any]], None],
        left: Callable[[], list[dict[str, Any]]],
        commit: str | None,
    ) -> tuple[LlmHostError | None, float | None]:
        items = left()
        request = {
            "do": deed,
            "kind": self.source.kind,
            "repo_id": self.source.repo_id,
            "revision": self.source.revision,
            "endpoint": self.source.endpoint or OFFICIAL,
            "commit": commit,
            "token": self.way.token,
            "workers": self.way.workers,
            "timeout_s": self.way.request_timeout_s,
            "files": items,
        }
        error: LlmHostError | None = None
        wait_s: float | None = None
        seen = _bytes_in(grows)
        last = self.clock.now()
        first = (seen, len(items))
        with self._program(request) as program:
            for event in _events(program, POLL_S):
                if event is not None:
                    if event["event"] == "error":
                        new, pause = self._judge(event)
                        error, wait_s = error or new, wait_s or pause
                    else:
                        take(event)
                    last = self.clock.now()
                size = _bytes_in(grows)
                if size != seen:
                    seen, last = size, self.clock.now()
                elif self.clock.now() - last > self.way.stall_s:
                    return self._stalled(), None
                if deed == "fetch" and self.slice_over() and (size, len(left())) != first:
                    raise SliceOver
                if self.deadline is not None and self.clock.now() > self.deadline:
                    raise LlmHostError(
                        "timeout",
                        f"{self._who()}: not done within timeout_s: raise it, or run again, what has come so far stays",
                        retryable=False,
                    )
            program.wait()
            words = self._last_words()
        if error is None and program.returncode:
            error = LlmHostError(
                "client_failed",
                f"{self.way.python} ended with {program.returncode}: {words or 'no word'}",
                retryable=program.returncode < 0,
            )
        return error, wait_s

    def slice_over(self) -> bool:
        return bool(self.way.slice_s) and self.clock.now() - self.began > self.way.slice_s

    def _stalled(self) -> LlmHostError:
        return LlmHostError(
            "stalled",
            f"{self._who()}: no byte came for {self.way.stall_s:.0f} s: check the connection, run again (what has come "
            "so far stays), or raise stall_s",
            retryable=True,
        )

    def _who(self) -> str:
        return self.source.repo_id or self.source.kind

    def _judge(self, event: Mapping[str, Any]) -> tuple[LlmHostError, float | None]:
        row = failures.classify(event)
        if "ModuleNotFoundError" in event["kinds"] and "huggingface_hub" in event["message"]:
            return client_missing(self.way.python, "it has no huggingface_hub"), None
        said = self._mask(str(event["message"]).strip().replace("\n", " "))[:400]
        what = f"{event['name']} of {self._who()}" if event.get("name") else self._who()
        wait = str(event.get("retry_after") or "")
        return (
            LlmHostError(
                row.reason,
                f"{what}: {row.cure}. ({said})",
                retryable=row.retryable,
                status=event.get("status"),
                file=event.get("name"),
            ),
            float(wait) if wait.isdigit() else None,
        )

    def _mask(self, text: str) -> str:
        return text.replace(self.way.token, "********") if self.way.token else text

    @contextlib.contextmanager
    def _program(self, request: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
        # no colour, no bars, no telemetry, no cache beside ours, and no token or configuration of whoever runs it
        environment = {
            **{key: value for key, value in self.way.environment.items() if not key.startswith(("HF_TOKEN", "PYTHON"))},
            "HF_HOME": os.path.join(self.staging, ".hub"),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
            "HF_HUB_DISABLE_XET": self.way.environment.get("HF_HUB_DISABLE_XET", "1"),
            "HF_HUB_DOWNLOAD_TIMEOUT": str(int(max(1, min(self.way.request_timeout_s, self.way.stall_s)))),
            "LC_ALL": "C.UTF-8",
        }
        environment.pop("HF_HUB_OFFLINE", None)
        isolated = "-I" if self.source.kind == "hub" else "-IS"
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the program; a pipe could fill and block it)
        try:
            program = subprocess.Popen(  # pylint: disable=ansible-bad-function
                [self.way.python, isolated, "-c", inspect.getsource(client)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.said,
                env=environment,
                cwd="/",
                pass_fds=self.way.keep_open,
            )
        except OSError as error:
            raise client_missing(self.way.python, error.strerror or "it cannot be run") from None
        try:
            if program.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    program.stdin.write(json.dumps(request).encode() + b"\n")
                    program.stdin.flush()
            yield program
        finally:
            with contextlib.suppress(OSError):
                program.kill()
            program.wait()
            for stream in (program.stdin, program.stdout, self.said):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def _last_words(self) -> str:
        if self.said is None:
            return ""
        self.said.seek(max(0, self.said.seek(0, os.SEEK_END) - 4000))
        text = self.said.read().decode("utf-8", "replace").strip()
        return self._mask(text.splitlines()[-1])[:400] if text else ""


def client_missing(python: str, why: str) -> LlmHostError:
    return LlmHostError(
        "client_missing",
        f"{python}: {why}: install the runtime first (role sglang_runtime), or name in venv an environment that has "
        "huggingface_hub",
        retryable=False,
    )


def any_python() -> str:
    return sys.executable or "/usr/bin/python3"


def _bytes_in(paths: Sequence[str]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += os.stat(path).st_size
    return total


def _events(program: subprocess.Popen[bytes], poll_s: float) -> Iterator[dict[str, Any] | None]:
    """Events of the program; ``None`` now and then where there is none. Ends with the program's output."""
    if program.stdout is None:
        return
    handle = program.stdout.fileno()
    rest = b""
    while True:
        ready, _w, _x = select.select([handle], [], [], poll_s)
        if not ready:
            yield None
            continue
        block = os.read(handle, 65536)
        if not block:
            return
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a library that prints
            if isinstance(event, dict) and "event" in event:
                yield event
