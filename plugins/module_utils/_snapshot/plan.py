# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What stands between a folder and the wish: the files of the source, those that are there, the room for the others."""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Callable

from .._errors import LlmHostError
from . import check, manifest
from .manifest import Entry, Manifest
from .model import GIB, STAGING_NAME, File, Listing, Problem, gib
from .transfer import Transfer
from .wish import COMMIT, Wish


@dataclass(frozen=True)
class Plan:
    """What stands between the folder and the wish."""

    listing: Listing
    wanted: dict[str, File]
    move: tuple[File, ...]  # to be fetched
    stale: tuple[str, ...]  # recorded by an earlier revision
    problems: tuple[Problem, ...]  # why files that are there are fetched again
    record: bool  # the record itself is missing or another

    @property
    def nothing(self) -> bool:
        return not self.move and not self.stale and not self.record


@dataclass
class Work:
    """One run: the wish, what is asked only once, what was done."""

    wish: Wish
    now: Callable[[], float] = time.time
    listing: Listing | None = None
    read_whole: dict[tuple[str, int, int], bool] = field(default_factory=dict)
    retried: list[str] = field(default_factory=list)
    moved_bytes: int = 0

    @property
    def staging(self) -> str:
        return os.path.join(self.wish.path, STAGING_NAME)


def make_plan(work: Work) -> Plan:
    wish, old = work.wish, manifest.read(work.wish.path)
    listing = _listing(work, old)
    wanted = {file.name: file for file in _matching(listing.files, wish)}
    if not wanted:
        raise LlmHostError("no_files", "the source and the patterns leave no file: correct allow_patterns")
    known = old.files if old is not None else {}
    problems = _present_problems(work, wanted, known)
    bad = {problem.file for problem in problems}
    move = tuple(file for name, file in sorted(wanted.items()) if name in bad)
    stale = tuple(sorted(set(known) - set(wanted)))
    record = old is None or old.commit != listing.commit or not same_source(wish, old)
    told = tuple(problem for problem in problems if problem.reason != "missing_file")
    return Plan(listing, wanted, move, stale, told, record)


def room(work: Work, plan: Plan) -> int:
    """Bytes that will move; refused where they do not fit beside what is there."""
    needed = 0
    for file in plan.move:
        if not os.path.exists(staged(work, file)):
            needed += max(0, (file.size or 0) - size_of(part_of(work, file)))
    place = work.wish.path
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    reserve = work.wish.reserve_gib * GIB
    if needed and needed + reserve > free:
        raise LlmHostError(
            "no_room",
            f"{gib(needed)} GiB have to come and {work.wish.reserve_gib} GiB must stay free (reserve_gib), but "
            f"{place} has only {gib(free)} GiB: free some, or choose another path",
            needed_gib=gib(needed),
            free_gib=gib(free),
            mount=place,
        )
    return needed


def _listing(work: Work, old: Manifest | None) -> Listing:
    """The files as they were pinned, without asking anybody; else as the source has them now."""
    wish = work.wish
    if wish.source is None:
        raise LlmHostError("no_source", "there is nothing to fetch from")
    if work.listing is None and wish.source.kind == "hub" and old is not None and _pinned(wish, old):
        return Listing(
            old.commit,
            tuple(File(name, entry.size, entry.sha256, entry.git_sha1) for name, entry in sorted(old.files.items())),
        )
    if work.listing is None:
        work.listing = _ask(work)
    return work.listing


def _ask(work: Work) -> Listing:
    wish = work.wish
    if wish.source is None or wish.source.kind == "folder":
        return _of_folder(wish)
    transfer = Transfer(wish.source, wish.way, work.staging if os.path.isdir(work.staging) else "/nonexistent")
    if wish.source.kind == "urls":
        known = manifest.read(wish.path)
        sizes = {name: entry.size for name, entry in known.files.items() if _entry_of(known, name)} if known else {}
        files = [file if file.size is not None else replace(file, size=sizes.get(file.name)) for file in wish.files]
        listing = Listing(None, tuple(transfer.sizes(files, None)))
    else:
        listing = transfer.listing()
        matching = {file.name for file in _matching(listing.files, wish)}
        asked = transfer.sizes([file for file in listing.files if file.name in matching], listing.commit)
        listing = Listing(listing.commit, tuple(asked))
    work.retried += transfer.retried
    return listing


