# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit's text: what systemd reads from it is what was asked for. The reader here is a model of systemd's own,
written from its documentation and shared with nothing that writes."""

from __future__ import annotations

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server import hardening, unit
from ansible_collections.llmhost.sglang.plugins.module_utils._server.unit import Unit

try:
    from hypothesis import given, settings
    from hypothesis import strategies as st
except ImportError:  # ansible-test units of an old core: the examples below still run
    given = None

SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39, "s": 32}
PREFIXES = "@-:+!|"
WHITESPACE = " \t\n\r"

# What systemd treats specially somewhere, and what a shell would.
NASTY = [
    "",
    " ",
    "  two  spaces  ",
    "tab\there",
    "line\nbreak",
    "carriage\rreturn",
    "\n",
    "\\",
    "\\\\",
    "ends in backslash\\",
    "\\n is no newline",
    "\\x41 \\u00e4 \\101",
    '"quoted"',
    "'single'",
    "it's \"both\"",
    "%",
    "%%",
    "%n %i %h %%",
    "$",
    "$$",
    "$HOME",
    "${HOME}",
    "a$b${c}$$",
    ";",
    "a;b",
    "; rm -rf /",
    "\\;",
    "#comment",
    ";comment",
    "-",
    "--",
    "--name=va lue",
    '{"a": "b c", "d": [1, 2], "e": "%s"}',
    "@-:+!|",
    "~",
    "*?[x]{a,b}",
    "ä ö ü ß",
    "\u65e5\u672c\u8a9e",
    "\U0001f600",
    "\u0085\u00a0\u2028\u2029\ufeff\ufffe",
    "\x01\x02\x1b[0m\x7f",
    "\udcff\udc80",
    "[Service]",
    "ExecStart=/bin/false",
    "&&", "|", ">", "<", "`id`", "!", "^", "=", ",", ".",
    "x" * 5000,
]  # fmt: skip


def logical_lines(text: bytes) -> list[bytes]:
    """Lines of a unit file: CR, LF and NUL end one, a backslash at the end joins the next, comments are none."""
    joined: list[bytes] = []
    pending: bytes | None = None
    for raw in text.replace(b"\r", b"\n").replace(b"\0", b"\n").split(b"\n"):
        raw.decode("utf-8")  # systemd ignores a line that is no UTF-8
        stripped = raw.strip(WHITESPACE.encode())
        if stripped[:1] in (b"#", b";"):
            continue
        escaped = False
        for byte in stripped:
            escaped = not escaped and byte == 0x5C
        line = (pending or b"") + (stripped[:-1] + b" " if escaped else stripped)
        pending = line if escaped else None
        if not escaped and line:
            joined.append(line)
    assert pending is None
    return joined


def sections(text: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in logical_lines(text.encode("utf-8")):
        words = line.decode("utf-8")
        if words.startswith("["):
            name = words[1:-1]
            found[name] = []
        else:
            key, equals, value = words.partition("=")
            assert equals
            found[name].append((key.strip(), value.strip(WHITESPACE)))
    return found


def unescape(text: str, position: int, out: bytearray) -> int:
    """One escape sequence, after its backslash; the next position."""
    char = text[position]
    if char in SIMPLE:
        out.append(SIMPLE[char])
        return position + 1
    for letter, digits in (("x", 2), ("u", 4), ("U", 8)):
        if char == letter:
            code = int(text[position + 1 : position + 1 + digits], 16)
            assert code
            out += bytes([code]) if letter == "x" else chr(code).encode("utf-8")
            return position + 1 + digits
    octal = text[position : position + 3]
    out.append(int(octal, 8))
    return position + 3


def raw_words(value: str) -> list[tuple[bytes, bool]]:
    """Words as systemd splits and unescapes them, and whether one was a bare semicolon."""
    words: list[tuple[bytes, bool]] = []
    position = 0
    while position < len(value):
        if value[position] in WHITESPACE:
            position += 1
            continue
        out, quote, start = bytearray(), "", position
        while position < len(value):
            char = value[position]
            if char == "\\":
                position = unescape(value, position + 1, out)
                continue
            position += 1
            if quote:
                if char == quote:
                    quote = ""
                else:
                    out += char.encode("utf-8")
            elif char in "\"'":
                quote = char
            elif char in WHITESPACE:
                position -= 1
                break
            else:
                out += char.encode("utf-8")
        assert not quote, "the quote is not closed"
        words.append((bytes(out), value[start:position] == ";"))
    return words


def specifiers(word: bytes) -> bytes:
    out, index = bytearray(), 0
    while index < len(word):
        if word[index : index + 1] == b"%":
            assert word[index : index + 2] == b"%%", f"a specifier would be expanded in {word!r}"
            index += 1
        out.append(word[index])
        index += 1
    return bytes(out)


def received(text: str) -> list[bytes]:
    """The argument vector that a process gets from the unit's ExecStart=."""
    [value] = [value for key, value in sections(text)["Service"] if key == "ExecStart"]
    words = raw_words(value)
    assert not any(bare for _word, bare in words), "a second command would begin"
    first = specifiers(words[0][0])
    prefix = first[: len(first) - len(first.lstrip(PREFIXES.encode()))]
    assert prefix == b":", "':' and nothing else: variables are not expanded"
    program = first[1:]
    assert program.startswith(b"/")
    return [program] + [specifiers(word) for word, _bare in words[1:]]


