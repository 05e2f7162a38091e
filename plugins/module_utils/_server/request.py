# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""From the parameters of the module ``server`` to what is wanted: the unit, its files, the host to do it on."""

from __future__ import annotations

import inspect
import os
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .. import _placeholders as placeholders
from .._errors import LlmHostError
from . import files, instance, prestart
from . import unit as units
from .host import Host
from .instance import WantedFile, WantedFolder, Wish
from .unit import Unit

DRAIN_S = 60  # for a server to finish the requests that it has
KILL_S = 15  # for what is left to be killed, and for the kernel to take it apart
PRIVATE = 0o600
SYSTEM_PYTHON = "/usr/bin/python3"

_HOST = re.compile(r"[A-Za-z0-9_.:%\[\]-]{1,253}")
_LIMIT = re.compile(r"[0-9]+|infinity")
_SECRET_VARIABLE = re.compile(r"(?:.*_)?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.I)
_SECRET_OPTION = re.compile(r"--(?:[a-z0-9]+-)*(?:api-key|token|secret|password)")


@dataclass(frozen=True)
class Request:
    """What was asked for, checked: the unit, the files, and the host to do it on."""

    state: str
    wish: Wish
    unit: Unit | None
    host: Host
    cache_dir: str
    config_path: str
    required: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()  # values that nobody may print


def secret_values(params: Mapping[str, Any]) -> list[str]:
    """Values in open parameters that are secrets by their name: nobody may print them."""
    found = [str(value) for value in (params.get("secrets") or {}).values()]
    found += [str(value) for name, value in (params.get("environment") or {}).items() if is_secret(name, str(value))]
    argv = params.get("argv") or []
    for index, argument in enumerate(argv):
        option, equals, value = argument.partition("=")
        if _SECRET_OPTION.fullmatch(option):
            found += [value] if equals else argv[index + 1 : index + 2]
    return [value for value in found if value and not placeholders.names(value)]


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of the environment is a secret by its name, or waits for one."""
    return _SECRET_VARIABLE.fullmatch(name) is not None or bool(placeholders.names(value))


def request(params: Mapping[str, Any], unit_dir: str = units.UNIT_DIR) -> Request:
    """Check the parameters and work out what is wanted. Reads what is on disk of the instance, changes nothing."""
    stopping = params["state"] in ("stopped", "absent")
    drain, stop = params["drain_timeout_s"], params["stop_timeout_s"]
    on_disk = _drain_on_disk(params["name"], unit_dir) if stopping else None
    if drain is None and stop is None:
        drain = on_disk
    drain_timeout_s, stop_timeout_s = timeouts(drain, stop)
    host = Host(
        name=params["name"],
        state_dir=units.plain_path(params["state_dir"].rstrip("/"), "state_dir"),
        port=params["port"],
        user=params["user"],
        group=params["group"],
        stop_timeout_s=stop_timeout_s,
        drain_timeout_s=drain_timeout_s if on_disk not in (None, drain_timeout_s) else None,
        start_timeout_s=_start_timeout(params) + 30,
        unit_dir=unit_dir,
    )
    cache_dir = units.plain_path(params["cache_dir"].rstrip("/"), "cache_dir") + "/" + params["name"]
    config_path = os.path.normpath(params["config_path"] or host.folder + "/config.yaml")
    units.plain_path(config_path, "config_path")
    earlier = _earlier_config(host)
    if stopping:
        unwanted = earlier if params["state"] == "absent" and not earlier.startswith(host.folder + "/") else ""
        wish = Wish(
            params["state"],
            unit_path=host.unit_path,
            unwanted=(unwanted,) if unwanted else (),
            enabled=params["enabled"],
            purge=params["purge"],
        )
        return Request(params["state"], wish, None, host, cache_dir, "")
    _check(params)
    shown, hidden = _environment(params)
    given = params["secrets"] or {}
    config = None
    if params["config_file"]:
        text = placeholders.fill_yaml(params["config_file"], given, "config_file")
        config = text.encode("utf-8", "surrogateescape")
    argv = [placeholders.fill(word, given, "argv") for word in params["argv"]]
    key = _key(host.folder + "/key") if config is not None or hidden else None
    unit = replace(
        _unit(params, host, cache_dir),
        argv=_argv(argv, config_path if config is not None else None),
        environment=tuple(sorted(shown.items())),
        environment_file=host.folder + "/environment" if hidden else None,
        drain_timeout_s=drain_timeout_s,
        config_path=config_path if config is not None else "",
    )
    runtime = os.path.realpath(os.path.dirname(unit.argv[0])) + "\n" + (params["runtime"] or "")
    found = instance.digests(unit, config, hidden, key or b"", runtime, params["weights"] or "")
    unit = replace(unit, start_digests=instance.write_digests(found))
    secret_file = units.environment_file(hidden).encode() if hidden else None
    script = inspect.getsource(prestart).encode() if unit.pre_start else None
    # A secret that this SGLang takes in its arguments alone stands in the unit, so the unit is root's to read.
    mode = PRIVATE if argv != params["argv"] else 0o644
    candidates = (
        (host.folder + "/key", key, PRIVATE, ("root", "root"), "config_file"),
        (config_path, config, PRIVATE, (unit.user, unit.group), "config_file"),
        (host.folder + "/environment", secret_file, PRIVATE, ("root", "root"), "environment"),
        (host.folder + "/prestart.py", script, 0o644, ("root", "root"), ""),
        (host.unit_path, units.render(unit).encode(), mode, ("root", "root"), "unit"),
    )
    unwanted_paths = [path for path, content, *_rest in candidates if content is None]
    if earlier and earlier != config_path:
        unwanted_paths.append(earlier)
    wish = Wish(
        state=params["state"],
        unit_path=host.unit_path,
        files=tuple(
            WantedFile(path, content, mode, *owner, word in ("config_file", "environment"), word)
            for path, content, mode, owner, word in candidates
            if content is not None
        ),
        unwanted=tuple(unwanted_paths),
        folders=(
            WantedFolder(host.folder, 0o755),
            WantedFolder(cache_dir, 0o750, unit.user, unit.group),
        ),
        enabled=True if params["enabled"] is None else params["enabled"],
        digests=found,
    )
    return Request(
        params["state"],
        wish,
        unit,
        host,
        cache_dir,
        unit.config_path,
        unit.required_paths,
        tuple(secret_values(params)),
    )


def _unit(params: Mapping[str, Any], host: Host, cache_dir: str) -> Unit:
    """The unit but for what depends on secrets and configuration."""
    return Unit(
        name=params["name"],
        argv=tuple(params["argv"]),
        user=params["user"],
        group=params["group"],
        working_directory=params["working_directory"] or cache_dir,
        required_paths=tuple(os.path.normpath(path) for path in params["required_paths"]),
        cache_dir=cache_dir,
        cuda_home=params["cuda_home"],
        pre_start=_pre_start(params, host.folder + "/prestart.py"),
        start_timeout_s=_start_timeout(params),
        restart=params["restart"],
        restart_delay_s=params["restart_delay_s"],
        restart_limit=params["restart_limit"],
        restart_window_s=params["restart_window_s"],
        limit_nofile=params["limit_nofile"],
        limit_memlock=params["limit_memlock"],
        tasks_max=params["tasks_max"],
        oom_score_adjust=params["oom_score_adjust"],
        harden=params["hardening"],
        host=params["host"],
        port=params["port"],
        state_dir=host.state_dir,
    )


def _start_timeout(params: Mapping[str, Any]) -> int:
    start: int = params["start_timeout_s"]
    waiting: int = params["wait_timeout_s"] + KILL_S
    return max(start, waiting) if params["wait_devices"] or params["wait_gpus"] else start


def _pre_start(params: Mapping[str, Any], script: str) -> tuple[tuple[str, ...], ...]:
    """The command that waits for the GPUs before each start, where that was asked for."""
    if not params["wait_devices"] and not params["wait_gpus"]:
        return ()
    python = SYSTEM_PYTHON if os.path.exists(SYSTEM_PYTHON) else sys.executable
    command = [python, "-I", script, "--timeout", str(params["wait_timeout_s"])]
    for path in params["wait_devices"]:
        command += ["--device", units.plain_path(path, "wait_devices")]
    for gpu in params["wait_gpus"]:
        command += [f"--gpu={gpu}"]
    return ((*command, "--used-mib", str(params["wait_gpu_used_mib"])),)


def _drain_on_disk(name: str, unit_dir: str) -> int | None:
    """How long the unit that is there lets its server drain."""
    found = files.look(f"{unit_dir}/{units.unit_name(name)}")
    match = re.search(r"^TimeoutStopSec=([0-9]{1,6})$", found.content.decode("utf-8", "replace") if found else "", re.M)
    return int(match.group(1)) if match else None


def _earlier_config(host: Host) -> str:
    """The configuration file that the unit on disk goes with, where it has one."""
    found = files.look(host.unit_path)
    mark = units.read_mark(found.content.decode("utf-8", "replace")) if found else None
    return (mark or {}).get("ConfigPath", "")


def timeouts(drain: int | None, stop: int | None) -> tuple[int, float]:
    """How long systemd lets a server drain, and how long we wait for the stop as a whole."""
    if drain is None:
        drain = DRAIN_S if stop is None else max(1, stop - KILL_S)
    if stop is None:
        stop = drain + KILL_S
    if stop <= drain:
        raise LlmHostError(
            "invalid_argument",
            f"stop_timeout_s ({stop}) must be more than drain_timeout_s ({drain}): systemd drains first, then kills",
            option="stop_timeout_s",
        )
    return drain, float(stop)


def _check(params: Mapping[str, Any]) -> None:
    def refuse(option: str, message: str) -> None:
        raise LlmHostError("invalid_argument", message, option=option)

    if not params["argv"]:
        refuse("argv", f"state {params['state']} needs argv, as launch_args_info returns it")
    if not 1 <= params["port"] <= 65535:
        refuse("port", f"port {params['port']} is not between 1 and 65535")
    if not _HOST.fullmatch(params["host"]):
        refuse("host", f"host {params['host']!r} is no address")
    for option in ("limit_nofile", "limit_memlock", "tasks_max"):
        if not _LIMIT.fullmatch(params[option]):
            refuse(option, f"{option} is {params[option]!r}: give a number or 'infinity'")
    for option in ("drain_timeout_s", "start_timeout_s", "wait_timeout_s", "restart_limit", "restart_window_s"):
        if params[option] is not None and params[option] < 1:
            refuse(option, f"{option} must be at least 1: 0 would mean 'without limit' to systemd")
    adjust = params["oom_score_adjust"]
    if adjust is not None and not -1000 <= adjust <= 1000:
        refuse("oom_score_adjust", f"oom_score_adjust {adjust} is not between -1000 and 1000")
    for path in params["required_paths"]:
        units.plain_path(path, "required_paths")
    if params["cuda_home"]:
        units.plain_path(params["cuda_home"], "cuda_home")


def _environment(params: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Variables for the unit file, which everybody may read, and those for the file that root alone may."""
    shown = {name: str(value) for name, value in params["environment"].items()}
    hidden = {name: str(value) for name, value in (params["secret_environment"] or {}).items()}
    hidden.update({name: shown.pop(name) for name, value in list(shown.items()) if is_secret(name, value)})
    hidden = {name: placeholders.fill(value, params["secrets"] or {}, "environment") for name, value in hidden.items()}
    for name in (*shown, *hidden):
        if name in (units.INSTANCE_MARK, units.START_MARK):
            raise LlmHostError("invalid_argument", f"environment: {name} is the collection's own", option="environment")
    for name in hidden:
        shown.pop(name, None)
    return shown, hidden


def _argv(argv: list[str], config_path: str | None) -> tuple[str, ...]:
    if config_path is None:
        return tuple(argv)
    if "--config" not in argv:
        return (*argv, "--config", config_path)
    named = argv[argv.index("--config") + 1 : argv.index("--config") + 2]
    if named != [config_path]:
        raise LlmHostError(
            "invalid_argument",
            f"argv names another --config than config_file is written to: leave it out, or give {config_path}",
            option="config_file",
        )
    return tuple(argv)


def _key(path: str) -> bytes:
    """The instance's random key; a new one where there is none yet."""
    found = files.look(path)
    return found.content if found and len(found.content) >= 32 else secrets.token_bytes(32)
