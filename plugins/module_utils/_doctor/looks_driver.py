# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Looks at the driver: PCI bus, module, libraries, DKMS, Secure Boot, packages."""

from __future__ import annotations

import re
from typing import Any

from .check import HERE, HOST
from .facts import CONTAINER, Unread
from .look import Look, Scene
from .reader import Reader

VERSION = re.compile(r"\b(\d{3,}\.\d+(?:\.\d+)?[\w.-]*)")
LIBRARY = re.compile(r"^lib(?:cuda|nvidia-ml)\.so\.(\d{3,}\.\d+(?:\.\d+)?)$")
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib",
)
NVIDIA = "0x10de"
DKMS_NEW = re.compile(
    r"^(?P<module>[\w.-]+)/(?P<version>[^,\s]+)(?:, (?P<kernel>[^,\s]+), [\w-]+)?: (?P<state>\w[\w ]*)"
)
DKMS_OLD = re.compile(
    r"^(?P<module>[\w.-]+), (?P<version>[^,\s]+)(?:, (?P<kernel>[^,\s]+), [\w-]+)?: (?P<state>\w[\w ]*)"
)
PACKAGES = re.compile(r"nvidia|^libcuda1|^cuda-drivers|^containerd|^docker|^libnv")
# Packages that are in step with the driver. The container toolkit and CUDA's own libraries are not.
OF_DRIVER = re.compile(
    r"^(?:libnvidia-(?!container|egl-gbm|egl-wayland|egl-xcb|egl-xlib)|libcuda1|nvidia-(?:driver|utils|smi|dkms|kernel|"
    r"persistenced|modprobe|compute|headless|open|settings|vdpau|opencl|alternative)|cuda-drivers|libnvcuvid|"
    r"xserver-xorg-video-nvidia)"
)
NO_VERSION = re.compile(r"^nvidia-(?:driver-pinning|driver-assistant|kernel-common|modprobe|settings|persistenced)")
KEY = "/var/lib/dkms/mok.pub"
CANDIDATES = ("libnvidia-compute", "libcuda1", "libnvidia-ml1")


def bus_gpus(scene: Scene) -> list[dict[str, Any]]:
    """NVIDIA's display devices on the PCI bus with the driver that each is bound to."""
    reader, top = scene.reader, "/sys/bus/pci/devices"
    if not reader.exists("/sys/bus"):
        raise Unread("/sys is not mounted")
    found = []
    for address in reader.names(top):
        if (reader.text(f"{top}/{address}/vendor") or "").strip() != NVIDIA:
            continue
        if (reader.text(f"{top}/{address}/class") or "").strip()[:4] == "0x03":
            found.append({"address": address, "driver": reader.link(f"{top}/{address}/driver")})
    return found


def module(scene: Scene) -> str | None:
    """The version of the loaded module; None where none is loaded. /proc and /sys of a container are the host's."""
    for path in ("/sys/module/nvidia/version", "/proc/driver/nvidia/version"):
        text = scene.reader.text(path)
        if text is None:
            continue
        hit = VERSION.search(text.splitlines()[0] if text.strip() else "")
        if hit is None:
            raise Unread(f"{path} holds no version: {text.strip()[:80]!r}")
        return hit.group(1)
    return None


def kernels(scene: Scene) -> list[str]:
    """Kernels that can be booted, oldest first: those with modules and an image."""
    reader = scene.reader
    images = {name[len("vmlinuz-") :] for name in reader.names("/boot") if name.startswith("vmlinuz-")}
    with_modules = [name for name in reader.names("/lib/modules") if reader.exists(f"/lib/modules/{name}/modules.dep")]
    return sorted((name for name in with_modules if not images or name in images), key=_age)


def _age(kernel: str) -> list[int]:
    """6.17.9-1-pve is older than 6.17.13-2-pve."""
    return [int(word) if word.isdigit() else -1 for word in re.split(r"[-.+~]", kernel)]


