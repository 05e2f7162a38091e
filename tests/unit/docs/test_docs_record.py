# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recording keeps of what was printed."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

import pytest

DAY = datetime.date(2026, 11, 30)
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
[ERROR]: Task failed: it broke
Origin: /somebody/checkout/roles/x/tasks/main.yml:1:3
1
2 - name: Wait
    ^ column 3
fatal: [ct129]: FAILED! => it broke
-- 63 s
"""


BUILD = "TASK [llmhost.sglang.sglang_runtime : Build the runtime beside the old one and switch to it]"


def test_what_was_done_is_kept_and_nothing_else() -> None:
    lines, seconds = record.steps(LOG.format(title="status", long="  " + "word " * 30))["status"]
    assert seconds == "63"
    assert record.shortened(lines) == [
        "PLAY [Deploy SGLang]",
        "",
        "TASK [Wait]",
        "[ct129] sglang-demo.service: loading weights",
        "ok: [ct129]",
        ("  " + "word " * 23).rstrip(),
        "      " + ("word " * 7).rstrip(),
        "fatal: [ct129]: FAILED! => it broke",
    ]


def test_a_log_without_a_step_makes_no_page() -> None:
    with pytest.raises(SystemExit, match="A start that fails|deploy"):
        record.page(LOG.format(title="status", long=""), DAY)


def test_a_page_names_every_step_and_its_seconds() -> None:
    made = record.page("".join(LOG.format(title=title, long=BUILD + "\nok: [ct129]") for title in record.STEPS), DAY)
    for title in record.STEPS.values():
        assert "\n%s\n%s\n\n63 seconds" % (title, "-" * len(title)) in made
    assert "on 2026-11-30," in made
    assert made.count("installed by an earlier run") == 1, "of the deploy, which did not build it"


def test_whether_sglang_was_installed_is_seen() -> None:
    assert record.built(["PLAY", BUILD, "changed: [ct129]", "ok: [ct129]"])
    assert not record.built(["PLAY", BUILD, "ok: [ct129]", "changed: [ct129]"])
    with pytest.raises(SystemExit, match="by another name"):
        record.built(["PLAY", "TASK [Build it]", "changed: [ct129]"])


def test_the_steps_are_those_of_the_demo() -> None:
    demo = (ROOT / "script/demo").read_text()
    assert all('step "%s"' % name in demo for name in record.STEPS)


def test_the_page_is_a_run_of_the_demo_and_shows_what_the_collection_is_for() -> None:
    """Where script/demo or the roles no longer say this, script/record is due."""
    text = (ROOT / "docs/docsite/rst/recordings.rst").read_text()
    parts = [text.index("\n%s\n---" % title) for title in record.STEPS.values()]
    assert parts == sorted(parts)
    deploy, again, failed, status = (text[a:b] for a, b in zip(parts, [*parts[1:], None]))  # noqa: B905
    assert "sglang-demo.service: ready after" in deploy
    assert re.search(r"ok=\d+ +changed=0 +unreachable=0 +failed=0", again)
    assert "sglang-broken.service: failed (weights_corrupt)" in failed and re.search(r"\bfailed=1\b", failed)
    assert "tokens; /health made a token" in " ".join(status.split()), "long lines are broken"
