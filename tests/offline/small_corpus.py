"""A corpus of a few files that a test makes: its table, and the bytes that a host or a mirror has."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

from drsr.offline.ingest.corpus.table import COLUMNS, CORPORA, TABLE, Corpus, read_table
from tests.offline.public_host import PublicHost

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "someone/agent-runs"
_RUN = b'{"messages": [{"role": "user", "content": "Run %d"}, {"role": "assistant", "content": "All done."}]}\n'
CONTENTS = {
    "one/a.json": _RUN % 1 * 50,
    "one/deep/b c:d.json": _RUN % 2 * 70,
    "two/c.json": _RUN % 3 * 90,
    "two/d.json": _RUN % 4 * 30,
}
"""By local path."""


def row(local: str, data: bytes, **other: str) -> dict[str, str]:
    """A sound row of a table."""
    source, _, file = local.partition("/")
    values = {"source": source, "file": file, "repository": REPOSITORY, "commit": COMMIT, "path": f"runs/{local}"}
    values |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": str(len(data)), "licence": "MIT"}
    return {**values, "reader": "openai_chat", "domain": "code", "agent": "some agent", **other}


def write_table(folder: Path, rows: list[dict[str, str]], name: str = "small") -> Path:
    """Write `corpora/NAME/files.csv` below a folder; return its path."""
    path = folder / CORPORA / name / TABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def small_corpus(folder: Path) -> Corpus:
    path = write_table(folder, [row(local, data) for local, data in CONTENTS.items()])
    files, problems = read_table(path)
    assert problems == ()
    return Corpus("small", path.parent, files)


def place(local: str) -> str:
    """Return the path of a file on the public host."""
    return f"{REPOSITORY}/{COMMIT}/runs/{local}"


def publish(host: PublicHost) -> None:
    host.files.update({place(local): data for local, data in CONTENTS.items()})


def mirrored(folder: Path) -> Path:
    """Write the files below a folder, as a mirror has them."""
    for local, data in CONTENTS.items():
        path = folder / local
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, but for the lock; unfinished ones among them."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".fetch.lock"
    }
