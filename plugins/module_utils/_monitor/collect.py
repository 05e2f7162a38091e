# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Looks at the host for the metrics: every instance, the GPUs, and for the probe a completion that is really made."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from .._errors import LlmHostError
from .._gpu import clients, query
from .._server import files, host, info, probe
from .._server import unit as units
from .._server.http import Client
from .._server.instance import WantedFile
from . import metrics
from .metrics import Sample

KEPT = 10  # evidence files an instance
LOG_LINES = 60
# The servers are this host's own: whether their certificates convince others is not asked here.
ASKING = info.Asking(validate_certs=False)
# what of the server's state is kept beside the failure of a probe
EVIDENCE = ("health", "health_detail", "active_state", "sub_state", "restarts", "invocation_id", "processes")


def state(gpu_timeout_s: float, unit_dir: str = units.UNIT_DIR) -> list[Sample]:
    """All samples but the probe's."""
    found: list[Sample] = []
    for name, mark in host.instances(unit_dir):
        state_dir = mark.get("StateDir", "/var/lib/llmhost")
        found += metrics.server(info.look(name, ASKING, unit_dir), last_verdict(state_dir, name))
    found += _gpus(gpu_timeout_s)
    return [*found, ("llmhost_monitor_timestamp_seconds", {}, time.time())]


def _gpus(timeout_s: float) -> list[Sample]:
    try:
        driver, source, note = query.open_driver("auto", timeout_s)
        try:
            looked = query.look(driver, source, note)
        finally:
            driver.close()
        seen = clients.enrich(looked, {"clients", "xid"}, driver.nested, {}, timeout_s)
    except LlmHostError as error:
        return list(metrics.no_gpus(error.reason))
    return list(metrics.gpus(gpu.as_dict() for gpu in seen.gpus))


def last_verdict(state_dir: str, name: str) -> dict[str, Any] | None:
    """The newest verdict that a watch left below the instance's folder; None where none can be read."""
    folder = os.path.join(state_dir, "instances", name, "watch")
    try:
        paths = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".verdict.json")]
        with open(max(paths, key=os.path.getmtime), encoding="utf-8") as handle:
            result = json.load(handle)["result"]
    except (OSError, ValueError, KeyError, TypeError):  # ValueError: max() of nothing, too
        return None
    return result if isinstance(result, dict) else None


def probes(timeout_s: float, unit_dir: str = units.UNIT_DIR) -> list[Sample]:
    """A completion of every instance that runs. Where one fails, what was seen is kept below its folder."""
    found: list[Sample] = []
    for name, mark in host.instances(unit_dir):
        state_dir, port = mark.get("StateDir", "/var/lib/llmhost"), int(mark.get("Port") or 0)
        server = host.Host(name=name, state_dir=state_dir, port=port, unit_dir=unit_dir, proc="/proc")
        if server.show().get("ActiveState") != "active":
            continue  # its absence has an alert of its own
        before = info.look(name, ASKING, unit_dir)
        seen, failure = ask(name, str(before["url"]), info.configured_key(mark.get("ConfigPath", "")), timeout_s)
        found += seen
        if failure:
            keep(state_dir, server, info.look(name, ASKING, unit_dir), failure)
    return [*found, ("llmhost_probe_timestamp_seconds", {}, time.time())]


def ask(name: str, url: str, key: str | None, timeout_s: float) -> tuple[list[Sample], dict[str, Any] | None]:
    """Whether the server answers /health and, asked next, a completion; with what went wrong where it does not."""
    label = {"instance_name": name}
    client = Client(url, key, ASKING.validate_certs)
    try:
        status = client.get("/health", timeout_s).status
        health, healthy = "HTTP %d" % status, status == 200
    except LlmHostError as error:
        health, healthy = error.message, False
    found: list[Sample] = [("llmhost_probe_health_success", label, float(healthy))]
    begun = time.monotonic()
    try:
        # that tokens come is what is asserted: what a model says is not the monitor's business
        probe.ask(client, probe.Question(instance=name, max_tokens=8, allow_replacement=True), timeout_s)
    except LlmHostError as error:
        found.append(("llmhost_probe_success", label, 0.0))
        return found, {**error.as_result(), "health_said": health, "seconds": round(time.monotonic() - begun, 2)}
    taken = time.monotonic() - begun
    return [*found, ("llmhost_probe_success", label, 1.0), ("llmhost_probe_seconds", label, taken)], None


def keep(state_dir: str, server: host.Host, found: Mapping[str, Any], failure: Mapping[str, Any]) -> str:
    """Write what was seen when a probe failed below the instance's folder, the newest few; returns the path."""
    folder = os.path.join(state_dir, "instances", server.name, "probe")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    evidence = {
        "failure": info.masked(dict(failure)),
        "server": {key: found.get(key) for key in EVIDENCE},
        "log_tail": server.journal(str(found.get("invocation_id") or ""), LOG_LINES),
    }
    path = os.path.join(folder, time.strftime("%Y%m%dT%H%M%SZ.json", time.gmtime()))
    files.replace(WantedFile(path, json.dumps(evidence, indent=1).encode(), 0o600))
    for old in sorted(os.listdir(folder))[:-KEPT]:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, old))
    return path
