# SPDX-License-Identifier: GPL-3.0-or-later
"""listen.py FD LAB: accept on the listening socket FD and give each connection to an ``sshd -i`` in the namespaces of
the node's process 1 (LAB/pid). No relay between them: sshd has the connection itself. While the node boots or is off,
each is closed at once."""

from __future__ import annotations

import os
import signal
import socket
import sys

NSENTER = ["nsenter", "-m", "-u", "-i", "-n", "-p", "-C", "-t"]


def main() -> None:
    server, lab = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    while True:
        connection, dummy = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if os.path.exists(f"{lab}/ready") and os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(connection.fileno(), 0)
            os.dup2(connection.fileno(), 1)
            server.close()
            connection.close()
            with open(f"{lab}/pid") as handle:
                pid = handle.read().strip()
            sshd = ["--", "/usr/bin/env", "-i", "/usr/sbin/sshd", "-i", "-e", "-f", f"{lab}/ssh/sshd"]
            os.execvp(NSENTER[0], [*NSENTER, pid, *sshd])
        connection.close()


if __name__ == "__main__":
    main()
