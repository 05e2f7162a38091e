# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The text of a systemd unit: the process receives the argument vector byte for byte.

systemd splits, unescapes and expands what stands in a unit. ``ExecStart=:`` (systemd 244) turns the expansion of
variables off, ``%`` is doubled, and every word that is not plain is quoted and escaped. What systemd would drop or
change without a word is refused here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._errors import LlmHostError
from . import hardening

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
UNIT_DIR = "/etc/systemd/system"
INSTANCE_MARK = "LLMHOST_INSTANCE"  # variables of the process: whose it is,
START_MARK = "LLMHOST_START"  # and which arguments, configuration, ... it was started with
MARK = "X-LlmHost"  # the section that says whose unit this is; systemd skips sections that begin with X-

MAX_LINE = 1000000  # bytes; systemd refuses a line of 1 MiB
MAX_ARGUMENT = 131071  # bytes; the kernel's limit for one argument or variable, less its final NUL

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:=,+@^-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,30}|[0-9]{1,10}")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}

# Everything that writes by itself goes below one folder of ours: variable -> folder below it.
CACHES = (
    ("HOME", ""),
    ("XDG_CACHE_HOME", "xdg"),
    ("HF_HOME", "huggingface"),
    ("TRITON_CACHE_DIR", "triton"),
    ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
    ("TORCH_EXTENSIONS_DIR", "torch_extensions"),
    ("CUDA_CACHE_PATH", "cuda"),
    ("NUMBA_CACHE_DIR", "numba"),
    ("FLASHINFER_WORKSPACE_BASE", "flashinfer"),
    ("DG_JIT_CACHE_DIR", "deep_gemm"),
    ("SGLANG_DG_CACHE_DIR", "deep_gemm"),
    ("OUTLINES_CACHE_DIR", "outlines"),
)
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Unit:
    """Everything that the unit file of one instance depends on."""

    name: str
    argv: tuple[str, ...]
    user: str = "sglang"
    group: str = "sglang"
    environment: tuple[tuple[str, str], ...] = ()
    environment_file: str | None = None
    working_directory: str | None = None
    required_paths: tuple[str, ...] = ()
    cache_dir: str = ""
    cuda_home: str | None = None
    pre_start: tuple[tuple[str, ...], ...] = ()
    start_timeout_s: int = 90
    drain_timeout_s: int = 60
    restart: str = "on-failure"
    restart_delay_s: int = 10
    restart_limit: int = 4
    restart_window_s: int = 3600
    limit_nofile: str = "1048576"
    limit_memlock: str = "infinity"
    tasks_max: str = "infinity"
    oom_score_adjust: int | None = 200
    harden: bool = True
    host: str = "127.0.0.1"
    port: int = 30000
    state_dir: str = "/var/lib/llmhost"
    config_path: str = ""
    start_digests: str = ""  # what the running process is known by; in its environment and in our section

    @property
    def file_name(self) -> str:
        return unit_name(self.name)


def unit_name(name: str) -> str:
    """The unit of an instance; a name that cannot be one is refused."""
    if not NAME.fullmatch(name):
        raise LlmHostError(
            "invalid_argument",
            f"name {name!r} cannot name an instance: use 1 to 63 of a-z, 0-9, '_', '-', with a letter or digit first",
            option="name",
        )
    return f"sglang-{name}.service"


def _refuse(option: str, message: str) -> LlmHostError:
    return LlmHostError("invalid_argument", message, option=option)


