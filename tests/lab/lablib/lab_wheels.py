# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheelhouse: a real, unmodified SGLang for the CPU, and the two placeholders that a CPU needs.

`<cache>/wheelhouse/*.whl` and `lock.txt`; a container sees it at /srv/wheelhouse and installs with

    pip install --no-index --find-links /srv/wheelhouse --no-deps -r /srv/wheelhouse/lock.txt

The folder is filled in place, file by file (each made aside and renamed), for a running lab has it mounted.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

from lab_common import HERE, LabError, Settings, mib, only_one, say, write_aside

LOCK = HERE / "locks" / "sglang-0.5.23-cpu.txt"
PLACEHOLDERS = HERE / "placeholders"
PYTHON = "3.11"
PLATFORMS = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")
LARGE = ("torch", "triton", "sglang")  # each in a step of its own, so that an interruption loses little
STEP = 24
SHIM = "0.28.0+lab"
STUB = "0.0.0+placeholder"
FIXED_TIME = (2026, 1, 1, 0, 0, 0)
TORCH_CURE = (
    "The CPU build of torch comes from PyTorch's own index of CPU wheels (pytorch.org, 'Get started', compute "
    "platform CPU, shows its address): LAB_TORCH_INDEX=ADDRESS lab sglang"
)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    """The lock that ships with the lab: canonical name -> version."""
    lines = [line.split("#")[0].strip() for line in LOCK.read_text().splitlines()]
    return {canonical(name): version for name, version in (line.split("==") for line in lines if line)}


def target() -> dict[str, str]:
    """What a container installs: the pins, with the two changes that a CPU needs."""
    return {**pins(), "torchvision": SHIM, "sgl-kernel": STUB}


