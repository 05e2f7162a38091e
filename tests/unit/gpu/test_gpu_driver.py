# SPDX-License-Identifier: GPL-3.0-or-later
"""What the driver says, read from both back ends; errors as data; who is behind a PID; which GPU is meant."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import (
    choose,
    clients,
    errors,
    lock,
    model,
    query,
    smi,
    xid,
)
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu.model import COMPUTE, GRAPHICS, MPS, Entry, Gpu
from gpu_world_support import World
from nvml_sim_support import Sim, has_nvidia_ml_py

LOOK = """
import json, sys
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import clients, query
def look(source):
    driver, name, note = query.open_driver(source, 15)
    found = query.look(driver, name, note)
    known = driver.capabilities([gpu.uuid for gpu in found.gpus if gpu.uuid])
    found = clients.enrich(found, {"clients", "xid", "capability"}, driver.nested, known, 10)
    driver.close()
    return found
def show(source):
    try:
        found = look(source)
        return {
            "gpus": [gpu.as_dict() for gpu in found.gpus], "source": found.source, "note": found.source_note,
            "driver": found.driver_version, "cuda": found.cuda_version, "sim": found.simulated,
            "warn": found.warnings,
        }
    except LlmHostError as error:
        return {"reason": error.reason, "message": error.message}
