"""The stage `ingest` from files to rows, on both databases."""

from __future__ import annotations

import gc
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest
from sqlalchemy import select

from drsr.errors import CatalogUnreachable, DrsrError, InputError, NothingThere
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import (
    Execution,
    QuarantinedItem,
    Source,
    SourceFile,
    Table,
    Trajectory,
    TrajectoryReward,
)
from drsr.offline.ingest import formats as sources
from drsr.offline.ingest import recorder as recording
from drsr.offline.ingest import records, stage
from drsr.offline.ingest.recorder import IngestSummary
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Quarantined
from drsr.offline.ingest.trajectories import Trajectory as Recorded
from drsr.offline.status import Status, read_status
from drsr.offline.store import claims, remote_files
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.locations import SourceFile as FoundFile
from drsr.offline.store.locations import open_location
from tests.offline.chat_files import LONG_AGO, chat, session, write_corpus, write_json, write_lines, write_text
from tests.offline.logical_content import content_hash_of_catalog

SHARED = Path(__file__).parents[3] / "shared" / "trajectories"


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are young; except where that is what is tested, their stamps are trusted."""
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The relative paths of the files that were opened."""
    names: list[str] = []
    original = FoundFile.open
    monkeypatch.setattr(FoundFile, "open", lambda file: names.append(file.relative) or original(file))  # type: ignore[func-returns-value]
    return names


def status(catalog: Catalog) -> Status:
    return read_status(catalog, None)


def trajectories(catalog: Catalog) -> dict[str, int]:
    """Current ones by source."""
    return {row.source: row.trajectories for row in status(catalog).sources}


def content(catalog: Catalog) -> str:
    with catalog.reading() as connection:
        return content_hash_of_catalog(connection)


def quarantined(catalog: Catalog) -> list[tuple[str, str]]:
    with catalog.reading() as connection:
        query = select(QuarantinedItem.location, QuarantinedItem.reason).order_by(QuarantinedItem.location)
        return list(connection.execute(query).tuples())


def test_everything_is_read_or_quarantined(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "runs")
    summary = ingest(catalog, artifacts, str(folder))
    assert (summary.files, summary.unchanged_files, summary.added, summary.superseded) == (36, 0, 64, 0)
    assert summary.quarantined == {"truncated_json": 1, "empty": 1}
    counted = status(catalog)
    assert trajectories(catalog) == {"broken": 2, "lines": 30, "sessions": 2, "single": 30}
    assert counted.quarantined == {"truncated_json": 1, "empty": 1}
    assert quarantined(catalog) == [
        (f"{folder}/broken/cut.jsonl:2", "truncated_json"),
        (f"{folder}/broken/empty.json", "empty"),
    ]


