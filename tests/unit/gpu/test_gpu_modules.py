# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules promise: each key that is returned is documented, and each reason is listed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import errors, query
from ansible_collections.llmhost.sglang.plugins.modules import gpu_clean, gpu_info
from gpu_world_support import World, clean

ROOM = Path(query.__file__).parent
COMMON = {"changed", "msg", "reason", "diff", "failed"}


def returned(module: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(module.RETURN)
    return found


def raised() -> dict[str, set[str]]:
    """reason -> the details that come with it, from each place in the core that raises one."""
    found: dict[str, set[str]] = {row.reason: {"driver_said"} for row in errors.ERRORS}
    for path in [*ROOM.glob("*.py"), Path(gpu_clean.__file__), ROOM.parent / "_process" / "signals.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
            if name in ("LlmHostError", "_fail", "_problem") and isinstance(node.args[0].value, str):
                details = {word.arg for word in node.keywords if word.arg}
                found.setdefault(node.args[0].value, set()).update(details)
    return found


def test_each_reason_is_listed_and_each_detail_documented() -> None:
    documented = returned(gpu_clean)
    listed = set(re.findall(r"V\(([a-z_]+)\)", " ".join(documented["reason"]["description"])))
    listed |= set(re.findall(r"V\(([a-z_]+)\)", " ".join(returned(gpu_info)["reason"]["description"])))
    for reason, details in raised().items():
        if reason == "mps_in_use" or reason in listed:
            missing = details - set(documented) - {"stderr", "rc", "command"}
            assert not missing, f"{reason} returns {missing}, which gpu_clean does not document"
            continue
        raise AssertionError(f"the reason {reason} is in no list")


def test_each_key_of_a_report_is_documented(tmp_path: Path) -> None:
    world = World()
    world.scheduler()
    world.add("Xorg", gpu=0, mib=10, kinds=("graphics",))
    documented = returned(gpu_clean)
    found = clean(world, tmp_path).result
    assert set(found) - COMMON <= set(documented)
    for key in ("gpus", "targets", "actions", "tolerated"):
        assert found[key], key
        for item in found[key]:
            assert set(item) == set(documented[key]["contains"]), key


def test_each_key_of_a_gpu_is_documented() -> None:
    documented = returned(gpu_info)["gpus"]["contains"]
    world = World()
    (gpu,) = world.look().gpus
    assert set(gpu.as_dict()) == set(documented)


def test_a_diff_shows_who_goes_and_who_stays(tmp_path: Path) -> None:
    world = World()
    world.scheduler()
    world.add("Xorg", gpu=0, mib=10, kinds=("graphics",))
    found = gpu_clean.diff(clean(world, tmp_path, check=True).result)
    assert "sglang::schedul" in found["before"] and "Xorg" in found["before"]
    assert "sglang::schedul" not in found["after"] and "Xorg" in found["after"]


@pytest.mark.parametrize("module", [gpu_info, gpu_clean])
def test_the_documentation_is_the_argument_spec(module: Any) -> None:
    """Names, types and defaults of the options, as written twice."""
    options = yaml.safe_load(module.DOCUMENTATION)["options"]
    tree = ast.parse(Path(module.__file__).read_text())
    call = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "AnsibleModule")
    spec = next(word.value for word in call.keywords if word.arg == "argument_spec")
    assert isinstance(spec, ast.Dict)
    assert {key.value for key in spec.keys if isinstance(key, ast.Constant)} == set(options)
