# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What is looked at before a byte is downloaded: each fault with its remedy, and what could not be seen as unknown."""

from __future__ import annotations

import base64
import configparser
import glob
import os
import platform
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from .._gpu import query
from . import locks, programs
from .versions import NEWEST_PYTHON, Needs, driver_minimum, numbers

GIB = 1 << 30
PYPI = "https://pypi.org/simple"
REGISTRY_S = 20.0


_ASK = """
import sys
try:
    import ensurepip, venv
    able = 1
except ImportError:
    able = 0
print(*sys.version_info[:2], able)
"""
_HEADERS = "import os, sysconfig; print(os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))"


@dataclass(frozen=True)
class Check:
    """``status`` is ok, fail, unknown or not_applicable; nothing unknown counts as ok."""

    id: str
    status: str
    message: str
    remedy: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {**self.detail, "id": self.id, "status": self.status, "message": self.message, "remedy": self.remedy}


@dataclass(frozen=True)
class Python:
    path: str
    version: tuple[int, int]
    venv: bool  # whether it can make an environment by itself


@dataclass(frozen=True)
class Gpus:
    """What there is of GPUs. ``nodes`` are the device files, ``driver`` ``None`` where it could not be asked."""

    nodes: int
    driver: str | None
    names: dict[str, float | None] = field(default_factory=dict)  # name -> compute capability
    why: str = ""


# ---------------------------------------------------------------- Python
def ask_python(path: str, env: Mapping[str, str]) -> Python | None:
    done = programs.run([path, "-I", "-c", _ASK], env, timeout_s=30)
    words = done.out.split()
    if done.code != 0 or len(words) != 3:
        return None
    return Python(path, (int(words[0]), int(words[1])), words[2] == "1")


def candidates(least: tuple[int, int]) -> list[str]:
    """Interpreters of this host, the distribution's own first."""
    places = ["/usr/bin", "/usr/local/bin"]
    names = ["python3"] + [f"python3.{minor}" for minor in range(least[1], NEWEST_PYTHON[1] + 1)]
    found = [os.path.join(place, name) for place in places for name in names]
    unique: dict[str, str] = {}
    for path in found:
        if os.access(path, os.X_OK):
            unique.setdefault(os.path.realpath(path), path)
    return list(unique.values())


def find_python(
    wanted: str, least: tuple[int, int], env: Mapping[str, str], uv: str | None, lock: locks.Lock | None, house: str
) -> tuple[Python | None, Check]:
    """The interpreter to build with. ``auto`` takes the first of this host that does, then what uv has."""
    text = f"{least[0]}.{least[1]}"
    if wanted != "auto":
        found = ask_python(wanted, env)
        if found is None:
            remedy = "Correct python, or use auto."
            return None, Check("python", "fail", f"{wanted} does not run as a Python.", remedy)
        if found.version < least:
            remedy = f"Name an interpreter of {text} or newer in python, or use auto. {_where(text)}"
            return found, Check("python", "fail", f"{wanted} is {_dotted(found)}, and SGLang needs {text}.", remedy)
        return found, Check("python", "ok", f"{wanted} is {_dotted(found)}.")
    seen = []
    for path in candidates(least):
        found = ask_python(path, env)
        if found is None:
            continue
        seen.append(f"{path} is {_dotted(found)}")
        if found.version < least or (lock and house and locks.missing_wheels(lock, house, found.version)):
            continue
        return found, Check("python", "ok", f"{path} is {_dotted(found)}.")
    if uv:
        done = programs.run([uv, "python", "find", f">={text}"], env, timeout_s=60)
        found = ask_python(done.out.strip(), env) if done.code == 0 else None
        if found is not None and found.version >= least:
            return found, Check("python", "ok", f"uv has {found.path}, which is {_dotted(found)}.")
    what = ", ".join(seen) or "there is none"
    return None, Check(
        "python", "fail", f"No Python here is {text} or newer and fits the wheels ({what}).", _where(text)
    )


def _where(text: str) -> str:
    return (
        f"Install one: Debian 12 has 3.11 and Ubuntu 24.04 has 3.12 (apt-get install python3 python3-venv); on Ubuntu "
        f"22.04 (3.10) take an older SGLang, another Python {text} named in python, or uv's (uv python install)."
    )


def _dotted(found: Python) -> str:
    return f"Python {found.version[0]}.{found.version[1]}"


# ---------------------------------------------------------------- the host
def glibc(row: Needs | None) -> Check:
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        text = ""
    found = re.match(r"^glibc (\d+)\.(\d+)", text)
    if row is None:
        return Check("glibc", "unknown", "this version of SGLang is older than the table")
    wanted = f"{row.glibc[0]}.{row.glibc[1]}"
    if found is None:
        if "musl" in (platform.libc_ver()[0] or "") or not text:
            remedy = "Use a distribution with glibc (Debian, Ubuntu, ...): there are no wheels for another C library."
            return Check("glibc", "fail", "The C library of this host is not glibc.", remedy)
        return Check("glibc", "unknown", f"the C library says {text!r}")
    if (int(found[1]), int(found[2])) < row.glibc:
        remedy = "Use a newer distribution (Debian 12, Ubuntu 22.04 or newer), or an older SGLang."
        return Check("glibc", "fail", f"glibc {found[1]}.{found[2]} is here, and its wheels need {wanted}.", remedy)
    return Check("glibc", "ok", f"glibc {found[1]}.{found[2]}, and {wanted} is needed.")


