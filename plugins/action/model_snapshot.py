# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of ``model_snapshot``: calls it again and again, and tells after each call how far it is."""

from __future__ import annotations

import time
from typing import Any

from ansible.utils.display import Display
from ansible_collections.llmhost.sglang.plugins.plugin_utils._module_action import ModuleAction

display = Display()

SHORTEST_S, LONGEST_S = 20.0, 120.0
SHARE = 8  # of the time that it took so far: so the lines grow fewer, and what a call costs does not count
MIB, GIB = 1 << 20, 1 << 30


def slice_s(elapsed_s: float) -> float:
    return min(LONGEST_S, max(SHORTEST_S, elapsed_s / SHARE))


def told(answer: dict[str, Any], seconds: float, elapsed_s: float) -> str:
    """How far it is, how fast the last call was, and how long it takes at this speed."""
    came, total = int(answer["came_bytes"]), int(answer["all_bytes"])
    rate = int(answer["moved_bytes"]) / max(seconds, 0.1)
    unit, name = (GIB, "GiB") if max(came, total) >= GIB else (MIB, "MiB")
    text = "%.1f %s" % (came / unit, name)
    if total:
        text = "%.1f of %.1f %s (%d %%)" % (came / unit, total / unit, name, 100 * came // total)
    text += ", %.1f MiB/s, %d s so far" % (rate / MIB, round(elapsed_s))
    return text + (", about %d s left" % round((total - came) / rate) if total > came and rate else "")


class ActionModule(ModuleAction):
    module = "llmhost.sglang.model_snapshot"
    own = "slice_s"

    def _followed(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        return self._in_slices(arguments, task_vars) if self._shows(arguments) else self._call(arguments, task_vars)

    def _in_slices(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        host, path = str(task_vars.get("inventory_hostname", "?")), str(arguments.get("path", ""))
        limit_s = self._number(arguments.get("timeout_s"))
        began = time.monotonic()
        moved, retried = 0, []
        while True:
            asked = time.monotonic()
            more = {"slice_s": slice_s(asked - began)}
            if limit_s:
                more["timeout_s"] = max(1.0, limit_s - (asked - began))
            answer = self._call({**arguments, **more}, task_vars)
            moved += int(answer.get("moved_bytes") or 0)
            retried += answer.get("retried") or []
            now = time.monotonic()
            if not answer.get("unfinished"):
                break
            display.display("[%s] %s: %s" % (host, path, told(answer, now - asked, now - began)), stderr=True)
        if "moved_bytes" in answer:  # those of all calls
            sums = {"moved_bytes": moved, "moved_gib": round(moved / GIB, 3), "retried": retried}
            answer.update(sums, seconds=round(now - began, 1))
        return answer

    @staticmethod
    def _number(value: Any) -> float:
        try:
            return float(value or 0)
        except (TypeError, ValueError):  # the module says what is wrong with it
            return 0.0
