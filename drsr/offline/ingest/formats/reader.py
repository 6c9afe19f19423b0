"""The contract of a reader: how it recognises a format, and the runs it makes of it.

A format is one module with its `READERS`, and one line in `format_names.py`. It sees parsed JSON
only, never a file's name, and it raises Unreadable for a run that it cannot make sense of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_ENDINGS = re.compile(r"(\.traj)?(\.json)?(\.(gz|zst|bz2|xz))?$")


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run as a reader hands it out; `sources.read` gives it its identity and makes it a Trajectory."""

    place: str
    """The place where it was read, for error messages."""
    protocol: Literal["openai", "anthropic"]
    request: Json
    """The request body: `messages`, and where recorded `tools` and (Anthropic) `system`."""
    run_id: str | None = None
    """An id that no other run anywhere has (a UUID that the framework drew), where recorded."""
    local_id: str | None = None
    """An id that distinguishes it from the other runs of its file, if recorded: `12/3` for task 12, trial 3."""
    task: str | None = None
    domain: str | None = None
    reward: float | None = None
    only_session: bool = False
    """Whether `task` is merely what the runs of one session share, and names no task."""


Found = Run | Quarantined
"""A run, or the reason why there is none, as a reader hands it out."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One format."""

    name: str
    version: int | str
    """Raised whenever the same bytes give another trajectory; part of the content hash."""
    title: str
    """The format in words, for people."""
    recognises: Callable[[Any], bool]
    """Whether a record is of this format. True for exactly one reader; never raises."""
    read: Callable[[Iterator[Record], SourceFile], Iterator[Found]]
    """The runs in a stream of records. May raise Unreadable."""
    grouping: Literal["each", "session", "stream"] = "each"
    """`each`: every record is independent. `session`: the records of a file belong together and must fit in memory.
    `stream`: they belong together, and the reader itself keeps only what it needs."""
    resembles_chat: bool = False
    """Whether a run without the marks of this format is a plain chat, so that one file may hold both."""

    package: str | None = None
    """Name and version of the package that it came with, if not drsr."""

    @property
    def tag(self) -> str:
        return f"{self.name}/{self.version}"

    @property
    def stamp(self) -> str:
        """Change whenever the same bytes might be read differently: its author may have forgotten the version."""
        return self.tag if self.package is None else f"{self.tag} {self.package} {self.title}"

    def mixes_with(self, other: Reader) -> bool:
        """Return whether one file may hold records of both."""
        return self is other or (self.resembles_chat and other.resembles_chat and PLAIN_CHAT in (self.name, other.name))


PLAIN_CHAT = "openai_chat"
"""The reader of records without marks of a format."""


def each(
    read_one: Callable[[Json, Record, SourceFile], Run],
) -> Callable[[Iterator[Record], SourceFile], Iterator[Found]]:
    """Return a `read` for formats in which one record is one run."""

    def read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
        for record in records:
            yield read_one(record.value, record, file)

    return read


class Format(NamedTuple):
    """A format in which one record is one run."""

    name: str
    title: str
    recognises: Callable[[Any], bool]
    read: Callable[[Any, Record, SourceFile], Run]
    resembles_chat: bool = False
    version: int = 1


class Pieces(NamedTuple):
    """The pieces of a run, where each is a record of the same file."""

    name: str
    title: str
    recognises: Callable[[Any], bool]


def whole_or_in_pieces(found: Format, pieces: Pieces) -> tuple[Reader, Reader]:
    """Return the readers of a format whose run is one record, or the list of its pieces."""

    def read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
        values = [record.value for record in records]
        yield found.read(values, Record(file.location, values, 0, 0), file)

    whole = Reader(found.name, found.version, found.title, found.recognises, each(found.read))
    whole = replace(whole, resembles_chat=found.resembles_chat)
    named = replace(whole, name=f"{found.name}_{pieces.name}", title=pieces.title)
    return whole, replace(named, recognises=pieces.recognises, read=read, grouping="session")


# --- looking into JSON of unknown shape --------------------------------------------------------------------------


def as_dict(value: Any, what: str) -> Json:
    """Return the value if it is an object. Raises Unreadable: the format is known, this instance of it is malformed."""
    if not isinstance(value, dict):
        raise malformed(what, "an object", value)
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """Return the value if it is a list. Raises Unreadable."""
    if not isinstance(value, list):
        raise malformed(what, "a list", value)
    return value


def malformed(what: str, expected: str, found: Any) -> Unreadable:
    """Return the complaint about a value of the wrong kind."""
    return Unreadable("malformed", f"{what} should be {expected} and is {_kind(found)}")


def dig(value: Any, *path: str) -> Any:
    """`value[path[0]][path[1]]...`, or None as soon as something is missing or no object."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def identity(value: Any) -> str | None:
    """Return a string or whole number as an id; None for anything else and for the empty string."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def stem(record: Record, file: SourceFile) -> str | None:
    """Return the file's name without its endings, where the file holds this record and no other: frameworks that write
    one run per file name it after the task. Only for formats whose content may lack the task's id."""
    if record.place != file.location:
        return None
    return _ENDINGS.sub("", file.path_in_source.rpartition("/")[2]) or None


def score(value: Any) -> float | None:
    """Return a recorded reward: a number, or a verdict as 0 or 1; None for anything else."""
    return float(value) if isinstance(value, bool | int | float) else None


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