def variables(text: str) -> dict[bytes, bytes]:
    found = {}
    for key, value in sections(text)["Service"]:
        if key == "Environment":
            for word, _bare in raw_words(value):
                name, _equals, content = specifiers(word).partition(b"=")
                content.decode("utf-8")
                assert not any(byte < 32 and byte not in (9, 10) or byte == 127 for byte in content)
                found[name] = content
    return found


def as_bytes(argv: list[str]) -> list[bytes]:
    return [word.encode("utf-8", "surrogateescape") for word in argv]


@pytest.mark.parametrize("argument", NASTY, ids=range(len(NASTY)))
def test_one_argument_arrives_byte_for_byte(argument):
    argv = ["/opt/x/bin/python", "-m", argument, "--option", argument, argument]
    assert received(unit.render(Unit(name="a", argv=tuple(argv)))) == as_bytes(argv)


def test_all_of_them_at_once():
    argv = ["/opt/x/bin/python", *NASTY]
    assert received(unit.render(Unit(name="a", argv=tuple(argv)))) == as_bytes(argv)


def test_every_byte_that_a_process_can_receive():
    every = bytes(range(1, 256)).decode("utf-8", "surrogateescape")
    argv = ["/opt/x/bin/python", every, *every]
    assert received(unit.render(Unit(name="a", argv=tuple(argv)))) == as_bytes(argv)


def test_a_program_below_a_folder_with_blanks_percents_and_dollars():
    argv = ["/opt/my models/100% $HOME ${x}/bin/python", "x"]
    assert received(unit.render(Unit(name="a", argv=tuple(argv)))) == as_bytes(argv)


if given:
    WORDS = st.text(
        st.one_of(
            st.characters(min_codepoint=1, exclude_categories=("Cs",)),
            st.sampled_from(" \t\n\r\\\"'%$;#-@:={}[]~!|*"),
            st.integers(0xDC80, 0xDCFF).map(chr),
        ),
        max_size=20,
    )

    @settings(max_examples=200, deadline=None)
    @given(st.lists(WORDS, max_size=12))
    def test_any_argv_arrives_byte_for_byte(words):
        argv = ["/opt/x/bin/python", *words]
        encoded = as_bytes(argv)
        # A lone byte of the upper half that happens to complete its neighbours is text again: same bytes all the same.
        assert received(unit.render(Unit(name="a", argv=tuple(argv)))) == encoded

    VALUES = st.text(
        st.characters(exclude_categories=("Cs", "Cc", "Cn")) | st.sampled_from("\t\n %$\\\"'#;"), max_size=20
    )

    @settings(max_examples=100, deadline=None)
    @given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), VALUES, max_size=5))
    def test_any_environment_arrives(environment):
        text = unit.render(Unit(name="a", argv=("/bin/true",), environment=tuple(environment.items())))
        found = variables(text)
        for name, value in environment.items():
            assert found[name.encode()] == value.encode("utf-8")


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        ((), "empty"),
        (("python",), "absolute"),
        (("/opt/../bin/python",), "absolute"),
        (("//bin/python",), "absolute"),
        (("/bin/",), "absolute"),
        (('/bin/py"thon',), "quote"),
        (("/bin/py\\thon",), "backslash"),
        (("/bin/py\nthon",), "control"),
        (("/bin/true", "a\0b"), "NUL"),
        (("/bin/true", "\ud800"), "surrogate"),
        (("/bin/true", "x" * 131072), "131072 bytes"),
        (("/bin/true", *(["x" * 100000] * 11)), "1000000 bytes"),
    ],
)
def test_what_no_process_can_receive_is_refused(argv, word):
    with pytest.raises(LlmHostError, match=word) as caught:
        unit.render(Unit(name="a", argv=argv))
    assert caught.value.reason == "invalid_argument"


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("1X", "a", "name"),
        ("A-B", "a", "name"),
        ("", "a", "name"),
        ("A", "a\x01", "control"),
        ("A", "a\r", "control"),
        ("A", "a\x7f", "control"),
        ("A", "a\0", "NUL"),
        ("A", "\udcff", "UTF-8"),
        ("A", "\ufffe", "UTF-8"),
    ],
)
def test_a_variable_that_systemd_would_drop_is_refused(name, value, word):
    with pytest.raises(LlmHostError, match=word):
        unit.render(Unit(name="a", argv=("/bin/true",), environment=((name, value),)))
    with pytest.raises(LlmHostError, match=word):
        unit.environment_file({name: value})


