# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a process is, from written /proc trees and from real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._process import identity

HEX = "0123456789abcdef" * 4

# path in /proc/PID/cgroup -> unit, container
PATHS = {
    "/": (None, None),
    "/init.scope": ("init.scope", None),
    "/system.slice/sglang-a.service": ("sglang-a.service", None),
    "/system.slice/system-sglang.slice/sglang@a.service": ("sglang@a.service", None),
    "/user.slice/user-1000.slice/session-3.scope": ("session-3.scope", None),
    "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service": ("x.service", None),
    "/lxc/129/ns/system.slice/sglang-a.service": ("sglang-a.service", {"kind": "lxc", "vmid": 129}),
    "/lxc/129/ns/init.scope": ("init.scope", {"kind": "lxc", "vmid": 129}),
    "/lxc/129/ns/.lxc": (None, {"kind": "lxc", "vmid": 129}),
    "/lxc/web/x.service": ("x.service", {"kind": "lxc", "id": "web"}),
    "/lxc.payload.demo/system.slice/x.service": ("x.service", {"kind": "lxc", "id": "demo"}),
    "/lxc.payload.129/.lxc": (None, {"kind": "lxc", "vmid": 129}),
    "/lxc.monitor/129": (None, None),
    "/lxc.monitor.129": (None, None),
    "/qemu.slice/131.scope": ("131.scope", {"kind": "qemu", "vmid": 131}),
    "/qemu.slice/pve.scope": ("pve.scope", None),
    f"/system.slice/docker-{HEX}.scope": (f"docker-{HEX}.scope", {"kind": "docker", "id": HEX}),
    f"/docker/{HEX}": (None, {"kind": "docker", "id": HEX}),
    f"/machine.slice/libpod-{HEX}.scope/container": (f"libpod-{HEX}.scope", {"kind": "podman", "id": HEX}),
    f"/machine.slice/libpod-conmon-{HEX}.scope": (f"libpod-conmon-{HEX}.scope", None),
    f"/lxc/129/ns/system.slice/docker-{HEX}.scope": (
        f"docker-{HEX}.scope",
        {"kind": "lxc", "vmid": 129, "inner": {"kind": "docker", "id": HEX}},
    ),
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444444444444.slice/"
    f"cri-containerd-{HEX}.scope": (
        f"cri-containerd-{HEX}.scope",
        {"kind": "k8s", "id": HEX, "pod": "0a1b2c3d-1111-2222-3333-444444444444"},
    ),
    f"/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444444444444/{HEX}": (
        None,
        {"kind": "k8s", "id": HEX, "pod": "0a1b2c3d-1111-2222-3333-444444444444"},
    ),
    # looks like it, and is not: parts of components, or not at the root
    "/lxc/1290x/ns/a.service": ("a.service", {"kind": "lxc", "id": "1290x"}),
    "/mylxc/129/ns/a.service": ("a.service", None),
    "/user.slice/lxc/129/ns/a.service": ("a.service", None),
    "/system.slice/docker-129.scope": ("docker-129.scope", None),
    "/system.slice/docker.service": ("docker.service", None),
    "/../../lxc/129/ns/a.service": ("a.service", {"kind": "lxc", "vmid": 129}),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_cgroup_path_tells_unit_and_container(path: str) -> None:
    assert (identity.unit_of(path), identity.container_of(path)) == PATHS[path]


def write(
    root: Path,
    pid: int,
    comm: str = "a b) (c",
    ppid: int = 1,
    start: int = 99,
    state: str = "S",
    cgroup: str = "0::/\n",
) -> None:
    folder = root / str(pid)
    folder.mkdir(exist_ok=True)
    fields = [state, str(ppid), "5", "6"] + ["0"] * 13 + ["3", "0", str(start)] + ["0"] * 20
    (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)}\n")
    (folder / "status").write_text(f"Name:\tx\nUid:\t7\t1000\t7\t7\nNSpid:\t{pid}\t12\t3\n")
    (folder / "cmdline").write_bytes(b"python\0-m\0sglang.launch_server\0--api-key\0top secret\0--port\x001\0\0")
    (folder / "cgroup").write_text(cgroup)


