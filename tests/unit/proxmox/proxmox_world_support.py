# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a folder: its files, and the lab's own `pct` run in this process on them."""

from __future__ import annotations

import importlib.util
import io
import stat
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import run
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox.node import Done, Node

PCT = Path(__file__).resolve().parents[2] / "lab" / "node" / "pct.py"
UUIDS = ("GPU-11111111-0000-4000-8000-000000000000", "GPU-22222222-0000-4000-8000-000000000001")
CONF = """\
arch: amd64
hostname: llm
memory: 512
net0: name=eth0,bridge=vmbr0,ip=dhcp
ostype: debian
rootfs: local:129/vm-129-disk-0.raw,size=4G
unprivileged: 1
"""


class World(Node):
    """Device files are pipes here: making real ones needs root. `commands` is what was run."""

    def __init__(self, folder: Path, conf: str | None = CONF, vmid: str = "129") -> None:
        super().__init__(str(folder), self.execute)
        self.folder = folder
        self.vmid = vmid
        self.commands: list[list[str]] = []
        self.alive: set[str] = set()
        self.born = 1
        for name in ("etc/pve/nodes/other/lxc", "etc/pve/nodes/other/qemu-server", "etc/pve/lxc", "proc/net", "dev"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("run/lock/lxc", "srv/models", "srv/state"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if conf is not None:
            self.conf = conf
        self.standin = self._standin()
        self.hook: Any = None  # called before each pct
        self.sockets()

    # -- files --------------------------------------------------------------------------------------------------

    @property
    def conf(self) -> str:
        return (self.folder / f"etc/pve/lxc/{self.vmid}.conf").read_bytes().decode("utf-8", "surrogateescape")

    @conf.setter
    def conf(self, text: str) -> None:
        path = self.folder / f"etc/pve/lxc/{self.vmid}.conf"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

    def put(self, path: str, text: str) -> None:
        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def gpus(self, count: int = 2, tools: bool = True) -> None:
        """The driver's folder in /proc and the device files."""
        names = [f"nvidia{number}" for number in range(count)] + ["nvidiactl", "nvidia-uvm"]
        names += ["nvidia-uvm-tools"] if tools else []
        for name in names:
            self.device(f"/dev/{name}")
        for number in range(count):
            self.put(
                f"proc/driver/nvidia/gpus/0000:0{number + 1}:00.0/information",
                f"Model: \t\t NVIDIA L40S\nGPU UUID: \t {UUIDS[number]}\nBus Location: \t 0000:0{number + 1}:00.0\n"
                f"Device Minor: \t {number}\n",
            )
        self.put("proc/devices", "Character devices:\n  1 mem\n195 nvidia\n508 nvidia-uvm\n\nBlock devices:\n  8 sd\n")

    def device(self, path: str) -> None:
        import os

        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            os.mkfifo(place)

    def mode(self, path: str) -> int:
        mode = super().mode(path)
        return stat.S_IFCHR | 0o666 if stat.S_ISFIFO(mode) else mode

    # -- running ------------------------------------------------------------------------------------------------

    def sockets(self) -> None:
        lines = [f"0000: 2 0 10000 1 1 77 @/var/lib/lxc/{vmid}/command\n" for vmid in sorted(self.alive)]
        self.put("proc/net/unix", "Num RefCount Protocol Flags Type St Inode Path\n" + "".join(lines))

    def start(self, vmid: str = "129") -> None:
        self.alive.add(vmid)
        self.born += 1
        self.sockets()

    def start_of(self, vmid: str) -> str:
        return f"4711:{self.born}"

    def _standin(self) -> Any:
        spec = importlib.util.spec_from_file_location("lab_node_pct_world", PCT)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.ETC = str(self.folder / "etc/pve/lxc")
        module.LOCKS = str(self.folder / "run/lock/lxc")
        module.LXC = str(self.folder / "var/lib/lxc")
        module.POOL = str(self.folder / "var/lib/pct-standin")
        module.active = lambda: self.alive
        module.lxc_config = lambda vmid, conf: None
        module.quorum = self._quorum
        module.device = self._device
        module.cmd_start = self._start
        module.COMMANDS["start"] = (self._start, *module.COMMANDS["start"][1:])
        module.COMMANDS["shutdown"] = (self._shutdown, *module.COMMANDS["shutdown"][1:])
        return module

    def _quorum(self) -> None:
        if not self.quorate():
            raise self.standin.Die("cluster not ready - no quorum?")

    def _device(self, path: str) -> tuple[int, int]:
        try:
            mode = self.mode(path)
        except FileNotFoundError:
            raise self.standin.Die(f"Device {path} does not exist") from None
        if not stat.S_ISCHR(mode):
            raise self.standin.Die(f"{path} is not a device")
        return mode, 0

    def _start(self, args: list[str], opts: dict[str, str]) -> None:
        (vmid,) = args
        pct = self.standin
        main, pending, snapshots = pct.load(vmid)
        pct.check_lock(main)
        for key in main:
            if key.startswith("dev"):
                self._device(pct.props(main[key], "path")["path"])
        pct.store(vmid, pct.apply(main, pending), {}, snapshots)
        self.start(vmid)

    def _shutdown(self, args: list[str], opts: dict[str, str]) -> None:
        self.alive.discard(args[0])
        self.sockets()

    def execute(self, command: Sequence[str]) -> Done:
        self.commands.append(list(command))
        if command[0] != "pct":
            return 127, "", f"{command[0]}: command not found"
        if self.hook:
            hook, self.hook = self.hook, None
            hook()
        pct, out, err = self.standin, io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                args, opts = pct.getopt(command[1], list(command[2:]))
                pct.COMMANDS[command[1]][0](args, opts)
                code = 0
            except pct.Die as failure:
                err.write(failure.text + "\n")
                code = failure.rc
        return code, out.getvalue(), err.getvalue()

    # -- the module ---------------------------------------------------------------------------------------------

    def apply(self, check: bool = False, **params: Any) -> dict[str, Any]:
        return run.run({"vmid": int(self.vmid), **params}, check, self)
