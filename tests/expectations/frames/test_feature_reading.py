"""Feature files as they are found, also such as a reader would refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from drsr.errors import ArtifactCorrupt
from drsr.expectations.frames.feature_reading import FROZEN_COLUMNS, FeatureReading
from drsr.offline.store.artifacts import ArtifactStore

NAMES = ["a", "b"]


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path))


def stored(artifacts: ArtifactStore, **columns: list[Any]) -> str:
    """A file with these columns, and two states of two candidates each if nothing else is said."""
    usual: dict[str, list[Any]] = {
        "state_key": ["k1", "k1", "k2", "k2"],
        "candidate": [0, 1, 0, 1],
        "prefix_hash": ["p1", "p1", "p2", "p2"],
        "a": [1.0, 2.0, 3.0, 4.0],
        "b": [5.0, 6.0, 7.0, 8.0],
    }
    kept = {name: values for name, values in (usual | columns).items() if values}
    stream = pyarrow.BufferOutputStream()
    table = pyarrow.table(kept).replace_schema_metadata({"layout_hash": "l1"})
    pyarrow.parquet.write_table(table, stream)
    return artifacts.put(stream.getvalue().to_pybytes())


def test_a_good_file(artifacts: ArtifactStore) -> None:
    reading = FeatureReading(NAMES)
    about = reading.add(artifacts, stored(artifacts), {"k1", "k2"}, sampled={"k1", "k2"})
    assert about == {"other_columns": 0, "layout_hash": "l1"}
    assert reading.rows == {"k1": 2, "k2": 2}
    assert reading.prefixes == {"k1": "p1", "k2": "p2"}
    assert reading.non_finite.tolist() == [0, 0]
    assert reading.sampled == [("k1", 0), ("k1", 1), ("k2", 0), ("k2", 1)]
    np.testing.assert_array_equal(reading.sample, np.array([[1, 5], [2, 6], [3, 7], [4, 8]], dtype=np.float32))


def test_rows_of_other_candidates_than_were_frozen_are_counted(artifacts: ArtifactStore) -> None:
    """Those of place, size and saving that differ, that nobody froze, and that are not there to be compared."""
    names = [*FROZEN_COLUMNS, "b"]
    columns: dict[str, list[Any]] = {name: [1.0, 2.0, 3.0, 4.0] for name in FROZEN_COLUMNS}
    file = stored(artifacts, a=[], **columns)
    frozen = {"k1": np.array([[1.0] * 3, [2.0] * 3]), "k2": np.array([[3.0, 3.0, 3.00001], [4.0] * 3])}

    def others(names: list[str], frozen: dict[str, Any]) -> dict[str, int]:
        reading = FeatureReading(names, frozen)
        reading.add(artifacts, file, {"k1", "k2"})
        return reading.other_candidates

    assert others(names, frozen) == {"k1": 0, "k2": 1}
    assert others(names, {"k1": frozen["k1"][:1]}) == {"k1": 1, "k2": 2}
    assert others(names[1:], frozen) == {"k1": 2, "k2": 2}


@pytest.mark.parametrize(
    ("middle", "end", "others"),
    [(0.25, 1.0, 0), (0.26, 1.0, 1), (0.025, 0.1, 3)],
    ids=["a stretch", "another place between", "closer together than frozen"],
)
def test_places_in_a_view_are_those_of_the_request_stretched(
    artifacts: ArtifactStore, middle: float, end: float, others: int
) -> None:
    """A light view describes the end of a long request as if it were all: its first half is gone here."""
    columns: dict[str, list[Any]] = {name: [1.0] * 3 for name in FROZEN_COLUMNS}
    columns["structural_token_position"] = [0.0, middle, end]
    keys: dict[str, list[Any]] = {"state_key": ["k1"] * 3, "candidate": [0, 1, 2], "prefix_hash": ["p1"] * 3}
    file = stored(artifacts, a=[], b=[], **keys, **columns)
    frozen = {"k1": np.array([[0.5, 1.0, 1.0], [0.625, 1.0, 1.0], [1.0, 1.0, 1.0]])}
    reading = FeatureReading(list(FROZEN_COLUMNS), frozen, of_views=True)
    reading.add(artifacts, file, {"k1"})
    assert reading.other_candidates == {"k1": others}
    plain = FeatureReading(list(FROZEN_COLUMNS), frozen)
    plain.add(artifacts, file, {"k1"})
    assert plain.other_candidates["k1"] >= 2


def test_only_the_states_that_belong_to_the_file_are_looked_at(artifacts: ArtifactStore) -> None:
    """Two workers may have written the same state; the catalog says which file counts."""
    reading = FeatureReading(NAMES)
    reading.add(artifacts, stored(artifacts, a=[1.0, 2.0, float("nan"), 4.0]), {"k1"}, sampled={"k1", "k2"})
    reading.add(artifacts, stored(artifacts), {"k2"})
    assert reading.rows == {"k1": 2, "k2": 2}
    assert reading.non_finite.tolist() == [0, 0]
    assert reading.sampled == [("k1", 0), ("k1", 1)]


def test_what_is_wrong_is_counted(artifacts: ArtifactStore) -> None:
    reading = FeatureReading(NAMES)
    wrong = stored(artifacts, a=[float("inf"), 2.0, float("nan"), 4.0], prefix_hash=["p1", "p9", "p2", "p2"])
    reading.add(artifacts, wrong, {"k1", "k2"}, sampled={"k1", "k2"})
    assert reading.non_finite.tolist() == [2, 0]
    assert reading.prefixes["k1"] == "p1 and p9"


@pytest.mark.parametrize(
    ("columns", "other"), [({"reward": [1.0] * 4}, 1), ({"b": []}, 1), ({"b": [], "reward": [1.0] * 4}, 2)]
)
def test_other_columns(artifacts: ArtifactStore, columns: dict[str, list[Any]], other: int) -> None:
    reading = FeatureReading(NAMES)
    assert reading.add(artifacts, stored(artifacts, **columns), {"k1"}, sampled={"k1", "k2"})["other_columns"] == other
    assert reading.non_finite.tolist() == [0, 2 if columns.get("b") == [] else 0]


def test_columns_in_another_order(artifacts: ArtifactStore) -> None:
    reading = FeatureReading(["b", "a"])
    assert reading.add(artifacts, stored(artifacts), {"k1"}, sampled={"k1", "k2"})["other_columns"] == 1


def test_a_file_that_does_not_say_whose_rows_they_are(artifacts: ArtifactStore) -> None:
    reading = FeatureReading(NAMES)
    assert reading.add(artifacts, stored(artifacts, state_key=[]), {"k1"}, sampled={"k1", "k2"})["other_columns"] == 1
    assert reading.rows == {}


def test_only_those_that_were_asked_for_are_sampled(artifacts: ArtifactStore) -> None:
    reading = FeatureReading(NAMES)
    reading.add(artifacts, stored(artifacts), {"k1", "k2"}, sampled={"k2", "k3"})
    assert reading.sampled == [("k2", 0), ("k2", 1)]
    np.testing.assert_array_equal(reading.sample, np.array([[3, 7], [4, 8]], dtype=np.float32))


def test_what_is_no_feature_file(artifacts: ArtifactStore) -> None:
    with pytest.raises(ArtifactCorrupt, match="is not a Parquet file"):
        FeatureReading(NAMES).add(artifacts, artifacts.put(b"hello"), {"k1"}, sampled={"k1", "k2"})
