# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""MPS: one process computes for many, and a client that is killed can hang all of them.

So a client leaves through the control daemon first: its server ends the client's work and lets go of its memory. The
process itself lives on, can compute no more, and from then on is a process as any other.
"""

from __future__ import annotations

from typing import Callable

Control = Callable[[str], "str | None"]  # a command -> what the control daemon answers; None where there is none


def _pids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    return [int(word) for line in text.splitlines() for word in line.split()[:1] if word.isdigit()]


def clients(control: Control) -> dict[int, int] | None:
    """PID of each client -> PID of its server; None where no control daemon answers."""
    servers = _pids(control("get_server_list"))
    if servers is None:
        return None
    found: dict[int, int] = {}
    for server in servers:
        for pid in _pids(control(f"get_client_list {server}")) or []:
            found[pid] = server
    return found


def terminate(control: Control, server: int, client: int) -> None:
    """Have a server let go of a client. Whether it did, ``clients`` says."""
    control(f"terminate_client {server} {client}")
