# SPDX-License-Identifier: GPL-3.0-or-later
"""lab: a make-believe Proxmox node with real containers and a real SGLang on the CPU, for tests.

  lab packages                      install the Debian packages that the lab needs and the machine lacks
  lab probe                         try the kernel features for real; prints the missing ones, one a line
  lab build SUITE                   make the container image (bookworm, trixie) if it is not cached
  lab sglang [0.5.6.post2]          fill the wheelhouse with a real SGLang for the CPU, and write its lock
  lab wheels DIR REQUIREMENT...     download wheels for the containers' Python beside links to those of the wheelhouse
  lab up [--no-gpu]                 start the node pve1 (sshd on 127.0.0.1)
  lab nvml                          build the simulated GPU driver and put it into the running node
  lab ct VMID SUITE [--data FOLDER|fresh|none] [pct create options]
                                    make and start a container; wait until its systemd says it runs
  lab run CMD...                    run a command in the node
  lab inventory [--pct|--pct-remote] [VMID...]   print the generated part of an Ansible inventory
  lab model [--break HOW] [--inner N] DIR [llama|qwen2|qwen3]
                                    write a tiny model with random weights
  lab replay-runtime [--python 3.11] DIR
                                    make a folder that looks like a runtime and plays recorded starts
  lab tiny-wheels DIR               make a wheelhouse of a few kilobytes, for tests of installations
  lab status                        what runs, and the ways in
  lab down                          stop and remove everything but the cache; does no harm twice

Variables: LAB (state, /tmp/llmhost-lab), LAB_CACHE, LAB_PORT, LAB_CGROUP (v2|hybrid), LAB_NET (198.51.100),
LAB_MIRROR (Debian), LAB_TORCH_INDEX (where CPU builds of torch are). More in README.md beside this.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import lab_bed
import lab_gpu
import lab_image
from lab_common import LabError, Settings, need_root


def flag(args: list[str], name: str, value: bool = False) -> str:
    """Take an option out of the arguments -> its value, or '1', or ''."""
    for number, word in enumerate(args):
        if word == name:
            if not value:
                del args[number]
                return "1"
            if number + 1 == len(args):
                raise LabError(f"{name} needs a value")
            found = args[number + 1]
            del args[number : number + 2]
            return found
        if value and word.startswith(name + "="):
            del args[number]
            return word[len(name) + 1 :]
    return ""


def count(args: list[str], least: int, most: int, usage: str) -> None:
    if not least <= len(args) <= most:
        raise LabError(f"usage: lab {usage}")


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(__doc__.strip())
        return 0 if argv else 2
    command, args = argv[0], argv[1:]
    settings = Settings()
    if command not in ("model", "replay-runtime", "tiny-wheels", "inventory"):
        need_root()
    if command == "packages":
        count(args, 0, 0, "packages")
        lab_image.packages()
    elif command == "probe":
        import lab_probe

        return lab_probe.probe(settings)
    elif command == "build":
        count(args, 1, 2, "build SUITE [--privileged]")
        privileged = bool(flag(args, "--privileged"))
        lab_image.build(settings, args[0], privileged)
    elif command == "up":
        lab_bed.up(settings, gpu=not flag(args, "--no-gpu"))
    elif command == "down":
        lab_bed.down(settings)
    elif command == "status":
        return lab_bed.status(settings)
    elif command == "run":
        count(args, 1, 10**6, "run CMD...")
        return lab_bed.node_run(settings, *args)
    elif command == "ct":
        data = flag(args, "--data", value=True)
        count(args, 2, 10**6, "ct VMID SUITE [--data FOLDER|fresh|none] [pct create options]")
        lab_bed.container(settings, args[0], args[1], args[2:], data)
    elif command == "inventory":
        way = "llmhost.sglang.pct" if flag(args, "--pct") else ""
        way = "community.proxmox.proxmox_pct_remote" if flag(args, "--pct-remote") else way
        lab_bed.inventory(settings, args, way)
    elif command == "nvml":
        lab_gpu.install(settings)
    elif command == "sglang":
        import lab_wheels

        count(args, 0, 1, "sglang [VERSION]")
        lab_wheels.fill(settings, *args)
    elif command == "wheels":
        import lab_wheels

        count(args, 2, 10**6, "wheels DIR REQUIREMENT...")
        lab_wheels.more(settings, Path(args[0]), args[1:])
    elif command == "model":
        import lab_model

        how = flag(args, "--break", value=True)
        inner = flag(args, "--inner", value=True) or str(lab_model.INNER)
        if not inner.isdigit():
            raise LabError(f"--inner {inner}: give a number, the model's intermediate_size")
        count(args, 1, 2, "model [--break HOW] [--inner N] DIR [llama|qwen2|qwen3]")
        lab_model.make(Path(args[0]), args[1] if len(args) > 1 else "llama", how, int(inner))
    elif command == "replay-runtime":
        import lab_replay

        python = flag(args, "--python", value=True) or "3.11"
        count(args, 1, 1, "replay-runtime [--python 3.11] DIR")
        lab_replay.runtime(Path(args[0]), python)
    elif command == "tiny-wheels":
        import lab_tiny

        count(args, 1, 1, "tiny-wheels DIR")
        lab_tiny.make(Path(args[0]))
    else:
        raise LabError(f"lab has no command '{command}'; 'lab help' lists them")
    return 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(code)
    except LabError as error:
        sys.stderr.write(f"lab: {error}\n")
        sys.exit(1)
    except BrokenPipeError:
        os._exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
