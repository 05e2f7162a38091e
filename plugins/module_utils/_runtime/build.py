# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Building one runtime: an empty environment, what goes into it, the proof that it works, and last its marker."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from . import locks, programs, proof
from .layout import Layout, Runtime, write_text
from .preflight import Gpus, Python
from .versions import driver_minimum, numbers

SIGN = "llmhost-proof:"
PROOF_S = 900.0
REPORTS = (22, 2)  # the pip that can say what it installed
KERNELS = ("sgl-kernel", "sglang-kernel")


@dataclass(frozen=True)
class Recipe:
    """All that a build is made of."""

    version: str
    sha256: str
    requirements: tuple[str, ...]
    lock_file: str
    lock: locks.Lock | None
    record: bool
    wheelhouse: str
    index_url: str
    extra_args: tuple[str, ...]
    imports: tuple[str, ...]
    installer: str  # uv, pip, or auto
    uv: str | None
    timeout_s: float
    environment: dict[str, str] = field(default_factory=dict)


class Build:
    def __init__(self, layout: Layout, recipe: Recipe, runtime: Runtime, python: Python, handle: int) -> None:
        self.layout = layout
        self.recipe = recipe
        self.runtime = runtime
        self.python = python
        self.handle = handle
        self.uv = recipe.uv
        self.hashes: dict[str, list[str]] = {}
        work = os.path.join(layout.root, ".cache")
        self.environment = {
            **recipe.environment,
            "TMPDIR": os.path.join(layout.root, ".tmp"),
            "PIP_CACHE_DIR": os.path.join(work, "pip"),
            "UV_CACHE_DIR": os.path.join(work, "uv"),
            "UV_NO_PROGRESS": "1",
            "PIP_NO_INPUT": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }

    # ------------------------------------------------------------ steps
    def run(self, gpus: Gpus) -> dict[str, Any]:
        """All of it. What an interrupted build left is not trusted and goes first."""
        path = self.runtime.path
        began = time.monotonic()
        for folder in (path, self.environment["TMPDIR"]):
            shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(self.environment["TMPDIR"], mode=0o700)
        try:
            self._environment()
            self._install()
        finally:
            shutil.rmtree(self.environment["TMPDIR"], ignore_errors=True)
        found = prove(path, self.recipe.imports, self.recipe.environment)
        problems = judge(found, self.recipe, gpus)
        if problems:
            shutil.rmtree(os.path.join(self.layout.root, ".cache"), ignore_errors=True)  # not to be taken again
            raise LlmHostError(
                problems[0][0],
                f"{path} was built and does not pass: {'; '.join(text for _reason, text in problems)}. It is not used.",
                problems=[{"reason": reason, "message": text} for reason, text in problems],
                runtime=self.runtime.name,
            )
        lock_sha256 = self._record(found["packages"])
        marker = {
            "sglang_version": self.recipe.version,
            "recipe_sha256": self.recipe.sha256,
            "lock_sha256": lock_sha256,
            "python": found["python"],
            "torch_cuda": found["torch_cuda"],
            "packages": len(found["packages"]),
            "installer": "uv" if self._by_uv() else "pip",
            "finished_at": round(time.time(), 3),
            "seconds": round(time.monotonic() - began, 1),
        }
        self.layout.finish(self.runtime.name, marker)
        return marker

    def _by_uv(self) -> bool:
        return self.recipe.installer != "pip" and self.uv is not None

    def _environment(self) -> None:
        if self.recipe.installer == "uv" and self.uv is None:
            self.uv = self._fetch_uv()
        if self._by_uv():
            command = [str(self.uv), "venv", "--quiet", "--python", self.python.path, self.runtime.path]
        else:
            command = [self.python.path, "-I", "-m", "venv", self.runtime.path]
        done = self._run(command, 600.0)
        programs.must(done, "environment_failed", f"making {self.runtime.path}", "On Debian it needs python3-venv.")

    def _fetch_uv(self) -> str:
        """uv in an environment of its own, from where everything else comes from."""
        tools = os.path.join(self.layout.root, ".tools")
        path = os.path.join(tools, "bin/uv")
        if os.access(path, os.X_OK):
            return path
        shutil.rmtree(tools, ignore_errors=True)
        done = self._run([self.python.path, "-I", "-m", "venv", tools], 600.0)
        programs.must(done, "environment_failed", f"making {tools}", "On Debian it needs python3-venv.")
        done = self._run([f"{tools}/bin/python", "-m", "pip", "install", "-q", *self._source(), "uv"], 600.0)
        programs.must(done, "install_failed", "installing uv", "Install it by other means, or use installer=pip.")
        return path

    def _source(self) -> list[str]:
        if self.recipe.wheelhouse:
            return ["--no-index", "--find-links", self.recipe.wheelhouse]
        return ["--index-url", self.recipe.index_url] if self.recipe.index_url else []

    def _install(self) -> None:
        recipe, python = self.recipe, os.path.join(self.runtime.path, "bin/python")
        if self._by_uv():
            command = [str(self.uv), "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
        else:
            command = [python, "-m", "pip", "install", "--quiet", "--progress-bar", "off"]
        command += self._source() + list(recipe.extra_args)
        if recipe.lock is not None:
            command += ["--no-deps", *(["--require-hashes"] if recipe.lock.hashed else []), "-r", recipe.lock_file]
        else:
            command += list(recipe.requirements)
        report = os.path.join(self.environment["TMPDIR"], "report.json")
        if recipe.record and not self._by_uv() and self._pip_version(python) >= REPORTS:
            command += ["--report", report]
        done = self._run(command, recipe.timeout_s)
        reason = "no_space" if "No space left on device" in done.err + done.out else "install_failed"
        cure = (
            "Free some space: what was begun goes with the next run."
            if reason == "no_space"
            else "Correct what it says."
        )
        programs.must(done, reason, f"installing SGLang {recipe.version}", cure)
        if recipe.record:
            self.hashes = self._hashes_of_uv(python) if self._by_uv() else _hashes_of_pip(report)

    def _pip_version(self, python: str) -> tuple[int, ...]:
        found = re.match(r"pip (\d+)\.(\d+)", self._run([python, "-m", "pip", "--version"], 60.0).out)
        return tuple(int(part) for part in found.groups()) if found else ()

    def _hashes_of_uv(self, python: str) -> dict[str, list[str]]:
        """uv cannot say what it installed, but what its source has of each package; from its cache, so at once."""
        frozen = os.path.join(self.environment["TMPDIR"], "frozen.txt")
        write_text(frozen, self._run([str(self.uv), "pip", "freeze", "--quiet", "--python", python], 60.0).out)
        command = [str(self.uv), "pip", "compile", "--quiet", "--no-deps", "--format", "pylock.toml"]
        command += ["--generate-hashes", "--python", python, *self._source(), *self.recipe.extra_args, frozen]
        done = self._run(command, 600.0)
        return locks.hashes_of_pylock(done.out) if done.code == 0 else {}  # an older uv: a lock without hashes

    def _run(self, command: Sequence[str], timeout_s: float) -> programs.Done:
        return programs.run(command, self.environment, timeout_s, (self.handle,))

    def _record(self, packages: Mapping[str, str]) -> str | None:
        if not self.recipe.record:
            return sha256_of(self.recipe.lock_file) if self.recipe.lock is not None else None
        text = locks.render(packages, self.hashes)
        try:
            os.makedirs(os.path.dirname(self.recipe.lock_file), exist_ok=True)
            write_text(self.recipe.lock_file, text)
        except OSError as error:
            raise LlmHostError(
                "lock_not_written", f"lock_file {self.recipe.lock_file} cannot be written: {error.strerror}"
            ) from None
        return sha256_of(self.recipe.lock_file)


def _hashes_of_pip(report: str) -> dict[str, list[str]]:
    try:
        with open(report, encoding="utf-8") as text:
            return locks.hashes_of_report(text.read())
    except (OSError, ValueError, KeyError):  # an older pip: a lock without hashes
        return {}


def sha256_of(path: str) -> str:
    with open(path, "rb") as content:
        return hashlib.sha256(content.read()).hexdigest()


def prove(path: str, imports: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """What the runtime's own Python says of itself."""
    command = [os.path.join(path, "bin/python"), "-I", "-c", inspect.getsource(proof), *imports]
    done = programs.run(command, environment, PROOF_S)
    for line in done.out.splitlines():
        if line.startswith(SIGN):
            found = json.loads(line[len(SIGN) :])
            return dict(found)
    how = f"was killed by signal {-done.code}" if done.code < 0 else f"ended with {done.code}"
    raise LlmHostError("proof_failed", f"{path}: importing {', '.join(imports)} {how}: {done.last_words}")


def judge(found: Mapping[str, Any], recipe: Recipe, gpus: Gpus) -> list[tuple[str, str]]:
    """What speaks against a runtime, as (reason, sentence)."""
    problems = []
    packages: Mapping[str, str] = found["packages"]
    version = packages.get("sglang", "")
    if version.split("+")[0] != recipe.version:
        text = (
            f"sglang {version or 'none'} is installed, {recipe.version} was asked for: correct the lock or the version"
        )
        problems.append(("wrong_version", text))
    for name, error in found["imports"].items():
        if error:
            problems.append(("import_failed", f"{name} does not import ({error})"))
    if recipe.lock is not None:
        wrong = locks.differences(recipe.lock, packages)
        if wrong:
            problems.append(("lock_mismatch", f"{len(wrong)} packages differ from the lock: {', '.join(wrong[:5])}"))
    return problems + _of_cuda(found, packages, gpus)


def _of_cuda(found: Mapping[str, Any], packages: Mapping[str, str], gpus: Gpus) -> list[tuple[str, str]]:
    cuda = found["torch_cuda"]
    if not cuda:  # a build for the CPU: it has neither kernels nor a driver
        return []
    problems = []
    both = [name for name in KERNELS if name in packages]
    if len(both) > 1:
        problems.append(("kernel_mismatch", f"{' and '.join(both)} are both installed and overwrite each other"))
    for name, wanted in found["kernel_wanted"]:
        have = packages.get(name)
        if have is None or have.split("+")[0] != wanted:
            problems.append(("kernel_mismatch", f"{name} {have or 'is missing'} where this sglang needs {wanted}"))
    least = driver_minimum(str(cuda))
    if gpus.driver and least and numbers(gpus.driver) < numbers(least):
        text = f"torch is built for CUDA {cuda}, which needs driver {least}, and {gpus.driver} is loaded"
        problems.append(("driver_too_old", text))
    if gpus.nodes and found["device_count"] == 0:
        text = f"torch sees none of the {gpus.nodes} GPUs here ({found.get('device_error') or 'it says no more'})"
        problems.append(("no_devices", text))
    return problems


def find_uv(environment: Mapping[str, str], root: str) -> str | None:
    places = [os.path.join(root, ".tools/bin/uv")]
    home = environment.get("HOME") or os.path.expanduser("~")
    places += [os.path.join(home, ".local/bin/uv"), "/usr/local/bin/uv", "/usr/bin/uv"]
    found = shutil.which("uv", path=environment.get("PATH"))
    return next((path for path in [*([found] if found else []), *places] if os.access(path, os.X_OK)), None)