def encode(text: str, option: str) -> bytes:
    """The bytes that a process receives for a text; what cannot be passed to a process is refused."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _refuse(option, f"{option} holds a lone surrogate, which no process can receive: {text!r}") from None
    if b"\0" in data:
        raise _refuse(option, f"{option} holds a NUL byte, which no process can receive: take it out of {text[:80]!r}")
    if len(data) > MAX_ARGUMENT:
        raise _refuse(
            option,
            f"{option} has {len(data)} bytes, the kernel passes at most {MAX_ARGUMENT}: put it into a file",
        )
    return data


def quote(text: str, option: str = "argv") -> str:
    """One word of a unit file that systemd reads back as exactly this text."""
    encode(text, option)
    doubled = text.replace("%", "%%")
    if _PLAIN_WORD.fullmatch(text):
        return doubled
    return '"' + "".join(_escape(char) for char in doubled) + '"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def command_line(argv: Sequence[str], option: str = "argv") -> str:
    """The right-hand side of ``ExecStart=``: options on lines of their own, so that a diff shows which one changed."""
    if not argv:
        raise _refuse(option, f"{option} is empty: give the program and its arguments")
    program = argv[0]
    if not program.startswith("/") or os.path.normpath(program) != program or program.startswith("//"):
        raise _refuse(
            option,
            f"{option}[0] is {program!r}: systemd needs an absolute path without '.', '..' or doubled slashes",
        )
    plain_path(program, f"{option}[0]")
    line = quote(":" + program, option)
    for argument in argv[1:]:
        line += (" \\\n    " if argument.startswith("-") else " ") + quote(argument, option)
    return line


def plain_path(path: str, option: str) -> str:
    """An absolute path that every directive of systemd takes: no quotes, backslashes or control characters."""
    encode(path, option)
    if not path.startswith("/") or path != path.strip():
        raise _refuse(option, f"{option} must be an absolute path without blanks around it, not {path!r}")
    if not path.isprintable() or set(path) & set("\"'\\"):
        raise _refuse(option, f"{option} {path!r} holds a quote, a backslash or a control character: use another path")
    return path


def environment_word(name: str, value: str, option: str = "environment") -> str:
    """One assignment for ``Environment=``."""
    _check_variable(name, value, option)
    return quote(f"{name}={value}", option)


def _check_variable(name: str, value: str, option: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise _refuse(option, f"{option}: {name!r} is no name of a variable: use letters, digits and '_'")
    encode(value, f"{option}.{name}")
    bad = [char for char in value if not _variable_takes(char)]
    if bad:
        raise _refuse(
            option,
            f"{option}.{name} holds {bad[0]!r}: systemd drops a variable with a control character other than tab and "
            "newline, or with bytes that are no UTF-8",
        )


def _variable_takes(char: str) -> bool:
    code = ord(char)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return char in "\t\n" or 0x80 <= code < 0xA0
    surrogate = 0xD800 <= code <= 0xDFFF
    return not (surrogate or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE)


def environment_file(variables: Mapping[str, str], option: str = "secret_environment") -> str:
    """The text of an ``EnvironmentFile=``: its quoting is the shell's, not that of a unit."""
    lines = []
    for name in sorted(variables):
        value = variables[name]
        _check_variable(name, value, option)
        escaped = "".join("\\" + char if char in '"\\`$' else char for char in value)
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)


def default_environment(unit: Unit) -> dict[str, str]:
    """What every server gets: caches below one folder, the runtime's programs first in ``PATH``."""
    found = {
        variable: os.path.join(unit.cache_dir, folder).rstrip("/") for variable, folder in CACHES if unit.cache_dir
    }
    found["PYTHONUNBUFFERED"] = "1"
    first = [os.path.dirname(unit.argv[0])] if unit.argv else []
    if unit.cuda_home:
        found["CUDA_HOME"] = unit.cuda_home
        first.append(unit.cuda_home + "/bin")
    known = SYSTEM_PATH.split(":")
    found["PATH"] = ":".join([folder for folder in first if folder and folder not in known] + known)
    return found


def full_environment(unit: Unit) -> dict[str, str]:
    """The variables of the unit file, the caller's winning over ours; the marks are not among them."""
    return {**default_environment(unit), **dict(unit.environment)}


def _mounts(unit: Unit) -> list[str]:
    paths = [*unit.required_paths, unit.state_dir, unit.cache_dir]
    if unit.argv:
        paths.append(os.path.dirname(unit.argv[0]))
    return list(dict.fromkeys(path for path in paths if path))


def _account(text: str, option: str) -> str:
    if not _ACCOUNT.fullmatch(text):
        raise _refuse(option, f"{option} {text!r} cannot name an account")
    return text


