# SPDX-License-Identifier: GPL-3.0-or-later
"""A package repository with tiny packages of the right names and versions, and a kernel module that is a text file.

What they put into a container answers as the real programs do: dkms builds where headers are and fails where it is
told to, modinfo tells what is built, modprobe "loads" it into /proc/driver/nvidia/version (a tmpfs in the container).

For a whole node (``make`` with ``driver``, and BOOT) the libraries are the lab's simulated driver. There they answer
only while they have the version of the loaded module, and what makes device nodes makes them.
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
llmhost-sim-sync
"""
SYNC = r"""#!/bin/sh
# The simulated driver of a node: NVML's start fails with 9 (no module) or 18 (library and module differ).
state=/etc/llmhost-sim/gpu.state
[ -e "$state" ] || exit 0
loaded=$(sed -n 's/.*x86_64  \([0-9.]*\)  .*/\1/p' /proc/driver/nvidia/version 2>/dev/null)
library=$(readlink /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1) || exit 0
sed -i '/^err nvmlInit/d' "$state"
if [ -z "$loaded" ]; then echo "err nvmlInit 9" >> "$state"
elif [ "libnvidia-ml.so.$loaded" != "$library" ]; then echo "err nvmlInit 18" >> "$state"; fi
"""
NODES = r"""#!/bin/sh
# Makes device nodes as the real %(name)s does, where a module is loaded.
[ -e /proc/driver/nvidia/version ] || { echo "%(name)s: the driver is not loaded" >&2; exit 9; }
while read -r path major minor; do [ -e "$path" ] || mknod -m 666 "$path" c "$major" "$minor"; done <<END
%(nodes)s
END
%(then)s
"""
CARDS = "/dev/nvidia0 195 0\n/dev/nvidia1 195 1\n/dev/nvidiactl 195 255"
UVM = "/dev/nvidia-uvm 508 0\n/dev/nvidia-uvm-tools 508 1"
SMI = "usr/lib/llmhost-sim/nvidia-smi"
# What the driver is to a node that boots: two cards on the bus, no device nodes, the module that is built for the
# kernel that runs (udev loads it), then the enabled units that come before the guests.
BOOT = r"""#!/bin/sh
set -e
mount -t tmpfs none /proc/driver
mount -t tmpfs none /boot
mount -t tmpfs none /sys/bus/pci/devices
for card in 0000:01:00.0 0000:02:00.0; do
  mkdir -p "/sys/bus/pci/devices/$card"
  echo 0x10de > "/sys/bus/pci/devices/$card/vendor"
  echo 0x030000 > "/sys/bus/pci/devices/$card/class"
  ln -sfn /srv/nvidia "/sys/bus/pci/devices/$card/driver"
done
for kernel in $(ls /lib/modules); do touch "/boot/vmlinuz-$kernel"; done
rm -f /dev/nvidia*
[ -e /etc/llmhost-sim/no-module-at-boot ] || modprobe nvidia || true
for unit in /etc/systemd/system/multi-user.target.wants/*; do
  if grep -qs '^Before=.*pve-guests.service' "$unit"; then sed -n 's/^ExecStart=//p' "$unit" | sh -e || true; fi
done
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
    files: dict[str, str | bytes] | None = None,
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
        for path, content in (files or {}).items():
            place = top / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
            place.chmod(0o755 if place.read_bytes()[:4] in (b"#!/b", b"\x7fELF") else 0o644)
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


def libraries(version: str, nvml: bytes) -> tuple[dict[str, str | bytes], dict[str, str]]:
    found = {"libcuda.so": b"", "libnvidia-ml.so": nvml}
    links = {f"{LIB}/{name}.1": f"{name}.{version}" for name in found}
    return {f"{LIB}/{name}.{version}": content for name, content in found.items()}, links


def programs(driver: pathlib.Path | None) -> dict[str, str | bytes]:
    if driver is None:
        return {"usr/bin/nvidia-smi": QUIET, "usr/bin/nvidia-modprobe": QUIET}
    smi = {"name": "nvidia-smi", "nodes": CARDS, "then": f'exec /{SMI} "$@"'}
    return {
        "usr/bin/nvidia-smi": NODES % smi,
        "usr/bin/nvidia-modprobe": NODES % {"name": "nvidia-modprobe", "nodes": UVM, "then": "exit 0"},
        SMI: (driver / "bin/nvidia-smi").read_bytes(),
    }


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


def make(
    repo: pathlib.Path, kernel: str, cache: pathlib.Path, suite: str = "bookworm", driver: pathlib.Path | None = None
) -> None:
    """The whole repository. A container reaches it by a path, so no network is needed. ``driver``: lab's, built."""
    repo.mkdir(parents=True, exist_ok=True)
    index = from_debian(repo, suite, ("python3-apt", "python-apt-common", "distro-info-data"), cache)
    tools = {"dkms": DKMS, "modinfo": MODINFO, "modprobe": MODPROBE, "update-initramfs": QUIET}
    tools["llmhost-sim-sync"] = SYNC
    over = "Replaces: kmod, initramfs-tools\n"  # a node has the real ones
    index += deb(repo, "dkms", "3.0", {f"usr/sbin/{name}": text for name, text in tools.items()}, more=over)
    nvml = (driver / "lib/libnvidia-ml.so.1").read_bytes() if driver else b""
    for name in (kernel, NEXT_KERNEL):
        files = {f"lib/modules/{name}/build/Makefile": ""}
        index += deb(repo, f"linux-headers-{name}", "1", files)
    index += deb(repo, "linux-headers-amd64", "1", depends=f"linux-headers-{NEXT_KERNEL}")
    for version in (OLD, NEW, NEWER):
        files, links = libraries(version, nvml)
        major = version.split(".")[0]
        full = f"{version}-1"
        index += deb(repo, f"nvidia-driver-pinning-{version}", full, {
            "etc/apt/preferences.d/nvidia-driver-pinning.pref":
                f"Package: nvidia-driver-cuda nvidia-kernel-open-dkms libnvidia-compute\nPin: version {version}*\n"
                "Pin-Priority: 1000\n",
        }, more=ONE_PINNING)  # fmt: skip
        index += deb(repo, "nvidia-driver-cuda", full, programs(driver), depends=f"libnvidia-compute (= {full})")
        index += deb(
            repo,
            "nvidia-kernel-open-dkms",
            full,
            {"usr/src/nvidia-sim/version": version + "\n"},
            depends="dkms",
            postinst=BUILD,
        )
        index += deb(
            repo, "libnvidia-compute", full, files, links, postinst="#!/bin/sh\nllmhost-sim-sync 2>/dev/null || true\n"
        )
        index += deb(repo, f"nvidia-dkms-{major}", full, {f"usr/src/nvidia-{major}/x": ""})
    (repo / "Packages").write_text(index)
