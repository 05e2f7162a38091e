# SPDX-License-Identifier: GPL-3.0-or-later
"""`lab tiny-wheels DIR`: a wheelhouse of a few kilobytes that installs as SGLang does, for tests of installations.

Each `sglang` in it is the lab's replayer (it plays recorded starts, no model); `torch` and the kernels are empty
packages that say which CUDA they are built for. Beside the wheels lies a lock for each version: lock-VERSION.txt.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab_common import HERE, make_folder, put_owner
from lab_wheels import write_wheel

REPLAY = HERE / "replay"
VERSIONS = ("0.5.18", "0.5.23")
OF_ONE_VERSION = {"0.5.18": ("2.13.0", "0.4.6.post1"), "0.5.23": ("2.14.1", "0.4.10")}  # torch, sglang-kernel
TORCH = """class version:
    cuda = %s


class cuda:
    device_count = staticmethod(lambda: 0)
"""
RECORDINGS = (
    "ok-clean-recipe",
    "s04b-term-importing-longlinger",
    "s09-int-ready",
    "s01-kill9-sched-starting",
    "s07-kill9-sched-ready",
    "s12b-term-group-ready",
    "s08-kill9-detok-ready",
    "f21-port-in-use",
    "f21b-port-in-use-by-sglang",
    "f12-bad-arch",
)


@dataclass(frozen=True)
class Recipe:
    version: str
    torch_cuda: str | None = None  # a build for the CPU
    kernel: str | None = None  # another version of the kernels than the one that it needs
    plays: str = "ok-clean-recipe"  # what its server does when it is started
    raises: str = ""  # on import


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes], requires: tuple[str, ...] = ()) -> None:
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: TINY, of the llmhost.sglang test lab\n"
    )
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    tag = "Wheel-Version: 1.0\nGenerator: llmhost.sglang lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": tag.encode()}
    write_wheel(folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl", files, info)


def sglang(recipe: Recipe) -> dict[str, bytes]:
    place = REPLAY / "runtime" / "sglang"
    files = {f"sglang/{path.name}": path.read_bytes() for path in sorted(place.glob("*.py"))}
    files |= {
        f"sglang/recordings/{name}.tsv": (REPLAY / "recordings" / f"{name}.tsv").read_bytes() for name in RECORDINGS
    }
    chosen = files["sglang/recording.py"].replace(
        b'DEFAULT = "ok-clean-recipe"', f'DEFAULT = "{recipe.plays}"'.encode()
    )
    files["sglang/recording.py"] = chosen
    lines = files["sglang/__init__.py"].decode().splitlines()
    version = [f'__version__ = "{recipe.version}"' if line.startswith("__version__") else line for line in lines]
    if recipe.raises:
        version.append(f"raise ImportError({recipe.raises!r})")
    files["sglang/__init__.py"] = ("\n".join(version) + "\n").encode()
    return files


def make(folder: Path, recipes: tuple[Recipe, ...] = tuple(Recipe(version) for version in VERSIONS)) -> Path:
    make_folder(folder.absolute())
    for recipe in recipes:
        torch, kernel = OF_ONE_VERSION.get(recipe.version, OF_ONE_VERSION["0.5.23"])
        local = "+cu" + recipe.torch_cuda.replace(".", "") if recipe.torch_cuda else "+cpu"
        body = TORCH % repr(recipe.torch_cuda)
        wheel(folder, "torch", torch + local, {"torch/__init__.py": body.encode()})
        have = recipe.kernel or kernel
        wheel(folder, "sglang-kernel", have, {"sgl_kernel/__init__.py": b""})
        needs = (f"torch=={torch}", "tiny-helper", *([f"sglang-kernel=={kernel}"] if recipe.torch_cuda else []))
        wheel(folder, "sglang", recipe.version, sglang(recipe), needs)
        pins = {"sglang": recipe.version, "torch": torch + local, "tiny-helper": "1.0"}
        if recipe.torch_cuda:
            pins["sglang-kernel"] = have
        lock = "".join(f"{name}=={version}\n" for name, version in sorted(pins.items()))
        (folder / f"lock-{recipe.version}.txt").write_text(lock)
    many = {f"tiny_helper/part_{number:03}.py": b"VALUE = %d\n" % number for number in range(200)}  # it takes a moment
    wheel(folder, "tiny-helper", "1.0", {"tiny_helper/__init__.py": b"", **many})
    put_owner(folder)
    return folder
