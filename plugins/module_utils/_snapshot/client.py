# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The program that moves bytes: run by the runtime's Python with its huggingface_hub, or by any Python for URLs.

One JSON line on stdin says what to do (the token is in it, so that no command line and no environment holds it),
JSON lines on stdout tell what happened. When stdin closes, whoever started it is gone, and it ends at once.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

CHUNK_BYTES = 1 << 20
STEP_BYTES = 1 << 18
_SAY = threading.Lock()


class ShortBody(OSError):
    """The server sent less than it announced."""


class NotAHub(ValueError):
    """The answer is not one of a hub."""


def say(**event: Any) -> None:
    with _SAY:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def describe(error: BaseException) -> dict[str, Any]:
    """An exception with its chain as plain data."""
    kinds: list[str] = []
    report: dict[str, Any] = {"message": str(error) or type(error).__name__}
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:
        seen.add(id(step))
        kinds += [name.__name__ for name in type(step).__mro__ if name.__name__ not in kinds]
        response = getattr(step, "response", None)
        status = getattr(response, "status_code", None) or getattr(step, "code", None)
        headers = getattr(response, "headers", None) or getattr(step, "headers", None) or {}
        if isinstance(status, int) and "status" not in report:
            report["status"] = status
            report["code"] = headers.get("X-Error-Code")
            report["retry_after"] = headers.get("Retry-After")
        number = getattr(step, "errno", None)
        if isinstance(number, int) and "errno" not in report:
            report["errno"] = number
        reason = getattr(step, "reason", None)  # urllib wraps what happened
        step = reason if isinstance(reason, BaseException) else (step.__cause__ or step.__context__)
    report["kinds"] = [name for name in kinds if name not in ("object", "BaseException", "Exception")]
    return report


# ---------------------------------------------------------------- the hub
def list_hub(request: dict[str, Any]) -> None:
    from huggingface_hub import HfApi  # type: ignore[import-not-found,unused-ignore]

    api = HfApi(endpoint=request["endpoint"], token=request["token"] or False)
    info = api.model_info(
        request["repo_id"], revision=request["revision"], files_metadata=True, timeout=request["timeout_s"]
    )
    if not getattr(info, "sha", None) or not isinstance(info.siblings, list):
        raise NotAHub("the answer holds neither a commit nor files")
    files = []
    for sibling in info.siblings:
        large = sibling.lfs
        sha256 = (large.get("sha256") if isinstance(large, dict) else getattr(large, "sha256", None)) if large else None
        size = sibling.size
        if large and size is None:
            size = large.get("size") if isinstance(large, dict) else getattr(large, "size", None)
        files.append(
            {
                "name": sibling.rfilename,
                "size": size,
                "sha256": sha256,
                "git_sha1": None if large else sibling.blob_id,
            }
        )
    say(event="listing", commit=info.sha, files=files)


def size_on_hub(request: dict[str, Any]) -> None:
    """Sizes that the listing of a mirror left out, one request a file."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    for item in request["files"]:
        url = hf_hub_url(request["repo_id"], item["name"], revision=request["commit"], endpoint=request["endpoint"])
        found = get_hf_file_metadata(url, token=request["token"] or False, timeout=request["timeout_s"])
        etag = found.etag or ""
        say(
            event="file",
            name=item["name"],
            size=found.size,
            sha256=etag if len(etag) == 64 else None,
            git_sha1=etag if len(etag) == 40 else None,
        )


def fetch_hub(request: dict[str, Any], item: dict[str, Any]) -> None:
    """One file through the client's own transfer, which goes on where the partial file ends.

    ``hf_hub_download`` of newer clients begins each file anew in a new process; this function of theirs does not.
    """
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.file_download import http_get  # type: ignore[import-not-found,unused-ignore]
    from huggingface_hub.utils import build_hf_headers  # type: ignore[import-not-found,attr-defined,unused-ignore]

    url = hf_hub_url(request["repo_id"], item["name"], revision=request["commit"], endpoint=request["endpoint"])
    headers = build_hf_headers(token=request["token"] or False)
    headers["Accept-Encoding"] = "identity"  # or a range would count other bytes
    constants.DOWNLOAD_CHUNK_SIZE = (
        STEP_BYTES  # what of a block has come is lost with the connection, and unseen before
    )
    with open(item["part"], "ab") as part:
        http_get(url, part, resume_size=part.tell(), headers=headers, expected_size=item["size"])
        part.flush()
        os.fsync(part.fileno())


# ---------------------------------------------------------------- addresses
def ask(url: str, timeout_s: float, **options: Any) -> Any:
    request = urllib.request.Request(url, **options)
    request.add_header("User-Agent", "llmhost.sglang")
    request.add_header("Accept-Encoding", "identity")
    return urllib.request.build_opener().open(request, timeout=timeout_s)


def list_urls(request: dict[str, Any]) -> None:
    for item in request["files"]:
        with ask(item["url"], request["timeout_s"], method="HEAD") as answer:
            length = answer.headers.get("Content-Length")
        say(event="file", name=item["name"], size=int(length) if length and length.isdigit() else None)


def fetch_url(request: dict[str, Any], item: dict[str, Any]) -> None:
    with open(item["part"], "ab") as part:
        begin = part.tell()
        if item["size"] is not None and begin >= item["size"]:
            return
        headers = {"Range": "bytes=%d-" % begin} if begin else {}
        with ask(item["url"], request["timeout_s"], headers=headers) as answer:
            if begin and not (answer.headers.get("Content-Range") or "").startswith("bytes %d-" % begin):
                part.truncate(0)  # it sends all of it again
            left = answer.headers.get("Content-Length")
            came = 0
            while True:
                block = answer.read(CHUNK_BYTES)
                if not block:
                    break
                part.write(block)
                came += len(block)
            if left is not None and came < int(left):
                raise ShortBody("%d of %s bytes came" % (came, left))
        part.flush()
        os.fsync(part.fileno())


# ---------------------------------------------------------------- both
def fetch(request: dict[str, Any]) -> None:
    """All files with some workers. After a failure no new file is begun."""
    waiting: queue.Queue[dict[str, Any]] = queue.Queue()
    for item in request["files"]:
        waiting.put(item)
    one = fetch_hub if request["kind"] == "hub" else fetch_url
    failed = threading.Event()

    def work() -> None:
        while not failed.is_set():
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                one(request, item)
            except Exception as error:  # whatever it is: it is told, and judged where the table is
                failed.set()
                say(event="error", name=item["name"], **describe(error))
                return
            say(event="done", name=item["name"])

    workers = [threading.Thread(target=work, daemon=True) for _each in range(max(1, request["workers"]))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(3)


DEEDS = {
    ("list", "hub"): list_hub,
    ("sizes", "hub"): size_on_hub,
    ("sizes", "urls"): list_urls,
    ("fetch", "hub"): fetch,
    ("fetch", "urls"): fetch,
}


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    os.umask(0o022)
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        DEEDS[request["do"], request["kind"]](request)
    except Exception as error:
        say(event="error", name=None, **describe(error))
    say(event="end")
    os._exit(0)


if __name__ == "__main__":
    main()
