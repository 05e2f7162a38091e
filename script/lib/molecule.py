# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the molecule scenarios of extensions/molecule: a quick one, or with LLMHOST_FULL all of them, and the one that
is made to be copied, where a user would have it: in a project of its own, with the collection as it is built.

Usage: molecule.py ROOT COLLECTIONS_PATH [SCENARIO...]
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

QUICK = ["default"]
COPIED = "your_role"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
RECAP = re.compile(r"(\w+) *: actions=\d+ .* failed=(\d+)")


def molecule(
    folder: Path, env: dict[str, str], names: list[str], *options: str, shared: bool = True
) -> dict[str, bool]:
    """Whether each of the scenarios did all that it should, by molecule's own recap."""
    command = ["molecule", "test", "--no-command-borders", *options]
    print("+ %s (in %s)" % (" ".join(command), folder), flush=True)
    failures: dict[str, list[int]] = {name: [] for name in names}
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout
        for line in running.stdout:
            print(line, end="", flush=True)
            recap = RECAP.match(ESCAPE.sub("", line))
            if recap and recap[1] in names:  # three of "default": the lab, the scenario, the lab
                failures[recap[1]].append(int(recap[2]))
    least = {name: 3 if shared and name == "default" else 1 for name in names}
    return {name: len(found) >= least[name] and not any(found) for name, found in failures.items()}


def copied(root: Path, env: dict[str, str]) -> dict[str, bool]:
    """The scenario in a project that is not ours; the built collection lies where the guide puts it."""
    with tempfile.TemporaryDirectory(prefix="llmhost-your-role-") as scratch:
        project = Path(scratch)
        shutil.copytree(root / "extensions/molecule" / COPIED, project / "molecule/default")
        (project / "roles").mkdir()
        (project / ".deps").symlink_to(env["ANSIBLE_COLLECTIONS_PATH"].split(":")[0])
        # not in the project: others may not enter it, and root of the container is another
        env = {**env, "LAB": str(Path(tempfile.gettempdir()) / ("llmhost-your-role-%d" % os.getpid()))}
        return {COPIED: molecule(project, env, ["default"], shared=False)["default"]}


def main(root: str, collections: str, *names: str) -> int:
    home = Path(root)
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": collections, "NO_COLOR": "1", "COLUMNS": "160"}
    env.setdefault("LAB", str(Path(tempfile.gettempdir()) / ("llmhost-molecule-%d" % os.getpid())))
    known = sorted(path.parent.name for path in (home / "extensions/molecule").glob("*/molecule.yml"))
    wanted = list(names) or ([name for name in known if name != COPIED] if os.environ.get("LLMHOST_FULL") else QUICK)
    unknown = set(wanted) - set(known)
    if unknown:
        sys.exit("no scenario %s; there are: %s" % (", ".join(sorted(unknown)), ", ".join(known)))
    # a run that was killed left word that its containers are there; this one's lab is another one
    for left in Path(env["ANSIBLE_HOME"]).glob("tmp/molecule.*") if "ANSIBLE_HOME" in env else ():
        shutil.rmtree(left, ignore_errors=True)
    results: dict[str, bool] = {}
    ours = [name for name in wanted if name != COPIED]
    try:
        if ours:
            options = [word for name in ours for word in ("--scenario-name", name)]
            results.update(molecule(home, env, ours, *options))
        if COPIED in wanted or os.environ.get("LLMHOST_FULL"):
            results.update(copied(home, env))
    finally:
        subprocess.run([str(home / "tests/lab/lab"), "down"], env=env, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(env["LAB"] + "-data", ignore_errors=True)
    for name, done in results.items():
        print("%s %s" % ("ok    " if done else "FAILED", name))
    failed = sum(not done for done in results.values())
    # the words by which script/test counts
    print("%s%d passed in 0s" % ("%d failed, " % failed if failed else "", len(results) - failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
