# SPDX-License-Identifier: GPL-3.0-or-later
"""A package repository with tiny packages of the right names and versions, and a kernel module that is a text file.

What they put into a container answers as the real programs do: dkms builds where headers are and fails where it is
told to, modinfo tells what is built, modprobe "loads" it into /proc/driver/nvidia/version (a tmpfs in the container).
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

OLD, NEW, NEWER = "590.48.01", "595.91.07", "610.57.04"
NEXT_KERNEL = "99.0.1-1-sim"  # installed, not running: what the next boot would take
LIB = "usr/lib/x86_64-linux-gnu"
MAINTAINER = "llmhost.sglang contributors <llmhost@example.org>"

DKMS = r"""#!/bin/sh
# dkms status | dkms autoinstall -k KERNEL
version=$(cat /usr/src/nvidia-sim/version 2>/dev/null) || exit 0
if [ "$1" = status ]; then
  for made in /lib/modules/*/updates/dkms/nvidia.version; do
    [ -e "$made" ] || { echo "nvidia/$version: added"; break; }
    kernel=${made#/lib/modules/}
    echo "nvidia/$(cat "$made"), ${kernel%%/*}, x86_64: installed"
  done
  exit 0
fi
kernel=$3
[ -e "/lib/modules/$kernel/build/Makefile" ] || { echo "headers of $kernel are missing" >&2; exit 21; }
if grep -qsx "$version $kernel" /etc/llmhost-sim/dkms-fails; then echo "make: Error 2" >&2; exit 10; fi
mkdir -p "/lib/modules/$kernel/updates/dkms"
echo "$version" > "/lib/modules/$kernel/updates/dkms/nvidia.version"
"""
MODINFO = r"""#!/bin/sh
# modinfo -k KERNEL -F version nvidia
cat "/lib/modules/$2/updates/dkms/nvidia.version" 2>/dev/null && exit 0
echo "modinfo: ERROR: Module nvidia not found." >&2
exit 1
"""
MODPROBE = r"""#!/bin/sh
[ "$1" = nvidia ] || exit 0
version=$(cat "/lib/modules/$(uname -r)/updates/dkms/nvidia.version") || exit 1
mkdir -p /proc/driver/nvidia
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $version  Release Build" > /proc/driver/nvidia/version
"""
ONE_PINNING = "".join(f"{field}: nvidia-driver-pinning\n" for field in ("Provides", "Conflicts", "Replaces"))
QUIET = "#!/bin/sh\nexit 0\n"
BUILD = """#!/bin/sh
for kernel in /lib/modules/*; do dkms autoinstall -k "${kernel#/lib/modules/}" || true; done
"""


def deb(
    repo: pathlib.Path,
    name: str,
    version: str,
    files: dict[str, str] | None = None,
    links: dict[str, str] | None = None,
    depends: str = "",
    more: str = "",
    postinst: str = "",
) -> str:
    """Make one package and return its entry of the index."""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: {MAINTAINER}\n"
    control += (f"Depends: {depends}\n" if depends else "") + more + f"Description: {name}, simulated\n"
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        (top / "DEBIAN").mkdir()
        (top / "DEBIAN/control").write_text(control)
        if postinst:
            (top / "DEBIAN/postinst").write_text(postinst)
            (top / "DEBIAN/postinst").chmod(0o755)
        for path, text in (files or {}).items():
            place = top / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            place.chmod(0o755 if text.startswith("#!") else 0o644)
        for path, target in (links or {}).items():
            place = top / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
        for path in [top, *top.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        target_file = repo / f"{name}_{version}.deb"
        subprocess.run(
            ["dpkg-deb", "-Znone", "--root-owner-group", "-b", top, target_file], check=True, capture_output=True
        )
    return control + entry(target_file)


def entry(path: pathlib.Path) -> str:
    data = path.read_bytes()
    return f"Filename: ./{path.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"


def libraries(version: str) -> tuple[dict[str, str], dict[str, str]]:
    names = ("libcuda.so", "libnvidia-ml.so")
    return {f"{LIB}/{n}.{version}": "" for n in names}, {f"{LIB}/{n}.1": f"{n}.{version}" for n in names}


def from_debian(repo: pathlib.Path, suite: str, names: tuple[str, ...], cache: pathlib.Path) -> str:
    """Real packages of Debian that the container lacks, from the mirror that its image came from."""
    keep = cache / "debs" / suite
    keep.mkdir(parents=True, exist_ok=True)
    found = {name: sorted(keep.glob(name + "_*.deb")) for name in names}
    if not all(found.values()):
        mirror = os.environ.get("LAB_MIRROR") or "http://deb.debian.org/debian"
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for part in ("state/lists/partial", "cache/archives/partial", "etc/parts"):
                (top / part).mkdir(parents=True)
            keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
            (top / "etc/list").write_text(f"deb [signed-by={keyring}] {mirror} {suite} main\n")
            (top / "status").touch()
            options = {
                "Dir::State": f"{top}/state",
                "Dir::State::status": f"{top}/status",
                "Dir::Cache": f"{top}/cache",
                "Dir::Etc::sourcelist": f"{top}/etc/list",
                "Dir::Etc::sourceparts": f"{top}/etc/parts",
                "APT::Sandbox::User": "root",
            }
            apt = ["apt-get", "-q", *(f"-o{key}={value}" for key, value in options.items())]
            subprocess.run([*apt, "update"], check=True, capture_output=True)
            subprocess.run([*apt, "download", *names], check=True, capture_output=True, cwd=keep)
        found = {name: sorted(keep.glob(name + "_*.deb")) for name in names}
    index = ""
    for paths in found.values():
        shutil.copy(paths[-1], repo)
        fields = subprocess.run(["dpkg-deb", "-f", paths[-1]], check=True, capture_output=True, text=True).stdout
        index += fields + entry(repo / paths[-1].name)
    return index


def make(repo: pathlib.Path, kernel: str, cache: pathlib.Path) -> None:
    """The whole repository. A container reaches it by a path, so no network is needed."""
    repo.mkdir(parents=True, exist_ok=True)
    index = from_debian(repo, "bookworm", ("python3-apt", "python-apt-common", "distro-info-data"), cache)
    tools = {"dkms": DKMS, "modinfo": MODINFO, "modprobe": MODPROBE, "update-initramfs": QUIET}
    index += deb(repo, "dkms", "3.0", {f"usr/sbin/{name}": text for name, text in tools.items()})
    for name in (kernel, NEXT_KERNEL):
        files = {f"lib/modules/{name}/build/Makefile": ""}
        index += deb(repo, f"linux-headers-{name}", "1", files)
    index += deb(repo, "linux-headers-amd64", "1", depends=f"linux-headers-{NEXT_KERNEL}")
    for version in (OLD, NEW, NEWER):
        files, links = libraries(version)
        major = version.split(".")[0]
        full = f"{version}-1"
        index += deb(repo, f"nvidia-driver-pinning-{version}", full, {
            "etc/apt/preferences.d/nvidia-driver-pinning.pref":
                f"Package: nvidia-driver-cuda nvidia-kernel-open-dkms libnvidia-compute\nPin: version {version}*\n"
                "Pin-Priority: 1000\n",
        }, more=ONE_PINNING)  # fmt: skip
        programs = {"usr/bin/nvidia-smi": QUIET, "usr/bin/nvidia-modprobe": QUIET}
        index += deb(repo, "nvidia-driver-cuda", full, programs, depends=f"libnvidia-compute (= {full})")
        index += deb(
            repo,
            "nvidia-kernel-open-dkms",
            full,
            {"usr/src/nvidia-sim/version": version + "\n"},
            depends="dkms",
            postinst=BUILD,
        )
        index += deb(repo, "libnvidia-compute", full, files, links)
        index += deb(repo, f"nvidia-dkms-{major}", full, {f"usr/src/nvidia-{major}/x": ""})
    (repo / "Packages").write_text(index)
