"""A policy as a folder: `policy.json`, `scorer.safetensors`, whatever else is published with it, and a manifest.

The manifest is written last and lists every file with size and SHA-256. Reading checks them all, so that one flipped
byte anywhere is an error, and runs nothing that the files say: they are JSON and safetensors.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from drsr.backbone.tokenizer import TOKENIZER_FILE
from drsr.decide.distribution import DISTRIBUTION_FILE
from drsr.decide.numbers import PolicyNumbers
from drsr.errors import InputError, LayoutMismatch, PolicyCorrupt, PolicyMismatch, ScorerCorrupt
from drsr.files import write_atomically
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.weights import FILE_NAME as SCORER_FILE
from drsr.scorer.weights import read_scorer, scorer_bytes

POLICY_FILE = "policy.json"
MANIFEST_FILE = "manifest.json"
MANIFEST_FORMAT = "drsr-policy-manifest/1"
_LARGEST_FILE = 1 << 30
"""Bytes of a policy's largest file; real ones have a few million."""
_HINT = "install the policy again, or take the folder from a copy"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
"""Files below the folder, never above it."""
_Reader = Callable[[str], bytes]
"""Gives a file's content by its name, or an OSError."""


class PolicyFiles(NamedTuple):
    """The files of a policy, with their hashes checked."""

    numbers: PolicyNumbers
    scorer: FrozenScorer
    identity: str
    """SHA-256 over numbers and scorer; other files may differ."""
    others: dict[str, bytes]
    """The other files by name."""

    @property
    def names(self) -> set[str]:
        """Names of all its files, the manifest included."""
        return {POLICY_FILE, SCORER_FILE, MANIFEST_FILE, *self.others}


