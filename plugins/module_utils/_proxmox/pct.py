# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What ``pct`` says, as reasons.

Its exit codes tell nothing (a Perl ``die`` leaves the last errno, or 255, which is ssh's own as well; ``pct push`` even
ends with 0), so its words decide. They are English whatever the locale is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """One message: its reason, how to know it, what it means and what to do. ``{vmid}`` and ``{0}`` (first group)."""

    reason: str
    pattern: str
    meaning: str
    cure: str
    example: str
    stream: str = "stderr"
    despite_success: bool = False  # said with exit code 0 as well

    def match(self, text: str) -> re.Match[str] | None:
        return re.search(self.pattern, text, re.MULTILINE)


# The order decides where several lines were printed: what caused the others comes first.
TEXTS: tuple[Text, ...] = (
    Text(
        "pct_missing",
        r"^(?:.*: )?(?:\d+: )?(?:\S*/)?pct: (?:not found|command not found|No such file or directory)$",
        "there is no pct on this host",
        "name the Proxmox node that has container {vmid}, not the container itself",
        "sh: 1: /usr/sbin/pct: not found",
    ),
    Text(
        "not_root",
        r"^please run as root$",
        "pct works for root alone",
        "connect to the node as root, or let another user run it through sudo",
        "please run as root",
    ),
    Text(
        "root_only",
        r"is only allowed for root@pam|only root can (?:set|pass|use)",
        "Proxmox allows this to root@pam alone, and an API token of root is somebody else",
        "run it on the node as root",
        "configuring device passthrough is only allowed for root@pam",
    ),
    Text(
        "no_quorum",
        r"cluster not ready - no quorum",
        "the cluster has lost its quorum, so /etc/pve is read-only and nothing starts",
        "bring the missing nodes back (pvecm status)",
        "cluster not ready - no quorum?",
    ),
    Text(
        "container_missing",
        r"^Configuration file '(?:nodes/[^/']+/)?lxc/(\d+)\.conf' does not exist",
        "there is no container {0} on this node",
        "look on the other nodes of the cluster (ls /etc/pve/nodes/*/*/{0}.conf), or create it",
        "Configuration file 'nodes/pve1/lxc/129.conf' does not exist",
    ),
    Text(
        "container_locked",
        r"^(?:CT|VM) is locked \(([\w\-]+)\)",
        "container {vmid} is locked by Proxmox ({0})",
        "wait until that task has ended; 'pct unlock {vmid}' only if no such task runs any more",
        "CT is locked (backup)",
    ),
    Text(
        "lock_timeout",
        r"can't lock file '([^']+)' - got timeout",
        "another pct works on container {vmid} and holds {0}",
        "run it again when that one has ended",
        "can't lock file '/run/lock/lxc/pve-config-129.lock' - got timeout",
    ),
    Text(
        "config_changed",
        r"^detected modified configuration - file changed by other user",
        "the configuration of container {vmid} was changed by somebody else in the same moment",
        "run it again",
        "detected modified configuration - file changed by other user? Try again.",
    ),
    Text(
        "container_template",
        r"^you can't start a CT if it's a template",
        "{vmid} is a template, which never runs",
        "clone it, and use the number of the clone",
        "you can't start a CT if it's a template",
    ),
    Text(
        "device_missing",
        r"^Device (/\S+) does not exist",
        "the node has no {0}",
        "load the driver and make its nodes: nvidia-smi -L; nvidia-modprobe -c 0 -u",
        "Device /dev/nvidia-uvm does not exist",
    ),
    Text(
        "device_invalid",
        r"^/*(/\S+) is not a device",
        "{0} on the node is a plain file and no device",
        "remove that file, load the driver again, and start the container",
        "//dev/dri/renderD128 is not a device",
    ),
    Text(
        "container_stopped",
        r"^(?:container '\d+' not running!|(?:CT|VM) \d+ not running"
        r"|can only (?:push files to|pull files from) a running (?:CT|VM))",
        "container {vmid} is not running",
        "start it: pct start {vmid}",
        "container '129' not running!",
    ),
    Text(
        "container_died",
        r"lxc-attach: .*Failed to (?:get init pid|attach)",
        "container {vmid} ended while it was being entered",
        "look at its state (pct status {vmid}) and at the node's journal (pve-container@{vmid})",
        "lxc-attach: 129: ../src/lxc/attach.c: get_attach_context: 406 Connection refused - Failed to get init pid",
    ),
    Text(
        "already_running",
        r"^CT \d+ already running",
        "container {vmid} runs already",
        "nothing has to be done",
        "CT 129 already running",
    ),
    Text(
        "stop_timeout",
        r"^container did not stop",
        "container {vmid} did not stop in time",
        "see what holds it (pct exec {vmid} -- systemctl list-jobs), or stop it hard: pct stop {vmid}",
        "container did not stop",
    ),
    Text(
        "vmid_taken",
        r"^(?:unable to create CT \d+ - )?(?:CT|VM) \d+ already exists on node '([^']+)'",
        "the number {vmid} is taken on node {0}",
        "choose another number, or use what is there",
        "CT 129 already exists on node 'pve1'",
    ),
    Text(
        "template_missing",
        r"^(?:unable to create CT \d+ - )?volume '([^']+)' does not exist",
        "the node has no template {0}",
        "download it (pveam download), or name a tarball that is there",
        "volume 'local:vztmpl/debian-13-standard_13.1-2_amd64.tar.zst' does not exist",
    ),
    Text(
        "protected",
        r"protection mode enabled",
        "container {vmid} is protected against removal",
        "take the protection away first: pct set {vmid} --protection 0",
        "can't remove CT 129 - protection mode enabled",
    ),
    Text(
        "keep_env_unknown",
        r"^Unknown option: keep-env",
        "this pct does not know --keep-env, which came with Proxmox VE 8.1",
        "upgrade the node, or reach the container by ssh",
        "Unknown option: keep-env",
    ),
    Text(
        "invalid_parameter",
        r"^400 (?:Parameter verification failed|unable to parse option|not enough arguments|too many arguments)",
        "pct does not take this option or value",
        "its message names the field",
        "400 Parameter verification failed.\nmemory: type check ('integer') failed - got 'lots'",
    ),
    Text(
        "start_failed",
        r"^startup for container '(\d+)' failed",
        "container {0} did not start",
        "pct start {0} --debug on the node shows LXC's own log",
        "startup for container '129' failed",
    ),
    Text(
        "copy_failed",
        r"^failed to (?:open .* for reading|open .*: |create file: )",
        "pct push or pull copied nothing, and ended with 0 all the same",
        "its message names the file",
        "failed to create file: /none/x: No such file or directory",
        despite_success=True,
    ),
    Text(
        "ha_requested",
        r"^Requesting HA (?:start|stop) for CT (\d+)",
        "container {0} belongs to high availability: the request is noted, and nothing has happened yet",
        "wait until its state is the wanted one (ha-manager status)",
        "Requesting HA start for CT 129",
        stream="stdout",
        despite_success=True,
    ),
)

REASONS = tuple(text.reason for text in TEXTS)


@dataclass(frozen=True)
class Said:
    """A message that was found, with its parts."""

    text: Text
    groups: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        return self.text.reason

    def sentence(self, vmid: str | int = "") -> str:
        """What it means and what to do."""
        whole = f"{self.text.meaning}: {self.text.cure}"
        return whole.format(*self.groups, vmid=vmid)


def find(rc: int, stdout: str, stderr: str, texts: Sequence[Text] = TEXTS) -> Said | None:
    """The first message of pct itself; ``None`` where it said nothing of its own, whatever the command's code is."""
    for text in texts:
        if rc or text.despite_success:
            found = text.match((stdout if text.stream == "stdout" else stderr).replace("\r\n", "\n"))
            if found:
                return Said(text, tuple(group or "" for group in found.groups()))
    return None


def classify(rc: int, stdout: str, stderr: str) -> str | None:
    """The reason of a failed ``pct`` by its words, one of ``REASONS``; ``None`` where the words are not pct's own."""
    said = find(rc, stdout, stderr)
    return said.reason if said else None
