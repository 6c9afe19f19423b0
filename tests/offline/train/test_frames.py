"""Frames from the store against the slow obvious join; who may read which split; what is refused."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from drsr.errors import (
    ArtifactCorrupt,
    FeaturesMissing,
    FeatureViewError,
    FrameError,
    LabelersMixed,
    LayoutMismatch,
    OneClassOnly,
    SettingsError,
    SplitRefused,
)
from drsr.features.vectors import CandidateFeatures
from drsr.offline.catalog import feature_tables
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, SplitRead
from drsr.offline.catalog.label_tables import Labeler
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.records import FeatureExclusion, FeaturizedState, prepare_features
from drsr.offline.featurize.upkeep import ENOUGH, forget_lost, merge_small_files
from drsr.offline.featurize.views import register_view
from drsr.offline.ingest.splits import Split
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.examples import ExampleFrame, TrainingFrame, assemble
from drsr.offline.train.frames import get_training_frame, labeler_hash
from tests.offline import frames
from tests.offline.stored_examples import (
    LABELER,
    LAYOUT,
    Rows,
    columns,
    featurized_row,
    identity,
    record,
    state_key,
    store_examples,
)


def made_up(split: Split, trajectories: int = 6, **options: Any) -> Rows:
    return Rows(*frames.rows(split, trajectories, **options))


def slow_twin(split: Split, rows: Rows) -> TrainingFrame | ExampleFrame:
    """The same frame joined one row at a time, in the frame's order: by run, then by decision."""
    order = sorted(range(len(rows.states)), key=lambda number: (rows.states[number].trajectory_id, number))
    renamed = {state.state_id: state_key(state) for state in rows.states}
    states = [
        rows.states[number]._replace(
            state_id=renamed[rows.states[number].state_id], trajectory_id=f"made-up/{rows.states[number].trajectory_id}"
        )
        for number in order
    ]
    place = {state.state_id: number for number, state in enumerate(states)}
    labels = [label._replace(state_id=renamed[label.state_id], labeler=labeler_hash(LABELER)) for label in rows.labels]
    labels.sort(key=lambda label: (place[label.state_id], label.mask))
    features = {
        renamed[name]: found._replace(layout_hash=LAYOUT) for name, found in rows.features.items() if name in renamed
    }
    kind = ExampleFrame if split == "test" else TrainingFrame
    return assemble(kind, split, LAYOUT, states, labels, features)


def assert_equal(one: ExampleFrame, other: ExampleFrame) -> None:
    for field in dataclasses.fields(ExampleFrame):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype, field.name
            assert np.array_equal(mine, theirs), field.name
        else:
            assert mine == theirs, field.name


def reads(catalog: Catalog) -> list[tuple[Any, ...]]:
    fields = (SplitRead.split, SplitRead.purpose, SplitRead.states, SplitRead.labels, SplitRead.excluded)
    with catalog.reading() as connection:
        return [tuple(row) for row in connection.execute(select(*fields).order_by(SplitRead.id))]


@pytest.mark.parametrize(
    ("split", "purpose"), [("train", "train"), ("validation", "train"), ("validation", "calibrate")]
)
def test_a_frame_is_the_slow_join_and_its_read_is_recorded(
    catalog: Catalog, artifacts: ArtifactStore, split: Split, purpose: Literal["train", "calibrate"]
) -> None:
    rows = made_up(split)
    store_examples(catalog, artifacts, split, rows, files=3)
    frame = get_training_frame(catalog, artifacts, split=split, purpose=purpose)
    assert type(frame) is TrainingFrame
    assert_equal(frame, slow_twin(split, rows))
    assert not frame.protocol_safe.all(), "some sets break the protocol, or nothing is compared"
    assert reads(catalog) == [(split, purpose, len(rows.states), len(rows.labels), 0)]


def test_the_test_split_is_read_by_evaluation_alone(catalog: Catalog, artifacts: ArtifactStore) -> None:
    rows = made_up("test")
    store_examples(catalog, artifacts, "test", rows)
    for purpose in ("train", "calibrate"):
        with pytest.raises(SplitRefused, match=f"cannot be read to {purpose}"):
            get_training_frame(catalog, artifacts, split="test", purpose=purpose)
    assert reads(catalog) == [], "a refusal leaves nothing behind"
    frame = get_training_frame(catalog, artifacts, split="test", purpose="evaluate")
    assert type(frame) is ExampleFrame
    assert_equal(frame, slow_twin("test", rows))
    assert reads(catalog) == [("test", "evaluate", len(rows.states), len(rows.labels), 0)]


