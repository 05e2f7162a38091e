# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Room on the file systems that a server uses. Asked in a child: a network file system may never answer."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Mapping

from .._startup.evidence import SHM, Answer, Place

TIMEOUT_S = 3.0
# Variable of the server's environment -> what lies there.
CACHES = {
    "HF_HOME": "Hugging Face cache",
    "HF_HUB_CACHE": "Hugging Face cache",
    "HUGGINGFACE_HUB_CACHE": "Hugging Face cache",
    "XDG_CACHE_HOME": "caches",
    "TRITON_CACHE_DIR": "cache of Triton",
    "TORCHINDUCTOR_CACHE_DIR": "cache of torch.compile",
    "TORCH_EXTENSIONS_DIR": "cache of torch",
    "FLASHINFER_WORKSPACE_BASE": "cache of FlashInfer",
    "SGLANG_CACHE_DIR": "cache of SGLang",
    "SGL_DG_CACHE_DIR": "cache of DeepGEMM",
    "CUDA_CACHE_PATH": "cache of CUDA",
}


def wanted(environment: Mapping[str, str], state_dir: str = "", model_path: str = "") -> dict[str, str]:
    """Path -> purpose, of everything that a start writes to or reads from."""
    found = {}
    home = environment.get("HOME", "")
    if home.startswith("/"):
        found[os.path.join(home, ".cache")] = "caches"
    for name, purpose in CACHES.items():
        if environment.get(name, "").startswith("/"):
            found[environment[name]] = purpose
    found[environment.get("TMPDIR") or "/tmp"] = "temporary files"
    if state_dir:
        found.setdefault(state_dir, "state of this collection")
    if model_path.startswith("/"):
        found.setdefault(model_path, "model")
    found[SHM] = "shared memory"
    return found


def look(paths: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> Answer:
    """The file systems below these paths, each once. One that does not answer takes the whole answer with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            for fd in (0, 1, 2):
                os.dup2(writer, fd)
            rows = _rows(paths, writer)
            os.write(writer, json.dumps({"rows": rows}).encode() + b"\n")
            code = 0
        except BaseException:
            code = 1
        finally:
            os._exit(code)
    os.close(writer)
    data, deadline = b"", time.monotonic() + timeout_s
    try:
        poll = select.poll()
        poll.register(reader, select.POLLIN | select.POLLHUP)
        while poll.poll(max(0, int(1000 * (deadline - time.monotonic())))):
            part = os.read(reader, 65536)
            if not part:
                break
            data += part
    finally:
        os.close(reader)
    return _answer(data, child, timeout_s)


def _answer(data: bytes, child: int, timeout_s: float) -> Answer:
    *_before, last = data.rstrip(b"\n").rsplit(b"\n", 1)
    try:
        found = json.loads(last)
    except ValueError:
        found = {}
    if "rows" in found:
        os.waitpid(child, 0)
        return Answer([Place(*row) for row in found["rows"]])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)  # in uninterruptible sleep nobody can end it: left behind
    where = " (%s)" % found["at"] if "at" in found else ""
    return Answer(None, "A file system gave no answer within %g s%s: it hangs." % (timeout_s, where))


def _rows(paths: Mapping[str, str], writer: int) -> list[list[object]]:
    rows: list[list[object]] = []
    seen = set()
    for path, purpose in paths.items():
        os.write(writer, json.dumps({"at": path}).encode() + b"\n")
        there = path
        while not os.path.exists(there) and there not in ("/", ""):  # a cache that is yet to be made
            there = os.path.dirname(there)
        try:
            device, found = os.stat(there).st_dev, os.statvfs(there)
        except OSError:
            continue
        if device in seen or found.f_blocks == 0:
            continue
        seen.add(device)
        inodes = found.f_favail if found.f_files else None
        rows.append([path, purpose, found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, inodes])
    return rows