def test_a_process_is_read_whole(tmp_path: Path) -> None:
    write(tmp_path, 42, cgroup="9:name=systemd:/system.slice/a.service\n4:memory:/x\n0::/lxc/129/ns/b.service\n")
    found = identity.read(42, str(tmp_path))
    assert (found.pid, found.comm, found.ppid, found.start_time, found.state) == (42, "a b) (c", 1, 99, "S")
    assert found.uid == 1000
    assert found.cmdline == f"python -m sglang.launch_server --api-key {identity.MASK} --port 1"
    assert found.cgroup == "/lxc/129/ns/b.service" and found.unit == "b.service" and found.vmid == 129
    assert found.ns_pid == [42, 12, 3]
    assert set(found.as_dict()) == {
        "pid", "start_time", "uid", "comm", "cmdline", "state", "ppid", "cgroup", "unit", "container", "ns_pid"
    }  # fmt: skip


def test_v1_lines_tell_what_the_unified_one_does_not(tmp_path: Path) -> None:
    write(
        tmp_path,
        42,
        cgroup="5:devices:/lxc/129/ns/system.slice/a.service\n1:name=systemd:/lxc/129/ns/b.service\n0::/\n",
    )
    found = identity.read(42, str(tmp_path))
    assert found.vmid == 129 and found.unit == "b.service" and found.cgroup == "/lxc/129/ns/b.service"


def test_a_deleted_group_is_still_told(tmp_path: Path) -> None:
    write(tmp_path, 42, cgroup="0::/system.slice/a.service (deleted)\n")
    assert identity.read(42, str(tmp_path)).unit == "a.service"


@pytest.mark.parametrize("missing", ["status", "cmdline", "cgroup"])
def test_what_cannot_be_read_is_left_out(tmp_path: Path, missing: str) -> None:
    write(tmp_path, 42)
    (tmp_path / "42" / missing).unlink()
    assert identity.read(42, str(tmp_path)).pid == 42


def test_nobody_is_a_lookup_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError):
        identity.read(42, str(tmp_path))
    write(tmp_path, 42)
    (tmp_path / "42" / "stat").write_text("garbage")
    with pytest.raises(ProcessLookupError):
        identity.read(42, str(tmp_path))


def test_a_pid_that_changes_hands_while_it_is_read_is_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 42)
    real = identity._optional

    def swap(path: str) -> str:
        if path.endswith("cgroup"):
            write(tmp_path, 42, start=100)
        return real(path)

    monkeypatch.setattr(identity, "_optional", swap)
    with pytest.raises(ProcessLookupError):
        identity.read(42, str(tmp_path))


def test_trees(tmp_path: Path) -> None:
    for pid, ppid in ((1, 0), (2, 1), (3, 2), (4, 3), (5, 1), (6, 6)):
        write(tmp_path, pid, ppid=ppid)
    (tmp_path / "self").mkdir()
    assert identity.pids(str(tmp_path)) == [1, 2, 3, 4, 5, 6]
    assert identity.children(2, str(tmp_path)) == [3, 4]
    assert identity.children(1, str(tmp_path)) == [2, 3, 4, 5]
    assert identity.ancestors(4, str(tmp_path)) == [4, 3, 2, 1]
    assert identity.children(9, str(tmp_path)) == []


def test_the_largest_pid(tmp_path: Path) -> None:
    assert identity.pid_max(str(tmp_path)) == 4194304
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/pid_max").write_text("400\n")
    assert identity.pid_max(str(tmp_path)) == 400


