#!/usr/bin/python
# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lxc_config
short_description: The configuration of one container on a Proxmox VE node
version_added: 0.1.0
description:
  - Reconciles GPU devices, folders of the node, features, limits and raw C(lxc.*) keys of one container, and leaves
    every other line of its configuration as it is.
  - It runs on the node that has the container, as root. Plain keys go through C(pct set). Raw keys, which C(pct)
    cannot set, are written into the file before its first section, under Proxmox's own lock and in one step.
  - A container that does not exist is created with C(pct create) where O(create) says how. One that was destroyed
    and made again is brought to the same state.
  - A running container is restarted only with O(allow_restart).
extends_documentation_fragment:
  - llmhost.sglang.attributes
  - llmhost.sglang.attributes.actiongroup_sglang
attributes:
  check_mode:
    support: full
    details:
      - What an earlier task of the same run would have made (the driver, a folder) is told in RV(notes) where it is
        missing.
  diff_mode:
    support: full
    details:
      - It shows what the next start of the container finds, as C(pct config) prints it.
  idempotent:
    support: full
  platform:
    support: full
    platforms: linux
options:
  vmid:
    description: Number of the container.
    type: int
    required: true
  state:
    description:
      - V(present) changes the configuration.
      - V(started) starts the container as well if it does not run.
    type: str
    choices: [present, started]
    default: present
  gpus:
    description:
      - GPUs that the container gets, by UUID, PCI address or minor number (the C(N) of C(/dev/nvidiaN)); V(all) for
        every one of the node.
      - The C(devN) entries are found by their path. Those of GPUs that are not named are removed; entries of
        anything else stay.
      - With a GPU come C(/dev/nvidiactl), C(/dev/nvidia-uvm), C(/dev/nvidia-uvm-tools) where there is one, and the
        C(/dev/nvidia-caps) of its MIG slices.
      - An empty list takes all GPUs away. Without this option devices stay as they are.
    type: list
    elements: str
  device_mode:
    description: Mode of the device files in the container, four digits. Everybody in it may use the GPUs with
      V(0666).
    type: str
    default: '0666'
  device_gid:
    description: Group (by number) of the device files in the container. Without it they keep the group that they
      have.
    type: int
  mounts:
    description:
      - Folders of the node in the container. They are found by O(mounts[].target), so a changed source is a change
        and no second mount.
    type: list
    elements: dict
    default: []
    suboptions:
      source:
        description: Folder of the node. It must exist, and no part of it may be a symbolic link.
        type: path
      target:
        description: Where the container sees it.
        type: path
        required: true
      read_only:
        description: Whether the container may only read. An unprivileged container needs no more than that for
          weights.
        type: bool
        default: false
      backup:
        description: Whether C(vzdump) shall include it. It never includes folders of the node.
        type: bool
        default: false
      options:
        description: Further properties of the entry, such as C(idmap) or C(shared), by their names.
        type: dict
        default: {}
      state:
        description: V(absent) removes the entry for this target.
        type: str
        choices: [present, absent]
        default: present
  features:
    description:
      - Features to set, such as C(nesting) with the value 1, which systemd in the container needs. A value of 0
        takes one away; those that are not named stay.
    type: dict
    default: {}
  memory:
    description:
      - Memory in MiB. From 16 GiB on Proxmox slows a container down 128 MiB before this limit, so leave room for the
        file cache.
    type: int
  swap:
    description: Swap in MiB.
    type: int
  cores:
    description: Number of cores. Proxmox picks which ones. O(cpuset_cpus) says it exactly.
    type: int
  cpuset_cpus:
    description: The node's cores for this container, such as V(0-15). Empty removes the setting.
    type: str
  cpuset_mems:
    description: The node's memory nodes (NUMA) for this container, such as V(0). Empty removes the setting.
    type: str
  timezone:
    description: V(host), or the name of a time zone. With another one than the node's, times in logs differ by hours.
    type: str
  onboot:
    description: Whether the container starts with the node.
    type: bool
  startup:
    description: When it starts, as in V(order=3,up=30).
    type: str
  settings:
    description:
      - Further plain keys of the configuration, as C(pct set) takes them. V(null) deletes one.
      - Values are compared as text, so write them as C(pct config) shows them.
    type: dict
    default: {}
  lxc:
    description:
      - Raw C(lxc.*) keys with a value or a list of values, such as C(lxc.prlimit.memlock) with V(unlimited).
      - A key that may stand several times (C(lxc.mount.entry), C(lxc.environment), ...) gets the lines that it
        lacks. Any other has these values and no others. V(null) removes all lines of a key.
      - They take effect at the next start.
    type: dict
    default: {}
  tidy:
    description:
      - Whether the lines of RV(stale) are removed. Without it they are only told.
    type: bool
    default: false
  create:
    description: How to create the container where there is none. One that is there keeps what it was created with.
    type: dict
    suboptions:
      template:
        description: A template of the node such as V(local:vztmpl/debian-13-standard_13.1-2_amd64.tar.zst), or the
          path of a tarball.
        type: str
        required: true
      hostname:
        description: Its name.
        type: str
      unprivileged:
        description: Whether root in the container is nobody on the node. GPUs work so; there is no reason against it.
        type: bool
        default: true
      storage:
        description: Storage for its file system, where O(create.rootfs) does not say it.
        type: str
      rootfs:
        description: Its file system, as in V(local-lvm:32).
        type: str
      net0:
        description: Its first network card, as in V(name=eth0,bridge=vmbr0,ip=dhcp).
        type: str
      nameserver:
        description: Its name server.
        type: str
      ostype:
        description: Its kind of system, where Proxmox does not see that itself.
        type: str
      ssh_public_keys:
        description: A file of the node with the keys that may log in as root.
        type: path
      options:
        description: Further options of C(pct create).
        type: dict
        default: {}
  allow_restart:
    description:
      - Whether a running container is restarted where changes wait for that. Its processes are told to end, and
        killed after O(shutdown_timeout_s).
    type: bool
    default: false
  shutdown_timeout_s:
    description: How long the container may take to stop.
    type: int
    default: 180
  lock_timeout_s:
    description: How long to wait for Proxmox's lock on the configuration.
    type: int
    default: 10
