"""A file's bytes to Trajectories: unpack, take apart into records, find the reader, give every run its identity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from drsr.offline.ingest import archives
from drsr.offline.ingest.formats import unread_formats
from drsr.offline.ingest.formats.bundles import eval_archive, gather
from drsr.offline.ingest.formats.formats import all_readers
from drsr.offline.ingest.formats.json_values import dumps
from drsr.offline.ingest.formats.openai_chat import is_message
from drsr.offline.ingest.formats.passing_bundles import gather_passing
from drsr.offline.ingest.formats.plug_ins import failure_on, shown, sound
from drsr.offline.ingest.formats.reader import PLAIN_CHAT, Reader, Run
from drsr.offline.ingest.formats.records import NotOneDocument, Record, document, records
from drsr.offline.ingest.trajectories import Json, Quarantined, Trajectory
from drsr.offline.store.source_files import Limits, SourceFile, Unreadable, storage_errors

Item = Trajectory | Quarantined

_LOOKED_AT = 64
"""Records at a file's start that are looked at before one of them is read."""
_LOOKED_AT_BYTES = 8 << 20
_ASIDE = 1_000
"""Complaints that are held one by one while a session is read; the rest is counted."""
_MISTAKES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""The errors of a reader of ours that is mistaken about a record. Failing storage is not among them."""
_LONGEST_ID = 400
"""Characters of an id; of a longer one the end is replaced by its hash."""


def read(
    file: SourceFile, *, reader: Reader | None = None, limits: Limits | None = None
) -> Iterator[Trajectory | Quarantined]:
    """Yield every run in a file. `reader` reads it as that format and no other.

    Content never raises: what cannot be read is handed out as Quarantined. Failures of storage raise DrsrError.
    """
    readers = all_readers() if reader is None else (reader,)
    names: dict[str, int] = {}
    nothing = True
    for item in _contents(file, readers, limits or Limits(), packed=False):
        nothing = False
        yield item if isinstance(item, Quarantined) else _unique(item, names)
    if nothing:
        yield Quarantined(file.location, "empty", "the file holds no runs")


def _contents(file: SourceFile, readers: tuple[Reader, ...], limits: Limits, *, packed: bool) -> Iterator[Item]:
    """Yield the content of a file, packed or not. `packed`: the file is itself in an archive."""
    if file.refused:
        yield Quarantined(file.location, file.refused.reason, file.refused.detail)
        return
    if file.members:
        yield from _runs(_members(file, limits), file, readers, limits)
        return
    try:
        yield from _opened(file, readers, limits, packed=packed)
    except NotOneDocument:
        yield from _opened(file, readers, limits, packed=packed, is_document=False)


def _opened(
    file: SourceFile, readers: tuple[Reader, ...], limits: Limits, *, packed: bool, is_document: bool = True
) -> Iterator[Item]:
    """Yield the runs of a file, unpacked if it is packed. NotOneDocument as `records` says."""
    try:
        with file.open() as stream:
            layers = archives.peeled(stream, file.location, limits)
            if layers.archive and packed:
                raise Unreadable("nested_archive", "an archive inside an archive; unpack the outer one")
            if layers.archive:
                yield from _archive(_members_of(layers, file, limits), file, readers, limits)
                return
            size = None if layers.compression else file.size
            found = records(layers.stream, file.location, limits, size, is_document=is_document)
            yield from _runs(found, file, readers, limits)
    except Unreadable as problem:
        yield Quarantined(file.location, problem.reason, problem.detail)
    except OSError as error:
        with storage_errors(file.location):
            raise error


def _members_of(layers: archives.Layers, file: SourceFile, limits: Limits) -> Iterator[SourceFile]:
    """Yield the files of an archive, those that are one run together as one. Raises Unreadable."""
    if layers.archive == "tar":
        return gather_passing(archives.tar_members(layers.stream, file, limits), limits)
    members = list(archives.zip_members(layers.stream, file, limits))
    parts = eval_archive(members)
    return gather([replace(file, members=parts)] if parts else members)


def _archive(
    members: Iterator[SourceFile], file: SourceFile, readers: tuple[Reader, ...], limits: Limits
) -> Iterator[Item]:
    nothing = True
    for member in members:
        nothing = False
        yield from _contents(member, readers, limits, packed=True)
    if nothing:
        yield Quarantined(file.location, "empty", "the archive holds no files")


def _members(file: SourceFile, limits: Limits) -> Iterator[Record | Quarantined]:
    """The documents of a bundle, one record each."""
    for number, member in enumerate(file.members):
        try:
            if member.refused:
                raise Unreadable(member.refused.reason, member.refused.detail)
            with member.open() as stream:
                yield Record(member.location, document(stream, limits), number, member.size or 0)
        except Unreadable as problem:
            yield Quarantined(member.location, problem.reason, problem.detail)


def _runs(
    stream: Iterator[Record | Quarantined], file: SourceFile, readers: tuple[Reader, ...], limits: Limits
) -> Iterator[Item]:
    """The runs in a stream of records: each record by itself, or all together, as its format wants it.

    The first records are looked at before any is read. Of a file in which these are of two formats nothing is read;
    further on, a record of another format is refused by itself, because what came before it is handed out already.
    """
    taken: list[Record | Quarantined] = []
    head: list[tuple[Record, tuple[Reader, ...]]] = []
    held = 0
    for item in stream:
        taken.append(item)
        if isinstance(item, Quarantined):
            if len(taken) - len(head) > _ASIDE:
                break
            continue
        head.append((item, _recognised(item.value, readers)))
        held += item.size
        if len(head) == _LOOKED_AT or held > _LOOKED_AT_BYTES:
            break
    first = next((found for found in head if _decides(*found)), None)
    chosen = None if first is None else _shown_by(*first, readers)
    others = (known[0] for _, known in head if len(known) == 1)
    foreign = next((other for other in others if chosen and not chosen.mixes_with(other)), None)
    rest = chain(taken, stream)
    if chosen and foreign:
        detail = f"records of {chosen.name} and of {foreign.name}; keep each format in separate files, or say which "
        yield Quarantined(file.location, "two_formats", f"{detail}to read with --format")
        yield from (item for item in taken if isinstance(item, Quarantined))
    elif first and _is_bare(*first):
        yield from _conversation(_unmixed(rest, chosen, readers), file, readers, limits)
    elif chosen and chosen.grouping != "each":
        problems = _Aside()
        sound = _unmixed(rest, chosen, readers)
        together = _sound(sound, problems, limits.document if chosen.grouping == "session" else None)
        yield from _read(chosen, together, file, file.location)
        yield from problems
    else:
        for item in _unmixed(rest, chosen, readers):
            if isinstance(item, Quarantined):
                yield item
            else:
                yield from _one(item, file, readers, limits)


def _decides(record: Record, known: tuple[Reader, ...]) -> bool:
    """Return whether a record shows how its file is to be read: by its reader, as a conversation, or list by list."""
    return len(known) == 1 or _is_bare(record, known) or isinstance(record.value, list)


def _is_bare(record: Record, known: tuple[Reader, ...]) -> bool:
    """Return whether a record is one message of a conversation."""
    return not known and is_message(record.value)


def _shown_by(record: Record, known: tuple[Reader, ...], readers: tuple[Reader, ...]) -> Reader | None:
    """Return the reader whose format a record shows; a single message shows a chat."""
    if _is_bare(record, known):
        return next((reader for reader in readers if reader.name == PLAIN_CHAT), None)
    return known[0] if len(known) == 1 else None


def _unmixed(
    stream: Iterator[Record | Quarantined], chosen: Reader | None, readers: tuple[Reader, ...]
) -> Iterator[Record | Quarantined]:
    """The records of a file of one format, those of another in quarantine."""
    for item in stream:
        if chosen is not None and isinstance(item, Record) and not chosen.recognises(item.value):
            known = _recognised(item.value, readers)
            if len(known) == 1 and not chosen.mixes_with(known[0]):
                detail = f"a record of {known[0].name} in a file of {chosen.name}; keep each format in separate files"
                yield Quarantined(item.place, "two_formats", detail)
                continue
        yield item


def _one(record: Record, file: SourceFile, readers: tuple[Reader, ...], limits: Limits) -> Iterator[Item]:
    """A record by itself."""
    known = _recognised(record.value, readers)
    if len(known) > 1:
        yield _two_formats(record.place, known)
    elif known:
        yield from _read(known[0], iter([record]), file, record.place, record.number)
    elif isinstance(record.value, list) and any(isinstance(part, dict) for part in record.value):
        name = f"{file.relative}#{record.number}"  # a list on a line of its own is read like a file of its own
        inner = replace(file, location=record.place, relative=name, members=())
        parts = (Record(f"{record.place}[{i}]", part, i, 0) for i, part in enumerate(record.value))
        yield from _runs(parts, inner, readers, limits)
    else:
        yield _unknown(record.place, record.value, readers)


def _conversation(
    stream: Iterator[Record | Quarantined], file: SourceFile, readers: tuple[Reader, ...], limits: Limits
) -> Iterator[Item]:
    """Messages one by one, which together are one conversation."""
    problems = _Aside()
    try:
        messages = [record.value for record in _sound(stream, problems, limits.document)]
    except Unreadable as problem:
        yield Quarantined(file.location, problem.reason, problem.detail)
        yield from problems
        return
    known = _recognised(messages, readers)
    if not known:
        yield _unknown(file.location, messages[0], readers)
    elif len(known) > 1:
        yield _two_formats(file.location, known)
    else:
        yield from _read(known[0], iter([Record(file.location, messages, 0, 0)]), file, file.location)
    yield from problems


class _Aside:
    """Complaints put aside while records are read together; beyond the first thousand they are only counted."""

    def __init__(self) -> None:
        self._listed: list[Quarantined] = []
        self._more: dict[str, Quarantined] = {}

    def add(self, problem: Quarantined) -> None:
        if len(self._listed) < _ASIDE:
            self._listed.append(problem)
        elif problem.reason in self._more:
            first = self._more[problem.reason]
            self._more[problem.reason] = first._replace(count=first.count + problem.count)
        else:
            self._more[problem.reason] = problem

    def __iter__(self) -> Iterator[Quarantined]:
        yield from self._listed
        for problem in self._more.values():
            others = f" (and {problem.count - 1} more places behind it)" if problem.count > 1 else ""
            yield problem._replace(detail=problem.detail + others)


def _sound(stream: Iterator[Record | Quarantined], problems: _Aside, limit: int | None) -> Iterator[Record]:
    """The records, with the complaints put aside. Raises Unreadable where they are too much to hold together."""
    size = 0
    for item in stream:
        if isinstance(item, Quarantined):
            problems.add(item)
            continue
        size += item.size
        if limit is not None and size > limit:
            raise Unreadable("too_large", f"one session of more than {limit} bytes; it must fit in memory")
        yield item


def _read(
    chosen: Reader, stream: Iterator[Record], file: SourceFile, place: str, number: int | None = None
) -> Iterator[Item]:
    """A reader's runs as Trajectories, its complaints as Quarantined."""
    try:
        if chosen.package is not None:  # read whole before: what storage raises is not the reader's fault
            stream = iter([*stream])
    except Unreadable as problem:
        yield Quarantined(place, problem.reason, problem.detail)
        return
    try:
        for handed_out in chosen.read(stream, file):
            found = handed_out if chosen.package is None else sound(handed_out)
            yield found if isinstance(found, Quarantined) else _trajectory(found, chosen, file, number)
    except Unreadable as problem:
        yield Quarantined(place, problem.reason, problem.detail)
    except Exception as error:
        # Readers check what they are shown; this is the net below them, and it says that it was needed.
        if chosen.package is None and not isinstance(error, _MISTAKES):
            raise
        whom = "please report this file" if chosen.package is None else "please tell who wrote that package"
        detail = f"the reader {shown(chosen)} failed ({type(error).__name__}: {error!s:.200}); {whom}"
        yield Quarantined(place, "reader_failed", detail)