def module_files(scene: Scene) -> dict[str, str | None]:
    """Kernel -> the version of the module that is installed for it; None where there is none."""
    found: dict[str, str | None] = {}
    for kernel in dict.fromkeys([scene.need("kernel"), *scene.need("kernels")]):
        said = scene.reader.run(["modinfo", "-k", kernel, "-F", "version", "nvidia"])
        found[kernel] = said.out.strip() or None if said.code == 0 else None
    return found


def libraries(scene: Scene) -> dict[str, str | None]:
    """Library -> the version in the name of the file that the loader takes; None where it finds none."""
    found: dict[str, str | None] = {}
    for name in LIBRARIES:
        path = _loaded_from(scene.reader, name)
        if path is None:
            found[name] = None
            continue
        real = scene.reader.link(path)
        hit = LIBRARY.match(real or "")
        if hit is None:
            raise Unread(f"{path} leads to {real or 'nothing'}, whose name tells no version")
        found[name] = hit.group(1)
    return found


def _loaded_from(reader: Reader, name: str) -> str | None:
    """Where the loader finds a library: its cache, else the folders that it always looks in."""
    try:
        lines = reader.told(["ldconfig", "-p"]).splitlines()
    except Unread:
        lines = []
    for line in lines:
        if line.strip().startswith(name + " ") and "=>" in line and "i386" not in line:
            return line.split("=>", 1)[1].strip()
    return next((f"{folder}/{name}" for folder in FOLDERS if reader.exists(f"{folder}/{name}")), None)


def dkms(scene: Scene) -> list[dict[str, str | None]] | None:
    """What DKMS says of modules called nvidia; None where there is no DKMS."""
    if scene.reader.program("dkms") is None:
        return None
    rows = []
    for line in scene.reader.told(["dkms", "status"]).splitlines():
        hit = DKMS_NEW.match(line) or DKMS_OLD.match(line)
        if hit and hit.group("module").startswith("nvidia"):
            rows.append(dict(hit.groupdict(), state=hit.group("state").strip()))
    return rows


def headers(scene: Scene) -> dict[str, bool]:
    """Kernel -> whether DKMS finds its headers."""
    names = dict.fromkeys([scene.need("kernel"), *scene.need("kernels")])
    return {name: scene.reader.exists(f"/lib/modules/{name}/build/Makefile") for name in names}


def secure_boot(scene: Scene) -> bool:
    reader = scene.reader
    if not reader.exists("/sys/firmware/efi"):
        return False  # started by a BIOS
    if reader.program("mokutil"):
        said = reader.run(["mokutil", "--sb-state"])
        if "SecureBoot" in said.out:
            return "SecureBoot enabled" in said.out
    folder = "/sys/firmware/efi/efivars"
    name = next((n for n in reader.names(folder) if n.startswith("SecureBoot-")), None)
    if name is None:
        raise Unread("neither mokutil nor the EFI variables tell whether Secure Boot is on")
    return (reader.text(f"{folder}/{name}") or "").endswith("\x01")


def dkms_key_enrolled(scene: Scene) -> bool | None:
    """Whether the key that DKMS signs with is enrolled; None where there is no key."""
    if not scene.reader.exists(KEY):
        return None
    said = scene.reader.run(["mokutil", "--test-key", KEY])
    if "is already enrolled" in said.out + said.err:
        return True
    if "is not enrolled" in said.out + said.err:
        return False
    raise Unread(f"mokutil --test-key: {said.text}")


def kernel_log(scene: Scene) -> list[str]:
    """The last lines of the kernel log that say something of the module."""
    words = ("API mismatch", "module verification failed", "Key was rejected", "NVRM: Xid")
    out = scene.reader.told(["dmesg"])
    return [line for line in out.splitlines() if any(word in line for word in words)][-50:]


