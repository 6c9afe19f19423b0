"""Statistics of columns against numpy on all rows at once; the read of every split is recorded."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sqlalchemy import delete, select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead, StateFeatures
from drsr.offline.featurize.column_statistics import column_statistics, statistics_text
from drsr.offline.ingest.splits import Split
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline import frames
from tests.offline.stored_examples import Rows, store_examples

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def large(generator: np.random.Generator, count: int) -> np.ndarray:
    """A constant column, one of large numbers with small differences, and an ordinary one."""
    values = generator.normal(size=(count, 3))
    return np.stack([np.full(count, 7.5), 1e5 + values[:, 1], values[:, 2]], axis=1).astype(np.float32)


def shifted(generator: np.random.Generator, count: int) -> np.ndarray:
    return large(generator, count) + np.array([0.5, 0, 3], dtype=np.float32)


def test_against_all_rows_at_once(catalog: Catalog, artifacts: ArtifactStore) -> None:
    stored: dict[str, np.ndarray] = {}
    for split in SPLITS:
        rows = Rows(*frames.rows(split, 10, draw=shifted if split == "test" else large))
        store_examples(catalog, artifacts, split, rows, files=4)
        stored[split] = np.concatenate([found.values for found in rows.features.values()]).astype(np.float64)
    found = column_statistics(catalog, artifacts)
    assert [split.split for split in found.splits] == list(SPLITS)
    train = stored["train"]
    for one in found.splits:
        values = stored[one.split]
        assert one.rows == len(values)
        assert (one.excluded, one.waiting, one.missing) == (0, 0, 0)
        np.testing.assert_array_equal(one.minimum, values.min(axis=0))
        np.testing.assert_array_equal(one.maximum, values.max(axis=0))
        np.testing.assert_allclose(one.mean, values.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(one.deviation, values.std(axis=0), rtol=1e-9, atol=1e-12)
        assert one.constant.tolist() == [True, False, False]
        expected = np.abs(values.mean(axis=0) - train.mean(axis=0))[1:] / train.std(axis=0)[1:]
        np.testing.assert_allclose(found.drift(one)[1:], expected, rtol=1e-9, atol=1e-12)
        if one.split != "train":
            np.testing.assert_array_equal(one.below, (values < train.min(axis=0)).sum(axis=0))
            np.testing.assert_array_equal(one.above, (values > train.max(axis=0)).sum(axis=0))
    test = found.splits[2]
    assert found.drift(test)[0] == np.inf, "constant in train, and another constant in test"
    assert found.drift(test)[2] > 2
    shown = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert shown["splits"][2]["columns"]["feature_0000"]["drift"] is None
    assert shown["splits"][2]["columns"]["feature_0000"]["above_train"] == test.rows
    with catalog.reading() as connection:
        reads = connection.execute(select(SplitRead.split, SplitRead.purpose, SplitRead.labels)).all()
    assert [tuple(read) for read in reads] == [(split, "describe", 0) for split in SPLITS]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_states_without_features_are_counted_as_missing(catalog: Catalog, artifacts: ArtifactStore) -> None:
    rows = Rows(*frames.rows("train", 4))
    store_examples(catalog, artifacts, "train", rows)
    with catalog.writing() as connection:
        gone = connection.execute(select(StateFeatures.state_id).limit(1)).scalar_one()
        connection.execute(delete(StateFeatures).where(StateFeatures.state_id == gone))
    (train,) = column_statistics(catalog, artifacts).splits
    assert (train.states, train.waiting) == (len(rows.states) - 1, 1)
    assert train.missing in (3, 4)
    assert train.rows + train.missing == sum(len(state.candidate_savings) for state in rows.states)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_as_a_table(catalog: Catalog, artifacts: ArtifactStore) -> None:
    view = store_examples(catalog, artifacts, "validation", Rows(*frames.rows("validation", 4, draw=large)))
    alone = column_statistics(catalog, artifacts)
    assert np.isnan(alone.drift(alone.splits[0])).all(), "nothing to compare with"
    assert "validation" in statistics_text(alone)
    store_examples(catalog, artifacts, "train", Rows(*frames.rows("train", 4, draw=large)))
    text = statistics_text(column_statistics(catalog, artifacts))
    assert f"feature view default version {view.version}: 3 columns" in text
    assert "constant in train: feature_0000" in text
    assert "drift from train" in text
    with catalog.writing() as connection:
        connection.execute(delete(StateFeatures))
    assert "no features are stored yet" in statistics_text(column_statistics(catalog, artifacts))
