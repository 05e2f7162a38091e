# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info, gpu_clean and playbooks/clean.yml between a node and two containers that share a card.

The processes are real, and so are containers, systemd and signals; the card and its memory are simulated. Servers are
replays of recorded starts, or the real one with ``script/test full``.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import FULL, VMID, Controller, Lab
from scenario_support import (
    ACCOUNT,
    CARDS_FILE,
    PYTHON,
    REAL_ARGUMENTS,
    TINY,
    Bench,
    Task,
    driver_inside,
    gpu_clean,
    no_driver_inside,
    replayed,
    server,
    wait,
)

OTHER = 131
NODE, HOST = "pve1", f"ct{VMID}"
SCHEDULER, DETOKENIZER = "sglang::schedul", "sglang::detoken"
MINE, NEIGHBOUR = 20000, 9000  # what a scheduler of each container holds on card 0
CARDS = 'gpu 0 name="NVIDIA L40S (simulated)" total=49140\ngpu 1 name="NVIDIA L40S (simulated)" total=49140\n'
HOLDS = (
    f"hold gpu=0 mem={MINE} comm=^sglang::schedul vmid={VMID}\n"
    f"hold gpu=0 mem={NEIGHBOUR} comm=^sglang::schedul vmid={OTHER}\n"
)
PLAIN = CARDS + "release_ms 1000\n" + HOLDS
SPEED = 5  # of a replayed start: children import for 2.4 s
ALL = {"gpus": ["all"], "grace_s": 3, "timeout_s": 60}


class Cards:
    """The node with its simulated cards, and the two containers on them."""

    def __init__(self, lab: Lab, node: Bench, inside: Bench) -> None:
        self.lab = lab
        self.node = node  # modules run there
        self.inside = inside  # and in the first container

    def state(self, text: str, folder: str = "") -> None:
        """What the driver says, on the node or, from there, in a container's files."""
        self.lab.node("sh", "-c", f"cat > {CARDS_FILE}.new && mv {CARDS_FILE}.new {CARDS_FILE}", stdin=text)

    def ct(self, vmid: int, script: str, *words: str, **options: Any) -> str:
        return self.lab.node("pct", "exec", str(vmid), "--", "sh", "-c", script, "sh", *words, **options)

    def pids(self, what: str, vmid: int = VMID, how: str = "-x") -> list[int]:
        """The node's PIDs of a container's processes with that name (or, with ``-f``, command line)."""
        look = f"grep -q '/lxc/{vmid}/' /proc/$pid/cgroup"
        script = f"for pid in $(pgrep {how} '{what}'); do {look} && echo $pid; done; true"
        return sorted(int(word) for word in self.lab.node("sh", "-c", script).split())

    def command(self, port: int) -> str:
        """A server that somebody starts by hand."""
        python = "/opt/llmhost/runtime/bin/python" if FULL else PYTHON
        words = [python, "-m", "sglang.launch_server", "--model-path", TINY, "--port", str(port)]
        set_up = {"SGLANG_USE_CPU_ENGINE": "1"} if FULL else {"LLMHOST_REPLAY_SPEED": str(SPEED)}
        pairs = [f"{key}={value}" for key, value in set_up.items()]
        return " ".join(["env", *pairs, *words, *(REAL_ARGUMENTS if FULL else [])])

    def by_hand(self) -> str:
        """A command that starts a server, and whose own line does not look like one."""
        self.ct(VMID, "cat > /tmp/hand.sh", stdin=f"exec {self.command(30061)}\n")
        return "setsid -f sh /tmp/hand.sh > /tmp/hand.log 2>&1 < /dev/null"

    def orphans(self, start: str = "", port: int = 30061) -> list[int]:
        """Start a server (by hand), kill it while its children import, and hold its scheduler where it has its memory.

        Returns the two that are left.
        """
        others = set(self.pids(SCHEDULER) + self.pids(DETOKENIZER))
        # In one shell: they import for two seconds, and of the orphans a real scheduler lives for half a minute more, a
        # replayed one for five seconds.
        script = (
            f"{start or self.by_hand()}\n"
            "while [ $(pgrep -fc 'multiprocessing.spawn import spawn[_]main') -lt 2 ]; do sleep 0.05; done; "
            f"kill -9 $(pgrep -f -- '-m sglang.launch[_]server .*--port {port}'); "
            f"until pgrep -P 1 -x {DETOKENIZER} && pgrep -P 1 -x {SCHEDULER}; do sleep 0.05; done; "
            f"pkill -STOP -n -x {SCHEDULER}"
        )
        self.ct(VMID, 'timeout 120 sh -c "$1"', script)
        found = sorted(set(self.pids(SCHEDULER) + self.pids(DETOKENIZER)) - others)
        assert len(found) == 2, found
        return found

    def unit(self, vmid: int, name: str, port: int) -> str:
        """A server in a unit of its own, up and answering."""
        self.ct(vmid, f"systemd-run -q -p KillMode=mixed --unit={name} {self.command(port)}")
        wait(lambda: self.answers(vmid, port), 200)
        return self.ct(vmid, f"systemctl show --value -p MainPID {name}").strip()

    def answers(self, vmid: int, port: int) -> bool:
        ask = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/health', timeout=30)"
        return self.ct(vmid, f'python3 -c "{ask}" 2>/dev/null && echo yes || true').strip() == "yes"

    def end_all(self) -> None:
        """Nothing of ours in the containers and on the node, and nothing charged."""
        script = (
            "systemctl stop 'llmhost-test-*' 'sglang-*' 2>/dev/null; pkill -KILL -f 'sglang[.]launch_server|sglang:[:]|"
            "multiprocessing.spaw[n]|multiprocessing.resource_tracke[r]'; systemctl reset-failed; true"
        )
        for vmid in (VMID, OTHER):
            self.ct(vmid, script)
        self.lab.node(
            "sh", "-c", "pkill -KILL -f '^nvidia-cuda-mp[s]'; rm -rf %s.held %s.mps; true" % (CARDS_FILE, CARDS_FILE)
        )


