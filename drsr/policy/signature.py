"""Signatures of a policy's wheel: proof of who published it, before anything of the wheel is read.

    drsr_policy-2026.11.16-py3-none-any.whl
    drsr_policy-2026.11.16-py3-none-any.whl.sig      a file next to it, so that the wheel's own bytes can be rebuilt

Hashes show that a policy is as it was published; a signature shows who published it. Ed25519 over the wheel's SHA-256:
the same key and the same wheel give the same file. The consumer decides whom to trust, and gets the public key from
somewhere other than the wheel. Keys are PEM files, as `openssl genpkey -algorithm ed25519` writes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.errors import InputError, MissingExtra, PolicyUntrusted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SUFFIX = ".sig"
FORMAT = "drsr-signature/1"
_LARGEST = 10_000
"""Bytes of a key or a signature; real ones have a few hundred."""
_PRIVATE = (
    "make one with: openssl genpkey -algorithm ed25519 -out signing.pem && openssl pkey -in signing.pem -pubout -out "
    "trusted.pem; then --sign signing.pem"
)
_PUBLIC = "ask whoever publishes the policy for trusted.pem, the public half of the key they sign with"


def signature_of(wheel: Path) -> Path:
    """Return the path of a wheel's signature."""
    return wheel.with_name(wheel.name + SUFFIX)


def read_signing_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key; InputError if it is not one, is of another kind, or is locked with a password."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise MissingExtra("cryptography", "sign", needed_for="signing a policy") from None
    data = _small_file(path, "the key to sign with", _PRIVATE)
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError:
        hint = "unlock it for the moment: openssl pkey -in KEY -out unlocked.pem"
        raise InputError("the key is locked with a password", where=str(path), hint=hint) from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError("holds no private key in PEM form", where=str(path), hint=_PRIVATE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError("is a key of another kind than Ed25519", where=str(path), hint=_PRIVATE)
    return key


def read_trusted_key(path: Path) -> Ed25519PublicKey:
    """Read a public key; InputError if it is not one."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise MissingExtra("cryptography", "sign", needed_for="checking a policy's signature") from None
    data = _small_file(path, "the trusted key", _PUBLIC)
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError("holds no public key in PEM form", where=str(path), hint=_PUBLIC) from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError("is a key of another kind than Ed25519", where=str(path), hint=_PUBLIC)
    return key


def sign(wheel: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the signature file of a wheel."""
    return _document(fingerprint(key.public_key()), key.sign(_message(wheel)))


def _document(key: str, signature: bytes) -> bytes:
    document = {"format": FORMAT, "key": key, "signature": base64.b64encode(signature).decode()}
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of a public key, for users to compare."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def refuse_unsigned(wheel: bytes, place: Path, key: Ed25519PublicKey) -> None:
    """Raise PolicyUntrusted unless the file next to a wheel is the signature of these bytes by the trusted key."""
    from cryptography.exceptions import InvalidSignature

    beside = signature_of(place)
    hint = "get the wheel and its signature again from the publisher; do not install this one"
    try:
        found = _small_file(beside, "the signature", hint)
    except InputError as error:
        raise PolicyUntrusted(error.what, where=error.where, hint=hint) from None
    try:
        document = json.loads(found)
        said, signature = str(document["key"]), base64.b64decode(document["signature"], validate=True)
        sound = _document(said, signature) == found  # one spelling only, so that no byte of it can be changed unseen
    except (ValueError, TypeError, KeyError, RecursionError):
        sound = False
    if not sound:
        raise PolicyUntrusted(f"is not a signature of the format {FORMAT!r}", where=str(beside), hint=hint)
    if said != fingerprint(key):
        what = f"the wheel is signed with the key {said[:12]}, and not with the trusted key {fingerprint(key)[:12]}"
        raise PolicyUntrusted(what, where=str(place), hint=hint)
    try:
        key.verify(signature, _message(wheel))
    except InvalidSignature:
        what = "the signature is not of these bytes: the wheel or its signature was changed"
        raise PolicyUntrusted(what, where=str(place), hint=hint) from None


def _message(wheel: bytes) -> bytes:
    """Return the signed bytes. They include the format, so that a signature made for something else is not valid
    here."""
    return f"{FORMAT}\n{hashlib.sha256(wheel).hexdigest()}\n".encode()


def _small_file(path: Path, what: str, hint: str) -> bytes:
    if not path.is_file():  # a pipe or device might never end
        raise InputError(f"{what} is not there", where=str(path), hint=hint)
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise InputError(f"{what} cannot be read: {error.strerror}", where=str(path), hint=hint) from None
