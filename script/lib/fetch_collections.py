# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the collections of a requirements file out of the "ansible" wheel on PyPI; what is not named there stays out.

Usage: fetch_collections.py PYTHON_WITH_PIP REQUIREMENTS CACHE LINK
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile


def main(pip_python: str, requirements: str, cache: str, link: str) -> None:
    lines = [line.strip() for line in pathlib.Path(requirements).read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    wheel = next(line for line in lines if line.startswith("ansible=="))
    names = sorted(line for line in lines if line != wheel)
    home = pathlib.Path(cache) / hashlib.sha256(" ".join([wheel, *names]).encode()).hexdigest()[:10]
    if not home.exists():
        print(f"downloading {wheel} from PyPI (50 MB) for {', '.join(names)}", flush=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            # it is unpacked, never installed: the Python that it asks for is that of the newest ansible-core
            alone = ["--no-deps", "--ignore-requires-python", "--only-binary=:all:"]
            subprocess.run([pip_python, "-m", "pip", "download", "-q", *alone, "-d", scratch, wheel], check=True)
            with zipfile.ZipFile(next(pathlib.Path(scratch).glob("*.whl"))) as archive:
                prefixes = tuple("ansible_collections/" + name.replace(".", "/") + "/" for name in names)
                members = [member for member in archive.namelist() if member.startswith(prefixes)]
                missing = [prefix for prefix in prefixes if not any(member.startswith(prefix) for member in members)]
                if missing:
                    sys.exit(f"not in {wheel}: {missing}")
                archive.extractall(pathlib.Path(scratch) / "all", members)
            shutil.move(str(pathlib.Path(scratch) / "all"), str(home))
    if os.path.islink(link):
        os.unlink(link)
    os.symlink(home, link)


if __name__ == "__main__":
    main(*sys.argv[1:])
