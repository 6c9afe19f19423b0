"""SHA-256 of large files, remembered, so that loading a model a second time does not read 500 MB only to hash them.

A hash is remembered under the file's real path together with its size, modification time, change time and inode. The
change time is set by the kernel: a copy that preserves times, or an edit that puts the old time back, is still noticed.
The memory lies in the cache folder, never beside the weights, which may be read-only or belong to another program.
Whoever can write there can make any file look like any other, so an audit believes none of it (`hashed_anew`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from drsr.errors import BackboneCorrupt
from drsr.files import write_atomically
from drsr.settings import cache_folder

_log = logging.getLogger(__name__)

_SETTLED_NS = 2_000_000_000
"""A file younger than this is hashed but not remembered: within one tick of a coarse clock it could change unseen."""


_anew: ContextVar[dict[Any, str] | None] = ContextVar("hashes computed anew", default=None)
"""Inside `hashed_anew`: what was computed there, by file, state and computation."""


@contextmanager
def hashed_anew() -> Iterator[None]:
    """Inside, nothing is believed that was remembered before, and nothing is remembered for afterwards: every file is
    hashed once."""
    token = _anew.set({})
    try:
        yield
    finally:
        _anew.reset(token)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered(path: Path, compute: Callable[[Path], str], *, what: str) -> str:
    """Return `compute(path)`, or its last result if the file is unchanged since. `what` names the computation."""
    memo_path = _memo_path(path)
    state = _state(path)
    anew = _anew.get()
    if anew is not None:
        key = (path.resolve(), *state, what)
        if key not in anew:
            anew[key] = compute(path)
        return anew[key]
    hashes = _recall(memo_path, state)
    if what in hashes:
        return hashes[what]
    started_ns = time.time_ns()
    value = compute(path)
    if _state(path) != state:
        raise BackboneCorrupt("the file changed while it was being read", where=str(path), hint="try again")
    if started_ns - max(state[1], state[2]) > _SETTLED_NS:
        _remember(memo_path, {"path": str(path.resolve()), "state": state, "hashes": {**hashes, what: value}})
    return value


def _state(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _memo_path(path: Path) -> Path:
    return cache_folder() / "hashes" / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()}.json"


def _recall(memo_path: Path, state: list[int]) -> dict[str, str]:
    """Return the remembered hash of a file in this state. If the memory is unreadable, the file is hashed again."""
    try:
        memo = json.loads(memo_path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(memo, dict) or memo.get("state") != state or not isinstance(memo.get("hashes"), dict):
        return {}
    return {str(what): str(value) for what, value in memo["hashes"].items()}


def _remember(memo_path: Path, memo: dict[str, Any]) -> None:
    try:
        write_atomically(memo_path, json.dumps(memo).encode())
    except OSError as error:
        # No number depends on it, only the time of the next load: a read-only cache must not stop a decision.
        _log.warning("cannot remember the hash of %s: %s", memo["path"], error)
