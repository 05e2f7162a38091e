# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""How one start of a unit ended, by what systemd wrote of it: at the next start ``systemctl show`` has forgotten it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace

# systemd's own message ids (sd-messages.h)
STOPPING = "de5b426a63be47a7b6ac3eaac82e2f6f"
PROCESS_EXIT = "98e322203f7a4ed290d09fe03c09fe15"
OUT_OF_MEMORY = "fe6faa94e7774663a0da52717891d8ef"
FIELDS = ("MESSAGE", "MESSAGE_ID", "EXIT_CODE", "EXIT_STATUS")


@dataclass(frozen=True)
class Ending:
    """None and False where systemd wrote nothing: a clean exit it does not log."""

    exit_code: int | None = None
    signal: int | None = None
    asked: bool = False  # somebody stopped it while its main process lived
    out_of_memory: bool = False


def ending(invocation_id: str, command: tuple[str, ...] = ("journalctl",), timeout_s: float = 20.0) -> Ending:
    """Ask the journal; an empty answer where it cannot be read."""
    fields = "--output-fields=" + ",".join(FIELDS)
    # _PID=1: nobody but systemd itself, for whoever logs may set a field like INVOCATION_ID
    match = ("_PID=1", "INVOCATION_ID=" + invocation_id)
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [*command, "--no-pager", "--quiet", "--output=json", fields, *match],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Ending()
    return read(done.stdout.decode("utf-8", "replace").splitlines())


def read(lines: Iterable[str]) -> Ending:
    """The ending in entries of the journal, one JSON object a line."""
    found = Ending()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict):
            continue
        kind, message, status = entry.get("MESSAGE_ID"), entry.get("MESSAGE"), entry.get("EXIT_STATUS")
        if kind == STOPPING and found == Ending():
            found = replace(found, asked=True)
        elif kind == OUT_OF_MEMORY:
            found = replace(found, out_of_memory=True)
        elif kind == PROCESS_EXIT and "Main process" in str(message) and str(status).isdigit():
            number = int(str(status))
            exited = entry.get("EXIT_CODE") == "exited"
            found = replace(found, exit_code=number) if exited else replace(found, signal=number)
    return found
