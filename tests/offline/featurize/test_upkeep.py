"""Merging small files changes nothing but their number, however often and by however many."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from drsr.errors import ArtifactCorrupt
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.featurize import upkeep as feature_upkeep
from drsr.offline.featurize.files import SMALL
from drsr.offline.featurize.stored import FeatureReader, stored_states
from drsr.offline.featurize.upkeep import ENOUGH, FULL, _File, _groups, forget_lost, merge_small_files
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.frames import get_training_frame
from tests.offline import frames
from tests.offline.logical_content import content_hash_of_catalog
from tests.offline.stored_examples import Rows, store_examples


def made_up(trajectories: int = 12) -> Rows:
    return Rows(*frames.rows("train", trajectories))


def files(catalog: Catalog) -> list[int]:
    """States per file."""
    with catalog.reading() as connection:
        return sorted(connection.execute(select(FeatureFile.states)).scalars())


def all_features(catalog: Catalog, artifacts: ArtifactStore, view: RegisteredView) -> dict[str, bytes]:
    reader = FeatureReader(artifacts, view)
    with catalog.reading() as connection:
        return {state.state_key: reader.matrix(state).tobytes() for state in stored_states(connection, view)}


def test_merging_keeps_every_row(catalog: Catalog, artifacts: ArtifactStore) -> None:
    rows = made_up()
    view = store_examples(catalog, artifacts, "train", rows, files=12)
    other = store_examples(catalog, artifacts, "test", Rows(*frames.rows("test", 3)), files=3)
    assert other == view
    before = all_features(catalog, artifacts, view)
    frame = get_training_frame(catalog, artifacts, split="train", purpose="train")
    with catalog.reading() as connection:
        content = content_hash_of_catalog(connection)
    assert merge_small_files(catalog, artifacts, view) == 12
    assert files(catalog) == [2, 2, 2, 24], "the three files of the other split are too few, and stay apart"
    assert all_features(catalog, artifacts, view) == before
    merged = get_training_frame(catalog, artifacts, split="train", purpose="train")
    assert np.array_equal(merged.features, frame.features)
    assert merged.state_ids == frame.state_ids
    with catalog.reading() as connection:
        assert content_hash_of_catalog(connection) == content
    assert merge_small_files(catalog, artifacts, view) == 0


def test_several_at_once_merge_once(catalog: Catalog, artifacts: ArtifactStore) -> None:
    view = store_examples(catalog, artifacts, "train", made_up(), files=24)
    before = all_features(catalog, artifacts, view)
    merged: list[int] = []
    threads = [
        threading.Thread(target=lambda: merged.append(merge_small_files(catalog, artifacts, view))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(merged) == 24
    assert files(catalog) == [24]
    assert all_features(catalog, artifacts, view) == before


def test_a_worker_that_dies_before_the_rows_name_the_new_file(
    catalog: Catalog, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = store_examples(catalog, artifacts, "train", made_up(), files=12)
    before = all_features(catalog, artifacts, view)

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(feature_upkeep, "insert_new", die)
        with pytest.raises(KeyboardInterrupt):
            merge_small_files(catalog, artifacts, view)
    assert files(catalog) == [2] * 12
    assert all_features(catalog, artifacts, view) == before
    assert merge_small_files(catalog, artifacts, view) == 12


def test_a_damaged_file_is_named_and_nothing_is_merged(catalog: Catalog, artifacts: ArtifactStore) -> None:
    view = store_examples(catalog, artifacts, "train", made_up(), files=12)
    path = first_file(catalog, artifacts)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ArtifactCorrupt, match=r"cut short[\s\S]*run drsr featurize"):
        merge_small_files(catalog, artifacts, view)
    assert files(catalog) == [2] * 12


def test_what_a_lost_file_held_is_forgotten_and_the_rest_is_not(catalog: Catalog, artifacts: ArtifactStore) -> None:
    view = store_examples(catalog, artifacts, "train", made_up(), files=12)
    assert forget_lost(catalog, artifacts, view) == 0
    first_file(catalog, artifacts).unlink()
    assert forget_lost(catalog, artifacts, view) == 2
    assert files(catalog) == [2] * 11
    with catalog.reading() as connection:
        assert connection.execute(select(func.count()).select_from(StateFeatures)).scalar_one() == 22


def first_file(catalog: Catalog, artifacts: ArtifactStore) -> Path:
    assert artifacts.local_root is not None
    with catalog.reading() as connection:
        blob = connection.execute(select(FeatureFile.blob).order_by(FeatureFile.id).limit(1)).scalar_one()
    return artifacts.local_root / blob[:2] / blob


@given(sizes=st.lists(st.integers(1, FULL - 1), max_size=60))
def test_groups_keep_the_order_and_stay_bounded(sizes: list[int]) -> None:
    files = [_File(number, str(number), size) for number, size in enumerate(sizes)]
    groups = list(_groups(files))
    joined = [file for group in groups for file in group]
    assert joined == files[: len(joined)]
    assert len(files) - len(joined) <= 1, "at most one is left alone"
    assert all(sum(file.states for file in group) < 2 * FULL for group in groups)
    assert all(sum(file.states for file in group) >= FULL for group in groups[:-1])


@given(arrivals=st.lists(st.integers(1, 3), min_size=1, max_size=2_000))
def test_a_row_is_written_again_a_few_times_at_most(arrivals: list[int]) -> None:
    """The rule alone, with a merge after every trajectory, which is more often than any run does it."""
    sizes: list[tuple[int, int]] = []  # states, and how often they were written at most
    for states in arrivals:
        sizes.append((states, 1))
        for lower, upper in ((0, SMALL), (SMALL, FULL)):
            tier = [size for size in sizes if lower <= size[0] < upper]
            if len(tier) >= ENOUGH:
                sizes = [size for size in sizes if not lower <= size[0] < upper]
                sizes.append((sum(size for size, _ in tier), 1 + max(times for _, times in tier)))
    assert max(times for _, times in sizes) <= 14
