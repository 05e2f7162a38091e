# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens, what it answers, what it serves."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup import readiness
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.readiness import Probe
from startup_support import free_port

ANSWERS: dict[str, tuple[int, bytes]] = {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS.get(self.path, (404, b""))
        if self.headers.get("Authorization") == "Bearer right":
            status, body = ANSWERS.get(self.path + "#key", (status, body))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    ANSWERS.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


MODELS = json.dumps({"object": "list", "data": [{"id": "tiny"}, {"id": "adapter"}]}).encode()


def test_own_server(port: int) -> None:
    ANSWERS.update({"/v1/models": (200, MODELS), "/health_generate": (200, b"")})
    found = Probe("0.0.0.0", port).look({os.getpid()}, health=True)
    assert (found.listening, found.owner, found.served) == (True, "own", ("tiny", "adapter"))
    assert (found.models_status, found.health_status) == (200, 200)
    assert readiness.right_name(found, "adapter")
    assert not readiness.right_name(found, "huge")
    assert readiness.right_name(found, "")


def test_foreign_server_is_never_asked(port: int) -> None:
    ANSWERS.update({"/v1/models": (200, MODELS)})
    found = Probe("127.0.0.1", port).look({1}, health=True)
    assert (found.owner, found.served) == ("foreign", None)
    assert found.foreign[0]["pid"] == os.getpid()


def test_nothing_listens() -> None:
    found = Probe("127.0.0.1", free_port()).look({os.getpid()}, health=True)
    assert (found.listening, found.owner) == (False, "none")


def test_health_of_versions_without_health_generate(port: int) -> None:
    ANSWERS.update({"/health": (503, b"")})
    assert Probe("127.0.0.1", port).look({os.getpid()}, health=True, models=False).health_status == 503


def test_api_key(port: int) -> None:
    ANSWERS.update({"/v1/models": (401, b""), "/v1/models#key": (200, MODELS)})
    assert Probe("127.0.0.1", port).look({os.getpid()}, health=False).models_status == 401
    found = Probe("127.0.0.1", port, api_key="right").look({os.getpid()}, health=False)
    assert (found.models_status, found.served) == (200, ("tiny", "adapter"))


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"data": 1}', b'{"data": [{}]}', b"\xff\xfe"])
def test_other_answers_name_nothing(body: bytes) -> None:
    assert readiness.served_names(body) is None


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("", "127.0.0.1"), ("[::]", "::1"), ("10.0.0.5", "10.0.0.5")],
)
def test_local_address(host: str, address: str) -> None:
    assert readiness.local_address(host) == address


def test_a_port_that_does_not_speak_http() -> None:
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        found = Probe("127.0.0.1", server.getsockname()[1], timeout_s=0.2).look({os.getpid()}, health=False)
        assert (found.listening, found.models_status) == (True, 0)
        assert found.problem
