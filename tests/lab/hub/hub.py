# SPDX-License-Identifier: GPL-3.0-or-later
"""A model hub of the lab's own: what the huggingface_hub client asks, answered from folders, with faults on demand.

    python3 hub.py FOLDER [--host 127.0.0.1] [--port 0] [--token SECRET]

FOLDER/OWNER/NAME/ is a repository; its files are served at one commit (made of their contents) and as "main".
Files above a limit are "large": published with their sha256 and sent by redirect from another origin, as the hub does.
Prints the port as its first line; large files come from the port after it. /plain/PATH sends any file of FOLDER.
Faults and the log of requests are at /_lab/faults and /_lab/requests (JSON).

Simulated: there is no network behind it, no gate and no account but what a fault plays.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import threading
import time
import urllib.parse
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LARGE_BYTES = 4096
BLOCK_BYTES = 16384


@dataclass
class Fault:
    """What goes wrong, for the next ``times`` requests whose method and path fit (-1: for all)."""

    path: str = ""  # a regular expression
    method: str = ""
    times: int = -1
    skip: int = 0  # that many fitting requests go well before
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    cut_after: int = -1  # bytes of the body, then the connection is gone
    stop_after: int = -1  # bytes of the body, then silence
    wrong_bytes: bool = False  # as many bytes as it should, others
    no_ranges: bool = False  # the whole file, whatever was asked for
    delay_s: float = 0.0
    rate: int = 0  # bytes a second
    redirect_to: str = ""


@dataclass
class Hub:
    folder: Path
    token: str = ""
    faults: list[Fault] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    moved: dict[str, str] = field(default_factory=dict)  # "owner/name@branch" -> another folder of its files
    cdn_port: int = 0  # another origin, as the hub's own bytes come from one: no token may reach it
    sizes: bool = True  # whether the listing tells them, as the hub does and some mirrors do not
    cache: dict[tuple[str, int, int], tuple[str, str]] = field(default_factory=dict)

    def repository(self, name: str, revision: str) -> Path | None:
        for branch in self.branches(name):
            folder = self.branch(name, branch)
            if revision == branch or revision == self.commit(folder):
                return folder
        return None

    def branches(self, name: str) -> list[str]:
        return [
            *(["main"] if (self.folder / name).is_dir() else []),
            *(key.partition("@")[2] for key in self.moved if key.startswith(name + "@")),
        ]

    def branch(self, name: str, branch: str) -> Path:
        return Path(self.moved.get(f"{name}@{branch}", self.folder / name))

    def files(self, folder: Path) -> dict[str, dict[str, Any]]:
        found = {}
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            stat = path.stat()
            mark = (str(path), stat.st_mtime_ns, stat.st_size)
            if mark not in self.cache:
                content = path.read_bytes()
                git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
                self.cache[mark] = (hashlib.sha256(content).hexdigest(), git)
            sha256, git = self.cache[mark]
            large = stat.st_size >= LARGE_BYTES
            found[str(path.relative_to(folder))] = {
                "path": path,
                "size": stat.st_size,
                "large": large,
                "etag": sha256 if large else git,
                "git": git,
            }
        return found

    def commit(self, folder: Path) -> str:
        tree = {name: item["etag"] for name, item in self.files(folder).items()}
        return hashlib.sha1(json.dumps(tree, sort_keys=True).encode()).hexdigest()

    def fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.method in ("", method) and re.search(fault.path, path) and fault.times:
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    fault.times -= 1 if fault.times > 0 else 0
                    return fault
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"[]")
        if self.path == "/_lab/faults":
            with self.hub.lock:
                self.hub.faults[:] = [Fault(**item) for item in body]
        elif self.path == "/_lab/branches":
            self.hub.moved.update(body)
        self.reply(200, b"{}")

    # ------------------------------------------------------------ answers
    def answer(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(parts.path)
        if path == "/_lab/requests":
            return self.reply(200, json.dumps(self.hub.requests).encode())
        if path == "/_lab/faults":
            return self.reply(200, json.dumps([asdict(fault) for fault in self.hub.faults]).encode())
        with self.hub.lock:
            self.hub.requests.append(
                {
                    "method": self.command,
                    "path": path,
                    "range": self.headers.get("Range"),
                    "authorization": bool(self.headers.get("Authorization")),
                    "agent": self.headers.get("User-Agent", ""),
                }
            )
        fault = self.hub.fault(self.command, path)
        if fault is not None and fault.delay_s:
            time.sleep(fault.delay_s)
        if fault is not None and fault.redirect_to:
            return self.reply(302, b"", {"Location": fault.redirect_to})
        if fault is not None and fault.status:
            return self.reply(fault.status, fault.body.encode(), fault.headers)
        if self.hub.token and not path.startswith("/cdn/"):
            given = self.headers.get("Authorization") or ""
            if not given:
                return self.reply(401, b"", {"X-Error-Message": "Invalid username or password."})
            if given != "Bearer " + self.hub.token:
                text = "Invalid credentials in Authorization header"
                return self.reply(401, json.dumps({"error": text}).encode(), {"X-Error-Message": text})
        if path.startswith("/api/models/"):
            return self.about(path[len("/api/models/") :], parts.query)
        if path.startswith("/cdn/"):
            return self.content(path[len("/cdn/") :], fault)
        if path.startswith("/plain/"):
            return self.plain(path[len("/plain/") :], fault)
        found = re.match(r"^/([^/]+/[^/]+)/resolve/([^/]+)/(.+)$", path)
        if found:
            return self.resolve(found[1], found[2], found[3], fault)
        return self.reply(404, b"nothing here")

    def about(self, rest: str, query: str) -> None:
        name, _sep, revision = rest.partition("/revision/")
        revision = revision or "main"
        if not self.hub.branches(name):
            return self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        folder = self.hub.repository(name, revision)
        if folder is None:
            return self.reply(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        siblings = []
        for file, item in self.hub.files(folder).items():
            entry: dict[str, Any] = {"rfilename": file}
            if self.hub.sizes and "blobs=" in query:
                entry.update(size=item["size"], blobId=item["git"])
                if item["large"]:
                    entry["lfs"] = {"sha256": item["etag"], "size": item["size"], "pointerSize": 134}
            siblings.append(entry)
        info = {
            "_id": "0",
            "id": name,
            "modelId": name,
            "sha": self.hub.commit(folder),
            "siblings": siblings,
            "private": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
        }
        return self.reply(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

    def resolve(self, name: str, revision: str, file: str, fault: Fault | None) -> None:
        folder = self.hub.repository(name, revision)
        item = self.hub.files(folder).get(file) if folder is not None else None
        if folder is None or item is None:
            code = "EntryNotFound" if folder is not None else "RevisionNotFound"
            return self.reply(404, b"", {"X-Error-Code": code})
        headers = {"X-Repo-Commit": self.hub.commit(folder), "ETag": f'"{item["etag"]}"', "Accept-Ranges": "bytes"}
        if item["large"]:
            host = (self.headers.get("Host") or "").partition(":")[0].replace("127.0.0.1", "127.0.0.2")
            where = f"http://{host}:{self.hub.cdn_port}/cdn/" + urllib.parse.quote(str(Path(item["path"])), safe="")
            linked = {"X-Linked-Size": str(item["size"]), "X-Linked-ETag": f'"{item["etag"]}"', "Location": where}
            return self.reply(302, b"", {**headers, **linked})
        return self.send(Path(item["path"]), headers, fault)

    def content(self, quoted: str, fault: Fault | None) -> None:
        path = Path(urllib.parse.unquote(quoted))
        if not path.is_file():
            return self.reply(404, b"")
        return self.send(path, {"Accept-Ranges": "bytes"}, fault)

    def plain(self, name: str, fault: Fault | None) -> None:
        path = self.hub.folder / name
        if ".." in name or not path.is_file():
            return self.reply(404, b"")
        return self.send(path, {"Accept-Ranges": "bytes"}, fault)

    def send(self, path: Path, headers: dict[str, str], fault: Fault | None) -> None:
        data = path.read_bytes()
        status, size, begin = 200, len(data), 0
        wanted = re.match(r"^bytes=(\d+)-(\d*)$", self.headers.get("Range") or "")
        if wanted and not (fault is not None and fault.no_ranges):
            begin = int(wanted[1])
            end = min(int(wanted[2]) if wanted[2] else size - 1, size - 1)
            if begin >= size:
                return self.reply(416, b"", {"Content-Range": f"bytes */{size}"})
            status, data = 206, data[begin : end + 1]
            headers = {**headers, "Content-Range": f"bytes {begin}-{end}/{size}"}
        if fault is not None and fault.wrong_bytes:
            data = bytes(byte ^ 0x55 for byte in data)
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        sent = 0
        while sent < len(data):
            step = BLOCK_BYTES
            if fault is not None and fault.rate:
                step = max(1, fault.rate // 20)
                time.sleep(0.05)
            for limit in (fault.cut_after, fault.stop_after) if fault is not None else ():
                if limit >= 0:
                    step = min(step, limit - sent)
            if step <= 0:
                break
            self.wfile.write(data[sent : sent + step])
            sent += step
        self.wfile.flush()
        if sent < len(data):
            if fault is not None and fault.stop_after >= 0:
                time.sleep(60)
            self.close_connection = True
            self.connection.close()
        return None

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what many tests want."""


def serve(folder: Path, host: str = "127.0.0.1", port: int = 0, token: str = "") -> tuple[Server, Hub]:
    """The hub, and on a port of its own (the next one, where a port was given) what sends its large files."""
    hub = Hub(Path(folder), token)
    handler = type("Here", (Handler,), {"hub": hub})
    server = Server((host, port), handler)
    cdn = Server((host.replace("127.0.0.1", "127.0.0.2"), port + 1 if port else 0), handler)  # also of another host
    hub.cdn_port = cdn.server_address[1]
    for each in (server, cdn):
        threading.Thread(target=each.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server, hub


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    server, _hub = serve(given.folder, given.host, given.port, given.token)
    print(server.server_address[1], flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
