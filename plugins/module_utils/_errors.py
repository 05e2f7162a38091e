# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The one exception of the core. The edge turns it into ``fail_json``."""

from __future__ import annotations

from typing import Any


class LlmHostError(Exception):
    """Something that the caller must be told.

    ``reason`` is a short word from the list that the module documents,
    ``message`` one sentence that names the input and the cure,
    ``details`` plain data (JSON types) that is returned beside them.
    """

    def __init__(self, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.details = details

    def as_result(self) -> dict[str, Any]:
        """What a module hands to ``fail_json``: ``msg``, ``reason`` and the details."""
        return {**self.details, "msg": self.message, "reason": self.reason}
