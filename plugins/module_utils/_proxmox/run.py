# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The module ``lxc_config`` without Ansible: look, plan, do, and say what is left to do."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._errors import LlmHostError
from . import container, devices, reconcile
from .node import NO_QUORUM, Container, Node, require
from .reconcile import Mount, Plan, Wanted

TRIES = 3
# What `pct set` gives a running container at once, everywhere. The rest waits for a start, or may.
HOT = {
    "cores",
    "cpulimit",
    "cpuunits",
    "description",
    "hookscript",
    "memory",
    "onboot",
    "protection",
    "startup",
    "swap",
}
HOT |= {"tags", "hostname"}
MARKERS = "/run/llmhost"


def wanted_from(params: Mapping[str, Any]) -> Wanted:
    """The module's parameters but for its GPUs, which are found on the node."""
    values: dict[str, str | None] = {key: text(value) for key, value in (params.get("settings") or {}).items()}
    for key in ("memory", "swap", "cores", "timezone", "startup"):
        if params.get(key) is not None:
            values[key] = str(params[key])
    if params.get("onboot") is not None:
        values["onboot"] = "1" if params["onboot"] else "0"
    lxc: dict[str, tuple[str, ...] | None] = {}
    for key, value in (params.get("lxc") or {}).items():
        many = value if isinstance(value, list) else [value]
        lxc[key] = None if value is None else tuple(str(text(one)) for one in many)
    for option, key in (("cpuset_cpus", "lxc.cgroup2.cpuset.cpus"), ("cpuset_mems", "lxc.cgroup2.cpuset.mems")):
        if params.get(option) is not None:
            lxc[key] = (params[option],) if params[option] else None
    mounts = tuple(
        Mount(
            source=item.get("source") or "",
            target=os.path.normpath(item["target"]) if item["target"] else "",
            read_only=bool(item.get("read_only")),
            backup=bool(item.get("backup")),
            options={key: str(text(value)) for key, value in (item.get("options") or {}).items()},
            present=item.get("state") != "absent",
        )
        for item in params.get("mounts") or []
    )
    wanted = Wanted(
        device_mode=params.get("device_mode") or "0666",
        device_gid=params.get("device_gid"),
        mounts=mounts,
        features={key: str(text(value)) for key, value in (params.get("features") or {}).items()},
        values=values,
        lxc=lxc,
        tidy=bool(params.get("tidy")),
    )
    for mount in mounts:
        if mount.present and not mount.source:
            raise LlmHostError(
                "invalid_argument", f"mounts: {mount.target} has no source, a folder of the node", option="mounts"
            )
    reconcile.check(wanted)
    return wanted


def text(value: Any) -> str | None:
    """A value as Proxmox writes it: a boolean is 1 or 0."""
    if value is None:
        return None
    return str(int(value)) if isinstance(value, bool) else str(value)


def _words(todo: Plan) -> str:
    return "set " + " ".join([*sorted(todo.set), *("-" + key for key in sorted(todo.delete))])


