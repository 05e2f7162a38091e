# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The three states of a snapshot: present, verified, absent.

A file is fetched beside its place, held against what its source publishes, and only when all are there are they put
in place and recorded. The record is taken away before anything that it describes is touched, so that a run which was
cut leaves a folder that nobody takes for whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from typing import Any

from .._errors import LlmHostError
from . import check, lock, manifest, readers
from .manifest import Manifest
from .model import Problem, gib
from .place import TOLD, make_folder, noted, of_disk, place, refusal, stage
from .plan import Plan, Work, make_plan, part_of, room, same_source, size_of, staged
from .transfer import SliceOver
from .wish import Wish


def run(wish: Wish) -> dict[str, Any]:
    began = time.monotonic()
    work = Work(wish)
    deed = {"present": _present, "verified": _verified, "absent": _absent}[wish.state]
    result = deed(work)
    return {"folder": wish.path, "seconds": round(time.monotonic() - began, 1), **result}


def _present(work: Work) -> dict[str, Any]:
    try:
        plan = make_plan(work)
    except LlmHostError as error:
        if work.wish.check_mode and error.reason == "client_missing":  # an earlier task would have installed it
            return _unseen(work)
        raise
    if plan.nothing:
        _refuse(work, _readable(work.wish, plan))
        return _result(work, plan, manifest.read(work.wish.path), changed=False)
    room(work, plan)
    if work.wish.check_mode:
        return _result(work, plan, None, changed=True)
    make_folder(work.wish.path)
    with lock.hold(lock.path_for(work.wish.path), work.wish.lock_timeout_s) as handle:
        plan = make_plan(work)  # whoever held the lock may have done it
        if plan.nothing:
            _refuse(work, _readable(work.wish, plan))
            return _result(work, plan, manifest.read(work.wish.path), changed=False)
        needed = room(work, plan)
        try:
            stage(work, plan, handle)
            record = place(work, plan)
        except SliceOver:
            return _unfinished(work, plan)
        except OSError as error:
            raise of_disk(work, error, needed) from None
    _refuse(work, _readable(work.wish, plan))
    return _result(work, plan, record, changed=True)


def _verified(work: Work) -> dict[str, Any]:
    wish, record = work.wish, manifest.read(work.wish.path)
    if record is None and os.path.isdir(work.staging):
        raise LlmHostError(
            "incomplete",
            f"{wish.path} holds a download that was not finished: run state=present again, it goes on where it ended",
        )
    if wish.source is not None and (record is None or not same_source(wish, record)):
        found = "nothing that this module fetched" if record is None else json.dumps(record.source.as_dict())
        raise LlmHostError(
            "wrong_snapshot",
            f"{wish.path} holds {found}, and not what was asked for: run state=present",
            found=manifest.summary(record) if record is not None else None,
        )
    if record is None and wish.by_hash:
        raise LlmHostError(
            "no_hashes",
            f"{wish.path} has no record to hold its bytes against: fetch it with state=present, or use verify=size",
        )
    problems = check.model(wish.path, wish.whole and not (record and record.patterns.get("allow_patterns")))
    if record is not None:
        problems += check.recorded(wish.path, record, wish.by_hash)
    problems.sort(key=lambda problem: check.ORDER.index(problem.reason))
    _refuse(work, problems)
    _refuse(work, _readable(wish, None))
    present = check.names(wish.path)
    return {
        "changed": False,
        "commit": record.commit if record else None,
        "source": record.source.as_dict() if record else None,
        "files": len(present),
        "size_gib": gib(sum(size_of(os.path.join(wish.path, name)) for name in present)),
        "verified": "hash" if wish.by_hash else "size",
        "recorded": record is not None,
    }


def _readable(wish: Wish, plan: Plan | None) -> list[Problem]:
    """What the service's user may not read; its check waits until there is such a user."""
    if not wish.reader or not readers.exists(wish.reader):
        return []
    names = sorted(plan.wanted) if plan is not None else check.names(wish.path)
    return readers.blocked(wish.path, names, wish.reader)


def _refuse(work: Work, problems: Sequence[Problem]) -> None:
    if problems:
        raise refusal(work.wish, problems, "Run state=present with its source, or put the files there.")


