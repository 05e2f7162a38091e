# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Units. SGLang prints "GB" and means GiB."""

from __future__ import annotations

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
