# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What a failed download means: the table from what the client raised to a reason and a cure."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Failure:
    """One row. The first that fits decides; every field that is set must fit.

    ``kinds`` are names of exception classes anywhere in the chain, ``codes`` the hub's own error codes.
    """

    reason: str
    cure: str
    kinds: frozenset[str] = frozenset()
    statuses: tuple[int, ...] = ()
    codes: frozenset[str] = frozenset()
    errnos: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    retryable: bool = False

    def fits(self, report: Mapping[str, Any]) -> bool:
        kinds = set(report.get("kinds") or ())
        text = str(report.get("message") or "")
        return (
            (not self.kinds or bool(self.kinds & kinds))
            and (not self.statuses or report.get("status") in self.statuses)
            and (not self.codes or report.get("code") in self.codes)
            and (not self.errnos or report.get("errno") in self.errnos)
            and (not self.words or any(word in text for word in self.words))
        )


def _kinds(*names: str) -> frozenset[str]:
    return frozenset(names)


TABLE: tuple[Failure, ...] = (
    Failure(
        "no_space",
        "the disk is full: free some space, or choose another path; what has come so far stays for the next run",
        errnos=(errno.ENOSPC, errno.EDQUOT),
    ),
    Failure(
        "write_failed",
        "the folder cannot be written: check its mount and who owns it",
        errnos=(errno.EACCES, errno.EROFS, errno.EPERM, errno.EIO, errno.EFBIG),
    ),
    Failure(
        "gated",
        "its owner lets in only who was accepted: ask for access on the model's page with the account that the token "
        "belongs to",
        kinds=_kinds("GatedRepoError"),
    ),
    Failure(
        "repo_disabled",
        "the hub has closed this repository: take the weights from elsewhere",
        kinds=_kinds("DisabledRepoError"),
    ),
    Failure(
        "revision_not_found",
        "the repository has no such branch, tag or commit: correct revision",
        kinds=_kinds("RevisionNotFoundError"),
    ),
    Failure(
        "file_not_found",
        "the source has no such file: correct the URL or the patterns",
        kinds=_kinds("EntryNotFoundError", "RemoteEntryNotFoundError"),
    ),
    Failure(
        "unauthorized",
        "the token is not accepted: give one that is valid, by token_file or by HF_TOKEN in the task's environment",
        statuses=(401,),
        words=("Invalid credentials", "Invalid username or password", "token is expired"),
    ),
    Failure(
        "repo_not_found",
        "there is no such repository, or it is private: check repo_id, and give a token that may read it",
        kinds=_kinds("RepositoryNotFoundError"),
    ),
    Failure(
        "repo_id_invalid",
        "repo_id is written as owner/name, with letters, digits, dots, dashes and underscores",
        kinds=_kinds("HFValidationError"),
    ),
    Failure("unauthorized", "the server wants credentials: give a token that may read this", statuses=(401,)),
    Failure("forbidden", "the server refuses this: check what the token may read", statuses=(403,)),
    Failure("file_not_found", "the server has nothing at this address: correct it", statuses=(404, 410)),
    Failure(
        "rate_limited",
        "the server wants fewer requests: wait, or give a token, for accounts may ask more often",
        statuses=(429,),
        retryable=True,
    ),
    Failure(
        "hub_unavailable",
        "the server has trouble of its own: run again later",
        statuses=(408, 500, 502, 503, 504, 520, 521, 522, 523, 524),
        retryable=True,
    ),
    Failure(
        "certificate",
        "the server's certificate is not trusted here: install the authority that signed it, or name its file in "
        "SSL_CERT_FILE and REQUESTS_CA_BUNDLE of the task's environment",
        words=("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
    ),
    Failure(
        "interrupted",
        "the connection breaks off again and again: run again, what has come so far stays",
        kinds=_kinds(
            "RemoteProtocolError",
            "ReadError",
            "ReadTimeout",
            "ChunkedEncodingError",
            "IncompleteRead",
            "ProtocolError",
            "ConnectionResetError",
            "ShortBody",
        ),
        retryable=True,
    ),
    Failure(
        "interrupted",
        "less came than was announced: run again, what has come so far stays",
        words=("Consistency check failed",),
        retryable=True,
    ),
    Failure(
        "hub_unreachable",
        "no connection to the server: check the address, name service, firewall and proxy (HTTPS_PROXY in the task's "
        "environment), or give a mirror by endpoint",
        kinds=_kinds(
            "ConnectError",
            "ConnectTimeout",
            "ConnectionError",
            "ProxyError",
            "NewConnectionError",
            "gaierror",
            "URLError",
            "TimeoutError",
            "PoolTimeout",
            "OfflineModeIsEnabled",
            "LocalEntryNotFoundError",
        ),
        retryable=True,
    ),
    Failure(
        "not_a_hub",
        "what answers there is no Hugging Face hub: check endpoint, and whether a proxy or a portal answers instead",
        kinds=_kinds("FileMetadataError", "JSONDecodeError", "RequestsJSONDecodeError", "NotAHub"),
    ),
)
UNKNOWN = Failure("client_failed", "the download failed in a way that is not known here; its own words stand above")


def classify(report: Mapping[str, Any]) -> Failure:
    return next((row for row in TABLE if row.fits(report)), UNKNOWN)
