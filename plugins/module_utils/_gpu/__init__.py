# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""GPUs: what they are, who uses them, and their release."""

from __future__ import annotations
