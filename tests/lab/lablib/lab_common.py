# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the lab keeps things, how it talks, and the few helpers that its parts share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
NODE_FILES = HERE / "node"

# Unprivileged containers map their ids 0..65535 to these on the node (as Proxmox does).
ROOT_MAP = 100000, 65536

# What the node replaces by copy-on-write overlays. LAB must not lie below one of them: an overlay on the
# machine's folder would then be the upper of another overlay, which the kernel refuses.
OVERLAID = ("/etc", "/usr", "/var", "/opt", "/srv", "/home", "/dev")
HIDDEN = (*OVERLAID, "/root", "/run", "/proc", "/sys")


class LabError(Exception):
    """Something that a person has to know or do; its text goes to stderr as it is."""


class Settings:
    """The lab's variables, read once. Everything a running lab needs later is recorded below ``lab``."""

    def __init__(self) -> None:
        env = os.environ
        self.lab = Path(os.path.realpath(env.get("LAB") or "/tmp/llmhost-lab"))
        home = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or "/root", ".cache")
        ours = env.get("LLMHOST_CACHE") or os.path.join(home, "llmhost-sglang")
        self.cache = Path(os.path.realpath(env.get("LAB_CACHE") or os.path.join(ours, "lab")))
        self.port = env.get("LAB_PORT") or ""
        self.cgroup = env.get("LAB_CGROUP") or "v2"
        self.net = env.get("LAB_NET") or "198.51.100"
        self.mirror = env.get("LAB_MIRROR") or ""
        self.torch_index = env.get("LAB_TORCH_INDEX") or ""
        if self.cgroup not in ("v2", "hybrid"):
            raise LabError(f"LAB_CGROUP={self.cgroup}: give v2 or hybrid")
        for top in HIDDEN:
            if str(self.lab) == top or str(self.lab).startswith(top + "/"):
                raise LabError(
                    f"LAB={self.lab} lies below {top}, which the node covers with its own: choose a folder below /tmp"
                )
        if len(self.lab.parts) < 3:
            raise LabError(f"LAB={self.lab}: give a folder of its own, such as /tmp/llmhost-lab")

    @property
    def name(self) -> str:
        """Short and unique for this LAB: names the control group."""
        return f"llmhost-lab-{zlib.crc32(str(self.lab).encode()):08x}"

    @property
    def wheelhouse(self) -> Path:
        return self.cache / "wheelhouse"

    def read(self, what: str) -> str:
        """One recorded word of the running lab (``port``, ``pid``, ...); empty when there is none."""
        try:
            return (self.lab / what).read_text().strip()
        except OSError:
            return ""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def need_root() -> None:
    if os.geteuid():
        raise LabError("the lab needs root: namespaces, mounts and containers are made for real")


@contextlib.contextmanager
def only_one(lock: Path, what: str):
    """Two labs may share a cache: the second one waits while the first fills it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another lab that works on {what}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def timed(what: str):
    """Says what starts, and how long it took."""
    say(f"{what} ...")
    start = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - start:.0f} s")


def mib(number: float) -> str:
    return f"{number / (1 << 20):.0f} MiB" if number >= 1 << 20 else f"{number / 1024:.0f} KiB"


def size_of(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink())


def run(*command: object, cure: str = "", log: Path | None = None, **more: object) -> str:
    """Run a command, return its stdout; a failure names the command, its last lines and the cure."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, **more)
    except FileNotFoundError:
        raise LabError(f"{words[0]} is missing: run 'lab packages'") from None
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    if log:
        log.write_text(out + err)
    if done.returncode:
        tail = "\n".join("    " + line for line in (err.strip() or out.strip()).splitlines()[-12:])
        raise LabError(f"'{' '.join(words)}' failed ({done.returncode}):\n{tail}" + (f"\n{cure}" if cure else ""))
    return out


def replace_tree(new: Path, place: Path) -> None:
    """Put a finished folder in its place. A half-made one never has the final name."""
    if place.exists():
        shutil.rmtree(place)
    new.rename(place)


def write_aside(place: Path, text: str, mode: int = 0o644) -> None:
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    aside.write_text(text)
    aside.chmod(mode)
    aside.rename(place)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents; they belong to whom the nearest folder that was there belongs."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir()
    folder.chmod(0o755)
    if os.geteuid() == 0:
        parent = folder.parent.stat()
        os.chown(folder, parent.st_uid, parent.st_gid)


def put_owner(folder: Path) -> None:
    """Give all in a folder to the folder's owner (below a container's data folder: that container's root), and make
    it world-readable whatever the umask was."""
    owner = folder.stat()
    for path in folder.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)
        if os.geteuid() == 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
