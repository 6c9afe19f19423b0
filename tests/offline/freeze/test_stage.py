"""The freeze stage on both databases: what it records, that it records it once, and what becomes stale."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import AlignmentError, ArtifactCorrupt
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import Candidate, DecisionState, FrozenTrajectory, Trajectory
from drsr.offline.freeze import stage
from drsr.offline.freeze.rows import TrajectoryItem, load_states
from drsr.offline.freeze.stage import FreezeSummary, freeze, freezing_rule
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.status import read_status
from drsr.offline.store import claims
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.remote_files import AT_ONCE
from drsr.request.contracts import TokenIds
from drsr.request.view import Caps
from tests.offline.chat_files import chat, write_json
from tests.offline.logical_content import content_hash_of_catalog

TOKENIZER = ScriptedTokenizer()
CAPS = Caps(10_000, 1_000)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Runs of 2 to 9 Steps and an answer, one of them with a message that no request has."""
    for seed in range(8):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=2 + seed))
    return tmp_path / "runs"


def run(catalog: Catalog, artifacts: ArtifactStore, corpus: Path, **options: Any) -> FreezeSummary:
    ingest(catalog, artifacts, str(corpus), source="runs")
    return freeze(catalog, artifacts, TOKENIZER, CAPS, **options)


class SlowStorage:
    """A store in memory that, once it is slow, answers nobody before so many have asked at once."""

    def __init__(self) -> None:
        self.store = ArtifactStore("memory://slow-storage")
        self.real = self.store._filesystem
        self.asked: threading.Barrier | None = None
        self.forgotten: set[str] = set()
        self.store._filesystem = self

    def cat_file(self, path: str, **part: Any) -> bytes:
        if self.asked is not None:
            self.asked.wait()
        if path.rpartition("/")[2] in self.forgotten:
            raise FileNotFoundError(path)
        found: bytes = self.real.cat_file(path, **part)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_slow_storage_is_asked_for_many_runs_at_once(catalog: Catalog, tmp_path: Path) -> None:
    """And where it forgets a file, the runs of that file wait, and the others are frozen."""
    slow = SlowStorage()
    for folder in ("first", "second"):
        for number in range(AT_ONCE):
            write_json(tmp_path / folder / f"{folder}-{number}.json", chat(len(folder) + 100 * number, steps=5))
        ingest(catalog, slow.store, str(tmp_path / folder), source="runs")
    with catalog.reading() as connection:
        keys = connection.execute(select(Trajectory.blob).order_by(Trajectory.id)).scalars().all()
    first, second = (
        {key.partition("@")[2].partition(":")[0] for key in some} for some in (keys[:AT_ONCE], keys[AT_ONCE:])
    )
    assert len(first) == len(second) == 1, "a pack each"
    slow.asked, slow.forgotten = threading.Barrier(AT_ONCE, timeout=60), first
    frozen = freeze(catalog, slow.store, TOKENIZER, CAPS)
    assert (frozen.frozen, len(frozen.damaged)) == (AT_ONCE, AT_ONCE)
    assert "is missing" in frozen.damaged[0]
    slow.forgotten = set()
    again = freeze(catalog, slow.store, TOKENIZER, CAPS)
    assert (again.frozen, again.damaged) == (AT_ONCE, ())


def test_four_workers_share_it(
    catalog: Catalog, artifacts: ArtifactStore, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_catalog(f"sqlite:///{tmp_path}/alone.sqlite", create=True) as other:
        run(other, artifacts, corpus)
        with other.reading() as connection:
            alone = content_hash_of_catalog(connection)
    monkeypatch.setattr(stage, "BATCH", 2)
    numbers = iter(range(10))
    monkeypatch.setattr(claims, "this_worker", lambda: f"host-{next(numbers)}/1/1")
    ingest(catalog, artifacts, str(corpus), source="runs")
    together, summaries = threading.Barrier(4), []

    def work() -> None:
        together.wait()
        summaries.append(freeze(catalog, artifacts, TOKENIZER, CAPS))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(summary.frozen for summary in summaries) == 8, "each once"
    with catalog.reading() as connection:
        assert content_hash_of_catalog(connection) == alone


def test_states_and_candidates_are_those_of_the_trajectories(
    catalog: Catalog, artifacts: ArtifactStore, corpus: Path
) -> None:
    summary = run(catalog, artifacts, corpus)
    assert summary.frozen == 8
    assert summary.without_states == {"too_few_candidates": 3}  # 2, 3 and 4 Steps before the last decision
    with catalog.reading() as connection:
        blobs = dict(connection.execute(select(Trajectory.id, Trajectory.blob)).tuples().all())
        rows = connection.execute(select(DecisionState).order_by(DecisionState.id)).all()
        candidates = connection.execute(select(Candidate)).all()
    seen = 0
    for trajectory_id, blob in blobs.items():
        frozen = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), TOKENIZER, CAPS)
        mine = [row for row in rows if row.trajectory_id == trajectory_id]
        assert [(row.decision_index, row.ordinal, row.quantile, row.request_hash) for row in mine] == [
            (state.decision, state.ordinal, state.quantile, content_key(state.state.history.request.to_wire()))
            for state in frozen.states
        ]
        for row, state in zip(mine, frozen.states, strict=True):
            there = sorted((c for c in candidates if c.state_id == row.id), key=lambda c: c.position)
            assert [(c.step_index, c.component_index, c.kind, c.direct_saving) for c in there] == [
                (c.block.step, c.block.component, c.block.kind, c.direct_saving) for c in state.state.candidates
            ]
            seen += 1
    assert seen == summary.states == len(rows) > 8


