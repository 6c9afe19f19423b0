"""The two forms of a feature file: a list of values where it is small, a column for each where it is not."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import ArtifactCorrupt
from drsr.offline.featurize import files as feature_files
from drsr.offline.featurize.files import KEYS, SMALL, VALUES, FeatureBlock, columns_of, matrix_of, read_file, write_file
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.stored_examples import LAYOUT, columns, identity

VIEW = RegisteredView(1, "default", 1, identity(), tuple(columns(5)))
NAMES = [column.name for column in VIEW.columns]


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path))


def blocks(counts: list[int], seed: int = 0) -> list[FeatureBlock]:
    """States with so many candidates."""
    draw = np.random.default_rng(seed)
    return [
        FeatureBlock(f"state {number}", f"prefix {number}", LAYOUT, draw.normal(size=(count, 5)).astype(np.float32))
        for number, count in enumerate(counts)
    ]


def parquet(artifacts: ArtifactStore, blob: str) -> pyarrow.Table:
    return pyarrow.parquet.read_table(io.BytesIO(artifacts.get(blob)))


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=2 * SMALL))
def test_what_is_read_is_what_was_written(counts: list[int]) -> None:
    artifacts = ArtifactStore("memory://feature-files")
    written = blocks(counts)
    rows = read_file(artifacts, VIEW, write_file(artifacts, VIEW, written))
    assert rows.matrix.tobytes() == np.concatenate([block.matrix for block in written]).tobytes()
    assert rows.state_keys == [block.state_key for block in written for _ in block.matrix]
    assert rows.prefix_hashes == [block.prefix_hash for block in written for _ in block.matrix]
    assert rows.candidates.tolist() == [candidate for count in counts for candidate in range(count)]


def test_small_files_hold_lists_and_others_columns_with_names(artifacts: ArtifactStore) -> None:
    small, large = blocks([3] * (SMALL - 1)), blocks([3] * SMALL)
    assert parquet(artifacts, write_file(artifacts, VIEW, small)).column_names == [*KEYS, VALUES]
    table = parquet(artifacts, write_file(artifacts, VIEW, large)).to_pandas()
    assert list(table.columns) == [*KEYS, *NAMES]
    assert table[NAMES[2]].tolist() == np.concatenate([block.matrix for block in large])[:, 2].tolist()


def test_a_small_file_of_before_with_columns_is_read(artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    written = blocks([3, 4])
    now = write_file(artifacts, VIEW, written)
    monkeypatch.setattr(feature_files, "SMALL", 0)
    before = write_file(artifacts, VIEW, written)
    assert parquet(artifacts, before).column_names == [*KEYS, *NAMES]
    old, new = read_file(artifacts, VIEW, before), read_file(artifacts, VIEW, now)
    assert old.matrix.tobytes() == new.matrix.tobytes()
    assert old.state_keys == new.state_keys


@pytest.mark.parametrize(
    "values",
    [
        pyarrow.array([[1.0] * 6] * 2, pyarrow.list_(pyarrow.float32(), 6)),
        pyarrow.array([[1.0] * 5] * 2, pyarrow.list_(pyarrow.float32())),
        pyarrow.array([[1.0] * 5] * 2, pyarrow.list_(pyarrow.float64(), 5)),
        pyarrow.array([[1.0] * 5, None], pyarrow.list_(pyarrow.float32(), 5)),
    ],
    ids=["more values", "of any length", "other numbers", "none at all"],
)
def test_other_lists_are_other_columns(artifacts: ArtifactStore, values: pyarrow.Array) -> None:
    good = parquet(artifacts, write_file(artifacts, VIEW, blocks([2])))
    table = good.drop_columns(VALUES).append_column(VALUES, values)
    assert columns_of(table, NAMES) == [*KEYS, VALUES]
    assert np.isnan(matrix_of(table, NAMES)).all()
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream)
    with pytest.raises(ArtifactCorrupt, match="other columns than its view"):
        read_file(artifacts, VIEW, artifacts.put(stream.getvalue()))


def test_a_value_that_is_missing_in_a_list_is_not_a_number(artifacts: ArtifactStore) -> None:
    good = parquet(artifacts, write_file(artifacts, VIEW, blocks([1])))
    values = pyarrow.array([[1.0, None, 3.0, 4.0, 5.0]], pyarrow.list_(pyarrow.float32(), 5))
    matrix = matrix_of(good.drop_columns(VALUES).append_column(VALUES, values), NAMES)
    assert np.isnan(matrix).tolist() == [[False, True, False, False, False]]
