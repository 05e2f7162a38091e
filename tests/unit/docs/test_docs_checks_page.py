# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the doctor's checks is what the table makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MAKER = ROOT / "script/lib/checks_page.py"


def test_the_page_is_fresh() -> None:
    if not MAKER.exists():  # a copy for ansible-test has no script folder
        return
    done = subprocess.run([sys.executable, "-B", MAKER, ROOT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_seen(tmp_path: Path) -> None:
    if not MAKER.exists():
        return
    (tmp_path / "docs/docsite/rst").mkdir(parents=True)
    (tmp_path / "docs/docsite/rst/checks.rst").write_text("old\n")
    (tmp_path / "plugins").symlink_to(ROOT / "plugins")
    call = [sys.executable, "-B", MAKER, tmp_path]
    assert subprocess.run([*call, "--check"], capture_output=True, check=False).returncode == 1
    assert subprocess.run(call, capture_output=True, check=False).returncode == 0
    assert subprocess.run([*call, "--check"], capture_output=True, check=False).returncode == 0