def test_the_database_itself_refuses_a_test_read_for_training(catalog: Catalog, artifacts: ArtifactStore) -> None:
    view = store_examples(catalog, artifacts, "train", made_up("train"))
    row = {"view_id": view.id, "labeler_id": 1, "split": "test", "states": 1, "labels": 1, "excluded": 0}
    statement = feature_tables.SplitRead.__table__.insert().values(  # type: ignore[attr-defined]
        **row, purpose="train", code_version="0", read_at=func.current_timestamp()
    )
    with pytest.raises(IntegrityError, match="test_is_for_evaluation"), catalog.writing() as connection:
        connection.execute(statement)


def test_a_reader_of_one_split_opens_no_file_of_another(catalog: Catalog, artifacts: ArtifactStore) -> None:
    store_examples(catalog, artifacts, "train", made_up("train"))
    store_examples(catalog, artifacts, "test", made_up("test"))
    with catalog.reading() as connection:
        theirs = connection.execute(select(FeatureFile.blob).where(FeatureFile.split == "test")).scalars().all()
    assert theirs
    for blob in theirs:
        path_of(artifacts, blob).unlink()
    get_training_frame(catalog, artifacts, split="train", purpose="train")
    with pytest.raises(ArtifactCorrupt, match="is missing"):
        get_training_frame(catalog, artifacts, split="test", purpose="evaluate")


def test_superseded_runs_excluded_states_and_other_splits_are_left_out(
    catalog: Catalog, artifacts: ArtifactStore
) -> None:
    rows = made_up("train", states=1)
    view = store_examples(catalog, artifacts, "train", rows, features=False)
    ids = state_ids(catalog)
    computed = [featurized_row(ids, state, rows) for state in rows.states]
    computed[2] = computed[2]._replace(result=FeatureExclusion("non_finite", "hidden_l01_distance is inf"))
    record(catalog, view, prepare_features(artifacts, view, "train", computed))
    with catalog.writing() as connection:  # two versions of one run; the older has labels and features, too
        gone = rows.states[4].trajectory_id
        connection.execute(update(Trajectory).where(Trajectory.external_id == gone).values(superseded_by=2, version=1))
        old = connection.execute(select(Trajectory).where(Trajectory.external_id == gone)).mappings().one()
        newer = dict(old) | {"id": 999, "version": 2, "superseded_by": None, "content_hash": "9" * 64}
        connection.execute(Trajectory.__table__.insert().values(**newer))  # type: ignore[attr-defined]
    frame = get_training_frame(catalog, artifacts, split="train", purpose="train")
    kept = [state for number, state in enumerate(rows.states) if number not in (2, 4)]
    names = {state.state_id for state in kept}
    expected = rows._replace(states=kept, labels=[label for label in rows.labels if label.state_id in names])
    assert_equal(frame, slow_twin("train", expected))
    assert reads(catalog)[0][-1] == 1, "the excluded state is counted"
    with pytest.raises(FrameError, match="there are no labelled states"):
        get_training_frame(catalog, artifacts, split="validation", purpose="train")


def test_labelled_states_without_features_are_an_error_not_a_smaller_frame(
    catalog: Catalog, artifacts: ArtifactStore
) -> None:
    rows = made_up("train")
    view = store_examples(catalog, artifacts, "train", rows, features=False)
    ids = state_ids(catalog)
    computed = [featurized_row(ids, state, rows) for state in rows.states]
    record(catalog, view, prepare_features(artifacts, view, "train", computed[1:]))
    with pytest.raises(FeaturesMissing, match=f"1 of {len(computed)} labelled states have no features") as refusal:
        get_training_frame(catalog, artifacts, split="train", purpose="train")
    assert "drsr featurize" in str(refusal.value)
    assert reads(catalog) == []
    again = prepare_features(artifacts, view, "train", computed)  # another worker was at all of them
    record(catalog, view, again)
    assert_equal(get_training_frame(catalog, artifacts, split="train", purpose="train"), slow_twin("train", rows))


