"""The stage `ingest`: read the trajectories at a location that are new or changed, and record them.

    files of the location -> those that changed -> trajectories -> recorder -> artifact store and catalog

A rerun after a kill skips the files whose stamp was recorded, reads the others from their start, and finds what was
recorded of them unchanged. Every worker reads the files in one order; `catalog/versions.py` says what that decides.
What the stage itself keeps, the catalog's file and the artifact folder, is not read.
"""

from __future__ import annotations

import gc
import hashlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

import drsr
from drsr.errors import CatalogUnreachable, InputError, SettingsError
from drsr.offline.catalog import runs
from drsr.offline.catalog.engine import Catalog, sqlite_path
from drsr.offline.catalog.statements import storable
from drsr.offline.ingest import formats as sources
from drsr.offline.ingest import records
from drsr.offline.ingest.archives import PACKED_FILES
from drsr.offline.ingest.corpus.choice import RunFacts
from drsr.offline.ingest.corpus.task_names import TaskNames
from drsr.offline.ingest.feeds.framework_words import NO_WORDS, WordsOf
from drsr.offline.ingest.feeds.neighbours import Neighbour, Neighbours, Sketch, sketch_of
from drsr.offline.ingest.feeds.redaction import Redaction
from drsr.offline.ingest.formats.reader import Reader
from drsr.offline.ingest.lost_artifacts import LostArtifacts
from drsr.offline.ingest.recorder import IngestSummary, Progress, Recorder
from drsr.offline.ingest.records import ReadFile
from drsr.offline.ingest.splits import Split, assign_split, group_key
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.ingest.versions import ReadTrajectory
from drsr.offline.ingest.withdrawals import erased_names
from drsr.offline.store.artifacts import Artifact, ArtifactStore
from drsr.offline.store.claims import alone
from drsr.offline.store.kept import kept_here
from drsr.offline.store.locations import Hidden, SourceFile, open_location
from drsr.offline.store.remote_files import fetched_ahead
from drsr.redaction import redact as without_credentials

FILES_PER_LOOK_UP = 1_000
"""Files whose stamps are looked up in one query."""
LARGE_RUN = 8 << 20
"""Characters from which a run's bytes are made, hashed and compressed piece by piece and never held at once."""
RACY_SECONDS = 2.0
"""A file changed so shortly before it was read may change again without its time of change showing it."""


class Admitted(NamedTuple):
    """A run that an ingest takes, with what is known of it from elsewhere.

    That is recorded in the catalog beside the run. The bytes stay as they were read: what was measured on a run holds
    whatever the run is called.
    """

    trajectory: Trajectory
    group: str | None = None
    """Group that it must stay together with, if that is more than its task."""
    split: Split | None = None
    """Split of a group that was not seen before, if not the one that its hash gives."""
    task: str | None = None
    """Its task's name across sources, where that is not the one in its own file."""
    domain: str | None = None
    """The kind of work, where that is not the one in its own file."""


Admit = Callable[[str, Trajectory], Admitted | None]
"""Decides for a run of a source whether it is taken; None: it is left out."""
Look = Callable[[str, Trajectory, str | None], None]
"""Is shown every run that is taken: its source, what was read, and the name of its task."""
ReaderOf = Callable[[str], Reader | None]
"""Returns the reader of a source; None where the format of every file is detected."""
RedactOf = Callable[[str], Redaction | None]
"""Returns the rules by which a source's runs are redacted; None where they are stored as they are."""


def _as_read(source: str, trajectory: Trajectory) -> Admitted:
    return Admitted(trajectory)


def _redacted(admit: Admit, redact_of: RedactOf) -> Admit:
    """Let `admit` see every run as it will be stored."""

    def admit_redacted(source: str, trajectory: Trajectory) -> Admitted | None:
        redact = redact_of(source)
        return admit(source, trajectory if redact is None else redact(trajectory))

    return admit_redacted


def _marked(admit: Admit, words_of: WordsOf) -> Admit:
    """Let `admit` see every run with a framework's words marked as history."""
    return lambda source, trajectory: admit(source, words_of(source).marked(trajectory))


def _looked_at(admit: Admit, look: Look | None) -> Admit:
    """Let `look` see every run that `admit` takes."""
    if look is None:
        return admit

    def admit_and_show(source: str, trajectory: Trajectory) -> Admitted | None:
        admitted = admit(source, trajectory)
        if admitted is not None:
            look(source, admitted.trajectory, admitted.task or admitted.trajectory.task)
        return admitted

    return admit_and_show