def service_settings(unit: Unit) -> list[tuple[str, str]]:
    """The directives of [Service] that take effect at a start, without program and variables."""
    settings = [
        ("Type", "exec"),
        ("User", _account(unit.user, "user")),
        ("Group", _account(unit.group, "group")),
    ]
    if unit.working_directory:
        path = plain_path(unit.working_directory, "working_directory")
        settings.append(("WorkingDirectory", path.replace("%", "%%")))
    if unit.environment_file:
        settings.append(("EnvironmentFile", plain_path(unit.environment_file, "state_dir").replace("%", "%%")))
    settings += [("ExecStartPre", command_line(argv, "pre_start")) for argv in unit.pre_start]
    settings += [
        # The launcher alone gets SIGTERM and drains; what is left of its group is killed after it.
        ("KillMode", "mixed"),
        ("KillSignal", "SIGTERM"),
        ("TimeoutStartSec", str(unit.start_timeout_s)),
        ("TimeoutStopSec", str(unit.drain_timeout_s)),
        ("Restart", unit.restart),
        ("RestartSec", str(unit.restart_delay_s)),
        # argparse ends with 2 on arguments that it does not know: the next attempt would end the same way.
        ("RestartPreventExitStatus", "2"),
        ("OOMPolicy", "stop"),
        ("LimitMEMLOCK", unit.limit_memlock),
        ("LimitNOFILE", unit.limit_nofile),
        ("TasksMax", unit.tasks_max),
        ("StandardOutput", "journal"),
        ("StandardError", "journal"),
        ("SyslogIdentifier", f"sglang-{unit.name}"),
        ("LogRateLimitIntervalSec", "0"),
    ]
    if unit.oom_score_adjust is not None:
        settings.append(("OOMScoreAdjust", str(unit.oom_score_adjust)))
    if unit.harden:
        settings += hardening.directives(unit.user)
        if unit.cache_dir:
            settings.append(("ReadWritePaths", _path_word(unit.cache_dir, "cache_dir")))
    return settings


def _path_word(path: str, option: str) -> str:
    return '"' + plain_path(path, option).replace("%", "%%") + '"'


def render(unit: Unit) -> str:
    """The unit file."""
    name = unit.file_name
    variables = [*sorted(full_environment(unit).items()), (INSTANCE_MARK, unit.name), (START_MARK, unit.start_digests)]
    sections = [
        (
            "Unit",
            [
                ("Description", f"SGLang server {unit.name}"),
                ("Wants", "network-online.target"),
                ("After", "network-online.target nvidia-persistenced.service"),
                *[("RequiresMountsFor", _path_word(path, "required_paths")) for path in _mounts(unit)],
                ("StartLimitIntervalSec", str(unit.restart_window_s)),
                ("StartLimitBurst", str(unit.restart_limit)),
            ],
        ),
        (
            "Service",
            [
                *service_settings(unit),
                *[("Environment", environment_word(key, value)) for key, value in variables],
                ("ExecStart", command_line(unit.argv)),
            ],
        ),
        ("Install", [("WantedBy", "multi-user.target")]),
        (
            MARK,
            [
                ("Instance", unit.name),
                ("Host", unit.host),
                ("Port", str(unit.port)),
                ("StateDir", unit.state_dir),
                ("CacheDir", unit.cache_dir),
                ("ConfigPath", unit.config_path),
                ("Start", unit.start_digests),
            ],
        ),
    ]
    text = f"# {name} is written by the Ansible collection llmhost.sglang: the next play undoes what is changed here.\n"
    for section, lines in sections:
        text += f"\n[{section}]\n" + "".join(_line(key, value) for key, value in lines)
    return text


def _line(key: str, value: str) -> str:
    line = f"{key}={value}\n"
    if len(line.encode("utf-8")) > MAX_LINE:
        raise _refuse("argv", f"{key}= would have more than {MAX_LINE} bytes, more than systemd reads: use a file")
    return line


def read_mark(text: str) -> dict[str, str] | None:
    """What our section of a unit file says, by key; ``None`` where the unit is not ours."""
    found: dict[str, str] = {}
    inside = False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            inside = stripped == f"[{MARK}]"
        elif inside and "=" in stripped:
            key, _equals, value = stripped.partition("=")
            found[key] = value
    return found if found.get("Instance") else None
