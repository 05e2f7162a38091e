# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheelhouse: a real, unmodified SGLang for the CPU, and the placeholders that a CPU needs.

`<cache>/wheelhouse/*.whl` and `lock.txt`; a container sees it at /srv/wheelhouse and installs with

    pip install --no-index --find-links /srv/wheelhouse --no-deps -r /srv/wheelhouse/lock.txt

Another version beside it, of those in the table: `lock-VERSION.txt`.

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
from dataclasses import dataclass
from pathlib import Path

from lab_common import HERE, LabError, Settings, mib, only_one, say, write_aside

PLACEHOLDERS = HERE / "placeholders"
PYTHON = "3.11"
PLATFORMS = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")
LARGE = ("torch", "triton", "sglang")  # each in a step of its own, so that an interruption loses little
STEP = 24
SHIM = "0.28.0+lab"
FIXED_TIME = (2026, 1, 1, 0, 0, 0)
TORCH_CURE = (
    "The CPU build of torch comes from PyTorch's own index of CPU wheels (pytorch.org, 'Get started', compute "
    "platform CPU, shows its address): LAB_TORCH_INDEX=ADDRESS lab sglang"
)


@dataclass(frozen=True)
class Placeholder:
    """A package of the lab's own: no build of the real one for a CPU is published."""

    name: str
    version: str
    files: dict[str, str]  # path in the wheel -> file in placeholders/
    says: str


@dataclass(frozen=True)
class Version:
    """An SGLang that was seen to serve on a CPU. Its pins: locks/sglang-NUMBER-cpu.txt."""

    number: str
    lock: str  # its name in the wheelhouse
    placeholders: tuple[Placeholder, ...]

    @property
    def pinned(self) -> Path:
        return HERE / "locks" / f"sglang-{self.number}-cpu.txt"


KERNEL = Placeholder("sgl-kernel", "0.0.0+placeholder", {"sgl_kernel.py": "raises.py"}, "every call raises")
KERNEL_PACKAGE = Placeholder(
    "sgl-kernel",
    "0.0.0+placeholder.package",
    {"sgl_kernel/__init__.py": "raises.py", "sgl_kernel/kvcacheio.py": "raises.py"},
    "every call raises",
)
VLLM = Placeholder(
    "vllm",
    "0.0.0+placeholder",
    {
        "vllm/_custom_ops.py": "raises.py",
        "vllm/model_executor/layers/layernorm.py": "vllm_layernorm.py",
        "vllm/model_executor/layers/activation.py": "vllm_activation.py",
    },
    "it hands SGLang its own layers back, all else raises",
)
NEWEST = "0.5.23"
VERSIONS = {
    version.number: version
    for version in (
        Version(NEWEST, "lock.txt", (KERNEL,)),
        Version("0.5.6.post2", "lock-0.5.6.post2.txt", (KERNEL_PACKAGE, VLLM)),
    )
}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(number: str = NEWEST) -> dict[str, str]:
    """The lock that ships with the lab: canonical name -> version."""
    lines = [line.split("#")[0].strip() for line in VERSIONS[number].pinned.read_text().splitlines()]
    return {canonical(name): version for name, version in (line.split("==") for line in lines if line)}


def target(number: str = NEWEST) -> dict[str, str]:
    """What a container installs: the pins, with the changes that a CPU needs."""
    own = {placeholder.name: placeholder.version for placeholder in VERSIONS[number].placeholders}
    return {**pins(number), "torchvision": SHIM, **own}


def wheels(folder: Path) -> dict[tuple[str, str], Path]:
    found = {}
    for path in sorted(folder.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        found[canonical(name), version] = path
    return found


def fill(settings: Settings, number: str = NEWEST) -> None:
    if number not in VERSIONS:
        raise LabError(f"no SGLang {number} was seen to serve on a CPU: choose one of {', '.join(VERSIONS)}")
    house, lock = settings.wheelhouse, settings.wheelhouse / VERSIONS[number].lock
    with only_one(settings.cache / ".lock-wheelhouse", "the wheelhouse"):
        house.mkdir(parents=True, exist_ok=True)
        want = target(number)
        have = wheels(house)
        missing = [name for name in sorted(want) if (name, want[name]) not in have]
        start = time.monotonic()
        if missing:
            lock.unlink(missing_ok=True)  # an unfinished wheelhouse has no lock
            download(settings, house, number, missing)
        known = {pair for each in VERSIONS for pair in target(each).items()}
        for pair, path in wheels(house).items():
            if pair not in known:  # of an older lock
                path.unlink()
        write_aside(lock, "".join(f"{name}=={version}\n" for name, version in sorted(want.items())))
        total = sum(wheels(house)[pair].stat().st_size for pair in want.items())
        what = f"{len(missing)} added in {time.monotonic() - start:.0f} s" if missing else "complete already"
        say(f"wheelhouse, SGLang {number}: {what}; {len(want)} wheels, {mib(total)} in {house}")


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


def download(settings: Settings, house: Path, number: str, missing: list[str]) -> None:
    have = pins(number)
    part = house / ".part"
    shutil.rmtree(part, ignore_errors=True)  # whatever an interruption left: never trusted
    part.mkdir()
    pip = find_pip(settings)
    placeholders = {placeholder.name: placeholder for placeholder in VERSIONS[number].placeholders}
    names = [name for name in missing if name not in placeholders]
    small = [name for name in names if name not in LARGE]
    steps = [small[i : i + STEP] for i in range(0, len(small), STEP)] + [[n] for n in LARGE if n in names]
    say(f"wheelhouse: {len(names)} packages to download for SGLang {number}, about 560 MiB when none is there")
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
    for name in missing:
        if name in placeholders:
            pack(house, placeholders[name])
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
            cure = f"Your package index does not have it. The versions are pinned in {HERE / 'locks'}."
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


def pack(house: Path, what: Placeholder) -> None:
    stem = f"{what.name.replace('-', '_')}-{what.version}"
    metadata = (
        f"Metadata-Version: 2.1\nName: {what.name}\nVersion: {what.version}\n"
        f"Summary: PLACEHOLDER of the llmhost.sglang test lab, not the real {what.name}: {what.says}\n"
        "License: GPL-3.0-or-later\n"
    )
    wheel = "Wheel-Version: 1.0\nGenerator: llmhost.sglang lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {name: (PLACEHOLDERS / source).read_bytes() for name, source in what.files.items()}
    files |= {f"{stem}.dist-info/METADATA": metadata.encode(), f"{stem}.dist-info/WHEEL": wheel.encode()}
    write_wheel(house / f"{stem}-py3-none-any.whl", files, f"{stem}.dist-info")


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
