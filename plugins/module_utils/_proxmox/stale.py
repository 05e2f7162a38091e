# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Lines of a configuration that have no effect, or a wrong one: what old guides and other tools leave behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import container

NVIDIA_MAJOR = 195
_ALLOW = re.compile(r"c\s+(\d+):\S+\s+\w+\Z")
_NODE = re.compile(r"/dev/nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset|-caps)\b")
_MARKER = re.compile(r"#\s*(?:BEGIN|END) ANSIBLE MANAGED BLOCK")
# The kernel gives numbers that nobody asked for by name from these.
_DYNAMIC = (range(234, 255), range(384, 512))


@dataclass(frozen=True)
class World:
    """What a rule may ask: the file, the numbers of devices that exist now, whether GPUs are ours to manage."""

    config: container.Config
    majors: Mapping[int, str]
    manages_gpus: bool


@dataclass(frozen=True)
class Rule:
    """One kind of stale line. ``source`` tells where it was seen."""

    id: str
    why: str
    applies: Callable[[container.Line, World], bool]
    example: str
    source: str


@dataclass(frozen=True)
class Stale:
    line: container.Line
    rule: Rule

    def as_dict(self) -> dict[str, object]:
        return {"line": self.line.text, "number": self.line.number, "id": self.rule.id, "why": self.rule.why}


def _v1(line: container.Line, world: World) -> bool:
    return line.key.startswith("lxc.cgroup.")


def _repeated(line: container.Line, world: World) -> bool:
    if line.kind != "lxc" or _v1(line, world):
        return False
    same = [one for one in world.config.current.lines if one.key == line.key and one.value == line.value]
    return same[0] is not line


def _overruled(line: container.Line, world: World) -> bool:
    if line.kind != "plain":
        return False
    same = [one for one in world.config.current.lines if one.kind == "plain" and one.key == line.key]
    return same[-1] is not line


def _marker(line: container.Line, world: World) -> bool:
    return line.kind == "comment" and bool(_MARKER.match(line.text))


def _allow(line: container.Line) -> int | None:
    match = _ALLOW.match(line.value) if line.key == "lxc.cgroup2.devices.allow" else None
    return int(match.group(1)) if match else None


def _gpu_lines(line: container.Line, world: World) -> bool:
    if not world.manages_gpus or _repeated(line, world):
        return False
    if line.key == "lxc.mount.entry":
        return bool(_NODE.match(line.value))
    major = _allow(line)
    return major is not None and (major == NVIDIA_MAJOR or world.majors.get(major, "").startswith("nvidia"))


def _old_major(line: container.Line, world: World) -> bool:
    major = _allow(line)
    if major is None or not world.manages_gpus or not world.majors or _repeated(line, world):
        return False
    return major not in world.majors and any(major in numbers for numbers in _DYNAMIC)


RULES: tuple[Rule, ...] = (
    Rule(
        "cgroup_v1",
        "a key of cgroup v1, which LXC ignores: pass devices by devN",
        _v1,
        "lxc.cgroup.devices.allow: c 195:* rwm",
        "c44",
    ),
    Rule(
        "repeated",
        "the same line stands before it",
        _repeated,
        "lxc.prlimit.memlock: unlimited",
        "Proxmox moves comments away, so a block between two markers is inserted again at each run",
    ),
    Rule(
        "overruled",
        "the same key stands behind it, and the last one counts",
        _overruled,
        "memory: 512",
        "pve-container",
    ),
    Rule(
        "marker",
        "a marker of ansible.builtin.blockinfile: Proxmox moves comments to the top, so it marks nothing",
        _marker,
        "# BEGIN ANSIBLE MANAGED BLOCK",
        "pve-container writes comments as the description",
    ),
    Rule(
        "replaced",
        "devN entries do this now: they follow the device's number and owner, and a start fails where one is missing",
        _gpu_lines,
        "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file",
        "c08, c14",
    ),
    Rule(
        "old_major",
        "no device of the node has this number any more: it changes with the kernel and the driver",
        _old_major,
        "lxc.cgroup2.devices.allow: c 509:* rwm",
        "c04",
    ),
)


def find(config: container.Config, majors: Mapping[int, str], manages_gpus: bool) -> list[Stale]:
    """Every stale line before the first section, each with the first rule that it meets."""
    world = World(config, majors, manages_gpus)
    found = []
    for line in config.current.lines:
        for rule in RULES:
            if rule.applies(line, world):
                found.append(Stale(line, rule))
                break
    return found


def misplaced(config: container.Config) -> list[str]:
    """GPU lines that stand in a snapshot and not before it: appended to the end of a file, they have no effect."""

    def is_gpu(line: container.Line) -> bool:
        return bool(_NODE.match(line.value)) or _allow(line) == NVIDIA_MAJOR

    if any(is_gpu(line) for line in config.current.entries):
        return []
    sections = config.snapshots[-1:]
    return [f"[{section.name}] {line.text}" for section in sections for line in section.entries if is_gpu(line)]
