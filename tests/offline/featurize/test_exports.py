"""Features exported from one catalog and taken over by another: the same frame, or a named refusal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sqlalchemy import select

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.exports import export_features, import_features
from drsr.offline.featurize.records import FeatureExclusion, prepare_features
from drsr.offline.label.exports import state_ids
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import Imported
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.frames import get_training_frame
from tests.offline import frames
from tests.offline.databases import fresh_database
from tests.offline.stored_examples import Rows, columns, featurized_row, identity, record, state_key, store_examples


class Place(NamedTuple):
    catalog: Catalog
    artifacts: ArtifactStore


@pytest.fixture
def rows() -> Rows:
    return Rows(*frames.rows("train", 6))


@pytest.fixture
def other(tmp_path: Path, rows: Rows) -> Iterator[Place]:
    """A second catalog with the same states and labels, and no features."""
    folder = tmp_path / "other"
    folder.mkdir()
    artifacts = ArtifactStore(str(folder / "artifacts"))
    with fresh_database("sqlite", folder, migrated=True) as url, open_catalog(url) as catalog:
        store_examples(catalog, artifacts, "train", rows, features=False)
        yield Place(catalog, artifacts)


def width(rows: Rows) -> int:
    return int(next(iter(rows.features.values())).values.shape[1])


def frame(place: Place) -> TrainingFrame:
    return get_training_frame(place.catalog, place.artifacts, split="train", purpose="train")


def test_another_catalog_gets_the_same_frame(
    catalog: Catalog, artifacts: ArtifactStore, rows: Rows, other: Place, tmp_path: Path
) -> None:
    store_examples(catalog, artifacts, "train", rows)
    exported = export_features(catalog, artifacts, tmp_path / "out")
    assert exported.states == len(rows.states)
    assert export_features(catalog, artifacts, tmp_path / "out").part is None
    taken = import_features(*other, tmp_path / "out", identity(), columns(width(rows)))
    assert taken == Imported(taken=len(rows.states), there=0, unknown=0)
    again = import_features(*other, tmp_path / "out", identity(), columns(width(rows)))
    assert again == Imported(taken=0, there=len(rows.states), unknown=0)
    mine, theirs = frame(Place(catalog, artifacts)), frame(other)
    assert mine.state_ids == theirs.state_ids
    np.testing.assert_array_equal(mine.features, theirs.features)
    np.testing.assert_array_equal(mine.protocol_safe, theirs.protocol_safe)
    np.testing.assert_array_equal(mine.request_tokens, theirs.request_tokens)


def test_what_cannot_be_had_travels_with_its_reason(
    catalog: Catalog, artifacts: ArtifactStore, rows: Rows, other: Place, tmp_path: Path
) -> None:
    view = store_examples(catalog, artifacts, "train", rows, features=False)
    with catalog.reading() as connection:
        ids = state_ids(connection, [state_key(state) for state in rows.states])
    computed = [featurized_row(ids, state, rows) for state in rows.states]
    computed[0] = computed[0]._replace(result=FeatureExclusion("EmptySpan", "has no token of its own"))
    record(catalog, view, prepare_features(artifacts, view, "train", computed))
    export_features(catalog, artifacts, tmp_path / "out")
    import_features(*other, tmp_path / "out", identity(), columns(width(rows)))
    with other.catalog.reading() as connection:
        excluded = connection.execute(select(StateFeatures).where(StateFeatures.outcome == "excluded")).one()
    assert (excluded.reason, excluded.detail) == ("EmptySpan", "has no token of its own")
    assert len(frame(other).state_ids) == len(rows.states) - 1


def test_another_layout_or_a_changed_byte_is_refused(
    catalog: Catalog, artifacts: ArtifactStore, rows: Rows, other: Place, tmp_path: Path
) -> None:
    store_examples(catalog, artifacts, "train", rows)
    part = tmp_path / "out" / str(export_features(catalog, artifacts, tmp_path / "out").part)
    with pytest.raises(InputError, match="layout_hash"):
        import_features(*other, tmp_path / "out", identity(layout_hash="9" * 64), columns(width(rows)))
    part.write_bytes(part.read_bytes() + b"\0")
    with pytest.raises(ArtifactCorrupt, match="not those it is named by"):
        import_features(*other, tmp_path / "out", identity(), columns(width(rows)))
    with other.catalog.reading() as connection:
        assert connection.execute(select(StateFeatures)).all() == []
