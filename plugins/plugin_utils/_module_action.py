# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What the action plugins share that follow a module while it works and show how far it is."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase


class ModuleAction(ActionBase):
    """Calls ``module``, once where nobody reads what is shown. ``own`` is the parameter between it and its plugin."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = True
    _requires_connection = True
    module = ""
    own = ""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result = super().run(tmp, task_vars)
        if result.get("skipped"):
            return result
        arguments = {key: value for key, value in self._task.args.items() if key != self.own}
        if self._task.async_val and not self._connection.has_native_async:
            return {**result, **self._call(arguments, task_vars, wrap_async=self._task.async_val)}
        return {**result, **self._followed(arguments, task_vars)}

    def _call(self, arguments: dict[str, Any], task_vars: dict[str, Any], **more: Any) -> dict[str, Any]:
        copied = dict(arguments)  # Ansible puts its own into them
        return dict(self._execute_module(module_name=self.module, module_args=copied, task_vars=task_vars, **more))

    def _followed(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _shows(self, arguments: dict[str, Any]) -> bool:
        return bool(boolean(arguments.get("progress", True), strict=False)) and not self._task.no_log
