# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""A program that is run by a runtime's own Python and says in JSON what is installed and whether it works.

python proof.py MODULE...
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import re
import sys
from typing import Any


def prove(modules: list[str]) -> dict[str, Any]:
    packages = {}
    for package in importlib.metadata.distributions():
        name = package.metadata["Name"]
        if name:
            packages[re.sub(r"[-_.]+", "-", name).lower()] = package.version
    answer: dict[str, Any] = {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "packages": packages,
        "imports": {},
        "kernel_wanted": [],
        "torch_cuda": None,
        "device_count": None,
    }
    for line in importlib.metadata.requires("sglang") or [] if "sglang" in packages else []:
        found = re.match(r"^(sgl[-_.]kernel|sglang[-_.]kernel)\s*\(?==\s*([^\s;)]+)\)?\s*(;.*)?$", line.strip(), re.I)
        if found and "extra" not in (found.group(3) or ""):
            answer["kernel_wanted"].append([re.sub(r"[-_.]+", "-", found.group(1)).lower(), found.group(2)])
    for name in modules:
        try:
            importlib.import_module(name)
            answer["imports"][name] = None
        except BaseException as error:  # a module that exits is as bad as one that raises
            answer["imports"][name] = "%s: %s" % (type(error).__name__, error)
    torch = sys.modules.get("torch")
    if torch is not None:
        answer["torch_cuda"] = getattr(getattr(torch, "version", None), "cuda", None)
        try:
            answer["device_count"] = int(torch.cuda.device_count())
        except Exception as error:
            answer["device_error"] = "%s: %s" % (type(error).__name__, error)
    return answer


def main() -> None:
    # a program of its own: pylint: disable-next=ansible-bad-function
    print("llmhost-proof:" + json.dumps(prove(sys.argv[1:])), flush=True)


if __name__ == "__main__":
    main()
