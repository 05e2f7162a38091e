# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The doctor: looks at a host, checks of what was seen, each with evidence and remedy."""

from __future__ import annotations
