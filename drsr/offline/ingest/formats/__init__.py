"""Recorded runs of every framework as Trajectories, and whatever cannot be read as Quarantined with a reason.

    for file in gather(open_location("s3://bucket/nightly/")):
        for item in read(file):
            ...

The format is found by looking at the parsed JSON, never at a file's name. To add one, see `formats.py`.
"""

from __future__ import annotations

from drsr.offline.ingest.formats.bundles import gather
from drsr.offline.ingest.formats.formats import READERS, reader_named
from drsr.offline.ingest.formats.reading import read

__all__ = ["READERS", "gather", "read", "reader_named"]
