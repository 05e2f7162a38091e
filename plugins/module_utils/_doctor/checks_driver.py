# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Checks of the driver: is it bound, built for every kernel, loaded, the same version on both sides, and held."""

from __future__ import annotations

from .._gpu.model import version_tuple
from .._remedy import Remedy
from .check import EVERYWHERE, HOST, Check, Result, View, fail, ok, role, skip, warn
from .facts import CONTAINER

# A kernel from this version on needs a driver from that version on (public build reports; proxmox.md 2.1).
KERNEL_NEEDS = (
    ((7, 1), "580.159.04"),
    ((7, 0), "580.142"),
    ((6, 17), "590.48.01"),
)
# Packages that build or bring a kernel module, or pull in one that does: wrong in a container.
MODULE_PACKAGES = ("nvidia-dkms", "nvidia-kernel", "nvidia-driver", "cuda-drivers", "nvidia-open")
HARMLESS_PACKAGES = ("nvidia-driver-pinning", "nvidia-driver-assistant", "nvidia-driver-libs", "nvidia-kernel-common")
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


def kernels_that_matter(view: View) -> list[str]:
    """The running kernel and the newest, which the next boot takes."""
    running, installed = view.need("kernel"), view.need("kernels")
    return list(dict.fromkeys([running, *installed[-1:]]))


def _bound(view: View) -> Result:
    gpus = view.need("bus_gpus")
    if not gpus:
        return skip("no NVIDIA GPU is on the PCI bus")
    wrong = [gpu for gpu in gpus if gpu["driver"] != "nvidia"]
    if not wrong:
        return ok(f"all {len(gpus)} GPUs are bound to nvidia")
    told = ", ".join(f"{gpu['address']} is bound to {gpu['driver'] or 'no driver'}" for gpu in wrong)
    drivers = {gpu["driver"] for gpu in wrong}
    action = (
        "remove the card's id from the options of vfio-pci and from the VM"
        if "vfio-pci" in drivers
        else "blacklist nouveau"
        if "nouveau" in drivers
        else "install the driver, or load it (modprobe nvidia) and read why that fails"
    )
    if drivers == {"vfio-pci"} and len(wrong) < len(gpus):
        return warn(told + ": it is kept for a VM, and no container can use it", action=action)
    return fail(told, action=action)


def _built(view: View) -> Result:
    files = view.need("module_files")
    dkms = view.maybe("dkms") or []
    missing = [kernel for kernel in kernels_that_matter(view) if files.get(kernel) is None]
    if not missing:
        return ok("the module is there for " + " and ".join(f"{k} ({files[k]})" for k in kernels_that_matter(view)))
    said = "; ".join(
        f"dkms says '{row['state']}' of {row['module']} {row['version']} for {row['kernel'] or 'no kernel'}"
        for row in dkms
        if row["kernel"] in (None, *missing)
    )
    return fail(
        f"no nvidia module for kernel {' and '.join(missing)}" + (f"; {said}" if said else ""),
        kernel=missing[-1],
        other=next((kernel for kernel in reversed(view.need("kernels")) if files.get(kernel)), "one that has it"),
    )


def _headers(view: View) -> Result:
    if not view.need("dkms"):
        return skip("the module is not built by DKMS here")
    headers = view.need("headers")
    missing = [kernel for kernel in kernels_that_matter(view) if not headers.get(kernel)]
    if missing:
        return warn(f"no headers for kernel {' and '.join(missing)}, so DKMS builds nothing for it", kernel=missing[-1])
    return ok("headers are there for " + " and ".join(kernels_that_matter(view)))