def look_at_gpus(timeout_s: float = 20.0) -> Gpus:
    nodes = len(glob.glob("/dev/nvidia[0-9]*"))
    try:
        driver, name, note = query.open_driver("auto", timeout_s)
    except LlmHostError as error:
        return Gpus(nodes, _kernel_module(), {}, error.message)
    try:
        found = query.look(driver, name, note)
        capabilities = driver.capabilities([gpu.uuid for gpu in found.gpus if gpu.uuid])
        names = {
            f"{gpu.name} ({gpu.index})": _number(gpu.compute_capability or capabilities.get(gpu.uuid or ""))
            for gpu in found.gpus
        }
        return Gpus(nodes, found.driver_version or _kernel_module(), names)
    except LlmHostError as error:
        return Gpus(nodes, _kernel_module(), {}, error.message)
    finally:
        driver.close()


def _number(text: str | None) -> float | None:
    return float(text) if text and re.match(r"^\d+(\.\d+)?$", text) else None


def _kernel_module(path: str = "/proc/driver/nvidia/version") -> str | None:
    try:
        with open(path, encoding="utf-8") as text:
            found = re.search(r"Kernel Module\D+(\d+\.\d+(?:\.\d+)?)", text.read())
    except OSError:
        return None
    return found[1] if found else None


def driver(row: Needs | None, gpus: Gpus, wanted: str) -> list[Check]:
    """``wanted``: required, none, or auto, which asks for a driver only where there is a sign of one."""
    if wanted == "none":
        return [Check("driver", "not_applicable", "gpus=none")]
    if gpus.driver is None:
        if gpus.nodes == 0 and wanted == "auto":
            return [Check("driver", "not_applicable", "no NVIDIA device is visible here, so no driver was looked at")]
        remedy = (
            "Install the driver of the node (in a container: its libraries of the same version, and the device files)."
        )
        return [Check("driver", "fail", f"No NVIDIA driver answers here: {gpus.why or 'none is loaded'}", remedy)]
    least = driver_minimum(row.cuda) if row is not None else None
    if row is None or least is None:
        return [
            Check("driver", "unknown", f"driver {gpus.driver}; what this version of SGLang needs is not in the table")
        ]
    checks = []
    if numbers(gpus.driver) < numbers(least):
        remedy = (
            f"Install driver {least} or newer on the node (and its libraries in the container), or take an SGLang that "
            "is built for an older CUDA (0.5.10 is the last for CUDA 12)."
        )
        message = f"Driver {gpus.driver} is here, and the CUDA {row.cuda} of this SGLang needs {least}."
        checks.append(Check("driver", "fail", message, remedy))
    else:
        checks.append(Check("driver", "ok", f"Driver {gpus.driver}; CUDA {row.cuda} needs {least}."))
    for name, capability in sorted(gpus.names.items()):
        if capability is None:
            checks.append(Check("compute_capability", "unknown", f"{name}: it was not told"))
        elif capability < row.compute_capability:
            message = f"{name} has compute capability {capability}, and SGLang needs {row.compute_capability}."
            checks.append(Check("compute_capability", "fail", message, "Use another card (Turing or newer)."))
        else:
            checks.append(Check("compute_capability", "ok", f"{name}: {capability}"))
    return checks


def disk(root: str, needed_gib: float, reserve_gib: float) -> Check:
    place = root
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize / GIB
    detail = {"needed_gib": round(needed_gib, 2), "free_gib": round(free, 2)}
    if free < needed_gib + reserve_gib:
        message = (
            f"{place} has {free:.1f} GiB free; about {needed_gib:.1f} GiB will come, {reserve_gib} must stay free."
        )
        remedy = "Free some (older runtimes go by keep), choose another root, or correct need_gib."
        return Check("disk", "fail", message, remedy, detail)
    return Check("disk", "ok", f"{place} has {free:.1f} GiB free; about {needed_gib:.1f} GiB will come.", None, detail)


def wheel_bytes(folder: str, lock: locks.Lock | None) -> int:
    wanted = lock.pins if lock is not None else None
    total = 0
    for name in os.listdir(folder):
        if name.endswith(".whl") and (wanted is None or locks.canonical(name.split("-")[0]) in wanted):
            total += os.stat(os.path.join(folder, name)).st_size
    return total