def _absent(work: Work) -> dict[str, Any]:
    wish, folder = work.wish, work.wish.path
    if not os.path.isdir(folder):
        return {"changed": False, "files": 0, "removed_gib": 0.0, "left": []}
    record = manifest.read(folder)
    names = sorted(record.files) if record is not None else noted(work)
    present = check.names(folder)
    if record is None and present and not os.path.isdir(work.staging):
        raise LlmHostError(
            "not_ours",
            f"{folder} was not fetched by this module (it has no record), so nothing in it is removed: do so by hand",
        )
    size = sum(size_of(os.path.join(folder, name)) for name in names) + _tree_bytes(work.staging)
    left = sorted(set(present) - set(names))
    result = {"changed": True, "files": len(names), "removed_gib": gib(size), "left": left[:TOLD]}
    if wish.check_mode:
        return result
    try:
        with lock.hold(lock.path_for(folder), wish.lock_timeout_s):
            manifest.remove(folder)
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))
            shutil.rmtree(work.staging, ignore_errors=True)
            for top, _folders, _files in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):  # not empty: somebody else's
                    os.rmdir(top)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(lock.path_for(folder))
    except OSError as error:
        raise of_disk(work, error, 0) from None
    return result


def _tree_bytes(folder: str) -> int:
    return sum(size_of(os.path.join(top, name)) for top, _folders, files in os.walk(folder) for name in files)


def _result(work: Work, plan: Plan, record: Manifest | None, changed: bool) -> dict[str, Any]:
    total = sum(file.size or 0 for file in plan.wanted.values())
    move = sum(file.size or 0 for file in plan.move)
    wish = work.wish
    return {
        "changed": changed,
        "commit": plan.listing.commit,
        "source": wish.source.as_dict() if wish.source is not None else None,
        "files": len(plan.wanted),
        "size_gib": gib(total),
        "to_move_gib": gib(move),
        "fetched": [file.name for file in plan.move][:TOLD],
        "fetched_files": len(plan.move),
        "moved_gib": gib(work.moved_bytes),
        "moved_bytes": work.moved_bytes,
        "repaired": [problem.as_dict() for problem in plan.problems[:TOLD]],
        "removed": list(plan.stale)[:TOLD],
        "retried": work.retried,
        "verified": "hash" if wish.by_hash else "size",
        "recorded": record is not None,
        "diff": _diff(work, plan, changed),
    }


def _unfinished(work: Work, plan: Plan) -> dict[str, Any]:
    """How far it came, for the action plugin, which goes on with another call."""
    came = sum(max(size_of(staged(work, file)), size_of(part_of(work, file))) for file in plan.move)
    return {
        "changed": True,
        "unfinished": True,
        "came_bytes": came,
        "all_bytes": sum(file.size or 0 for file in plan.move),
        "moved_bytes": work.moved_bytes,
        "retried": work.retried,
    }


def _unseen(work: Work) -> dict[str, Any]:
    """The result of check mode where nothing is there to ask the source with."""
    wish = work.wish
    nothing: dict[str, Any] = dict.fromkeys(("commit", "files", "size_gib", "to_move_gib", "fetched_files"))
    lists: dict[str, Any] = {name: [] for name in ("fetched", "repaired", "removed", "retried")}
    return {
        **nothing,
        **lists,
        "changed": True,
        "source": wish.source.as_dict() if wish.source is not None else None,
        "moved_gib": 0.0,
        "moved_bytes": 0,
        "verified": "hash" if wish.by_hash else "size",
        "recorded": False,
    }


def _diff(work: Work, plan: Plan, changed: bool) -> dict[str, Any]:
    moved = {file.name for file in plan.move}
    after = "".join(f"{name} {plan.wanted[name].size}\n" for name in sorted(plan.wanted))
    kept = [f"{name} {plan.wanted[name].size}\n" for name in sorted(plan.wanted) if name not in moved]
    before = "".join(sorted(kept + [f"{name}\n" for name in plan.stale])) if changed else after
    return {"before": before, "after": after, "before_header": work.wish.path, "after_header": work.wish.path}
