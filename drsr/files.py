"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

UNFINISHED = ".part"
"""How the names of unfinished files end."""


def write_atomically(path: Path, data: bytes, *, sync: bool = False, mode: int = 0o666) -> None:
    """Write a file so that a reader sees all of it or what was there before; with `sync`, also after a power cut.

    What is there may be a link into a cache, such as DVC's: it is replaced, never written into. The unfinished file has
    a name that nobody can guess and is made anew, so a link that somebody put in its place is not followed. `mode` is
    who may read it, less what the umask takes away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}{UNFINISHED}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
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
