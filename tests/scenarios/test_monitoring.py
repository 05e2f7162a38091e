# SPDX-License-Identifier: GPL-3.0-or-later
"""Role sglang_monitoring: its alert rules in promtool, and a real Prometheus that scrapes what the role set up."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import test_server_lab
import yaml
from conftest import FULL, Controller
from scenario_support import HOST, PORT, STATE, Bench, Task, replayed, wait

# the same container, and the same cleaning after each test
bench, fresh, leave_nothing = test_server_lab.bench, test_server_lab.fresh, test_server_lab.leave_nothing

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "roles" / "sglang_monitoring" / "files"
ROWS = yaml.safe_load((ROOT / "tests/scenarios/files/alerts.yml").read_text(encoding="utf-8"))
RULES = yaml.safe_load((FILES / "llmhost_alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


@pytest.fixture(scope="session")
def programs() -> pathlib.Path:
    """prometheus, promtool and the node exporter, out of Debian's packages, unpacked and not installed: no daemon."""
    folder = pathlib.Path(os.environ["LLMHOST_CACHE"]) / "prometheus"
    if not (folder / "usr/bin/promtool").exists():
        folder.mkdir(parents=True, exist_ok=True)
        download = ["apt-get", "-q", "download", "prometheus", "prometheus-node-exporter"]
        if subprocess.run(download, cwd=folder, check=False).returncode:  # a bare machine has no package lists
            subprocess.run(["apt-get", "-q", "update"], check=True)
            subprocess.run(download, cwd=folder, check=True)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
            package.unlink()
    return folder / "usr" / "bin"


