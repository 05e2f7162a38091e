# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the simulated driver, once for the same sources: lab, unit tests and benchmarks share the result."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent


def built(cache: Path) -> Path:
    """The folder with lib/, bin/ and early-r535/ below ``cache``; its name is the hash of the sources.

    It appears whole or not at all, whoever else builds it at the same moment. Raises ``RuntimeError`` with the cure.
    """
    sources = sorted(path for path in SOURCE.iterdir() if path.is_file() and path.suffix != ".md")
    content = b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources)
    place = cache / hashlib.sha256(os.uname().machine.encode() + content).hexdigest()[:12]
    if place.is_dir():
        return place
    compiler = next((name for name in ("cc", "gcc") if shutil.which(name)), None)
    if compiler is None or shutil.which("make") is None:
        raise RuntimeError("the simulated driver cannot be built: make or gcc is missing (see 'lab packages')")
    cache.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".new-{place.name}-", dir=cache))
    try:
        command = ["make", "-s", "-C", str(SOURCE), f"OUT={new}", f"CC={compiler}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the simulated driver cannot be built: {done.stderr.strip()[-2000:]}")
        new.chmod(0o755)
        try:
            new.rename(place)
        except OSError:  # another was faster
            if not place.is_dir():
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return place