def _supported(view: View) -> Result:
    files, module = view.need("module_files"), view.need("module")
    version = module or next((found for found in files.values() if found), None)
    if version is None:
        version = next((row["version"] for row in view.maybe("dkms") or [] if row["version"]), None)
    if version is None:
        return skip("no driver is installed")
    bad = []
    for kernel in kernels_that_matter(view):
        needed = next((low for since, low in KERNEL_NEEDS if version_tuple(kernel)[:2] >= since), None)
        if needed and version_tuple(version) < version_tuple(needed) and files.get(kernel) is None:
            bad.append((kernel, needed))
    if bad:
        kernel, needed = bad[-1]
        return fail(f"driver {version} does not build for kernel {kernel}", kernel=kernel, needed=needed)
    return ok(f"nothing is known against driver {version} with kernel {' and '.join(kernels_that_matter(view))}")


def _signed(view: View) -> Result:
    if not view.need("secure_boot"):
        return ok("Secure Boot is off")
    rejected = [line for line in view.maybe("kernel_log", []) if "Key was rejected" in line]
    enrolled = view.need("dkms_key_enrolled")
    if rejected:
        return fail(f"Secure Boot is on, and the kernel refused a module: {rejected[-1].strip()}")
    if enrolled is False:
        return fail("Secure Boot is on, and the key that DKMS signs with is not enrolled")
    if enrolled is None:
        return ok("Secure Boot is on, and DKMS has made no key here")
    return ok("Secure Boot is on, and the key that DKMS signs with is enrolled")


def _rebooted(view: View) -> Result:
    loaded, disk = view.need("module"), view.need("module_files").get(view.need("kernel"))
    if loaded is None or disk is None:
        return skip("no module is loaded" if loaded is None else "no module file for the running kernel")
    if loaded != disk:
        return warn(
            f"{loaded} is loaded, {disk} is installed: what runs goes on until its container or service starts again",
            loaded=loaded,
            installed=disk,
        )
    return ok(f"{loaded} is loaded and installed")


def library_versions(view: View) -> dict[str, str | None]:
    """Library -> its version; raises where a library is there whose version cannot be told."""
    found: dict[str, str | None] = dict(view.need("libraries"))
    return {name: found.get(name) for name in LIBRARIES}


def _same(view: View) -> Result:
    loaded = view.need("module")
    if loaded is None:
        return skip("no module is loaded: there is nothing to be the same as")
    versions = library_versions(view)
    wrong = {name: version for name, version in versions.items() if version is not None and version != loaded}
    if not any(versions.values()):
        return skip("no library of the driver is here")
    if wrong:
        told = ", ".join(f"{name} is {version}" for name, version in sorted(wrong.items()))
        return fail(f"the loaded module is {loaded}, but {told}", loaded=loaded, vmid=view.ask.vmid or "the container")
    nested = view.maybe("nested_containers")
    words = f"module and libraries are all {loaded}"
    return ok(words + (": a mismatch that a container inside reports is in its own copy" if nested else ""))


def _libraries(view: View) -> Result:
    loaded = view.need("module")
    if loaded is None:
        return skip("no module is loaded")
    missing = [name for name, version in library_versions(view).items() if version is None]
    if missing:
        return fail(f"{' and '.join(missing)} cannot be found by the loader", loaded=loaded, missing=missing[0])
    return ok(" and ".join(LIBRARIES) + " are there")


def _new_enough(view: View) -> Result:
    loaded, least = view.need("module"), view.ask.driver_min
    if loaded is None:
        return skip("no module is loaded")
    if version_tuple(loaded) < version_tuple(least):
        return fail(f"driver {loaded} is older than {least}", loaded=loaded, least=least)
    return ok(f"driver {loaded} is {least} or newer")


def _offered(view: View) -> Result:
    loaded = view.need("module")
    if loaded is None:
        return skip("no module is loaded")
    versions = library_versions(view)
    if all(version == loaded for version in versions.values()):
        return skip(f"the libraries of {loaded} are installed")
    offered = [row["version"] for row in view.need("offered")]
    if any(version == loaded or version.startswith(loaded + "-") for version in offered):
        return ok(f"the package sources offer {loaded}")
    told = f"they offer {', '.join(sorted(set(offered))[:6])}" if offered else "they offer no such library at all"
    return fail(f"the package sources do not offer the libraries of {loaded}: {told}", loaded=loaded)


