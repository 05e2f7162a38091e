# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The waits of one run for the ranks of one server: each tells the others on the controller that its rank failed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

GRACE_S = 20.0  # so long a rank may still tell what the failure of another did to it
GOOD = ("ready", "skipped")


class Ranks:
    """``folder`` lives as long as the run. Without a word in common (``together``) nothing is told or heard."""

    def __init__(self, folder: str, together: str, host: str) -> None:
        key = hashlib.sha256(together.encode()).hexdigest()[:16]
        self.folder = os.path.join(folder, "llmhost-ranks-" + key) if together else ""
        self.own = hashlib.sha256(host.encode()).hexdigest()[:16]
        self.since: float | None = None

    def tell(self, result: Mapping[str, Any]) -> None:
        """What became of this rank; only a failure is of interest."""
        if not self.folder or (result.get("outcome") in GOOD and not result.get("failed")):
            return
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        with open(os.path.join(self.folder, self.own), "w", encoding="utf-8"):
            pass

    def lost(self, now: float) -> bool:
        """Whether another rank has failed, and this one has had its time since."""
        if not self.folder:
            return False
        if self.since is None:
            try:
                others = [name for name in os.listdir(self.folder) if name != self.own]
            except FileNotFoundError:
                return False
            if not others:
                return False
            self.since = now
        return now - self.since >= GRACE_S