def test_rows_say_what_the_run_was(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    write_json(tmp_path / "mine" / "a.json", chat(1, steps=4) | {"task": "t-9", "domain": "code", "reward": 0.25})
    ingest(catalog, artifacts, str(tmp_path / "mine"))
    with catalog.reading() as connection:
        row = connection.execute(select(Trajectory.__table__)).one()
        reward = connection.execute(select(TrajectoryReward.reward)).scalar_one()
        source = connection.execute(select(Source.name)).scalar_one()
        file = connection.execute(select(SourceFile.__table__)).one()
    assert (source, row.external_id, row.version, row.protocol) == ("mine", "a.json#run-1", 1, "openai")
    assert (row.task, row.domain, row.group_key, reward) == ("t-9", "code", "task:t-9", 0.25)
    assert (row.messages, row.assistant_messages, row.tool_calls) == (11, 5, 4)
    assert (file.location, file.trajectories, file.quarantined) == (f"{tmp_path}/mine/a.json", 1, 0)
    stored = Recorded.from_json(artifacts.get(row.blob))
    assert stored.content_hash == row.content_hash
    assert stored.request["messages"][1] == chat(1)["messages"][1]


def test_a_second_ingest_opens_no_file_and_changes_nothing(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, opened: list[str]
) -> None:
    folder = write_corpus(tmp_path / "runs")
    ingest(catalog, artifacts, str(folder))
    before = content(catalog)
    opened.clear()
    summary = ingest(catalog, artifacts, str(folder))
    # Only the first file of each folder of one format is opened: it tells whether the folder is a bundle of events.
    assert (summary.files, summary.unchanged_files, summary.added, summary.unchanged) == (36, 36, 0, 0)
    assert len(opened) <= 5
    assert content(catalog) == before


def test_the_same_bytes_read_again_add_nothing(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "runs") / "lines"
    ingest(catalog, artifacts, str(folder))
    before = content(catalog)
    packs = sorted((tmp_path / "artifacts").rglob("*"))
    for path in folder.rglob("*.json*"):
        os.utime(path, (LONG_AGO + 60, LONG_AGO + 60))
    summary = ingest(catalog, artifacts, str(folder))
    assert (summary.unchanged_files, summary.added, summary.superseded, summary.unchanged) == (0, 0, 0, 30)
    assert content(catalog) == before
    assert sorted((tmp_path / "artifacts").rglob("*")) == packs


def test_a_changed_run_supersedes_its_old_version(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "many.jsonl"
    write_lines(path, [chat(1), chat(2), chat(3)])
    ingest(catalog, artifacts, str(path))
    write_lines(path, [chat(1), chat(2, steps=5), chat(3), chat(4)])
    summary = ingest(catalog, artifacts, str(path))
    assert (summary.added, summary.superseded, summary.unchanged) == (1, 1, 2)
    write_lines(path, [chat(1), chat(2), chat(3), chat(4)])
    assert ingest(catalog, artifacts, str(path)).superseded == 1
    with catalog.reading() as connection:
        query = select(Trajectory.version, Trajectory.superseded_by, Trajectory.split).where(
            Trajectory.external_id == "many.jsonl#run-2"
        )
        (first, split), (second, other_split) = [
            ((row.version, row.superseded_by), row.split)
            for row in connection.execute(query.order_by(Trajectory.version))
        ]
    assert (first, second) == ((1, None), (2, 1))
    assert split == other_split


def test_a_mended_file_leaves_the_quarantine(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    path = write_text(tmp_path / "runs" / "a.jsonl", json.dumps(chat(1)) + '\n{"messages": [\n')
    assert ingest(catalog, artifacts, str(path)).quarantined == {"truncated_json": 1}
    write_lines(path, [chat(1), chat(2)])
    assert ingest(catalog, artifacts, str(path)).quarantined == {}
    assert quarantined(catalog) == []


def test_runs_that_share_an_id_are_forks_until_they_get_ids_of_their_own(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    write_text(folder / "a.jsonl", session("same", 1))
    write_text(folder / "b.jsonl", session("same", 2))
    assert ingest(catalog, artifacts, str(folder)).added == 2
    assert ingest(catalog, artifacts, str(folder)).unchanged_files == 2
    write_text(folder / "b.jsonl", session("another", 2))
    assert ingest(catalog, artifacts, str(folder)).added == 1
    assert trajectories(catalog) == {"runs": 3}  # what was recorded as a fork stays, as whatever leaves its file does


def test_a_file_that_changed_a_moment_ago_is_not_trusted(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next change could have the same size and, on a coarse clock, the same time."""
    monkeypatch.setattr(stage, "RACY_SECONDS", 2.0)
    path = write_json(tmp_path / "runs" / "a.json", chat(1), long_ago=False)
    ingest(catalog, artifacts, str(path))
    assert ingest(catalog, artifacts, str(path)).unchanged_files == 0
    later = time.time() + 10
    monkeypatch.setattr(time, "time", lambda: later)
    assert ingest(catalog, artifacts, str(path)).unchanged_files == 0
    assert ingest(catalog, artifacts, str(path)).unchanged_files == 1


def test_a_young_file_with_a_name_that_is_no_unicode_is_not_trusted(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 2.0)
    write_json(tmp_path / "runs" / os.fsdecode(b"gr\xf6sse.json"), chat(1), long_ago=False)
    for _ in range(2):
        assert ingest(catalog, artifacts, str(tmp_path / "runs")).unchanged_files == 0


def test_files_are_read_again_when_readers_change(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_json(tmp_path / "runs" / "a.json", chat(1))
    ingest(catalog, artifacts, str(path))
    assert ingest(catalog, artifacts, str(path), reader="openai_chat").unchanged_files == 0
    assert ingest(catalog, artifacts, str(path)).unchanged_files == 0
    assert ingest(catalog, artifacts, str(path)).unchanged_files == 1
    monkeypatch.setattr(sources, "all_readers", lambda: sources.READERS[1:])
    assert ingest(catalog, artifacts, str(path)).unchanged_files == 0


def test_what_a_reader_refused_is_read_again_by_its_next_version(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        write_json(tmp_path / "runs" / f"{name}.json", chat(ord(name)))
    mended = sources.reader_named("openai_chat")
    refusing = replace(
        mended, version=0, read=lambda found, _: (Quarantined(r.place, "malformed", "no") for r in found)
    )

    def ingested(reader: sources.Reader) -> IngestSummary:
        return ingest(catalog, artifacts, str(tmp_path / "runs"), reader=lambda _: reader)

    assert ingested(refusing).quarantined == {"malformed": 2}
    assert ingested(refusing).unchanged_files == 2
    summary = ingested(mended)
    assert (summary.added, summary.unchanged_files) == (2, 0)
    assert quarantined(catalog) == []
    monkeypatch.setattr(stage, "PACKED_FILES", "packed/3")
    assert ingested(mended).unchanged_files == 0


def test_a_file_that_vanishes_is_quarantined_and_tried_again(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_json(tmp_path / "runs" / "b.json", chat(1))
    write_json(tmp_path / "runs" / "a.json", chat(2))
    original = sources.read

    def vanishing(file: FoundFile, **options: object) -> Iterator[object]:
        if file.relative == "b.json":
            path.unlink()
        return original(file, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(sources, "read", vanishing)
    summary = ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert (summary.added, summary.quarantined) == (1, {"unreadable": 1})
    monkeypatch.setattr(sources, "read", original)
    write_json(path, chat(1))
    assert ingest(catalog, artifacts, str(tmp_path / "runs")).added == 1
    assert quarantined(catalog) == []


def test_storage_that_fails_ends_the_ingest_and_a_rerun_finishes_it(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_corpus(tmp_path / "runs")
    original = sources.read

    def failing(file: FoundFile, **options: object) -> Iterator[object]:
        if file.source == "sessions":
            raise DrsrError("the network is gone")
        return original(file, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(recording, "BATCH_TRAJECTORIES", 10)
    monkeypatch.setattr(sources, "read", failing)
    with pytest.raises(DrsrError, match="the network is gone"):
        ingest(catalog, artifacts, str(folder))
    assert 0 < sum(trajectories(catalog).values()) < 64
    monkeypatch.setattr(sources, "read", original)
    summary = ingest(catalog, artifacts, str(folder))
    assert summary.unchanged_files > 0
    assert sum(trajectories(catalog).values()) == 64


def test_the_collector_is_as_it_was_after_an_ingest(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_json(tmp_path / "runs" / "a.json", chat(1))
    kept: list[int] = []
    ingest(catalog, artifacts, str(path), progress=lambda summary: kept.append(gc.get_freeze_count()))
    assert kept[0] > 10_000
    assert gc.get_freeze_count() == 0

    def failing(*arguments: object, **options: object) -> Iterator[object]:
        raise DrsrError("the network is gone")

    monkeypatch.setattr(sources, "read", failing)
    write_json(path, chat(2))
    with pytest.raises(DrsrError, match="the network is gone"):
        ingest(catalog, artifacts, str(path))
    assert gc.get_freeze_count() == 0


def test_a_file_is_recorded_at_once_where_a_batch_ends_with_it(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a file that holds more than a batch is recorded in pieces."""
    for name in ("a", "b", "c"):
        write_lines(tmp_path / "runs" / f"{name}.jsonl", [chat(number) for number in range(4)])
    monkeypatch.setattr(recording, "BATCH_TRAJECTORIES", 2)
    pieces: list[tuple[str, int, bool]] = []
    original = records.record

    def noting(*arguments: Any) -> Any:
        pieces.extend((part.file.location[-7:], len(part.trajectories), part.is_last) for part in arguments[1])
        return original(*arguments)

    monkeypatch.setattr(records, "record", noting)
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert pieces == [(f"{name}.jsonl", 2, is_last) for name in "abc" for is_last in (False, True)]


def test_the_size_of_batches_does_not_show(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 15 runs in batches of 4, and files without runs in batches of 3: the content is the usual one."""
    folder = write_corpus(tmp_path / "runs")
    monkeypatch.setattr(recording, "BATCH_TRAJECTORIES", 4)
    monkeypatch.setattr(recording, "BATCH_FILES", 3)
    monkeypatch.setattr(stage, "FILES_PER_LOOK_UP", 7)
    seen: list[int] = []
    summary = ingest(catalog, artifacts, str(folder), progress=lambda so_far: seen.append(so_far.added))
    assert summary.added == 64
    assert len(seen) > 64 / 4
    assert seen == sorted(seen)
    in_small_batches = content(catalog)
    monkeypatch.undo()
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)
    for path in folder.rglob("*.json*"):
        os.utime(path, (LONG_AGO + 60, LONG_AGO + 60))
    ingest(catalog, artifacts, str(folder))
    assert content(catalog) == in_small_batches


def test_a_given_source_keeps_files_of_the_same_name_apart(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_json(tmp_path / "runs" / "monday" / "a.json", chat(1))
    write_json(tmp_path / "runs" / "tuesday" / "a.json", chat(2))
    summary = ingest(catalog, artifacts, str(tmp_path / "runs"), source="agent")
    assert (summary.added, summary.quarantined) == (2, {})
    assert trajectories(catalog) == {"agent": 2}


def test_the_same_folder_under_two_names_is_two_sources(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_json(tmp_path / "runs" / "a.json", chat(1))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="one")
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), source="two").added == 1
    assert len(list((tmp_path / "artifacts").rglob("??/*"))) == 1  # the bytes are kept once


@pytest.mark.parametrize(
    ("place", "files"),
    [("{}", 2), ("{}/", 2), ("{}/a.json", 1), ("{}/*.json", 1), ("{}/deep", 1), ("of-{}.json", 1), ("of-{}*", 1)],
)
def test_the_same_names_on_another_day_are_other_runs(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, place: str, files: int
) -> None:
    """They are called as they are where the folder of all days is read."""
    folder, days = tmp_path / "runs", ("2026-11-15", "2026-11-16")
    for number, day in enumerate(days):
        for seed, name in enumerate((f"{day}/a.json", f"{day}/deep/a.json", f"of-{day}.json")):
            write_json(folder / name, chat(10 * number + seed) | {"id": "one"})
    ingest(catalog, artifacts, str(folder), source="all")
    for day in days:
        done = ingest(catalog, artifacts, f"{folder}/{place.format(day)}", source="each", day=day)
        assert (done.added, done.quarantined) == (files, {})
    query = select(Trajectory.external_id).join(Source, Source.id == Trajectory.source_id)
    with catalog.reading() as connection:
        names = {of: set(connection.execute(query.where(Source.name == of)).scalars()) for of in ("all", "each")}
    assert names["each"] < names["all"]


def test_a_run_is_noted_with_what_it_did(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    write_json(tmp_path / "runs" / "a.json", chat(1))
    summary = ingest(catalog, artifacts, str(tmp_path / "runs"))
    with catalog.reading() as connection:
        row = connection.execute(select(Execution.__table__)).one()
    assert (row.stage, row.subject) == ("ingest", str(tmp_path / "runs"))
    assert row.counts == summary.to_json()
    assert isinstance(summary, IngestSummary)
    assert row.finished_at is not None


def test_an_unknown_reader_or_place_is_refused(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no reader is called 'telepathy'"):
        ingest(catalog, artifacts, str(tmp_path), reader="telepathy")
    with pytest.raises(NothingThere, match="nothing is there"):
        ingest(catalog, artifacts, str(tmp_path / "nowhere"))
    assert status(catalog).runs == []


@pytest.mark.parametrize(("uri", "source"), [("", None), ("  ", None), (".", ""), (".", " ")])
def test_empty_names_are_refused(catalog: Catalog, artifacts: ArtifactStore, uri: str, source: str | None) -> None:
    with pytest.raises(InputError, match="is empty"):
        ingest(catalog, artifacts, uri, source=source)
    assert status(catalog).runs == []


def test_what_the_stage_keeps_itself_is_not_read(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    """The catalog, its side files and the artifacts lie below the folder that is read."""
    write_json(tmp_path / "runs" / "a.json", chat(1))
    write_json(tmp_path / "artifacts-of-others" / "b.json", chat(2))
    write_json(tmp_path / "catalog" / "catalog.sqlite-notes.json", chat(3))
    for _ in range(2):
        summary = ingest(catalog, artifacts, str(tmp_path))
        assert (summary.files, summary.quarantined) == (3, {})
    assert trajectories(catalog) == {"artifacts-of-others": 1, "catalog": 1, "runs": 1}


def test_lost_artifacts_come_back_with_the_next_ingest(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "BATCH_TRAJECTORIES", 10)
    folder = write_corpus(tmp_path / "runs")
    ingest(catalog, artifacts, str(folder))
    before = content(catalog)
    shutil.rmtree(tmp_path / "artifacts")
    summary = ingest(catalog, artifacts, str(folder))
    assert (summary.added, summary.superseded, summary.unchanged) == (0, 0, 64)
    with catalog.reading() as connection:
        for content_hash, blob in connection.execute(select(Trajectory.content_hash, Trajectory.blob)):
            assert Recorded.from_json(artifacts.get(blob)).content_hash == content_hash
    assert content(catalog) == before
    assert ingest(catalog, artifacts, str(folder)).unchanged_files == 36  # and all is as it was


def test_a_lost_pack_costs_only_its_own_files(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    for name in ("a", "b"):
        ingest(catalog, artifacts, str(write_json(tmp_path / "runs" / f"{name}.json", chat(ord(name)))))
    with catalog.reading() as connection:
        query = select(Trajectory.blob).where(Trajectory.external_id.like("a.json%"))
        blob = connection.execute(query).scalar_one()
    pack = blob.partition("@")[2].partition(":")[0]
    (tmp_path / "artifacts" / pack[:2] / pack).unlink()
    summary = ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert (summary.files, summary.unchanged_files) == (2, 1)
    assert artifacts.exists(blob)


def test_awkward_names(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    """Names that a database or an index would choke on."""
    folder = tmp_path / "runs"
    names = ["größe 😀.json", "it's 100%.json", "x" * 250 + ".json", "line\nbreak.json", "a'; DROP TABLE run; --.json"]
    for number, name in enumerate(names):
        write_json(folder / ("deep" * 60) / name, chat(number) | {"id": "y" * 3_000, "task": "z\0" * 3_000})
    os.makedirs(os.fsencode(folder) + b"/bytes")
    with open(os.fsencode(folder) + b"/bytes/\xff\xfe.json", "w") as file:
        json.dump(chat(9), file)
    summary = ingest(catalog, artifacts, str(folder))
    assert (summary.added, summary.quarantined) == (6, {})
    assert ingest(catalog, artifacts, str(folder)).unchanged_files == 6


def test_from_a_bucket_to_a_bucket(catalog: Catalog, tmp_path: Path, bucket: str, opened: list[str]) -> None:
    filesystem = fsspec.filesystem("s3")
    filesystem.put(str(write_corpus(tmp_path / "runs")), f"{bucket}/nightly", recursive=True)
    artifacts = ArtifactStore(f"{bucket}/artifacts")
    assert ingest(catalog, artifacts, f"{bucket}/nightly").added == 64
    assert trajectories(catalog) == {"broken": 2, "lines": 30, "sessions": 2, "single": 30}
    with catalog.reading() as connection:
        blobs = connection.execute(select(Trajectory.blob)).scalars().all()
    assert {Recorded.from_json(artifacts.get(blob)).protocol for blob in blobs} == {"openai"}
    opened.clear()
    assert ingest(catalog, artifacts, f"{bucket}/nightly").unchanged_files == 36
    assert len(opened) <= 5


def test_credentials_reach_neither_catalog_nor_artifacts(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_json(tmp_path / "runs" / "a.json", chat(1))
    write_text(tmp_path / "runs" / "b.jsonl", '{"messages": [')
    handler = partial(QuietHandler, directory=str(tmp_path / "runs"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://me:hunter2@127.0.0.1:{server.server_port}"
        assert ingest(catalog, artifacts, f"{place}/a.json?token=hunter2").added == 1
        assert ingest(catalog, artifacts, f"{place}/b.jsonl?token=hunter2").quarantined == {"truncated_json": 1}
        server.shutdown()
    with catalog.reading() as connection:
        everything = str([connection.execute(select(table)).all() for table in Table.metadata.sorted_tables])
        (blob,) = connection.execute(select(Trajectory.blob)).scalars()
    assert "a.json" in everything
    assert "hunter2" not in everything
    assert b"hunter2" not in artifacts.get(blob)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: a test's output is for its failures."""


def test_the_counts_per_source(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    """Of the recorded corpus, as its README has them; where it is absent, of the written one."""
    expected = {"broken": 2, "lines": 30, "sessions": 2, "single": 30}
    if SHARED.is_dir():
        expected = {
            "inspect-log": 1,
            "moatless-tools": 6,
            "openhands-v0": 3,
            "pi-coding-agent": 1,
            "swe-agent-demos": 22,
            "swe-agent-v0": 20,
            "tau-bench": 200,
            "tau2-bench": 20,
        }
    ingest(catalog, artifacts, str(SHARED if SHARED.is_dir() else write_corpus(tmp_path / "runs")))
    found = {source: count for source, count in trajectories(catalog).items() if count}  # a README lies beside them
    assert found == expected
    with catalog.reading() as connection:
        groups = select(Trajectory.group_key, Trajectory.split).join(Source).where(Source.name == "tau-bench")
        in_splits = connection.execute(groups.distinct()).all()
    assert len(in_splits) == (50 if SHARED.is_dir() else 0)  # four trials of a task, in one split


def test_small_objects_are_fetched_by_several_threads(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of their names, and what is read is what a folder gives."""
    for seed in range(40):
        write_json(tmp_path / "runs" / f"{seed:02}.json", chat(seed))
    fsspec.filesystem("s3").put(str(tmp_path / "runs"), f"{bucket}/runs", recursive=True)
    lock, at_once, most = threading.Lock(), 0, 0
    fetch = remote_files._bytes_of

    def counted(file: FoundFile) -> bytes:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        try:
            return fetch(file)
        finally:
            with lock:
                at_once -= 1

    monkeypatch.setattr(remote_files, "_bytes_of", counted)
    assert ingest(catalog, artifacts, f"{bucket}/runs").added == 40
    assert 1 < most <= remote_files.AT_ONCE
    assert ingest(catalog, artifacts, str(tmp_path / "runs")).unchanged == 40


def test_an_object_that_goes_while_others_are_fetched_is_named(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed))
    filesystem = fsspec.filesystem("s3")
    filesystem.put(str(tmp_path / "runs"), f"{bucket}/runs", recursive=True)
    listed = list(open_location(f"{bucket}/runs"))
    filesystem.rm(f"{bucket}/runs/1.json")
    monkeypatch.setattr(stage, "open_location", lambda uri, hidden: iter(listed))
    summary = ingest(catalog, artifacts, f"{bucket}/runs")
    assert (summary.added, summary.quarantined) == (2, {"unreadable": 1})


def test_hidden_names_are_counted(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    for name in ("a.json", ".b.json", ".git/c.json", "deep/.d.json"):
        write_json(tmp_path / "runs" / name, chat(len(name)))
    summary = ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert (summary.added, summary.hidden) == (1, 3)


def test_storage_that_fails_on_the_way_ends_it_and_blames_no_file(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording is compared with one that is stored, and the store does not answer."""
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))  # which would remember what was compared before
    run = chat(1, steps=9) | {"id": "first"}
    write_json(tmp_path / "runs" / "1.json", run)
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    again = {
        **run,
        "id": "second",
        "messages": [*run["messages"][:-1], {"role": "assistant", "content": "another end"}],
    }
    write_json(tmp_path / "runs" / "2.json", again)

    def away(key: str) -> bytes:
        asked.append(key)
        raise CatalogUnreachable("no answer", passing=True)

    asked: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "get", away)
        with pytest.raises(CatalogUnreachable, match="no answer"):
            ingest(catalog, artifacts, str(tmp_path / "runs"))
    assert asked
    assert quarantined(catalog) == []
    assert ingest(catalog, artifacts, str(tmp_path / "runs")).added == 1


def test_a_second_ingest_of_the_same_place_waits_and_finds_nothing_new(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(6):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed))
    numbers = iter(range(10))
    monkeypatch.setattr(claims, "this_worker", lambda: f"host-{next(numbers)}/1/1")
    together, summaries = threading.Barrier(3), []

    def work() -> None:
        together.wait()
        summaries.append(ingest(catalog, artifacts, str(tmp_path / "runs")))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((one.added, one.unchanged_files) for one in summaries) == [(0, 6), (0, 6), (6, 0)]