seealso:
  - module: llmhost.sglang.gpu_info
  - plugin: llmhost.sglang.pct
    plugin_type: connection
author:
  - llmhost.sglang contributors (@llmhost)
"""

EXAMPLES = r"""
- name: Give container 129 both GPUs and the models of the node
  llmhost.sglang.lxc_config:
    vmid: 129
    gpus: [all]
    mounts:
      - source: /tank/models
        target: /opt/llmhost/models
        read_only: true
    features:
      nesting: 1
    memory: 65536
    timezone: host
    onboot: true
  delegate_to: pve

- name: One GPU of two, cores of its own processor, locked memory, and nothing of an old guide
  llmhost.sglang.lxc_config:
    vmid: 129
    gpus: [GPU-5b3cf4f4-5f6e-4c0f-9a55-4f9e0d3a1b2c]
    cpuset_cpus: 0-15
    cpuset_mems: "0"
    lxc:
      lxc.prlimit.memlock: unlimited
    tidy: true
    allow_restart: true
  delegate_to: pve

- name: A container that may have been destroyed
  llmhost.sglang.lxc_config:
    vmid: 129
    state: started
    create:
      template: local:vztmpl/debian-13-standard_13.1-2_amd64.tar.zst
      hostname: llm
      rootfs: local-lvm:32
      net0: name=eth0,bridge=vmbr0,ip=dhcp
    gpus: [all]
  delegate_to: pve
"""

RETURN = r"""
vmid:
  description: Number of the container.
  returned: success
  type: int
  sample: 129
created:
  description: Whether it was created, or in check mode would be.
  returned: success
  type: bool
  sample: false
running:
  description: Whether it runs now.
  returned: success
  type: bool
  sample: true
restarted:
  description: Whether it was restarted, or in check mode would be.
  returned: success
  type: bool
  sample: false
restart_needed:
  description: Whether changes wait for its next start, those of earlier runs and of other people included.
  returned: success
  type: bool
  sample: true
pending:
  description: What Proxmox keeps for the next start, as C(key) and C(value); the value is V(none) where the key goes.
  returned: success
  type: list
  elements: dict
  sample: [{key: dev0, value: "/dev/nvidia0,mode=0666"}]
config:
  description: The plain keys as the next start finds them.
  returned: success
  type: dict
  sample: {cores: "16", dev0: "/dev/nvidia0,mode=0666", features: nesting=1}
lxc:
  description: The raw keys with their values, in their order.
  returned: success
  type: list
  elements: list
  sample: [[lxc.prlimit.memlock, unlimited]]
gpus:
  description: The GPUs that O(gpus) named.
  returned: success
  type: list
  elements: dict
  sample: [{uuid: GPU-5b3cf4f4-5f6e-4c0f-9a55-4f9e0d3a1b2c, pci_bus_id: "0000:01:00.0", minor: 0, path: /dev/nvidia0}]
stale:
  description:
    - Lines without effect, or with a wrong one, each with its C(line), C(number), C(id) and C(why).
    - C(id) is V(cgroup_v1), V(repeated), V(overruled), V(marker), V(replaced) or V(old_major). O(tidy) removes them.
  returned: success
  type: list
  elements: dict
  sample: [{line: "lxc.cgroup.devices.allow: c 195:* rwm", number: 9, id: cgroup_v1,
      why: "a key of cgroup v1, which LXC ignores: pass devices by devN"}]
actions:
  description: What was done, or in check mode would be, in this order.
  returned: success
  type: list
  elements: str
  sample: ["set dev0 dev1 memory", edit, restart]
notes:
  description: What a person should know, such as a folder that the container cannot write to.
  returned: success
  type: list
  elements: str
  sample: []
