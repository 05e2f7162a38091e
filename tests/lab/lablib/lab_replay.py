# SPDX-License-Identifier: GPL-3.0-or-later
"""`lab replay-runtime DIR`: a folder that looks like a runtime's venv, with the replayer where SGLang would be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lab_common import HERE, LabError, make_folder, put_owner

REPLAY = HERE / "replay"
VERSION = "0.5.23+replay"


def runtime(folder: Path, python: str = "3.11", interpreter: str = "/usr/bin/python3") -> None:
    """Standard library only, so it needs no pip and can be made anywhere for any container."""
    if folder.exists() and any(folder.iterdir()) and not (folder / ".llmhost-replay").exists():
        raise LabError(f"{folder} is not empty and not a replayer's: give a new folder")
    if folder.is_dir():
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    make_folder(folder.absolute())
    site = folder / "lib" / f"python{python}" / "site-packages"
    shutil.copytree(REPLAY / "runtime" / "sglang", site / "sglang", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPLAY / "recordings", site / "sglang" / "recordings")
    (folder / "bin").mkdir()
    for name in ("python", "python3", f"python{python}"):
        (folder / "bin" / name).symlink_to(interpreter if name == "python" else "python")
    (folder / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(interpreter)}\ninclude-system-site-packages = false\nversion = {python}\n"
    )
    info = site / f"sglang-{VERSION}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: sglang\nVersion: {VERSION}\n"
        "Summary: REPLAYER of the llmhost.sglang test lab: plays recorded starts, runs no model\n"
    )
    (info / "INSTALLER").write_text("llmhost-lab\n")
    files = sorted(path.relative_to(site) for path in site.rglob("*") if path.is_file())
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files) + f"{info.name}/RECORD,,\n")
    (folder / ".llmhost-replay").touch()
    put_owner(folder)
    print(
        f"{folder}: plays {len(list((REPLAY / 'recordings').glob('*.tsv')))} recorded starts; LLMHOST_REPLAY names one"
    )