def _trajectory(run: Run, chosen: Reader, file: SourceFile, number: int | None) -> Item:
    if not any(message["role"] == "assistant" for message in run.request["messages"]):
        return Quarantined(run.place, "no_assistant_message", f"{chosen.name}: the assistant never says anything")
    try:
        for part in _structured(run.request):
            dumps(part)
    except Unreadable as problem:
        return Quarantined(run.place, problem.reason, problem.detail)
    where = file.path_in_source
    name = run.run_id or (
        f"{where}#{run.local_id}" if run.local_id else where if number is None else f"{where}#{number}"
    )
    return Trajectory(
        external_id=_clean(name),
        protocol=run.protocol,
        request=run.request,
        reader=chosen.tag,
        task=_clean(run.task) if run.task else None,
        domain=_clean(run.domain) if run.domain else None,
        reward=run.reward if run.reward is not None and abs(run.reward) < float("inf") else None,
        only_session=run.only_session,
    )


def _structured(request: Json) -> Iterator[Any]:
    """The parts of a request that may be nested too deep to be written as JSON again, and so could not be stored.

    Texts need no look: parsing has refused what is no Unicode, and arguments were written out when they were read.
    """
    yield from (value for key, value in request.items() if key != "messages")
    yield from [message["content"] for message in request["messages"] if type(message["content"]) is list]


