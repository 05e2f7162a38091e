# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Files of an instance: read, replaced in one step, looked at with another user's eyes; and its lock."""

from __future__ import annotations

import contextlib
import fcntl
import grp
import json
import os
import pwd
import stat
import tempfile
import time
from collections.abc import Iterator

from .._errors import LlmHostError
from .instance import FoundFile, WantedFile, WantedFolder

LOCK_POLL_S = 0.2


def write_failed(path: str, what: str, error: OSError) -> LlmHostError:
    return LlmHostError("write_failed", f"{path} cannot be {what}: {error.strerror or error}", file=path)


def account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def uid_of(name: str) -> int | None:
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def gid_of(name: str) -> int | None:
    if name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def look(path: str) -> FoundFile | None:
    """A file or a folder as it is (a folder has no content); ``None`` where there is none."""
    try:
        found = os.stat(path)
        content = b""
        if not stat.S_ISDIR(found.st_mode):
            with open(path, "rb") as handle:
                content = handle.read()
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except PermissionError:
        raise LlmHostError("permission_denied", f"{path} cannot be read: run as root (become)", file=path) from None
    return FoundFile(content, stat.S_IMODE(found.st_mode), account(found.st_uid), group(found.st_gid))


def replace(wanted: WantedFile) -> None:
    """Write a file beside the old one and put it in its place: nobody sees half of it, a cut leaves the old one."""
    folder, name = os.path.split(wanted.path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(wanted.content)
                os.fchown(stream.fileno(), *_ids(wanted))
                os.fchmod(stream.fileno(), wanted.mode)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, wanted.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise write_failed(wanted.path, "written", error) from None


def make_folder(wanted: WantedFolder) -> None:
    try:
        make_parents(wanted.path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(wanted.path)
        os.chown(wanted.path, *_ids(wanted))
        os.chmod(wanted.path, wanted.mode)
    except OSError as error:
        raise write_failed(wanted.path, "made", error) from None


def make_parents(path: str) -> None:
    """Make the folders above a path that are missing, open to read for everybody whatever the umask is."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_parents(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent)
            os.chmod(parent, 0o755)


def _ids(wanted: WantedFile | WantedFolder) -> tuple[int, int]:
    uid, gid = uid_of(wanted.owner), gid_of(wanted.group)
    if uid is None or gid is None:
        name = wanted.owner if uid is None else wanted.group
        raise LlmHostError("user_missing", f"there is no account {name!r} on this host: make it first", user=name)
    return uid, gid


def accessible(path: str, mode: int, user: str, main_group: str) -> bool:
    """Whether a user (by the service's groups) may use a path so; as root it looks with that user's eyes."""
    uid, gid = uid_of(user), gid_of(main_group)
    if os.geteuid() != 0 or uid is None or gid is None or uid == 0:
        return os.access(path, mode)
    groups = os.getgrouplist(account(uid), gid)
    child = os.fork()
    if child == 0:
        answer = 2
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            answer = 0 if os.access(path, mode) else 1
        finally:
            os._exit(answer)
    _pid, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) < 2:
        return os.WEXITSTATUS(status) == 0
    raise LlmHostError(
        "permission_denied", f"cannot look at {path} as {user}: run as root (become)", file=path, user=user
    )


@contextlib.contextmanager
def locked(path: str, owner: dict[str, object], timeout_s: float) -> Iterator[None]:
    """Hold an instance's lock. Whoever holds it is named where it does not come free in time.

    The kernel drops the lock with its process, so a play that was cut leaves none behind.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            if time.monotonic() >= deadline:
                raise LlmHostError(
                    "locked",
                    "another run works on this instance since {} (PID {}): wait for it, or raise lock_timeout_s".format(
                        holder.get("since", "an unknown time"), holder.get("pid", "unknown")
                    ),
                    holder=holder,
                ) from None
            time.sleep(LOCK_POLL_S)
            continue
        if _still_there(handle, path):
            break
        os.close(handle)  # removed together with its instance while we waited
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(owner).encode(), 0)
        yield
    finally:
        os.close(handle)


def _still_there(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(handle: int) -> dict[str, object]:
    try:
        found = json.loads(os.pread(handle, 4096, 0).decode("utf-8", "replace"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
