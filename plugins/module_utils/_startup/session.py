# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""From what the caller asked for to one watch and its verdict: the joint between module, detached watcher and core."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any, Callable

from .._errors import LlmHostError
from . import evidence, unit
from .analysis import Analysis
from .sources import FileSource, JournalSource, Source
from .verdict import Facts, Verdict, conclude
from .watch import Options, Report, Watch


@dataclass(frozen=True)
class Request:
    """The parameters of ``server_wait``, plain data (it travels as JSON to the detached watcher)."""

    name: str
    timeout_s: float = 1800.0
    stall_s: float = 0.0
    host: str = ""
    port: int = 0
    served_name: str = ""
    api_key_file: str = ""
    state_dir: str = "/var/lib/llmhost"
    log_path: str = ""
    log_offset: int = 0
    log_inode: int = 0

    @property
    def unit(self) -> str:
        return "sglang-%s.service" % self.name

    @property
    def folder(self) -> str:
        return os.path.join(self.state_dir, "instances", self.name)


def start_marker(request: Request) -> dict[str, Any]:
    """What module ``server`` wrote when it started this instance; empty where it did not."""
    try:
        with open(os.path.join(request.folder, "start.json"), encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def api_key(path: str) -> str:
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read().strip()
    except OSError as error:
        raise LlmHostError(
            "api_key_unreadable", "The file of the API key %s cannot be read: %s" % (path, error)
        ) from None


def watch(
    request: Request,
    report: Callable[[Report], None] | None = None,
    outside: Callable[[evidence.Start], evidence.Outside] | None = None,
) -> dict[str, Any]:
    """Watch the current start of the instance; the verdict as a result. Raises where there is nothing to watch."""
    began = time.monotonic()
    now = unit.state(request.unit)
    if now.load == "not-found":
        raise LlmHostError(
            "unit_not_found",
            "There is no unit %s on this host: start the instance with llmhost.sglang.server first, or correct 'name'"
            % request.unit,
            unit=request.unit,
        )
    marker = start_marker(request)
    invocation = now.invocation_id or str(marker.get("invocation_id") or "")
    if not now.running and not invocation:
        raise LlmHostError(
            "not_started",
            "The unit %s is %s and tells of no start: start it with llmhost.sglang.server" % (request.unit, now.active),
            unit=request.unit,
        )
    source: Source
    if request.log_path:
        source = FileSource(request.log_path, request.log_offset, request.log_inode or None)
    else:
        source = JournalSource(request.unit, invocation)
    uid, gid, folder = unit.user_of(request.unit)
    facts = Facts(path_state=lambda path: unit.path_state(path, uid, gid, folder))
    options = Options(
        unit=request.unit,
        timeout_s=request.timeout_s,
        stall_s={} if request.stall_s <= 0 else dict.fromkeys(_PHASES, request.stall_s),
        host=request.host,
        port=request.port,
        served_name=request.served_name,
        api_key=api_key(request.api_key_file),
        state_dir=request.state_dir,
        since=unit.between(request.unit)[0],
    )
    one = Watch(options, source, lambda: unit.state(request.unit), report, facts=facts, outside=outside)
    verdict = one.run()
    first = str(marker.get("invocation_id") or "")
    if verdict.outcome == "failed" and one.state.restarts and first and first != invocation and not request.log_path:
        verdict = _first_run(request, first, verdict, facts)
    return result(request, verdict, one, invocation, time.monotonic() - began)


def _first_run(request: Request, invocation: str, verdict: Verdict, facts: Facts) -> Verdict:
    """A crash loop: the cause of its first run counts, where that run tells one."""
    analysis = Analysis()
    source = JournalSource(request.unit, invocation)
    for data, moment in source.finish():
        analysis.feed(data, moment)
    analysis.close()
    if analysis.lines_seen == 0:
        return verdict
    first = conclude(analysis, "failed", facts)
    if first.cause in (None, "unknown"):
        return verdict
    return Verdict(
        **{
            **first.as_dict(),
            "detail": {**first.detail, **{"restarts": verdict.detail.get("restarts"), "first_invocation": invocation}},
        }
    )


_PHASES = (
    "import",
    "args",
    "init_distributed",
    "load_weights",
    "kv_cache",
    "graph_capture",
    "compile",
    "http",
    "warmup",
    "runtime",
)


def result(request: Request, verdict: Verdict, one: Watch, invocation: str, seconds: float) -> dict[str, Any]:
    """What the module returns."""
    endpoint = one._endpoint()
    shown = endpoint.host if ":" not in endpoint.host else "[%s]" % endpoint.host.strip("[]")
    return {
        **verdict.as_dict(),
        "unit": request.unit,
        "invocation_id": invocation,
        "seconds": round(seconds, 3),
        "verdict_delay_s": round(max(0.0, one.clock() - one.heard_at), 3),
        "url": "%s://%s:%d" % ("https" if endpoint.tls else "http", shown, endpoint.port),
    }
