# SPDX-License-Identifier: GPL-3.0-or-later
"""record.py OUT.json SECONDS PORT -- CMD...: run one start of a server and write down what a watcher can see.

The same instrument for the real server and for the replayer, so that compare.py compares like with like. When the
server says that it is ready, it is watched for two more looks, then sent SIGTERM. Standard library only: it runs
wherever the server runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

READY = "The server is fired up and ready to roll!"
PATHS = ("/health", "/v1/models", "/metrics")


def look(port, path):
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=30) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError as error:
        return "refused" if "refused" in str(error) else "closed"


def titles(session):
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/stat" % name) as handle:
                fields = handle.read()
            comm, rest = fields[fields.index("(") + 1 : fields.rindex(")")], fields.rsplit(")", 1)[1].split()
            if int(rest[3]) == session and rest[0] not in "ZX" and comm.startswith("sglang::"):
                found.add(comm)
    return found


def main():
    out, seconds, port = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    command = sys.argv[sys.argv.index("--") + 1 :]
    begin = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    lines, ready, seen = [], threading.Event(), set()
    statuses = {path: [] for path in PATHS}
    lock = threading.Lock()

    def read(stream):
        for raw in iter(stream.readline, b""):
            text = raw.decode("utf-8", "replace").rstrip("\n")
            with lock:
                lines.append([round(time.monotonic() - begin, 3), text])
            if READY in text:
                ready.set()

    def watch():
        """Statuses until shortly after readiness: how a server that goes away answers depends on the millisecond."""
        while process.poll() is None and not done.is_set():
            for path in PATHS:
                status = look(port, path)
                if status != "closed" and statuses[path][-1:] != [status] and not done.is_set():
                    statuses[path].append(status)
            done.wait(0.02)

    done = threading.Event()
    threads = [threading.Thread(target=read, args=(s,), daemon=True) for s in (process.stdout, process.stderr)]
    watcher = threading.Thread(target=watch, daemon=True)
    for thread in [*threads, watcher]:
        thread.start()
    asked = False
    while process.poll() is None and time.monotonic() - begin < seconds:
        seen |= titles(process.pid)
        if ready.is_set() and not asked and statuses["/health"][-1:] == ["200"]:
            done.set()
            watcher.join(60)
            process.send_signal(signal.SIGTERM)
            asked = True
        time.sleep(0.05)
    done.set()
    end = process.poll()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what is left of it
    for thread in threads:
        thread.join(10)
    with lock:
        result = {"lines": lines, "exit": end, "statuses": statuses, "titles": sorted(seen)}
    with open(out, "w") as handle:
        json.dump({**result, "seconds": round(time.monotonic() - begin, 1)}, handle)


if __name__ == "__main__":
    main()
