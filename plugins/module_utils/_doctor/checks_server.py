# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Checks of what a server needs to start and of servers that run: compilers, ports, strays, false readiness."""

from __future__ import annotations

from .._remedy import Remedy
from .check import HERE, Check, Result, View, fail, ok, skip, warn

SLOW_TOKEN_S = 30.0
PACKAGES = {"gcc": "build-essential", "Python.h": "python3-dev", "ninja": "ninja-build", "nvcc": "cuda-nvcc-13-x"}


def _toolchain(view: View) -> Result:
    tools = view.need("tools")
    missing = [name for name in ("gcc", "Python.h", "ninja", "nvcc") if not tools.get(name)]
    if not missing:
        return ok("gcc, Python.h, ninja and nvcc are in reach of the service")
    told = f"not in reach of the service: {', '.join(missing)} (PATH={tools['PATH']})"
    packages = " ".join(PACKAGES[name] for name in missing)
    if set(missing) & {"gcc", "Python.h"}:
        return fail(told + ". Kernels are compiled at start", packages=packages)
    return warn(told + ". FlashInfer compiles with them what it does not bring", packages=packages)


def _ports(view: View) -> Result:
    if not view.ask.ports:
        return skip("no port was named")
    taken = view.need("listeners")
    told = []
    for name, port in sorted(view.ask.ports.items()):
        for owner in taken.get(str(port), []):
            if owner.get("unit") != f"sglang-{name}.service":
                who = (
                    f"PID {owner['pid']} ({owner['comm']}, {owner['unit'] or 'no unit'})"
                    if owner["pid"]
                    else "somebody"
                )
                told.append(f"{port}, meant for {name}, is taken by {who}")
    return fail("; ".join(told)) if told else ok("the ports are free or their own server's")


def _strays(view: View) -> Result:
    strays = view.need("strays")
    if strays:
        told = ", ".join(
            f"PID {s['pid']} ({s['comm']}, parent {s['ppid']}, {s['unit'] or 'no unit'})" for s in strays[:5]
        )
        return warn(f"{len(strays)} processes of SGLang belong to no unit of it: {told}")
    return ok("every process of SGLang belongs to its unit")


def _ready(view: View) -> Result:
    answers = view.need("answers")
    if not answers:
        return skip("no server runs")
    told = []
    for name, answer in sorted(answers.items()):
        if answer["health"] == 200 and (answer["problem"] or (answer["seconds"] or 0) > SLOW_TOKEN_S):
            told.append(
                f"{name}: /health says 200, but {answer['problem'] or '%.0f s for a token' % answer['seconds']}"
            )
    return fail("; ".join(told)) if told else ok(", ".join(f"{name} answers" for name in sorted(answers)))


ROWS = (
    Check(
        id="toolchain",
        family="toolchain",
        places=HERE,
        severity="high",
        meaning="Compilers that kernels are built with at start are missing.",
        look="gcc, ninja, nvcc in the PATH of the service, CUDA_HOME, Python.h of the runtime's Python",
        remedy=Remedy(
            "install_toolchain",
            "Install {packages}, and let PATH of the unit hold the runtime's bin and /usr/local/cuda/bin "
            "(CUDA_HOME=/usr/local/cuda).",
            host_action="install the toolchain",
            safe=True,
        ),
        find=_toolchain,
        task={
            "ansible.builtin.apt": {"name": ["build-essential", "python3-dev", "ninja-build"], "state": "present"},
        },
        cases=("community-scripts/ProxmoxVED#2047",),
    ),
    Check(
        id="port_taken",
        family="server",
        places=HERE,
        severity="high",
        meaning="A port that a server is to listen on is taken by somebody else.",
        look="listening sockets and their owners",
        remedy=Remedy("free_port", "Stop its owner, or give the instance another port."),
        find=_ports,
        gpu=False,
    ),
    Check(
        id="orphan",
        family="server",
        places=HERE,
        severity="medium",
        meaning="Processes of SGLang run outside the units that should hold them.",
        look="sglang:: processes and launchers by control group",
        remedy=Remedy(
            "clean_orphans",
            "Stop them with llmhost.sglang.gpu_clean (playbook clean), which goes by control group and identity, and "
            "run servers as units.",
            host_action="clean",
        ),
        find=_strays,
        gpu=False,
        task={"llmhost.sglang.gpu_clean": {"gpus": ["all"]}},
        cases=("sgl-project/sglang#31645", "sgl-project/sglang#23627"),
    ),
    Check(
        id="false_ready",
        family="server",
        places=HERE,
        severity="high",
        meaning="A server says that it is well and answers nothing.",
        look="a completion of one token within 30 s, where asked for",
        remedy=Remedy(
            "restart_term",
            "Restart the unit, with SIGTERM and enough time to end (playbook restart): state of a killed server is "
            "what makes the next one hang.",
            host_action="restart the server",
        ),
        find=_ready,
        probe=True,
        gpu=False,
        cases=("sgl-project/sglang#22779",),
    ),
)
