"""Files that are written whole or not at all, and results that are kept one by one."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from drsr.errors import InputError

UNFINISHED = ".part"
"""The end of the names of unfinished files."""


def write_atomically(path: Path, data: bytes, *, sync: bool = False, mode: int = 0o666) -> None:
    """Write a file so that a reader sees all of it or its former content; with `sync`, even after a power cut.

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


class KeptResults:
    """A file with a line for every result of a long command: who is interrupted goes on there.

    A line holds a key and a value. The key says what the result is of and `about` what it depends on besides; lines
    about something else are left alone.
    """

    def __init__(self, path: Path, about: Any, what: str) -> None:
        """`what` names the results in errors. InputError where the file is something else, or cannot be read."""
        self.path = path
        self._about = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        self._values: dict[str, Any] = {}
        try:
            with path.open("a+") as file:  # made now: what cannot be written is said before anything is done
                file.seek(0)
                lines = file.readlines()
            if lines and not lines[-1].endswith("\n"):  # cut off in the middle: that one is made again
                path.write_text("".join(lines := lines[:-1]))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InputError(f"{what} cannot be kept there: {why}", where=str(path)) from None
        for number, line in enumerate(lines, 1):
            try:
                key, value = json.loads(line)
                self._values[str(key)] = value
            except (ValueError, TypeError):
                raise InputError(f"is not a line with {what}", where=f"{path}:{number}") from None

    def get(self, key: str) -> Any:
        """Return the value kept under this key, or None."""
        return self._values.get(f"{self._about}/{key}")

    def keep(self, key: str, value: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([f"{self._about}/{key}", value]) + "\n")
