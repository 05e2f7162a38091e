# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The table of metrics, the samples that are made of plain results, and Prometheus' text format.

What could not be learnt has no sample: an alert sees its absence, never a number that looks healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# name: what it tells. All are gauges; nothing else is written.
METRICS: dict[str, str] = {
    "llmhost_server_up": "1 while systemd calls the unit active",
    "llmhost_server_enabled": "1 where the unit starts at boot, so that somebody expects it to run",
    "llmhost_server_health": "1 for the health that was seen, 0 for the other words",
    "llmhost_server_restarts": "how often systemd restarted the unit by itself",
    "llmhost_server_outdated": "1 where the unit, its arguments or its files were changed since the start",
    "llmhost_server_info": "1, with the version and the model that the server tells",
    "llmhost_server_capacity_tokens": "max_total_num_tokens as the server tells it",
    "llmhost_start_outcome": "1 for the outcome and the cause of the last watched start",
    "llmhost_start_seconds": "how long the last watched start took, all phases",
    "llmhost_start_phase_seconds": "how long each phase of the last watched start took",
    "llmhost_start_plan_drift_ratio": "actual by planned memory, for items of the last start that were off",
    "llmhost_gpu_query_success": "1 where the driver answered; the reason where it did not",
    "llmhost_gpu_health": "1 for the health of the GPU, 0 for the other words",
    "llmhost_gpu_memory_used_mib": "memory in use, MiB",
    "llmhost_gpu_stranger_mib": "memory of processes that belong to no sglang unit, MiB, where it is told",
    "llmhost_gpu_strangers": "processes on the GPU that belong to no sglang unit",
    "llmhost_probe_success": "1 where the server gave a completion, 0 where it did not",
    "llmhost_probe_seconds": "how long the completion took",
    "llmhost_probe_health_success": "1 where /health answered 200 just before that completion was asked for",
    "llmhost_monitor_timestamp_seconds": "when these figures were taken",
    "llmhost_probe_timestamp_seconds": "when the probe was made",
}
HEALTHS = ("ready", "starting", "frozen", "stopping", "down", "foreign", "unknown")
GPU_HEALTHS = ("ok", "degraded", "unusable")

Sample = tuple[str, dict[str, str], float]


def server(found: Mapping[str, Any], verdict: Mapping[str, Any] | None) -> Iterator[Sample]:
    """Of one instance: the result of ``_server.info.look``, and the verdict on its last watched start."""
    name = {"instance_name": str(found["name"])}
    yield "llmhost_server_up", name, float(found["active_state"] == "active")
    yield "llmhost_server_enabled", name, float(bool(found["enabled"]))
    yield "llmhost_server_restarts", name, float(found["restarts"])
    yield "llmhost_server_outdated", name, float(bool(found["outdated"]))
    for word in HEALTHS:
        yield "llmhost_server_health", {**name, "health": word}, float(word == found["health"])
    if found.get("version"):
        said = {"version": str(found["version"]), "model": str(found.get("model") or "")}
        yield "llmhost_server_info", {**name, **said}, 1.0
    tokens = _number((found.get("capacity") or {}).get("max_total_num_tokens"))
    if tokens is not None:
        yield "llmhost_server_capacity_tokens", name, tokens
    yield from _start(name, verdict or {})


def _start(name: dict[str, str], verdict: Mapping[str, Any]) -> Iterator[Sample]:
    if not verdict.get("outcome"):
        return
    said = {"outcome": str(verdict["outcome"]), "cause": str(verdict.get("cause") or "")}
    yield "llmhost_start_outcome", {**name, **said}, 1.0
    total = 0.0
    for step in verdict.get("timeline") or []:
        seconds = _number(step.get("seconds"))
        if seconds is not None and step.get("phase"):
            total += seconds
            yield "llmhost_start_phase_seconds", {**name, "phase": str(step["phase"])}, seconds
    if total:
        yield "llmhost_start_seconds", name, total
    for item in verdict.get("plan_drift") or []:
        ratio = _number(item.get("ratio"))
        if ratio is not None:
            yield "llmhost_start_plan_drift_ratio", {**name, "item": str(item.get("item"))}, ratio


def gpus(found: Iterable[Mapping[str, Any]]) -> Iterator[Sample]:
    """Of all GPUs: the dicts of ``Gpu.as_dict``."""
    yield "llmhost_gpu_query_success", {"reason": ""}, 1.0
    for gpu in found:
        card = {"gpu": str(gpu["index"]), "uuid": str(gpu["uuid"] or "")}
        for word in GPU_HEALTHS:
            yield "llmhost_gpu_health", {**card, "health": word}, float(word == gpu["health"])
        used = _number(gpu["memory_mib"].get("used"))
        if used is not None:
            yield "llmhost_gpu_memory_used_mib", card, used
        if not gpu["clients_known"]:
            continue
        # a client whose unit could not be found is no proven stranger
        strangers = [
            client
            for client in gpu["clients"]
            if client["identified"] and not str(client["unit"] or "").startswith("sglang-")
        ]
        yield "llmhost_gpu_strangers", card, float(len(strangers))
        held = [_number(client["memory_mib"]) for client in strangers]
        told = [one for one in held if one is not None]
        if len(told) == len(held):  # a sum with an unknown part would look like all of it
            yield "llmhost_gpu_stranger_mib", card, sum(told)


def no_gpus(reason: str) -> Iterator[Sample]:
    """Where the driver did not answer. A host without a driver has no sample: it is no GPU host."""
    if reason not in ("no_driver", "no_gpu"):
        yield "llmhost_gpu_query_success", {"reason": reason}, 0.0


def text(found: Iterable[Sample]) -> str:
    """The samples in Prometheus' text format: one HELP and TYPE a metric, in the table's order."""
    by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
    for metric, labels, value in found:
        by_name.setdefault(metric, []).append((labels, value))
    lines = []
    for metric, meaning in METRICS.items():
        if metric not in by_name:
            continue
        lines += ["# HELP %s %s" % (metric, meaning), "# TYPE %s gauge" % metric]
        for labels, value in by_name[metric]:
            shown = ",".join('%s="%s"' % (key, _escaped(labels[key])) for key in sorted(labels))
            lines.append("%s%s %r" % (metric, "{%s}" % shown if shown else "", float(value)))
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
