"""The distribution of training features: what it sees, where its limit comes from, and when there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drsr.decide.distribution import DistributionNumbers, TrainingDistribution
from drsr.features.layout import Column, ColumnGroup, Unit
from drsr.offline.train.distribution import FEWEST_STATES, INSIDE, SHRINKAGE, fit_distribution
from drsr.offline.train.examples import TrainingFrame
from tests.offline.frames import make_frame

COLUMNS = [Column(f"text_{number}", ColumnGroup.TEXT, Unit.COUNT) for number in range(6)]


def together(generator: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Six columns, of which the second nearly repeats the first and the last never changes."""
    values = generator.normal(size=(count, 6))
    values[:, 1] = values[:, 0] + 0.05 * values[:, 1]
    values[:, 5] = 7
    return values.astype(np.float32)


def fitted(*frames: TrainingFrame, columns: list[Column] = COLUMNS) -> tuple[TrainingDistribution, DistributionNumbers]:
    found = fit_distribution(frames, columns)
    assert found is not None
    return found


def frame(trajectories: int = 60, **options: Any) -> TrainingFrame:
    return make_frame("train", trajectories, draw=together, **options)


def test_it_is_the_shrunk_covariance_of_all_candidates() -> None:
    both = (frame(40), make_frame("validation", 10, draw=together))
    found, numbers = fitted(*both)
    rows = np.concatenate([each.features[each.present] for each in both]).astype(np.float64)
    spread = np.array([column.std() or 1.0 for column in rows.T])
    correlation = np.cov(((rows - rows.mean(axis=0)) / spread).T, bias=True)
    shrunk = (1 - SHRINKAGE) * correlation + SHRINKAGE * np.eye(6)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.precision @ shrunk, np.eye(6), atol=1e-4)
    assert numbers.sha256 == found.sha256
    assert numbers.states == 100


def test_it_sees_what_no_single_column_shows() -> None:
    found, numbers = fitted(frame())
    usual = np.array([[1, 1, 0, 0, 0, 7]], dtype=np.float32)
    broken = np.array([[1, -1, 0, 0, 0, 7]], dtype=np.float32)
    assert not found.distance(usual, numbers.limit).outside
    assert found.distance(broken, numbers.limit).outside
    moved = np.array([[0, 0, 0, 0, 0, 9]], dtype=np.float32)  # a column that never changed
    assert found.distance(moved, numbers.limit).value > 5 * found.distance(usual, numbers.limit).value


def test_about_one_new_state_in_twenty_lies_outside() -> None:
    found, numbers = fitted(frame(200))
    new = frame(400, seed=5)
    outside = [
        found.distance(state[:count], numbers.limit).outside
        for state, count in zip(new.features, new.candidate_counts, strict=True)
    ]
    assert len(outside) == 800
    assert (1 - INSIDE) / 2 < np.mean(outside) < 2 * (1 - INSIDE)


def test_the_same_frames_give_the_same_bytes_and_other_ones_others() -> None:
    found, numbers = fitted(frame())
    again, same = fitted(frame())
    assert (found.data, numbers) == (again.data, same)
    assert fitted(frame(seed=1))[0].data != found.data


def test_only_columns_of_the_text_are_compared() -> None:
    hidden = [*COLUMNS[:4], *(Column(f"hidden_{number}", ColumnGroup.HIDDEN, Unit.COSINE) for number in range(2))]
    assert fitted(frame(), columns=hidden)[0].mean.shape == (4,)
    assert fit_distribution([frame()], [*reversed(hidden)]) is None


@pytest.mark.parametrize(("trajectories", "options"), [(9, {}), (40, {"trials": 10})])
def test_too_few_states_or_tasks_give_none(trajectories: int, options: dict[str, Any]) -> None:
    small = frame(trajectories, **options)
    assert len(small.state_ids) < FEWEST_STATES or len(set(small.group_ids)) < 5
    assert fit_distribution([small], COLUMNS) is None
