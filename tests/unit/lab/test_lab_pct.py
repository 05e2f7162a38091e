# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's `pct` stand-in: its configuration syntax, its option parser, what `set` changes now and what later."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "lab" / "node" / "pct.py"


def load():
    spec = importlib.util.spec_from_file_location("lab_node_pct", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pct = load()

CONFIG = """\
#line one%3A with 100%25
#second
arch: amd64
hostname: llm
memory: 8192
mp0: /srv/wheelhouse,mp=/srv/wheelhouse,ro=1
net0: name=eth0,bridge=vmbr0,ip=198.51.100.129/24,gw=198.51.100.1
unprivileged: 1
lxc.cgroup2.devices.allow: c 508:* rwm
lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file

[pve:pending]
cores: 4
delete: mp0

[before-upgrade]
arch: amd64
hostname: old
"""


def test_a_configuration_is_read_in_its_three_parts():
    main, pending, snapshots = pct.parse(CONFIG)
    assert main["hostname"] == "llm"
    assert main["description"] == "line one: with 100%\nsecond\n"
    assert main["lxc"] == [
        ("lxc.cgroup2.devices.allow", "c 508:* rwm"),
        ("lxc.mount.entry", "/dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file"),
    ]
    assert pending == {"cores": "4", "delete": "mp0"}
    assert snapshots == {"before-upgrade": {"arch": "amd64", "hostname": "old"}}


def test_a_configuration_survives_writing_and_reading():
    parts = pct.parse(CONFIG)
    assert pct.parse(pct.render(*parts)) == parts


def test_pending_changes_are_applied_and_deletions_too():
    main, pending, dummy = pct.parse(CONFIG)
    after = pct.apply(main, pending)
    assert after["cores"] == "4"
    assert "mp0" not in after
    assert "mp0" in main, "the given configuration stays as it is"


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("memory: 512", "memory", "512"),
        ("memory:   512  ", "memory", "512"),
        ("dev0: /dev/nvidia0,mode=0666", "dev0", "/dev/nvidia0,mode=0666"),
        ("description: in one line", "description", "in one line"),
        ("lxc.idmap = u 0 100000 65536", "lxc", [("lxc.idmap", "u 0 100000 65536")]),
    ],
)
def test_one_line(line, key, value):
    assert pct.parse(line)[0] == {key: value}


@pytest.mark.parametrize("line", ["no colon here", "UPPER: 1", "memory:"])
def test_a_line_that_is_none_is_told_and_left_out(line, capsys):
    assert pct.parse(line) == ({}, {}, {})
    assert "unable to parse config: " + line in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "default", "out"),
    [
        ("name=eth0,bridge=vmbr0", None, {"name": "eth0", "bridge": "vmbr0"}),
        ("/dev/nvidia0,mode=0666", "path", {"path": "/dev/nvidia0", "mode": "0666"}),
        ("/srv/a,mp=/srv/b,ro=1", "volume", {"volume": "/srv/a", "mp": "/srv/b", "ro": "1"}),
        ("/dev/x", None, {}),
    ],
)
def test_property_strings(value, default, out):
    assert pct.props(value, default) == out