# text -> what must be gone, what must stay
SECRETS = {
    "x --api-key abc123 --port 1": ("abc123", "--port 1"),
    "x --api-key=abc123 y": ("abc123", "y"),
    "x --admin-api-key abc123": ("abc123", "--admin-api-key"),
    "x --ssl-keyfile-password abc123": ("abc123", "x"),
    "x --hf-token 'abc 123' y": ("abc 123", "y"),
    "HF_TOKEN=abc123 python": ("abc123", "python"),
    "env OPENAI_API_KEY=abc123 y": ("abc123", "y"),
    "x hf_abcdefghij y": ("abcdefghij", "y"),
    "curl -H 'Authorization: Bearer abc.123-x'": ("abc.123-x", "curl"),
    "git clone https://me:abc123@host/x": ("abc123", "host/x"),
    '{"api_key": "abc123", "a": 1}': ("abc123", '"a": 1'),
    "sk-abcdefgh12345 x": ("abcdefgh12345", "x"),
}
HARMLESS = [
    "python -m sglang.launch_server --tokenizer-path /m --max-total-tokens 5 --port 30000",
    "--max-running-requests 4 --chat-template key.jinja --tokenizer-mode auto",
    "--api-key --port 1",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_masked_and_the_rest_is_not(text: str) -> None:
    gone, stays = SECRETS[text]
    masked = identity.mask(text)
    assert gone not in masked and stays in masked and identity.MASK in masked


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert identity.mask(text) == text


@pytest.mark.parametrize(
    "text", ["Prefill batch, #new-token: 14, #cached-token: 0", "{'api_key': None, 'hf_token': null, 'per_token': 2}"]
)
def test_what_is_counted_or_absent_is_no_secret(text: str) -> None:
    assert identity.mask(text) == text


@pytest.mark.parametrize("piece", ["a-", "key ", "://a", "a.", "token:", '"key', "sk-"])
def test_masking_takes_a_time_that_grows_with_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        began = time.process_time()
        identity.mask(text)
        return time.process_time() - began

    identity.mask(piece)
    assert seconds(80_000) < 40 * max(seconds(10_000), 0.002)  # linear is 8, the square is 64


def test_a_secret_argument_is_masked_whatever_it_holds() -> None:
    arguments = ["python", "--api-key", "two words; and = more", "--port", "1", "--admin-api-key=a b", "c"]
    assert identity.mask_arguments(arguments) == [
        "python", "--api-key", identity.MASK, "--port", "1", f"--admin-api-key={identity.MASK}", "c"
    ]  # fmt: skip


def test_this_process_and_its_socket() -> None:
    me = identity.read(os.getpid())
    assert me.pid == os.getpid() and me.ppid == os.getppid() and me.uid == os.geteuid() and me.state == "R"
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            listening = socket.socket(family)
            listening.bind((address, 0))
        except OSError:
            continue
        with listening:
            listening.listen()
            port = listening.getsockname()[1]
            assert identity.listeners(port) == [os.getpid()]
            assert port in [number for _address, number in identity.listening_ports(os.getpid())]
        assert identity.listeners(port) == []


def test_an_owner_that_cannot_be_seen_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    line = "   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1"
    (tmp_path / "net" / "tcp").write_text("header\n" + line + "\n")
    with pytest.raises(LlmHostError) as caught:
        identity.listeners(0x7530, str(tmp_path))
    assert caught.value.reason == "owner_unknown" and "30000" in caught.value.message
    write(tmp_path, 42)
    (tmp_path / "42" / "fd").mkdir()
    (tmp_path / "42" / "fd" / "3").symlink_to("socket:[777]")
    assert identity.listeners(0x7530, str(tmp_path)) == [42]
    assert identity.listeners(1, str(tmp_path)) == []


def test_a_real_child_is_told_apart() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "--api-key", "abc123"])
    try:
        found = identity.read(child.pid)
        assert found.ppid == os.getpid() and "abc123" not in found.cmdline
        assert child.pid in identity.children(os.getpid())
    finally:
        child.kill()
        child.wait()
    with pytest.raises(ProcessLookupError):
        identity.read(child.pid)
