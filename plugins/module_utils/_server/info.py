# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What one instance is doing: its unit, its processes, what it says of itself. In bounded time, whatever its state."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import LlmHostError
from .._process import identity
from . import host as hosts
from . import instance
from . import unit as units
from .http import Client

SLOW_S = 5.0  # a server that starts refuses /health at once; one whose scheduler is frozen, after 20 s
QUICK_S = 5.0  # for what a healthy server answers within milliseconds

_TITLE = re.compile(r"sglang::([a-z_]+?)((?:_(?:DP|PP|TP|EP|CP)\d+)*)(?:\s|$)")
_SECRET_KEY = re.compile(r"(?:.*_)?(?:api_key|secret|password|passwd|token|private_key|credentials?)")
_CONFIG_KEY = re.compile(r"api[-_]key:\s*(\"(?:[^\"\\]|\\.)*\"|\S+)\s*$")

# Spellings of the command line that the server reports under another name.
ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
}
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1", "*": "127.0.0.1", "": "127.0.0.1"}


@dataclass(frozen=True)
class Asking:
    """How to ask a server about itself."""

    api_key: str | None = None
    host: str | None = None
    port: int | None = None
    timeout_s: float = 30.0
    health_timeout_s: float = 25.0
    scheme: str | None = None
    validate_certs: bool = True
    ca_path: str | None = None
    server_name: str | None = None


def look(name: str, asking: Asking, unit_dir: str = units.UNIT_DIR, proc: str = "/proc") -> dict[str, Any]:
    """Everything about one instance, as plain data."""
    deadline = time.monotonic() + asking.timeout_s
    mark = dict(hosts.instances(unit_dir)).get(name, {})
    state_dir = mark.get("StateDir", "/var/lib/llmhost")
    port = asking.port or int(mark.get("Port") or 0)
    host = hosts.Host(name=name, state_dir=state_dir, port=port, unit_dir=unit_dir, proc=proc)
    shown = host.show()
    marker = host.marker()
    processes = _processes(host, shown)
    current = marker if marker.get("invocation_id") == shown.get("InvocationID") else {}
    address = WILDCARDS.get(asking.host or mark.get("Host", ""), asking.host or mark.get("Host", ""))
    argv = _running_argv(shown, current, proc)
    scheme = asking.scheme or ("https" if "ssl_certfile" in arguments(argv) else "http")
    url = f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}" if port else None
    found: dict[str, Any] = {
        "name": name,
        "unit": host.unit,
        "exists": bool(mark),
        "active_state": shown.get("ActiveState", ""),
        "sub_state": shown.get("SubState", ""),
        "enabled": shown.get("UnitFileState", "") in ("enabled", "enabled-runtime"),
        "result": shown.get("Result", ""),
        "restarts": int(shown.get("NRestarts") or 0),
        "invocation_id": shown.get("InvocationID", "") or None,
        "started_at": current.get("started_at"),
        "url": url,
        "processes": processes,
        "outdated": _outdated(host, shown, mark),
        "model": None,
        "version": None,
        "arguments": {},
        "drift": [],
        "capacity": {},
        "notes": [],
    }
    key = asking.api_key or configured_key(mark.get("ConfigPath", ""))
    client = Client(url, key, asking.validate_certs, asking.ca_path, asking.server_name) if url else None
    health, detail = _health(shown, processes, client, port, host, deadline, asking.health_timeout_s)
    found.update(health=health, health_detail=detail)
    if client and health in ("ready", "starting", "frozen", "stopping", "unknown") and _answers(port, proc):
        _ask(found, client, health, deadline, argv)
    return found


def configured_key(path: str) -> str | None:
    """The API key in the configuration file that the module ``server`` wrote, where there is one and we may read it."""
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as handle:
            lines = handle.read(1 << 20).splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        match = _CONFIG_KEY.fullmatch(line.strip())
        if match:
            text = match.group(1)
            try:
                return str(json.loads(text)) if text.startswith('"') else text.strip("'")
            except ValueError:
                return None
    return None


def _answers(port: int, proc: str) -> bool:
    try:
        return bool(identity.listeners(port, proc))
    except LlmHostError:
        return True


