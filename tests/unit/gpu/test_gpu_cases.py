# SPDX-License-Identifier: GPL-3.0-or-later
"""Every reported situation of gpu_cases_support.py, by id."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import choose, clients, errors, model, query, smi
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.model import COMPUTE, GRAPHICS, MPS, Entry, MigDevice
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.policy import Scope
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity
from gpu_cases_support import CASES
from gpu_world_support import IGNORE, STUCK, World, clean
from nvml_sim_support import Sim, has_nvidia_ml_py

HOST = Scope()


def pattern(*words: str) -> Scope:
    return Scope(match=tuple(re.compile(word) for word in words))


def case(function: Callable[..., None]) -> Callable[..., None]:
    TESTS["gpu-" + function.__name__.rsplit("_", 1)[1]] = function
    return function


TESTS: dict[str, Callable[[Any], None]] = {}


def at_baseline(world: World, result: dict[str, Any], slack: int = 64) -> bool:
    return all(row["after_mib"] <= row["baseline_mib"] + slack for row in result["gpus"])


@case
def case_01(tmp_path: Path) -> None:
    world = World(cards=4)
    mine = [world.scheduler(gpu, 100000 // 2, f"_DP{gpu // 2}_TP{gpu}") for gpu in range(4)]
    found = clean(world, tmp_path)
    assert found.reason is None and found.changed
    assert not any(proc.alive for proc in mine)
    assert at_baseline(world, found.result)


@case
def case_02(tmp_path: Path) -> None:
    world = World()
    launcher = world.launcher(group=(500, 500))
    inside = world.scheduler(0, 100, "_TP0", ppid=launcher.pid, group=(500, 500))
    outside = world.scheduler(0, 40000, "_TP1", group=(777, 777))  # its own session, PID 1 for a parent
    idle = world.add("sglang::detoken", "sglang::detokenizer", group=(500, 500))
    found = clean(world, tmp_path)
    assert found.reason is None
    assert not any(proc.alive for proc in (launcher, inside, outside, idle))


@case
def case_03(tmp_path: Path) -> None:
    world = World()
    stuck = world.scheduler(on_term=IGNORE, on_kill=35.0, state="D")
    found = clean(world, tmp_path, grace_s=2)
    assert found.reason is None and found.seconds > 35
    assert world.got(stuck) == ["SIGTERM", "SIGKILL"]


@case
def case_04(tmp_path: Path) -> None:
    world = World()
    world.card().release_s = 26.0
    world.scheduler(mib=67500)
    found = clean(world, tmp_path)
    assert found.reason is None
    assert 26.0 <= found.result["gpus"][0]["released_s"] < 27.0
    assert [number.name for _t, _p, number in world.signals] == ["SIGTERM"]


@case
def case_05(tmp_path: Path) -> None:
    for limit, reason in ((180, None), (30, "pinned_teardown")):
        world = World()
        world.card().release_s = 40.0
        world.scheduler(mib=71000)
        found = clean(world, tmp_path, timeout_s=limit)
        assert found.reason == reason
    assert "no listed process" in found.message and "still releasing" in found.message


@case
def case_06(tmp_path: Path) -> None:
    world = World()
    slow = world.scheduler(on_term=IGNORE, on_kill=20.0, state="D")
    found = clean(world, tmp_path, grace_s=1)
    assert found.reason is None
    assert world.got(slow).count("SIGKILL") == 1


@case
def case_07(tmp_path: Path) -> None:
    world = World(cards=8)
    for index in range(8):
        world.card(index).release_s = 31.0 + 2 * index
        world.scheduler(index, 75000, f"_TP{index}")
    found = clean(world, tmp_path)
    assert found.reason is None
    times = [row["released_s"] for row in found.result["gpus"]]
    assert times == sorted(times) and times[0] >= 31 and times[-1] >= 45


@case
def case_08(tmp_path: Path) -> None:
    world = World()
    world.card().release_s = 5.0
    world.scheduler()
    found = clean(world, tmp_path, timeout_s=3)
    assert found.reason == "pinned_teardown"
    assert not at_baseline(world, found.result)


@case
def case_09(tmp_path: Path) -> None:
    world = World()
    card = world.card()
    last = world.scheduler(on_term=8.0)
    card.orphan = 5000  # memory that outlives the process by more than its listing
    world.at(20.0, lambda: setattr(card, "orphan", 0))
    start = world.time
    found = clean(world, tmp_path)
    assert found.reason is None and not last.alive
    assert world.time - start >= 20.0


@case
def case_10(tmp_path: Path) -> None:
    world = World(cards=2)
    assert world.card().base == 4
    workers = [world.add("sgl_diffusion::", f"sgl_diffusion::scheduler_U{gpu}", gpu=gpu, mib=9400) for gpu in range(2)]
    found = clean(world, tmp_path)
    assert found.reason is None and not any(proc.alive for proc in workers)
    assert [row["after_mib"] for row in found.result["gpus"]] == [4, 4]


@case
def case_11(tmp_path: Path) -> None:
    world = World()
    launcher = world.launcher(health="http://127.0.0.1:30000/health")
    dead = world.scheduler(ppid=launcher.pid, reaped=False)
    world.exit(dead)
    assert dead.zombie
    found = clean(world, tmp_path)
    assert found.reason is None and found.changed
    assert not launcher.alive and not dead.zombie
    assert world.got(launcher) == ["SIGTERM"] and world.got(dead) == []


@case
def case_12(tmp_path: Path) -> None:
    world = World()
    world.paths = {"/dev/shm/psm_1a2b", "/dev/shm/other"}
    world.scheduler(shared=("/dev/shm/psm_1a2b", "/dev/shm/gone"))
    found = clean(world, tmp_path)
    assert found.reason is None
    (warning,) = [text for text in found.warnings if "leftovers" in text]
    assert "/dev/shm/psm_1a2b" in warning and "gone" not in warning and "other" not in warning
    assert world.paths == {"/dev/shm/psm_1a2b", "/dev/shm/other"}


@case
def case_13(tmp_path: Path) -> None:
    world = World()
    desktop = [
        world.add(name, f"/usr/bin/{name}", gpu=0, mib=size, kinds=(GRAPHICS,))
        for name, size in (("Xorg", 204), ("gnome-shell", 150), ("firefox", 180), ("Isolated Web Co", 100))
    ]
    orphan = world.scheduler(mib=15000)
    found = clean(world, tmp_path)
    assert found.reason is None and not orphan.alive
    assert all(proc.alive and world.got(proc) == [] for proc in desktop)
    assert found.result["gpus"][0]["after_mib"] == 634 + 4


@case
def case_14(tmp_path: Path) -> None:
    world = World()
    shell = world.add("bash", "-bash", cgroup="/user.slice/user-0.slice/session-4.scope")
    workers = [
        world.add("VLLM::EngineCor", "VLLM::EngineCore", gpu=0, mib=300, ppid=shell.pid),
        world.add("VLLM::Worker_TP", "VLLM::Worker_TP0", gpu=0, mib=20000, ppid=shell.pid),
        world.add("VLLM::Worker_TP", "VLLM::Worker_TP1", gpu=0, mib=20000, ppid=shell.pid),
    ]
    assert clean(world, tmp_path).reason == "blocked"
    found = clean(world, tmp_path, scope=pattern(r"^VLLM::"))
    assert found.reason is None and not any(proc.alive for proc in workers)
    assert shell.alive and world.got(shell) == []


@case
def case_15(tmp_path: Path) -> None:
    world = World()
    procs = [world.add("VLLM::Worker", "VLLM::Worker_TP0", gpu=0, mib=size) for size in (20000, 248, 248)]
    found = clean(world, tmp_path, scope=pattern("^VLLM::"))
    assert found.reason is None and not any(proc.alive for proc in procs)


@case
def case_16(tmp_path: Path) -> None:
    world = World()
    world.card().release_s = 60.0
    world.exit(world.scheduler(mib=70000))  # crashed before we came
    found = clean(world, tmp_path, timeout_s=180)
    assert found.reason is None and not found.changed
    assert found.result["gpus"][0]["released_s"] >= 59


@case
def case_17(tmp_path: Path) -> None:
    world = World()
    world.card().orphan = 5000
    mine = world.scheduler(mib=1000)
    found = clean(world, tmp_path, timeout_s=60)
    assert found.reason == "above_baseline" and not mine.alive
    assert found.result["gpus"][0]["after_mib"] == 5004


@case
def case_18(tmp_path: Path) -> None:
    world = World()
    parent = world.add("ollama", "/usr/local/bin/ollama serve")
    child = world.add("llama-server", "/usr/local/bin/ollama runner --model x", gpu=0, mib=9000, ppid=parent.pid)
    parent.on_term = lambda: world.at(1.0, lambda: (world.exit(child), world.exit(parent)))
    found = clean(world, tmp_path, scope=pattern(r"/ollama (serve|runner)\b"))
    assert found.reason is None and not parent.alive and not child.alive
    assert world.got(parent) == ["SIGTERM"] and world.got(child) == []


@case
def case_19(tmp_path: Path) -> None:
    world = World()
    peer = world.add("decode", "decode", gpu=0, mib=1000, cgroup="/system.slice/decode.service")
    victim = world.scheduler(mib=50000)

    def inherits() -> None:
        peer.memory = {world.uuid(0): 51000}

    victim.on_exit = inherits
    scope = replace(HOST, exclude_units=frozenset({"decode.service"}))
    found = clean(world, tmp_path, scope=scope, timeout_s=30)
    assert found.reason == "ipc_peer"
    assert found.result["peers"] == [
        {"pid": peer.pid, "comm": "decode", "gpu": world.uuid(0), "before_mib": 1000, "memory_mib": 51000}
    ]
    assert world.got(peer) == []


@case
def case_20(tmp_path: Path) -> None:
    world = World()
    world.card().total = 144000
    cache = world.add("lmcache", "python -m lmcache.server", gpu=0, mib=112252)
    stale = world.scheduler(mib=2000)
    found = clean(world, tmp_path)
    assert found.reason == "blocked" and "112252 MiB" in found.message
    assert found.result["blockers"][0]["memory_mib"] == {world.uuid(0): 112252}
    assert world.signals == [] and cache.alive and stale.alive


@case
def case_21(tmp_path: Path) -> None:
    world = World()
    spinning = world.scheduler(on_term=IGNORE, on_kill=STUCK, state="R", wchan="uvm_spin_loop")
    found = clean(world, tmp_path, grace_s=1, timeout_s=60)
    assert found.reason == "unkillable"
    assert world.got(spinning) == ["SIGTERM", "SIGKILL"]
    assert found.result["stuck"][0]["state"] == "R" and found.result["stuck"][0]["wait_channel"] == "uvm_spin_loop"
    assert "reboot" in found.message


@case
def case_22(tmp_path: Path) -> None:
    world = World()
    defunct = world.scheduler(on_term=IGNORE, on_kill=STUCK, zombie_leader=True, wchan="uvm_spin_loop")
    found = clean(world, tmp_path, grace_s=1, timeout_s=60)
    assert found.reason == "unkillable" and world.got(defunct).count("SIGKILL") == 1
    assert "reset" not in found.message


@case
def case_23(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nhang nvmlDeviceGetMemoryInfo_v2")
    if not has_nvidia_ml_py():
        pytest.skip("nvidia-ml-py is not installed for this Python")
    code = OPEN + "try_it('nvml', 2)"
    start = time.monotonic()
    assert sim.python(code).split()[0] == "driver_hung"
    assert time.monotonic() - start < 20


@case
def case_24(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nhang all")
    code = OPEN + "try_it('smi', 2)\nimport subprocess\nprint(subprocess.getoutput('pgrep -c nvidia-smi'))"
    said = sim.python(code, isolated=True).split()
    assert said[0] == "driver_hung" and said[-1] == "0"


OPEN = """
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import query
def try_it(source, timeout):
    try:
        driver, name, note = query.open_driver(source, timeout)
        found = query.look(driver, name, note)
        print("ok", name, [entry.pid for gpu in found.gpus for entry in gpu.entries or ()])
    except LlmHostError as error:
        print(error.reason, error.message)