@pytest.fixture(scope="module")
def cards(lab: Lab, controller: Controller, work: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[Cards]:
    if FULL:
        request.getfixturevalue("runtime")
    lab("replay-runtime", str(lab.data / "replay"))
    lab("ct", str(OTHER), "bookworm", "--data", str(lab.data))  # one runtime for both
    before = lab.node("cat", CARDS_FILE)
    found = Cards(lab, Bench(lab, controller, work, NODE), Bench(lab, controller, work, HOST))
    yield found
    found.state(before)
    lab.node("pct", "stop", str(OTHER))
    lab.node("pct", "destroy", str(OTHER))


@pytest.fixture(autouse=True)
def as_before(cards: Cards) -> Iterator[None]:
    cards.end_all()
    cards.state(PLAIN)
    yield
    cards.end_all()


def test_orphans_in_one_container_go_and_the_other_s_server_stays(cards: Cards) -> None:
    neighbour = cards.unit(OTHER, "sglang-other", 30062)
    before = cards.pids(SCHEDULER, OTHER)
    orphans = cards.orphans()

    scope = {**ALL, "gpus": ["0"], "vmid": VMID}
    excluded = {**scope, "exclude": [f"vmid:{OTHER}"]}
    refused, nobody, plan, cleaned, again = cards.node.run(
        gpu_clean(fails=True, **scope),
        gpu_clean(fails=True, **{**scope, "vmid": 999}),
        gpu_clean(check=True, diff=True, **excluded),
        gpu_clean(**excluded),
        gpu_clean(**excluded),
    )
    # the neighbour is in the way, and then nobody is touched
    assert refused["reason"] == "blocked" and refused["actions"] == [] and refused["changed"] is False
    assert [one["container"] for one in refused["blockers"]] == [{"kind": "lxc", "vmid": OTHER}]
    assert f"lxc {OTHER}" in refused["msg"] and f"{NEIGHBOUR} MiB" in refused["msg"]
    assert nobody["reason"] == "blocked" and len(nobody["blockers"]) == 2
    # a dry run says who would go, and who stays
    gone = {one["pid"] for one in plan["targets"]}  # and multiprocessing's resource tracker
    assert plan["changed"] and plan["actions"] == [] and gone >= set(orphans)
    assert SCHEDULER in plan["diff"]["before"] and f"{MINE} MiB" in plan["diff"]["before"]
    assert "is excluded by the task" in plan["diff"]["after"] and "stale SGLang" not in plan["diff"]["after"]
    # the real one
    assert {one["pid"] for one in cleaned["targets"]} == gone
    assert {one["container"]["vmid"] for one in cleaned["targets"]} == {VMID}
    signals = {(one["identity"]["comm"], one["signal"]): one["outcome"] for one in cleaned["actions"]}
    assert signals[SCHEDULER, "SIGTERM"] == "still running", "it is stopped and hears nothing"
    assert signals[SCHEDULER, "SIGKILL"] == "exited" and signals[DETOKENIZER, "SIGTERM"] == "exited"
    [card] = cleaned["gpus"]
    assert (card["before_mib"], card["after_mib"]) == (4 + MINE + NEIGHBOUR, 4 + NEIGHBOUR)
    assert card["baseline_mib"] == NEIGHBOUR and card["released_s"] >= 0.8
    assert cleaned["simulated"] is True
    assert again["changed"] is False and again["actions"] == []
    # untouched: the same processes, and it answers
    assert cards.pids(SCHEDULER) == cards.pids(DETOKENIZER) == []
    assert cards.pids("python.*multiprocessin[g]", how="-f") == [], "the resource tracker was left"
    assert cards.pids(SCHEDULER, OTHER) == before
    assert cards.ct(OTHER, "systemctl show --value -p MainPID sglang-other").strip() == neighbour
    assert cards.answers(OTHER, 30062)

    # a start that somebody made by hand is no leftover while it may still load; named, it goes
    cards.ct(VMID, cards.by_hand())
    wait(lambda: bool(cards.pids(SCHEDULER)), 90)
    started, named = cards.node.run(
        gpu_clean(fails=True, **excluded), gpu_clean(**{**excluded, "match": [r"sglang\.launch_server"]})
    )
    assert started["reason"] == "blocked" and started["actions"] == []
    assert "a start in progress" in started["msg"] or "a live server" in started["msg"]
    assert named["changed"] and cards.pids(SCHEDULER) == [] and cards.answers(OTHER, 30062)


def test_two_plays_at_once_never_clean_together(cards: Cards) -> None:
    orphans = cards.orphans()
    scope = {**ALL, "gpus": ["0"], "vmid": VMID, "grace_s": 120}  # the first waits for a process that is stopped
    first = cards.node.beside(gpu_clean(**scope))
    lock = "for f in /run/llmhost/gpu-*.lock; do [ ! -e $f ] || flock -n $f true || echo held; done"
    wait(lambda: "held" in cards.lab.node("sh", "-c", lock, check=False), 60)
    impatient = cards.node.one(gpu_clean(fails=True, **{**scope, "timeout_s": 1}))
    second = cards.node.beside(gpu_clean(**scope))
    modules = "pgrep -fc '^[^ ]*python3 .*AnsiballZ_gpu_clea[n]' || true"
    wait(lambda: int(cards.lab.node("sh", "-c", modules)) == 2, 60)
    cards.ct(VMID, f"pkill -CONT -x '{SCHEDULER}'")
    [cleaned], [patient] = first.results(), second.results()
    assert impatient["reason"] == "locked" and impatient["actions"] == []
    assert impatient["owner"].isdigit() and impatient["owner"] in impatient["msg"] and impatient["since"]
    assert patient["changed"] is False and patient["actions"] == []
    assert cleaned["changed"] and {one["pid"] for one in cleaned["targets"]} >= set(orphans)


@pytest.mark.skipif(
    not FULL, reason="the unit tests show it with the same simulated driver; here with script/test full"
)
def test_a_driver_that_hangs_is_a_failure_in_bounded_time(cards: Cards) -> None:
    orphans = cards.orphans()
    cards.state(PLAIN + "hang nvmlDeviceGetMemoryInfo_v2\n")
    asked = {"query_timeout_s": 2, "gpus": ["all"]}
    looked, cleaned = cards.node.run(Task("gpu_info", asked, fails=True), gpu_clean(fails=True, vmid=VMID, **asked))
    assert looked["reason"] == cleaned["reason"] == "driver_hung"
    assert cleaned["actions"] == [] and "query_timeout_s" in cleaned["msg"]
    assert sorted(cards.pids(SCHEDULER) + cards.pids(DETOKENIZER)) == sorted(orphans)
    assert cards.lab.node("sh", "-c", "pgrep -x nvidia-smi || true").strip() == "", (
        "the query that hangs was left behind"
    )


@pytest.mark.skipif(
    not FULL, reason="the unit tests show it with the same simulated driver; here with script/test full"
)
def test_clients_of_mps_leave_it_first(cards: Cards) -> None:
    cards.state(CARDS + "mps_ms 300\nrelease_ms 500\n" + HOLDS.replace("mem=", "type=M mem="))
    cards.orphans()
    for name in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
        if name == "nvidia-cuda-mps-server":
            [without] = cards.node.run(gpu_clean(fails=True, vmid=VMID, **ALL))
            assert without["reason"] == "mps_in_use" and without["actions"] == [] and "no MPS server" in without["msg"]
        code = f"import os; os.execv('/usr/bin/tail', ['{name}', '-f', '/dev/null'])"
        cards.lab.node("sh", "-c", f'setsid -f python3 -c "{code}" > /dev/null 2>&1 < /dev/null')
    cleaned, again = cards.node.run(gpu_clean(vmid=VMID, **ALL), gpu_clean(vmid=VMID, **ALL))
    sent = [(one["signal"], one["outcome"]) for one in cleaned["actions"] if one["identity"]["comm"] == SCHEDULER]
    assert sent == [("mps terminate_client", "drained"), ("SIGTERM", "still running"), ("SIGKILL", "exited")]
    assert cleaned["gpus"][0]["after_mib"] == 4 and cards.pids(SCHEDULER) == []
    assert again["changed"] is False and again["actions"] == []


def test_inside_a_container_units_are_stopped_and_what_cannot_be_seen_is_said(
    cards: Cards, controller: Controller
) -> None:
    try:
        driver_inside(cards.lab, CARDS + f"release_ms 500\nhold gpu=0 mem={MINE} comm=^sglang::schedul\n")
        cards.unit(VMID, "llmhost-test-served", 30061)
        unit = "llmhost-test-served.service"
        refused, plan, stopped, again = cards.inside.run(
            gpu_clean(fails=True, **ALL),
            gpu_clean(check=True, units=[unit], **ALL),
            gpu_clean(units=[unit], **ALL),
            gpu_clean(units=[unit], **ALL),
        )
        assert refused["reason"] == "blocked" and unit in refused["msg"]
        assert plan["stopped_units"] == [unit] and plan["changed"] and plan["actions"] == []
        # systemd stops it, which drains it: no signal of ours
        assert stopped["stopped_units"] == [unit] and stopped["changed"]
        assert {one["outcome"] for one in stopped["actions"]} <= {"gone before"}
        shown = cards.ct(VMID, f"systemctl show --value -p ActiveState -p Result {unit}").split()
        assert sorted(shown) == ["inactive", "success"]
        assert stopped["gpus"][0]["after_mib"] == 4 and cards.pids(SCHEDULER) == []
        assert again["changed"] is False and again["actions"] == []
        assert any("processes outside it may use these GPUs unseen" in text for text in again["warnings"])

        # the playbook, where the target owns its GPUs itself
        orphans = cards.orphans()
        bare = {"llmhost_gpu_node": HOST, "llmhost_vmid": 0, "llmhost_clean_grace_s": 2}
        play = controller.play("llmhost.sglang.clean", variables=bare)
        assert play.status == "successful" and play.artifacts["llmhost_clean"][HOST]["changed"], play.text()
        assert not set(cards.pids(SCHEDULER) + cards.pids(DETOKENIZER)) & set(orphans)

        # memory that nobody here holds: not clean, and where to look
        driver_inside(cards.lab, CARDS + "orphan gpu=0 mem=5000\n")
        [unseen] = cards.inside.run(gpu_clean(fails=True, **{**ALL, "timeout_s": 2}))
        assert unseen["reason"] == "pid_invisible" and "host that owns the GPUs" in unseen["msg"]
        # a PID of somebody outside
        driver_inside(cards.lab, CARDS + "proc gpu=0 pid=31999 mem=5000 static=1\n")
        [outside] = cards.inside.run(gpu_clean(fails=True, **ALL))
        assert outside["reason"] == "pid_invisible" and outside["unknown"][0]["pid"] == 31999
    finally:
        no_driver_inside(cards.lab)


def test_the_playbook_releases_what_is_stale_and_leaves_servers(cards: Cards, controller: Controller) -> None:
    playbook = "llmhost.sglang.clean"
    cards.unit(OTHER, "sglang-other", 30062)
    before = cards.pids(SCHEDULER, OTHER)
    orphans = cards.orphans()
    refused = controller.play(playbook)
    assert refused.status == "failed" and refused.artifacts["llmhost_clean"][HOST]["reason"] == "blocked"
    assert [one["container"]["vmid"] for one in refused.artifacts["llmhost_clean"][HOST]["blockers"]] == [OTHER]
    exclude = {"llmhost_clean_exclude": [f"vmid:{OTHER}"], "llmhost_clean_grace_s": 3}
    play = controller.play(playbook, variables=exclude)
    assert play.status == "successful", play.text()
    told = play.artifacts["llmhost_clean"][HOST]
    assert told["changed"] and {one["pid"] for one in told["actions"]} >= set(orphans)
    assert told["gpus"][0]["after_mib"] == 4 + NEIGHBOUR
    again = controller.play(playbook, way="pct", variables=exclude)  # by the other way in
    assert again.status == "successful" and again.changed() == [], again.text()
    assert cards.pids(SCHEDULER, OTHER) == before


def test_the_playbook_knows_which_of_our_own_units_run(cards: Cards, controller: Controller) -> None:
    """Seen from the node every unit in a container may be active: the playbook asks inside."""
    cards.ct(VMID, ACCOUNT)
    keep, dead = (replayed(name=name, speed=SPEED, port=port) for name, port in (("keep", 30063), ("dead", 30064)))
    try:
        cards.inside.run(server(**keep))
        wait(lambda: cards.answers(VMID, 30063), 200)
        before = cards.pids(SCHEDULER)
        cards.inside.run(server(**{**dead, "restart": "no", "state": "present"}))
        drop_in = "/etc/systemd/system/sglang-dead.service.d"
        cards.ct(
            VMID,
            f"mkdir -p {drop_in}; printf '[Service]\\nKillMode=process\\n' > {drop_in}/x.conf; systemctl daemon-reload",
        )
        left = cards.orphans("systemctl start sglang-dead", 30064)
        variables = {"llmhost_clean_grace_s": 3}
        play = controller.play("llmhost.sglang.clean", variables=variables)
        assert play.status == "successful", play.text()
        told = play.artifacts["llmhost_clean"][HOST]
        assert told["left_running"] == ["sglang-keep.service"]
        assert {one["pid"] for one in told["actions"]} >= set(left)
        assert (told["gpus"][0]["before_mib"], told["gpus"][0]["after_mib"]) == (4 + 2 * MINE, 4 + MINE)
        assert cards.pids(SCHEDULER) == before and cards.answers(VMID, 30063)
        assert controller.play("llmhost.sglang.clean", variables=variables).changed() == []
    finally:
        cards.inside.run(*[server(name=name, state="absent", purge=True) for name in ("keep", "dead")])
        cards.ct(VMID, "rm -rf /etc/systemd/system/sglang-dead.service.d; systemctl daemon-reload")