def read_environment_file(text: str) -> dict[str, str]:
    """systemd's reading of an EnvironmentFile= whose values stand in double quotes."""
    found, position = {}, 0
    while position < len(text):
        equals = text.index("=", position)
        name, position = text[position:equals], equals + 2
        assert text[equals + 1] == '"'
        value = ""
        while text[position] != '"':
            if text[position] == "\\":
                position += 1
                if text[position] not in '"\\`$':
                    value += "\\"
                if text[position] == "\n":
                    raise AssertionError("a line break would be lost")
            value += text[position]
            position += 1
        assert text[position + 1] == "\n"
        position += 2
        found[name] = value
    return found


def test_the_environment_file_gives_back_what_was_put_in():
    secrets = {
        f"S{index}": text for index, text in enumerate(["", "a b", 'q"q', "b\\n", "\\", "$X`id`", "l\nm", "#;=%", "'"])
    }
    assert read_environment_file(unit.environment_file(secrets)) == secrets


@pytest.mark.parametrize("name", ["", "A", "-a", "a b", "a/b", "a.b", "x" * 64, "a\n", "ä"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(LlmHostError) as caught:
        unit.unit_name(name)
    assert caught.value.reason == "invalid_argument"


def test_the_unit_says_whose_it_is():
    text = unit.render(Unit(name="chat", argv=("/bin/true",), port=31000, start_digests="arguments=1"))
    mark = unit.read_mark(text)
    assert mark is not None
    assert (mark["Instance"], mark["Port"], mark["Start"]) == ("chat", "31000", "arguments=1")
    assert unit.read_mark("[Service]\nInstance=chat\n") is None


def test_caches_lie_below_one_folder_and_the_caller_wins():
    made = Unit(
        name="a", argv=("/opt/rt/bin/python",), cache_dir="/c/a", environment=(("HF_HOME", "/mine"), ("X", "1"))
    )
    found = variables(unit.render(made))
    for variable, _folder in unit.CACHES:
        if variable != "HF_HOME":
            assert found[variable.encode()].startswith(b"/c/a")
    assert found[b"HF_HOME"] == b"/mine"
    assert found[b"PATH"].split(b":")[0] == b"/opt/rt/bin"
    assert found[b"LLMHOST_INSTANCE"] == b"a"


def settings_of(made: Unit) -> dict[str, str]:
    found = sections(unit.render(made))
    return dict(found["Unit"] + found["Service"])


def test_limits_are_finite_and_the_launcher_alone_gets_the_signal():
    found = settings_of(Unit(name="a", argv=("/bin/true",)))
    assert found["KillMode"] == "mixed"
    assert 0 < int(found["StartLimitBurst"]) < 100
    assert int(found["StartLimitIntervalSec"]) > 0
    assert int(found["TimeoutStopSec"]) > 0
    assert int(found["TimeoutStartSec"]) > 0
    assert found["LogRateLimitIntervalSec"] == "0"
    assert found["Type"] == "exec"


def test_hardening_can_be_turned_off_and_never_hides_the_gpus():
    on, off = (
        settings_of(Unit(name="a", argv=("/bin/true",))),
        settings_of(Unit(name="a", argv=("/bin/true",), harden=False)),
    )
    for row in hardening.HARDENING:
        assert row.reason
        assert (row.directive in on) == (row.value is not None)
        assert row.directive not in off
    assert not {"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock"} & set(on)
    assert "CapabilityBoundingSet" not in settings_of(Unit(name="a", argv=("/bin/true",), user="root", group="root"))


@pytest.mark.parametrize("option", ["working_directory", "cache_dir", "state_dir"])
@pytest.mark.parametrize("path", ["relative", '/a"b', "/a\\b", "/a\nb", " /a", "/a "])
def test_paths_that_systemd_does_not_take_are_refused(option, path):
    with pytest.raises(LlmHostError):
        unit.render(Unit(name="a", argv=("/bin/true",), **{option: path}))