def _no_module_packages(view: View) -> Result:
    packages = view.need("packages")
    if packages is None:
        return skip("this is no system with dpkg")
    wrong = [
        package["name"]
        for package in packages
        if package["name"].startswith(MODULE_PACKAGES) and not package["name"].startswith(HARMLESS_PACKAGES)
    ]
    if wrong:
        return warn(
            f"{', '.join(wrong)}: packages of the kernel module, which a container neither builds nor loads",
            packages=" ".join(wrong),
        )
    return ok("no package of the kernel module is installed")


def _held(view: View) -> Result:
    packages = view.need("packages")
    if packages is None:
        return skip("this is no system with dpkg")
    ours = [package for package in packages if "nvidia" in package["name"] and package["driver"]]
    if not ours:
        return skip("no package of the driver is installed")
    pinning = next((p["name"] for p in packages if p["name"].startswith("nvidia-driver-pinning")), None)
    pins = view.maybe("pins") or []
    if pinning or pins:
        return ok(f"pinned by {pinning or pins[0]}")
    loose = [package["name"] for package in ours if not package["held"]]
    if not loose:
        return ok(f"all {len(ours)} packages of the driver are held")
    unattended = view.need("unattended")
    words = f"{', '.join(loose[:4])}{' and others' if len(loose) > 4 else ''} are neither held nor pinned"
    if unattended["enabled"] and not any("nvidia" in entry for entry in unattended["blacklist"]):
        return fail(words + ", and unattended-upgrades upgrades them", packages=" ".join(loose))
    return warn(words + ": the next upgrade takes this side out of step", packages=" ".join(loose))


def _mismatch_logged(view: View) -> Result:
    lines = [line for line in view.need("kernel_log") if "API mismatch" in line]
    if lines:
        return warn(f"{len(lines)} times since boot; the last: {lines[-1].strip()}")
    return ok("the kernel log tells of no client with another version")


def _persistence(view: View) -> Result:
    gpus = view.need("gpus")
    off = [str(gpu["index"]) for gpu in gpus if gpu["persistence"] is False]
    if off:
        return warn(f"off for GPU {', '.join(off)}: the first client of each start waits for the card")
    if not gpus or all(gpu["persistence"] is None for gpu in gpus):
        return skip("the driver does not say")
    return ok("on")


def _no_persistenced(view: View) -> Result:
    state = view.need("persistenced")
    if state in ("active", "failed", "activating"):
        return warn(f"nvidia-persistenced is {state} here; it belongs on the host and adds nothing in a container")
    return ok("nvidia-persistenced does not run here")