def _clean(name: str) -> str:
    """Return an id that every database can hold: without control characters or half surrogates, and not endless."""
    if name.isprintable() and len(name) <= _LONGEST_ID:
        return name
    printable = "".join(c if c.isprintable() else f"%{ord(c):02x}" for c in name)
    if len(printable) <= _LONGEST_ID:
        return printable
    digest = hashlib.sha256(printable.encode()).hexdigest()[:16]
    return f"{printable[: _LONGEST_ID - len(digest) - 1]}~{digest}"


def _unique(trajectory: Trajectory, names: dict[str, int]) -> Trajectory:
    """The trajectory under a name that is unique in its file: repeated ids are numbered in the file's order.

    `names` has, for every name given so far, the highest number that was tried behind it.
    """
    base = name = trajectory.external_id
    while name in names:
        names[base] += 1
        name = f"{base}~{names[base]}"
    names[name] = 1
    return trajectory if name == base else replace(trajectory, external_id=name)


def _recognised(value: Any, readers: tuple[Reader, ...]) -> tuple[Reader, ...]:
    """Return every reader that knows a record. All are asked: of two that do, neither is trusted."""
    return tuple(reader for reader in readers if reader.recognises(value))


def _two_formats(place: str, known: tuple[Reader, ...]) -> Quarantined:
    names = " and ".join(reader.name for reader in known)
    detail = f"it could be {names}; say which with --format, and please report this file"
    return Quarantined(place, "two_formats", detail)


def _unknown(place: str, value: Any, readers: tuple[Reader, ...]) -> Quarantined:
    """Say what was seen, and what would have been known; for a format that is known but not read, what to do."""
    if told := unread_formats.advice(value):
        return Quarantined(place, "unknown_format", told)
    if isinstance(value, dict):
        keys = [str(key)[:40] for key in value]
        seen = f"an object with the keys {', '.join(keys[:20])}{', ...' if len(keys) > 20 else ''}"
    else:
        seen = f"a {type(value).__name__}" if not isinstance(value, list) else "a list"
    if failed := failure_on(value, readers):
        return Quarantined(place, "reader_failed", f"{seen}, which no other reader knows; {failed}")
    return Quarantined(place, "unknown_format", f"{seen}; known are {', '.join(reader.name for reader in readers)}")
