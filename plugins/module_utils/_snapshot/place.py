# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Bringing files: to a folder beside their places, verified there, and put in place when all have come."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace

from .._errors import LlmHostError
from . import check, failures, manifest
from .client import describe
from .manifest import Entry, Manifest
from .model import File, Problem, gib
from .plan import Plan, Work, part_of, size_of, staged
from .transfer import SliceOver, Transfer
from .wish import Wish

PLAN_NAME = "plan.json"
TOLD = 20  # problems and names that a result lists


def make_folder(path: str) -> None:
    """The folder and those above it, open to read whatever the umask is."""
    missing = []
    step = path
    while not os.path.isdir(step):
        missing.append(step)
        step = os.path.dirname(step)
    try:
        for step in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(step)
                os.chmod(step, 0o755)
    except OSError as error:
        raise LlmHostError(
            "write_failed", f"{step} cannot be made ({error.strerror}): check its mount and who owns it", file=step
        ) from None


def stage(work: Work, plan: Plan, handle: int) -> None:
    """Bring every file that moves to the staging folder, each verified."""
    wish = work.wish
    os.makedirs(work.staging, mode=0o755, exist_ok=True)
    old = manifest.read(wish.path)
    _note_plan(work, sorted({*plan.wanted, *(old.files if old is not None else {}), *noted(work)}))
    keys = {file.key for file in plan.move}
    for name in os.listdir(work.staging):  # of another revision
        if name.endswith((".part", ".ok")) and name.partition(".")[0] not in keys:
            os.unlink(os.path.join(work.staging, name))
    waiting = [file for file in plan.move if not os.path.exists(staged(work, file))]
    for file in waiting:
        if file.size is not None and size_of(part_of(work, file)) > file.size:
            os.unlink(part_of(work, file))
    before = sum(size_of(part_of(work, file)) for file in waiting)

    def accept(file: File, part: str) -> None:
        if not check.holds(part, file.size, file.sha256, file.git_sha1):
            os.unlink(part)  # nothing of it is trusted
            raise LlmHostError(
                "hash_mismatch",
                f"{file.name}: what came is not what the source publishes: a proxy, a mirror or the disk alters it. "
                "It was thrown away: run again, and where it comes so again, name another source",
                file=file.name,
            )
        os.replace(part, staged(work, file))
        work.moved_bytes += size_of(staged(work, file))

    if wish.source is None:
        return
    transfer = Transfer(wish.source, replace(wish.way, keep_open=(handle,)), work.staging)
    try:
        if wish.source.kind == "folder":
            for file in waiting:
                if transfer.slice_over():
                    raise SliceOver
                _copy(os.path.join(wish.source.folder or "", file.name), part_of(work, file))
                accept(file, part_of(work, file))
        else:
            transfer.fetch(waiting, plan.listing.commit, accept)
    finally:
        work.retried += transfer.retried
        after = sum(size_of(part_of(work, file)) for file in waiting)
        work.moved_bytes = max(0, work.moved_bytes + after - before)


def _copy(source: str, target: str) -> None:
    try:
        stream = open(source, "rb")  # noqa: SIM115 (its errors are of the source, those below of the target)
    except OSError as error:
        raise LlmHostError("source_unreadable", f"{source} cannot be read: {error.strerror}", file=source) from None
    with stream, open(target, "wb") as out:
        shutil.copyfileobj(stream, out, check.BLOCK_BYTES)
        out.flush()
        os.fsync(out.fileno())


def _note_plan(work: Work, names: Sequence[str]) -> None:
    """Which files this folder will hold by our doing: what may be removed although no record was written yet."""
    path = os.path.join(work.staging, PLAN_NAME)
    with open(path + ".new", "w", encoding="utf-8") as text:
        json.dump(list(names), text)
    os.replace(path + ".new", path)


def noted(work: Work) -> list[str]:
    try:
        with open(os.path.join(work.staging, PLAN_NAME), encoding="utf-8") as text:
            return [str(name) for name in json.load(text)]
    except (OSError, ValueError, TypeError):
        return []


def place(work: Work, plan: Plan) -> Manifest:
    """Put the verified files in place, take away what an older revision left, look at the whole, record it."""
    wish, folder = work.wish, work.wish.path
    manifest.remove(folder)
    for file in plan.move:
        target = os.path.join(folder, file.name)
        make_folder(os.path.dirname(target))
        os.chmod(staged(work, file), 0o644)
        os.replace(staged(work, file), target)
    for name in plan.stale:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    problems = check.model(folder, wish.whole)
    if problems:
        raise refusal(wish, problems, "The source itself is not whole, or files of another kind lie in the folder.")
    if wish.source is None:
        raise LlmHostError("no_source", "there is nothing to record")
    entries = {name: _entry(folder, file) for name, file in plan.wanted.items()}
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(work.now()))
    record = Manifest(wish.source, plan.listing.commit, entries, stamp, wish.patterns)
    manifest.write(folder, record)
    shutil.rmtree(work.staging, ignore_errors=True)
    return record


def _entry(folder: str, file: File) -> Entry:
    path = os.path.join(folder, file.name)
    found = os.stat(path)
    sha256 = file.sha256
    if not file.published:
        sha256 = check.digest(path)  # nobody publishes it, so at least a later change will show
    return Entry(
        found.st_size, found.st_mtime_ns, sha256, file.git_sha1, "hash" if file.published else "size", file.url
    )


def of_disk(work: Work, error: OSError, needed: int) -> LlmHostError:
    row = failures.classify(describe(error))
    return LlmHostError(
        row.reason if row.reason in ("no_space", "write_failed") else "write_failed",
        f"{error.filename or work.wish.path}: {error.strerror or error}: {row.cure}",
        needed_gib=gib(needed),
        file=error.filename or work.wish.path,
    )


def refusal(wish: Wish, problems: Sequence[Problem], cure: str) -> LlmHostError:
    first = problems[0]
    more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
    where = os.path.join(wish.path, first.file) if not first.file.startswith("/") else first.file
    message = first.message if first.reason in ("unreadable", "not_present") else f"{where} {first.message}"
    tail = "" if first.reason == "unreadable" else ". " + cure
    return LlmHostError(
        first.reason, f"{message}{more}{tail}", problems=[problem.as_dict() for problem in problems[:TOLD]]
    )
