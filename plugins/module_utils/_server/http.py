# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""A small HTTP client whose every byte is under one deadline, and whose failures say at which stage they happened.

No proxy, no redirect, no retry: it talks to the server that was named and to nobody else.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .._errors import LlmHostError
from .._process import identity

MAX_BODY = 16 * 1024 * 1024
EXCERPT = 400  # characters of a body that are told when it is not what was expected


class _Reader(io.RawIOBase):
    """A socket as a stream: each read may take only what is left until the deadline."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        super().__init__()
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)


class _Socket:
    """What ``http.client`` asks of a socket."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._deadline))

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(max(0.001, self._deadline - time.monotonic()))
        self._sock.sendall(data)

    def close(self) -> None:
        """Nothing: with ``Connection: close`` http.client calls this before the body is read."""


@dataclass(frozen=True)
class Answer:
    """A complete answer."""

    status: int
    body: bytes
    seconds: float

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise LlmHostError(
                "bad_answer", f"the answer is no JSON: {excerpt(self.body)!r}", stage="http", status=self.status
            ) from None


def excerpt(body: bytes) -> str:
    return identity.mask(body[: EXCERPT * 4].decode("utf-8", "replace"))[:EXCERPT]


@dataclass(frozen=True)
class Client:
    """Where to ask, and what to show as proof of who asks."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    validate_certs: bool = True
    ca_path: str | None = None
    server_name: str | None = None  # whose name the certificate must hold, where it is not the host of the URL

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    def check(self) -> None:
        """Refuse a URL that cannot be meant."""
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and self.port > 0
            good = good and not parts.username and not parts.query and not parts.fragment
        except ValueError:
            good = False
        if not good:
            raise LlmHostError(
                "invalid_argument",
                f"url {identity.mask(self.url)!r} is none: write it as http://HOST:PORT, without account or query",
                option="url",
                stage="connect",
            )
        for char in self.api_key or "":
            if not 0x20 < ord(char) < 0x7F:
                raise LlmHostError(
                    "invalid_argument",
                    "api_key holds a character that no HTTP header takes",
                    option="api_key",
                    stage="connect",
                )

    def get(self, path: str, timeout_s: float) -> Answer:
        return self.ask("GET", path, None, timeout_s)

    def post(self, path: str, body: Mapping[str, Any], timeout_s: float) -> Answer:
        return self.ask("POST", path, body, timeout_s)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float) -> Answer:
        """One request and its whole answer within the time, whatever its status."""
        began = time.monotonic()
        with self._open(method, path, body, began + timeout_s) as response, _stage("http", path, timeout_s):
            data = response.read(MAX_BODY + 1)
            if len(data) > MAX_BODY:
                raise LlmHostError("bad_answer", f"{path} answered with more than {MAX_BODY} bytes", stage="http")
            return Answer(response.status, data, time.monotonic() - began)

    @contextlib.contextmanager
    def stream(
        self, path: str, body: Mapping[str, Any], timeout_s: float
    ) -> Iterator[tuple[int, Iterator[tuple[float, bytes]]]]:
        """One request whose answer is read line by line: its status, and each line with the seconds since the start."""
        began = time.monotonic()
        with self._open("POST", path, body, began + timeout_s) as response:

            def lines() -> Iterator[tuple[float, bytes]]:
                total = 0
                with _stage("http", path, timeout_s):
                    while True:
                        line = response.readline(MAX_BODY)
                        if not line:
                            return
                        total += len(line)
                        if total > MAX_BODY:
                            raise LlmHostError(
                                "bad_answer", f"{path} answered with more than {MAX_BODY} bytes", stage="http"
                            )
                        yield time.monotonic() - began, line

            yield response.status, lines()

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, body: Mapping[str, Any] | None, deadline: float
    ) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self.url)
        timeout_s = deadline - time.monotonic()
        sock = self._connect(deadline)
        connection = http.client.HTTPConnection(parts.hostname or "", self.port)
        connection.sock = _Socket(sock, deadline)
        headers = {
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
            "User-Agent": "llmhost.sglang",
        }
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        try:
            with _stage("http", path, timeout_s):
                connection.request(method, parts.path.rstrip("/") + path, body=data, headers=headers)
                response = connection.getresponse()
            yield response
        finally:
            connection.close()
            sock.close()

    def _connect(self, deadline: float) -> socket.socket:
        parts = urlsplit(self.url)
        timeout_s = max(0.001, deadline - time.monotonic())
        with _stage("connect", self.url, timeout_s):
            sock = socket.create_connection((self.host, self.port), timeout=timeout_s)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if parts.scheme == "https":
                    sock.settimeout(max(0.001, deadline - time.monotonic()))
                    return self._tls().wrap_socket(sock, server_hostname=self.server_name or self.host)
            except BaseException:
                sock.close()
                raise
            return sock

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_path)
        if not self.validate_certs:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@contextlib.contextmanager
def _stage(stage: str, what: str, timeout_s: float) -> Iterator[None]:
    """Turn what the standard library raises into one error that names stage and reason."""

    def error(reason: str, message: str) -> LlmHostError:
        return LlmHostError(reason, message, stage=stage)

    try:
        yield
    except socket.timeout:
        cure = "raise timeout_s, or look why the server hangs"
        raise error("timeout", f"{what} gave no answer within {timeout_s:.1f} s: {cure}") from None
    except ConnectionRefusedError:
        raise error("connection_refused", f"nobody listens at {what}: start the server, or correct url") from None
    except socket.gaierror as failure:
        raise error("unknown_host", f"the host of {what} has no address ({failure.strerror})") from None
    except ssl.SSLCertVerificationError as failure:
        cure = "give ca_path, or validate_certs false where that is meant"
        raise error(
            "bad_certificate", f"the certificate of {what} is refused: {failure.verify_message}; {cure}"
        ) from None
    except ssl.SSLError as failure:
        raise error("bad_answer", f"{what} does not speak TLS as expected ({failure.reason})") from None
    except (ConnectionError, http.client.HTTPException) as failure:
        name = type(failure).__name__
        raise error("connection_lost", f"the connection was lost while {what} was asked ({name}): {failure}") from None
    except OSError as failure:
        raise error("connection_failed", f"{what} cannot be reached: {failure.strerror or failure}") from None


def api_key(given: str | None, path: str | None) -> str | None:
    """The key from a parameter or from a file, whose final line break is none of it."""
    if path is None:
        return given
    try:
        with open(path, encoding="utf-8") as handle:
            found = handle.read(65536).strip()
    except (OSError, ValueError) as failure:
        raise LlmHostError(
            "invalid_argument", f"api_key_file {path} cannot be read: {failure}", option="api_key_file", stage="connect"
        ) from None
    if not found:
        raise LlmHostError("invalid_argument", f"api_key_file {path} is empty", option="api_key_file", stage="connect")
    return found
