# SPDX-License-Identifier: GPL-3.0-or-later
"""The other playbooks: plan, restart and remove; an address that is open to all; a server that speaks TLS.

The server is a replay of a recorded start; ``script/test full`` takes the real one in its place.
"""

from __future__ import annotations

import datetime
import json
import pathlib
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.llmhost.sglang.tests.unit.memory import memory_examples
from conftest import FULL, VMID, Controller, Lab, Play
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from founding_support import MODEL, RUNTIME, Founding, prepared

NAME = "secure"
UNIT = f"sglang-{NAME}.service"
HOST = f"ct{VMID}"
PORT = 30045
API_KEY = "a-key-that-nobody-else-has-0123456789"
PASSWORD = "the-password-of-the-private-key"
SERVER_NAME = "llm.example.org"
TLS = "/opt/llmhost/tls"


def certificate(folder: pathlib.Path) -> None:
    """A certificate for a name that is not 127.0.0.1, and its key behind a password."""
    folder.mkdir(exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVER_NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    hidden = serialization.BestAvailableEncryption(PASSWORD.encode())
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "cert.pem").write_bytes(signed.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, form, hidden))
    for path in folder.iterdir():
        path.chmod(0o644)


class Secure:
    """One instance that listens for everybody, with a key and with TLS."""

    def __init__(self, lab: Lab, controller: Controller) -> None:
        self.lab = lab
        self.controller = controller

    def play(self, playbook: str, *options: str, secrets: bool = True, **variables: Any) -> Play:
        environment = {"SGLANG_USE_CPU_ENGINE": "1"} if FULL else {"LLMHOST_REPLAY_SPEED": "20"}
        instance = {
            "model": "/opt/llmhost/models/tiny",
            "port": PORT,
            "host": "0.0.0.0",  # noqa: S104 (in a lab without a way out)
            "arguments": {
                "device": "cpu",
                "max_total_tokens": 4096,
                "ssl_certfile": f"{TLS}/cert.pem",
                "ssl_keyfile": f"{TLS}/key.pem",
            },
            "tls": {"ca_path": f"{TLS}/cert.pem", "server_name": SERVER_NAME},
            "environment": environment,
            "probe": {"allow_replacement": True},
        }
        given = {"api_key": API_KEY, "ssl_keyfile_password": PASSWORD}
        return self.controller.play(
            playbook,
            *options,
            variables={
                "sglang_server_runtime": "/opt/llmhost/runtime" if FULL else "/opt/llmhost/replay",
                "sglang_server_instances": {NAME: instance},
                "sglang_server_secrets": {NAME: given} if secrets else {},
                **variables,
            },
        )

    def sh(self, script: str) -> str:
        return self.lab.ct("sh", "-c", script)

    def invocation(self) -> str:
        return self.sh(f"systemctl show --property=InvocationID --value {UNIT}").strip()


@pytest.fixture(scope="module")
def secure(lab: Lab, controller: Controller, request: pytest.FixtureRequest) -> Iterator[Secure]:
    if FULL:
        request.getfixturevalue("runtime")
    lab("replay-runtime", str(lab.data / "replay"))
    lab.model("tiny")
    certificate(lab.data / "tls")
    yield Secure(lab, controller)
    lab.ct("sh", "-c", f"systemctl disable -q --now {UNIT} 2>/dev/null || true; rm -f /etc/systemd/system/{UNIT}")
    lab.ct("systemctl", "daemon-reload")


@pytest.fixture
def founding(lab: Lab, controller: Controller) -> Iterator[Founding]:
    with prepared(lab, controller) as founding:
        yield founding


