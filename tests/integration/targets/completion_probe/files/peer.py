# SPDX-License-Identifier: GPL-3.0-or-later
"""A server with many faces for the tests of completion_probe: the first part of the path says which."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
import time

KEY = "open-sesame"
TEXT = ["Hello", " from", " the", " peer"]


class Peer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        pass

    def answer(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events, done=True):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        if done:
            self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_GET(self):
        face, path = self.face()
        if self.path == "/quit":
            self.answer(200, {})
            threading.Thread(target=self.server.shutdown).start()
        elif face == "hang":
            time.sleep(30)
        elif face == "drip":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            for _piece in range(300):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.1)
        elif face == "html":
            self.answer(404, b"<html>not here</html>", "text/html")
        elif face == "text":
            self.answer(200, b"plain text", "text/plain")
        elif face == "key" and self.headers.get("Authorization") != "Bearer " + KEY:
            self.answer(401, {"error": "Unauthorized"})
        elif path == "/v1/models":
            names = [] if face == "nothing" else ["peer"]
            self.answer(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})
        elif path == "/model_info":
            self.answer(200, {"is_generation": face not in ("embed", "zero")})
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        face, path = self.face()
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if face == "key" and self.headers.get("Authorization") != "Bearer " + KEY:
            self.answer(401, {"error": "Unauthorized"})
        elif path == "/v1/embeddings":
            self.answer(200, {"data": [{"embedding": [0.0] * 4 if face == "zero" else [0.5, -0.5, 0.1, 0.2]}]})
        elif path == "/v1/rerank":
            self.answer(200, [{"score": 1.0 / (at + 1), "index": at} for at, _text in enumerate(asked["documents"])])
        elif face == "plain" and path == "/v1/chat/completions":
            self.answer(400, {"error": {"message": "the tokenizer has no chat template"}})
        elif face == "refuse":
            self.answer(503, {"error": {"message": "busy, api_key=" + KEY}})
        elif path in ("/v1/chat/completions", "/v1/completions"):
            self.tell(face, path == "/v1/chat/completions")
        else:
            self.answer(404, {"detail": "Not Found"})

    def tell(self, face, chat):
        def event(piece="", finish=None, **more):
            choice = {"index": 0, "finish_reason": finish}
            choice.update({"delta": {"content": piece, **more}} if chat else {"text": piece})
            return {"model": "peer", "choices": [choice]}

        usage = {"model": "peer", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
        last = event(finish="stop")
        if face == "empty":
            self.stream([event("  \n"), last, usage])
        elif face == "garbled":
            self.stream([event("u\ufffdu"), last, usage])
        elif face == "clipped":
            self.stream([event("caf\ufffd"), event(finish="length"), usage])
        elif face == "cut":
            self.stream([event("Hello")], done=False)
        elif face == "broken":
            self.stream([event("Hello"), {"object": "error", "message": "out of memory", "code": 500}])
        elif face == "think":
            self.stream([event(reasoning_content="let me see"), event(finish="length"), usage])
        elif face == "tools":
            call = [{"index": 0, "function": {"name": "get_weather", "arguments": '{"city": '}}]
            rest = [{"index": 0, "function": {"arguments": '"Oslo"}'}}]
            self.stream([event(tool_calls=call), event(tool_calls=rest), event(finish="tool_calls"), usage])
        else:
            self.stream(self.paced(face, event, [last, usage]))

    def paced(self, face, event, end):
        time.sleep(1.2 if face == "late" else 0)
        for piece in TEXT:
            yield event(piece)
            time.sleep(0.5 if face == "slow" else 0.01)
        yield from end

    def face(self):
        first, _slash, rest = self.path.lstrip("/").partition("/")
        return first, "/" + rest


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Peer)
    server.daemon_threads = True
    with open(sys.argv[1] + ".new", "w") as out:
        out.write(str(server.server_address[1]))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    end = threading.Timer(300, server.shutdown)
    end.daemon = True
    end.start()
    server.serve_forever()