ROWS = (
    Check(
        id="gpu_vfio",
        family="driver",
        places=HOST,
        severity="high",
        meaning="A GPU is bound to vfio-pci, to nouveau or to nothing instead of the NVIDIA driver.",
        look="the driver of each NVIDIA display device in /sys/bus/pci/devices",
        remedy=Remedy(
            "bind_nvidia",
            "On the host, {action}; then 'update-initramfs -u -k all' and reboot.",
            host_action="bind the GPU to the NVIDIA driver",
        ),
        find=_bound,
    ),
    Check(
        id="dkms_missing",
        family="driver",
        places=HOST,
        severity="high",
        meaning="The running kernel, or the one that the next boot takes, has no NVIDIA module.",
        look="modinfo -k KERNEL nvidia for the running and the newest kernel; dkms status for why",
        remedy=Remedy(
            "build_module",
            "Install the headers of {kernel} and run 'dkms autoinstall -k {kernel}' (a build that fails says why in "
            "/var/lib/dkms/nvidia*/*/build/make.log), or stay on a kernel that has it: "
            "'proxmox-boot-tool kernel pin {other}'.",
            host_action="build the module for the kernel",
        ),
        find=_built,
        task=role("nvidia_host"),
        cases=("NVIDIA/open-gpu-kernel-modules#1143", "void-linux/void-packages#60171"),
    ),
    Check(
        id="headers_missing",
        family="driver",
        places=HOST,
        severity="medium",
        meaning="Headers of a kernel are missing, so DKMS cannot build the module for it.",
        look="/lib/modules/KERNEL/build for the running and the newest kernel",
        remedy=Remedy(
            "install_headers",
            "Install the headers of {kernel}: proxmox-headers-{kernel} and proxmox-default-headers on Proxmox, "
            "linux-headers-{kernel} elsewhere.",
            host_action="install the headers",
        ),
        find=_headers,
        task=role("nvidia_host"),
    ),
    Check(
        id="drv_kernel",
        family="driver",
        places=HOST,
        severity="high",
        meaning="This driver is known not to build for a kernel that is installed.",
        look="the driver's version against a table of build reports by kernel",
        remedy=Remedy(
            "driver_for_kernel",
            "Kernel {kernel} needs driver {needed} or newer from NVIDIA's repository (SGLang needs 580 or newer "
            "anyway); until then pin an older kernel with 'proxmox-boot-tool kernel pin'.",
            host_action="upgrade the driver",
        ),
        find=_supported,
        cases=("NVIDIA/open-gpu-kernel-modules#1143", "void-linux/void-packages#61087"),
    ),
    Check(
        id="sb_unsigned",
        family="driver",
        places=HOST,
        severity="high",
        meaning="Secure Boot refuses the module, for its key is not enrolled.",
        look="SecureBoot in the EFI variables or mokutil --sb-state; mokutil --test-key; the kernel log",
        remedy=Remedy(
            "enroll_key",
            "Run 'mokutil --import /var/lib/dkms/mok.pub' and reboot with a console at hand: the key is confirmed "
            "there, before the system starts.",
            host_action="enroll the key of DKMS",
        ),
        find=_signed,
    ),
    Check(
        id="drv_not_rebooted",
        family="driver",
        places=HOST,
        severity="high",
        meaning="A newer driver is installed than the one that is loaded.",
        look="modinfo against /sys/module/nvidia/version",
        remedy=Remedy(
            "reboot_host",
            "Reboot the host before the next start of a container or service that uses the GPU, then bring every "
            "container to {installed}. Without a reboot: stop all users of the GPUs, 'rmmod nvidia_uvm nvidia_drm "
            "nvidia_modeset nvidia', 'modprobe nvidia nvidia_uvm', and restart every container with a GPU.",
            host_action="reboot",
        ),
        find=_rebooted,
        cases=("badbread/crumbvms#395",),
    ),
    Check(
        id="drv_skew",
        family="driver",
        places=(CONTAINER,),
        severity="high",
        meaning="The driver's libraries in the container have another version than the module that is loaded.",
        look="the file names of libcuda.so.1 and libnvidia-ml.so.1 against /proc/driver/nvidia/version",
        remedy=Remedy(
            "match_libraries",
            "Install the user space of exactly {loaded} in container {vmid}, remove others, and hold it.",
            host_action="install the libraries of the loaded module",
        ),
        find=_same,
        task=role("nvidia_userspace"),
        cases=("community-scripts/ProxmoxVED#2047", "psalias2006/gpu-hot#48"),
    ),
    Check(
        id="drv_lib_host",
        family="driver",
        places=HOST,
        severity="high",
        meaning="The driver's libraries on the host have another version than the module that is loaded.",
        look="the file names of libcuda.so.1 and libnvidia-ml.so.1 against /proc/driver/nvidia/version",
        remedy=Remedy(
            "match_host",
            "Reboot where the libraries are those of the newer driver, else install those of {loaded}.",
            host_action="reboot",
        ),
        find=_same,
        cases=("pando85/homelab#4110",),
    ),
    Check(
        id="lib_missing",
        family="driver",
        places=EVERYWHERE,
        severity="high",
        meaning="The driver's libraries are not installed where the server runs.",
        look="libcuda.so.1 and libnvidia-ml.so.1 in the loader's cache",
        remedy=Remedy(
            "install_libraries",
            "Install the user space of {loaded} here; {missing} is part of it.",
            host_action="install the libraries of the loaded module",
        ),
        find=_libraries,
        task=role("nvidia_userspace"),
        cases=("AbdBarho/stable-diffusion-webui-docker#48",),
    ),
    Check(
        id="drv_old",
        family="driver",
        places=EVERYWHERE,
        severity="high",
        meaning="The driver is too old for this SGLang.",
        look="the version of the loaded module",
        remedy=Remedy(
            "newer_driver",
            "SGLang 0.5.23 is built for CUDA 13 and needs driver {least} or newer: upgrade the host's driver, then "
            "the libraries of each container.",
            host_action="upgrade the driver",
        ),
        find=_new_enough,
        cases=("sgl-project/sglang#11395",),
    ),
    Check(
        id="drv_offered",
        family="driver",
        places=(CONTAINER,),
        severity="high",
        meaning="The container's package sources do not have the version that the host runs.",
        look="apt-cache madison for the driver's library packages",
        remedy=Remedy(
            "same_source",
            "Pin the host to a version that both repositories have, or install {loaded} here from NVIDIA's .run file "
            "with --no-kernel-module (nvidia_userspace_method: runfile).",
            host_action="pin the driver on the host",
        ),
        find=_offered,
        cases=("jammsen/proxmox-setup-scripts#11",),
    ),
    Check(
        id="module_packages",
        family="driver",
        places=(CONTAINER,),
        severity="medium",
        meaning="Packages of the kernel module are installed in a container.",
        look="dpkg-query",
        remedy=Remedy(
            "purge_module_packages",
            "Purge {packages} here: the module is the host's.",
            host_action="purge the packages of the module",
        ),
        find=_no_module_packages,
        task=role("nvidia_userspace"),
        cases=("community-scripts/ProxmoxVED#2047",),
    ),
    Check(
        id="drv_held",
        family="driver",
        places=EVERYWHERE,
        severity="medium",
        meaning="Nothing keeps an upgrade from taking one side of the driver out of step.",
        look="apt-mark showhold, apt preferences, the blacklist of unattended-upgrades",
        remedy=Remedy(
            "hold_driver",
            "Run 'apt-mark hold {packages}' and name nvidia in the blacklist of unattended-upgrades.",
            host_action="hold the packages",
            safe=True,
        ),
        find=_held,
        cases=("pando85/homelab#4110", "jammsen/proxmox-setup-scripts#11"),
    ),
    Check(
        id="api_mismatch",
        family="driver",
        places=HOST,
        severity="medium",
        meaning="Since boot, a program with libraries of another version has tried the driver.",
        look="'API mismatch' in the kernel log, which names both versions",
        remedy=Remedy(
            "find_client",
            "Look which container has the version that the log names, and bring its libraries to that of the module.",
            host_action="install the libraries of the loaded module",
        ),
        find=_mismatch_logged,
    ),
    Check(
        id="persistence",
        family="driver",
        places=HOST,
        severity="low",
        meaning="Persistence mode is off.",
        look="the driver",
        remedy=Remedy(
            "persistence_on",
            "Enable nvidia-persistenced on the host.",
            host_action="enable nvidia-persistenced",
            safe=True,
        ),
        find=_persistence,
        task=role("nvidia_host"),
    ),
    Check(
        id="persistenced_in_ct",
        family="driver",
        places=(CONTAINER,),
        severity="low",
        meaning="nvidia-persistenced runs in a container, where it can only fail.",
        look="systemctl is-active nvidia-persistenced",
        remedy=Remedy(
            "no_persistenced",
            "Mask nvidia-persistenced here and run it on the host.",
            host_action="mask nvidia-persistenced in the container",
            safe=True,
        ),
        find=_no_persistenced,
        task={
            "ansible.builtin.systemd_service": {
                "name": "nvidia-persistenced.service",
                "state": "stopped",
                "masked": True,
            }
        },
        cases=("community-scripts/ProxmoxVE#5740",),
    ),
)
