# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of ansible.builtin.ssh, taken from the ansible-core that runs: each version has its own."""

from __future__ import annotations

import json
from typing import Any

from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.connection import ssh

# Ours run without a terminal, and no file goes through sftp, scp or dd.
LEFT_OUT = {
    "use_tty",
    "scp_executable",
    "scp_extra_args",
    "sftp_batch_mode",
    "sftp_executable",
    "sftp_extra_args",
    "ssh_transfer_method",
}
OWN_WORDS = {
    "host": "Name or address of the Proxmox node.",
    "port": "Port of the node's sshd.",
    "remote_user": "User on the node; another one than root needs O(pct_command). In the container all begins as root.",
    "pipelining": "Whether modules are sent through the command's input. It saves most of the time of a task.",
}


def _without_versions(value: Any) -> Any:
    """ansible-core's version numbers would be read as this collection's."""
    if isinstance(value, dict):
        return {key: _without_versions(item) for key, item in value.items() if not key.startswith("version_added")}
    if isinstance(value, list):
        return [_without_versions(item) for item in value]
    return value


def _options() -> dict[str, Any]:
    found = yaml_load(ssh.DOCUMENTATION)["options"]
    options = {name: _without_versions(option) for name, option in found.items() if name not in LEFT_OUT}
    for name, words in OWN_WORDS.items():
        options[name]["description"] = [words]
    options["pipelining"].update(type="bool", default=True)
    return options


# Annotated, or yamllint of ansible-test takes it for a literal.
class ModuleDocFragment:
    DOCUMENTATION: str = json.dumps({"options": _options()})
