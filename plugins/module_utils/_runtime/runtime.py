# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The states of a host's runtime: checked, present, current."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from . import build, locks, preflight, programs, prune, versions
from .build import Build, Recipe
from .layout import LOCK, Layout, Runtime
from .preflight import Check, Gpus, Python

POLL_S = 0.5
FATAL_NOT = {"venv"}  # the role installs what is missing for it
GIB = 1 << 30
UNPACKED = 6.0  # a wheel and what it unpacks to, in wheels


@dataclass(frozen=True)
class Wish:
    state: str
    version: str
    root: str
    link: str
    runtime: str | None
    broken: bool
    python: str
    keep: int
    spare: tuple[str, ...]
    prune: bool
    cache_folders: tuple[str, ...]
    gpus: str
    toolchain: bool
    need_gib: float
    reserve_gib: float
    lock_mode: str
    lock_timeout_s: float
    check_mode: bool
    recipe: Recipe


@dataclass
class Seen:
    """What preflight found, and by which Python the build would go."""

    checks: list[Check] = field(default_factory=list)
    python: Python | None = None
    gpus: Gpus = field(default_factory=lambda: Gpus(0, None))

    @property
    def venv_missing(self) -> bool:
        return any(check.id == "venv" and check.status == "fail" for check in self.checks)


def read(params: Mapping[str, Any], environment: Mapping[str, str], check_mode: bool) -> Wish:
    version = params["version"]
    if not versions.numbers(version):
        raise LlmHostError("bad_version", f"version {version!r} is none of SGLang, such as 0.5.23")
    if params["wheelhouse"] and params["index_url"]:
        raise LlmHostError(
            "two_sources", "wheelhouse and index_url are both given: there is one source, drop the other"
        )
    for name in ("root", "link"):
        path = params[name]
        if not path.startswith("/") or os.path.normpath(path) != path or path.count("/") < 2:
            raise LlmHostError("bad_path", f"{name} {path!r} must be absolute, plain, and below a folder of the system")
    requirements = tuple(params["requirements"] or [f"sglang=={version}"])
    lock_file, record = params["lock_file"], params["lock"] == "record"
    if record and not lock_file:
        raise LlmHostError("no_lock_file", "lock=record needs lock_file, where it is written")
    lock = locks.read(lock_file) if lock_file and not record else None
    env = programs.environment(environment, {})
    if params["proxy"]:
        env.update(dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), params["proxy"]))
    recipe = Recipe(
        version=version,
        sha256=_recipe_sha256(lock_file if lock is not None else "", requirements),
        requirements=requirements,
        lock_file=lock_file,
        lock=lock,
        record=record,
        wheelhouse=params["wheelhouse"],
        index_url=params["index_url"],
        extra_args=tuple(params["extra_args"]),
        imports=tuple(params["imports"]),
        installer=params["installer"],
        uv=build.find_uv(env, params["root"]) if params["installer"] != "pip" else None,
        timeout_s=params["timeout_s"],
        environment=env,
    )
    return Wish(
        state=params["state"],
        version=version,
        root=params["root"],
        link=params["link"],
        runtime=params["runtime"],
        broken=params["broken"],
        python=params["python"],
        keep=params["keep"],
        spare=tuple(params["spare"]),
        prune=params["prune"],
        cache_folders=tuple(params["cache_folders"]),
        gpus=params["gpus"],
        toolchain=params["toolchain"],
        need_gib=params["need_gib"],
        reserve_gib=params["reserve_gib"],
        lock_mode=params["lock"],
        lock_timeout_s=params["lock_timeout_s"],
        check_mode=check_mode,
        recipe=recipe,
    )


def _recipe_sha256(lock_file: str, requirements: tuple[str, ...]) -> str:
    """What a runtime is made of, in one word: a changed lock is another runtime."""
    text = build.sha256_of(lock_file) if lock_file else "\n".join(requirements)
    return hashlib.sha256(text.encode()).hexdigest()


