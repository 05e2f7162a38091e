# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Looks at GPUs, at what servers need, and at servers that run."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

from .._errors import LlmHostError
from .._gpu import clients, policy, query
from .._process import identity
from .._server import probe
from .._server.http import Client
from .check import EVERYWHERE, HERE
from .facts import Unread
from .look import Look, Scene

BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNIT = re.compile(r"sglang-[a-z0-9_-]+\.service$")
TOKEN_S = 40.0
P2P_S = 60.0
HEADERS = "import json, os, sysconfig; print(json.dumps(os.path.join(sysconfig.get_paths()['include'], 'Python.h')))"
P2P = """
import json, os, sys, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
def rank(number, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=2)
    part = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(part)
    torch.cuda.synchronize()
    if part[0].item() != 2:
        sys.exit("the sum is wrong")
if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began, limit = time.monotonic(), float(sys.argv[1])
    ranks = mp.start_processes(rank, args=(port,), nprocs=2, join=False, start_method="fork")
    done = False
    while not done and time.monotonic() - began < limit:
        done = ranks.join(timeout=1)
    for process in ranks.processes:  # never left behind on the GPUs
        process.kill()
    print(json.dumps({"outcome": "ok" if done else "hang", "seconds": time.monotonic() - began, "said": ""}))
"""


def gpus(scene: Scene) -> list[dict[str, Any]]:
    """The GPUs as the driver tells them, with who is behind each client; empty where there is no driver."""
    try:
        driver, name, note = query.open_driver("auto", scene.reader.timeout_s)
        try:
            found = query.look(driver, name, note)
            found = clients.enrich(found, {"clients", "xid"}, driver.nested, {}, scene.reader.timeout_s)
        finally:
            driver.close()
    except LlmHostError as error:
        if error.reason in ("no_driver", "no_gpu"):
            return []
        raise Unread(error.message) from None
    return [gpu.as_dict() for gpu in found.gpus]


def service_path(scene: Scene) -> str:
    """The PATH that the unit of a server gets."""
    given = scene.ask.environment.get("PATH")
    if given:
        return given
    first = [f"{scene.ask.runtime}/bin"] if scene.ask.runtime else []
    return ":".join([*first, "/usr/local/cuda/bin", BASE_PATH])


def tools(scene: Scene) -> dict[str, str | None]:
    """Where the compilers are, in the PATH of the service; None for what is missing."""
    reader, path = scene.reader, service_path(scene)
    home = scene.ask.environment.get("CUDA_HOME") or "/usr/local/cuda"
    found: dict[str, str | None] = {"PATH": path}
    for name, others in (("gcc", ("cc", "clang")), ("ninja", ()), ("nvcc", ())):
        found[name] = next((where for where in (reader.program(n, path) for n in (name, *others)) if where), None)
    if found["nvcc"] is None and reader.exists(f"{home}/bin/nvcc"):
        found["nvcc"] = f"{home}/bin/nvcc"
    python = f"{scene.ask.runtime}/bin/python" if scene.ask.runtime else "python3"
    header = None
    if reader.program(python) or reader.program("python3"):
        header = reader.python(HEADERS, reader.timeout_s, python if reader.program(python) else "python3")
    found["Python.h"] = header if header and reader.exists(header) else None
    return found


def listeners(scene: Scene) -> dict[str, list[dict[str, Any]]]:
    """Port -> who listens on it; a pid of 0 where that cannot be seen."""
    found: dict[str, list[dict[str, Any]]] = {}
    for port in scene.ask.ports.values():
        try:
            pids = identity.listeners(port, scene.reader.path("/proc"))
        except LlmHostError:
            found[str(port)] = [{"pid": 0, "comm": None, "unit": None}]
            continue
        found[str(port)] = [_who(process) for process in _processes(pids, scene.reader.path("/proc"))]
    return found


def _processes(pids: list[int], proc: str) -> list[identity.Process]:
    found = []
    for pid in pids:
        try:
            found.append(identity.read(pid, proc))
        except OSError:  # gone meanwhile
            continue
    return found


def _who(process: identity.Process) -> dict[str, Any]:
    return {"pid": process.pid, "comm": process.comm, "ppid": process.ppid, "unit": process.unit}


def strays(scene: Scene) -> list[dict[str, Any]]:
    """Processes of SGLang that are in no unit of it. Those inside other containers are theirs to look at."""
    proc = scene.reader.path("/proc")
    own = set(identity.ancestors(os.getpid(), proc)) if scene.reader.root == "" else set()
    here = _own_container(proc)
    return [
        _who(process)
        for process in _processes(identity.pids(proc), proc)
        if process.pid not in own
        and not process.zombie
        and policy.sglang(process)
        and process.container == here
        and not UNIT.search(process.unit or "")
    ]


def _own_container(proc: str) -> dict[str, Any] | None:
    try:
        return identity.read(1, proc).container
    except OSError:
        return None


def answers(scene: Scene) -> dict[str, Any]:
    """Instance -> whether a server that says it is well answers with a token, and in which time."""
    found = {}
    for name, port in sorted(scene.ask.ports.items()):
        client = Client(f"http://127.0.0.1:{port}")
        try:
            health = client.get("/health", 5.0).status
        except LlmHostError:
            continue  # nothing listens: no server says that it is well
        began = time.monotonic()
        problem = ""
        try:
            probe.ask(client, probe.Question(max_tokens=1, allow_replacement=True), TOKEN_S)
        except LlmHostError as error:
            answered = error.reason == "unauthorized" or error.details.get("stage") == "content"
            problem = "" if answered else error.message
        found[name] = {"health": health, "seconds": time.monotonic() - began, "problem": problem}
    return found


def p2p(scene: Scene) -> dict[str, Any]:
    """Whether two ranks can sum: the one test that a broken peer-to-peer cannot pass."""
    if scene.ask.runtime is None:
        raise Unread("no runtime was named, and torch is in it")
    said = scene.reader.run([f"{scene.ask.runtime}/bin/python", "-c", P2P, str(P2P_S)], P2P_S + 30)
    if said.code:
        last = (said.err.strip().splitlines() or ["nothing"])[-1]
        return {"outcome": "error", "seconds": 0.0, "said": identity.mask(last)[:300]}
    found: dict[str, Any] = json.loads(said.out.strip().splitlines()[-1])
    return found


LOOKS = (
    Look("gpus", ("gpu", "driver", "p2p"), gpus, EVERYWHERE),
    Look("tools", ("toolchain",), tools, HERE),
    Look("listeners", ("server",), listeners, HERE),
    Look("strays", ("server",), strays, HERE),
    Look("answers", ("server",), answers, HERE, probe=True),
    Look("p2p", ("p2p",), p2p, HERE, probe=True),
)
