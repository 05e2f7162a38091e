# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages of the machine, and the container images (mmdebstrap, cached)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from lab_common import ROOT_MAP, LabError, Settings, mib, only_one, replace_tree, run, say

# program (or file) -> Debian package. Looked for by the program, so that another distribution's package does too.
MACHINE = {
    "lxc-start": "lxc",
    "newuidmap": "uidmap",
    "mmdebstrap": "mmdebstrap",
    "zstd": "zstd",
    "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
    "/usr/bin/python3": "python3",
    "ip": "iproute2",
    "pgrep": "procps",
    "nsenter": "util-linux",
    "gcc": "gcc",
    "make": "make",
    "/usr/include/stdlib.h": "libc6-dev",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}
# Installed here for their programs alone: whoever had them not running before shall not have them running after.
SERVICES = {"lxc": ("lxc.service", "lxc-net.service"), "openssh-server": ("ssh.service",)}

SUITES = ("bookworm", "trixie")
# python3-venv: the runtime is a venv made in the container, with no network. util-linux: SGLang runs lscpu.
# libnuma1: SGLang loads it where it is. sudo: for `become` of a user who is not root.
IMAGE = (
    "systemd,systemd-sysv,dbus,libpam-systemd,python3,python3-venv,iproute2,procps,openssh-server,ca-certificates,"
    "util-linux,libnuma1,sudo"
)
# These fail in every unprivileged container and would leave systemd "degraded" for ever.
MASKED = (
    "sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount dev-hugepages.mount "
    "systemd-modules-load.service systemd-networkd.service apt-daily.timer apt-daily-upgrade.timer"
)
# Part of the image's name, so that a changed recipe builds anew: bump by hand when _debootstrap() itself changes.
RECIPE = 2


def missing_packages() -> list[str]:
    def there(what: str) -> bool:
        return os.path.exists(what) if what.startswith("/") else shutil.which(what, path=_path()) is not None

    return sorted({package for what, package in MACHINE.items() if not there(what)})


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


def packages() -> None:
    """Install what the machine lacks, with apt, and say so. Nothing happens when all is there."""
    need = missing_packages()
    if not need:
        say("Debian packages: all there")
        return
    if not shutil.which("apt-get"):
        raise LabError(
            f"missing: {' '.join(need)}, and there is no apt-get here: install them with your package manager"
        )
    say(f"Debian packages: installing {' '.join(need)}")
    start = time.monotonic()
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    lists = Path("/var/lib/apt/lists")
    if not any(lists.glob("*Packages*")):
        run("apt-get", "-q", "update", env=env, cure="No package lists: see 'apt-get update'.")
    command = ("apt-get", "-qy", "--no-install-recommends", "install", *need)
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:  # so that no sshd and no lxcbr0 start on the machine because a test needed the programs
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        try:
            out = run(*command, env=env)
        except LabError:  # stale lists are the usual cause
            run("apt-get", "-q", "update", env=env, cure="See 'apt-get update'; a mirror may be down.")
            out = run(*command, env=env, cure=f"Install by hand, then go on: apt-get install {' '.join(need)}")
    finally:
        if ours:
            policy.unlink()
    if os.path.isdir("/run/systemd/system"):
        for package in need:
            for unit in SERVICES.get(package, ()):
                subprocess.run(["systemctl", "-q", "disable", "--now", unit], stderr=subprocess.DEVNULL, check=False)
                say(f"  {unit} left disabled: the lab needs only the package's programs")
    got = re.search(r"Need to get ([^\n]*?) of archives", out)
    say(f"Debian packages: {got.group(1) if got else 'nothing'} downloaded, {time.monotonic() - start:.0f} s")
    still = missing_packages()
    if still:
        raise LabError(f"still missing after the installation: {' '.join(still)}")


def image_name(suite: str) -> str:
    """``bookworm-1f2e3d4c``: the recipe is in the name, so a lab that runs keeps the image it started with."""
    key = hashlib.sha256(f"{RECIPE} {IMAGE} {MASKED}".encode()).hexdigest()[:8]
    return f"{suite}-{key}"


