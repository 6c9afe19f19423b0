"""List the commands that would give the numbers of a report again, starting from an empty catalog.

Locations are shown without credentials. If no record gives the arguments of a command, a comment says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, select

from drsr.offline import samples
from drsr.offline.bench.harness.results_file import TaskResults
from drsr.offline.bench.replay.file import Replay
from drsr.offline.bench.report.inputs import Asked
from drsr.offline.bench.summarisers.scripted import SCRIPTED
from drsr.offline.bench.trainings import different_trainings
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Execution, Source, SourceFile
from drsr.offline.publish.records import ReleaseRecord, latest_releases
from drsr.redaction import redact

MOST_RELEASES = 1_000
UNKNOWN_SOURCE = "# the catalog does not say where its runs were read from"


class Recorded(NamedTuple):
    """The catalog's record of how it came about."""

    ingested: list[tuple[str, ...]]
    """The words of every `drsr ingest` that read something, oldest first."""
    releases: list[ReleaseRecord]
    """The newest first."""

    def wheel(self, identity: str) -> str:
        """Return where the policy of this identity was published; its identity if it was published elsewhere."""
        for release in self.releases:
            if release.identity == identity:
                return str(Path(release.index_location, "drsr-policy", release.file_name))
        return f"WHEEL-OF-{identity[:12]}"


def read_recorded(catalog: Catalog) -> Recorded:
    with catalog.reading() as connection:
        return Recorded(_ingested(connection), latest_releases(connection, MOST_RELEASES))


def reproduce(
    recorded: Recorded, asked: Asked, judged_runs: Collection[str], replay: Replay | None, tasks: TaskResults | None
) -> list[str]:
    """Return the commands in order. `judged_runs` names the runs of the judged split that have labels."""
    labeler, view = _other("labeler", asked.labeler), _other("view", asked.view)
    frames = [*view, *labeler]
    lines = [_line("drsr", "ingest", *words) for words in recorded.ingested] or [UNKNOWN_SOURCE]
    stages = {"freeze": [], "label": labeler, "featurize": view, "train": frames, "calibrate": frames}
    lines += [_line("drsr", stage, *options) for stage, options in stages.items()]
    if recorded.releases:
        latest = recorded.releases[0]
        lines.append(_line("drsr", "publish", "--index", latest.index_location, "--version", latest.version))
    if replay is not None:
        apart = different_trainings(replay.described)
        lines += [f"# {apart}"] if apart else []
        runs = _which_runs({row.run for row in replay.current}, judged_runs)
        output = [] if asked.replay is None else ["--output", str(asked.replay)]
        lines += [_line(*words, *runs, *output, *frames) for words in _replays(recorded, replay)]
    if tasks is not None:
        output = [] if asked.tasks is None else ["--output", str(asked.tasks)]
        lines += [_line("drsr", "evaluate", *told, *output) for told in tasks.told]
    return [*lines, _line("drsr", "report", *asked.called)]


def _ingested(connection: Connection) -> list[tuple[str, ...]]:
    """Return one command for each location. If all its files have the same source, that name is given: the user may
    have named it."""
    runs = (
        select(Execution.subject, Execution.counts)
        .where(Execution.stage == "ingest", Execution.finished_at.is_not(None))
        .order_by(Execution.id)
    )
    places = {place: (counts or {}).get("day") for place, counts in connection.execute(runs).tuples() if place}
    files = [
        (location, source)
        for location, source in connection.execute(
            select(SourceFile.location, Source.name).join(Source, Source.id == SourceFile.source_id)
        )
    ]
    found: list[tuple[str, ...]] = []
    for place, day in places.items():
        if Path(place).parts[-4:] == samples.CORPUS.parts[-4:]:  # wherever drsr was installed then
            found.append(())  # it is what is read where nothing is said
            continue
        names = {source for location, source in files if location.startswith(_start(place))}
        told = ("--source", *names) if len(names) == 1 else ()
        found.append((place, *told, *(("--day", day) if day else ())))
    return found


def _start(place: str) -> str:
    """Return the common beginning of a location's files: up to the first wildcard, from the root if it is a path."""
    fixed = place.partition("*")[0]
    return fixed if "://" in fixed else str(Path(fixed).absolute())


def _replays(recorded: Recorded, replay: Replay) -> list[list[str]]:
    """Return one command for each summariser; methods without one go with the first."""
    about = replay.about
    summarisers = list(replay.summarisers) or [""]
    found = []
    for summariser in summarisers:
        methods = [note.name for note in replay.described if (note.summariser or summarisers[0]) == summariser]
        words = ["drsr", "evaluate", "--replay", "--split", about["split"], "--window", str(about["window"])]
        words += _summariser(summariser)
        words += ["--policy", recorded.wheel(replay.policy)] if "drsr" in methods else []
        words += ["--ablations"] if any(name.startswith("drsr_") for name in methods) else []
        found.append([*words, "--methods", ",".join(methods)])
    return found


def _which_runs(replayed: Collection[str], judged: Collection[str]) -> list[str]:
    """Return the options that choose these runs: none, their source, a number of them, or both."""
    sources = {run.partition("/")[0] for run in replayed}
    words, rest = [], set(judged)
    if len(sources) == 1 and len({run.partition("/")[0] for run in judged}) > 1:
        words += ["--source", *sources]
        rest = {run for run in judged if run.partition("/")[0] in sources}
    return words if len(replayed) == len(rest) else [*words, "--limit", str(len(replayed))]


def _summariser(name: str) -> list[str]:
    """Return the summariser as `drsr evaluate` takes it; nothing if no summary was requested."""
    if not name:
        return []
    model, _, url = name.rpartition(" at ")
    if url == SCRIPTED:
        return ["--summariser", SCRIPTED]
    return ["--summariser", url, "--summariser-model", model] if model else ["--summariser", "embedded"]


def _other(option: str, value: str) -> list[str]:
    return [] if value == "default" else [f"--{option}", value]


def _line(*words: str) -> str:
    return shlex.join(map(redact, words))
