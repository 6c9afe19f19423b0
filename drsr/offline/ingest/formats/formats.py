"""Every format that can be read, in the order in which they are tried."""

from __future__ import annotations

from importlib import import_module

from drsr.errors import InputError
from drsr.offline.ingest.format_names import READERS_OF
from drsr.offline.ingest.formats.plug_ins import plug_ins
from drsr.offline.ingest.formats.reader import Reader

READERS: tuple[Reader, ...] = tuple(
    reader for name in READERS_OF for reader in import_module(f"drsr.offline.ingest.formats.{name}").READERS
)
"""Ours. No record is recognised by two of them."""


def all_readers() -> tuple[Reader, ...]:
    """Ours, then those of other packages."""
    return READERS + plug_ins()


def reader_named(name: str) -> Reader:
    """Return the reader of that name. Raises InputError."""
    found = next((reader for reader in all_readers() if reader.name == name), None)
    if found is None:
        known = ", ".join(dict.fromkeys(reader.name for reader in all_readers()))
        raise InputError(f"no reader is called {name!r}", hint=f"one of {known}")
    return found