def run(wish: Wish) -> dict[str, Any]:
    began = time.monotonic()
    layout = Layout(wish.root, wish.link)
    before = layout.current()
    target = _target(wish, layout)
    result: dict[str, Any] = {
        "runtime": target.name,
        "folder": target.path,
        "version": target.version or wish.version,
        "current_before": before,
        "previous": layout.previous(),
        "ready": target.ready,
        "built": False,
        "switched": False,
        "checks": [],
        "venv_missing": False,
        "pruned": [],
        "freed_gib": 0.0,
        "in_use": [],
        "marker": target.marker,
    }
    seen: Seen | None = None
    if not target.ready:
        seen = _look(wish, layout)
        result.update(checks=[check.as_dict() for check in seen.checks], venv_missing=seen.venv_missing)
        _refuse(wish, seen)
    if wish.state != "checked":
        if wish.check_mode:
            _would(wish, layout, target, result)
        else:
            _make_root(wish.root)
            with _only_one(wish) as handle:
                _do(wish, layout, target, seen, handle, result)
    result["current"] = layout.current() if not (wish.check_mode and result["switched"]) else target.name
    result["previous"] = layout.previous()
    result["runtimes"] = [_about(runtime, result["current"]) for runtime in layout.newest_first()]
    result["changed"] = bool(result["built"] or result["switched"] or result["pruned"])
    result["seconds"] = round(time.monotonic() - began, 1)
    result["diff"] = {
        "before": f"{wish.link} -> {before or 'nothing'}\n",
        "after": f"{wish.link} -> {result['current'] or 'nothing'}\n",
    }
    return result


def _about(runtime: Runtime, current: str | None) -> dict[str, Any]:
    return {
        "name": runtime.name,
        "folder": runtime.path,
        "version": runtime.version,
        "current": runtime.name == current,
        "finished_at": runtime.finished_at,
    }


def _target(wish: Wish, layout: Layout) -> Runtime:
    """The runtime that is asked for: by name, the one before, or by what it is made of."""
    if wish.runtime is not None:
        name = layout.previous() if wish.runtime == "previous" else wish.runtime
        known = ", ".join(runtime.name for runtime in layout.newest_first()) or "none"
        if name is None:
            raise LlmHostError(
                "no_previous", f"{wish.root} holds no earlier runtime to go back to (there are: {known})", known=known
            )
        found = layout.runtime(name)
        if os.path.basename(name) != name or not found.ready:
            raise LlmHostError(
                "not_ready", f"{wish.root}/{name} is no finished runtime (there are: {known})", known=known
            )
        return found
    named = layout.runtime(f"{wish.version}-{wish.recipe.sha256[:8]}")
    if not named.ready and wish.recipe.lock is not None:
        sha256 = build.sha256_of(wish.recipe.lock_file)  # the one that recorded this lock is the one that it describes
        for runtime in layout.all():
            if runtime.ready and runtime.marker and runtime.marker.get("lock_sha256") == sha256:
                return runtime
    return named


# ---------------------------------------------------------------- preflight
def _look(wish: Wish, layout: Layout) -> Seen:
    recipe, row = wish.recipe, versions.needs(wish.version)
    seen = Seen()
    if row is None:
        oldest = versions.TABLE[0].since
        text = f"SGLang {wish.version} is older than {oldest}, the oldest that was looked at"
        seen.checks.append(Check("version", "unknown", text))
    least = row.python if row is not None else (3, 9)
    env = recipe.environment
    seen.python, check = preflight.find_python(wish.python, least, env, recipe.uv, recipe.lock, recipe.wheelhouse)
    seen.checks.append(check)
    by_uv = recipe.installer != "pip" and recipe.uv is not None
    if seen.python is not None and not seen.python.venv and not by_uv:
        version = f"{seen.python.version[0]}.{seen.python.version[1]}"
        text = f"{seen.python.path} cannot make an environment."
        seen.checks.append(Check("venv", "fail", text, f"apt-get install python{version}-venv, or use uv"))
    seen.checks.append(preflight.glibc(row))
    seen.gpus = preflight.look_at_gpus() if wish.gpus != "none" else Gpus(0, None)
    seen.checks += preflight.driver(row, seen.gpus, wish.gpus)
    if recipe.wheelhouse:
        seen.checks.append(preflight.wheelhouse(recipe.wheelhouse, recipe.lock, seen.python))
    else:
        index, alone = preflight.configured_index(env)
        seen.checks.append(preflight.registry(recipe.index_url or index, bool(recipe.index_url) or alone, env))
    seen.checks.append(preflight.disk(wish.root, _needed_gib(wish, row), wish.reserve_gib))
    if wish.toolchain:
        seen.checks += preflight.toolchain(seen.python, row.cuda if row is not None and seen.gpus.driver else None)
    return seen


