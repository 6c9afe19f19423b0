"""Runs that are spread over several files: a folder with one event per file, and the parts of an `.eval` archive.

Whether a folder is such a one is found out by looking into its first file, and only where all its files have the same
suffix, so that listing ten thousand ordinary files stays cheap. The files then count as one, with one fingerprint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import PurePosixPath

from drsr.errors import DrsrError
from drsr.offline.ingest.formats import openhands_sdk, openhands_v0
from drsr.offline.ingest.formats.json_values import loads
from drsr.offline.store.source_files import SourceFile, Unreadable

_HEADERS = ("header.json", "_journal/start.json", "start.json")
_SAMPLE = re.compile(r"samples/.+\.json")  # a sample's id may hold slashes
_LARGEST_EVENT = 1 << 20
"""Bytes that are read of a folder's first file to find out what the folder is."""


def gather(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    """Yield the same files in the same order, with every folder of event files as one file."""
    for _, group in groupby(files, key=lambda file: folder_of(file.relative)):
        members = iter(group)
        first = list(islice(members, 2))
        if not _opens_event_folder(first):
            yield from first
            yield from members
            continue
        listed = [*first, *members]  # one run, whose events are read together anyway
        if _are_alike(listed):
            yield bundle(listed)
        else:
            yield from listed


def eval_archive(members: list[SourceFile]) -> tuple[SourceFile, ...] | None:
    """Return the header and the samples of an Inspect `.eval` archive, or None for any other archive.

    Its other members (a journal, summaries, reductions) repeat what these hold and are left out.
    """
    by_name = {member.relative.rpartition("!")[2]: member for member in members}
    header = next((by_name[name] for name in _HEADERS if name in by_name), None)
    samples = [member for name, member in by_name.items() if _SAMPLE.fullmatch(name)]
    return (header, *samples) if header and samples else None


def _are_alike(files: list[SourceFile]) -> bool:
    return len({PurePosixPath(file.relative).suffix for file in files}) == 1 and not any(file.refused for file in files)


def _opens_event_folder(files: list[SourceFile]) -> bool:
    """Return whether a folder that starts with these two files is one of events, if the others are alike."""
    return len(files) >= 2 and _are_alike(files) and is_event_file(files[0])


def is_event_file(file: SourceFile) -> bool:
    """Return whether a file is one event."""
    if file.refused or (file.size is not None and file.size > _LARGEST_EVENT):
        return False
    try:
        with file.open() as stream:
            head = stream.read(_LARGEST_EVENT)
        value = loads(head) if b'"source"' in head and b'"timestamp"' in head else None
    except (Unreadable, DrsrError):  # said again, and to more purpose, when the file itself is read
        return False
    return openhands_sdk.is_event(value) or openhands_v0.is_event(value)


def bundle(members: list[SourceFile]) -> SourceFile:
    first = members[0]
    digest = hashlib.sha256()
    for member in members:
        digest.update(f"{member.relative}\0{member.fingerprint}\n".encode())
    known = all(member.fingerprint for member in members)
    return SourceFile(
        location=folder_of(first.location),
        relative=folder_of(first.relative).rstrip("/!") or first.source,
        source=first.source,
        fingerprint=digest.hexdigest() if known else None,
        size=sum(member.size or 0 for member in members),
        opener=first.opener,
        members=tuple(members),
        changed=max((member.changed for member in members if member.changed is not None), default=None),
    )


def folder_of(path: str) -> str:
    """Return the path of a file's folder, or of its archive where it lies at the top of one."""
    return path[: max(path.rfind("/"), path.rfind("!")) + 1]
