# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Everything that ``_startup.evidence`` may ask for, of one start on this host.

What reads the driver and the kernel is imported when it is asked for: on a target that takes longer than to look.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from .._errors import LlmHostError
from .._process import systemd
from .._startup import readiness
from .._startup.evidence import Answer, Start
from . import places

if TYPE_CHECKING:
    from .gpus import Gpus


class Host:
    """The host of one start. Nothing is looked at before it is asked for."""

    def __init__(self, start: Start, proc: str = "/proc") -> None:
        self.start = start
        self.proc = proc
        self._gpus: Gpus | None = None
        self._kernel: Answer | None = None
        self._environment: dict[str, str] | None = _environment(start, proc)

    # -- the kernel -----------------------------------------------------------------------------------------------

    def _lines(self) -> Answer:
        if self.start.since is None:
            return Answer(None, "It is not known when this start began, so the kernel log tells nothing of it.")
        if self._kernel is None:
            from . import kernel

            self._kernel = kernel.lines(self.start.since, self.start.until)
        return self._kernel

    def ooms(self) -> Answer:
        found = self._lines()
        if found.value is None:
            return found
        from . import kernel

        return Answer(kernel.ooms(found.value, self.start.control_group, self.start.pids()))

    def xids(self) -> Answer:
        found = self._lines()
        if found.value is None:
            return found
        from . import kernel

        return Answer(kernel.xids(found.value))

    # -- room -----------------------------------------------------------------------------------------------------

    def places(self) -> Answer:
        return places.look(places.wanted(self._environment or {}, self.start.state_dir, self.start.model_path()))

    # -- GPUs -----------------------------------------------------------------------------------------------------

    def _driver(self) -> Gpus:
        if self._gpus is None:
            from .gpus import Gpus

            self._gpus = Gpus(self.proc)
        return self._gpus

    def cards(self) -> Answer:
        driver = self._driver()
        found = driver.look()
        if found.value is None:
            return found
        from . import gpus

        mine = gpus.visible(found.value, self._environment, self.start.ranks())
        if mine is None:
            return Answer(None, "Which of the GPUs this server uses is not known, for its environment cannot be read.")
        rows = gpus.cards(mine, self.start.unit, self.start.pids())
        if driver.nested and self.start.alive() and not any(card.holders for card in rows):
            return Answer(
                None,
                "In this container the driver lists no clients, and processes of this server still live: "
                "whose the memory of the GPUs is cannot be told from here.",
            )
        return Answer(rows)

    def gpu_mib(self) -> int | None:
        """Memory of the cards that this server holds; None where it cannot be known."""
        found = self._driver().look()
        if found.value is None:
            return None
        from . import gpus

        mine = gpus.visible(found.value, self._environment, self.start.ranks())
        return None if mine is None else gpus.held_mib(gpus.cards(mine, self.start.unit, self.start.pids()))

    # -- the rest -------------------------------------------------------------------------------------------------

    def port(self, number: int) -> Answer:
        who, foreign = readiness.owner(number, set(self.start.pids()), self.proc)
        if who == "unknown":
            return Answer(None, "Somebody listens on port %d, and who it is cannot be seen from here." % number)
        return Answer(foreign)

    def stack(self, pid: int) -> Answer:
        from . import stack

        return stack.take(pid, proc=self.proc)

    def state(self, pid: int) -> dict[str, Any]:
        from . import stack

        return stack.state(pid, self.proc)

    def close(self) -> None:
        if self._gpus is not None:
            self._gpus.close()


def _environment(start: Start, proc: str) -> dict[str, str] | None:
    """What of the server's environment is looked at: the living process's own, else what systemd would give it."""
    text: list[str] = []
    try:
        with open("%s/%d/environ" % (proc, start.main_pid), "rb") as handle:
            text = [word.decode("utf-8", "replace") for word in handle.read().split(b"\0")]
    except OSError:
        try:
            text = shlex.split(systemd.show(start.unit, ("Environment",)).get("Environment", ""))
        except (LlmHostError, ValueError):
            return None
    found = dict(word.split("=", 1) for word in text if "=" in word)
    names = {"HOME", "TMPDIR", "CUDA_VISIBLE_DEVICES", *places.CACHES}
    return {name: value for name, value in found.items() if name in names} if found else None
