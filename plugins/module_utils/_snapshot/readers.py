# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""May the user that the server runs as read every file? Looked at with that user's eyes."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Sequence

from .._errors import LlmHostError
from .model import Problem


def exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def blocked(folder: str, names: Sequence[str], user: str) -> list[Problem]:
    """Files and folders that the user may not use, each named with what stands in the way."""
    paths = [os.path.join(folder, name) for name in names]
    account = pwd.getpwnam(user)
    if account.pw_uid == os.geteuid() or account.pw_uid == 0:
        found = _obstacles(folder, paths)
    elif os.geteuid() == 0:
        found = _as_user(account, folder, paths)
    else:
        raise LlmHostError(
            "permission_denied", f"cannot look at {folder} as {user}: run as root (become)", user=user, file=folder
        )
    problems = []
    for path in found:
        name = os.path.relpath(path, folder) if path.startswith(folder + "/") else path
        problems.append(
            Problem(
                "unreadable",
                name,
                f"the user {user} may not read {path}, which SGLang would report as missing: make it readable, for "
                f"instance by chmod -R a+rX {folder} (in an unprivileged container: on the node, as the mapped owner)",
                {"user": user},
            )
        )
    return problems


def _obstacles(folder: str, paths: Sequence[str]) -> list[str]:
    step = ""
    for part in folder.strip("/").split("/"):
        step += "/" + part
        if os.path.lexists(step) and not os.access(step, os.X_OK):
            return [step]
    if not os.access(folder, os.R_OK | os.X_OK):
        return [folder]
    return [path for path in paths if not os.access(path, os.R_OK)]


def _as_user(account: pwd.struct_passwd, folder: str, paths: Sequence[str]) -> list[str]:
    """One child process with the user's identity looks at all of them."""
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(receive)
            os.setgroups(groups)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            with os.fdopen(send, "w") as out:
                json.dump(_obstacles(folder, paths), out)
            code = 0
        finally:
            os._exit(code)
    os.close(send)
    with os.fdopen(receive) as answer:
        text = answer.read()
    _pid, status = os.waitpid(child, 0)
    if status != 0:
        raise LlmHostError(
            "permission_denied", f"cannot look at {folder} as {account.pw_name}: run as root (become)", file=folder
        )
    found = json.loads(text)
    return [str(path) for path in found]
