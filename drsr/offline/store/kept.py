"""Kept values: results computed from some bytes, found again by the hash of these bytes and of the code that computed
them.

A night that finds little new should not read everything again to learn what it knew the night before. Code that asks a
question of many stored runs looks here first; what is not kept is computed and kept. One SQLite file in the cache
folder of a machine, which may be deleted at any time: everything in it can be computed again; that only takes longer.

A value is found only for the same question about the same bytes by the same code. The code is every module of this
package and the libraries that judge, so no version has to be raised by hand, and an upgrade starts afresh. Values hold
numbers and hashes, never a run's text. An audit opens no such file: it computes everything itself.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import orjson

import drsr
from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.store.artifacts import ArtifactStore
from drsr.settings import cache_folder

FILE = "kept.sqlite"
LIBRARIES = (
    *("great_expectations", "pandas", "numpy", "datasketch", "scipy", "pyarrow"),
    *("torch", "transformers", "tokenizers", "gguf"),
)
"""Packages whose version may change a value."""
_LOCK_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS kept (
    code TEXT NOT NULL, question TEXT NOT NULL, content TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (code, question, content)
) WITHOUT ROWID
"""


class Kept:
    """The kept values of one version of the code."""

    def __init__(self, path: Path, code: str | None = None) -> None:
        """`path` is created when something is kept; `code` identifies the code of this process."""
        self._path = path
        self._code = code_hash() if code is None else code

    def find(self, question: str, contents: Sequence[str]) -> dict[str, bytes]:
        """Return the values that are kept, by content."""
        if not self._path.exists():
            return {}
        asked = orjson.dumps(list(contents)).decode()
        query = "SELECT content, value FROM kept WHERE code = ? AND question = ? AND content IN "
        with self._opened() as connection:
            found = connection.execute(f"{query}(SELECT value FROM json_each(?))", (self._code, question, asked))
            return dict(found.fetchall())

    def keep(self, question: str, values: Mapping[str, bytes], *, alone: bool = False) -> None:
        """Keep values, all or none; `alone` forgets the question's other values. Values kept by other code are
        dropped."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = [(self._code, question, content, value) for content, value in values.items()]
        with self._opened() as connection, connection:
            connection.execute("DELETE FROM kept WHERE code <> ?", (self._code,))
            if alone:
                connection.execute("DELETE FROM kept WHERE question = ?", (question,))
            connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)", rows)

    def forget(self, hashes: Sequence[str]) -> None:
        """Forget what any version of the code kept of bytes with these hashes."""
        if not self._path.exists():
            return
        with self._opened() as connection, connection:
            rows = [(f"{content}%",) for content in hashes]
            connection.executemany("DELETE FROM kept WHERE content LIKE ?", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=_LOCK_SECONDS)
        try:
            connection.execute(_SCHEMA)
            yield connection
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"results kept from earlier nights cannot be used: {error}",
                where=str(self._path),
                hint="delete the file; everything in it is computed again",
            ) from None
        finally:
            connection.close()


def kept_here() -> Kept:
    """Return what this machine keeps."""
    return Kept(cache_folder() / FILE)


def readings(
    artifacts: ArtifactStore,
    kept: Kept | None,
    question: str,
    blobs: Mapping[str, str],
    read: Callable[[str, bytes], bytes],
) -> dict[str, bytes]:
    """Return what `read` makes of each stored object, by name; a name must hold the hash of the object's bytes.

    `blobs` has the key of each. Without `kept` every object is read; with it those that were not read before, and those
    whose file is gone, which is an error as usual.
    """
    known = {} if kept is None else kept.find(question, list(blobs))
    gone = artifacts.missing(blobs[name] for name in known)
    asked = [name for name, blob in blobs.items() if name not in known or blob in gone]
    new: dict[str, bytes] = {}
    for name, data in zip(asked, artifacts.each(blobs[name] for name in asked), strict=True):
        if isinstance(data, ArtifactCorrupt):
            raise data
        new[name] = read(name, data)
    if kept is not None and new:
        kept.keep(question, new)
    return {name: new[name] if name in new else known[name] for name in blobs}


def bytes_named(blob: str) -> str:
    """Return the SHA-256 of an object's bytes from its key in the artifact store, wherever it is packed."""
    return blob.partition("@")[0]


@lru_cache(maxsize=1)
def code_hash() -> str:
    """Return the SHA-256 over every module of this package, and the versions of the libraries that values depend on."""
    package, digest = Path(drsr.__file__).parent, hashlib.sha256()
    modules = sorted(
        Path(folder, name)
        for folder, _, names in os.walk(package, followlinks=True)  # a checkout links to flows and expectations
        for name in names
        if name.endswith(".py")
    )
    for path in modules:
        digest.update(f"{path.relative_to(package)}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    for library in LIBRARIES:
        try:
            digest.update(f"{library} {importlib.metadata.version(library)}\n".encode())
        except importlib.metadata.PackageNotFoundError:
            continue
    return digest.hexdigest()
