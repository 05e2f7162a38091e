# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of AWX's API as its modules need to make job templates: objects with names and ids, surveys by its rules."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from awx_rules_support import refusal

SEED = {
    "organizations": ["Default"],
    "inventories": ["GPUs"],
    "projects": ["llmhost.sglang"],
    "execution_environments": ["llmhost.sglang execution environment"],
}


class Awx:
    """The objects, by kind; `surveys` by the id of their job template; `refused` is what it answered 400 to."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.surveys: dict[int, dict[str, Any]] = {}
        self.refused: list[str] = []
        for kind, names in SEED.items():
            for name in names:
                self.add(kind, {"name": name})
        awx = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_args: Any) -> None:
                pass

            def answer(self, code: int, data: Any) -> None:
                body = json.dumps(data).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("X-API-Product-Name", "AWX")
                self.send_header("X-API-Product-Version", "24.6.1")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def body(self) -> dict[str, Any]:
                length = int(self.headers.get("Content-Length") or 0)
                return dict(json.loads(self.rfile.read(length) or b"{}"))

            def do_GET(self) -> None:
                self.answer(*awx.get(self.path))

            def do_POST(self) -> None:
                self.answer(*awx.post(self.path, self.body()))

            def do_PATCH(self) -> None:
                self.answer(*awx.patch(self.path, self.body()))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.server.server_port

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def add(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        items = self.objects.setdefault(kind, [])
        number = 1 + sum(len(each) for each in self.objects.values())
        url = "/api/v2/%s/%d/" % (kind, number)
        item = {**data, "id": number, "type": kind[:-1], "url": url, "summary_fields": {}}
        item["related"] = {"survey_spec": url + "survey_spec/"}
        items.append(item)
        return item

    def get(self, path: str) -> tuple[int, Any]:
        parts = [part for part in urlsplit(path).path.split("/") if part]
        if parts[-1] == "survey_spec":
            return 200, self.surveys.get(int(parts[-2]), {})
        if parts[-1].isdigit():
            return 200, next(item for item in self.objects[parts[-2]] if item["id"] == int(parts[-1]))
        query = parse_qs(urlsplit(path).query)
        names = query.get("name") or query.get("or__name") or query.get("username") or []
        ids = query.get("or__id") or []
        found = [
            item
            for item in self.objects.get(parts[-1], [])
            if not (names or ids) or item.get("name") in names or str(item["id"]) in ids
        ]
        return 200, {"count": len(found), "next": None, "previous": None, "results": found}

    def post(self, path: str, data: dict[str, Any]) -> tuple[int, Any]:
        parts = [part for part in urlsplit(path).path.split("/") if part]
        if parts[-1] == "survey_spec":
            why = refusal(data)
            if why:
                self.refused.append(why)
                return 400, {"error": why}
            self.surveys[int(parts[-2])] = data
            return 200, {}
        return 201, self.add(parts[-1], data)

    def patch(self, path: str, data: dict[str, Any]) -> tuple[int, Any]:
        _code, item = self.get(path)
        item.update(data)
        return 200, item
