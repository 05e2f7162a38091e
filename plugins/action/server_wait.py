# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of ``server_wait``: shows the phases while the detached watcher works on the target."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display
from ansible_collections.llmhost.sglang.plugins.plugin_utils._module_action import ModuleAction
from ansible_collections.llmhost.sglang.plugins.plugin_utils._ranks import Ranks
from ansible_collections.llmhost.sglang.plugins.plugin_utils._words import PHASE_WORDS

display = Display()

POLL_S = 1.0
LOST_LIMIT = 30  # polls in a row without a readable status before the watcher is given up
SILENT_S = 60.0  # without a new status for so long, the watcher is given up
# Waits on the target, a second at most, for the end of the watch: what it tells must not wait for the next poll.
LOOK = (
    "n=0; while [ $n -lt 10 ]; do { IFS= read -r s <%(path)s; } 2>/dev/null; "
    """case $s in *'"state": "done"'*) break ;; esac; sleep 0.1; n=$((n + 1)); done; cat %(path)s"""
)
LAST_LOOK_S = 5  # for a rank that is given up: long enough to read what it has told so far
HEARTBEAT_S = 30.0  # so long an unchanged phase is shown again, for a job that is ended when it is idle


class Progress:
    """Prints what changed, at most a line a second, with the host's name in it."""

    def __init__(self, host: str, unit: str, enabled: bool) -> None:
        self.host = host
        self.unit = unit
        self.enabled = enabled
        self.phase = ""
        self.phase_seconds = 0.0
        self.shown = ""
        self.shown_at = 0.0

    def say(self, text: str) -> None:
        display.display("[%s] %s: %s" % (self.host, self.unit, text), stderr=True)

    def __call__(self, status: dict[str, Any], now: float) -> None:
        if not self.enabled:
            return
        if status.get("state") == "done":
            cause = " (%s)" % status["cause"] if status.get("cause") else ""
            self.say("%s%s after %d s" % (status.get("outcome"), cause, round(float(status.get("seconds") or 0.0))))
        if status.get("state") != "watching":
            return
        phase, share = str(status.get("phase", "")), str(status.get("bar", ""))
        seconds = float(status.get("phase_seconds") or 0.0)
        if phase != self.phase and self.phase:
            self.say("%s done after %d s" % (PHASE_WORDS.get(self.phase, self.phase), round(self.phase_seconds)))
        text = "%s%s" % (PHASE_WORDS.get(phase, phase), ", " + share if share else "")
        if text != self.shown or now - self.shown_at >= HEARTBEAT_S:
            self.say(
                "%s (%d s in this phase, %d s in all)"
                % (text, round(seconds), round(float(status.get("seconds") or 0.0)))
            )
            self.shown, self.shown_at = text, now
        self.phase, self.phase_seconds = phase, seconds


class ActionModule(ModuleAction):
    """Starts the watcher on the target, shows what it tells, ends with one call for the verdict."""

    module = "llmhost.sglang.server_wait"
    own = "watcher"

    def _followed(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        host = str(task_vars.get("inventory_hostname", "?"))
        ranks = Ranks(str(constants.DEFAULT_LOCAL_TMP), str(arguments.get("together") or ""), host)
        started = self._call({**arguments, "watcher": "start"}, task_vars)
        watcher = started.get("detached")
        if not isinstance(watcher, dict) or started.get("failed"):
            ranks.tell(started)
            return started  # there was nothing to wait for: the verdict is there
        if watcher.get("why_not"):
            display.v("server_wait on %s waits without showing progress: %s" % (host, watcher["why_not"]), host=host)
        elif self._follow(watcher, Progress(host, str(started.get("unit", "")), self._shows(arguments)), ranks):
            arguments = {**arguments, "watcher": watcher["verdict_path"]}
        elif ranks.since is not None:
            display.v("server_wait on %s waits no longer: another rank has failed" % host, host=host)
            arguments = {**arguments, "timeout_s": LAST_LOOK_S}
        else:
            display.v("server_wait on %s lost its watcher and waits by itself" % host, host=host)
        verdict = self._call(arguments, task_vars)
        ranks.tell(verdict)
        return verdict

    def _follow(self, watcher: dict[str, Any], progress: Progress, ranks: Ranks) -> bool:
        """Read the status file about once a second until the verdict is there. False if it will not be waited for."""
        command = LOOK % {"path": shlex.quote(str(watcher["status_path"]))}
        lost, last, last_at = 0, None, time.monotonic()
        while True:
            asked = time.monotonic()
            status = self._status(command)
            now = time.monotonic()
            if status is None:
                lost += 1
                if lost >= LOST_LIMIT:
                    return False
            else:
                lost = 0
                if status.get("state") == "done":
                    progress(status, now)
                    return True
                if status.get("updated") != last:
                    last, last_at = status.get("updated"), now
                elif now - last_at > SILENT_S:
                    return False
                progress(status, now)
            if ranks.lost(now):
                return False
            time.sleep(max(0.0, POLL_S - (time.monotonic() - asked)))

    def _status(self, command: str) -> dict[str, Any] | None:
        try:
            answer = self._low_level_execute_command(command, sudoable=True)
        except AnsibleConnectionFailure:  # the connection may come back, the watcher goes on meanwhile
            return None
        if answer.get("rc") != 0:
            return None
        try:
            found = json.loads(answer.get("stdout") or "")
        except ValueError:
            return None
        return found if isinstance(found, dict) else None
