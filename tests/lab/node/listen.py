# SPDX-License-Identifier: GPL-3.0-or-later
"""listen.py FD PID SSHD_CONFIG: accept on the listening socket FD and give each connection to an ``sshd -i`` in the
namespaces of process PID. No relay between them: sshd has the connection itself."""

from __future__ import annotations

import os
import signal
import socket
import sys

NSENTER = ["nsenter", "-m", "-u", "-i", "-n", "-p", "-C", "-t"]


def main() -> None:
    server, pid, config = socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    while True:
        connection, dummy = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(connection.fileno(), 0)
            os.dup2(connection.fileno(), 1)
            server.close()
            connection.close()
            sshd = ["--", "/usr/bin/env", "-i", "/usr/sbin/sshd", "-i", "-e", "-f", config]
            os.execvp(NSENTER[0], [*NSENTER, pid, *sshd])
        connection.close()


if __name__ == "__main__":
    main()