def policy_identity(numbers: PolicyNumbers, scorer: bytes) -> str:
    """Return the SHA-256 of everything, apart from the code, that a decision depends on."""
    parts = [hashlib.sha256(part).hexdigest() for part in (numbers.to_bytes(), scorer)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def write_policy(folder: Path, numbers: PolicyNumbers, scorer: FrozenScorer, others: Mapping[str, bytes]) -> None:
    """Write a new folder; the manifest comes last, so that its existence means that the folder is complete."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError("is not empty", where=str(folder), hint="a policy's folder is written once")
    contents = {**others, POLICY_FILE: numbers.to_bytes(), SCORER_FILE: scorer_bytes(scorer)}
    for name in contents:
        if not _NAME.fullmatch(name) or name == MANIFEST_FILE:
            raise InputError(f"{name!r} cannot be the name of a policy's file")
    for name, data in sorted(contents.items()):
        write_atomically(folder / name, data)
    write_atomically(folder / MANIFEST_FILE, manifest_bytes(contents))


def manifest_bytes(contents: Mapping[str, bytes]) -> bytes:
    """Return the manifest of some files: the same files give the same bytes."""
    files = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in contents.items()}
    return _canonical({"format": MANIFEST_FORMAT, "files": files})


def read_policy(folder: Path) -> PolicyFiles:
    """Read and check a folder: hashes of all files, formats, versions, layout. Needs numpy and safetensors only."""
    if not folder.is_dir():
        raise InputError("there is no such folder", where=str(folder), hint="name a folder that holds policy.json")
    return _read(lambda name: _read_regular(folder / name), str(folder))


def _read_regular(path: Path) -> bytes:
    """Read a file; raise OSError if it is not a plain file, which might never end, or is larger than any policy's."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def read_contents(contents: Mapping[str, bytes], where: str) -> PolicyFiles:
    """Check files that are in memory, by name, in the same way; `where` says where they come from."""

    def read(name: str) -> bytes:
        if name not in contents:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return contents[name]

    return _read(read, where)


def _read(read: _Reader, where: str) -> PolicyFiles:
    contents = _checked_contents(read, where)
    for name in (POLICY_FILE, SCORER_FILE):
        if name not in contents:
            raise PolicyCorrupt(f"the manifest does not list {name}", where=where, hint=_HINT)
    try:
        numbers = PolicyNumbers.from_json(json.loads(contents[POLICY_FILE], parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise PolicyCorrupt(f"is not JSON: {error}", where=f"{where}/{POLICY_FILE}", hint=_HINT) from None
    except PolicyCorrupt as error:
        raise PolicyCorrupt(error.what, where=f"{where}/{POLICY_FILE}", hint=error.hint or _HINT) from None
    numbers.check()
    scorer_file = f"{where}/{SCORER_FILE}"
    try:
        scorer = read_scorer(contents[SCORER_FILE], numbers.layout_hash, where=scorer_file)
    except ScorerCorrupt as error:
        raise PolicyCorrupt(error.what, where=error.where, hint=error.hint or _HINT) from None
    except LayoutMismatch as error:
        raise PolicyMismatch(error.what, where=error.where, hint=error.hint) from None
    if numbers.light is not None:
        _check_named(TOKENIZER_FILE, numbers.light.tokenizer_sha256, "counts tokens with", contents, where)
    if numbers.distribution is not None:
        _check_named(DISTRIBUTION_FILE, numbers.distribution.sha256, "compares requests with", contents, where)
    if scorer.seeds != numbers.seeds:
        raise PolicyCorrupt(f"has members {scorer.seeds}, the policy {numbers.seeds}", where=scorer_file)
    identity = policy_identity(numbers, contents[SCORER_FILE])
    others = {name: data for name, data in contents.items() if name not in (POLICY_FILE, SCORER_FILE)}
    return PolicyFiles(numbers, scorer, identity, others)


def _check_named(name: str, sha256: str, does: str, contents: Mapping[str, bytes], where: str) -> None:
    """Check that each file that the numbers name by its hash is the one in the folder."""
    place = f"{where}/{name}"
    if name not in contents:
        raise PolicyCorrupt(f"the policy {does} it, and it is missing", where=place, hint=_HINT)
    found = hashlib.sha256(contents[name]).hexdigest()
    if found != sha256:
        raise PolicyCorrupt(f"SHA-256 is {found}, the policy {does} {sha256}", where=place, hint=_HINT)


def _checked_contents(read: _Reader, where: str) -> dict[str, bytes]:
    """Return every file that the manifest lists, checked against its hash."""
    contents = {}
    for name, listed in _manifest(read, where).items():
        place = f"{where}/{name}"
        try:
            data = read(name)
        except OSError as error:
            raise PolicyCorrupt(f"cannot be read: {error.strerror}", where=place, hint=_HINT) from None
        found = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        if found != listed:
            raise PolicyCorrupt(f"is {found}, the manifest says {listed}", where=place, hint=_HINT)
        contents[name] = data
    return contents


def _manifest(read: _Reader, where: str) -> dict[str, dict[str, Any]]:
    place = f"{where}/{MANIFEST_FILE}"
    try:
        data = read(MANIFEST_FILE)
    except FileNotFoundError:
        raise PolicyCorrupt(
            f"there is no {MANIFEST_FILE}: it is incomplete or holds no policy", where=where, hint=_HINT
        ) from None
    except OSError as error:
        raise PolicyCorrupt(f"cannot be read: {error.strerror}", where=place, hint=_HINT) from None
    try:
        manifest = json.loads(data)
        files: dict[str, dict[str, Any]] = manifest["files"]
        # Written again it must be the same bytes: the manifest has no hash of its own to check it by.
        sound = manifest["format"] == MANIFEST_FORMAT and set(manifest) == {"format", "files"}
        sound = sound and isinstance(files, dict) and all(map(_NAME.fullmatch, files)) and _canonical(manifest) == data
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise PolicyCorrupt("is damaged or of another format", where=place, hint=_HINT)
    return files


def _canonical(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()