def role_of(process: identity.Process, main_pid: int) -> tuple[str, str | None]:
    """What a process of the unit does, and its ranks, by its title."""
    title = _TITLE.match(process.cmdline)
    if title:
        return title.group(1), title.group(2).lstrip("_") or None
    if process.pid == main_pid:
        return "launcher", None
    if "resource_tracker" in process.cmdline:
        return "resource_tracker", None
    if "spawn_main" in process.cmdline:
        return "starting", None
    return "other", None


def _processes(host: hosts.Host, shown: Mapping[str, str]) -> list[dict[str, Any]]:
    main = int(shown.get("MainPID") or 0)
    found = []
    for pid in host.processes():
        try:
            process = identity.read(pid, host.proc)
        except OSError:
            continue
        role, rank = role_of(process, main)
        found.append(
            {
                "pid": pid,
                "role": role,
                "rank": rank,
                "comm": process.comm,
                "state": process.state,
                "rss_mib": _rss_mib(pid, host.proc),
                "cmdline": process.cmdline.strip(),
            }
        )
    return found


def _rss_mib(pid: int, proc: str) -> int | None:
    try:
        with open(f"{proc}/{pid}/status") as handle:
            for line in handle:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) // 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _outdated(host: hosts.Host, shown: Mapping[str, str], mark: Mapping[str, str]) -> list[str]:
    """Words for what the running process was started with and that is no longer what is on disk."""
    if not int(shown.get("MainPID") or 0):
        return []
    wanted = instance.read_digests(mark.get("Start", ""))
    origin = host.origin(dict(shown))
    if wanted is None or origin is None:
        return list(instance.WORDS)
    return [word for word in instance.WORDS if wanted[word] != origin[word]]


def _health(
    shown: Mapping[str, str],
    processes: Sequence[Mapping[str, Any]],
    client: Client | None,
    port: int,
    host: hosts.Host,
    deadline: float,
    health_timeout_s: float,
) -> tuple[str, str]:
    state = shown.get("ActiveState", "")
    if state == "deactivating":
        return "stopping", "the unit is being stopped; it finishes the requests that it has"
    if state == "activating" and shown.get("SubState") == "auto-restart":
        return "down", f"it ended ({shown.get('Result')}); systemd waits before it tries again"
    if state not in ("active", "activating", "reloading"):
        return "down", f"the unit is {state or 'unknown'} (result {shown.get('Result') or 'none'})"
    stopped = [one["pid"] for one in processes if one["state"] in ("T", "t")]
    if stopped:
        return "frozen", f"PID {', '.join(map(str, stopped))} is stopped by a signal or a debugger"
    try:
        holders = identity.listeners(port, host.proc) if port else []
    except LlmHostError:
        holders = [one["pid"] for one in processes]  # cannot be told: ask
    if not holders or client is None:
        return "starting", f"nothing listens on port {port} yet"
    own = {one["pid"] for one in processes}
    if not own.intersection(holders):
        return "foreign", f"port {port} is held by PID {', '.join(map(str, holders))}, which is none of {host.unit}"
    return _ask_health(client, min(health_timeout_s, max(0.5, deadline - time.monotonic())))


def _ask_health(client: Client, timeout_s: float) -> tuple[str, str]:
    began = time.monotonic()
    try:
        answer = client.get("/health", timeout_s)
    except LlmHostError as error:
        if error.reason == "timeout" and timeout_s > SLOW_S:
            return "frozen", f"/health, which makes a token, gave no answer within {timeout_s:.1f} s"
        if error.reason in ("connection_refused", "connection_lost"):
            return "down", error.message
        return "unknown", error.message
    seconds = time.monotonic() - began
    if answer.status == 200:
        return "ready", f"/health made a token in {answer.seconds:.1f} s"
    if answer.status == 503 and seconds < SLOW_S:
        return "starting", "/health refuses at once: the warm-up is not over"
    if answer.status == 503:
        return "frozen", f"/health gave up after {seconds:.1f} s: the scheduler makes no token"
    return "unknown", f"/health answered {answer.status}"


