# SPDX-License-Identifier: GPL-3.0-or-later
"""What pct says, and what is made of it."""

from __future__ import annotations

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import pct


@pytest.mark.parametrize("text", pct.TEXTS, ids=lambda text: text.reason)
def test_every_example_hits_its_own_row_and_no_other(text: pct.Text) -> None:
    assert [other.reason for other in pct.TEXTS if other.match(text.example)] == [text.reason]


@pytest.mark.parametrize("text", pct.TEXTS, ids=lambda text: text.reason)
def test_every_row_makes_a_sentence(text: pct.Text) -> None:
    out, err = (text.example, "") if text.stream == "stdout" else ("", text.example)
    said = pct.find(0 if text.despite_success else 255, out, err)
    assert said is not None
    sentence = said.sentence(129)
    assert "{" not in sentence
    assert ": " in sentence


def test_reasons_are_there_once() -> None:
    assert len(set(pct.REASONS)) == len(pct.REASONS)


# Texts of pct as they were seen or read (each with its own exit code: it tells nothing).
@pytest.mark.parametrize(
    ("rc", "stdout", "stderr", "reason"),
    [
        (2, "", "Configuration file 'nodes/pve/lxc/999.conf' does not exist\n", "container_missing"),
        (255, "", "container '910' not running!\n", "container_stopped"),
        (255, "", "CT 910 not running\n", "container_stopped"),
        (255, "", "VM 910 not running\n", "container_stopped"),
        (255, "", "can only push files to a running CT\n", "container_stopped"),
        (255, "", "can only pull files from a running VM\n", "container_stopped"),
        (255, "", "CT is locked (snapshot-delete)\n", "container_locked"),
        (
            255,
            "",
            "trying to acquire lock...\ncan't lock file '/run/lock/lxc/pve-config-129.lock' - got timeout\n",
            "lock_timeout",
        ),
        (255, "", "Unknown option: keep-env\n400 unable to parse option\npct exec <vmid> ...\n", "keep_env_unknown"),
        (255, "", "Unknown option: la\n400 unable to parse option\npct exec <vmid> ...\n", "invalid_parameter"),
        (127, "", "bash: line 1: pct: command not found\n", "pct_missing"),
        (127, "", "sh: 1: pct: not found\n", "pct_missing"),
        (127, "", "env: /usr/sbin/pct: No such file or directory\n", "pct_missing"),
        (0, "", "failed to open /none for reading\n", "copy_failed"),
        (0, "", "failed to open /none: No such file or directory\n", "copy_failed"),
        (0, "Requesting HA stop for CT 129\n", "", "ha_requested"),
        (
            255,
            "",
            "perl: warning: Setting locale failed.\r\ncontainer '910' not running!\r\n",
            "container_stopped",
        ),
        # a command's own failure, and a success that only speaks of such things
        (1, "", "ls: cannot access '/x': No such file or directory\n", None),
        (0, "container '910' not running!\n", "container '910' not running!\n", None),
        (1, "container '910' not running!\n", "", None),
        (3, "", "my log: container '910' not running!\n", None),
    ],
)
def test_words_decide(rc: int, stdout: str, stderr: str, reason: str | None) -> None:
    assert pct.classify(rc, stdout, stderr) == reason


def test_a_sentence_names_the_container_and_the_parts_of_the_message() -> None:
    said = pct.find(255, "", "CT is locked (backup)\n")
    assert said is not None
    assert "container 129 is locked by Proxmox (backup)" in said.sentence(129)
    assert "pct unlock 129" in said.sentence(129)