"""


@case
def case_25(tmp_path: Path) -> None:
    world = World()
    world.card().recovery = "reset"
    found = clean(world, tmp_path)
    assert found.reason == "reset_required" and found.result["gpus"][0]["before_mib"] == 4


@case
def case_26(tmp_path: Path) -> None:
    world = World()
    world.card().util_idle = 100
    world.scheduler()
    found = clean(world, tmp_path)
    assert found.reason is None and found.changed
    assert any("ghost_utilisation" in text for text in found.warnings)


@case
def case_27(tmp_path: Path) -> None:
    world = World()
    keeper = world.add("nvidia-persiste", "/usr/bin/nvidia-persistenced --user x", files=("/dev/nvidia0",))
    world.scheduler()
    found = clean(world, tmp_path, scope=replace(HOST, force=True))
    assert found.reason is None and keeper.alive and world.got(keeper) == []


@case
def case_28(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0 persist=0 recovery=1")
    asked: list[list[str]] = []

    def run(arguments: list[str]) -> tuple[int, str, str]:
        asked.append(arguments)
        done = sim.run("nvidia-smi", *arguments)
        return done.returncode, done.stdout, done.stderr

    found = smi.look(run)
    smi.used_memory(run, [str(found.gpus[0].uuid)])
    smi.capabilities(run, [str(found.gpus[0].uuid)])
    assert found.gpus[0].persistence is False and found.gpus[0].recovery_action == "reset"
    changing = {"-pm", "-r", "--gpu-reset", "-mig", "-e", "-c", "-pl", "--persistence-mode"}
    assert not changing & {word.split("=")[0] for words in asked for word in words}
    assert sim.run("nvidia-smi", "--query-gpu=persistence_mode", "--format=csv,noheader").stdout.strip() == "Disabled"


@case
def case_29(tmp_path: Path) -> None:
    world = World()
    world.card().recovery = "reset"
    assert "nvidia_drm" in clean(world, tmp_path).message


@case
def case_30(tmp_path: Path) -> None:
    world = World(cards=2)
    mine = world.scheduler(0, cgroup="/lxc/129/ns/.lxc")
    other = world.scheduler(1, cgroup="/lxc/130/ns/.lxc")
    neighbour = world.scheduler(1, cgroup="/lxc/129/ns/.lxc")
    found = clean(world, tmp_path, gpus=("0",), scope=replace(HOST, vmid=129))
    assert found.reason is None
    assert not mine.alive and other.alive and neighbour.alive
    assert {hit for _t, hit, _n in world.signals} == {mine}


@case
def case_31(tmp_path: Path) -> None:
    world = World(nested=True)
    world.card().extra = [Entry(31337, (COMPUTE,), 60000)]
    local = world.scheduler(mib=100)
    found = clean(world, tmp_path)
    assert found.reason == "pid_invisible" and world.signals == [] and local.alive


@case
def case_32(tmp_path: Path) -> None:
    world = World()
    world.euid_ = 1000
    world.scheduler(mib=8000, uid=1001)
    world.scheduler(mib=9000, uid=1000)
    found = clean(world, tmp_path)
    assert found.reason == "blocked" and found.result["blockers"][0]["uid"] == 1001 and world.signals == []


@case
def case_33(tmp_path: Path) -> None:
    world = World(cards=2)
    mine = world.scheduler(0)
    neighbour = world.scheduler(1, files=("/dev/nvidia0", "/dev/nvidia1"))
    found = clean(world, tmp_path, gpus=("0",))
    assert found.reason is None and not mine.alive and neighbour.alive and world.got(neighbour) == []


@case
def case_34(tmp_path: Path) -> None:
    world = World()
    exporter = world.add("dcgm-exporter", "/usr/bin/dcgm-exporter", gpu=0, mib=12)
    world.scheduler()
    found = clean(world, tmp_path, scope=replace(HOST, force=True, match=(re.compile("dcgm"),)))
    assert found.reason is None and exporter.alive and world.got(exporter) == []


@case
def case_35(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "files" / "driver_550.xml").read_text()
    with pytest.raises(LlmHostError) as caught:
        smi.parse(text.replace("<pid>4242</pid>", "<pid>Idx</pid>"))
    assert caught.value.reason == "parse_error" and "Idx" in caught.value.message


@case
def case_36(tmp_path: Path) -> None:
    world = World()
    login = world.add("bash", "-bash", uid=1000, cgroup="/user.slice/user-1000.slice/session-9.scope")
    mine = world.scheduler(uid=1000)
    found = clean(world, tmp_path, scope=replace(HOST, users=frozenset({1000})))
    assert found.reason is None and not mine.alive and login.alive and world.got(login) == []


@case
def case_37(tmp_path: Path) -> None:
    world = World()
    world.shell.cmdline = (
        "python -m sglang.launch_server"  # as bad as it gets: the task's own parent looks like a target
    )
    world.shell.memory = {world.uuid(0): 100}
    found = clean(world, tmp_path, scope=replace(HOST, force=True, match=(re.compile("sglang|bash|sshd"),)))
    assert found.reason is None and world.signals == []
    assert world.shell.alive and world.sshd.alive and world.me.alive


@case
def case_38(tmp_path: Path) -> None:
    world = World()
    monitor = world.add("python3", "/usr/bin/python3 /opt/monitor.py")
    job = world.add("python3", "/usr/bin/python3 /srv/train.py", gpu=0, mib=5000, ppid=monitor.pid)
    found = clean(world, tmp_path, scope=pattern("python"))
    assert found.reason is None and not job.alive and monitor.alive and world.got(monitor) == []


@case
def case_39(tmp_path: Path) -> None:
    world = World()
    workers = [world.add("sgl_diffusion::", f"sgl_diffusion::scheduler_U{n}", gpu=0, mib=900) for n in range(2)]
    world.me.cmdline = "python3 AnsiballZ.py sgl_diffusion:: sglang.launch_server"
    other = world.add("bash", "bash -c pkill -f sglang.launch_server")
    found = clean(world, tmp_path, scope=pattern("sgl_diffusion"))
    assert found.reason is None and not any(proc.alive for proc in workers)
    assert world.me.alive and world.shell.alive and other.alive and world.got(other) == []


@case
def case_40(tmp_path: Path) -> None:
    world = World()
    old = world.scheduler()
    world.exit(old)
    daemon = world.add("wazuh-agentd", "/var/ossec/bin/wazuh-agentd", pid=old.pid)
    world.card().extra = [Entry(old.pid, (COMPUTE,), 60000)]  # the driver still tells the old number
    found = clean(world, tmp_path)
    assert found.reason == "blocked" and daemon.alive and world.signals == []


@case
def case_41(tmp_path: Path) -> None:
    world = World()
    first = world.scheduler(on_term=IGNORE)
    heir: list[Any] = []

    def reused() -> None:
        world.exit(first)
        heir.append(world.add("postgres", "postgres", pid=first.pid))

    world.at(5.0, reused)
    found = clean(world, tmp_path, grace_s=30)
    assert found.reason is None
    assert heir[0].alive and world.got(heir[0]) == [] and world.got(first) == ["SIGTERM"]


@case
def case_42(tmp_path: Path) -> None:
    world = World()
    for name, size in (("Xorg", 600), ("kwin_x11", 471), ("firefox", 600)):
        world.add(name, name, gpu=0, mib=size, kinds=(GRAPHICS,))
    found = clean(world, tmp_path)
    assert found.reason is None and not found.changed
    assert found.result["gpus"][0]["before_mib"] == 1675 and found.result["gpus"][0]["baseline_mib"] == 1671


@case
def case_43(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler()
    world.card().extra = [Entry(0, (COMPUTE,), 0), Entry(4294967295, (COMPUTE,), None)]
    found = clean(world, tmp_path)
    assert found.reason == "struct_mismatch" and world.signals == [] and mine.alive
    if has_nvidia_ml_py():  # the real binding against a library with the fault, told apart by its symbols
        sim = Sim(tmp_path, "early-r535")
        sim.write(
            "gpu 0\nprocsize 32\n" + "\n".join(f"proc pid={pid} mem=2000 static=1" for pid in (1184, 16040, 19984))
        )
        assert sim.python(OPEN + "try_it('nvml', 10)").split()[0] == "struct_mismatch"
        assert sim.python(OPEN + "try_it('auto', 10)").split(None, 2) == ["ok", "smi", "[1184, 16040, 19984]\n"]


@case
def case_44(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler()
    world.card().extra = [Entry(mine.pid + 1, (COMPUTE,), 99_999_999)]
    assert clean(world, tmp_path).reason == "struct_mismatch"
    assert world.signals == []


@case
def case_45(tmp_path: Path) -> None:
    assert model.memory(24576, 308, 24268, 308).used == 0  # counted as used
    assert model.memory(24576, 0, 24268, 308).used == 0  # told apart
    world = World()
    world.card().reserved, world.card().base = 308, 0
    assert clean(world, tmp_path).reason is None


@case
def case_46(tmp_path: Path) -> None:
    assert model.memory(81920, 908, 81012, 900).used == 8
    assert model.memory(81920, 8, 81012, 900).used == 8


@case
def case_47(tmp_path: Path) -> None:
    for change in ({"no_memory": True}, {"addressing": "ats", "orphan": 40000}):
        world = World()
        for key, value in change.items():
            setattr(world.card(), key, value)
        mine = world.scheduler()
        found = clean(world, tmp_path)
        assert found.reason is None and not mine.alive
        assert any("uma_memory" in text for text in found.warnings)


@case
def case_48(tmp_path: Path) -> None:
    world = World()
    world.scheduler(mib=None)
    found = clean(world, tmp_path)
    assert found.reason is None
    assert found.result["targets"][0]["memory_mib"] == {world.uuid(0): None}


@case
def case_49(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "files" / "driver_550.xml").read_text()
    refused = re.sub(r"<(total|used|free|reserved)>\d+ MiB</", r"<\1>Insufficient Permissions</", text)
    gpu = smi.parse(refused).gpus[0]
    assert gpu.memory.total is None and gpu.memory.used is None
    assert "Insufficient Permissions" in (gpu.memory.note or "")
    assert not gpu.unified


@case
def case_50(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0 mig=1 mem=noperm\nmig 0 0 gi=3 total=9728 used=700\nmig 0 1 gi=4 total=9728 used=0")
    code = (
        "from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import query\n"
        "for source in ('smi', 'nvml'):\n"
        "    try:\n"
        "        driver, name, note = query.open_driver(source, 10)\n"
        "    except Exception as error:\n"
        "        continue\n"
        "    gpu = query.look(driver, name, note).gpus[0]\n"
        "    print(gpu.memory.used, [device.memory.used for device in gpu.mig_devices], gpu.health()[0])\n"
    )
    lines = sim.python(code).splitlines()
    assert lines and set(lines) == {"None [700, 0] ok"}
    world = World()
    world.card().no_memory, world.card().memory_note = True, "refused"
    world.card().migs = tuple(
        MigDevice(n, f"MIG-{n}aaaaaaa", n + 3, 0, model.memory(9728, 0, 9728, 0)) for n in range(2)
    )
    mine = world.scheduler(mib=5000, instance=3)
    assert clean(world, tmp_path).reason is None and not mine.alive


@case
def case_51(tmp_path: Path) -> None:
    folder = Path(__file__).parent / "files"
    old, new = (smi.parse((folder / f"driver_{name}.xml").read_text()).gpus[0] for name in ("525", "550"))
    assert (old.memory.used, new.memory.used) == (30004, 30004)
    assert [entry.pid for entry in old.entries or ()] == [4242] == [entry.pid for entry in new.entries or ()]


@case
def case_52(tmp_path: Path) -> None:
    world = World(driver="560.35.03", nested=True)
    mine = world.scheduler(mib=0)
    world.card().orphan = 30000
    mine.on_exit = lambda: setattr(world.card(), "orphan", 0)
    found = clean(world, tmp_path)
    assert found.reason is None and not mine.alive
    assert found.result["targets"][0]["memory_mib"] == {world.uuid(0): None}
    entry = Entry(mine.pid, (COMPUTE,), 0)
    gpu = model.Gpu(0, "GPU-x", memory=model.memory(100, 1, 99, 0), entries=(entry,))
    assert clients.identify(gpu, True, (560, 35, 3), str(tmp_path)).clients[0].entry.memory_mib is None
    assert clients.identify(gpu, False, (560, 35, 3), str(tmp_path)).clients[0].entry.memory_mib == 0


@case
def case_53(tmp_path: Path) -> None:
    world = World(driver="525.60.13", nested=True)
    unlucky = world.scheduler(mib=0)  # SGLang by name, but without a GPU: the number is one of the host's
    found = clean(world, tmp_path)
    assert found.reason == "pid_invisible" and world.signals == [] and unlucky.alive


@case
def case_54(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "files" / "driver_550.xml").read_text()
    empty = re.sub(r"<processes>.*</processes>", "<processes>\n\t\t</processes>", text, flags=re.S)
    assert smi.parse(empty).gpus[0].entries == ()
    assert smi.parse(re.sub(r"<processes>.*</processes>", "", text, flags=re.S)).gpus[0].entries is None
    world = World(nested=True)
    world.card().orphan = 30000
    assert clean(world, tmp_path, timeout_s=20).reason == "pid_invisible"


@case
def case_55(tmp_path: Path) -> None:
    world = World(nested=True)
    world.card().orphan = 12000
    found = clean(world, tmp_path, timeout_s=20)
    assert found.reason == "pid_invisible" and "vmid" in found.message and not found.changed


@case
def case_56(tmp_path: Path) -> None:
    folder = tmp_path / "77"
    folder.mkdir()
    fields = " ".join(["S", "1", "77", "77"] + ["0"] * 13 + ["1", "0", "4321"] + ["0"] * 30)
    (folder / "stat").write_text(f"77 (old) {fields}\n")
    (folder / "status").write_text("Name:\told\nUid:\t5\t5\t5\t5\n")
    (folder / "cmdline").write_bytes(b"old\0")
    assert identity.read(77, str(tmp_path)).ns_pid == []


@case
def case_57(tmp_path: Path) -> None:
    world = World()
    world.card().extra = [Entry(4242, (COMPUTE,), 10000)]
    world.card().orphan = 10000
    found = clean(world, tmp_path, timeout_s=30)
    assert found.reason == "leaked_context" and "4242" in found.message and world.signals == []
    assert "reboot" in found.message.lower()


@case
def case_58(tmp_path: Path) -> None:
    world = World()
    parent = world.add("supervisord", "/usr/bin/supervisord")
    dead = world.scheduler(ppid=parent.pid, reaped=False, listed="zombie")
    world.exit(dead)
    world.card().orphan = 60000
    found = clean(world, tmp_path, timeout_s=20)
    assert found.reason == "zombie_parent" and "supervisord" in found.message
    assert parent.alive and world.signals == []


@case
def case_59(tmp_path: Path) -> None:
    world = World()
    parent = world.scheduler(mib=0, reaped=False, ppid=900)
    child = world.scheduler(mib=5000, ppid=1, group=parent.group)
    world.exit(parent)
    parent.memory = {}
    found = clean(world, tmp_path)
    assert found.reason is None and not child.alive and found.result["gpus"][0]["after_mib"] == 4


@case
def case_60(tmp_path: Path) -> None:
    world = World()
    mine = world.scheduler(kinds=(MPS,))
    found = clean(world, tmp_path)
    assert found.reason == "mps_in_use" and world.signals == [] and mine.alive
    assert "echo quit" in found.message
    world.mps = "4711\n"  # with a control daemon it is drained before any signal
    world.at(0.0, lambda: setattr(mine, "on_term", lambda: mine.drained and world.exit(mine)))
    found = clean(world, tmp_path)
    assert found.reason is None and not mine.alive and mine.drained
    assert [action["signal"] for action in found.result["actions"]] == ["mps terminate_client", "SIGTERM"]


@case
def case_61(tmp_path: Path) -> None:
    world = World(cards=2)
    world.card(1).name = "NVIDIA T4"
    snapshot = world.look()
    assert [target.uuid for target in choose.choose(snapshot, ["0", "1"])] == [world.uuid(0), world.uuid(1)]
    assert any("CUDA_DEVICE_ORDER" in text for text in clean(world, tmp_path, gpus=("1",)).warnings)
    assert not any("CUDA_DEVICE_ORDER" in text for text in clean(world, tmp_path, gpus=(world.uuid(1),)).warnings)


@case
def case_62(tmp_path: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0 uuid=GPU-aaaaaaaa-0\ngpu 1 uuid=GPU-bbbbbbbb-1")
    code = (
        "import os\nos.environ.update({environment!r})\n"
        "from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import query, choose\n"
        "driver, name, note = query.open_driver('smi', 10)\n"
        "print([t.uuid for t in choose.choose(query.look(driver, name, note), ['0', '1'])])\n"
    )
    plain, turned = (
        sim.python(code.replace("{environment!r}", repr(e))) for e in ({}, {"CUDA_VISIBLE_DEVICES": "1,0"})
    )
    assert plain == turned and "GPU-aaaaaaaa-0" in plain


@case
def case_63(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nerr nvmlInit 18")
    said = sim.python(OPEN + "try_it('smi', 10)")
    assert said.split()[0] == "version_mismatch" and "loaded" in said and "stop nothing" in said
    folder = tmp_path / "driver" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07\n")
    world = World()
    world.failing = errors.raised(errors.by_code(18), "Driver/library version mismatch\nNVML library version: 550.54")
    with pytest.raises(LlmHostError) as caught:
        query.look(world, "smi", "", str(tmp_path))
    assert "535.161.07" in caught.value.message and "550.54" in caught.value.message
    assert clean(world, tmp_path).reason == "version_mismatch" and world.signals == []


@case
def case_64(tmp_path: Path) -> None:
    row = errors.by_text("Failed to initialize NVML: Unknown Error", nested=True)
    assert row is not None and row.reason == "container_cut_off" and "daemon-reload" in row.meaning
    assert errors.by_code(999, nested=False).reason == "driver_error"


@case
def case_65(tmp_path: Path) -> None:
    room = Path(query.__file__).parent
    for path in sorted(room.glob("*.py")):
        calls = [line for line in path.read_text().splitlines() if "systemctl(" in line or '"daemon-reload"' in line]
        assert all('"stop"' in line for line in calls), path


@case
def case_66(tmp_path: Path) -> None:
    world = World()
    supervisor = world.add("containerd-shim", "containerd-shim-runc-v2")
    first = world.scheduler(ppid=supervisor.pid)
    second: list[Any] = []
    first.on_exit = lambda: world.at(1.5, lambda: second.append(world.scheduler(mib=500, ppid=supervisor.pid)))
    world.card().release_s = 10.0
    found = clean(world, tmp_path)
    assert found.reason == "respawn" and "containerd-shim" in found.message
    assert second[0].alive and world.got(second[0]) == [] and world.got(supervisor) == []
    assert found.seconds < 1.5 + 2.5


@pytest.mark.parametrize("number", sorted(CASES))
def test_case(number: str, tmp_path: Path) -> None:
    TESTS[number](tmp_path)


def test_every_case_has_a_test() -> None:
    assert sorted(TESTS) == sorted(CASES)