class Work:
    """One run of the module on one container."""

    def __init__(self, params: Mapping[str, Any], check_mode: bool, node: Node) -> None:
        self.params = params
        self.check_mode = check_mode
        self.node = node
        self.vmid = str(params["vmid"])
        self.wanted = wanted_from(params)
        self.notes: list[str] = []
        self.actions: list[str] = []
        self.chosen: list[devices.Card] = []

    # -- what is there ------------------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        if not self.node.is_proxmox():
            raise LlmHostError(
                "not_a_node",
                "there is no /etc/pve on this host: run this on the Proxmox node that has the container "
                "(hosts or delegate_to), not in the container",
            )
        where = self.node.place(self.vmid)
        created = False
        if where.reason() == "container_missing" and self.params.get("create"):
            created = True
            self._gpus()
            if self.check_mode:
                return self._not_there_yet()
            self._create(self.params["create"])
        elif where.reason():
            raise LlmHostError(str(where.reason()), where.sentence(), vmid=int(self.vmid), node=where.node or None)
        found = self.node.look(self.vmid)
        require(self.node, found)
        if not created:
            self._gpus()
        self._mounts(found)
        before = "" if created else reconcile.listing(found.config)
        todo = self._plan(found)
        stale, misplaced = todo.stale, todo.misplaced
        for line in misplaced:
            self.notes.append(
                f"{line}: it stands in a snapshot and has no effect, as lines appended to the end of the file do; "
                "what is wanted was put before the first section"
            )
        if self.check_mode:
            self.actions += [_words(todo)] if todo.set or todo.delete else []
            self.actions += ["edit"] if todo.raw else []
            settled = reconcile.after(reconcile.effective(found.config), todo, self.wanted)
            after = reconcile.listing(settled)
            values, raw = settled.current.values, settled.current.lxc
            waits = found.running and (bool(self._pending(found)) or self._waits(todo) or bool(self._marker(found)))
            restarted = waits and bool(self.params.get("allow_restart"))
            pending = self._pending(found)
        else:
            if not todo.empty:
                found = self._apply(found)
            waits = found.running and (bool(self._pending(found)) or bool(self._marker(found)))
            restarted = waits and bool(self.params.get("allow_restart"))
            if restarted:
                self._restart(found)
                found = self.node.look(self.vmid)
            after = reconcile.listing(found.config)
            values, raw = found.config.after_start, found.config.current.lxc
            pending = self._pending(found)
        if restarted and self.check_mode:
            self._refuse_ha(found, "restarted")
            self.actions.append("restart")
        started = self._start(found)
        return {
            "changed": bool(self.actions),
            "vmid": int(self.vmid),
            "created": created,
            "running": started or found.running,
            "restarted": restarted,
            "restart_needed": waits and not restarted,
            "pending": [] if restarted else pending,
            "config": dict(sorted(values.items())),
            "lxc": [list(pair) for pair in raw],
            "gpus": [card.as_dict() for card in self.chosen],
            "stale": [one.as_dict() for one in stale],
            "actions": self.actions,
            "notes": self.notes,
            "diff": {"before": before, "after": after, "before_header": self._header(), "after_header": self._header()},
        }

    def _header(self) -> str:
        return f"/etc/pve/lxc/{self.vmid}.conf"

    def _gpus(self) -> None:
        names = self.params.get("gpus")
        if names is None:
            return
        try:
            self.chosen = devices.choose(devices.cards(self.node), names) if names else []
            self.wanted = replace(self.wanted, devices=tuple(devices.paths(self.node, self.chosen)))
        except LlmHostError as error:
            if not self.check_mode:
                raise
            self.notes.append(f"its GPUs are not looked at, because the driver is not ready yet: {error.message}")

    def _mounts(self, found: Container) -> None:
        for mount in self.wanted.mounts:
            if not mount.present:
                continue
            path = self.node.root + mount.source
            real = os.path.realpath(path)
            if not os.path.exists(path):
                if self.check_mode:
                    self.notes.append(f"mounts: {mount.source} is not on the node yet")
                    continue
                raise LlmHostError(
                    "mount_source_missing",
                    f"mounts: there is no {mount.source} on the node: create it first, or the container does not start",
                    source=mount.source,
                )
            if real != os.path.realpath(self.node.root or "/").rstrip("/") + os.path.normpath(mount.source):
                raise LlmHostError(
                    "mount_source_link",
                    f"mounts: {mount.source} goes through a symbolic link, which Proxmox refuses: name {real}",
                    source=mount.source,
                )
            owner = os.stat(path).st_uid
            if found.unprivileged and not mount.read_only and owner < 100000 and "idmap" not in mount.options:
                self.notes.append(
                    f"mounts: {mount.source} belongs to uid {owner} of the node, which an unprivileged container sees "
                    "as nobody (65534) and cannot write as: chown it to 100000 + the uid in the container, give "
                    "options.idmap (Proxmox VE 9), or mount it read_only"
                )

    def _plan(self, found: Container) -> Plan:
        return reconcile.plan(found.config, self.wanted, devices.majors(self.node))

    # -- what is done -------------------------------------------------------------------------------------------

    def _apply(self, found: Container) -> Container:
        todo = self._plan(found)
        for attempt in range(TRIES):
            if not (todo.set or todo.delete):
                break
            try:
                self.node.pct("set", self.vmid, *todo.arguments(), "--digest", found.digest, vmid=self.vmid)
                self.actions.append(_words(todo))
                break
            except LlmHostError as error:
                if error.reason != "config_changed" or attempt == TRIES - 1:
                    raise
            found = self.node.look(self.vmid)  # somebody wrote it between our look and our write: plan anew
            require(self.node, found)
            todo = self._plan(found)
        with self.node.locked(self.vmid, float(self.params.get("lock_timeout_s") or 10)):
            text_now = self.node.read(self.vmid)
            config = container.parse(text_now)
            todo = reconcile.plan(config, self.wanted, devices.majors(self.node))
            edited = reconcile.edit(config, self.wanted, todo.stale)
            if edited != config:
                self.node.replace(self.vmid, edited.render())
                self.actions.append("edit")
                if found.running and edited.current.lxc != config.current.lxc:
                    self._mark(found)
        return self.node.look(self.vmid)

    def _create(self, create: Mapping[str, Any]) -> None:
        template = create["template"]
        if template.startswith("/") and not os.path.exists(self.node.root + template):
            raise LlmHostError(
                "template_missing", f"create.template: there is no {template} on the node", template=template
            )
        if not self.node.quorate():
            raise LlmHostError("no_quorum", NO_QUORUM, vmid=int(self.vmid))
        options = {
            key: text(create.get(key)) for key in ("hostname", "storage", "rootfs", "ostype", "net0", "nameserver")
        }
        options["ssh-public-keys"] = create.get("ssh_public_keys")
        options["unprivileged"] = text(create.get("unprivileged", True))
        options.update({key: text(value) for key, value in (create.get("options") or {}).items()})
        if self.wanted.features:  # of a new container in one go: most features cannot be given to a running one
            options.setdefault("features", container.property_text(dict(self.wanted.features)))
        words = [word for key, value in options.items() if value is not None for word in (f"--{key}", value)]
        self.node.pct("create", self.vmid, template, *words, vmid=self.vmid)
        self.actions.append("create")

    def _restart(self, found: Container) -> None:
        self._refuse_ha(found, "restarted")
        timeout = str(self.params.get("shutdown_timeout_s") or 180)
        self.node.pct("shutdown", self.vmid, "--timeout", timeout, "--forceStop", "1", vmid=self.vmid)
        self.node.pct("start", self.vmid, vmid=self.vmid)
        self.actions.append("restart")

    def _start(self, found: Container) -> bool:
        if self.params.get("state") != "started" or found.running:
            return False
        self._refuse_ha(found, "started")
        self.actions.append("start")
        if not self.check_mode:
            self.node.pct("start", self.vmid, vmid=self.vmid)
        return True

    def _refuse_ha(self, found: Container, what: str) -> None:
        if found.ha:
            raise LlmHostError(
                "ha_managed",
                f"container {self.vmid} has to be {what}, and high availability decides about that: "
                f"use ha-manager (ha-manager set ct:{self.vmid} --state started), or take it out of it for this run",
                vmid=int(self.vmid),
            )

    # -- what waits ---------------------------------------------------------------------------------------------

    def _waits(self, todo: Plan) -> bool:
        return todo.raw or bool(todo.delete) or any(key not in HOT for key in todo.set)

    def _pending(self, found: Container) -> list[dict[str, Any]]:
        config = found.config
        return [
            *({"key": key, "value": value} for key, value in sorted(config.pending.items())),
            *({"key": key, "value": None} for key in sorted(config.pending_delete)),
        ]

    def _marker_path(self) -> str:
        return f"{self.node.root}{MARKERS}/lxc-{self.vmid}.json"

    def _mark(self, found: Container) -> None:
        """Remember that this run of the container began with other raw keys; the next one has another name."""
        started = self.node.start_of(self.vmid)
        os.makedirs(os.path.dirname(self._marker_path()), mode=0o755, exist_ok=True)
        with open(self._marker_path(), "w", encoding="utf-8") as handle:
            json.dump({"start": started}, handle)

    def _marker(self, found: Container) -> bool:
        try:
            with open(self._marker_path(), encoding="utf-8") as handle:
                known = json.load(handle).get("start")
        except (OSError, ValueError, AttributeError):
            return False
        return found.running and known == self.node.start_of(self.vmid)

    def _not_there_yet(self) -> dict[str, Any]:
        """A dry run before the container's creation."""
        empty = container.parse("")
        todo = reconcile.plan(empty, self.wanted, {})
        settled = reconcile.after(empty, todo, self.wanted)
        self.actions.append("create")
        started = self.params.get("state") == "started"
        if started:
            self.actions.append("start")
        return {
            "changed": True,
            "vmid": int(self.vmid),
            "created": True,
            "running": started,
            "restarted": False,
            "restart_needed": False,
            "pending": [],
            "config": dict(sorted(settled.current.values.items())),
            "lxc": [list(pair) for pair in settled.current.lxc],
            "gpus": [card.as_dict() for card in self.chosen],
            "stale": [],
            "actions": self.actions,
            "notes": [*self.notes, f"container {self.vmid} is not there yet: it would be created"],
            "diff": {
                "before": "",
                "after": reconcile.listing(settled),
                "before_header": self._header(),
                "after_header": self._header(),
            },
        }


def run(params: Mapping[str, Any], check_mode: bool, node: Node | None = None) -> dict[str, Any]:
    if not re.match(r"[1-9][0-9]{2,8}\Z", str(params["vmid"])):
        raise LlmHostError(
            "invalid_argument", f"vmid: Proxmox has numbers from 100 to 999999999, not {params['vmid']}", option="vmid"
        )
    return Work(params, check_mode, node or Node()).run()
