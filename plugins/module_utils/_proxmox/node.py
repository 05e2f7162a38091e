# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The Proxmox node that we are on: its containers, their locks, the cluster around it, and ``pct``."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from .._errors import LlmHostError
from .._process import identity
from . import container, pct, place

POLL_S = 0.1
PCT_TIMEOUT_S = 600.0
INIT_SYSTEMS = ("/sbin/init", "/lib/systemd/systemd", "/usr/lib/systemd/systemd")

Done = tuple[int, str, str]


def run(command: Sequence[str], timeout_s: float = PCT_TIMEOUT_S) -> Done:
    """A command of the node -> (code, stdout, stderr), in English."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"}
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        return 127, "", f"{command[0]}: command not found"
    except subprocess.TimeoutExpired:
        raise LlmHostError(
            "pct_timeout", f"'{' '.join(command)}' gave no answer within {timeout_s:g} s", command=list(command)
        ) from None
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


@dataclass(frozen=True)
class Container:
    """One container of this node, as its file says it."""

    vmid: str
    text: str
    config: container.Config
    running: bool
    ha: bool

    @property
    def digest(self) -> str:
        """What Proxmox compares to see whether the file was changed meanwhile."""
        return hashlib.sha1(self.text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()

    @property
    def lock(self) -> str:
        return self.config.get("lock") or ""

    @property
    def template(self) -> bool:
        return self.config.get("template") == "1"

    @property
    def application(self) -> bool:
        """Made of an OCI image, with a program in the place of an init system."""
        entry = self.config.get("entrypoint")
        return entry is not None and entry.split(" ")[0] not in INIT_SYSTEMS

    @property
    def unprivileged(self) -> bool:
        return self.config.get("unprivileged") == "1"


class Node:
    """``root`` and ``runner`` are for tests."""

    def __init__(self, root: str = "", runner: Callable[[Sequence[str]], Done] = run) -> None:
        self.root = root
        self._run = runner
        self.proc = root + "/proc"

    @property
    def name(self) -> str:
        return os.uname().nodename.split(".")[0]

    def path(self, vmid: str) -> str:
        return f"{self.root}/etc/pve/lxc/{vmid}.conf"

    # -- the cluster --------------------------------------------------------------------------------------------

    def place(self, vmid: str) -> place.Place:
        folders = f"{self.root}/etc/pve/nodes/*"
        found = glob.glob(f"{folders}/lxc/{vmid}.conf") + glob.glob(f"{folders}/qemu-server/{vmid}.conf")
        if os.path.exists(self.path(vmid)):
            found.append(f"/nodes/{self.name}/lxc/{vmid}.conf")
        return place.place(vmid, self.name, found)

    def is_proxmox(self) -> bool:
        return os.path.isdir(self.root + "/etc/pve")

    def quorate(self) -> bool:
        """Whether /etc/pve can be written; a node that is in no cluster has nobody to ask."""
        try:
            with open(self.root + "/etc/pve/.members", encoding="utf-8") as handle:
                members = json.load(handle)
        except (OSError, ValueError):
            return True
        return bool((members.get("cluster") or {}).get("quorate", 1))

    def ha_managed(self, vmid: str) -> bool:
        try:
            with open(self.root + "/etc/pve/ha/resources.cfg", encoding="utf-8", errors="replace") as handle:
                return any(re.match(rf"ct:\s*{vmid}\s*$", line) for line in handle)
        except OSError:
            return False

    # -- a container --------------------------------------------------------------------------------------------

    def read(self, vmid: str) -> str:
        try:
            with open(self.path(vmid), "rb") as handle:
                return handle.read().decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            where = self.place(vmid)
            raise LlmHostError(where.reason() or "container_missing", where.sentence(), vmid=int(vmid)) from None
        except PermissionError:
            raise LlmHostError(
                "permission_denied", f"{self.path(vmid)} cannot be read: run as root on the node (become)"
            ) from None

    def look(self, vmid: str) -> Container:
        """A container of this node. Raises where VMID is anything else."""
        text = self.read(vmid)
        return Container(vmid, text, container.parse(text), self.running(vmid), self.ha_managed(vmid))

    def running(self, vmid: str) -> bool:
        """Found as Proxmox finds it: LXC's monitor listens on a socket of that name."""
        try:
            with open(self.proc + "/net/unix", encoding="utf-8", errors="replace") as handle:
                return any(line.rstrip().endswith(f"@/var/lib/lxc/{vmid}/command") for line in handle)
        except OSError:
            return False

    def start_of(self, vmid: str) -> str:
        """A name for this very run of a container: the process that is its init, and since when. Empty if unknown."""
        code, stdout, _stderr = self._run(["lxc-info", "-n", vmid, "-pH"])
        if code or not stdout.strip().isdigit():
            return ""
        try:
            return f"{stdout.strip()}:{identity.stat(int(stdout), self.proc).start_time}"
        except (ProcessLookupError, ValueError):
            return ""

    def mode(self, path: str) -> int:
        return os.stat(self.root + path).st_mode

    def call(self, *command: str) -> Done:
        return self._run(list(command))

    # -- pct ----------------------------------------------------------------------------------------------------

    def pct(self, *arguments: str, vmid: str = "") -> str:
        """Run ``pct``; its failure is raised with the reason that its words have."""
        command = ["pct", *arguments]
        code, stdout, stderr = self._run(command)
        said = pct.find(code, stdout, stderr)
        if code or (said and said.reason == "copy_failed"):
            fail(command, code, stderr, said, vmid or (arguments[1] if len(arguments) > 1 else ""))
        return stdout

    @contextlib.contextmanager
    def locked(self, vmid: str, timeout_s: float) -> Iterator[None]:
        """Hold the lock that every ``pct`` takes while it writes a configuration."""
        folder = self.root + "/run/lock/lxc"
        path = f"{folder}/pve-config-{vmid}.lock"
        deadline = time.monotonic() + timeout_s
        try:
            os.makedirs(folder, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LlmHostError(
                "permission_denied", f"{path} cannot be opened: {error.strerror}", vmid=int(vmid)
            ) from None
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise LlmHostError(
                            "lock_timeout",
                            f"another pct works on container {vmid} and holds {path} for {timeout_s:g} s: "
                            "run this again when that one has ended, or raise lock_timeout_s",
                            vmid=int(vmid),
                        ) from None
                    time.sleep(POLL_S)
            yield
        finally:
            os.close(handle)

    def replace(self, vmid: str, text: str) -> None:
        """Put a new file in the place of the old one in one step, under the name that Proxmox uses for that."""
        path = self.path(vmid)
        aside = f"{os.path.realpath(path)}.tmp.{os.getpid()}"
        try:
            with open(aside, "wb") as handle:
                handle.write(text.encode("utf-8", "surrogateescape"))
                with contextlib.suppress(OSError):  # the cluster's file system has its own owners and modes
                    os.fchmod(handle.fileno(), 0o640)
                handle.flush()
                os.fsync(handle.fileno())
            os.rename(aside, os.path.realpath(path))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            if not self.quorate():
                raise LlmHostError("no_quorum", NO_QUORUM, vmid=int(vmid)) from None
            raise LlmHostError(
                "write_failed", f"{path} cannot be written: {error.strerror}", file=path, vmid=int(vmid)
            ) from None


NO_QUORUM = (
    "the cluster has lost its quorum, so /etc/pve is read-only: bring the missing nodes back (pvecm status), "
    "then run this again"
)


def require(node: Node, found: Container) -> None:
    """Raise what keeps a container's configuration from being changed."""
    vmid = int(found.vmid)
    if not node.quorate():
        raise LlmHostError("no_quorum", NO_QUORUM, vmid=vmid)
    if found.template:
        raise LlmHostError(
            "container_template",
            f"{vmid} is a template, which never runs: clone it (pct clone {vmid} NEW), and use the clone's number",
            vmid=vmid,
        )
    if found.application:
        raise LlmHostError(
            "container_application",
            f"container {vmid} was made of an OCI image and runs {found.config.get('entrypoint')!r} in the place of an "
            "init system: servers here are units of systemd, so use a system container (pct create with a template)",
            vmid=vmid,
        )
    if found.lock:
        raise LlmHostError(
            "container_locked",
            f"container {vmid} is locked by Proxmox ({found.lock}): wait until that task has ended; "
            f"'pct unlock {vmid}' only if no such task runs (pvesh get /nodes/localhost/tasks --source active)",
            vmid=vmid,
            lock=found.lock,
        )


def fail(command: Sequence[str], code: int, stderr: str, said: pct.Said | None, vmid: str) -> NoReturn:
    details = {"command": list(command), "rc": code, "stderr": stderr.strip()}
    if said:
        sentence = said.sentence(vmid)
        if said.reason in ("invalid_parameter", "copy_failed"):
            sentence += ": " + " ".join(stderr.split())
        raise LlmHostError(said.reason, sentence, **details)
    raise LlmHostError(
        "pct_failed", f"'{' '.join(command)}' failed ({code}): {stderr.strip() or 'no message'}", **details
    )
