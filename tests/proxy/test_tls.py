"""An upstream behind TLS: its certificate is checked, and an authority of one's own can be named."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from drsr.proxy.server import bind
from tests.agent_runs import openai_body
from tests.proxy.running import running, running_proxy
from tests.proxy.scripted_upstream import ScriptedUpstream


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a key and a certificate for 127.0.0.1 that nobody else vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(certificate: Path) -> Iterator[tuple[ScriptedUpstream, str]]:
    found = ScriptedUpstream()
    config = uvicorn.Config(
        found,
        log_config=None,
        lifespan="off",
        ws="none",
        http="h11",
        ssl_certfile=certificate,
        ssl_keyfile=certificate,
        timeout_graceful_shutdown=1,
    )
    with running(uvicorn.Server(config), bind("127.0.0.1", 0)) as address:
        yield found, address.replace("http://", "https://")


# The proxies below are stopped before the upstream is: it waits for the end of every TLS connection.


def test_a_certificate_that_nobody_vouches_for_is_refused(
    secure: tuple[ScriptedUpstream, str], http: httpx.Client, tmp_path: Path
) -> None:
    upstream, address = secure
    with running_proxy(address, tmp_path) as proxy:
        secret = {"authorization": "secret"}
        answer = http.post(f"{proxy.address}/v1/chat/completions", json=openai_body(), headers=secret)
    assert answer.status_code == 502
    assert upstream.requests == []


def test_an_authority_of_ones_own(
    secure: tuple[ScriptedUpstream, str],
    certificate: Path,
    http: httpx.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upstream, address = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with running_proxy(address, tmp_path) as proxy:
        answer = http.post(f"{proxy.address}/v1/chat/completions", json=openai_body("alpha"))
    assert answer.json()["choices"][0]["message"]["content"] == "alpha"
    assert upstream.latest().json() != openai_body("alpha")  # pruned
