# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file of a container: what Proxmox reads in it, and that nothing is lost."""

from __future__ import annotations

import time

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._proxmox import container
from hypothesis import given, settings
from hypothesis import strategies as st

SNAPSHOTS = """\
#the LLM box
#second line
arch: amd64
cores: 16
dev0: /dev/nvidia0,mode=0666
features: nesting=1
hostname: llm
memory: 65536
mp0: /tank/models,mp=/models,ro=1
unprivileged: 1
lxc.cgroup2.cpuset.cpus: 0-15
lxc.prlimit.memlock = unlimited

[pve:pending]
delete: dev1
dev0: /dev/nvidia0,mode=0660
timezone: host

[before_update]
#of the snapshot
cores: 8
memory: 32768
snaptime: 1790000000
lxc.cgroup.devices.allow: c 195:* rwm
"""


def test_what_counts_is_before_the_first_section() -> None:
    config = container.parse(SNAPSHOTS)
    assert config.get("cores") == "16"
    assert config.get("snaptime") is None
    assert config.current.lxc == (("lxc.cgroup2.cpuset.cpus", "0-15"), ("lxc.prlimit.memlock", "unlimited"))
    assert [section.name for section in config.sections] == ["", "pve:pending", "before_update"]
    assert [section.name for section in config.snapshots] == ["before_update"]
    assert config.snapshots[0].lxc == (("lxc.cgroup.devices.allow", "c 195:* rwm"),)


def test_pending_changes_and_what_the_next_start_has() -> None:
    config = container.parse("dev1: /dev/nvidia1\n" + SNAPSHOTS)
    assert config.pending == {"dev0": "/dev/nvidia0,mode=0660", "timezone": "host"}
    assert config.pending_delete == ("dev1",)
    after = config.after_start
    assert after["dev0"] == "/dev/nvidia0,mode=0660"
    assert after["timezone"] == "host"
    assert "dev1" not in after


def test_a_forced_delete_is_a_delete() -> None:
    assert container.parse("[pve:pending]\ndelete: !mp0; dev1\n").pending_delete == ("mp0", "dev1")


def test_of_a_plain_key_that_stands_twice_the_last_counts() -> None:
    assert container.parse("memory: 512\nmemory: 1024\n").get("memory") == "1024"


@pytest.mark.parametrize(
    ("line", "kind", "key", "value"),
    [
        ("memory: 512", "plain", "memory", "512"),
        ("memory:512  ", "plain", "memory", "512"),
        ("dev12: /dev/nvidia-caps/nvidia-cap1,mode=0666", "plain", "dev12", "/dev/nvidia-caps/nvidia-cap1,mode=0666"),
        ("lxc.mount.entry: /a b none bind 0 0", "lxc", "lxc.mount.entry", "/a b none bind 0 0"),
        ("lxc.mount.entry = /a=1 b none", "lxc", "lxc.mount.entry", "/a=1 b none"),
        ("lxc.environment=A=B", "lxc", "lxc.environment", "A=B"),
        ("lxc.cgroup2.devices.allow:", "lxc", "lxc.cgroup2.devices.allow", ""),
        ("#a: b", "comment", "", ""),
        ("  ", "blank", "", ""),
        (" memory: 512", "unknown", "", ""),
        ("memory = 512", "unknown", "", ""),
        ("Memory: 512", "unknown", "", ""),
        ("memory:", "unknown", "", ""),
        ("[x]", "unknown", "", ""),
        ("[snap] and more", "unknown", "", ""),
        ("x\xa0", "unknown", "", ""),
        ("\xa0", "unknown", "", ""),
    ],
)
def test_lines_are_read_as_proxmox_reads_them(line: str, kind: str, key: str, value: str) -> None:
    (found,) = container.parse(line).current.lines
    assert (found.kind, found.key, found.value) == (kind, key, value)


def test_a_file_with_windows_line_endings_keeps_them_and_new_lines_get_them() -> None:
    text = SNAPSHOTS.replace("\n", "\r\n")
    config = container.parse(text)
    assert config.get("memory") == "65536"
    assert config.pending["timezone"] == "host"
    assert config.render() == text
    changed = config.with_value("memory", "8192").with_value("onboot", "1").with_lxc("lxc.a", "b").render()
    assert "memory: 8192\r\n" in changed
    assert "onboot: 1\r\n" in changed
    assert changed.count("\n") == changed.count("\r\n")


def test_a_new_value_stays_out_of_snapshots_and_pending() -> None:
    config = container.parse(SNAPSHOTS)
    changed = config.with_lxc("lxc.cgroup2.cpuset.mems", "0").with_value("startup", "order=2")
    lines = changed.render().splitlines()
    assert lines.index("lxc.cgroup2.cpuset.mems: 0") == lines.index("lxc.prlimit.memlock = unlimited") + 1
    assert lines.index("startup: order=2") == lines.index("mp0: /tank/models,mp=/models,ro=1") + 1
    assert [section.lines for section in changed.sections[1:]] == [section.lines for section in config.sections[1:]]
    assert lines[lines.index("[pve:pending]") - 1] == ""


def test_a_file_without_an_ending_on_its_last_line() -> None:
    assert container.parse("memory: 512").with_lxc("lxc.a", "b").render() == "memory: 512\nlxc.a: b\n"
    assert container.parse("").with_value("memory", "1").render() == "memory: 1\n"


