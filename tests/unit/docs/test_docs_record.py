# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recording keeps of what was printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "script/lib"))

import record  # noqa: E402 (found by the line above)

LOG = """
== tools of the controller
installing
-- 2 s
== {title}

PLAY [Deploy SGLang] ***********

TASK [role : Include] **********
included: /x/y.yml for ct129

TASK [Left out] ****************
skipping: [ct129]

TASK [Wait] ********************
\x1b[0;32m[ct129] sglang-demo.service: loading weights\x1b[0m
ok: [ct129]
{long}
-- 63 s
"""


def test_what_was_done_is_kept_and_nothing_else() -> None:
    lines, seconds = record.steps(LOG.format(title="status", long="x" * 300))["status"]
    assert seconds == "63"
    assert record.shortened(lines) == [
        "PLAY [Deploy SGLang]",
        "",
        "TASK [Wait]",
        "[ct129] sglang-demo.service: loading weights",
        "ok: [ct129]",
        "x" * (record.WIDTH - 4) + " ...",
    ]


def test_a_log_without_a_step_makes_no_page() -> None:
    with pytest.raises(SystemExit, match="A start that fails|deploy"):
        record.page(LOG.format(title="status", long=""))


def test_a_page_names_every_step_and_its_seconds() -> None:
    made = record.page("".join(LOG.format(title=title, long="") for title in record.STEPS))
    for title in record.STEPS.values():
        assert "\n%s\n%s\n\n63 seconds.\n" % (title, "-" * len(title)) in made


def test_the_steps_are_those_of_the_demo() -> None:
    demo = (ROOT / "script/demo").read_text()
    assert all('step "%s"' % name in demo for name in record.STEPS)
