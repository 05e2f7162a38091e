# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Lock files: which packages, at which versions; and whether a folder of wheels has them for a Python."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .._errors import LlmHostError

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*===?\s*([^\s;#\\]+)\s*(;[^#\\]*)?")
TOOLS = {"pip", "setuptools", "wheel", "uv"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Lock:
    pins: dict[str, str]  # those without a condition
    conditional: tuple[str, ...]
    hashed: bool


def read(path: str) -> Lock:
    try:
        with open(path, encoding="utf-8") as text:
            return parse(text.read(), path)
    except FileNotFoundError:
        raise LlmHostError(
            "lock_missing",
            f"lock_file {path} does not exist on this host: put it there (in a container this is usually a mount from "
            "the node), or let lock=record write it",
            file=path,
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise LlmHostError("lock_invalid", f"lock_file {path} cannot be read: {error}", file=path) from None


def parse(text: str, path: str) -> Lock:
    pins: dict[str, str] = {}
    conditional = []
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "-")):
            continue
        found = _PIN.match(stripped)
        if found is None:
            raise LlmHostError(
                "lock_invalid",
                f"lock_file {path}, line {number}: {stripped[:80]!r} does not name one version (name==version)",
                file=path,
            )
        if found.group(3):
            conditional.append(canonical(found.group(1)))
        else:
            pins[canonical(found.group(1))] = found.group(2)
    if not pins:
        raise LlmHostError("lock_invalid", f"lock_file {path} names no package", file=path)
    return Lock(pins, tuple(conditional), "--hash" in text)


def render(packages: Mapping[str, str], hashes: Mapping[str, Iterable[str]]) -> str:
    """All packages with their hashes; without any where one is not known, for pip takes all or none.

    Of the tools, those that the installation brought: others are the environment's own.
    """
    names = sorted(name for name in packages if name not in TOOLS or name in hashes)
    whole = all(hashes.get(name) for name in names)
    text = "# Recorded by llmhost.sglang after an installation that was proven.\n"
    for name in names:
        known = sorted(hashes[name]) if whole else []
        text += f"{name}=={packages[name]}" + "".join(f" \\\n    --hash=sha256:{one}" for one in known) + "\n"
    return text


def hashes_of_report(text: str) -> dict[str, list[str]]:
    """Of what pip says that it installed (--report): the file of each package."""
    answer: dict[str, list[str]] = {}
    for item in json.loads(text)["install"]:
        archive = item["download_info"].get("archive_info", {})
        kind, _sign, value = str(archive.get("hash", "")).partition("=")
        found = archive.get("hashes", {}).get("sha256") or (value if kind == "sha256" else "")
        answer[canonical(item["metadata"]["name"])] = [found] if found else []
    return answer


def hashes_of_pylock(text: str) -> dict[str, list[str]]:
    """Of a pylock.toml: all files that the source has of each package."""
    answer: dict[str, list[str]] = {}
    for block in text.split("[[packages]]")[1:]:
        name = re.search(r'^name = "([^"]+)"', block, re.M)
        if name is not None:
            answer[canonical(name.group(1))] = sorted(set(re.findall(r'\bsha256 = "([0-9a-f]{64})"', block)))
    return answer


def differences(lock: Lock, installed: Mapping[str, str]) -> list[str]:
    """Where an installation is not what the lock says."""
    wrong = [
        f"{name} {installed.get(name, 'missing')} instead of {version}"
        for name, version in sorted(lock.pins.items())
        if installed.get(name) != version
    ]
    known = set(lock.pins) | set(lock.conditional) | TOOLS
    return wrong + [f"{name} {installed[name]} is not in the lock" for name in sorted(set(installed) - known)]


def missing_wheels(lock: Lock, folder: str, python: tuple[int, int]) -> list[str]:
    """Pins for which a folder has no wheel that this Python takes, each with what is wrong."""
    have: dict[tuple[str, str], list[str]] = {}
    for name in os.listdir(folder):
        parts = name[: -len(".whl")].split("-") if name.endswith(".whl") else []
        if len(parts) >= 5:
            have.setdefault((canonical(parts[0]), parts[1]), []).append(name)
    answer = []
    for name, version in sorted(lock.pins.items()):
        found = have.get((name, version), [])
        if not found:
            answer.append(f"{name}=={version}")
        elif not any(fits(wheel, python) for wheel in found):
            answer.append(f"{name}=={version} (only {found[0]}, which Python {python[0]}.{python[1]} does not take)")
    return answer


def fits(wheel: str, python: tuple[int, int], machine: str | None = None) -> bool:
    *_name, pythons, abis, platforms = wheel[: -len(".whl")].split("-")
    return (
        any(_python_fits(tag, abis, python) for tag in pythons.split("."))
        and platforms.split(".") != ["win32"]
        and any(tag == "any" or tag.endswith(machine or platform.machine()) for tag in platforms.split("."))
    )


def _python_fits(tag: str, abis: str, python: tuple[int, int]) -> bool:
    if tag in ("py3", f"py{python[0]}{python[1]}"):
        return True
    found = re.match(r"^(?:cp|py)3(\d+)$", tag)
    if found is None:
        return False
    minor = int(found.group(1))
    return minor == python[1] or (minor < python[1] and (abi_is_stable(abis.split(".")) or tag.startswith("py")))


def abi_is_stable(abis: Iterable[str]) -> bool:
    return "abi3" in abis
