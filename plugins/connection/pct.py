# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Proxmox container, entered from its node: OpenSSH to the node, ``pct exec`` from there."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pct
short_description: A Proxmox VE container, entered from its node
version_added: 0.1.0
description:
  - Reaches a container that has no sshd. OpenSSH goes to the Proxmox node, C(pct exec) from there into the container.
  - It takes the options of P(ansible.builtin.ssh#connection), and its connection to the node stays open between tasks
    as that of P(ansible.builtin.ssh#connection) does. Modules are pipelined.
  - Standard output and standard error stay apart, and a command's exit code arrives as it is, 255 included.
  - Files go through the command's input and output, and their SHA-256 is compared at the end. C(pct push) is not used,
    because it ends with 0 where it failed.
  - A container that is stopped, missing, a virtual machine, or on another node makes the host unreachable with that
    sentence.
author:
  - llmhost.sglang contributors (@llmhost)
extends_documentation_fragment:
  - llmhost.sglang.ssh_transport
options:
  vmid:
    description: Number of the container.
    type: int
    required: true
    vars:
      - name: llmhost_vmid
      - name: proxmox_vmid
      - name: ansible_pct_vmid
  pct_command:
    description:
      - C(pct) on the node, and what has to be put before it.
      - A user who is not root needs V(sudo -n /usr/sbin/pct), and a rule in the node's sudoers that allows it without a
        password. That makes this user as strong as root on the node.
    type: str
    default: /usr/sbin/pct
    vars:
      - name: ansible_pct_command
  pct_path:
    description: Where commands are looked for in the container.
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    vars:
      - name: ansible_pct_path
notes:
  - There is never a terminal, so O(ignore:use_tty) has no meaning here.
  - C(become) works inside the container, where everything begins as root. There is no login - no PAM, no user session -
    and the locale is C.UTF-8.
  - Needs Proxmox VE 8.1 or newer on the node, C(sha256sum) and C(/bin/sh) in the container.
  - A process that a task leaves behind holds the connection until it closes its output, as with any C(pct exec). Use a
    unit of systemd.
"""

EXAMPLES = r"""
# An inventory with one container:
#
# llm:
#   ansible_connection: llmhost.sglang.pct
#   ansible_host: pve.example.com
#   ansible_user: root
#   ansible_pct_vmid: 129

- name: Run in the container
  hosts: llm
  tasks:
    - name: See which system it is
      ansible.builtin.command: cat /etc/os-release
      changed_when: false
"""

import hashlib
import os
import secrets
import shlex

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_native, to_text
from ansible.plugins.connection.ssh import Connection as SshConnection
from ansible.utils.display import Display
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import pct, place

display = Display()

FETCH_TRIES = 3
BLOCK = 1 << 20

# 255 is ssh's own code for a lost connection: a command's 255 travels as 254 with a mark at the end of stderr.
ON_THE_NODE = """\
{command}
r=$?
if [ $r -eq 255 ]; then echo {mark} >&2; r=254; fi
exit $r
"""

# The same way in with nothing to do: if that works, pct's words were the command's own. If not: where is it?
LOOK = """\
LC_ALL=C {pct} exec {vmid} --keep-env 0 -- /bin/true </dev/null && exit 0
echo "node $(uname -n)"
for f in /etc/pve/nodes/*/lxc/{vmid}.conf /etc/pve/nodes/*/qemu-server/{vmid}.conf; do
  [ ! -e "$f" ] || echo "file $f"
done
[ ! -e /etc/pve/lxc/{vmid}.conf ] || sed -n -e '/^\\[/q' -e 's/^lock: */lock /p' /etc/pve/lxc/{vmid}.conf
exit 1
"""

PUT = 'cat >"$1" && sha256sum <"$1"'
# As long as it was at the beginning, so that a growing log has a digest; what says 0 (as in /proc) as it comes.
FETCH = (
    'n=$(wc -c <"$1") && if [ "$n" -gt 0 ]; then head -c "$n" <"$1" && head -c "$n" <"$1" | sha256sum >&2; '
    'else cat <"$1"; fi'
)


class Connection(SshConnection):
    """``ansible.builtin.ssh`` to the node, and everything it runs there inside ``pct exec``."""

    transport = "llmhost.sglang.pct"
    has_pipelining = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._for_node = False
        self._mark = "llmhost-255-" + secrets.token_hex(8)

    # -- who we are -----------------------------------------------------------------------------------------------

    def get_option(self, option, hostvars=None):
        # Ansible asks for the user to find a home and to judge become: that is the container's, not the node's.
        if option == "remote_user" and not self._for_node:
            return "root"
        return super().get_option(option, hostvars)

    def _build_command(self, binary, subsystem, *other_args):
        self._for_node = True
        try:
            return super()._build_command(binary, subsystem, *other_args)
        finally:
            self._for_node = False

    # -- commands -------------------------------------------------------------------------------------------------

    def exec_command(self, cmd, in_data=None, sudoable=True):
        prompt = sudoable and bool(getattr(self.become, "prompt", None))
        return self._exec(["/bin/sh", "-c", 'cd "$HOME" 2>/dev/null || cd /\n' + cmd], in_data, sudoable, prompt)

    def _exec(self, argv, in_data=None, sudoable=False, keeps_input=False, wrap=()):
        """Run argv in the container -> (code, stdout, stderr); what is not the command's fault is raised."""
        self.host = self.get_option("host") or self._play_context.remote_addr
        command = "LC_ALL=C %s exec %d --keep-env 0 -- %s" % (
            self.get_option("pct_command"),
            self.get_option("vmid"),
            shlex.join(
                [
                    "/usr/bin/env",
                    "HOME=/root",
                    "USER=root",
                    "LOGNAME=root",
                    "SHELL=/bin/sh",
                    "LANG=C.UTF-8",
                    "PATH=" + self.get_option("pct_path"),
                    *argv,
                ]
            ),
        )
        if not in_data and not keeps_input:
            command += " </dev/null"
        display.vvv("PCT %d: %s" % (self.get_option("vmid"), to_text(argv)), host=self.host)
        code, stdout, stderr = self._on_node(command, in_data, sudoable, wrap)
        if code:
            said = pct.find(code, "", to_text(stderr, errors="surrogate_or_replace"))
            if said:
                self._raise_if_not_reached(said)
        return code, stdout, stderr

    def _on_node(self, command, in_data=None, sudoable=False, wrap=()):
        """A line for /bin/sh of the node. The login shell there may be any that has single quotes."""
        script = ON_THE_NODE.format(command=command, mark=self._mark)
        line = "exec /bin/sh -c " + shlex.quote(script)
        built = self._build_command(self.get_option("ssh_executable"), "ssh", "-T", self.host, line)
        code, stdout, stderr = self._run([*wrap, *built], in_data, sudoable=sudoable)
        mark = to_bytes(self._mark) + b"\n"
        if code == 254 and stderr.endswith(mark):
            code, stderr = 255, stderr[: -len(mark)]
        return code, stdout, stderr

    def _raise_if_not_reached(self, said):
        vmid = self.get_option("vmid")
        code, stdout, stderr = self._on_node(LOOK.format(pct=self.get_option("pct_command"), vmid=vmid))
        if code == 0:
            return  # the container is there: it was the command that printed this
        facts = [line.partition(" ")[::2] for line in to_text(stdout, errors="surrogate_or_replace").splitlines()]
        said = pct.find(code, "", to_text(stderr, errors="surrogate_or_replace")) or said
        sentence = said.sentence(vmid)
        node = "".join(value for key, value in facts if key == "node")
        where = place.place(vmid, node, [value for key, value in facts if key == "file"])
        if said.reason == "container_missing" or (where.node and not where.ours):
            sentence = where.sentence()
        for key, value in facts:
            if key == "lock":
                sentence += "; it is locked by Proxmox (%s), so wait until that task has ended" % value
        raise AnsibleConnectionFailure("%s (node %s)" % (sentence, self.host))

    # -- files ----------------------------------------------------------------------------------------------------

    def put_file(self, in_path, out_path):
        if not os.path.exists(to_bytes(in_path, errors="surrogate_or_strict")):
            raise AnsibleFileNotFound("file or module does not exist: %s" % to_native(in_path))
        display.vvv("PUT %s TO %s" % (in_path, out_path), host=self.host)
        wanted = _sha256(in_path)
        wrap = _redirected("<", in_path)
        code, stdout, stderr = self._exec(["/bin/sh", "-c", PUT, "sh", out_path], keeps_input=True, wrap=wrap)
        found = to_text(stdout, errors="surrogate_or_replace").split(" ")[0]
        if code or found != wanted:
            raise AnsibleError(_failed("put", in_path, out_path, self.get_option("vmid"), code, stderr))
        return code, stdout, stderr

    def fetch_file(self, in_path, out_path):
        display.vvv("FETCH %s TO %s" % (in_path, out_path), host=self.host)
        code, stdout, stderr = -1, b"", b""
        for _attempt in range(FETCH_TRIES):  # a file that is being written has another digest a moment later
            wrap = _redirected(">", out_path)
            code, stdout, stderr = self._exec(["/bin/sh", "-c", FETCH, "sh", in_path], wrap=wrap)
            told = to_text(stderr, errors="surrogate_or_replace").split()
            if code or not told or _sha256(out_path) in told:
                break
        else:
            code = -1
        if code:
            raise AnsibleError(_failed("fetch", in_path, out_path, self.get_option("vmid"), code, stderr))
        return code, stdout, stderr


def _redirected(sign, path):
    """ssh with its input or output in a file, which then need not fit into memory."""
    return [b"/bin/sh", b"-c", to_bytes('exec "$@" %s"$0"' % sign), to_bytes(path, errors="surrogate_or_strict")]


def _sha256(path):
    digest = hashlib.sha256()
    with open(to_bytes(path, errors="surrogate_or_strict"), "rb") as handle:
        while block := handle.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _failed(verb, in_path, out_path, vmid, code, stderr):
    why = to_native(stderr).strip() if code > 0 else "what arrived has another SHA-256 than what was sent"
    return "failed to %s %s as %s (container %d): %s" % (verb, to_native(in_path), to_native(out_path), vmid, why)
