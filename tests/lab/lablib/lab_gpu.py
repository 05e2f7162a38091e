# SPDX-License-Identifier: GPL-3.0-or-later
"""The one simulated part: a GPU driver's library and `nvidia-smi` in the node, and device nodes without a driver.

Built outside (gcc), kept in the cache by the hash of its sources, copied into the node's overlay: nothing of it
reaches the machine. What it answers stands in one text file, /etc/llmhost-sim/gpu.state in the node.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lab_common import HERE, LabError, Settings, say

SOURCES = HERE / "nvml"
STATE = "/etc/llmhost-sim/gpu.state"
CARDS = 2
# SGLang names its scheduler `sglang::scheduler`; the kernel keeps 15 characters of that. With several cards a
# scheduler of tensor rank 1 is called `sglang::scheduler_TP1`.
SCHEDULER = "^sglang::schedul"
DEFAULT_STATE = f"""\
# Read again for each call. Statements: tests/lab/nvml/README.md
gpu 0 name="NVIDIA L40S (simulated)" total=49140 reserved=610 base=4
gpu 1 name="NVIDIA L40S (simulated)" total=49140 reserved=610 base=4
release_ms 1500
# Every real process of that name holds memory on card 0, and gives it back 1.5 s after its death.
hold gpu=0 mem=20000 comm={SCHEDULER}
"""


def built(settings: Settings) -> Path:
    """The compiled driver, from the cache or made now."""
    sys.path.insert(0, str(SOURCES))  # the driver brings its own recipe
    import nvml_build

    start = time.monotonic()
    try:
        place = nvml_build.built(settings.cache / "nvml")
    except RuntimeError as error:
        raise LabError(str(error)) from None
    if time.monotonic() - start > 0.5:
        say(f"simulated driver: compiled in {time.monotonic() - start:.0f} s")
    return place


def install(settings: Settings, only_if_there: bool = False) -> None:
    import lab_bed  # it starts us at `up`: not at the top, for each imports the other

    if not (SOURCES / "Makefile").is_file():
        if only_if_there:
            return
        raise LabError(f"no simulated driver in {SOURCES}")
    try:
        place = built(settings)
    except LabError as error:
        if not only_if_there:
            raise
        say(f"node without a GPU: {error}")
        return

    def put(source: Path, target: str) -> None:
        lab_bed.node_out(settings, "sh", "-c", f"cat > {target} && chmod 755 {target}", stdin=source.read_bytes())

    folder = lab_bed.node_out(
        settings, "sh", "-c", "ls -d /usr/lib/x86_64-linux-gnu 2>/dev/null || echo /usr/lib"
    ).strip()
    put(place / "lib/libnvidia-ml.so.1", f"{folder}/libnvidia-ml.so.1")
    for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
        put(place / "bin" / name, f"/usr/bin/{name}")
    nodes = " ".join(f"/dev/nvidia{n}:195:{n}" for n in range(CARDS)) + " /dev/nvidiactl:195:255"
    nodes += " /dev/nvidia-uvm:508:0 /dev/nvidia-uvm-tools:508:1"
    script = (
        f"ldconfig; mkdir -p -m 777 {STATE.rsplit('/', 1)[0]}; [ -e {STATE} ] || cat > {STATE}\n"
        # character devices of the real driver's numbers with no driver behind them: open says ENXIO where the
        # device cgroup allows it, and EPERM where it does not
        f"echo {nodes} | tr ' ' '\\n' | while IFS=: read -r path major minor; do"
        " [ -e $path ] || mknod -m 666 $path c $major $minor; done"
    )
    lab_bed.node_out(settings, "sh", "-ec", script, stdin=DEFAULT_STATE.encode())
    cards = lab_bed.node_out(settings, "nvidia-smi", "-L").strip().splitlines()
    say(f"simulated driver: {len(cards)} cards, what they say stands in {STATE} of the node")
