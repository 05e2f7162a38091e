# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the documentation site, offline: antsibull-docs writes pages, Sphinx makes them HTML; a warning is an error.

Usage: site.py ROOT FOLDER COLLECTIONS_PATH. The site is FOLDER/build/html.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import zlib

COLLECTION = "llmhost.sglang"
# What pages name of Ansible's own documentation. With these names in an inventory made on the spot the links are whole
# and every other reference that leads nowhere still fails the build.
ANSIBLE = "https://docs.ansible.com/projects/ansible/devel/"
LABELS = {
    "ansible_collections.ansible.builtin.ssh_connection": "collections/ansible/builtin/ssh_connection.html",
    "ansible_collections.community.proxmox.proxmox_pct_remote_connection": (
        "collections/community/proxmox/proxmox_pct_remote_connection.html"
    ),
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "common_return_values": "reference_appendices/common_return_values.html",
    "general_precedence_rules": "reference_appendices/general_precedence.html",
    "how_to_define_attributes": "dev_guide/developing_modules_documenting.html",
    "module_defaults_groups": "playbook_guide/playbooks_module_defaults.html",
    "playbooks_vars": "playbook_guide/playbooks_variables.html",
    "validate_argument_spec": "collections/ansible/builtin/validate_argument_spec_module.html",
}
ENVIRONMENT = [
    "ANSIBLE_HOST_KEY_CHECKING",
    "ANSIBLE_PIPELINING",
    "ANSIBLE_PRIVATE_KEY_FILE",
    "ANSIBLE_REMOTE_PORT",
    "ANSIBLE_REMOTE_USER",
    "ANSIBLE_TIMEOUT",
]
CONF = """
project = title = html_short_title = "llmhost.sglang"
copyright = "the llmhost.sglang authors"
intersphinx_mapping = {"ansible": (%r, %r)}
# a page without highlighting is no fault
suppress_warnings = ["misc.highlighting_failure"]
"""


def inventory(path: pathlib.Path) -> None:
    lines = ["%s std:label -1 %s %s" % (name, page, name) for name, page in LABELS.items()]
    lines += ["%s std:envvar -1 reference_appendices/config.html#envvar-%s -" % (name, name) for name in ENVIRONMENT]
    head = "# Sphinx inventory version 2\n# Project: ansible\n# Version: \n# The rest is compressed using zlib.\n"
    path.write_bytes(head.encode() + zlib.compress(("\n".join(lines) + "\n").encode()))


def main(root: str, folder: str, collections: str) -> int:
    home = pathlib.Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    programs = pathlib.Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": "%s:%s" % (programs, os.environ["PATH"]),
        "ANSIBLE_COLLECTIONS_PATH": collections,
        "LC_ALL": "C.UTF-8",
    }
    init = ["antsibull-docs", "sphinx-init", "--use-current", "--squash-hierarchy", "--fail-on-error"]
    subprocess.run([*init, "--dest-dir", folder, COLLECTION], env=env, check=True, stdout=subprocess.DEVNULL)
    inventory(home / "ansible.inv")
    with (home / "conf.py").open("a", encoding="utf-8") as conf:
        conf.write(CONF % (ANSIBLE, str(home / "ansible.inv")))
    done = subprocess.run(["bash", str(home / "build.sh")], env=env, check=False)
    if done.returncode:
        return done.returncode
    guides = sorted((pathlib.Path(root) / "docs/docsite/rst").glob("*.rst"))
    missing = [path.name for path in guides if not (home / "build/html/docsite" / (path.stem + ".html")).exists()]
    if missing:
        print("FAILED: not in the site; add them to docs/docsite/extra-docs.yml: %s" % ", ".join(missing))
        return 1
    print("%s: %d pages" % (home / "build/html/index.html", len(list((home / "build/html").rglob("*.html")))))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