def test_a_value_that_stands_twice_stands_once_after_it_was_set() -> None:
    assert container.parse("memory: 1\ncores: 2\nmemory: 3\n").with_value("memory", "4").render() == (
        "cores: 2\nmemory: 4\n"
    )


def test_a_value_with_a_line_break_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        container.parse("").with_lxc("lxc.a", "b\nlxc.c: d")


def test_lines_are_removed_one_by_one() -> None:
    config = container.parse("lxc.a: 1\nlxc.a: 1\nlxc.b: 2\n[s1]\nlxc.a: 1\n")
    assert config.without([config.current.lines[1]]).render() == "lxc.a: 1\nlxc.b: 2\n[s1]\nlxc.a: 1\n"
    assert config.without_key("lxc.a").render() == "lxc.b: 2\n[s1]\nlxc.a: 1\n"


def test_ten_thousand_lines_are_read_and_changed_in_a_moment() -> None:
    text = "".join("lxc.mount.entry: /srv/%d srv/%d none bind 0 0\n" % (n, n) for n in range(10000))
    began = time.process_time()
    config = container.parse("memory: 512\n" + text + "[s1]\n" + text)
    assert config.with_value("memory", "1024").with_lxc("lxc.a", "b").render().count("\n") == 20003
    assert time.process_time() - began < 3


def test_unknown_lines_are_kept_and_can_be_told() -> None:
    text = "memory: 512\nfoo bar\n=\n:\n"
    config = container.parse(text)
    assert [line.text for line in config.current.unknown] == ["foo bar", "=", ":"]
    assert config.with_value("memory", "1").render() == "memory: 1\nfoo bar\n=\n:\n"


# ---------------------------------------------------------------- properties
LINE = st.one_of(
    st.sampled_from(
        [
            "memory: 512",
            "dev0: /dev/nvidia0",
            "dev0:/dev/nvidia0",
            "lxc.a: 1",
            "lxc.a = 1",
            "#comment",
            "",
            " ",
            "[snap1]",
            "[pve:pending]",
            "[x]",
            "junk",
            "=",
            "key=value",
            "delete: dev0",
        ]
    ),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n"), max_size=20),
)
FILE = st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n"])), max_size=30).map(
    lambda pairs: "".join(line + ending for line, ending in pairs)
)


@given(FILE, st.booleans())
def test_every_file_comes_back_as_it_was(text: str, cut: bool) -> None:
    text = text[:-1] if cut else text
    assert container.parse(text).render() == text


@given(FILE, st.sampled_from(["memory", "dev0", "zzz1"]), st.sampled_from(["7", "/dev/x,mode=0666", "a=b:c"]))
def test_setting_a_value_keeps_every_line_of_others(text: str, key: str, value: str) -> None:
    before = container.parse(text)
    after = container.parse(before.with_value(key, value).render())
    assert after.get(key) == value
    assert sum(line.key == key for line in after.entries) == 1

    def others(config: container.Config) -> list[str]:
        return [line.raw for line in config.current.lines if line.key != key]

    assert [line.rstrip("\r\n") for line in others(after)] == [line.rstrip("\r\n") for line in others(before)]
    assert "".join(s.header.raw + "".join(x.raw for x in s.lines) for s in after.sections[1:]) == "".join(
        s.header.raw + "".join(x.raw for x in s.lines) for s in before.sections[1:]
    )
    again = after.with_value(key, value)
    assert again.render() == after.render(), "the second time nothing changes"


@given(FILE)
def test_adding_and_taking_away_a_raw_key_gives_the_file_back(text: str) -> None:
    before = container.parse(text)
    added = before.with_lxc("lxc.prlimit.memlock", "unlimited")
    reread = container.parse(added.render())
    assert reread.current.lxc == (*before.current.lxc, ("lxc.prlimit.memlock", "unlimited"))
    back = reread.without([reread.current.lines[i] for i in [_last(reread, "lxc.prlimit.memlock")]])
    assert back.render() in (text, text + "\n", text + "\r\n")


def _last(config: container.Config, key: str) -> int:
    return [index for index, line in enumerate(config.current.lines) if line.key == key][-1]


NAME = st.from_regex(r"\A[a-z][a-z\-]{0,6}\Z")
VALUE = st.from_regex(r"\A[A-Za-z0-9/_.:\-]{1,12}\Z")


@settings(max_examples=100)
@given(st.dictionaries(NAME, VALUE, max_size=4), st.one_of(st.none(), VALUE))
def test_properties_and_their_text_are_inverse(named: dict[str, str], bare: str | None) -> None:
    wanted = {**named, **({"path": bare} if bare else {})}
    assert container.properties(container.property_text(wanted, "path"), "path") == wanted


def test_properties_of_a_device_and_of_a_path_with_an_equals_sign() -> None:
    assert container.properties("/dev/nvidia0,gid=44,mode=0666", "path") == {
        "path": "/dev/nvidia0",
        "gid": "44",
        "mode": "0666",
    }
    assert container.properties("/srv/a=b,mp=/x", "volume") == {"volume": "/srv/a=b", "mp": "/x"}
    assert container.properties("volume=/srv/a,mp=/x", "volume") == {"volume": "/srv/a", "mp": "/x"}


def test_values_are_the_same_when_they_mean_the_same() -> None:
    defaults = {"mode": "0660", "uid": "0"}
    assert container.same_properties("/dev/a", "path=/dev/a,mode=0660", "path", defaults)
    assert not container.same_properties("/dev/a", "/dev/a,mode=0666", "path", defaults)