print(json.dumps({source: show(source) for source in sys.argv[1:] or ["smi"]}))
"""


def show(sim: Sim, *sources: str) -> dict[str, dict]:
    code = LOOK.replace("sys.argv[1:]", repr(list(sources)))
    return json.loads(sim.python(code))


STATES = {
    "one": "gpu 0",
    "several": """
        gpu 0 name="NVIDIA A 1"
        gpu 1 util=33 memutil=7 persist=0 ecc=0 display=1 cc=8.6
        gpu 2 ecc=-1 recovery=4
    """,
    "mig": "gpu 0 mig=1\nmig 0 0 gi=3 total=9728 used=10\nmig 0 1 gi=4 total=9728 used=700 profile=2g.20gb",
    "mig refused": "gpu 0 mig=1 mem=noperm\nmig 0 0 gi=3 total=9728 used=10",
    "no memory": "gpu 0 mem=na addressing=ats",
    "clients": "\n".join(
        ["gpu 0", f"proc pid={os.getpid()} mem=300 type=C", f"proc pid={os.getpid()} mem=300 type=G",
         f"proc pid={os.getppid()} mem=-1 type=G", "proc pid=31999 mem=70 static=1 type=M"]
    ),  # fmt: skip
    "lost": "gpu 0\ngpu 1 lost=1\ngpu 2",
    "xid": "gpu 0\nxid 0 79 pid=5, GPU has fallen off the bus.\nxid 0 13",
    "recovery": "gpu 0 recovery=2",
    "unit": "gpu 0 recovery=-1",
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_both_back_ends_say_the_same(state: str, tmp_path: Path) -> None:
    if not has_nvidia_ml_py():
        pytest.skip("nvidia-ml-py is not installed for this Python")
    sim = Sim(tmp_path)
    sim.write(STATES[state])
    found = show(sim, "smi", "nvml")
    one, other = found["smi"], found["nvml"]
    for gpu in one["gpus"] + other["gpus"]:
        for error in gpu["errors"]:
            error.pop("call"), error.pop("message")
        gpu["health_reasons"] = len(gpu["health_reasons"])
        gpu.pop("memory_note")
        if state == "lost" and gpu["index"] == 1:
            gpu["pci_bus_id"] = gpu["name"] = gpu["xids"] = None
    assert one["gpus"] == other["gpus"]
    assert (one["driver"], one["cuda"], one["sim"]) == (other["driver"], other["cuda"], True)
    assert (one["source"], other["source"]) == ("smi", "nvml")


def test_what_a_look_tells(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write(
        STATES["several"]
        + f"\nproc gpu=1 pid={os.getpid()} mem=300\nxid 1 79 pid=5, bus\nproc gpu=1 pid=31999 mem=5 static=1"
    )
    found = show(sim, "smi")["smi"]
    first, second, third = found["gpus"]
    assert first["name"] == "NVIDIA A 1" and first["health"] == "ok" and first["compute_capability"] == "9.0"
    assert first["memory_mib"] == {"total": 81559, "used": 4, "free": 81055, "reserved": 500}
    assert second["utilization_percent"] == 33 and second["memory_utilization_percent"] == 7
    assert second["persistence"] is False and second["ecc"] is False and second["display_active"] is True
    assert second["compute_capability"] == "8.6" and second["health"] == "degraded"
    assert second["xids"][0]["xid"] == 79 and second["xids"][0]["class"] == "fatal"
    mine = next(client for client in second["clients"] if client["pid"] == os.getpid())
    assert (
        mine["identified"] and mine["memory_mib"] == 300 and mine["uid"] == os.geteuid() and mine["kind"] == "compute"
    )
    gone = next(client for client in second["clients"] if client["pid"] == 31999)
    assert not gone["identified"] and gone["problem"] and gone["comm"] is None
    assert third["ecc"] is None and third["recovery_action"] == "drain_and_reset" and third["health"] == "unusable"
    assert any("persistence" in text for text in found["warn"])


def test_a_lost_gpu_hides_no_other(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    for extra in ("", "\nsmi_lost continue"):
        sim.write(STATES["lost"] + extra)
        gpus = show(sim, "smi")["smi"]["gpus"]
        assert [gpu["index"] for gpu in gpus] == [0, 1, 2]
        assert [gpu["health"] for gpu in gpus] == ["ok", "unusable", "ok"]
        assert gpus[1]["errors"][0]["reason"] == "gpu_lost" and gpus[1]["memory_mib"]["used"] is None


# what the state says -> the reason of both back ends
FAILURES = {
    "gpu 0\nerr nvmlInit 9": "driver_not_loaded",
    "gpu 0\nerr nvmlInit 18": "version_mismatch",
    "gpu 0\nerr nvmlInit 17": "blocked_by_os",
    "gpu 0\nerr nvmlInit 4": "not_permitted",
    "# no gpu": "no_gpu",
}


@pytest.mark.parametrize("state", FAILURES)
def test_a_failure_has_the_reason_of_its_row(state: str, tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write(state)
    sources = ["smi", "nvml"] if has_nvidia_ml_py() else ["smi"]
    found = show(sim, *sources)
    assert {answer["reason"] for answer in found.values()} == {FAILURES[state]}


def test_a_driver_that_is_not_there(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.state.unlink()
    assert show(sim, "smi")["smi"]["reason"] == "driver_not_loaded"
    sim.root = tmp_path  # neither library nor nvidia-smi
    for folder in ("bin", "lib"):
        (tmp_path / folder).mkdir()
    found = show(sim, "auto")["auto"]
    if found["reason"] != "no_driver":
        pytest.skip("this machine has a driver of its own")
    assert "required: false" in found["message"]
    sim.variant = "none"
    for path in (sim.root / "bin",):
        (path / "nvidia-smi").write_text(
            '#!/bin/sh\necho "NVIDIA-SMI couldn\'t find libnvidia-ml.so library"; exit 12\n'
        )
        (path / "nvidia-smi").chmod(0o755)
    assert show(sim, "smi")["smi"]["reason"] == "library_missing"


# reason -> what NVML or nvidia-smi says for it
EXAMPLES = {
    "driver_not_loaded": (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure"),
    "library_missing": (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."),
    "version_mismatch": (18, "Failed to initialize NVML: Driver/library version mismatch"),
    "blocked_by_os": (17, "The operating system has blocked the request"),
    "container_cut_off": (999, "Failed to initialize NVML: Unknown Error"),
    "gpu_lost": (15, "Unable to determine the device handle for GPU0000:0B:00.0: GPU is lost.  Reboot the system"),
    "reset_required": (16, "GPU requires reset"),
    "not_permitted": (4, "Insufficient Permissions"),
    "function_missing": (13, "Function Not Found"),
    "no_gpu": (6, "No devices were found"),
    "driver_error": (None, "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error"),
}


@pytest.mark.parametrize("row", errors.ERRORS, ids=lambda row: row.reason)
def test_an_error_hits_its_row_and_only_it(row: errors.DriverError) -> None:
    code, text = EXAMPLES[row.reason]
    assert errors.by_text(text) is row
    if code is not None:
        assert errors.by_code(code) is row
        assert [other for other in errors.ERRORS if code in other.codes] == [row]
    assert row.meaning and row.cure
    failure = errors.raised(row, "said")
    assert failure.reason == row.reason and row.cure[1:] in failure.message and "said" in failure.message


def test_an_error_that_nobody_knows() -> None:
    assert errors.by_text("all is well") is None
    assert errors.by_code(12345) is errors.UNKNOWN


@pytest.mark.parametrize("source", ["smi", "nvml"])
def test_a_hanging_driver_is_a_failure_and_leaves_nobody(source: str, tmp_path: Path) -> None:
    if source == "nvml" and not has_nvidia_ml_py():
        pytest.skip("nvidia-ml-py is not installed for this Python")
    sim = Sim(tmp_path)
    sim.write("gpu 0\nhang nvmlDeviceGetUtilizationRates")
    code = (
        "import os, time\n"
        "from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import query\n"
        "from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity\n"
        "start = time.monotonic()\n"
        "try:\n"
        f"    driver, name, note = query.open_driver({source!r}, 2)\n"
        "    driver.look()\n"
        "except Exception as error:\n"
        "    print(error.reason, 2 <= time.monotonic() - start < 12, 'query_timeout_s' in error.message)\n"
        "time.sleep(0.1)\n"
        "print([pid for pid in identity.children(os.getpid()) if not identity.read(pid).zombie])\n"
    )
    start = time.monotonic()
    assert sim.python(code).splitlines() == ["driver_hung True True", "[]"]
    assert time.monotonic() - start < 30


def test_a_hang_in_the_start_is_told_too(tmp_path: Path) -> None:
    sim = Sim(tmp_path)
    sim.write("gpu 0\nhang nvmlInit")
    code = LOOK.replace("sys.argv[1:]", "['auto']").replace("open_driver(source, 15)", "open_driver(source, 2)")
    assert json.loads(sim.python(code))["auto"]["reason"] == "driver_hung"


def test_a_program_that_writes_much_is_read_whole() -> None:
    code, out, err = query.run_with_deadline(
        [
            sys.executable,
            "-c",
            "import sys; sys.stdout.write('x' * 500000); sys.stderr.write('y' * 300000); sys.exit(3)",
        ],
        30,
        "a program",
    )
    assert (code, len(out), len(err)) == (3, 500000, 300000)


def test_a_program_that_closes_its_output_and_goes_on_is_ended() -> None:
    with pytest.raises(LlmHostError) as caught:
        query.run_with_deadline(
            [sys.executable, "-c", "import os, time; os.close(1); os.close(2); time.sleep(60)"], 1.5, "it"
        )
    assert caught.value.reason == "driver_hung"


def test_the_binding_that_is_not_the_real_one_is_refused(tmp_path: Path) -> None:
    """Each with what pip would have left, in a folder that comes first."""
    from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import nvml

    def install(name: str, version: str, module: bool = True) -> Path:
        folder = tmp_path / f"{name}-{version}"
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text("pynvml.py,,\n" if module else "")
        (folder / "pynvml.py").write_text("")
        return folder

    def refusal(*folders: Path) -> str | None:
        code = (
            f"import sys; sys.path[:0] = {[str(f) for f in folders]!r}\n"
            "from ansible_collections.llmhost.sglang.plugins.module_utils._gpu import nvml\nprint(nvml.refusal())"
        )
        paths = [p for p in sys.path if p and "site-packages" not in p]
        import subprocess

        done = subprocess.run(
            [sys.executable, "-S", "-c", code],
            env={"PYTHONPATH": os.pathsep.join(paths), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    good = install("nvidia-ml-py", "12.535.108")
    assert refusal(good) == "None"
    assert "not installed" in str(refusal())
    assert "older" in str(refusal(install("nvidia-ml-py", "12.535.77")))
    assert "older" in str(refusal(install("nvidia-ml-py", "11.525.150")))
    assert "nvidia-ml-py3 is installed beside" in str(refusal(good, install("nvidia-ml-py3", "7.352.0")))
    assert "which is not that of" in str(refusal(install("pynvml", "11.5.0"), good))
    assert nvml.OLDEST == (12, 535, 108)


# total, used, free, reserved -> used that is believed
MEMORY = [
    ((81559, 4, 81055, 500), 4),
    ((81559, 504, 81055, 500), 4),
    ((81559, 0, 81559, 0), 0),
    ((81559, 504, 81055, None), 504),
    ((40960, 0, 0, 0), None),
    ((40960, 50000, 10, 0), None),
    ((40960, 100, 100, 100), None),
    ((0, 0, 0, 0), None),
    ((None, None, None, None), None),
    ((81559, 2, 81559, 5000), None),
    ((81559, 81058, 1, 500), 81058),
]


@pytest.mark.parametrize(("numbers", "used"), MEMORY)
def test_memory_is_believed_where_it_adds_up(numbers: tuple, used: int | None) -> None:
    found = model.memory(*numbers)
    assert found.used == used
    assert (found.note is None) == (used is not None)


def test_a_process_on_two_lists_is_one_client() -> None:
    found = model.merged(
        [Entry(5, (COMPUTE,), 10), Entry(5, (GRAPHICS,), None), Entry(6, (MPS,), 1), Entry(5, (COMPUTE,), 3, 2)]
    )
    assert [(e.pid, e.kinds, e.memory_mib, e.gpu_instance) for e in found] == [
        (5, (COMPUTE, GRAPHICS), 10, None), (6, (MPS,), 1, None), (5, (COMPUTE,), 3, 2)
    ]  # fmt: skip
    assert found[0].kind == COMPUTE and found[1].kind == MPS


@pytest.mark.parametrize(
    ("words", "uuids"),
    [
        (["0"], [0]),
        (["1", "0", "1"], [0, 1]),
        (["all"], [0, 1, 2]),
        (["ALL", "1"], [0, 1, 2]),
        (["GPU-00000001-0000"], [1]),
        (["gpu-00000001"], [1]),
        (["00000000:02:00.0"], [1]),
        (["02:00.0"], [1]),
        ([], []),
    ],
)
def test_a_gpu_is_named(words: list[str], uuids: list[int]) -> None:
    world = World(cards=3)
    snapshot = world.look()
    gpus = tuple(model.replace(gpu, pci_bus_id=f"00000000:0{gpu.index + 1}:00.0") for gpu in snapshot.gpus)
    found = choose.choose(model.replace(snapshot, gpus=gpus), words)
    assert [target.uuid for target in found] == [world.uuid(index) for index in uuids]


@pytest.mark.parametrize(
    ("word", "reason"),
    [("3", "gpu_unknown"), ("-1", "gpu_unknown"), ("GPU-0000", "gpu_ambiguous"), ("GPU-0000000", "gpu_ambiguous"),
     ("GPU-ffffffff", "gpu_unknown"), ("0f:00.0", "gpu_unknown"), ("H100", "gpu_unknown"), ("", "gpu_unknown")],
)  # fmt: skip
def test_a_gpu_that_is_not_there_or_not_one(word: str, reason: str) -> None:
    with pytest.raises(LlmHostError) as caught:
        choose.choose(World(cards=3).look(), [word])
    assert caught.value.reason == reason
    assert word[:7] in caught.value.message


def test_a_part_of_a_name_is_for_looking_alone() -> None:
    found = World(cards=2).look()
    assert len(choose.choose(found, ["h100"], by_name=True)) == 2


def test_one_spelling_of_a_pci_address() -> None:
    assert {model.pci_key(text) for text in ("00000000:3B:00.0", "0000:3b:00.0", "3b:00.0")} == {"0000:3b:00.0"}
    assert model.pci_key("00010000:3B:00.0") == "10000:3b:00.0"


@pytest.mark.parametrize("row", xid.XIDS, ids=lambda row: str(row.number))
def test_an_xid_hits_its_row(row: xid.Xid) -> None:
    line = f"[ 1234.567890] NVRM: Xid (PCI:0000:3b:00): {row.number}, pid=77, name=python, details"
    (event,) = xid.parse([line])["0000:3b:00.0"]
    assert event["xid"] == row.number and event["class"] == row.kind and event["meaning"] == row.meaning
    assert event["time_s"] == 1234.56789 and event["text"].startswith("pid=77")
    assert row.kind in ("fatal", "reset", "app", "info")
    assert len([other for other in xid.XIDS if other.number == row.number]) == 1


def test_what_is_no_xid_is_none() -> None:
    lines = ["[1.0] NVRM: loading NVIDIA UNIX", "nvidia-smi Xid 79", "[2.0] NVRM: Xid (PCI:0000:01:00): 999, x", ""]
    found = xid.parse(lines)
    assert list(found) == ["0000:01:00.0"] and found["0000:01:00.0"][0]["class"] == "unknown"
    many = [f"NVRM: Xid (PCI:0000:01:00): 13, n{number}" for number in range(50)]
    events = xid.parse(many)["0000:01:00.0"]
    assert len(events) == xid.MOST and events[-1]["text"] == "n49" and events[0]["time_s"] is None


def test_a_missing_row_is_no_idle_gpu(tmp_path: Path) -> None:
    sim = Sim(tmp_path)

    def run(arguments: list[str]) -> tuple[int, str, str]:
        done = sim.run("nvidia-smi", *arguments)
        return done.returncode, done.stdout, done.stderr

    sim.write("gpu 0 uuid=GPU-aaaaaaaa-1 reserved=0\ngpu 1 uuid=GPU-bbbbbbbb-1")
    assert set(smi.used_memory(run, ["GPU-aaaaaaaa-1", "GPU-bbbbbbbb-1"])) == {"GPU-aaaaaaaa-1", "GPU-bbbbbbbb-1"}
    with pytest.raises(LlmHostError) as caught:
        smi.used_memory(run, ["GPU-aaaaaaaa-1", "GPU-cccccccc-1"])
    assert caught.value.reason == "gpu_missing" and "GPU-cccccccc-1" in caught.value.message

    def old(arguments: list[str]) -> tuple[int, str, str]:
        if "memory.reserved" in arguments[0]:
            return 2, 'Field "memory.reserved" is not a valid field to query.\n', ""
        return run(arguments)

    assert smi.used_memory(old, ["GPU-aaaaaaaa-1"])["GPU-aaaaaaaa-1"].total == 81559


def test_garbage_is_no_answer() -> None:
    for text in ("", "no xml", "<?xml version='1.0'?><nvidia_smi_log>", "Segmentation fault"):
        with pytest.raises(LlmHostError) as caught:
            smi.parse(text)
        assert caught.value.reason == "parse_error"
    assert smi.parse("<nvidia_smi_log><gpu id='x'/></nvidia_smi_log>").gpus[0].entries is None


def test_the_list_of_mig_devices() -> None:
    text = (
        "GPU 0: NVIDIA A100 (UUID: GPU-11111111-a)\n"
        "  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n"
        "  MIG 2c.3g.20gb  Device  1: (UUID: MIG-GPU-11111111-a/2/0)\n"
        "GPU 1: NVIDIA T4 (UUID: GPU-22222222-b)\n"
    )
    order, migs = smi.parse_list(text.replace("-a", "-0a").replace("-b)", "-0b)"))
    assert order == ["GPU-11111111-0a", "GPU-22222222-0b"]
    assert migs["GPU-11111111-0a"][0] == ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "1g.5gb")
    assert migs["GPU-11111111-0a"][1][1] == "2c.3g.20gb"


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("C", (COMPUTE,)),
        ("G", (GRAPHICS,)),
        ("C+G", (COMPUTE, GRAPHICS)),
        ("M+C", (MPS, COMPUTE)),
        ("", (COMPUTE,)),
        ("Q", (COMPUTE,)),
    ],
)
def test_a_kind_that_is_not_known_counts_as_compute(word: str, kinds: tuple[str, ...]) -> None:
    assert smi._kinds(word) == kinds


def test_two_tasks_never_clean_one_gpu(tmp_path: Path) -> None:
    where = str(tmp_path / "locks")
    with lock.hold(["GPU-a", "GPU-b"], 1, time.monotonic, time.sleep, where):
        with pytest.raises(LlmHostError) as caught, lock.hold(["GPU-b"], 0.5, time.monotonic, time.sleep, where):
            pass
        assert caught.value.reason == "locked"
        assert str(os.getpid()) in caught.value.message and "GPU-b" in caught.value.message
        assert caught.value.details["owner"] == str(os.getpid()) and caught.value.details["since"][:2] == "20"
        with lock.hold(["GPU-c"], 1, time.monotonic, time.sleep, where):
            pass
    with lock.hold(["GPU-b"], 1, time.monotonic, time.sleep, where):
        pass


def test_a_lock_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LlmHostError) as caught,
        lock.hold(["GPU-a"], 1, time.monotonic, time.sleep, str(tmp_path / "file/x")),
    ):
        pass
    assert caught.value.reason == "lock_failed"


def test_who_cannot_be_identified_says_why(tmp_path: Path) -> None:
    listed = tuple(Entry(pid, (COMPUTE,), size) for pid, size in ((0, 1), (10**9, 1), (77, 99999), (78, 1)))
    gpu = Gpu(0, "GPU-x", memory=model.memory(1000, 10, 990, 0), entries=listed)
    found = clients.identify(gpu, False, (580,), str(tmp_path))
    assert [client.process for client in found.clients] == [None] * 4
    assert all(client.problem for client in found.clients)
    assert "possible PID" in str(found.clients[0].problem) and "99999 MiB" in str(found.clients[2].problem)


def test_the_kernel_log_and_why_it_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients.shutil, "which", lambda name: "/bin/" + name)

    def run(command: list[str], _timeout: float, _what: str) -> tuple[int, str, str]:
        if command[0] == "dmesg":
            return 1, "", "dmesg: read kernel buffer failed: Operation not permitted"
        return 0, "[    5.1] host kernel: NVRM: Xid (PCI:0000:01:00): 79, x\n[6] host kernel: other\n", ""

    lines, why = clients.kernel_log(5, run)
    assert len(lines) == 1 and why is None
    lines, why = clients.kernel_log(5, lambda command, _t, _w: (1, "", "not for you"))
    assert lines == [] and "not for you" in str(why)
    monkeypatch.setattr(clients.shutil, "which", lambda name: None)
    assert "not installed" in str(clients.kernel_log(5, run)[1])


def test_the_nodes_of_a_card(tmp_path: Path) -> None:
    card = tmp_path / "bus/pci/devices/0000:3b:00.0"
    card.mkdir(parents=True)
    (card / "numa_node").write_text("1\n")
    assert clients.numa_node("00000000:3B:00.0", str(tmp_path)) == 1
    (card / "numa_node").write_text("-1\n")
    assert clients.numa_node("00000000:3B:00.0", str(tmp_path)) is None
    assert clients.numa_node(None) is None
    status = tmp_path / "driver/nvidia/gpus/0000:3b:00.0"
    status.mkdir(parents=True)
    (status / "numa_status").write_text("Node: 4\nStatus: online\n")
    assert clients.memory_numa_node("00000000:3B:00.0", str(tmp_path)) == 4
    (status / "numa_status").write_text("Node: -1\nStatus: disabled\n")
    assert clients.memory_numa_node("00000000:3B:00.0", str(tmp_path)) is None