def test_the_plan_is_told_and_drawn_and_touches_nothing(founding: Founding, tmp_path: pathlib.Path) -> None:
    cpu = {"model": "/opt/llmhost/models/tiny", "port": 30046, "gpus": [0], "arguments": {"device": "cpu"}}
    card = {"model": MODEL, "port": 30047, "gpus": [0, 1], "arguments": memory_examples.FOUNDING_ARGUMENTS}
    founding.lab.model("tiny")
    before = founding.sh("ls -R /etc/systemd/system /var/lib")
    play = founding.controller.play(
        "llmhost.sglang.plan",
        variables={
            "sglang_server_runtime": RUNTIME,
            "sglang_server_instances": {"founding": card, "computed": cpu},
            "llmhost_plan_dir": str(tmp_path / "plans"),
        },
    )
    assert play.status == "successful", play.text()
    assert play.changed() == [] and founding.sh("ls -R /etc/systemd/system /var/lib") == before
    plans = play.artifacts["llmhost_plans"]
    assert (plans[f"{HOST}/founding"]["verdict"], plans[f"{HOST}/founding"]["stage"]) == ("fail", "kv")
    assert plans[f"{HOST}/founding"]["remedies"][0]["arguments"] == {"max_running_requests": 8}
    assert plans[f"{HOST}/computed"]["verdict"] == "unknown", "a CPU is not covered, and no number is made up for it"
    assert plans[f"{HOST}/computed"]["max_total_num_tokens"] is None
    assert "recurrent states of drafts" in play.text(), "the table says where the memory goes"
    drawn = sorted(path.name for path in (tmp_path / "plans").iterdir())
    assert drawn == [f"{HOST}-founding.svg"]
    assert ElementTree.parse(tmp_path / "plans" / drawn[0]).getroot().tag.endswith("svg")


def test_an_address_that_is_open_to_all_needs_a_key(secure: Secure) -> None:
    play = secure.play("servers.yml", secrets=False)
    assert play.status == "failed"
    refused = play.result("launch_args_info")
    assert [one.get("rule") for one in refused["errors"]] == ["open_without_key"]
    assert "allow_open" in refused["msg"]
    assert "inactive" in secure.sh(f"systemctl is-active {UNIT} || true")
    allowed = secure.play("servers.yml", "--check", secrets=False, sglang_server_allow_open=True)
    assert allowed.status == "successful", allowed.text()


def test_a_server_that_speaks_tls_is_waited_for_asked_restarted_and_removed(secure: Secure) -> None:
    play = secure.play("servers.yml", "-vvv")
    assert play.status == "successful", play.text()
    assert play.result("server_wait")["url"] == f"https://0.0.0.0:{PORT}"
    assert play.result("completion_probe")["url"] == f"https://127.0.0.1:{PORT}"
    assert play.result("completion_probe")["text"].strip()
    for secret in (API_KEY, PASSWORD):
        assert secret not in play.text(), "nowhere in what the play prints, not even with -vvv"
        kept = f"/etc/systemd/system/{UNIT} /var/lib/llmhost/instances/{NAME}/known_good.json"
        assert secret not in secure.sh(f"cat {kept}")
        assert secret not in secure.sh("ps -eo args")
    first = secure.invocation()

    again = secure.play("llmhost.sglang.restart")
    assert again.status == "successful", again.text()
    assert secure.invocation() not in ("", first)
    assert again.result("completion_probe")["text"].strip()

    seen = secure.play("llmhost.sglang.status")
    assert seen.artifacts["llmhost_status"][f"{HOST}/{NAME}"]["health"] == "ready"

    dry = secure.play("llmhost.sglang.remove", "--check")
    assert dry.status == "successful" and any("Remove each instance" in task for task in dry.changed()), dry.text()
    assert secure.sh(f"systemctl is-active {UNIT}").strip() == "active"

    gone = secure.play("llmhost.sglang.remove")
    assert gone.status == "successful", gone.text()
    left = "ls -d /etc/systemd/system/sglang-secure* /var/lib/llmhost/instances/secure /var/cache/llmhost/secure"
    assert secure.sh(f"{left} 2>/dev/null || true").strip() == ""
    assert secure.sh("getent passwd sglang").strip(), "the account was to be kept"
    assert "Nothing is left of secure" in json.dumps(gone.result("assert"))
    calm = secure.play("llmhost.sglang.remove")
    assert calm.status == "successful" and calm.changed() == [], calm.text()