# ---------------------------------------------------------------- where packages come from
def wheelhouse(folder: str, lock: locks.Lock | None, python: Python | None) -> Check:
    try:
        wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    except OSError as error:
        remedy = "Put it there (in a container this is usually a mount from the node), or use an index."
        return Check("wheelhouse", "fail", f"{folder} cannot be read: {error.strerror}.", remedy)
    if not wheels:
        return Check("wheelhouse", "fail", f"{folder} holds no wheel.", "Fill it: pip download -d FOLDER -r LOCK.")
    if lock is None or python is None:
        return Check("wheelhouse", "ok", f"{folder} holds {len(wheels)} wheels.")
    missing = locks.missing_wheels(lock, folder, python.version)
    if missing:
        message = f"{folder} lacks {len(missing)} of {len(lock.pins)} wheels: {', '.join(missing[:5])}"
        remedy = "Add them (pip download -d FOLDER -r LOCK with the same Python), or correct the lock."
        return Check("wheelhouse", "fail", message + ("..." if len(missing) > 5 else "."), remedy)
    return Check("wheelhouse", "ok", f"{folder} holds all {len(lock.pins)} wheels.")


def registry(index_url: str, explicit: bool, env: Mapping[str, str]) -> Check:
    address = index_url.rstrip("/") + "/sglang/"
    shown = programs.mask(index_url)
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "file":
        found = os.path.isdir(urllib.parse.unquote(parts.path))
        status, text = ("ok", "has sglang") if found else ("fail", "has no folder sglang")
        return Check("registry", status, f"{shown} {text}.", None if found else "Correct index_url.")
    remedy = (
        "Check the address, name service, firewall and proxy (proxy, or HTTPS_PROXY in the task's environment), give a "
        "mirror in index_url, or a folder of wheels in wheelhouse."
    )
    request = urllib.request.Request(address, headers={"User-Agent": "llmhost.sglang", "Accept": "text/html, */*"})
    if parts.username:
        request = _with_password(parts, request)
    proxies = {
        key[: -len("_proxy")]: value
        for key, value in {k.lower(): v for k, v in env.items()}.items()
        if key in ("http_proxy", "https_proxy")
    }
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try:
        with opener.open(request, timeout=REGISTRY_S) as answer:
            answer.read(1)
        return Check("registry", "ok", f"{shown} answers.")
    except urllib.error.HTTPError as error:
        text = f"{shown} answers {error.code} for sglang."
    except (OSError, ValueError) as error:
        text = f"{shown} cannot be reached: {programs.mask(str(getattr(error, 'reason', error)))}."
    if not explicit:
        return Check("registry", "unknown", text + " The configuration of pip may name other sources.", remedy)
    return Check("registry", "fail", text, remedy)


def _with_password(parts: urllib.parse.SplitResult, request: urllib.request.Request) -> urllib.request.Request:

    plain = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    word = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password or '')}"
    again = urllib.request.Request(plain, headers=dict(request.header_items()))
    again.add_header("Authorization", "Basic " + base64.b64encode(word.encode()).decode())
    return again


def configured_index(env: Mapping[str, str]) -> tuple[str, bool]:
    """(index that pip or uv will use, whether nothing else is configured beside it)."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if env.get(name):
            return env[name], False
    home = env.get("HOME") or os.path.expanduser("~")
    index, alone = PYPI, not any(env.get(name) for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"))
    for path in ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", f"{home}/.pip/pip.conf", f"{home}/.config/pip/pip.conf"):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            index = parser.get(section, "index-url", fallback=index)
            if any(parser.has_option(section, key) for key in ("find-links", "extra-index-url", "no-index")):
                alone = False
    return index, alone


# ---------------------------------------------------------------- tools
def toolchain(python: Python | None, cuda: str | None) -> list[Check]:
    """What just-in-time compilation needs, for kernels that come as source."""
    checks = []
    compiler = next((name for name in ("gcc", "cc", "clang") if shutil.which(name)), None)
    remedy = "apt-get install build-essential"
    checks.append(_tool("compiler", compiler, "no C compiler is on PATH", remedy))
    checks.append(_tool("ninja", shutil.which("ninja"), "ninja is not on PATH", "apt-get install ninja-build"))
    if python is not None:
        version = f"{python.version[0]}.{python.version[1]}"
        done = programs.run([python.path, "-I", "-c", _HEADERS], dict(os.environ), timeout_s=30)
        found = "headers" if done.out.strip() == "True" else None
        checks.append(_tool("python_headers", found, "Python.h is missing", f"apt-get install python{version}-dev"))
    nvcc = shutil.which("nvcc") or next(iter(sorted(glob.glob("/usr/local/cuda*/bin/nvcc"), reverse=True)), None)
    if cuda is not None:
        remedy = f"Install cuda-nvcc of CUDA {cuda} (NVIDIA's repository)."
        release = _nvcc_release(nvcc) if nvcc else None
        if release and numbers(release)[:1] != numbers(cuda)[:1]:
            checks.append(Check("nvcc", "fail", f"{nvcc} is of CUDA {release}, and torch of {cuda}.", remedy))
        else:
            checks.append(_tool("nvcc", nvcc, "nvcc is neither on PATH nor below /usr/local/cuda", remedy))
    return checks


def _tool(name: str, found: str | None, missing: str, remedy: str) -> Check:
    return Check(name, "ok", f"{found} is there.") if found else Check(name, "fail", missing + ".", remedy)


def _nvcc_release(path: str) -> str | None:
    done = programs.run([path, "--version"], dict(os.environ), timeout_s=30)
    found = re.search(r"release (\d+\.\d+)", done.out)
    return found[1] if found else None


def failed(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.status == "fail"]
