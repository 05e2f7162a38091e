# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection pct, with an ssh and a pct that are scripts of this test. The rest is real: shells, pipes, exit codes.

tests/scenarios/test_proxmox_connection.py does the same through OpenSSH and a container.
"""

from __future__ import annotations

import os
import stat
import textwrap
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.playbook.play_context import PlayContext
from ansible_collections.llmhost.sglang.plugins.connection import pct
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# As sshd does it: everything behind the host's name is one line for the user's shell.
SSH = """\
#!/bin/sh
if [ -e "$WORLD/ssh-is-down" ]; then echo "ssh: connect to host node port 22: Connection refused" >&2; exit 255; fi
while [ "$1" != -T ]; do shift; done
shift 2
echo "$*" >> "$WORLD/lines"
PATH="$WORLD:$PATH" exec /bin/sh -c "$*"
"""

# As pct does it: its own errors first, then the words behind -- as they are.
PCT = """\
#!/bin/sh
[ ! -e "$WORLD/says" ] || { cat "$WORLD/says" >&2; exit "$(cat "$WORLD/code")"; }
[ "$1 $2 $3 $4 $5" = "exec 129 --keep-env 0 --" ] || { echo "400 unable to parse option" >&2; exit 255; }
shift 5
exec env -i container=lxc "$@"
"""


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in (("ssh", SSH), ("pct", PCT)):
            path = folder / name
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        options: dict[str, Any] = {
            "host": "node",
            "vmid": 129,
            "pct_command": str(folder / "pct"),
            "pct_path": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "ssh_executable": str(folder / "ssh"),
            "remote_user": "admin",
            "password_mechanism": "disable",
            "host_key_checking": True,
            "reconnection_retries": 0,
            "timeout": 10,
            "verbosity": 0,
            "ssh_args": "-o ControlMaster=no",
        }
        nothing = ("password", "pkcs11_provider", "private_key", "private_key_file", "port", "ssh_common_args")
        options.update(dict.fromkeys((*nothing, "ssh_extra_args", "sshpass_prompt", "control_path")))
        self.connection = pct.Connection(PlayContext())
        self.connection._options = options

    def says(self, text: str, code: int) -> None:
        (self.folder / "says").write_text(text)
        (self.folder / "code").write_text(str(code))

    def lines(self) -> list[str]:
        return (self.folder / "lines").read_text().splitlines()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("WORLD", str(tmp_path))
    return World(tmp_path)


# ---------------------------------------------------------------- commands
def test_output_and_errors_stay_apart_and_the_code_is_the_commands(world: World) -> None:
    found = world.connection.exec_command("echo out; echo err >&2; exit 7")
    assert found == (7, b"out\n", b"err\n")


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 128, 137, 253, 254, 255])
def test_every_code_arrives_even_that_of_a_lost_connection(world: World, code: int) -> None:
    assert world.connection.exec_command("printf x >&2; exit %d" % code) == (code, b"", b"x")


def test_a_code_of_254_is_not_taken_for_a_hidden_255(world: World) -> None:
    command = "echo llmhost-255-0123456789abcdef >&2; exit 254"
    assert world.connection.exec_command(command) == (254, b"", b"llmhost-255-0123456789abcdef\n")


def test_the_environment_is_the_containers_and_nothing_of_the_node_leaks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "of-the-node")
    code, stdout, _stderr = world.connection.exec_command("env | sort; pwd")
    assert code == 0
    names = {line.partition("=")[0] for line in stdout.decode().splitlines() if "=" in line}
    assert names - {"PWD", "OLDPWD", "_", "SHLVL"} == {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER", "container"}
    assert b"HOME=/root\n" in stdout
    assert b"PATH=/usr/local/sbin:" in stdout
    assert b"of-the-node" not in stdout


def test_input_goes_to_the_command_and_without_any_it_is_empty(world: World) -> None:
    payload = bytes(range(256)) * 100
    assert world.connection.exec_command("cat", in_data=payload) == (0, payload, b"")
    assert world.connection.exec_command("wc -c", in_data=payload * 200) == (0, b"5120000\n", b"")
    assert world.connection.exec_command("cat") == (0, b"", b"")


ANY_TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(ANY_TEXT, st.sampled_from(["'", '"', "\\", "$HOME", "`id`", "a\nb", "{} {mark}", "%s", "\x01\x7f", "!!"]))
)
def test_an_argument_may_hold_any_byte(world: World, text: str) -> None:
    code, stdout, stderr = world.connection._exec(["/usr/bin/printf", "%s", text])
    assert (code, stdout.decode(), stderr) == (0, text, b"")


def test_an_argument_that_is_no_utf8_arrives_as_it_is(world: World) -> None:
    text = b"\xff\xfe'\x80".decode("utf-8", "surrogateescape")
    assert world.connection._exec(["/usr/bin/printf", "%s", text])[1] == b"\xff\xfe'\x80"


def test_the_user_in_the_container_is_root_whoever_logs_in_to_the_node(world: World) -> None:
    assert world.connection.get_option("remote_user") == "root"
    built = world.connection._build_command("ssh", "ssh", "node", "true")
    assert b'User="admin"' in built
    assert world.connection.get_option("remote_user") == "root"


def test_there_is_never_a_terminal(world: World) -> None:
    world.connection._options["ssh_args"] = "-tt -o ControlMaster=no"
    code, stdout, _stderr = world.connection.exec_command("tty")
    assert (code, stdout) == (1, b"not a tty\n")


# ---------------------------------------------------------------- the container is not there
NODE = """\
#!/bin/sh
# uname, and the folders of the cluster, as the test wants them
[ "$1" = -n ] && cat "$WORLD/node"
"""


@pytest.mark.parametrize(
    ("says", "code", "words"),
    [
        ("container '129' not running!\n", 255, ["container 129 is not running", "pct start 129"]),
        ("Configuration file 'nodes/pve1/lxc/129.conf' does not exist\n", 2, ["there is no container 129", "pve1"]),
        ("lxc-attach: 129: attach.c: 406 - Failed to get init pid\n", 1, ["container 129 ended while"]),
        ("please run as root\n", 255, ["pct works for root alone", "sudo"]),
        ("Unknown option: keep-env\n400 unable to parse option\n", 255, ["Proxmox VE 8.1"]),
        ("sh: 1: /usr/sbin/pct: not found\n", 127, ["there is no pct on this host"]),
    ],
)
def test_a_container_that_cannot_be_entered_is_told_in_words(
    world: World, says: str, code: int, words: list[str]
) -> None:
    (world.folder / "uname").write_text(NODE)
    (world.folder / "uname").chmod(0o755)
    (world.folder / "node").write_text("pve1\n")
    world.says(says, code)
    with pytest.raises(AnsibleConnectionFailure) as caught:
        world.connection.exec_command("echo ~root && sleep 0")
    for word in words:
        assert word in str(caught.value)
    assert "temporary directory" not in str(caught.value)


def test_a_command_that_prints_what_pct_prints_is_a_command_that_failed(world: World) -> None:
    found = world.connection.exec_command("echo \"container '129' not running!\" >&2; exit 3")
    assert found == (3, b"", b"container '129' not running!\n")


def test_a_node_that_does_not_answer_is_sshs_own_error(world: World) -> None:
    (world.folder / "ssh-is-down").touch()
    with pytest.raises(AnsibleConnectionFailure, match="Connection refused"):
        world.connection.exec_command("true")


# ---------------------------------------------------------------- files
@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_a_file_goes_there_and_back(world: World, tmp_path: Path, size: int) -> None:
    source, there, back = tmp_path / "so'urce", tmp_path / "the re \u00e9 $x", tmp_path / "back"
    source.write_bytes(os.urandom(size))
    world.connection.put_file(str(source), str(there))
    assert there.read_bytes() == source.read_bytes()
    world.connection.fetch_file(str(there), str(back))
    assert back.read_bytes() == source.read_bytes()
    assert "push" not in "".join(world.lines())


def test_a_file_is_not_read_into_memory(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    run = pct.Connection._run

    def watched(self: pct.Connection, cmd: list[bytes], in_data: bytes | None, sudoable: bool = True) -> Any:
        code, stdout, stderr = run(self, cmd, in_data, sudoable=sudoable)
        seen.append(len(in_data or b"") + len(stdout))
        return code, stdout, stderr

    monkeypatch.setattr(pct.Connection, "_run", watched)
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3_000_000)
    world.connection.put_file(str(source), str(tmp_path / "there"))
    world.connection.fetch_file(str(tmp_path / "there"), str(tmp_path / "back"))
    assert max(seen) < 1000


def test_a_file_that_arrives_short_is_an_error(world: World, tmp_path: Path) -> None:
    # what a full file system does with a program that does not look at the result of its write
    cat = tmp_path / "cat"
    cat.write_text(
        textwrap.dedent("""\
        #!/bin/sh
        head -c 1000
        /bin/cat >/dev/null
        """)
    )
    cat.chmod(0o755)
    world.connection._options["pct_path"] = "%s:/usr/bin:/bin" % tmp_path
    source = tmp_path / "source"
    source.write_bytes(b"x" * 5000)
    with pytest.raises(AnsibleError, match="another SHA-256"):
        world.connection.put_file(str(source), str(tmp_path / "there"))
    assert (tmp_path / "there").stat().st_size == 1000


def test_a_place_that_cannot_be_written_is_told(world: World, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    with pytest.raises(
        AnsibleError, match=r"failed to put .*/source as /nowhere/x \(container 129\).*(?i:no such|nonexist|cannot)"
    ):
        world.connection.put_file(str(source), "/nowhere/x")
    with pytest.raises(AnsibleError, match="failed to fetch /nowhere/x"):
        world.connection.fetch_file("/nowhere/x", str(tmp_path / "back"))
    with pytest.raises(AnsibleFileNotFound):
        world.connection.put_file(str(tmp_path / "none"), "/tmp/x")


def test_a_stopped_container_is_told_for_files_too(world: World, tmp_path: Path) -> None:
    world.says("container '129' not running!\n", 255)
    with pytest.raises(AnsibleConnectionFailure, match="container 129 is not running"):
        world.connection.fetch_file("/etc/hostname", str(tmp_path / "back"))


def test_a_file_that_says_it_is_empty_is_read_to_its_end(world: World, tmp_path: Path) -> None:
    world.connection.fetch_file("/proc/version", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == Path("/proc/version").read_text()