@pytest.mark.parametrize(
    ("command", "argv", "args", "opts"),
    [
        ("exec", ["901", "--", "ls", "-la"], ["901", "ls", "-la"], {}),
        ("exec", ["901", "--keep-env", "0", "--", "env"], ["901", "env"], {"keep-env": "0"}),
        ("exec", ["--keep-env=0", "901", "env"], ["901", "env"], {"keep-env": "0"}),
        ("exec", ["901", "--keep", "env"], ["901", "env"], {"keep-env": "1"}),  # unique beginning; flag without a value
        ("status", ["901", "-verbose"], ["901"], {"verbose": "1"}),
        ("set", ["901", "--memory", "2048", "--delete", "mp0"], ["901"], {"memory": "2048", "delete": "mp0"}),
        ("set", ["901", "-dev0", "/dev/nvidia0,mode=0666"], ["901"], {"dev0": "/dev/nvidia0,mode=0666"}),
        ("push", ["901", "a", "/b", "--perms", "0600"], ["901", "a", "/b"], {"perms": "0600"}),
        ("shutdown", ["901", "--forceStop", "1", "--timeout", "5"], ["901"], {"forceStop": "1", "timeout": "5"}),
        (
            "create",
            ["901", "local:vztmpl/x", "--ssh-public-keys", "/k", "--unprivileged", "1"],
            ["901", "local:vztmpl/x"],
            {"ssh-public-keys": "/k", "unprivileged": "1"},
        ),
    ],
)
def test_options(command, argv, args, opts):
    assert pct.getopt(command, argv) == (args, opts)


@pytest.mark.parametrize(
    ("command", "argv", "text", "stderr"),
    [
        ("exec", ["901", "ls", "-la"], "400 unable to parse option", "Unknown option: la"),
        ("set", ["901", "--lxc.idmap", "x"], "400 ", ""),
        ("set", ["901", "--nosuch", "1"], "400 unable to parse option", "Unknown option: nosuch"),
        ("push", ["901", "a"], "400 not enough arguments", ""),
        ("status", ["901", "902"], "400 too many arguments", ""),
        ("status", ["llm"], "vmid: type check ('integer') failed - got 'llm'", ""),
        ("status", ["99"], "vmid: invalid format", ""),
        ("push", ["901", "a", "b", "--perms"], "400 unable to parse option", "Option perms requires an argument"),
    ],
)
def test_bad_usage_says_what_proxmox_says(command, argv, text, stderr, capsys):
    with pytest.raises(pct.Die) as caught:
        pct.getopt(command, argv)
    assert text in caught.value.text
    assert caught.value.rc == 255
    assert stderr in capsys.readouterr().err


@pytest.mark.parametrize(
    ("live", "opts", "delete", "revert", "main", "pending"),
    [
        # stopped: everything at once
        (False, {"cores": "2", "mp0": "/a,mp=/b"}, [], [], {"hostname": "x", "cores": "2", "mp0": "/a,mp=/b"}, {}),
        (False, {}, ["hostname"], [], {}, {}),
        # running: fast keys now, others wait
        (True, {"hostname": "y"}, [], [], {"hostname": "y"}, {}),
        (True, {"memory": "1024"}, [], [], {"hostname": "x", "memory": "1024"}, {}),
        (True, {"dev0": "/dev/null"}, [], [], {"hostname": "x"}, {"dev0": "/dev/null"}),
    ],
)
def test_what_set_changes(live, opts, delete, revert, main, pending):
    assert pct.change({"hostname": "x"}, {}, opts, delete, revert, live) == (main, pending)


def test_deletions_wait_while_it_runs_and_can_be_taken_back():
    main = {"mp0": "/a,mp=/b", "dev0": "/dev/null"}
    same, pending = pct.change(main, {}, {}, ["mp0", "dev0"], [], True)
    assert (same, pending) == (main, {"delete": "mp0,dev0"})
    assert pct.change(main, pending, {}, [], ["mp0"], True) == (main, {"delete": "dev0"})
    assert pct.change(main, pending, {"dev0": "/dev/zero"}, [], [], True)[1] == {"delete": "mp0", "dev0": "/dev/zero"}


def test_lxc_lines_of_mounts_and_cards():
    assert pct.lxc_lines("901", "mp0", "/srv/w,mp=/srv/w,ro=1") == [
        "lxc.mount.entry = /srv/w srv/w none bind,create=dir,ro 0 0"
    ]
    card = pct.lxc_lines("901", "net0", "name=eth0,bridge=vmbr0,ip=198.51.100.9/24,gw=198.51.100.1")
    assert "lxc.net.0.link = vmbr0" in card
    assert "lxc.net.0.ipv4.address = 198.51.100.9/24" in card
    assert "lxc.net.0.ipv4.gateway = 198.51.100.1" in card
    assert not [line for line in pct.lxc_lines("901", "net0", "name=eth0,ip=dhcp") if "ipv4" in line]
    assert pct.lxc_lines("901", "hostname", "x") == []