def test_freezing_again_changes_nothing(catalog: Catalog, artifacts: ArtifactStore, corpus: Path) -> None:
    first = run(catalog, artifacts, corpus)
    with catalog.reading() as connection:
        before = content_hash_of_catalog(connection)
    again = freeze(catalog, artifacts, TOKENIZER, CAPS)
    assert again == FreezeSummary(0, 0, {}, first.frozen)
    with catalog.reading() as connection:
        assert content_hash_of_catalog(connection) == before


def test_a_changed_trajectory_leaves_stale_states_behind(
    catalog: Catalog, artifacts: ArtifactStore, corpus: Path
) -> None:
    run(catalog, artifacts, corpus)
    rule = freezing_rule(TOKENIZER, CAPS)
    (before,) = read_status(catalog, rule).sources
    longer = chat(7, steps=11)
    write_json(corpus / "7.json", longer, long_ago=False)
    ingest(catalog, artifacts, str(corpus), source="runs")
    (changed,) = read_status(catalog, rule).sources
    assert (changed.to_freeze, changed.superseded, changed.stale_states) == (1, 1, 3)
    assert freeze(catalog, artifacts, TOKENIZER, CAPS).frozen == 1
    (after,) = read_status(catalog, rule).sources
    assert (after.to_freeze, after.states, after.stale_states) == (0, before.states, 3)


def test_another_cap_is_another_rule(catalog: Catalog, artifacts: ArtifactStore, corpus: Path) -> None:
    first = run(catalog, artifacts, corpus)
    small = Caps(300, 100)
    second = freeze(catalog, artifacts, TOKENIZER, small)
    assert second.frozen == first.frozen
    with catalog.reading() as connection:
        assert len(connection.execute(select(FrozenTrajectory.id)).all()) == 2 * first.frozen
    (row,) = read_status(catalog, freezing_rule(TOKENIZER, small)).sources
    assert row.stale_states == first.states


def test_one_source_only(catalog: Catalog, artifacts: ArtifactStore, corpus: Path, tmp_path: Path) -> None:
    write_json(tmp_path / "other" / "x.json", chat(99, steps=9))
    ingest(catalog, artifacts, str(tmp_path / "other"), source="other")
    assert run(catalog, artifacts, corpus, source="other").frozen == 1
    assert freeze(catalog, artifacts, TOKENIZER, CAPS).frozen == 8


class RefusingTokenizer(ScriptedTokenizer):
    """A double whose vocabulary lacks one word."""

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        if any("unspeakable" in text for text in texts):
            raise AlignmentError("no piece for a word")
        return super().encode_contents(texts)


def test_a_trajectory_that_cannot_be_tokenized_is_told_and_the_others_go_on(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    broken = chat(1, steps=9)
    broken["messages"][4]["content"] += " unspeakable"
    write_json(tmp_path / "runs" / "x.json", broken)
    write_json(tmp_path / "runs" / "y.json", chat(2, steps=9))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    tokenizer = RefusingTokenizer()
    summary = freeze(catalog, artifacts, tokenizer, CAPS)
    assert (summary.frozen, summary.states, summary.without_states) == (2, 3, {"alignment_failure": 1})
    assert read_status(catalog, freezing_rule(tokenizer, CAPS)).without_states == {"alignment_failure": 1}


class IncompleteTokenizer(ScriptedTokenizer):
    """A double that cannot encode one word, and says in which text."""

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        for index, text in enumerate(texts):
            if "unspeakable" in text:
                raise AlignmentError("no piece for a word", content=index)
        return super().encode_contents(texts)


def test_states_before_a_message_that_cannot_be_tokenized_are_frozen(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    broken = chat(1, steps=9)
    broken["messages"][-2]["content"] += " unspeakable"  # the last tool output, before the last answer
    write_json(tmp_path / "runs" / "x.json", broken)
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    summary = freeze(catalog, artifacts, IncompleteTokenizer(), CAPS)
    assert summary == FreezeSummary(1, 3, {}, 0, cut_short=1)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_later_stage_names_the_run_whose_bytes_are_damaged(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_json(tmp_path / "runs" / "x.json", chat(1, steps=9))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    freeze(catalog, artifacts, TOKENIZER, CAPS)
    with catalog.reading() as connection:
        number, blob, split = connection.execute(select(Trajectory.id, Trajectory.blob, Trajectory.split)).one()
    item = TrajectoryItem(number, blob, split, "claim")
    rule = freezing_rule(TOKENIZER, CAPS)
    assert len(load_states(catalog, artifacts, item, TOKENIZER, CAPS, rule)) == 3
    (stored,) = (tmp_path / "artifacts").glob("??/*")
    stored.write_bytes(stored.read_bytes()[:-9])
    with pytest.raises(ArtifactCorrupt, match=r"run runs/x\.json#run-1: artifact .* is cut short"):
        load_states(catalog, artifacts, item, TOKENIZER, CAPS, rule)
