# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Is it servable? The port answers, it is this server that answers, and it serves the name that was asked for."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError
from .._process import identity

ANSWER_LIMIT = 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; ``status`` 0 means that there was none, and ``problem`` says why."""

    status: int
    body: bytes = b""
    problem: str = ""
    tls: bool = False


@dataclass(frozen=True)
class Readiness:
    """What the port tells. ``owner`` is own, foreign or unknown; ``served`` the names of /v1/models or None."""

    listening: bool
    owner: str
    foreign: tuple[dict[str, Any], ...] = ()
    served: tuple[str, ...] | None = None
    models_status: int = 0
    health_status: int = 0
    problem: str = ""
    tls: bool = False


def get(host: str, port: int, path: str, timeout_s: float, api_key: str = "", tls: bool = False) -> Answer:
    """One GET without redirects and without a proxy.

    With TLS any certificate will do: it is the PID of the listener that says which server answers.
    """
    headers = {"Accept": "application/json", "User-Agent": "llmhost-watch"}
    if api_key:
        headers["Authorization"] = "Bearer " + api_key
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(ANSWER_LIMIT), tls=tls)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(0, b"", "%s: %s" % (type(error).__name__, error))
    finally:
        connection.close()


def local_address(host: str) -> str:
    """Where a server that listens on ``host`` is reached from the same host."""
    text = host.strip().strip("[]")
    if text in ("", "0.0.0.0", "*"):
        return "127.0.0.1"
    return "::1" if text in ("::", "::0") else text


def owner(port: int, own_pids: set[int], proc: str = "/proc") -> tuple[str, list[dict[str, Any]]]:
    """Who listens on a port: ("none" | "own" | "foreign" | "unknown", the foreign processes)."""
    try:
        pids = identity.listeners(port, proc)
    except LlmHostError:
        return "unknown", []
    except OSError:
        return "unknown", []
    if not pids:
        return "none", []
    if any(pid in own_pids for pid in pids):
        return "own", []
    return "foreign", [describe(pid, proc) for pid in pids[:8]]


def describe(pid: int, proc: str = "/proc") -> dict[str, Any]:
    """A process in a few words."""
    try:
        process = identity.read(pid, proc)
    except (ProcessLookupError, OSError, LlmHostError):
        return {"pid": pid}
    return {"pid": pid, "comm": process.comm, "unit": process.unit, "cmdline": process.cmdline[:200]}


def served_names(body: bytes) -> tuple[str, ...] | None:
    """The ids in an answer of /v1/models, or None where it is none."""
    try:
        data = json.loads(body)
        return tuple(str(one["id"]) for one in data["data"])
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class Probe:
    """How a server is asked."""

    host: str
    port: int
    served_name: str = ""
    api_key: str = ""
    timeout_s: float = 2.0
    health_timeout_s: float = 25.0  # /health answers 503 after 20 s where the scheduler hangs
    proc: str = "/proc"
    tls: bool = False

    def get(self, path: str, timeout_s: float) -> Answer:
        """Ask on the host itself. Where a plain question is broken off, it may be TLS that is spoken there."""
        address = local_address(self.host)
        answer = get(address, self.port, path, timeout_s, self.api_key, self.tls)
        if answer.status or self.tls or "timed out" in answer.problem:
            return answer
        secure = get(address, self.port, path, timeout_s, self.api_key, True)
        return secure if secure.status else answer

    def look(self, own_pids: set[int], health: bool, models: bool = True) -> Readiness:
        """Ask. ``health`` also sends the request that generates a token (about a second)."""
        who, foreign = owner(self.port, own_pids, self.proc)
        if who == "none":
            return Readiness(False, "none")
        if who == "foreign":
            return Readiness(True, "foreign", tuple(foreign))
        served, models_status, health_status, problem, tls = None, 0, 0, "", self.tls
        if models:
            answer = self.get("/v1/models", self.timeout_s)
            models_status, problem, tls = answer.status, answer.problem, answer.tls
            served = served_names(answer.body) if answer.status == 200 else None
        if health:
            answer = self.get("/health_generate", self.health_timeout_s)
            if answer.status == 404:
                answer = self.get("/health", self.health_timeout_s)
            health_status, problem, tls = answer.status, answer.problem or problem, answer.tls or tls
        return Readiness(True, who, (), served, models_status, health_status, problem, tls)


def right_name(readiness: Readiness, wanted: str) -> bool:
    """Whether the served name is the wanted one, as far as the answer tells it."""
    return not wanted or readiness.served is None or wanted in readiness.served
