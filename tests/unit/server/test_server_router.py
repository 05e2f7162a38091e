# SPDX-License-Identifier: GPL-3.0-or-later
"""The workers of a router, against a small server that answers as sglang-router 0.3.2 was seen to."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server import router
from ansible_collections.llmhost.sglang.plugins.module_utils._server.http import Client

A, B, C = "http://192.0.2.1:30000", "http://192.0.2.2:30000", "http://192.0.2.3:30000"


class Router(http.server.BaseHTTPRequestHandler):
    """Jobs are done when the list is asked for the second time after them; B is never healthy, C never answers."""

    known: dict
    jobs: list
    asked: list

    def log_message(self, *_words):
        pass

    def answer(self, status, data):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self):
        key = self.headers.get("Authorization")
        self.asked.append((self.command, self.path, key))
        if key != "Bearer sekret":
            return self.answer(401, {"error": "no"})
        if self.command == "GET":
            for job in self.jobs[:]:
                job["wait"] -= 1
                if job["wait"] < 0:
                    self.jobs.remove(job)
                    job["do"]()
            workers = [
                {"id": "id-" + url[-7], "url": url, "is_healthy": url != B, "model_id": "tiny"} for url in self.known
            ]
            return self.answer(200, {"workers": workers, "total": len(workers)})
        if self.command == "DELETE":
            url = next(url for url in self.known if "id-" + url[-7] == self.path.rsplit("/", 1)[1])
            self.jobs.append({"wait": 1, "do": lambda: self.known.pop(url)})
        else:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if body["url"] != C:
                self.jobs.append({"wait": 1, "do": lambda: self.known.setdefault(body["url"], body.get("api_key"))})
        return self.answer(202, {"status": "accepted"})

    do_GET = do_POST = do_DELETE = handle_one


@pytest.fixture
def fake():
    handler = type("Handler", (Router,), {"known": {}, "jobs": [], "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield handler, Client("http://127.0.0.1:%d" % server.server_port, "sekret")
    server.shutdown()
    server.server_close()


def bring(client, urls, state="present", timeout_s=5.0, check_mode=False, key=None):
    return router.bring(client, router.Wish(tuple(urls), state, key), timeout_s, check_mode, sleep=lambda _s: None)


def changes(handler):
    return [(method, path) for method, path, _key in handler.asked if method != "GET"]


def test_a_worker_is_registered_and_waited_for_and_the_second_time_nothing_is_asked(fake):
    handler, client = fake
    first = bring(client, [A + "/", A], key="worker-key")
    assert first["changed"] and first["added"] == [A]
    assert handler.known == {A: "worker-key"}
    handler.asked.clear()
    again = bring(client, [A])
    assert not again["changed"] and changes(handler) == []
    assert again["workers"] == [{"id": "id-1", "url": A, "healthy": True, "model": "tiny"}]


def test_absent_takes_out_these_and_exact_all_others(fake):
    handler, client = fake
    handler.known.update({A: None, B: None})
    gone = bring(client, [B, C], "absent")
    assert gone["removed"] == [B] and handler.known == {A: None}
    handler.known.update({B: None})
    exact = bring(client, [A], "exact")
    assert exact["removed"] == [B] and exact["after"] == [A]


def test_check_mode_tells_and_asks_for_nothing(fake):
    handler, client = fake
    handler.known.update({B: None})
    told = bring(client, [A], "exact", check_mode=True)
    assert told["changed"] and (told["before"], told["after"]) == ([B], [A])
    assert changes(handler) == [] and handler.known == {B: None}


@pytest.mark.parametrize(("url", "words"), [(B, "not healthy"), (C, "not registered")])
def test_a_worker_that_is_not_well_in_time_is_named(fake, url, words):
    with pytest.raises(LlmHostError) as caught:
        bring(fake[1], [A, url], timeout_s=0.3)
    assert caught.value.reason == "worker_not_ready"
    assert url in caught.value.message and words in caught.value.message and A + " is" not in caught.value.message


def test_a_wrong_key_is_told_and_not_shown(fake):
    with pytest.raises(LlmHostError) as caught:
        bring(Client(fake[1].url, "wrong-key"), [A])
    assert caught.value.reason == "unauthorized" and "wrong-key" not in str(caught.value.as_result())


def test_nobody_there_is_the_connections_error():
    with pytest.raises(LlmHostError) as caught:
        bring(Client("http://127.0.0.1:1", None), [A])
    assert caught.value.reason == "connection_refused"


def test_what_is_no_router_is_named(fake):
    handler, client = fake
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, handler, "do_GET", handler.do_GET)
        handler.do_GET = lambda self: self.answer(200, {"status": "ok"})
        with pytest.raises(LlmHostError, match="is that SGLang's router"):
            bring(client, [A])