def test_recording_twice_changes_nothing(catalog: Catalog, artifacts: ArtifactStore) -> None:
    rows = made_up("train")
    view = store_examples(catalog, artifacts, "train", rows, files=1)
    ids = state_ids(catalog)
    computed = [featurized_row(ids, state, rows) for state in rows.states]
    changed = with_result(computed[0], matrix=features_of(computed[0]).matrix + 1)
    record(catalog, view, prepare_features(artifacts, view, "train", computed))
    record(catalog, view, prepare_features(artifacts, view, "train", [changed, *computed[1:]]))
    with catalog.reading() as connection:
        assert connection.execute(select(func.count()).select_from(FeatureFile)).scalar_one() == 1
    assert_equal(get_training_frame(catalog, artifacts, split="train", purpose="train"), slow_twin("train", rows))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_files_in_a_bucket(catalog: Catalog, bucket: str) -> None:
    """Any fsspec location will do: here a real S3 server. A file that is gone is found missing, and named."""
    artifacts = ArtifactStore(f"{bucket}/features")
    rows = made_up("train")
    view = store_examples(catalog, artifacts, "train", rows, files=ENOUGH)
    assert merge_small_files(catalog, artifacts, view) == ENOUGH
    assert_equal(get_training_frame(catalog, artifacts, split="train", purpose="train"), slow_twin("train", rows))
    elsewhere = ArtifactStore(f"{bucket}/elsewhere")
    with pytest.raises(ArtifactCorrupt, match="is missing"):
        get_training_frame(catalog, elsewhere, split="train", purpose="train")
    assert forget_lost(catalog, elsewhere, view) == len(rows.states)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_unknown_names_are_refused(catalog: Catalog, artifacts: ArtifactStore) -> None:
    with pytest.raises(FeatureViewError, match="no feature view is called 'default'") as refusal:
        get_training_frame(catalog, artifacts, split="train", purpose="train")
    assert "drsr featurize" in str(refusal.value)
    store_examples(catalog, artifacts, "train", made_up("train"))
    with pytest.raises(FeatureViewError, match="'other'") as refusal:
        get_training_frame(catalog, artifacts, "other", split="train", purpose="train")
    assert "the views are default" in str(refusal.value)
    with pytest.raises(FrameError, match="no labeler is called 'nobody'") as missing:
        get_training_frame(catalog, artifacts, split="train", purpose="train", labeler="nobody")
    assert "the labelers are default" in str(missing.value)
    for options in ({"split": "dev", "purpose": "train"}, {"split": "train", "purpose": "peek"}):
        with pytest.raises(SettingsError, match="is no"):
            get_training_frame(catalog, artifacts, **options)  # type: ignore[call-overload]
    assert reads(catalog) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_labels_of_other_states_than_the_views_are_refused(catalog: Catalog, artifacts: ArtifactStore) -> None:
    store_examples(catalog, artifacts, "train", made_up("train"))
    with catalog.writing() as connection:
        connection.execute(update(Labeler).values(rule_hash="7" * 64))
    with pytest.raises(LabelersMixed, match="measures states of rule_hash"):
        get_training_frame(catalog, artifacts, split="train", purpose="train")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_one_class_is_no_frame_to_fit_on_and_leaves_no_read(catalog: Catalog, artifacts: ArtifactStore) -> None:
    store_examples(catalog, artifacts, "train", made_up("train", harm=lambda features, members: -1.0))
    with pytest.raises(OneClassOnly):
        get_training_frame(catalog, artifacts, split="train", purpose="train")
    assert reads(catalog) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestDamagedFiles:
    """A store file with a wrong hash, cut short, missing, or of another view is a named error."""

    def stored(self, catalog: Catalog, artifacts: ArtifactStore) -> Path:
        store_examples(catalog, artifacts, "train", made_up("train"), files=1)
        with catalog.reading() as connection:
            return path_of(artifacts, connection.execute(select(FeatureFile.blob)).scalar_one())

    def refused(self, catalog: Catalog, artifacts: ArtifactStore, kind: type[Exception], match: str) -> None:
        with pytest.raises(kind, match=match):
            get_training_frame(catalog, artifacts, split="train", purpose="train")
        assert reads(catalog) == []

    def test_missing(self, catalog: Catalog, artifacts: ArtifactStore) -> None:
        self.stored(catalog, artifacts).unlink()
        self.refused(catalog, artifacts, ArtifactCorrupt, r"file .* of feature view default version 1: .*is missing")

    def test_cut_short(self, catalog: Catalog, artifacts: ArtifactStore) -> None:
        path = self.stored(catalog, artifacts)
        path.write_bytes(path.read_bytes()[:-100])
        self.refused(catalog, artifacts, ArtifactCorrupt, "cut short")

    def test_other_bytes(self, catalog: Catalog, artifacts: ArtifactStore) -> None:
        path = self.stored(catalog, artifacts)
        other = path_of(artifacts, artifacts.put(b"something else"))
        path.write_bytes(other.read_bytes())
        self.refused(catalog, artifacts, ArtifactCorrupt, "another hash")

    def test_no_parquet(self, catalog: Catalog, artifacts: ArtifactStore) -> None:
        self.stored(catalog, artifacts)
        self.point_to(catalog, artifacts.put(secrets.token_bytes(100)))
        self.refused(catalog, artifacts, ArtifactCorrupt, "not a Parquet file")

    @pytest.mark.parametrize(
        ("changes", "kind", "match"),
        [
            ({"layout_hash": "8" * 64}, LayoutMismatch, "features of layout 8888"),
            ({"backbone_identity": "8" * 64}, ArtifactCorrupt, "written for another view"),
            ({"renderer_version": "elsewhere"}, ArtifactCorrupt, "written for another view"),
        ],
    )
    def test_of_another_view(
        self, catalog: Catalog, artifacts: ArtifactStore, changes: dict[str, str], kind: type[Exception], match: str
    ) -> None:
        self.stored(catalog, artifacts)
        rows = made_up("train")
        with catalog.writing() as connection:
            other = register_view(connection, "other", identity(**changes), columns(6))
        computed = [featurized_row(state_ids(catalog), state, rows) for state in rows.states]
        if "layout_hash" in changes:
            computed = [with_result(state, layout_hash="8" * 64) for state in computed]
        prepared = prepare_features(artifacts, other, "train", computed)
        assert prepared.blob is not None
        self.point_to(catalog, prepared.blob)
        self.refused(catalog, artifacts, kind, match)

    def test_rows_of_other_tokens(self, catalog: Catalog, artifacts: ArtifactStore) -> None:
        self.stored(catalog, artifacts)
        with catalog.writing() as connection:
            connection.execute(update(feature_tables.StateFeatures).values(prefix_hash="6" * 64))
        self.refused(catalog, artifacts, ArtifactCorrupt, "computed from other tokens")

    def test_too_few_rows(self, catalog: Catalog, artifacts: ArtifactStore) -> None:
        self.stored(catalog, artifacts)
        rows = made_up("train")
        computed = [featurized_row(state_ids(catalog), state, rows) for state in rows.states]
        short = [with_result(state, matrix=features_of(state).matrix[:-1]) for state in computed]
        with catalog.reading() as connection:
            view = register_view_again(connection)
        prepared = prepare_features(artifacts, view, "train", short)
        assert prepared.blob is not None
        self.point_to(catalog, prepared.blob)
        self.refused(catalog, artifacts, ArtifactCorrupt, "has not one row for each")

    def point_to(self, catalog: Catalog, blob: str) -> None:
        with catalog.writing() as connection:
            connection.execute(update(FeatureFile).values(blob=blob))


def features_of(state: FeaturizedState) -> CandidateFeatures:
    assert isinstance(state.result, CandidateFeatures)
    return state.result


def with_result(state: FeaturizedState, **changes: Any) -> FeaturizedState:
    return state._replace(result=features_of(state)._replace(**changes))


def register_view_again(connection: Any) -> Any:
    return register_view(connection, "default", identity(), columns(6))


def state_ids(catalog: Catalog) -> dict[str, int]:
    with catalog.reading() as connection:
        return dict(connection.execute(select(DecisionState.state_key, DecisionState.id)).tuples().all())


def path_of(artifacts: ArtifactStore, blob: str) -> Path:
    assert artifacts.local_root is not None
    return artifacts.local_root / blob[:2] / blob