def _needed_gib(wish: Wish, row: versions.Needs | None) -> float:
    if wish.need_gib:
        return wish.need_gib
    if wish.recipe.wheelhouse:
        with contextlib.suppress(OSError):
            return preflight.wheel_bytes(wish.recipe.wheelhouse, wish.recipe.lock) * UNPACKED / GIB
    return row.disk_gib if row is not None else 10.0


def _refuse(wish: Wish, seen: Seen) -> None:
    bad = preflight.failed(seen.checks)
    if wish.state == "checked" or wish.check_mode:
        bad = [check for check in bad if check.id not in FATAL_NOT]
    if wish.check_mode:  # the role would install these
        bad = [check for check in bad if check.id not in ("compiler", "ninja", "python_headers")]
    if bad:
        text = "; ".join(f"{check.message} {check.remedy or ''}".strip() for check in bad)
        raise LlmHostError(
            "preflight",
            f"SGLang {wish.version} cannot be installed here: {text}",
            checks=[check.as_dict() for check in seen.checks],
            failed_checks=[check.id for check in bad],
        )


# ---------------------------------------------------------------- deeds
def _would(wish: Wish, layout: Layout, target: Runtime, result: dict[str, Any]) -> None:
    result["built"] = not target.ready
    result["switched"] = wish.state == "current" and layout.current() != target.name
    if wish.prune and wish.state == "current" and not result["switched"]:
        waste, busy = prune.find(layout, wish.keep, (*wish.spare, target.name), wish.cache_folders)
        _tell(result, waste, busy)


def _do(wish: Wish, layout: Layout, target: Runtime, seen: Seen | None, handle: int, result: dict[str, Any]) -> None:
    target = layout.runtime(target.name)
    if not target.ready:
        seen = seen or _look(wish, layout)  # another run took it away while we waited
        if seen.python is None:
            raise LlmHostError("preflight", "no Python to build with was found", failed_checks=["python"], checks=[])
        if prune.in_use([target.path]):
            raise LlmHostError(
                "in_use", f"{target.path} lacks its marker and a process or a unit uses it: stop that first"
            )
        result["marker"] = Build(layout, wish.recipe, target, seen.python, handle).run(seen.gpus)
        result["built"] = True
    result["ready"] = True
    if wish.state == "current" and layout.current() != target.name:
        layout.switch(target.name, broken=wish.broken)
        result["switched"] = True
    if wish.prune and (wish.state == "current" or result["built"]):
        keep = wish.keep if wish.state == "current" else max(wish.keep, 1000)
        waste, busy = prune.find(layout, keep, (*wish.spare, target.name), wish.cache_folders)
        _tell(result, prune.remove(waste), busy)


def _tell(result: dict[str, Any], waste: list[prune.Waste], busy: list[str]) -> None:
    result["pruned"] = [item.as_dict() for item in waste]
    result["freed_gib"] = round(sum(item.size for item in waste) / GIB, 3)
    result["in_use"] = busy


def _make_root(root: str) -> None:
    missing = []
    step = root
    while not os.path.isdir(step):
        missing.append(step)
        step = os.path.dirname(step)
    try:
        for step in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(step)
                os.chmod(step, 0o755)
    except OSError as error:
        raise LlmHostError("write_failed", f"{step} cannot be made: {error.strerror}") from None


@contextlib.contextmanager
def _only_one(wish: Wish) -> Iterator[int]:
    """One run at a time. pip holds the lock as well, so that one which outlives its module keeps the next away."""
    path = os.path.join(wish.root, LOCK)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise LlmHostError("write_failed", f"{path} cannot be made: {error.strerror}: run as root (become)") from None
    try:
        deadline = time.monotonic() + wish.lock_timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = os.pread(handle, 4096, 0).decode("utf-8", "replace").strip() or "unknown"
                    raise LlmHostError(
                        "locked",
                        f"another run works on {wish.root} ({holder}): wait for it to end, or raise lock_timeout_s",
                        holder=holder,
                    ) from None
                time.sleep(POLL_S)
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "version": wish.version}).encode(), 0)
        yield handle
    finally:
        os.close(handle)
