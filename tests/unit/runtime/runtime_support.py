# SPDX-License-Identifier: GPL-3.0-or-later
"""Wishes as the module makes them, over the lab's tiny wheels."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lab/lablib"))

import lab_tiny  # noqa: E402
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError  # noqa: E402
from ansible_collections.llmhost.sglang.plugins.module_utils._runtime import layout, runtime  # noqa: E402

Recipe = lab_tiny.Recipe
NEW, OLD = "0.5.23", "0.5.18"
# uv makes an environment in a tenth of a second, pip in many; one test builds with pip
UV = os.environ.get("UV") or shutil.which("uv")
ENVIRONMENT = {
    **os.environ,
    "PATH": os.pathsep.join([os.path.dirname(UV or "/usr/bin/uv"), os.environ.get("PATH", "")]),
}
DEFAULTS: dict[str, Any] = {
    "state": "current",
    "version": NEW,
    "runtime": None,
    "broken": False,
    "requirements": [],
    "lock": "require",
    "lock_file": "",
    "wheelhouse": "",
    "index_url": "",
    "proxy": "",
    "extra_args": [],
    "installer": "auto",
    "python": "auto",
    "imports": ["sglang", "torch"],
    "gpus": "none",
    "toolchain": False,
    "need_gib": 0.0,
    "reserve_gib": 0.0,
    "keep": 2,
    "spare": [],
    "prune": True,
    "cache_folders": [],
    "timeout_s": 300.0,
    "lock_timeout_s": 60.0,
}
__all__ = ["ENVIRONMENT", "LlmHostError", "layout", "runtime"]


class World:
    """A root of its own with a wheelhouse."""

    def __init__(self, top: pathlib.Path, *recipes: Recipe) -> None:
        self.top = top
        self.root, self.link, self.house = top / "opt/runtimes", top / "opt/runtime", top / "wheels"
        lab_tiny.make(self.house, recipes or (Recipe(OLD), Recipe(NEW)))

    def params(self, version: str = NEW, **given: Any) -> dict[str, Any]:
        places = {"root": str(self.root), "link": str(self.link), "python": sys.executable}
        if "index_url" not in given:
            places["wheelhouse"] = str(self.house)
            if given.get("lock") != "record" and "requirements" not in given:
                places["lock_file"] = str(self.house / f"lock-{version}.txt")
        return {**DEFAULTS, **places, "version": version, **given}

    def run(self, version: str = NEW, check_mode: bool = False, environment: Any = None, **given: Any) -> Any:
        wish = runtime.read(self.params(version, **given), environment or ENVIRONMENT, check_mode)
        return runtime.run(wish)

    def fails(self, version: str = NEW, **given: Any) -> LlmHostError:
        try:
            result = self.run(version, **given)
        except LlmHostError as error:
            return error
        raise AssertionError(f"it did not fail: {result}")

    @property
    def layout(self) -> layout.Layout:
        return layout.Layout(str(self.root), str(self.link))

    def fake(self, name: str, finished_at: float) -> pathlib.Path:
        """A finished runtime in no time."""
        folder = self.root / name
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").symlink_to(sys.executable)
        (folder / "big").write_bytes(b"x" * 100_000)
        layout.write_json(
            str(folder / layout.MARKER), {"sglang_version": name.partition("-")[0], "finished_at": finished_at}
        )
        return folder