def admit_named(names: TaskNames) -> Admit:
    """Admit every run under the task, group and split that the tables of a corpus give it."""

    def admit(source: str, trajectory: Trajectory) -> Admitted:
        row = names.find(source, trajectory.external_id, trajectory.task)
        if row is None:
            return Admitted(trajectory)
        group = group_key(source, trajectory.external_id, row.group)
        return Admitted(trajectory, group=group, split=row.split, task=row.task)

    return admit


def admit_chosen(names: TaskNames, chosen: Mapping[tuple[str, str], RunFacts]) -> Admit:
    """Admit the chosen runs of a corpus under their names, and no others."""
    named = admit_named(names)

    def admit(source: str, trajectory: Trajectory) -> Admitted | None:
        run = chosen.get((source, trajectory.external_id))
        admitted = named(source, trajectory) if run else None
        return admitted._replace(domain=run.domain) if run and admitted else None

    return admit


def ingest(
    catalog: Catalog,
    artifacts: ArtifactStore,
    uri: str,
    *,
    source: str | None = None,
    reader: str | ReaderOf | None = None,
    day: str | None = None,
    admit: Admit | None = None,
    admitted_by: str = "",
    look: Look | None = None,
    redact: Redaction | RedactOf | None = None,
    words_of: WordsOf | None = None,
    progress: Progress | None = None,
) -> IngestSummary:
    """Read everything at a location that is new or changed.

    `source` names the origin; by default it is the first folder below the location, or the location's own folder.
    `reader` names the format, or says it of each source; by default it is detected. `day` tells apart locations of
    one source that use the same file names for different runs, such as one folder per day. `admit` leaves runs out, or
    takes them under another task, domain or split; `admitted_by` names its tables, so that files are read again when
    these change. `look` is shown what was understood. `redact` replaces what must not be stored: one for all sources,
    or as it says of each. `words_of` has what a source's framework says in the model's place; files are read again when
    that changes, too.
    """
    if not uri.strip():
        raise InputError("the place to read from is empty", hint="a path, or a URI such as s3://bucket/prefix/")
    if source is not None and not source.strip():
        raise InputError("the name of the source is empty", hint="leave --source out, or give it a name")
    if day is not None and source is None:
        raise InputError(
            "the runs of a day need the name of their source", where=without_credentials(uri), hint="say --source NAME"
        )
    started = time.monotonic()
    reader_of = _reader_of(reader)
    redactions: dict[str, Redaction | None] = {}

    def redact_of(source: str) -> Redaction | None:
        if source not in redactions:
            redactions[source] = redact if redact is None or isinstance(redact, Redaction) else redact(source)
        return redactions[source]

    conditions = f"/{admitted_by}" if admitted_by else ""
    words_of = cache(words_of or (lambda source: NO_WORDS))
    taking = _redacted(_marked(admit or _as_read, words_of), redact_of)
    readers = cache(
        lambda source: (
            _readers_stamp(reader_of(source)) + conditions + _rules_stamp(redact_of(source)) + words_of(source).stamp
        )
    )
    hidden = Hidden()
    chunks = _chunks(_files(uri, source, day, _own_places(catalog, artifacts), hidden), FILES_PER_LOOK_UP)
    first = next(chunks, [])  # a place that cannot be read is refused here, before anything is noted
    with catalog.writing() as connection:
        run_id = runs.start_run(connection, "ingest", without_credentials(uri), drsr.__version__)
        erased = erased_names(connection)
    # Whoever reads the same place at the same time waits, and finds then what did not change since.
    with alone(catalog, "ingest", storable(f"{without_credentials(uri)} {source} {day}")):
        lost = LostArtifacts(catalog, artifacts)
        neighbours = Neighbours(catalog, artifacts, kept_here())
        with _older_objects_kept(), Recorder(catalog, artifacts, progress or (lambda summary: None)) as recorder:
            for files in chain([first], chunks):
                changed = _changed(catalog, files, readers, lost)
                recorder.summary.files += len(files)
                recorder.summary.unchanged_files += len(files) - len(changed)
                for file, read in fetched_ahead(changed):
                    rules = redact_of(file.source)
                    intake = _Intake(read, recorder, lost, neighbours, _looked_at(taking, look), erased, rules)
                    _read(file, intake, reader_of(file.source))
        lost.restore()  # after the recorder, which takes the old keys for good
    summary = recorder.summary
    summary.hidden = hidden.names
    used = {id(one): one.counts for one in redactions.values() if one is not None}
    summary.redacted = dict(sum(used.values(), Counter()))
    summary.seconds = time.monotonic() - started
    with catalog.writing() as connection:
        runs.finish_run(connection, run_id, summary.to_json() | ({} if day is None else {"day": day}))
    return summary