def build(settings: Settings, suite: str, privileged: bool = False) -> str:
    """Make the image and unpack it once, with ids as an unprivileged (or privileged) container has them."""
    if suite not in SUITES:
        raise LabError(f"suite '{suite}': choose one of {', '.join(SUITES)}")
    name = image_name(suite)
    images, templates = settings.cache / "images", settings.cache / "templates"
    kind = "priv" if privileged else "unpriv"
    tarball = images / f"{name}.tar.zst"
    if (templates / name / kind).is_dir():
        return name
    with only_one(settings.cache / f".lock-{suite}", f"the image {suite}"):
        images.mkdir(parents=True, exist_ok=True)
        if not tarball.exists():
            _debootstrap(settings, suite, tarball)
        place = templates / name / kind
        if not place.is_dir():
            start = time.monotonic()
            new = templates / name / f".new-{kind}"
            if new.exists():
                shutil.rmtree(new)
            new.mkdir(parents=True)
            run("tar", "--zstd", "-xpf", tarball, "-C", new, "--numeric-owner", "--exclude=./dev/*")
            if not privileged:
                shift_ids(new, ROOT_MAP[0])
            replace_tree(new, place)
            say(f"image {suite}: unpacked ({kind}) in {time.monotonic() - start:.0f} s")
    return name


def _debootstrap(settings: Settings, suite: str, tarball: Path) -> None:
    say(f"image {suite}: mmdebstrap downloads and unpacks Debian packages ...")
    start = time.monotonic()
    part = tarball.with_name(f".part-{os.getpid()}-{tarball.name}")
    for old in tarball.parent.glob(f".part-*-{tarball.name}"):
        old.unlink()
    log = tarball.parent / f"{suite}.log"
    mask = f'for u in {MASKED}; do ln -sf /dev/null "$1/etc/systemd/system/$u"; done'
    # mmdebstrap copies the machine's names; machine id and ssh host keys are each container's own
    clean = 'rm -f "$1/etc/hostname" "$1/etc/resolv.conf" "$1"/etc/ssh/ssh_host_*; : > "$1/etc/machine-id"'
    sshd = (
        "printf 'HostKey /etc/ssh/ssh_host_ed25519_key\\nPasswordAuthentication no\\nKbdInteractiveAuthentication no\\n"
        'PermitRootLogin prohibit-password\\nUseDNS no\\n\' > "$1/etc/ssh/sshd_config.d/lab.conf"'
    )
    try:
        run(
            "mmdebstrap",
            "--verbose",
            "--variant=minbase",
            "--components=main",
            f"--include={IMAGE}",
            *(f"--dpkgopt=path-exclude=/usr/share/{d}/*" for d in ("doc", "man", "locale")),
            f"--customize-hook={mask}",
            f"--customize-hook={clean}",
            f"--customize-hook={sshd}",
            suite,
            part,
            *([settings.mirror] if settings.mirror else []),
            log=log,
            env={**os.environ, "LC_ALL": "C"},
            cure=f"The whole log: {log}\nIs a Debian mirror reachable? Another one: LAB_MIRROR=http://host/debian",
        )
    finally:
        if part.exists() and not _complete(part):
            part.unlink()
    got = re.findall(r"Need to get ([\d.,]+ \S+?B)(?:/| of)", log.read_text())
    part.rename(tarball)
    say(
        f"image {suite}: {' + '.join(got) or 'an unknown amount'} downloaded, {mib(tarball.stat().st_size)} on disk, "
        f"{time.monotonic() - start:.0f} s"
    )


def _complete(tarball: Path) -> bool:
    return subprocess.run(["zstd", "-tq", str(tarball)], stderr=subprocess.DEVNULL, check=False).returncode == 0


def shift_ids(top: Path, offset: int) -> None:
    """Add an offset to every owner, as the files of an unprivileged container have them on the node."""

    def one(path: str) -> None:
        was = os.lstat(path)
        if was.st_uid >= offset:
            return
        os.chown(path, was.st_uid + offset, was.st_gid + offset, follow_symlinks=False)
        if was.st_mode & 0o7000 and not os.path.islink(path):
            os.chmod(path, was.st_mode & 0o7777)  # chown takes set-id bits away

    one(str(top))
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            one(os.path.join(folder, name))
