# SPDX-License-Identifier: GPL-3.0-or-later
"""What the looks make of files and of commands' words, and what the reader makes of a real host."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor import looks
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.check import Ask
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.facts import PLACES, Unread
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.look import Scene, take
from ansible_collections.llmhost.sglang.plugins.module_utils._doctor.reader import Reader, as_user, reach
from doctor_recorded import KERNEL, OPEN, Recorded, V, loaded

ASK = Ask(vmid=129)
MISSING = "was not read"
EFI = {"/sys/firmware/efi/x": ""}
ARCSTATS = (
    "13 1 0x01\nname type data\nsize                            4    100\nc_max                           4    900\n"
)
PIN = (
    "Explanation: x\nPackage: *nvidia*\nPin: version 595*\nPin-Priority: 1001\n\n"
    "Package: *\nPin: release a=stable\nPin-Priority: 1\n"
)
MOK = {"/var/lib/dkms/mok.pub": "x"}
COROSYNC = {"/etc/pve/corosync.conf": "x"}


def fact(reader: Recorded, name: str, place: str = "node", ask: Ask = ASK) -> Any:
    """One fact with those that it leans on; the reason where it could not be read."""
    wanted = {name, "kernel", "kernels", "module", "config", "bus_gpus"}
    facts = take(Scene(reader, ask, place), [look for look in looks.LOOKS if look.name in wanted], ["*", *_families()])
    return facts.values[name] if name in facts.values else f"{MISSING}: {facts.unread[name]}"


def _families() -> set[str]:
    return {family for look in looks.LOOKS for family in look.families}


CONF = {"/etc/pve/lxc/129.conf": "memory: 512\n"}

# fact -> files, words of commands, what it is
TOLD: list[tuple[str, dict[str, str], dict[str, Any], Any]] = [
    ("module", {"/sys/module/nvidia/version": "570.86.15\n"}, {}, "570.86.15"),
    ("module", {"/proc/driver/nvidia/version": OPEN}, {}, V),
    (
        "module",
        {"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\n"},
        {},
        "550.54.14",
    ),
    ("module", {}, {}, None),
    (
        "dkms",
        {},
        {"dkms status": f"nvidia/595.91.07, {KERNEL}, x86_64: installed\nzfs/2.3, {KERNEL}, x86_64: installed\n"},
        [{"module": "nvidia", "version": "595.91.07", "kernel": KERNEL, "state": "installed"}],
    ),
    (
        "dkms",
        {},
        {"dkms status": f"nvidia-current, 550.163.01, {KERNEL}, x86_64: installed (original_module exists)\n"},
        [{"module": "nvidia-current", "version": "550.163.01", "kernel": KERNEL, "state": "installed"}],
    ),
    (
        "dkms",
        {},
        {"dkms status": "nvidia/595.91.07: added\n"},
        [{"module": "nvidia", "version": "595.91.07", "kernel": None, "state": "added"}],
    ),
    ("dkms", {}, {}, None),
    (
        "kernels",
        {f"/lib/modules/{k}/modules.dep": "" for k in ("6.17.13-2-pve", "6.17.9-1-pve", "6.8.12-4-pve")},
        {},
        ["6.8.12-4-pve", "6.17.9-1-pve", "6.17.13-2-pve"],
    ),
    (
        "kernels",
        {
            "/lib/modules/6.1/modules.dep": "",
            "/lib/modules/6.2/modules.dep": "",
            "/boot/vmlinuz-6.1": "",
            "/lib/modules/gone/x": "",
        },
        {},
        ["6.1"],
    ),
    ("secure_boot", {}, {}, False),
    ("secure_boot", EFI, {"mokutil --sb-state": "SecureBoot enabled\n"}, True),
    ("secure_boot", EFI, {"mokutil --sb-state": "SecureBoot disabled\n"}, False),
    ("secure_boot", {"/sys/firmware/efi/efivars/SecureBoot-8be4df61": "\x06\x00\x00\x00\x01"}, {}, True),
    ("secure_boot", {"/sys/firmware/efi/efivars/SecureBoot-8be4df61": "\x06\x00\x00\x00\x00"}, {}, False),
    ("secure_boot", {"/sys/firmware/efi/efivars/other": ""}, {}, MISSING),
    ("dkms_key_enrolled", {}, {}, None),
    ("dkms_key_enrolled", MOK, {"mokutil --test-key": (1, "/var/lib/dkms/mok.pub is already enrolled\n")}, True),
    ("dkms_key_enrolled", MOK, {"mokutil --test-key": "/var/lib/dkms/mok.pub is not enrolled\n"}, False),
    ("dkms_key_enrolled", MOK, {"mokutil --test-key": "EFI variables are not supported\n"}, MISSING),
    ("kernel_log", {}, {"dmesg": "[1] NVRM: API mismatch: x\n[2] usb\n"}, ["[1] NVRM: API mismatch: x"]),
    ("kernel_log", {}, {"dmesg": (1, "dmesg: read kernel buffer failed: Operation not permitted")}, MISSING),
    (
        "elsewhere",
        {"/etc/pve/nodes/a/qemu-server/129.conf": "", "/etc/pve/nodes/b/lxc/130.conf": ""},
        {},
        ["nodes/a/qemu-server/129"],
    ),
    (
        "pending",
        CONF,
        {"pct pending 129": "cur cores: 4\nnew dev0: /dev/nvidia0\ncur memory: 512\nnew memory: 1024\ndel mp0: x\n"},
        ["dev0", "memory", "mp0"],
    ),
    ("pending", {}, {"pct pending 129": ""}, MISSING),
    ("guest_status", CONF, {"pct status 129": "status: stopped\n"}, "stopped"),
    ("guest_status", CONF, {"pct status 129": "?\n"}, MISSING),
    ("ha", {"/etc/pve/ha/resources.cfg": "ct: 129\n\tstate started\n\nvm: 130\n"}, {}, True),
    ("ha", {"/etc/pve/ha/resources.cfg": "ct: 1290\nvm: 129\n"}, {}, False),
    ("ha", {}, {}, False),
    ("quorate", {}, {}, None),
    ("quorate", COROSYNC, {"pvecm status": "Quorum information\nQuorate:          No\n"}, False),
    ("quorate", COROSYNC, {"pvecm status": "Quorate:          Yes\n"}, True),
    ("quorate", COROSYNC, {"pvecm status": (2, "Cannot initialize CMAP service")}, MISSING),
    (
        "active_tasks",
        {"/etc/hostname": "pve1.lan\n"},
        {"pvesh get /nodes/pve1/tasks": json.dumps([{"upid": "U1", "id": "129"}, {"upid": "U2", "id": "130"}])},
        ["U1"],
    ),
    ("active_tasks", {"/etc/hostname": "pve1\n"}, {"pvesh get": "no JSON"}, MISSING),
    (
        "arc",
        {"/proc/spl/kstat/zfs/arcstats": ARCSTATS},
        {},
        {"size": 100, "c_max": 900},
    ),
    ("arc", {"/proc/spl/kstat/zfs/arcstats": "garbage\n"}, {}, MISSING),
    (
        "pins",
        {"/etc/apt/preferences.d/n.pref": PIN},
        {},
        ["*nvidia*: version 595*"],
    ),
]


@pytest.mark.parametrize("number", range(len(TOLD)))
def test_what_is_told(number: int, tmp_path: Path) -> None:
    name, files, said, expected = TOLD[number]
    found = fact(Recorded(tmp_path, files=files, said=said), name)
    if expected == MISSING:
        assert str(found).startswith(MISSING), found
    else:
        assert found == expected


def test_a_library_whose_name_tells_no_version_is_not_known(tmp_path: Path) -> None:
    top = "/usr/lib/x86_64-linux-gnu"
    reader = Recorded(tmp_path, files={f"{top}/libcuda.so.1": "", f"{top}/libnvidia-ml.so.1": ""})
    assert "tells no version" in fact(reader, "libraries", "container")


def test_the_loaders_cache_decides_which_library_is_taken(tmp_path: Path) -> None:
    files = {"/opt/x/libcuda.so.1.1": "", "/opt/x/libcuda.so.580.65.06": "", f"/usr/lib/libnvidia-ml.so.{V}": ""}
    links = {"/opt/x/libcuda.so.1": "libcuda.so.580.65.06", "/usr/lib/libnvidia-ml.so.1": f"libnvidia-ml.so.{V}"}
    said = {"ldconfig -p": "2 libs found\n\tlibcuda.so.1 (libc6,x86-64) => /opt/x/libcuda.so.1\n"}
    found = fact(Recorded(tmp_path, files=files, links=links, said=said), "libraries", "container")
    assert found == {"libcuda.so.1": "580.65.06", "libnvidia-ml.so.1": V}


def test_packages_are_told_apart(tmp_path: Path) -> None:
    shown = (
        f"libnvidia-compute\t{V}-1\thi \nnvidia-container-toolkit\t1.18\tii \nlibnvidia-container1\t1.18\tii \n"
        f"nvidia-driver-pinning-595\t595\tii \nlibnvidia-egl-wayland1\t1.1\tii \nold-nvidia-x\t1\trc \nbash\t5\tii \n"
    )
    found = fact(Recorded(tmp_path, said={"dpkg-query -W": shown}), "packages", "container")
    assert {p["name"]: (p["held"], p["driver"]) for p in found} == {
        "libnvidia-compute": (True, True),
        "nvidia-container-toolkit": (False, False),
        "libnvidia-container1": (False, False),
        "nvidia-driver-pinning-595": (False, False),
        "libnvidia-egl-wayland1": (False, False),
    }


def test_where_a_run_is(tmp_path: Path) -> None:
    def place(name: str, **files: str) -> str:
        return looks.place_of(Recorded(tmp_path / name, files={k.replace("__", "/"): v for k, v in files.items()}))

    assert place("a", **{"/etc/pve/lxc/x": ""}) == "node"
    assert place("b", **{"/proc/1/environ": "container=lxc\0TERM=linux\0"}) == "container"
    assert place("c", **{"/proc/1/environ": "TERM=linux\0subcontainer=1\0"}) == "bare_metal"
    assert place("d", **{"/run/systemd/container": "lxc"}) == "container"
    assert place("e", **{"/etc/pve/nodes/x": "", "/run/systemd/container": "lxc"}) == "node"


def test_a_look_that_fails_hides_no_other(tmp_path: Path) -> None:
    given = loaded()
    reader = Recorded(tmp_path, files={**given[0], "/proc/1/limits": "nonsense"}, links=given[1])
    facts = looks.look(reader, ASK, "container", ["limits", "driver"])
    assert "Max locked memory" in facts.unread["limits"] and facts.values["module"] == V


def test_every_fact_is_looked_at_once_in_each_place() -> None:
    for place in PLACES:
        names = [look.name for look in looks.LOOKS if place in look.places]
        assert len(names) == len(set(names))


def test_the_reader_on_a_real_host(tmp_path: Path) -> None:
    reader = Reader(timeout_s=5)
    assert reader.text(str(tmp_path / "none")) is None and reader.names(str(tmp_path / "none")) == []
    null = reader.node("/dev/null")
    assert null is not None and (null["character"], null["major"], null["minor"]) == (True, 1, 3)
    (tmp_path / "plain").write_text("x")
    assert reader.node(str(tmp_path / "plain"))["character"] is False  # type: ignore[index]
    assert reader.room(str(tmp_path / "deep/er"))["exists"] is False
    assert reader.room("/")["total_mib"] > 0
    assert reader.opens(["/dev/null", str(tmp_path / "none")], None) == {
        "/dev/null": "ok",
        str(tmp_path / "none"): "ENOENT",
    }
    assert reader.python("import json; print(json.dumps([1]))", 20) == [1]
    with pytest.raises(Unread, match="ended with 3"):
        reader.python("raise SystemExit(3)", 20)
    with pytest.raises(Unread, match="not installed"):
        reader.run(["llmhost-no-such-program"])
    with pytest.raises(Unread, match="no answer within"):
        reader.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert abs(reader.clock()["since_boot"] - reader.clock()["since_boot"]) < 1


def test_a_probe_that_crashes_takes_nobody_along() -> None:
    with pytest.raises(Unread, match="ended with"):
        Reader().python("import os; os.abort()", 20)
    with pytest.raises(Unread, match="failed"):
        as_user(None, lambda: os.abort())
    with pytest.raises(Unread, match="no answer"):
        as_user(None, lambda: os.read(os.pipe()[0], 1).decode(), timeout_s=0.3)


def test_a_user_that_is_not_there_is_unknown_and_not_fine() -> None:
    with pytest.raises(Unread, match="no user llmhost-nobody"):
        Reader().opens(["/dev/null"], "llmhost-nobody")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_files_are_tried_as_the_user() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own is shut for others
        os.chmod(folder, 0o755)
        (Path(folder) / "open").write_text("x")
        secret = Path(folder) / "shut"
        secret.write_text("x")
        secret.chmod(0o600)
        assert Reader().refused(folder, None) is None
        assert Reader().refused(folder, "nobody") == str(secret)
        assert Reader().opens([str(secret)], "nobody") == {str(secret): errno.errorcode[errno.EACCES]}


def test_a_source_that_answers_with_an_error_is_reached_and_a_shut_port_is_not() -> None:
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(404)

        def log_message(self, *_args: object) -> None:
            return

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    port = server.server_address[1]
    assert reach(f"http://127.0.0.1:{port}/x/", 5) == "ok"
    thread.join()
    server.server_close()
    assert reach(f"http://127.0.0.1:{port}/x/", 5) != "ok"