@contextmanager
def _older_objects_kept() -> Iterator[None]:
    """Keep the garbage collector from searching older objects within the block.

    A large document makes the collector go through everything that is not freed yet, and the packages that are loaded
    by now, some 90,000 objects, take longer than the document.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _own_places(catalog: Catalog, artifacts: ArtifactStore) -> tuple[str, ...]:
    """Return the prefixes of drsr's own files on this machine: `drsr ingest .` must not read what it writes."""
    places = [] if artifacts.local_root is None else [f"{artifacts.local_root}{os.sep}"]
    database = sqlite_path(catalog.engine.url)
    if database is not None:
        places.append(str(database))
    absolute = {os.path.abspath(place) + (os.sep if place.endswith(os.sep) else "") for place in places}
    real = {os.path.realpath(place) + (os.sep if place.endswith(os.sep) else "") for place in places}
    return tuple(sorted(absolute | real))


def _is_own(location: str, places: tuple[str, ...]) -> bool:
    if not location.startswith(places):
        return False
    for place in places:
        rest = location.removeprefix(place)
        if rest != location and (place.endswith(os.sep) or rest in ("", "-wal", "-shm", "-journal")):
            return True
    return False


def _files(uri: str, source: str | None, day: str | None, own: tuple[str, ...], hidden: Hidden) -> Iterator[SourceFile]:
    files = (file for file in open_location(uri, hidden=hidden) if not _is_own(file.location, own))
    if day is not None:
        files = (_of_day(file, day) for file in files)
    return sources.gather(files if source is None else (replace(file, source=source) for file in files))


def _of_day(file: SourceFile, day: str) -> SourceFile:
    """The file with the path that it has below the folder of all days: its runs are named as if that one were read."""
    before, found, behind = file.location.removesuffix(file.relative).rpartition(day)
    if found:
        return replace(file, relative=f"{before.rpartition('/')[2]}{day}{behind}{file.relative}")
    return file if day in file.relative else replace(file, relative=f"{day}/{file.relative}")


def _reader_of(reader: str | ReaderOf | None) -> ReaderOf:
    if reader is None or isinstance(reader, str):
        named = None if reader is None else sources.reader_named(reader)
        return lambda source: named
    return reader


def _readers_stamp(reader: Reader | None) -> str:
    """Changes whenever the same bytes might be read differently: files are then read again."""
    tags = " ".join([one.stamp for one in (sources.all_readers() if reader is None else (reader,))] + [PACKED_FILES])
    return f"{drsr.__version__}/{hashlib.sha256(tags.encode()).hexdigest()[:8]}"


def _rules_stamp(redact: Redaction | None) -> str:
    return "" if redact is None else f"/{redact.stamp}"


def _changed(
    catalog: Catalog, files: list[SourceFile], readers: Callable[[str], str], lost: LostArtifacts
) -> list[tuple[SourceFile, ReadFile]]:
    """Those files that must be read; `readers` stamps how a source is read. One query for all of them. A single one
    without runs is: it is named again."""
    locations = [storable(file.location) for file in files]
    with catalog.reading() as connection:
        known = records.known_stamps(connection, locations, with_runs=len(files) == 1)
    changed = []
    for file, location in zip(files, locations, strict=True):
        source = storable(file.source)
        stamp = None if file.fingerprint is None else f"{readers(file.source)} {file.fingerprint}"
        if stamp is None or known.get((source, location)) != stamp or (source, location) in lost.files:
            changed.append((file, ReadFile(source, location, stamp)))
    return changed


class _Intake(NamedTuple):
    """A file that is read, and the recorder of its runs."""

    read: ReadFile
    recorder: Recorder
    lost: LostArtifacts
    neighbours: Neighbours
    admit: Admit
    erased: frozenset[str]
    """Names of runs that must not come back."""
    redact: Redaction | None
    """The rules of its source."""