reason:
  description:
    - Why the module failed.
    - V(not_a_node), this host is no Proxmox node; V(pct_missing), it has no C(pct); V(not_root) and V(root_only),
      root has to do it; V(permission_denied).
    - V(container_missing), no such container; V(container_elsewhere), it is on RV(node); V(virtual_machine), the
      number is a virtual machine's; V(container_template), a template; V(container_application), made of an OCI
      image.
    - V(container_locked), Proxmox works on it (RV(lock)); V(lock_timeout), somebody holds its configuration;
      V(config_changed), somebody keeps changing it; V(no_quorum), the cluster lost its quorum; V(ha_managed), high
      availability decides whether it runs.
    - V(gpu_missing), O(gpus) names none of RV(gpus); V(device_missing) and V(device_invalid), a device file of the
      node.
    - V(mount_source_missing), V(mount_source_link), V(mount_conflict), a folder that cannot be mounted so.
    - V(template_missing), V(vmid_taken), V(start_failed), V(stop_timeout), V(container_stopped), V(already_running),
      V(container_died), V(protected), V(pct_timeout), creation, start or stop did not work.
    - V(invalid_argument), a parameter that cannot be meant (RV(option)); V(invalid_parameter) and
      V(keep_env_unknown), one that C(pct) does not take.
    - V(pct_failed), C(pct) failed with words that are not known (RV(stderr)); V(copy_failed), V(ha_requested),
      others of its messages; V(write_failed), the file could not be written.
  returned: failure
  type: str
  sample: container_elsewhere
node:
  description: The node that has the number.
  returned: failure, with reason V(container_elsewhere) or V(virtual_machine)
  type: str
  sample: pve2
lock:
  description: Why Proxmox locked the container.
  returned: failure, with reason V(container_locked)
  type: str
  sample: backup
option:
  description: The parameter that is wrong.
  returned: failure, with reason V(invalid_argument)
  type: str
  sample: mounts
device:
  description: The device file that is missing or is none.
  returned: failure, with reason V(device_missing) or V(device_invalid)
  type: str
  sample: /dev/nvidia-uvm
source:
  description: The folder that cannot be mounted.
  returned: failure, with reason V(mount_source_missing) or V(mount_source_link)
  type: str
  sample: /tank/models
target:
  description: The place that is taken.
  returned: failure, with reason V(mount_conflict)
  type: str
  sample: /opt/llmhost/models
template:
  description: The tarball that is missing.
  returned: failure, with reason V(template_missing)
  type: str
  sample: /srv/debian-13.tar.zst
file:
  description: The file that could not be written.
  returned: failure, with reason V(write_failed)
  type: str
  sample: /etc/pve/lxc/129.conf
command:
  description: The command that failed.
  returned: failure, when a command of the node failed
  type: list
  elements: str
  sample: [pct, set, "129", --memory, "65536"]
rc:
  description: Its exit code, which says nothing with C(pct).
  returned: failure, when a command of the node failed
  type: int
  sample: 255
stderr:
  description: What it wrote.
  returned: failure, when a command of the node failed
  type: str
  sample: CT is locked (backup)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import run

ARGUMENT_SPEC = {
    "vmid": {"type": "int", "required": True},
    "state": {"type": "str", "choices": ["present", "started"], "default": "present"},
    "gpus": {"type": "list", "elements": "str"},
    "device_mode": {"type": "str", "default": "0666"},
    "device_gid": {"type": "int"},
    "mounts": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "source": {"type": "path"},
            "target": {"type": "path", "required": True},
            "read_only": {"type": "bool", "default": False},
            "backup": {"type": "bool", "default": False},
            "options": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
    },
    "features": {"type": "dict", "default": {}},
    "memory": {"type": "int"},
    "swap": {"type": "int"},
    "cores": {"type": "int"},
    "cpuset_cpus": {"type": "str"},
    "cpuset_mems": {"type": "str"},
    "timezone": {"type": "str"},
    "onboot": {"type": "bool"},
    "startup": {"type": "str"},
    "settings": {"type": "dict", "default": {}},
    "lxc": {"type": "dict", "default": {}},
    "tidy": {"type": "bool", "default": False},
    "create": {
        "type": "dict",
        "options": {
            "template": {"type": "str", "required": True},
            "hostname": {"type": "str"},
            "unprivileged": {"type": "bool", "default": True},
            "storage": {"type": "str"},
            "rootfs": {"type": "str"},
            "net0": {"type": "str"},
            "nameserver": {"type": "str"},
            "ostype": {"type": "str"},
            "ssh_public_keys": {"type": "path", "no_log": False},
            "options": {"type": "dict", "default": {}},
        },
    },
    "allow_restart": {"type": "bool", "default": False},
    "shutdown_timeout_s": {"type": "int", "default": 180},
    "lock_timeout_s": {"type": "int", "default": 10},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = run.run(module.params, module.check_mode)
    except LlmHostError as error:
        module.fail_json(**error.as_result())
    if not module._diff:
        result.pop("diff")
    for line in result["stale"]:
        if not module.params["tidy"]:
            module.warn(f"container {result['vmid']}, line {line['number']} ({line['line']}): {line['why']}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
