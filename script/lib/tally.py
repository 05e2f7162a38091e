# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the tests of one stage from its log: prints "PASSED FAILED SKIPPED".

A stage whose tool counts nothing is one test. A stage that failed has at least one failure.

Usage: tally.py LOG EXIT_STATUS
"""

from __future__ import annotations

import pathlib
import re
import sys

# pytest's last line: "=== 3 failed, 40 passed, 2 skipped in 1.20s ==="
PYTEST = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in \d[\d.]*s")
PASSED = ("passed", "xfailed")
FAILED = ("failed", "error", "errors", "xpassed")
# ansible-test: one line a test of sanity, one line a target of integration.
ANSIBLE_TEST = re.compile(r"^Running (?:sanity test \"|[\w.-]+ integration test role)")


def tally(text: str, status: int) -> tuple[int, int, int]:
    counts: dict[str, int] = {}
    others = 0
    for line in text.splitlines():
        summary = PYTEST.match(line)
        if summary:
            for number, word in re.findall(r"(\d+) ([a-z]+)", summary.group(1)):
                counts[word] = counts.get(word, 0) + int(number)
        elif ANSIBLE_TEST.match(line):
            others += 1
    passed = sum(counts.get(word, 0) for word in PASSED)
    failed = sum(counts.get(word, 0) for word in FAILED)
    if status:
        return passed + max(0, others - 1), max(1, failed), counts.get("skipped", 0)
    return passed + others or 1, failed, counts.get("skipped", 0)


if __name__ == "__main__":
    log = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    print(*tally(log, int(sys.argv[2])))
