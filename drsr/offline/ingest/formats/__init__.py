"""Recorded runs of every framework as Trajectories; anything unreadable as Quarantined, with a reason.

    for file in gather(open_location("s3://bucket/nightly/")):
        for item in read(file):
            ...

The format is found by looking at the parsed JSON, never at a file's name. To add one, see `format_names.py`; a package
of another name brings one as `plug_ins.py` says, with what is re-exported here.
"""

from __future__ import annotations

from collections.abc import Iterator

from drsr.offline.ingest.formats.bundles import gather
from drsr.offline.ingest.formats.formats import READERS, all_readers, reader_named
from drsr.offline.ingest.formats.reader import Reader, Run, each
from drsr.offline.ingest.formats.reading import read
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.locations import open_location
from drsr.offline.store.source_files import SourceFile, Unreadable

__all__ = [
    "READERS",
    "Reader",
    "Record",
    "Run",
    "SourceFile",
    "Unreadable",
    "all_readers",
    "each",
    "gather",
    "read",
    "read_runs",
    "reader_named",
]


def read_runs(uri: str) -> Iterator[Trajectory | Quarantined]:
    """Yield every run at a location, in any format that `drsr ingest` reads."""
    for file in gather(open_location(uri)):
        yield from read(file)