def _read(file: SourceFile, intake: _Intake, reader: Reader | None) -> None:
    read = intake.read
    if not _has_settled(file):
        read.stamp = None
    intake.recorder.begin(read)
    try:
        _take_runs(file, intake, reader)  # and let go of the last one, before its bytes are written
    except (CatalogUnreachable, SettingsError):  # InputErrors too, and nothing is wrong with this file
        raise
    except InputError as error:
        # It vanished, or is not ours to read. Storage that fails altogether is no InputError and ends the ingest.
        read.quarantine(Quarantined(read.location, "unreadable", f"{error.what}; it will be tried again"))
        read.stamp = None
    intake.recorder.end()


def _take_runs(file: SourceFile, intake: _Intake, reader: Reader | None) -> None:
    for item in sources.read(file, reader=reader):
        if isinstance(item, Quarantined):
            # What is said about it may quote a key or an id of the file.
            detail = item.detail if intake.redact is None else intake.redact.text(item.detail)
            intake.read.quarantine(item._replace(detail=detail))
        elif not _is_erased(item, intake) and (admitted := intake.admit(intake.read.source, item)) is not None:
            _take(admitted, intake)


def _is_erased(trajectory: Trajectory, intake: _Intake) -> bool:
    return f"{intake.read.source}/{storable(trajectory.external_id)}" in intake.erased


def _has_settled(file: SourceFile) -> bool:
    """False where a local file changed a moment ago. Object stores tell contents apart whenever they were written."""
    return file.changed is None or time.time() - file.changed >= RACY_SECONDS


def _take(admitted: Admitted, intake: _Intake) -> None:
    """Hand a trajectory to the recorder. External ids are unique within a file."""
    read, recorder, trajectory = intake.read, intake.recorder, admitted.trajectory
    external_id = storable(trajectory.external_id)
    if _is_erased(trajectory, intake):  # under the name that it has now: redaction may have changed it
        return
    task, domain = admitted.task or trajectory.task, admitted.domain or trajectory.domain
    only_session = task is not None and admitted.task is None and trajectory.only_session
    is_alone = admitted.group is None and (task is None or only_session)
    try:
        sketch = sketch_of(trajectory) if is_alone else None
        if trajectory.characters < LARGE_RUN:
            artifact = Artifact.of(trajectory.to_json())
        else:
            artifact = Artifact.in_pieces(trajectory.json_pieces)
    except TypeError as error:
        detail = f"the run cannot be written as JSON in UTF-8: {error}"
        read.quarantine(Quarantined(f"{read.location}#{external_id}", "not_storable", detail))
        return
    group = storable(admitted.group or group_key(read.source, external_id, task))
    reward = trajectory.reward if trajectory.reward is not None and math.isfinite(trajectory.reward) else None
    facts = {
        "protocol": trajectory.protocol,
        "reader": trajectory.reader,
        "task": None if task is None else storable(task),
        "domain": None if domain is None else storable(domain),
        **sizes(trajectory),
    }
    recorder.summary.without_task += task is None or only_session
    recorder.summary.only_session += only_session
    split = admitted.split or assign_split(group)
    if sketch is not None:
        group, split = _beside_its_like(intake.neighbours, trajectory, sketch, group, split)
    content = ReadTrajectory(external_id, artifact.sha256, group, split, facts, reward)
    intake.lost.offer(artifact)
    recorder.add(content, artifact)


def _beside_its_like(
    neighbours: Neighbours, trajectory: Trajectory, sketch: Sketch, group: str, split: Split
) -> tuple[str, Split]:
    """Return group and split of a run without a named task. Runs of one session keep their own group in any case."""
    near = neighbours.nearest(sketch)
    if near is not None:
        group, split = group if trajectory.task is not None else near.group_key, near.split
    neighbours.add(sketch, Neighbour(group, split))
    return group, split


def sizes(trajectory: Trajectory) -> dict[str, int]:
    """Return how many messages, assistant messages and tool calls a trajectory has."""
    messages = trajectory.request["messages"]
    outputs = [message for message in messages if message["role"] == "assistant"]
    if trajectory.protocol == "openai":
        calls = sum([len(message.get("tool_calls") or ()) for message in outputs])
    else:
        contents = [message["content"] for message in outputs if isinstance(message["content"], list)]
        calls = sum(block["type"] == "tool_use" for content in contents for block in content)
    return {"messages": len(messages), "assistant_messages": len(outputs), "tool_calls": calls}


def _chunks(files: Iterable[SourceFile], size: int) -> Iterator[list[SourceFile]]:
    iterator = iter(files)
    while chunk := list(islice(iterator, size)):
        yield chunk