def wheels(folder: Path) -> dict[tuple[str, str], Path]:
    found = {}
    for path in sorted(folder.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        found[canonical(name), version] = path
    return found


def fill(settings: Settings) -> None:
    house = settings.wheelhouse
    with only_one(settings.cache / ".lock-wheelhouse", "the wheelhouse"):
        house.mkdir(parents=True, exist_ok=True)
        want = target()
        have = wheels(house)
        missing = [name for name in sorted(want) if (name, want[name]) not in have]
        start = time.monotonic()
        if missing:
            (house / "lock.txt").unlink(missing_ok=True)  # an unfinished wheelhouse has no lock
            download(settings, house, missing)
        for (name, version), path in wheels(house).items():
            if want.get(name) != version:  # of an older lock
                path.unlink()
        write_aside(house / "lock.txt", "".join(f"{name}=={version}\n" for name, version in sorted(want.items())))
        total = sum(path.stat().st_size for path in house.glob("*.whl"))
        what = f"{len(missing)} added in {time.monotonic() - start:.0f} s" if missing else "complete already"
        say(f"wheelhouse: {what}; {len(want)} wheels, {mib(total)} in {house}")


def more(settings: Settings, folder: Path, requirements: list[str]) -> None:
    """A folder to install from: these, kept in the cache, and links to the wheelhouse for what they need."""
    cached = settings.cache / "wheels-more"
    with only_one(settings.cache / ".lock-wheelhouse", "the wheelhouse"):
        cached.mkdir(parents=True, exist_ok=True)
        known = wheels(cached)
        missing = [one for one in requirements if tuple(one.split("==")) not in known]
        if missing:
            fetch(settings, find_pip(settings), cached, missing)
        folder.mkdir(parents=True, exist_ok=True)
        for path in [*settings.wheelhouse.glob("*.whl"), *cached.glob("*.whl")]:
            (folder / path.name).unlink(missing_ok=True)
            os.link(path, folder / path.name)
    say(f"{folder}: {len(missing)} wheels downloaded, {len(list(folder.iterdir()))} in all")


def download(settings: Settings, house: Path, missing: list[str]) -> None:
    have = pins()
    part = house / ".part"
    shutil.rmtree(part, ignore_errors=True)  # whatever an interruption left: never trusted
    part.mkdir()
    pip = find_pip(settings)
    names = [name for name in missing if name != "sgl-kernel"]
    small = [name for name in names if name not in LARGE]
    steps = [small[i : i + STEP] for i in range(0, len(small), STEP)] + [[n] for n in LARGE if n in names]
    say(f"wheelhouse: {len(names)} packages to download, about 560 MiB when none is there")
    for number, step in enumerate(steps, 1):
        begin = time.monotonic()
        fetch(settings, pip, part, [f"{name}=={have[name]}" for name in step])
        got = wheels(part)
        size = sum(path.stat().st_size for path in got.values())
        for name in step:
            if (name, have[name]) not in got:
                raise LabError(f"pip said it brought {name}=={have[name]}, but it did not: {sorted(got)}")
        if "torch" in step:
            no_cuda(got["torch", have["torch"]])
        if "torchvision" in step:
            plain = got.pop(("torchvision", have["torchvision"]))
            shim_torchvision(plain, house)
        for path in got.values():
            path.rename(house / path.name)
        label = step[0] if len(step) == 1 else f"{len(step)} packages"
        say(f"  {number}/{len(steps)} {label}: {mib(size)}, {time.monotonic() - begin:.0f} s")
    if "sgl-kernel" in missing:
        stub_kernel(house)
    shutil.rmtree(part)


def find_pip(settings: Settings) -> list[str]:
    """A pip for CPython 3.11: its own where there is one, else any pip that is told to fetch for 3.11."""
    exact, other = [], []
    for name in (
        f"/usr/bin/python{PYTHON}",
        f"python{PYTHON}",
        "/usr/bin/python3",
        "python3",
        "python3.13",
        "python3.12",
    ):
        path = shutil.which(name)
        if not path:
            continue
        ask = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        if done.returncode:
            continue  # a pyenv shim without a version behind it
        (exact if done.stdout.strip() == PYTHON else other).append(path)
    for path in exact + other:
        if works([path, "-m", "pip", "--version"]):
            return [path, "-m", "pip"] + ([] if path in exact else ["CROSS"])
        venv = settings.cache / "pip-venv"  # Debian's python3 has venv more often than pip
        shutil.rmtree(venv, ignore_errors=True)
        if works([path, "-m", "venv", str(venv)]):
            return [str(venv / "bin/python"), "-m", "pip"] + ([] if path in exact else ["CROSS"])
    raise LabError("no Python with pip here: apt-get install python3-pip")


def works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fetch(settings: Settings, pip: list[str], part: Path, requirements: list[str]) -> None:
    if pip[-1] == "CROSS":  # nothing can be built for another Python: wheels only
        verb = [*pip[:-1], "download", "--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON]
        verb += [word for name in PLATFORMS for word in ("--platform", name)] + ["-d", str(part)]
    else:
        verb = [*pip, "wheel", "-w", str(part)]
    command = [*verb, "-q", "--no-deps", "--disable-pip-version-check", "--progress-bar", "off", *requirements]
    torch = requirements[0].startswith("torch==")
    if torch and settings.torch_index:
        command += ["--index-url", settings.torch_index]
    environment = {**os.environ, "PIP_DEFAULT_TIMEOUT": "120", "PIP_RETRIES": "5"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        tail = "\n".join("    " + line for line in done.stderr.strip().splitlines()[-6:])
        cure = "Run 'lab sglang' again: what is complete stays. A registry of your own is set in pip's configuration."
        if "No matching distribution" in done.stderr or "Could not find a version" in done.stderr:
            cure = f"Your package index does not have it. The versions are pinned in {LOCK}."
        if torch:
            cure += "\n" + TORCH_CURE
        raise LabError(f"pip could not get {', '.join(requirements)}:\n{tail}\n{cure}")


def no_cuda(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as zipped:
        name = next(n for n in zipped.namelist() if n.endswith(".dist-info/METADATA"))
        wants = re.findall(rb"^Requires-Dist: (nvidia|cuda)", zipped.read(name), re.M)
    if wants or wheel.stat().st_size > 400 << 20:
        size = mib(wheel.stat().st_size)
        wheel.unlink()
        raise LabError(f"the torch that came is a CUDA build ({wheel.name}, {size}).\n{TORCH_CURE}")


# ---------------------------------------------------------------- wheels of the lab's own
def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write_wheel(place: Path, files: dict[str, bytes], info: str) -> None:
    """Write a wheel with a correct RECORD; the same input gives the same bytes."""
    record = "".join(record_line(name, data) for name, data in files.items()) + f"{info}/RECORD,,\n"
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in {**files, f"{info}/RECORD": record.encode()}.items():
            item = zipfile.ZipInfo(name, FIXED_TIME)
            item.compress_type = zipfile.ZIP_DEFLATED
            item.external_attr = 0o644 << 16
            zipped.writestr(item, data)
    aside.rename(place)


def stub_kernel(house: Path) -> None:
    info = f"sgl_kernel-{STUB}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: sgl-kernel\nVersion: {STUB}\n"
        "Summary: PLACEHOLDER of the llmhost.sglang test lab, not the real sgl-kernel: every call raises\n"
        "License: GPL-3.0-or-later\n"
    )
    wheel = "Wheel-Version: 1.0\nGenerator: llmhost.sglang lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        "sgl_kernel.py": (PLACEHOLDERS / "sgl_kernel.py").read_bytes(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": wheel.encode(),
    }
    write_wheel(house / f"sgl_kernel-{STUB}-py3-none-any.whl", files, info)


def shim_torchvision(plain: Path, house: Path) -> None:
    """The published wheel plus the lines of placeholders/torchvision_extension.txt, under a version that says so."""
    was = plain.name.split("-")[1]
    old, new = f"torchvision-{was}.dist-info", f"torchvision-{SHIM}.dist-info"
    files = {}
    with zipfile.ZipFile(plain) as zipped:
        for name in zipped.namelist():
            if name.endswith("/") or name == f"{old}/RECORD":
                continue
            data = zipped.read(name)
            if name == "torchvision/extension.py":
                data += b"\n\n" + (PLACEHOLDERS / "torchvision_extension.txt").read_bytes()
            if name == f"{old}/METADATA":
                data = data.replace(f"\nVersion: {was}\n".encode(), f"\nVersion: {SHIM}\n".encode(), 1)
                if f"Version: {SHIM}".encode() not in data:
                    raise LabError(f"{plain.name}: its METADATA has no line 'Version: {was}'")
            files[name.replace(old, new, 1)] = data
    write_wheel(house / plain.name.replace(f"-{was}-", f"-{SHIM}-"), files, new)
    plain.unlink()
