# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated driver for tests: built once, a state file each, and commands in a PID namespace of their own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "lab" / "nvml"


@functools.lru_cache(maxsize=1)
def built() -> Path:
    """The folder with lib/, bin/ and early-r535/, made once for all runs; without a compiler the test fails."""
    sys.path.insert(0, str(SOURCE))
    import nvml_build

    home = os.environ.get("LLMHOST_CACHE") or os.path.expanduser("~/.cache/llmhost-sglang")
    try:
        return nvml_build.built(Path(home) / "lab" / "nvml")
    except RuntimeError as error:
        pytest.fail(str(error))


class Sim:
    """One state of the driver, and the environment in which programs see it."""

    def __init__(self, folder: Path, variant: str = "lib") -> None:
        self.root = built()
        self.state = folder / "gpu.state"
        self.variant = variant
        self.write("gpu 0")

    def write(self, text: str) -> None:
        fresh = self.state.with_suffix(".new")
        fresh.write_text(text.strip() + "\n")
        os.replace(fresh, self.state)

    def environment(self) -> dict[str, str]:
        keep = {key: value for key, value in os.environ.items() if not key.startswith("LLMHOST_SIM")}
        return {
            **keep,
            "LLMHOST_SIM_STATE": str(self.state),
            "LD_LIBRARY_PATH": str(self.root / self.variant),
            "PATH": f"{self.root / 'bin'}:{os.environ.get('PATH', '')}",
        }

    def run(self, *command: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(command), env=self.environment(), capture_output=True, text=True, timeout=timeout, check=False
        )

    def python(self, code: str, isolated: bool = False, timeout: float = 90.0) -> str:
        """Run Python in this environment, with this collection importable; its output. It must succeed."""
        paths = [path for path in sys.path if path]
        command = [*(alone() if isolated else ()), sys.executable, "-c", code]
        done = subprocess.run(
            command,
            env={**self.environment(), "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


def alone() -> list[str]:
    """The start of a command that runs in its own PID namespace, so that it can signal nobody else; skips without."""
    base = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0:
        base[1:1] = ["--user", "--map-root-user"]
    try:
        done = subprocess.run([*base, "true"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no PID namespaces here: {error}")
    if done.returncode:
        pytest.skip(f"no PID namespaces here: {done.stderr.strip()}")
    return base


def has_nvidia_ml_py() -> bool:
    from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import nvml

    return nvml.refusal() is None
