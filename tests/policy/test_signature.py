"""Signatures of wheels: an honest one passes, and whatever is not the trusted key's word about these bytes is refused
before anything of the wheel is read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from drsr.cli import main
from drsr.errors import InputError, MissingExtra, PolicyUntrusted
from drsr.policy import location
from drsr.policy.location import read_signed
from drsr.policy.signature import read_signing_key, read_trusted_key, sign, signature_of
from tests.policy_wheels import versioned, wheel_of

_PEM = (Encoding.PEM, PrivateFormat.PKCS8)


class Signed(NamedTuple):
    wheel: Path
    private: Path
    public: Path


def _keys(folder: Path, name: str) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(*_PEM, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    private, public = _keys(tmp_path, "team")
    wheel = wheel_of(versioned("1.0"), tmp_path)
    signature_of(wheel).write_bytes(sign(wheel.read_bytes(), read_signing_key(private)))
    return Signed(wheel, private, public)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a wheel may be read in the test."""

    def read(*arguments: object) -> None:
        raise AssertionError("the wheel was read")

    monkeypatch.setattr(location, "read_wheel_policy", read)


def verify(signed: Signed, key: Path | None = None) -> int:
    return main(["policy", "verify", str(signed.wheel), "--trusted-key", str(key or signed.public)])


def test_a_signed_wheel(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(signed) == 0
    assert capsys.readouterr().out.endswith(f"signed with the trusted key {signed.public}\n")
    assert read_signed(str(signed.wheel), signed.public).numbers.version == "1.0"
    again = sign(signed.wheel.read_bytes(), read_signing_key(signed.private))
    assert again == signature_of(signed.wheel).read_bytes()


@pytest.mark.usefixtures("unread")
def test_another_key(signed: Signed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = _keys(tmp_path, "stranger")
    assert verify(signed, public) == 2
    assert "and not with the trusted key" in capsys.readouterr().err
    signature_of(signed.wheel).write_bytes(sign(signed.wheel.read_bytes(), read_signing_key(private)))
    assert verify(signed) == 2
    assert "and not with the trusted key" in capsys.readouterr().err


@pytest.mark.usefixtures("unread")
def test_a_stranger_who_names_the_trusted_key(signed: Signed, tmp_path: Path) -> None:
    """The name of the key inside the file is for people; nothing follows from it."""
    private, _ = _keys(tmp_path, "stranger")
    mine = json.loads(sign(signed.wheel.read_bytes(), read_signing_key(private)))
    mine["key"] = json.loads(signature_of(signed.wheel).read_bytes())["key"]
    signature_of(signed.wheel).write_text(json.dumps(mine, indent=2, sort_keys=True) + "\n")
    with pytest.raises(PolicyUntrusted, match="the signature is not of these bytes"):
        read_signed(str(signed.wheel), signed.public)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("place", [0, 100, -1])
def test_an_altered_wheel(signed: Signed, place: int) -> None:
    data = bytearray(signed.wheel.read_bytes())
    data[place] ^= 1
    signed.wheel.write_bytes(bytes(data))
    with pytest.raises(PolicyUntrusted, match="the wheel or its signature was changed"):
        read_signed(str(signed.wheel), signed.public)


@pytest.mark.usefixtures("unread")
def test_every_altered_byte_of_a_signature(signed: Signed) -> None:
    honest = signature_of(signed.wheel).read_bytes()
    for place in range(len(honest)):
        for bit in (1, 4, 32):
            forged = bytearray(honest)
            forged[place] ^= bit
            signature_of(signed.wheel).write_bytes(bytes(forged))
            with pytest.raises(PolicyUntrusted):
                read_signed(str(signed.wheel), signed.public)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b"\xff", b"[" * 9_000, b'{"format": "drsr-signature/1"}'])
def test_something_else_than_a_signature(signed: Signed, document: bytes) -> None:
    signature_of(signed.wheel).write_bytes(document)
    with pytest.raises(PolicyUntrusted, match="is not a signature of the format"):
        read_signed(str(signed.wheel), signed.public)


@pytest.mark.usefixtures("unread")
def test_no_signature(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    signature_of(signed.wheel).unlink()
    assert verify(signed) == 2
    assert "the signature is not there" in capsys.readouterr().err


def test_a_signature_is_of_a_wheel(signed: Signed, tmp_path: Path) -> None:
    for where in (str(tmp_path), None):
        with pytest.raises(InputError, match="a signature is of a wheel, and this is not one"):
            read_signed(where, signed.public)


def test_keys_that_are_none(signed: Signed, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    with pytest.raises(InputError, match="is not there"):
        read_signing_key(other)
    other.write_text("hello")
    with pytest.raises(InputError, match="holds no private key"):
        read_signing_key(other)
    with pytest.raises(InputError, match="holds no public key"):
        read_trusted_key(other)
    with pytest.raises(InputError, match="holds no public key"):
        read_trusted_key(signed.private)
    curve = generate_private_key(SECP256R1())
    other.write_bytes(curve.private_bytes(*_PEM, NoEncryption()))
    with pytest.raises(InputError, match="another kind than Ed25519"):
        read_signing_key(other)
    other.write_bytes(curve.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(InputError, match="another kind than Ed25519"):
        read_trusted_key(other)
    other.write_bytes(Ed25519PrivateKey.generate().private_bytes(*_PEM, BestAvailableEncryption(b"word")))
    with pytest.raises(InputError, match="locked with a password"):
        read_signing_key(other)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_keys_that_openssl_made(tmp_path: Path) -> None:
    """By the command that the hint gives."""
    with pytest.raises(InputError) as caught:
        read_signing_key(tmp_path / "none")
    hint = caught.value.hint or ""
    command = hint.removeprefix("make one with: ").partition("; then")[0]
    for one in command.split(" && "):
        subprocess.run(one.split(), cwd=tmp_path, check=True, capture_output=True)
    wheel = wheel_of(versioned("1.0"), tmp_path)
    signature_of(wheel).write_bytes(sign(wheel.read_bytes(), read_signing_key(tmp_path / "signing.pem")))
    assert read_signed(str(wheel), tmp_path / "trusted.pem").numbers.version == "1.0"


def test_without_the_package(signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for read in (read_signing_key, read_trusted_key):
        with pytest.raises(MissingExtra) as caught:
            read(signed.private)
        assert caught.value.hint == "pip install 'drsr[sign]'"