def test_device_lines_carry_the_numbers_and_refuse_what_is_no_device(tmp_path):
    assert pct.lxc_lines("901", "dev0", "/dev/null,deny-write=1") == ["lxc.cgroup2.devices.allow = c 1:3 r"]
    with pytest.raises(pct.Die, match="does not exist"):
        pct.lxc_lines("901", "dev0", str(tmp_path / "gone"))
    with pytest.raises(pct.Die, match="is not a device"):
        pct.lxc_lines("901", "dev0", str(tmp_path))


def test_a_missing_container_is_named_as_proxmox_names_it(monkeypatch, tmp_path):
    monkeypatch.setattr(pct, "ETC", str(tmp_path))
    with pytest.raises(pct.Die, match=r"^Configuration file 'nodes/[^/]+/lxc/999\.conf' does not exist$"):
        pct.load("999")


def test_what_is_stored_is_what_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(pct, "ETC", str(tmp_path))
    parts = pct.parse(CONFIG)
    pct.store("129", *parts)
    assert pct.load("129") == parts
    assert [path.name for path in tmp_path.iterdir()] == ["129.conf"], "nothing half-written is left beside it"


# ---------------------------------------------------------------- what a cluster does to it
@pytest.fixture
def node(tmp_path, monkeypatch):
    """A pct of its own, on files of this test."""
    own = load()
    for name, folder in (("ETC", "etc"), ("LXC", "lxc"), ("LOCKS", "locks"), ("POOL", "pool")):
        monkeypatch.setattr(own, name, str(tmp_path / folder))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/901.conf").write_text(CONFIG)
    monkeypatch.setattr(own, "active", set)
    monkeypatch.setattr(own, "lxc_config", lambda vmid, conf: None)
    return own


def test_a_digest_of_another_file_refuses_the_change(node, tmp_path):
    import hashlib

    digest = hashlib.sha1(CONFIG.encode()).hexdigest()
    with pytest.raises(node.Die, match="detected modified configuration"):
        node.cmd_set(["901"], {"memory": "1", "digest": "0" * 40})
    assert (tmp_path / "etc/901.conf").read_text() == CONFIG
    node.cmd_set(["901"], {"memory": "1", "digest": digest})
    assert "memory: 1\n" in (tmp_path / "etc/901.conf").read_text()


def test_a_protected_container_is_not_destroyed(node, tmp_path):
    (tmp_path / "etc/901.conf").write_text("protection: 1\n")
    with pytest.raises(node.Die, match="protection mode enabled"):
        node.cmd_destroy(["901"], {})


def test_a_tarball_becomes_a_template_whose_ids_are_shifted(node, tmp_path, monkeypatch):
    import os
    import subprocess

    shifted = {}
    monkeypatch.setattr(os, "lchown", lambda path, uid, gid: shifted.__setitem__(os.path.basename(path), uid))
    source = tmp_path / "root"
    (source / "etc").mkdir(parents=True)
    (source / "etc/hostname").write_text("x\n")
    subprocess.run(["tar", "-C", str(source), "-cf", str(tmp_path / "x.tar"), "."], check=True)
    name = node.unpacked(str(tmp_path / "x.tar"))
    place = tmp_path / "pool/templates" / name / "unpriv"
    assert (place / "etc/hostname").read_text() == "x\n"
    assert shifted["hostname"] == (place / "etc/hostname").stat().st_uid + 100000
    assert node.unpacked(str(tmp_path / "x.tar")) == name, "the second time it is there"
    with pytest.raises(node.Die, match="can't access"):
        node.unpacked(str(tmp_path / "none.tar"))
