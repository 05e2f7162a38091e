# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of what a failed download means: every row has a report that hits it, and no row is hidden by another."""

from __future__ import annotations

import errno
import io
import json
import pathlib
import subprocess
import sys
import urllib.error
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._snapshot import client, failures
from snapshot_support import LlmHostError  # noqa: F401 (it finds the collection)

# (what the program reports, the row's number in the table)
REPORTS: list[tuple[dict[str, Any], str]] = [
    ({"kinds": ["OSError"], "errno": errno.ENOSPC}, "no_space"),
    ({"kinds": ["PermissionError", "OSError"], "errno": errno.EACCES}, "write_failed"),
    ({"kinds": ["GatedRepoError", "RepositoryNotFoundError"], "status": 403, "code": "GatedRepo"}, "gated"),
    ({"kinds": ["DisabledRepoError", "HfHubHTTPError"], "status": 403}, "repo_disabled"),
    ({"kinds": ["RevisionNotFoundError", "HfHubHTTPError"], "status": 404}, "revision_not_found"),
    ({"kinds": ["RemoteEntryNotFoundError", "HfHubHTTPError"], "status": 404}, "file_not_found"),
    (
        {"kinds": ["RepositoryNotFoundError"], "status": 401, "message": "Invalid credentials in Authorization header"},
        "unauthorized",
    ),
    ({"kinds": ["RepositoryNotFoundError", "HfHubHTTPError"], "status": 401}, "repo_not_found"),
    ({"kinds": ["HFValidationError", "ValueError"]}, "repo_id_invalid"),
    ({"kinds": ["HTTPError"], "status": 401}, "unauthorized"),
    ({"kinds": ["HTTPError"], "status": 403}, "forbidden"),
    ({"kinds": ["HTTPError"], "status": 404}, "file_not_found"),
    ({"kinds": ["HfHubHTTPError"], "status": 429, "retry_after": "3"}, "rate_limited"),
    ({"kinds": ["HfHubHTTPError"], "status": 502}, "hub_unavailable"),
    ({"kinds": ["ConnectError"], "message": "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"}, "certificate"),
    ({"kinds": ["RemoteProtocolError"], "message": "peer closed connection"}, "interrupted"),
    ({"kinds": ["OSError"], "message": "Consistency check failed: file should be of size 9"}, "interrupted"),
    ({"kinds": ["ConnectError", "gaierror"], "errno": -2}, "hub_unreachable"),
    ({"kinds": ["JSONDecodeError", "ValueError"]}, "not_a_hub"),
]


@pytest.mark.parametrize(("report", "reason"), REPORTS)
def test_a_report_has_its_reason(report: dict[str, Any], reason: str) -> None:
    assert failures.classify(report).reason == reason


def test_every_row_is_hit_by_one_report_and_only_by_it() -> None:
    rows = [failures.TABLE.index(failures.classify(report)) for report, _reason in REPORTS]
    assert rows == list(range(len(failures.TABLE)))


def test_what_nobody_knows_is_said_to_be_unknown_and_not_tried_again() -> None:
    row = failures.classify({"kinds": ["ZeroDivisionError"], "message": "x"})
    assert row is failures.UNKNOWN and not row.retryable


def test_a_chain_of_exceptions_is_told_as_a_whole() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RuntimeError("the download failed") from error
    except RuntimeError as error:
        report = client.describe(error)
    assert report["errno"] == errno.ENOSPC and {"RuntimeError", "OSError"} <= set(report["kinds"])
    refused = urllib.error.HTTPError("http://x", 429, "slow", {"Retry-After": "7"}, io.BytesIO())  # type: ignore[arg-type]
    report = client.describe(refused)
    assert (report["status"], report["retry_after"]) == (429, "7")
    wrapped = urllib.error.URLError(ConnectionRefusedError(111, "refused"))
    assert failures.classify(client.describe(wrapped)).reason == "hub_unreachable"


def test_the_program_ends_when_nobody_holds_its_input(tmp_path: pathlib.Path) -> None:
    program = subprocess.Popen(
        [sys.executable, client.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    request = {"do": "fetch", "kind": "urls", "workers": 1, "timeout_s": 60, "files": []}
    part = {"name": "a", "url": "http://127.0.0.1:9/a", "size": 1, "part": str(tmp_path / "a.part")}
    assert program.stdin and program.stdout
    program.stdin.write(json.dumps({**request, "files": [part]}).encode() + b"\n")
    program.stdin.flush()
    events = [json.loads(line) for line in program.stdout]
    assert [event["event"] for event in events] == ["error", "end"] and program.wait(10) == 0
    assert failures.classify(events[0]).reason == "hub_unreachable"
    silent = subprocess.Popen([sys.executable, client.__file__], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert silent.stdin
    silent.stdin.close()
    assert silent.wait(10) != 0