def packages(scene: Scene) -> list[dict[str, Any]] | None:
    """Installed packages of driver and containers; None on a system without dpkg."""
    if scene.reader.program("dpkg-query") is None:
        return None
    shown = scene.reader.told(["dpkg-query", "-W", "-f=${Package}\t${Version}\t${db:Status-Abbrev}\n"])
    found = []
    for line in shown.splitlines():
        name, version, state = [*line.split("\t"), "", ""][:3]
        if PACKAGES.search(name) and state[1:2] == "i":
            driver = bool(OF_DRIVER.match(name)) and not NO_VERSION.match(name)
            found.append({"name": name, "version": version, "held": state[:1] == "h", "driver": driver})
    return found


def pins(scene: Scene) -> list[str]:
    """Pins of the driver in apt's preferences, as 'package: pin'."""
    texts = [scene.reader.text("/etc/apt/preferences") or ""]
    for name in scene.reader.names("/etc/apt/preferences.d"):
        texts.append(scene.reader.text(f"/etc/apt/preferences.d/{name}") or "")
    found = []
    for block in re.split(r"\n\s*\n", "\n\n".join(texts)):
        fields = dict(re.findall(r"^(Package|Pin|Pin-Priority):\s*(.*?)\s*$", block, re.M))
        if "nvidia" in fields.get("Package", "") and fields.get("Pin", "").startswith("version "):
            found.append(f"{fields['Package']}: {fields['Pin']}")
    return found


def unattended(scene: Scene) -> dict[str, Any]:
    """Whether packages are upgraded unattended, and which are not."""
    reader, enabled, blacklist = scene.reader, False, []
    for name in reader.names("/etc/apt/apt.conf.d"):
        text = re.sub(r"^\s*(?://|#).*$", "", reader.text(f"/etc/apt/apt.conf.d/{name}") or "", flags=re.M)
        hit = re.findall(r'APT::Periodic::Unattended-Upgrade\s+"(\d+)"', text)
        enabled = hit[-1] != "0" if hit else enabled
        for body in re.findall(r"Unattended-Upgrade::Package-Blacklist\s*\{(.*?)\}", text, re.S):
            blacklist += re.findall(r'"([^"]+)"', body)
    return {"enabled": enabled and reader.exists("/usr/bin/unattended-upgrade"), "blacklist": blacklist}


def offered(scene: Scene) -> list[dict[str, str]]:
    """The driver's libraries in the package sources, by package and version."""
    loaded = scene.need("module")
    major = (loaded or "").split(".")[0]
    names = [*CANDIDATES, f"libnvidia-compute-{major}"]
    out = scene.reader.told(["apt-cache", "madison", *names])
    rows = [[cell.strip() for cell in line.split("|")] for line in out.splitlines() if line.count("|") >= 2]
    return [{"package": name, "version": version} for name, version in sorted({(row[0], row[1]) for row in rows})]


def persistenced(scene: Scene) -> str:
    return scene.reader.run(["systemctl", "is-active", "nvidia-persistenced.service"]).out.strip() or "unknown"


LOOKS = (
    Look("bus_gpus", (), bus_gpus),
    Look("module", (), module),
    Look("kernel", ("driver",), lambda scene: scene.reader.kernel()),
    Look("kernels", ("driver",), kernels, HOST),
    Look("module_files", ("driver",), module_files, HOST),
    Look("libraries", ("driver",), libraries),
    Look("dkms", ("driver",), dkms, HOST),
    Look("headers", ("driver",), headers, HOST),
    Look("secure_boot", ("driver",), secure_boot, HOST),
    Look("dkms_key_enrolled", ("driver",), dkms_key_enrolled, HOST),
    Look("kernel_log", ("driver",), kernel_log, HOST),
    Look("packages", ("driver", "container"), packages),
    Look("pins", ("driver",), pins),
    Look("unattended", ("driver",), unattended),
    Look("offered", ("driver",), offered, (CONTAINER,)),
    Look("persistenced", ("driver",), persistenced, (CONTAINER,)),
    Look("nested_containers", ("driver",), lambda scene: scene.reader.exists("/var/lib/docker/containers"), HERE),
)
