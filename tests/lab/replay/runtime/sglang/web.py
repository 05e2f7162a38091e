# SPDX-License-Identifier: GPL-3.0-or-later
"""The replayer's HTTP side: the statuses that the recordings show for each state of the server."""

from __future__ import annotations

import http.server
import json
import socketserver
import ssl
import threading
import time

TEXT = " hello world"  # what the model "says": a constant, so that a test can ask for it
OPEN = {"/health", "/health_generate", "/ping", "/metrics"}  # answered without an API key
GENERATE = {"/generate", "/v1/completions", "/v1/chat/completions"}
SLOW = {"/server_info", "/get_server_info"}  # ask the scheduler
READ = {"/v1/models", "/model_info", "/get_model_info", *SLOW, "/ping"}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        pass  # a client that went away


class Web:
    """State is what the launcher says: warming, ready, draining, crashing."""

    def __init__(self, arguments, speed, log, frozen):
        self.arguments, self.speed, self.log, self.frozen = arguments, speed, log, frozen
        self.state, self.running = "warming", 0
        self.lock = threading.Lock()
        self.server = None

    def open(self):
        """Bind and serve; OSError when the port is taken."""
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                web.answer(self, b"")

            def do_POST(self):
                web.answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

            def log_message(self, *dummy):
                pass

        self.server = Server((self.arguments.host, self.arguments.port), Handler)
        if self.arguments.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.arguments.certificate, self.arguments.key, self.arguments.key_password or None)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def sleep(self, seconds):
        time.sleep(seconds / self.speed)

    def status(self, method, path, key):
        """-> HTTP status; None: never answers. Waits as long as the real server does."""
        known = path in OPEN | READ if method == "GET" else path in GENERATE
        wanted = self.arguments.api_key and "Bearer " + self.arguments.api_key
        if known and wanted and path not in OPEN and key != wanted:
            return 401
        if path in ("/health", "/health_generate"):
            if self.state == "crashing":
                return None
            if self.state != "ready":
                return 503
            if self.frozen():
                self.sleep(20)
                return 503
            self.sleep(1)  # it generates a token and looks for it once a second
            return 200
        if path == "/metrics":
            return 200 if self.arguments.enable_metrics else 404
        if path in READ and method == "GET":
            return None if path in SLOW and (self.frozen() or self.state == "crashing") else 200
        if path in GENERATE and method == "POST":
            return None if self.frozen() or self.state == "crashing" else 200
        return 404

    def answer(self, request, body):
        path = request.path.split("?")[0]
        code = self.status(request.command, path, request.headers.get("Authorization"))
        if code is None:
            while True:
                time.sleep(60)
        stream = False
        data = {"detail": "Not Found"} if code == 404 else {"error": "Unauthorized"} if code == 401 else {}
        if code == 200 and path in GENERATE:
            try:
                asked = json.loads(body or b"{}")
                stream = bool(asked.get("stream"))
            except ValueError:
                code, data = 400, {"object": "error", "message": "invalid JSON", "type": "BadRequestError", "code": 400}
            else:
                with self.lock:
                    self.running += 1
                try:
                    self.sleep(lasting(asked))
                    data = self.generated(path, asked)
                finally:
                    with self.lock:
                        self.running -= 1
        elif code == 200:
            data = self.facts(path)
        kind, text = "application/json", json.dumps(data).encode()
        if stream and code == 200:
            kind, text = "text/event-stream", b"data: " + json.dumps(chunk(data)).encode() + b"\n\ndata: [DONE]\n\n"
        elif path in ("/health", "/health_generate"):
            text = b""
        try:
            request.send_response(code)
            request.send_header("Content-Type", kind)
            request.send_header("Content-Length", str(len(text)))
            request.end_headers()
            request.wfile.write(text)
        except OSError:
            return
        words = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}
        client = "%s:%d" % request.client_address[:2]
        self.log('INFO:     %s - "%s %s HTTP/1.1" %d %s' % (client, request.command, request.path, code, words[code]))

    def facts(self, path):
        model, served = self.arguments.model, self.arguments.served
        if path == "/v1/models":
            entry = {"id": served, "object": "model", "created": int(time.time()), "owned_by": "sglang"}
            return {"object": "list", "data": [{**entry, "root": served, "parent": None, "max_model_len": 512}]}
        info = {"model_path": model, "tokenizer_path": model, "is_generation": True, "served_model_name": served}
        if path in SLOW:
            info.update(version="0.5.23+replay", port=self.arguments.port, host=self.arguments.host)
            info.update(max_total_num_tokens=4096, internal_states=[{"max_running_requests": 2048}])
        return info

    def generated(self, path, asked):
        usage = {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
        if path == "/generate":
            meta = {"id": "replay", "finish_reason": {"type": "length", "length": 2}, **usage}
            return {"text": TEXT, "output_ids": [5, 6], "meta_info": meta}
        choice = {"index": 0, "logprobs": None, "finish_reason": "length"}
        chat = path == "/v1/chat/completions"
        said = {"message": {"role": "assistant", "content": TEXT}} if chat else {"text": TEXT}
        return {
            "id": "replay",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": asked.get("model", self.arguments.served),
            "choices": [{**choice, **said}],
            "usage": usage,
        }


def chunk(data):
    """One streamed piece that holds the whole answer."""
    data = json.loads(json.dumps(data))
    for choice in data.get("choices", []):
        if "message" in choice:
            choice["delta"] = choice.pop("message")
            data["object"] = "chat.completion.chunk"
    return data


def lasting(asked):
    """How long an answer is asked to take, for a test of draining: a field of its own, or words of the prompt (a router
    takes out the fields that it does not know)."""
    prompt = asked.get("prompt") or asked.get("text") or ""
    _before, named, seconds = prompt.partition("replay_seconds=") if isinstance(prompt, str) else ("", "", "")
    return float(seconds.split()[0] if named else asked.get("replay_seconds", 0))
