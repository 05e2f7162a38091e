# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain results become samples; samples become Prometheus' text; what is not known has no sample."""

from __future__ import annotations

import json
import os
import re
import time

from ansible_collections.llmhost.sglang.plugins.module_utils._monitor import collect, metrics
from hypothesis import given
from hypothesis import strategies as st

FOUND = {
    "name": "chat",
    "unit": "sglang-chat.service",
    "active_state": "active",
    "enabled": True,
    "restarts": 2,
    "outdated": [],
    "health": "frozen",
    "version": "0.5.23",
    "model": 'a "model"\n',
    "capacity": {"max_total_num_tokens": 415744},
}
VERDICT = {
    "outcome": "failed",
    "cause": "kv_pool_empty",
    "timeline": [{"phase": "imports", "seconds": 20.5}, {"phase": "weights", "seconds": 4}, {"phase": "kv"}],
    "plan_drift": [{"item": "weights", "ratio": 1.25}, {"item": "graphs", "ratio": None}],
}
CLIENT = {"identified": True, "unit": None, "memory_mib": 100}
GPU = {
    "index": 0,
    "uuid": "GPU-1",
    "health": "ok",
    "memory_mib": {"total": 1000, "used": 300},
    "clients_known": True,
    "clients": [CLIENT, {**CLIENT, "unit": "sglang-chat.service"}, {**CLIENT, "identified": False}],
}


def values(found, metric):
    return {tuple(sorted(labels.items())): value for name, labels, value in found if name == metric}


def one(found, metric):
    (value,) = values(found, metric).values()
    return value


def test_a_server_and_its_last_start():
    found = list(metrics.server(FOUND, VERDICT))
    assert one(found, "llmhost_server_up") == 1
    assert one(found, "llmhost_server_restarts") == 2
    assert one(found, "llmhost_server_capacity_tokens") == 415744
    health = values(found, "llmhost_server_health")
    assert [dict(labels)["health"] for labels, value in health.items() if value] == ["frozen"]
    assert len(health) == len(metrics.HEALTHS)
    (labels,) = values(found, "llmhost_start_outcome")
    assert dict(labels) == {"instance_name": "chat", "outcome": "failed", "cause": "kv_pool_empty"}
    assert len(values(found, "llmhost_start_phase_seconds")) == 2  # a phase without seconds has no sample
    assert one(found, "llmhost_start_seconds") == 24.5
    assert one(found, "llmhost_start_plan_drift_ratio") == 1.25


def test_what_is_not_known_has_no_sample():
    bare = {**FOUND, "version": None, "capacity": {"max_total_num_tokens": None}}
    names = {name for name, _labels, _value in metrics.server(bare, None)}
    assert not names & {"llmhost_server_info", "llmhost_server_capacity_tokens", "llmhost_start_outcome"}
    silent = {**GPU, "clients_known": False, "memory_mib": {"total": None, "used": None}}
    names = {name for name, _labels, _value in metrics.gpus([silent])}
    assert names == {"llmhost_gpu_query_success", "llmhost_gpu_health"}


def test_strangers_are_processes_of_no_sglang_unit_and_a_sum_needs_all_parts():
    assert one(list(metrics.gpus([GPU])), "llmhost_gpu_strangers") == 1
    assert one(list(metrics.gpus([GPU])), "llmhost_gpu_stranger_mib") == 100
    untold = {**GPU, "clients": [CLIENT, {**CLIENT, "memory_mib": None}]}
    found = list(metrics.gpus([untold]))
    assert one(found, "llmhost_gpu_strangers") == 2
    assert not values(found, "llmhost_gpu_stranger_mib")


def test_a_host_without_a_driver_is_no_gpu_host_and_one_with_a_broken_one_is():
    assert list(metrics.no_gpus("no_driver")) == []
    assert list(metrics.no_gpus("version_mismatch")) == [
        ("llmhost_gpu_query_success", {"reason": "version_mismatch"}, 0.0)
    ]


def test_every_metric_that_is_made_is_in_the_table():
    made = [*metrics.server(FOUND, VERDICT), *metrics.gpus([GPU]), *metrics.no_gpus("driver_hung")]
    assert {name for name, _labels, _value in made} <= set(metrics.METRICS)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text(max_size=20)), st.floats(-1e300, 1e300))
def test_the_text_holds_each_sample_on_one_line(labels, value):
    lines = metrics.text([("llmhost_probe_seconds", labels, value)]).split("\n")
    assert lines[0].startswith("# HELP llmhost_probe_seconds ") and lines[1] == "# TYPE llmhost_probe_seconds gauge"
    assert lines[3:] == [""]
    shown = re.fullmatch(r"llmhost_probe_seconds(?:\{(.*)\})? (\S+)", lines[2], re.DOTALL)
    assert shown and float(shown.group(2)) == value
    parts = re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', shown.group(1) or "")
    back = {key: re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), text) for key, text in parts}
    assert back == labels


def test_the_newest_verdict_is_read_and_half_a_one_is_none(tmp_path):
    folder = tmp_path / "instances" / "chat" / "watch"
    assert collect.last_verdict(str(tmp_path), "chat") is None
    folder.mkdir(parents=True)
    for age, outcome in ((20, "ready"), (10, "failed")):
        path = folder / ("%s.verdict.json" % outcome)
        path.write_text(json.dumps({"result": {"outcome": outcome}}))
        os.utime(path, (time.time() - age,) * 2)
    assert collect.last_verdict(str(tmp_path), "chat") == {"outcome": "failed"}
    (folder / "x.verdict.json").write_text('{"result": {"outc')
    assert collect.last_verdict(str(tmp_path), "chat") is None


def test_the_role_copies_every_room_that_the_program_imports():
    """The role's list against what the rooms import, followed from collect.py."""
    root = os.path.join(os.path.dirname(collect.__file__), "..")
    todo, rooms = ["_monitor"], set()
    while todo:
        room = todo.pop()
        if room in rooms:
            continue
        rooms.add(room)
        path = os.path.join(root, room)
        paths = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path + ".py"]
        for one_path in (name for name in paths if name.endswith(".py")):
            with open(one_path, encoding="utf-8") as handle:
                text = handle.read()
            todo += re.findall(r"^from \.\.(_\w+)", text, re.MULTILINE)
            for names in re.findall(r"^from \.\. import (.+)$", text, re.MULTILINE):
                todo += [name.split(" as ")[0].strip() for name in names.split(",")]
    variables = os.path.join(root, "..", "..", "roles", "sglang_monitoring", "vars", "main.yml")
    with open(variables, encoding="utf-8") as handle:
        listed = re.findall(r"^  - (_\w+)$", handle.read(), re.MULTILINE)
    assert set(listed) == rooms
