# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that speaks TLS: asked with its name, refused with another, and noticed where nobody said so."""

from __future__ import annotations

import datetime
import http.server
import os
import ssl
import threading
from collections.abc import Iterator

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._errors import LlmHostError
from ansible_collections.llmhost.sglang.plugins.module_utils._server.http import Client
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.readiness import Probe

x509 = pytest.importorskip("cryptography.x509")

from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402 (after the question whether it is there)
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

NAME = "llm.example.org"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"data": [{"id": "tiny"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a key and a certificate for one name, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(plain + signed.public_bytes(pem))
    return str(path)


@pytest.fixture
def port(certificate: str) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_the_name_of_the_certificate_may_be_another_than_the_address(port: int, certificate: str) -> None:
    url = f"https://127.0.0.1:{port}"
    assert Client(url, ca_path=certificate, server_name=NAME).get("/v1/models", 5).status == 200
    assert Client(url, validate_certs=False).get("/v1/models", 5).status == 200


@pytest.mark.parametrize(
    "given", [{"server_name": "other.example.org"}, {}, {"server_name": NAME, "ca_path": None}], ids=str
)
def test_another_certificate_is_refused(port: int, certificate: str, given: dict[str, str]) -> None:
    with pytest.raises(LlmHostError) as caught:
        Client(f"https://127.0.0.1:{port}", **{"ca_path": certificate, **given}).get("/v1/models", 5)
    assert caught.value.reason == "bad_certificate"


@pytest.mark.parametrize("told", [True, False])
def test_the_watch_asks_by_tls_where_it_is_told_and_where_it_must_find_out(port: int, told: bool) -> None:
    found = Probe("127.0.0.1", port, tls=told).look({os.getpid()}, health=False)
    assert (found.models_status, found.served, found.tls) == (200, ("tiny",), True)
