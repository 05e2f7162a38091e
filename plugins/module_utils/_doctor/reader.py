# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""How the doctor looks: files below a root, commands with a deadline. A test hands in another root or reader."""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import shutil
import signal
import stat
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

from .._errors import LlmHostError
from .._gpu.query import readable, run_with_deadline
from .facts import Unread

LARGEST = 4 * 1024 * 1024  # bytes of a file that are read
OPEN_S = 30.0  # seconds that opening devices and files may take
MANY = 2000  # files below a model that are tried


@dataclass(frozen=True)
class Said:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Its first words, for a message."""
        words = (self.err.strip() or self.out.strip() or "nothing").splitlines()
        return words[0][:200]


class Reader:
    """The real one. ``root`` is put before every path; commands and system calls are always this host's."""

    def __init__(self, root: str = "", timeout_s: float = 20.0) -> None:
        self.root = root.rstrip("/")
        self.timeout_s = timeout_s

    def path(self, path: str) -> str:
        return self.root + path

    def text(self, path: str) -> str | None:
        """A file; None where there is none; ``Unread`` where it cannot be read."""
        try:
            with open(self.path(path), "rb") as handle:
                return handle.read(LARGEST).decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unread(f"{path}: {error.strerror or error}") from None

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; empty where there is no such folder."""
        try:
            return sorted(os.listdir(self.path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Unread(f"{path}: {error.strerror or error}") from None

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def link(self, path: str) -> str | None:
        """The last component of what a link leads to in the end; None where it leads nowhere."""
        real = os.path.realpath(self.path(path))
        return os.path.basename(real) if os.path.lexists(self.path(path)) and os.path.exists(real) else None

    def node(self, path: str) -> dict[str, Any] | None:
        """What is at the path of a device: kind, numbers, mode, owner; None where nothing is."""
        try:
            found = os.stat(self.path(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unread(f"{path}: {error.strerror or error}") from None
        character = stat.S_ISCHR(found.st_mode)
        return {
            "character": character,
            "major": os.major(found.st_rdev) if character else None,
            "minor": os.minor(found.st_rdev) if character else None,
            "mode": f"{stat.S_IMODE(found.st_mode):04o}",
            "uid": found.st_uid,
            "gid": found.st_gid,
        }

    def room(self, path: str) -> dict[str, Any]:
        """The file system below a path, that of its nearest parent where it does not exist yet."""
        place = path
        while place not in ("", "/") and not os.path.exists(self.path(place)):
            place = os.path.dirname(place)
        try:
            found = os.statvfs(self.path(place or "/"))
        except OSError as error:
            raise Unread(f"{path}: {error.strerror or error}") from None
        return {
            "exists": place == path,
            "total_mib": found.f_blocks * found.f_frsize >> 20,
            "free_mib": found.f_bavail * found.f_frsize >> 20,
            "free_inodes": found.f_favail if found.f_files else None,
            "read_only": bool(found.f_flag & os.ST_RDONLY),
        }

    def program(self, name: str, path: str | None = None) -> str | None:
        """Where a program is found; None where it is not."""
        return shutil.which(name, path=path)

    def run(self, command: Sequence[str], timeout_s: float | None = None) -> Said:
        """What a command says; ``Unread`` where it is missing, or gives no answer in time."""
        if self.program(command[0]) is None:
            raise Unread(f"{command[0]} is not installed")
        try:
            return Said(
                *run_with_deadline(list(command), timeout_s or self.timeout_s, "'" + " ".join(command[:4]) + "'")
            )
        except LlmHostError as error:
            raise Unread(error.message) from None

    def told(self, command: Sequence[str], timeout_s: float | None = None) -> str:
        """The standard output of a command that must succeed."""
        said = self.run(command, timeout_s)
        if said.code != 0:
            raise Unread(f"'{' '.join(command)}' failed ({said.code}): {said.text}")
        return said.out

    def python(self, code: str, timeout_s: float, path: str | None = None) -> Any:
        """What a piece of Python prints as JSON, in a process of its own that may crash or hang."""
        said = self.run([path or sys.executable, "-I", "-c", code], timeout_s)
        if said.code != 0:
            raise Unread(f"a probe ended with {said.code}: {said.text}")
        return json.loads(said.out)

    def opens(self, paths: Sequence[str], user: str | None) -> dict[str, str]:
        """Path -> 'ok' or the error of opening it for reading and writing, as a user."""
        found: dict[str, str] = as_user(user, lambda: {path: _try(self.path(path), os.O_RDWR) for path in paths})
        return found

    def refused(self, path: str, user: str | None) -> str | None:
        """The first file below a path that a user cannot read; None where all can be."""
        found: str | None = as_user(user, lambda: _refused(self.path(path)))
        return found

    def reaches(self, uri: str, timeout_s: float) -> str:
        return reach(uri, timeout_s)

    def kernel(self) -> str:
        """The release of the running kernel."""
        return os.uname().release

    def clock(self) -> dict[str, Any]:
        """The clock, so that it can be compared with another of the same kernel whenever that was read."""
        zone = (self.text("/etc/timezone") or "").strip() or None
        return {
            "since_boot": time.time() - time.clock_gettime(time.CLOCK_BOOTTIME),
            "offset": time.strftime("%z"),
            "zone": zone,
        }


def _try(path: str, flags: int) -> str:
    try:
        os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return "ok"


def _refused(path: str) -> str | None:
    if not os.path.isdir(path):
        return None if _try(path, os.O_RDONLY) == "ok" else path
    tried = 0
    failed: list[str] = []
    for folder, _folders, names in os.walk(path, onerror=lambda error: failed.append(str(error.filename))):
        for name in sorted(names):
            tried += 1
            if failed or tried > MANY:
                break
            place = os.path.join(folder, name)
            if os.path.exists(place) and _try(place, os.O_RDONLY) != "ok":
                failed.append(place)
    return failed[0] if failed else None


def as_user(name: str | None, work: Callable[[], Any], timeout_s: float = OPEN_S) -> Any:
    """What ``work`` returns (JSON) as that user, in a child with a deadline; ``Unread`` where that cannot be."""
    who = None
    if name is not None:
        try:
            who = pwd.getpwnam(name)
        except KeyError:
            raise Unread(f"there is no user {name} here yet") from None
        if who.pw_uid == os.geteuid():
            who = None
        elif os.geteuid() != 0:
            raise Unread(f"only root can try it as {name}: run with become")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            if who is not None:
                groups = [group.gr_gid for group in grp.getgrall() if who.pw_name in group.gr_mem]
                os.setgroups([*groups, who.pw_gid])
                os.setgid(who.pw_gid)
                os.setuid(who.pw_uid)
            data = json.dumps(work()).encode()
            while data:
                data = data[os.write(write, data) :]
            code = 0
        except BaseException:  # the child must not run the parent's code on
            code = 1
        finally:
            os._exit(code)
    os.close(write)
    chunks = []
    with os.fdopen(read, "rb", buffering=0) as answer:
        while True:
            if not readable([answer.fileno()], timeout_s):
                os.kill(child, signal.SIGKILL)  # our own, not yet waited for; one that hangs in the kernel ends later
                raise Unread(f"a device gave no answer within {timeout_s:g} s: the driver hangs")
            part = answer.read(65536)
            if not part:
                break
            chunks.append(part)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise Unread(f"trying it as {name or 'this user'} failed")
    return json.loads(b"".join(chunks))


def reach(uri: str, timeout_s: float) -> str:
    """'ok' where a web server answers with anything, else why not. Proxies are those of the environment."""
    request = urllib.request.Request(uri, method="HEAD", headers={"User-Agent": "llmhost-doctor"})
    try:
        with urllib.request.build_opener().open(request, timeout=timeout_s):
            return "ok"
    except urllib.error.HTTPError:
        return "ok"  # a folder without an index: the server is there
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