def _entry_of(known: Manifest, name: str) -> bool:
    return known.source.kind == "urls" and name in known.files


def _of_folder(wish: Wish) -> Listing:
    folder = wish.source.folder if wish.source is not None and wish.source.folder else ""
    old = manifest.read(folder)
    files = []
    for name in check.names(folder):
        path = os.path.join(folder, name)
        try:
            size = os.stat(path).st_size
            entry = old.files.get(name) if old is not None else None
            sha256, git_sha1 = (entry.sha256, entry.git_sha1) if entry is not None else (None, None)
            if wish.by_hash and sha256 is None and git_sha1 is None:
                sha256 = check.digest(path)
        except OSError as error:
            raise LlmHostError("source_unreadable", f"{path} cannot be read: {error.strerror}", file=name) from None
        files.append(File(name, size, sha256, git_sha1))
    return Listing(old.commit if old is not None else None, tuple(files))


def _matching(files: Iterable[File], wish: Wish) -> list[File]:
    def hit(name: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatch(name, word + "*" if word.endswith("/") else word) for word in patterns)

    return [
        file for file in files if (not wish.allow or hit(file.name, wish.allow)) and not hit(file.name, wish.ignore)
    ]


def same_source(wish: Wish, old: Manifest) -> bool:
    """A mirror of the same repository is the same source."""
    new = wish.source
    if new is None or old.patterns != wish.patterns:
        return False
    if new.kind == "hub":
        same = (old.source.kind, old.source.repo_id) == ("hub", new.repo_id)
        return same and new.revision in (old.source.revision, old.commit)
    if new.kind == "urls":
        return old.source.kind == "urls" and {f.name: f.url for f in wish.files} == {
            name: entry.url for name, entry in old.files.items()
        }
    return (old.source.kind, old.source.folder) == (new.kind, new.folder)


def _pinned(wish: Wish, old: Manifest) -> bool:
    revision = wish.source.revision if wish.source is not None else None
    named_by_commit = bool(revision and COMMIT.match(revision))
    return same_source(wish, old) and old.commit is not None and (named_by_commit or not wish.update)


def _present_problems(work: Work, wanted: dict[str, File], known: dict[str, Entry]) -> list[Problem]:
    """Which of the wanted files are not there as they should be."""
    folder, problems = work.wish.path, []
    for name, file in wanted.items():
        state = _state(work, name, file, known.get(name))
        if state == "missing":
            problems.append(Problem("missing_file", name, "is not there"))
        elif state != "same":
            problems.append(Problem(f"{state}_mismatch", name, f"is there with another {state}"))
        elif not file.published:  # nothing else tells whether it is whole
            problems += check.file(folder, name)
    return problems


def _state(work: Work, name: str, file: File, entry: Entry | None) -> str:
    folder, path = work.wish.path, os.path.join(work.wish.path, name)
    same = (
        entry is not None
        and (file.size is None or entry.size == file.size)
        and (file.sha256 is None or file.sha256 == entry.sha256)
        and (file.git_sha1 is None or file.git_sha1 == entry.git_sha1)
    )
    if entry is not None and same:
        return check.compare(folder, name, entry, work.wish.by_hash)
    try:
        found = os.stat(path)
    except OSError:
        return "missing"
    if not stat.S_ISREG(found.st_mode) or (file.size is not None and found.st_size != file.size):
        return "size"
    mark = (file.key, found.st_mtime_ns, found.st_ino)
    if mark not in work.read_whole:  # read once a run, though the plan is made twice
        work.read_whole[mark] = check.holds(path, file.size, file.sha256, file.git_sha1)
    return "same" if work.read_whole[mark] else "hash"


def staged(work: Work, file: File) -> str:
    return os.path.join(work.staging, file.key + ".ok")


def part_of(work: Work, file: File) -> str:
    return os.path.join(work.staging, file.key + ".part")


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
