# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The journal read through libsystemd, which is on every host that has a journal.

journald tells its followers of new entries up to a quarter of a second late; whoever asks the files themselves sees
an entry at once. Where the library cannot be used, ``sources`` falls back to ``journalctl --follow``.
"""

from __future__ import annotations

import ctypes
from typing import Any

BATCH = 4096  # entries at most in one call, so that a flood does not keep the watch from looking at the processes
LOCAL_ONLY = 1


class NativeJournal:
    """The entries of one invocation of a unit, in order, each once. Raises OSError where the journal cannot be read."""

    def __init__(self, invocation_id: str, library: str = "libsystemd.so.0") -> None:
        self._library = _load(library)
        self._journal = ctypes.c_void_p()
        self._ask("sd_journal_open", ctypes.byref(self._journal), ctypes.c_int(LOCAL_ONLY))
        try:
            match = ("_SYSTEMD_INVOCATION_ID=" + invocation_id).encode("ascii")
            self._ask("sd_journal_add_match", self._journal, match, ctypes.c_size_t(len(match)))
            self._ask("sd_journal_set_data_threshold", self._journal, ctypes.c_size_t(0))
            self._ask("sd_journal_get_fd", self._journal)  # from now on new files are noticed
            self._ask("sd_journal_seek_head", self._journal)
        except OSError:
            self.close()
            raise

    def _ask(self, name: str, *arguments: Any) -> int:
        answer = int(getattr(self._library, name)(*arguments))
        if answer < 0:
            raise OSError(-answer, "%s failed" % name)
        return answer

    def read(self) -> list[tuple[bytes, float | None]]:
        """What has come since the last call; never blocks."""
        out: list[tuple[bytes, float | None]] = []
        data, length, moment = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_uint64()
        self._ask("sd_journal_process", self._journal)
        while len(out) < BATCH and self._ask("sd_journal_next", self._journal) > 0:
            try:
                self._ask("sd_journal_get_data", self._journal, b"MESSAGE", ctypes.byref(data), ctypes.byref(length))
            except OSError:  # an entry without a message, or one that was lost with its file
                continue
            text = ctypes.string_at(data, length.value)[len(b"MESSAGE=") :]
            known = self._library.sd_journal_get_realtime_usec(self._journal, ctypes.byref(moment)) >= 0
            out.append((text + b"\n", moment.value / 1e6 if known else None))
        return out

    def close(self) -> None:
        if self._journal:
            self._library.sd_journal_close(self._journal)
            self._journal = ctypes.c_void_p()


def _load(name: str) -> Any:
    library = ctypes.CDLL(name)
    library.sd_journal_close.restype = None
    for function in (
        "sd_journal_open",
        "sd_journal_add_match",
        "sd_journal_set_data_threshold",
        "sd_journal_get_fd",
        "sd_journal_seek_head",
        "sd_journal_process",
        "sd_journal_next",
        "sd_journal_get_data",
        "sd_journal_get_realtime_usec",
    ):
        getattr(library, function).restype = ctypes.c_int
    return library
