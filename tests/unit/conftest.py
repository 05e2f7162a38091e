# SPDX-License-Identifier: GPL-3.0-or-later
"""For every way to run these tests: pytest alone and ansible-test, which imports test files in a way of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

# ansible-test does not put the folder of a test file on the path; what tests share lies beside them as *_support.py.
sys.path[:0] = sorted({str(path.parent) for path in Path(__file__).parent.rglob("*_support.py")})

# A loaded machine is no fault of the code, and a test leaves nothing in the tree.
settings.register_profile("llmhost", deadline=None, database=None)
settings.load_profile("llmhost")
