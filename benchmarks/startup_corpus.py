#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How well the startup watch reads real logs, beside what is done today.

Reads ``cases/startup_logs.jsonl`` of the shared folder (``--shared``, the variable LLMHOST_SHARED, or ``../shared``
beside the checkout), gives every log to the watch as text, and prints what was right. Beside it the loop
``tail | grep -iE "error|failed|traceback|application startup complete"`` (the first hit decides, the last line is the
cause) and ``wait_for`` with a search for the ready line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def collection() -> None:
    """Make ``ansible_collections.llmhost.sglang`` importable from a plain checkout."""
    try:
        import ansible_collections.llmhost.sglang.plugins.module_utils._startup  # noqa: F401
    except ImportError:
        import importlib.util
        import types

        for name, folder in (
            ("ansible_collections", None),
            ("ansible_collections.llmhost", None),
            ("ansible_collections.llmhost.sglang", ROOT),
        ):
            if name not in sys.modules or importlib.util.find_spec(name) is None:
                module = types.ModuleType(name)
                module.__path__ = [str(folder)] if folder else []
                sys.modules[name] = module


def records(shared: Path) -> list[dict]:
    with open(shared / "cases" / "startup_logs.jsonl", encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


def normal(line: str) -> str:
    """A line without prefixes and decoration, for the comparison of root lines."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.lines import Raw, parse

    return re.sub(r"\s+", " ", parse(Raw(line.encode(), 0, 1)).text.strip(" *")).strip()


def same_line(found: str, label: str) -> bool:
    one, other = normal(found), normal(label)
    return (
        bool(one)
        and bool(other)
        and (one == other or (len(min(one, other, key=len)) >= 5 and (one in other or other in one)))
    )


NEIGHBOURS = [
    {"kernel_abi_mismatch", "package_version_mismatch", "missing_shared_lib"},
    {"quant_mismatch", "weight_mismatch", "quant_tp_indivisible"},
    {"no_gpu", "driver_too_old"},
    {"nccl_error", "native_crash"},
    {"oom_load_weights", "gpu_occupied"},
    {"oom_graph_capture", "oom_kv_or_runtime_pool"},
    {"watchdog_timeout", "jit_stuck"},
    {"draft_model", "transformers_unknown_model_type"},
    {"backend_unsupported", "sglang_bug"},
]


def near(found: str | None, label: str) -> bool:
    return found == label or any(found in pair and label in pair for pair in NEIGHBOURS)


def ours(log: str) -> dict:
    from ansible_collections.llmhost.sglang.plugins.module_utils._startup.text import diagnose

    return diagnose(log.encode()).as_dict()


SEED = re.compile("error|failed|traceback|application startup complete", re.I)


def seed(log: str) -> dict:
    """The loop of today: the first hit decides, the last line is the cause."""
    for line in log.splitlines():
        hit = SEED.search(line)
        if hit:
            outcome = "ready" if "startup complete" in hit.group(0).lower() else "failed"
            break
    else:
        outcome = "in_progress"
    lines = [line for line in log.splitlines() if line.strip()]
    return {"outcome": outcome, "cause": None, "evidence": {"line": lines[-1] if lines else ""}}


def wait_for(log: str) -> dict:
    return {
        "outcome": "ready" if "The server is fired up and ready to roll" in log else "in_progress",
        "cause": None,
        "evidence": {},
    }


def measure(rows: list[dict], read) -> dict:
    score = {
        "n": len(rows),
        "outcome": 0,
        "false_ready": [],
        "failed_on_ready": [],
        "wrong_outcome": [],
        "cause_n": 0,
        "cause": 0,
        "near": 0,
        "wrong_cause": [],
        "root_n": 0,
        "root": 0,
        "wrong_root": [],
    }
    for row in rows:
        got = read(row["log"])
        want = row["state_at_end"]
        if got["outcome"] == want:
            score["outcome"] += 1
        else:
            score["wrong_outcome"].append((row["id"], want, got["outcome"], got.get("message", "")[:160]))
        if got["outcome"] == "ready" and want != "ready":
            score["false_ready"].append(row["id"])
        if got["outcome"] == "failed" and want in ("ready", "crashed_after_ready"):
            score["failed_on_ready"].append(row["id"])
        if row["cause_in_log"] and row["cause"] != "none":
            score["cause_n"] += 1
            score["cause"] += got["cause"] == row["cause"]
            score["near"] += near(got["cause"], row["cause"])
            if got["cause"] != row["cause"]:
                score["wrong_cause"].append(
                    (row["id"], row["cause"], got["cause"], row["root_evidence"] or "", got["evidence"].get("line", ""))
                )
            if row["root_evidence"]:
                score["root_n"] += 1
                right = same_line(got["evidence"].get("line", ""), row["root_evidence"])
                score["root"] += right
                if not right:
                    score["wrong_root"].append((row["id"], row["root_evidence"], got["evidence"].get("line", "")))
    return score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("LLMHOST_SHARED", ROOT.parent / "shared")))
    parser.add_argument("--verbose", action="store_true", help="list what was wrong")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    options = parser.parse_args()
    if not (options.shared / "cases" / "startup_logs.jsonl").exists():
        print("no cases/startup_logs.jsonl below %s: nothing measured" % options.shared)
        return 2
    collection()
    rows = records(options.shared)
    began = time.perf_counter()
    scores = {"watch": measure(rows, ours)}
    seconds = time.perf_counter() - began
    scores["seed loop"] = measure(rows, seed)
    scores["wait_for"] = measure(rows, wait_for)
    if options.json:
        print(
            json.dumps(
                {
                    name: {key: value for key, value in score.items() if isinstance(value, int)}
                    for name, score in scores.items()
                }
            )
        )
        return 0
    print(
        "%-10s %18s %12s %16s %18s %18s %18s"
        % ("", "outcome right", "false ready", "failed on ready", "cause", "cause or neighbour", "root line")
    )
    for name, score in scores.items():
        print(
            "%-10s %9d/%d %5.1f%% %12d %16d %8d/%d %5.1f%% %8d/%d %5.1f%% %8d/%d %5.1f%%"
            % (
                name,
                score["outcome"],
                score["n"],
                100 * score["outcome"] / score["n"],
                len(score["false_ready"]),
                len(score["failed_on_ready"]),
                score["cause"],
                score["cause_n"],
                100 * score["cause"] / score["cause_n"],
                score["near"],
                score["cause_n"],
                100 * score["near"] / score["cause_n"],
                score["root"],
                score["root_n"],
                100 * score["root"] / score["root_n"],
            )
        )
    print("%d logs read in %.1f s" % (len(rows), seconds))
    if options.verbose:
        for kind in ("wrong_outcome", "wrong_cause", "wrong_root"):
            print("\n" + kind)
            for entry in scores["watch"][kind]:
                print("  " + " | ".join(str(part)[:150] for part in entry))
    return 0


if __name__ == "__main__":
    sys.exit(main())
