# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What the module ``server`` does, and what it returns."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._errors import LlmHostError
from .._process import identity
from . import files, instance
from . import unit as units
from .instance import Facts, FoundFile, Plan, WantedFile
from .request import Request, request

HIDDEN = "<hidden>\n"


def run(params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the instance to its state, or tell what that would take."""
    wanted = request(params)
    if check_mode:
        return _do(wanted, check_mode)
    folder = wanted.host.folder
    made = wanted.unit is not None and not os.path.isdir(folder)
    if made:
        files.make_folder(wanted.wish.folders[0])
    with contextlib.ExitStack() as stack:
        if os.path.isdir(folder):
            stack.enter_context(files.locked(folder + "/lock", owner(), params["lock_timeout_s"]))
            wanted = request(params)  # whoever held the lock may have made the key
        return _do(wanted, check_mode, made)


def _do(wanted: Request, check_mode: bool, made: bool = False) -> dict[str, Any]:
    host = wanted.host
    try:
        facts = host.facts(wanted.wish, wanted.cache_dir)
        plan = instance.plan(wanted.wish, facts)
        _check_host(wanted, plan, check_mode)
    except LlmHostError:
        if made:
            shutil.rmtree(host.folder, ignore_errors=True)
        raise
    if made:
        plan = replace(plan, steps=(instance.Step("make_folder", host.folder), *plan.steps))
    if not check_mode:
        host.take(plan, wanted.wish, wanted.cache_dir, _marker(wanted))
        _adopt(wanted, facts, plan)
    return _result(wanted, facts, plan, check_mode)


def _check_host(wanted: Request, plan: Plan, check_mode: bool) -> None:
    """What must hold before anything is touched. A dry run tells what an earlier task of the same run would make."""
    host, unit = wanted.host, wanted.unit
    if unit is None:
        return
    starting = "start" in plan.verbs
    if starting or wanted.state == "present":
        problems = host.problems(unit.argv[0], wanted.required)
        fatal = [item for item in problems if starting or item[0] == "user_missing"]
        if fatal and not check_mode:
            raise LlmHostError(fatal[0][0], "; ".join(message for _reason, message in fatal))
        host.notes += [message for _reason, message in problems]
    if starting:
        try:
            host.check_port()
        except LlmHostError as error:
            holders = error.details.get("holders") or [{}]
            ours = all(str(one.get("unit") or "").startswith("sglang-") for one in holders)
            if not (check_mode and ours):
                raise
            host.notes.append(error.message)
    for other in host.neighbours():
        host.notes.append(f"instance {other} of this host has the same port {host.port}: only one of them can run")


def _marker(wanted: Request) -> dict[str, Any]:
    unit = wanted.unit
    if unit is None:
        return {}
    return {
        "argv": identity.mask_arguments(unit.argv),
        "argv_sha256": argv_sha256(unit.argv),
        "host": unit.host,
        "port": unit.port,
        "start": unit.start_digests,
    }


def argv_sha256(argv: tuple[str, ...]) -> str:
    return instance.digest(*argv)


def _adopt(wanted: Request, facts: Facts, plan: Plan) -> None:
    """A server that systemd started by itself (boot, restart after a crash) gets its marker, if it is as wanted."""
    host = wanted.host
    if wanted.unit is None or "start" in plan.verbs or facts.active_state != "active" or plan.changes:
        return
    if host.marker().get("invocation_id") != host.show().get("InvocationID"):
        host.record(_marker(wanted))


def _result(wanted: Request, facts: Facts, plan: Plan, check_mode: bool) -> dict[str, Any]:
    host = wanted.host
    shown = host.show()
    starts = "start" in plan.verbs
    active = shown.get("ActiveState") in ("active", "reloading", "activating")
    if check_mode:
        active = starts or (facts.running and "stop" not in plan.verbs)
    same_start = not check_mode or not (starts or "stop" in plan.verbs)
    pid = shown.get("MainPID", "0")
    result: dict[str, Any] = {
        "changed": bool(plan.steps),
        "name": host.name,
        "unit": host.unit,
        "unit_path": host.unit_path,
        "active": active,
        "invocation_id": (shown.get("InvocationID", "") or None) if active and same_start else None,
        "main_pid": int(pid) if active and same_start and pid.isdigit() and int(pid) else None,
        "start_needed": plan.start_needed,
        "restart_needed": plan.restart_needed,
        "changes": list(plan.changes),
        "actions": list(dict.fromkeys(plan.verbs)),
        "config_path": wanted.config_path or None,
        "argv_sha256": argv_sha256(wanted.unit.argv) if wanted.unit else None,
        "state_path": host.folder,
        "cache_path": wanted.cache_dir,
        "notes": list(host.notes),
        "stop": host.seen.get("stop"),
        "ended": host.seen.get("ended", []),
    }
    result["diff"] = _diff(wanted, facts, plan)
    return result


def _diff(wanted: Request, facts: Facts, plan: Plan) -> list[dict[str, str]]:
    wanted_files = {want.path: want for want in wanted.wish.files}
    entries = []
    for step in plan.steps:
        path = wanted.wish.unit_path if step.verb == "remove_unit" else step.path
        if step.verb in ("write", "remove", "remove_unit"):
            want = wanted_files.get(path) if step.verb == "write" else None
            secret = want.secret if want else path != wanted.wish.unit_path
            entries.append(_file_diff(wanted, path, facts.files.get(path), want, secret))
    before = "active" if facts.running else facts.active_state
    after = before
    if "stop" in plan.verbs:
        after = "inactive"
    if "start" in plan.verbs:
        after = "active"
    if after != before or "stop" in plan.verbs:
        new = " (a new start)" if "stop" in plan.verbs and after == "active" else ""
        entries.append(
            {
                "before_header": wanted.host.unit,
                "after_header": wanted.host.unit,
                "before": before + "\n",
                "after": after + new + "\n",
            }
        )
    return entries


def _masked(text: str, secrets_: tuple[str, ...]) -> str:
    for value in sorted(secrets_, key=len, reverse=True):
        text = text.replace(value, identity.MASK)
    return identity.mask(text)


def _file_diff(
    wanted: Request, path: str, found: FoundFile | None, want: WantedFile | None, secret: bool
) -> dict[str, str]:
    def text(item: FoundFile | WantedFile | None, hidden: str) -> str:
        if item is None:
            return ""
        body = hidden if secret else _masked(item.content.decode("utf-8", "replace"), wanted.secrets)
        return f"# mode {item.mode:04o}, owner {item.owner}:{item.group}\n{body}"

    same = found is not None and want is not None and found.content == want.content
    before, after = text(found, HIDDEN), text(want, HIDDEN if same else "<hidden, changed>\n")
    if _without_digests(before) != _without_digests(after):  # they change with every other line: no news
        before, after = _without_digests(before), _without_digests(after)
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def _without_digests(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if units.START_MARK not in line and not line.startswith("Start="))


def owner() -> dict[str, object]:
    """Who holds the lock, for whoever waits for it."""
    return {"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