def _running_argv(shown: Mapping[str, str], marker: Mapping[str, Any], proc: str) -> list[str]:
    """The arguments of the running process: its own, or those of its start's marker where it has retitled itself."""
    pid = int(shown.get("MainPID") or 0)
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as handle:
            words = handle.read().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    if words and not words[-1]:
        words.pop()
    if any(word.startswith("--") for word in words):
        return words
    return [str(word) for word in marker.get("argv", [])]


def _ask(found: dict[str, Any], client: Client, health: str, deadline: float, argv: Sequence[str]) -> None:
    """Put into ``found`` what the server says; what it does not say stays out, with a note."""

    def get(*paths: str) -> Any:
        for path in paths:
            left = deadline - time.monotonic()
            if left <= 0:
                found["notes"].append(f"{path} was not asked: the time was over")
                return None
            try:
                answer = client.get(path, min(QUICK_S, left))
                if answer.status == 200:
                    return answer.json()
                if answer.status in (401, 403):
                    found["notes"].append(f"{path} wants another API key")
                    return None
            except LlmHostError as error:
                found["notes"].append(error.message)
                return None
        return None

    models = get("/v1/models")
    served = models.get("data") if isinstance(models, dict) else None
    first = served[0] if isinstance(served, list) and served and isinstance(served[0], dict) else {}
    found["model"] = first.get("id")
    # The scheduler answers this one: one that is frozen never does.
    said = get("/server_info", "/get_server_info") if health != "frozen" else None
    if not isinstance(said, dict):
        if health != "frozen":
            loads = get("/v1/loads")
            found["version"] = loads.get("version") if isinstance(loads, dict) else None
        return
    found["version"] = said.get("version")
    states = said.get("internal_states")
    state = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    found["arguments"] = masked({key: value for key, value in said.items() if key != "internal_states"})
    found["drift"] = drift(argv, said)
    found["capacity"] = {
        "max_total_num_tokens": _first(said, state, key="max_total_num_tokens"),
        "max_running_requests": _first({"": state.get("effective_max_running_requests_per_dp")}, key="")
        or _first(said, state, key="max_running_requests"),
        "context_length": _first(said, key="context_length") or first.get("max_model_len"),
        "max_req_input_len": _first(said, state, key="max_req_input_len"),
    }


def _first(*sources: Mapping[str, Any], key: str) -> Any:
    return next((source[key] for source in sources if source.get(key) is not None), None)


def masked(value: Any, key: str = "") -> Any:
    """Plain data with its secrets replaced, by the names of their keys and by their looks."""
    if key and _SECRET_KEY.fullmatch(key) and value is not None and not isinstance(value, (bool, int, float)):
        return identity.MASK
    if isinstance(value, dict):
        return {name: masked(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return identity.mask(value) if isinstance(value, str) else value


def arguments(argv: Sequence[str]) -> dict[str, list[str]]:
    """Options of a command line and their values; a number below zero is a value."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            current = found[ALIASES.get(name.replace("-", "_"), name.replace("-", "_"))] = [value] if equals else []
        elif current is not None:
            current.append(word)
    return found


def drift(argv: Sequence[str], said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments that the server was given and reports with another value. What it does not report is left out."""
    found = []
    for name, values in sorted(arguments(argv).items()):
        if name in said and not _same(values, said[name]):
            given: Any = True if not values else values[0] if len(values) == 1 else list(values)
            found.append({"option": name, "rendered": masked(given, name), "reported": masked(said[name], name)})
    return found


def _same(values: Sequence[str], reported: Any) -> bool:
    if not values:
        return reported is True or reported in ("true", "True")
    if isinstance(reported, list):
        return [str(one) for one in reported] == list(values) or _same(values, json.dumps(reported))
    if len(values) != 1:
        return str(reported) == " ".join(values)
    text = values[0]
    if isinstance(reported, bool):
        return text.lower() == str(reported).lower()
    if isinstance(reported, (int, float)):
        try:
            return float(text) == float(reported)
        except ValueError:
            return False
    if str(reported) == text:
        return True
    try:
        return bool(json.loads(text) == (reported if isinstance(reported, dict) else json.loads(str(reported))))
    except ValueError:
        return False
