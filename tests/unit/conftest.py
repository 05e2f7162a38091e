# SPDX-License-Identifier: GPL-3.0-or-later
"""For every way to run these tests: pytest alone and ansible-test, which imports test files in a way of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

# ansible-test does not put the folder of a test file on the path; what tests share lies beside them.
sys.path[:0] = sorted({str(path.parent) for path in Path(__file__).parent.rglob("test_*.py")})

# A loaded machine is no fault of the code, and a test leaves nothing in the tree.
settings.register_profile("llmhost", deadline=None, database=None)
settings.load_profile("llmhost")

# Filters run on a controller, which no older Python is; the rest of that folder is the core's.
collect_ignore = ["doctor/test_doctor_page.py"] if sys.version_info < (3, 11) else []