def promtool(programs: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([programs / "promtool", *arguments], capture_output=True, text=True, check=False)


def rule_test(tmp_path: pathlib.Path, alert: str, row: Mapping[str, Any], expected: list[dict[str, Any]]) -> str:
    path = tmp_path / "rules_test.yml"
    test = {
        "rule_files": [str(FILES / "llmhost_alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in row["series"].items()],
                "alert_rule_test": [{"eval_time": row["after"], "alertname": alert, "exp_alerts": expected}],
            }
        ],
    }
    path.write_text(yaml.safe_dump(test), encoding="utf-8")
    return str(path)


def test_every_rule_has_its_row():
    assert [rule["alert"] for rule in RULES] == list(ROWS)


def test_promtool_accepts_the_rules(programs):
    done = promtool(programs, "check", "rules", str(FILES / "llmhost_alerts.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ROWS)
def test_the_alert_fires_and_its_neighbour_does_not(programs, tmp_path, alert):
    row = ROWS[alert]
    silent = rule_test(tmp_path, alert, {**row["silent"], "after": row["fires"]["after"]}, [])
    done = promtool(programs, "test", "rules", silent)
    assert done.returncode == 0, "it fired where it must not:\n" + done.stdout + done.stderr
    # promtool compares texts too, so what it says of an alert that nobody expected shows whether, and how, it fired
    fired = promtool(programs, "test", "rules", rule_test(tmp_path, alert, row["fires"], []))
    assert fired.returncode != 0, "it did not fire"
    said = fired.stdout + fired.stderr
    for key, value in row["fires"]["labels"].items():
        assert '%s="%s"' % (key, value) in said, said
    # a Prometheus that asks for OpenMetrics gets SGLang's names with "_" for ":" (seen with prometheus_client 0.26)
    series = {name.replace("sglang:", "sglang_"): values for name, values in row["fires"]["series"].items()}
    fired = promtool(programs, "test", "rules", rule_test(tmp_path, alert, {**row["fires"], "series": series}, []))
    assert fired.returncode != 0, "it did not fire by the other name"
    assert "<no value>" not in said and "error" not in said.lower().replace("errors", ""), said


def test_every_metric_that_is_asked_for_exists():
    """Rules and dashboard name only metrics of the collection's table, or of SGLang's recorded list."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._monitor import metrics

    dashboard = json.loads((FILES / "llmhost_dashboard.json").read_text(encoding="utf-8"))
    asked = [rule["expr"] for rule in RULES]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    names = {name for expr in asked for name in re.findall(r"llmhost_[a-z_]+", expr)}
    assert names <= set(metrics.METRICS)


# -- the role in the lab, and a real Prometheus ------------------------------------------------------------------------

ROLE = "llmhost.sglang.sglang_monitoring"
NAME = "watched"


def roles_play(folder: pathlib.Path) -> pathlib.Path:
    """The role, and its entry point for Prometheus, both on the container."""
    variables = {
        "sglang_monitoring_node_exporter": False,  # the lab has no way out; the program is put there by the test
        "sglang_monitoring_interval_s": 2,
        "sglang_monitoring_probe": True,
        "sglang_monitoring_probe_interval_s": 2,
        "sglang_monitoring_probe_timeout_s": 4,
        "sglang_monitoring_hosts": [HOST],
        "sglang_monitoring_rules_path": "/srv/prometheus/rules/llmhost.yml",
        "sglang_monitoring_targets_path": "/srv/prometheus/targets/llmhost.json",
        "sglang_monitoring_dashboard_path": "/srv/prometheus/dashboards/llmhost.json",
    }
    tasks = [
        {"name": "Figures", "ansible.builtin.include_role": {"name": ROLE}},
        {"name": "Rules", "ansible.builtin.include_role": {"name": ROLE, "tasks_from": "prometheus.yml"}},
    ]
    book = folder / "monitoring.yml"
    play = {"name": "Monitoring", "hosts": HOST, "gather_facts": False, "vars": variables, "tasks": tasks}
    book.write_text(json.dumps([play]), encoding="utf-8")
    return book


CONFIG = {
    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
    "rule_files": ["/srv/prometheus/rules/*.yml"],
    "scrape_configs": [
        {"job_name": "llmhost", "file_sd_configs": [{"files": ["/srv/prometheus/targets/*.json"]}]},
    ],
}
COMMANDS = {
    "node-exporter": "/opt/llmhost/programs/prometheus-node-exporter --collector.disable-defaults "
    "--collector.textfile --collector.textfile.directory=/var/lib/prometheus/node-exporter",
    "prometheus": "/opt/llmhost/programs/prometheus --config.file=/srv/prometheus/prometheus.yml "
    "--storage.tsdb.path=/srv/prometheus/data --web.listen-address=127.0.0.1:9090 --log.level=warn",
}
ASK = """
import sys, urllib.parse, urllib.request
query = urllib.parse.urlencode({"query": sys.argv[1]})
print(urllib.request.urlopen("http://127.0.0.1:9090/api/v1/query?" + query).read().decode())
"""


@pytest.fixture
def ask(bench: Bench, programs: pathlib.Path) -> Iterator[Callable[[str], list[Any]]]:
    """Asks the Prometheus of the container, once it runs; afterwards nothing of it is left."""

    def question(query: str) -> list[Any]:
        answer = bench.lab.ct("python3", "-c", ASK, query, check=False)
        return json.loads(answer)["data"]["result"] if answer else []

    into = bench.lab.data / "programs"
    into.mkdir(exist_ok=True)
    for name in ("prometheus", "prometheus-node-exporter"):
        shutil.copy(programs / name, into / name)
    yield question
    bench.sh(
        "systemctl disable -q --now llmhost-monitor.timer llmhost-probe.timer; "
        "systemctl stop llmhost-monitor llmhost-probe node-exporter prometheus; systemctl reset-failed; "
        "rm -rf /etc/systemd/system/llmhost-* /usr/local/lib/llmhost /var/lib/prometheus /srv/prometheus; "
        "systemctl daemon-reload"
    )
    shutil.rmtree(into)


@pytest.mark.skipif(not FULL, reason="only with script/test full")
def test_a_real_prometheus_sees_the_server_and_a_frozen_one_raises_an_alert(
    bench: Bench, controller: Controller, ask: Callable[[str], list[Any]], tmp_path: pathlib.Path
) -> None:
    """The figures of the role (and SGLang's own, with the real one) are scraped, and the dashboard's queries work."""
    options = {"arguments": ["--enable-metrics", "--host", "0.0.0.0"]} if FULL else {}
    bench.server(**replayed(NAME, **options))
    bench.one(Task("server_wait", {"name": NAME, "port": PORT, "timeout_s": 300, "progress": False}))
    instances = {NAME: {"model": "/srv/model", "port": PORT, "host": "0.0.0.0", "arguments": {"enable_metrics": True}}}
    variables = {"sglang_server_instances": instances}
    play = controller.play(roles_play(tmp_path), variables=variables)
    assert play.status == "successful", play.text()
    again = controller.play(tmp_path / "monitoring.yml", variables=variables)
    assert again.status == "successful" and again.changed() == [], again.changed()
    targets = json.loads(bench.sh("cat /srv/prometheus/targets/llmhost.json"))
    assert [target["labels"]["job"] for target in targets] == ["llmhost-node", "llmhost-sglang"]
    bench.write("/srv/prometheus/prometheus.yml", yaml.safe_dump(CONFIG))
    for unit, command in COMMANDS.items():
        bench.sh("systemd-run -q --unit=%s %s" % (unit, command))
    watched(bench, ask, json.loads(bench.sh("cat /srv/prometheus/dashboards/llmhost.json")))


def watched(bench: Bench, ask: Callable[[str], list[Any]], dashboard: Mapping[str, Any]) -> None:
    """A ready server is seen as one, then its scheduler is frozen."""
    name = '{instance_name="%s"}' % NAME
    wait(lambda: bool(ask("llmhost_probe_success%s == 1" % name)), 90)
    assert ask('llmhost_server_health{health="ready", instance_name="%s"} == 1' % NAME)
    assert ask("llmhost_start_phase_seconds" + name), "the watched start has phases"
    assert ask('llmhost_start_outcome{outcome="ready", instance_name="%s"} == 1' % NAME)
    assert not [one for one in ask("ALERTS") if one["metric"].get("instance_name") == NAME]
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    # without a GPU driver in the container there are no figures of GPUs; a replayed server has no /metrics
    asked = [query for query in queries if "llmhost_gpu" not in query and (FULL or "sglang[:_]" not in query)]
    empty: list[str] = []

    def answered() -> bool:  # a rate has a value from its second scrape on
        empty[:] = [query for query in asked if not ask(query.replace("$instance", ".*"))]
        return not empty

    wait(answered, 60, lambda: "no answer to %s; targets: %s" % (empty, ask("up")))
    bench.sh("pkill -STOP -f '[s]glang::scheduler'")
    wait(lambda: bool(ask("llmhost_probe_success%s == 0" % name)), 90)
    wait(lambda: bool(ask('ALERTS{alertname="LlmhostServerFrozen", instance_name="%s"}' % NAME)), 90)
    evidence = bench.sh("cat $(ls %s/%s/probe/*.json | tail -1)" % (STATE, NAME))
    assert json.loads(evidence)["server"]["processes"], evidence
    bench.sh("pkill -CONT -f '[s]glang::scheduler'")
    bench.sh("systemctl kill -s KILL sglang-%s.service" % NAME)
