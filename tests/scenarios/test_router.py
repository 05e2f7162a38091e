# SPDX-License-Identifier: GPL-3.0-or-later
"""Role sglang_router: SGLang's real router in front of two servers, which are restarted under a running load."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
import test_server_lab
from conftest import Controller
from scenario_support import HOST, PORT, Bench, Task, replayed, wait

bench, fresh, leave_nothing = test_server_lab.bench, test_server_lab.fresh, test_server_lab.leave_nothing

ROLE = "llmhost.sglang.sglang_router"
ROUTER_PORT = 30070
NAMES = {"one": PORT + 3, "two": PORT + 4}
KEY = "router-key-of-this-test"
WHEELS = "/opt/llmhost/router-wheels"
VARIABLES: dict[str, Any] = {
    "sglang_router_wheelhouse": WHEELS,
    "sglang_router_port": ROUTER_PORT,
    "sglang_router_policy": "round_robin",
    "sglang_router_hosts": [HOST],
    "sglang_router_api_key": KEY,
    "sglang_router_timeout_s": 60,
}

# Asks for completions through the router, four at a time, until the file STOP is there; then tells what came of them.
LOAD = """
import collections, concurrent.futures, json, os, sys, time, urllib.error, urllib.request
url, key, stop, out = sys.argv[1:]
def one():
    body = json.dumps({"model": "default", "prompt": "replay_seconds=10", "max_tokens": 8}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
    try:
        request = urllib.request.Request(url + "/v1/completions", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.status) if json.load(answer)["choices"][0]["finish_reason"] else "unfinished"
    except urllib.error.HTTPError as error:
        return "%d %s" % (error.code, error.read()[:200])
    except OSError as error:
        return repr(error)
def many():
    told = collections.Counter()
    while not os.path.exists(stop):
        told[one()] += 1
    return told
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    total = sum((future.result() for future in [pool.submit(many) for _ in range(4)]), collections.Counter())
with open(out + ".new", "w") as handle:
    json.dump(total, handle)
os.rename(out + ".new", out)
"""


@pytest.fixture(scope="module")
def wheels(fresh: Bench) -> str:
    """The router and what it needs, as wheels for the container's Python."""
    fresh.lab("wheels", str(fresh.lab.data / "router-wheels"), "sglang-router==0.3.2")
    return WHEELS


def play(folder: pathlib.Path, name: str, *tasks_from: str, **more: Any) -> pathlib.Path:
    tasks = [
        {"name": one, "ansible.builtin.include_role": {"name": ROLE, "tasks_from": one + ".yml"}} for one in tasks_from
    ]
    path = folder / (name + ".yml")
    path.write_text(json.dumps([{"name": name, "hosts": HOST, "gather_facts": False, "tasks": tasks, **more}]))
    return path


def test_two_servers_are_restarted_one_after_the_other_and_no_request_is_lost(
    bench: Bench, controller: Controller, wheels: str, tmp_path: pathlib.Path
) -> None:
    servers = {name: replayed(name, port=port) for name, port in NAMES.items()}
    for name, one in servers.items():
        one["argv"][one["argv"].index("--port") + 1] = str(NAMES[name])
    waits = [Task("server_wait", {"name": name, "port": port, "timeout_s": 200}) for name, port in NAMES.items()]
    bench.run(*(Task("server", one) for one in servers.values()), *waits)
    instances = {name: {"model": "/srv/model", "port": port} for name, port in NAMES.items()}
    variables = {**VARIABLES, "sglang_server_instances": instances}
    try:
        refused = controller.play(
            play(tmp_path, "open", "main"),
            variables={**variables, "sglang_router_host": "0.0.0.0", "sglang_router_api_key": ""},
        )
        assert refused.status == "failed" and "sglang_router_allow_open" in refused.text()
        made = controller.play(play(tmp_path, "router", "main"), variables=variables)
        assert made.status == "successful", made.text()
        assert [one["healthy"] for one in made.result("router_workers")["workers"]] == [True, True]
        again = controller.play(tmp_path / "router.yml", variables=variables)
        assert again.status == "successful" and again.changed() == [], again.changed()
        shown = bench.sh("ps -eo args; cat /etc/systemd/system/llmhost-router.service; journalctl -u llmhost-router")
        assert KEY not in shown and KEY not in made.text() + again.text()

        bench.write("/srv/load.py", LOAD)
        url = "http://127.0.0.1:%d" % ROUTER_PORT
        bench.sh("systemd-run -q --unit=load python3 /srv/load.py %s %s /run/load.stop /run/load.json" % (url, KEY))
        # one after the other: out, restarted (which drains), waited for, and back
        for name, port in NAMES.items():
            only = {**variables, "sglang_router_instance": name}
            out = controller.play(play(tmp_path, "drain", "drain"), variables=only)
            assert out.status == "successful", out.text()
            assert out.result("router_workers")["removed"] == ["http://127.0.0.1:%d" % port]
            restarted, _ready = bench.run(
                Task("server", {**servers[name], "state": "restarted"}),
                Task("server_wait", {"name": name, "port": port, "timeout_s": 200}),
            )
            assert restarted["changed"]
            back = controller.play(play(tmp_path, "register", "register"), variables=only)
            assert back.status == "successful", back.text()
        bench.sh("touch /run/load.stop")
        wait(lambda: bench.sh("test -e /run/load.json && echo yes || true").strip() == "yes", 90)
        told = json.loads(bench.sh("cat /run/load.json"))
        print("completions through the router while both servers were restarted: %s" % told, file=sys.stderr)
        assert set(told) == {"200"} and told["200"] > 20, told
        # a server that died is no worker that could be registered, and it is named
        bench.server(name="two", state="stopped")
        dead = controller.play(
            play(tmp_path, "dead", "drain", "register"),
            variables={**variables, "sglang_router_instance": "two", "sglang_router_timeout_s": 3},
        )
        assert dead.status == "failed" and "http://127.0.0.1:%d is not" % NAMES["two"] in dead.text(), dead.text()
    finally:
        bench.sh(
            "systemctl disable -q --now llmhost-router; systemctl stop load; systemctl reset-failed; "
            "rm -rf /etc/systemd/system/llmhost-router.service /opt/llmhost/routers /etc/llmhost/router.json; "
            "rm -f /run/load.*; systemctl daemon-reload"
        )
