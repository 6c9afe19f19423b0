"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a file so that a reader sees all of it or what was there before; with `sync`, also after a power cut.

    What is there may be a link into a cache, such as DVC's: it is replaced, never written into.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_if_changed(path: Path, data: bytes, *, sync: bool = False) -> None:
    """The same, unless the file holds these bytes already."""
    if not path.is_file() or path.read_bytes() != data:
        write_atomically(path, data, sync=sync)
