# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Programs that a build starts: bounded, killed with whoever started them, and holding the lock until they are gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._errors import LlmHostError

_PR_SET_PDEATHSIG = 1
_SECRET = re.compile(r"(://)[^/@\s]+@")
_TELLS = re.compile(r"(ERROR|error|×|Error|cause:|Caused by:|[├╰]─▶)")  # how pip and uv begin what counts


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def last_words(self) -> str:
        """The lines that tell what went wrong, without the noise around them."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        told = [line for line in lines if _TELLS.match(line)] or lines[-3:]
        return mask(" / ".join(told[-4:]))[-600:]


def mask(text: str) -> str:
    """An address without the password in it."""
    return _SECRET.sub(r"\1********@", text)


def environment(base: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """That of the task, without what would lead a Python into other environments."""
    kept = {key: value for key, value in base.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    return {**kept, "LC_ALL": "C.UTF-8", **more}


def run(
    command: Sequence[str],
    env: Mapping[str, str],
    timeout_s: float = 600.0,
    keep_open: Sequence[int] = (),
    folder: str = "/",
) -> Done:
    """Run to its end. Output goes through files: what a grandchild keeps open must not hold us."""
    parent = os.getpid()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            program = subprocess.Popen(  # pylint: disable=ansible-bad-function
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(env),
                cwd=folder,
                pass_fds=tuple(keep_open),
                start_new_session=True,
                preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509 (nothing here has threads)
            )
        except OSError as error:
            return Done(127, "", f"{command[0]}: {error.strerror or error}")
        deadline = time.monotonic() + timeout_s
        try:
            code = program.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = 124
        finally:
            with contextlib.suppress(OSError):  # the group: what pip started, too
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
    return Done(code, texts[0], texts[1])


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the wish was told
        os._exit(125)


def must(done: Done, reason: str, what: str, cure: str) -> Done:
    if done.code == 124:
        raise LlmHostError(
            "timeout", f"{what} took longer than timeout_s: raise it, or look at the network and the disk"
        )
    if done.code != 0:
        raise LlmHostError(reason, f"{what} failed ({done.code}): {done.last_words}. {cure}")
    return done
