"""Fit the distribution of the features that a policy knows, and the distance from which a request is unlike them.

The limit comes from states that were left out of the fit with their whole group: the distances of the very states that
a covariance was fitted on are far too small.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drsr.decide.distribution import DistributionNumbers, TrainingDistribution
from drsr.features.layout import Column, ColumnGroup
from drsr.offline.train.examples import ExampleFrame

SHRINKAGE = 0.1
"""Share of the correlation between columns that is removed: without it, columns that are nearly the same would turn any
small difference between them into a great distance."""
INSIDE = 0.95
"""Share of the training states that counts as inside."""
FOLDS = 5
FEWEST_STATES = 20
"""Fewer give no twentieth to leave outside."""
_DIGITS = 6
"""Decimals that are kept: libraries add up in different orders, and the same frames must give the same bytes."""


def fit_distribution(
    frames: Sequence[ExampleFrame], columns: Sequence[Column]
) -> tuple[TrainingDistribution, DistributionNumbers] | None:
    """Fit on every state of the frames, whose columns are named. Return None if they have too few states or groups, or
    no column that comes from the request's text."""
    compared = _compared(columns)
    groups = [group for frame in frames for group in frame.group_ids]
    if not compared or len(groups) < FEWEST_STATES or len(set(groups)) < FOLDS:
        return None
    states = [
        state[:count, :compared].astype(np.float64)
        for frame in frames
        for state, count in zip(frame.features, frame.candidate_counts, strict=True)
    ]
    fold = _folds(groups)
    distances = []
    for number in range(FOLDS):
        fitted = _fit([state for state, its in zip(states, fold, strict=True) if its != number])
        left_out = (state for state, its in zip(states, fold, strict=True) if its == number)
        distances += [fitted.distance(state.astype(np.float32), np.inf).value for state in left_out]
    limit = round(float(np.quantile(distances, INSIDE)), _DIGITS)
    found = _fit(states)
    return found, DistributionNumbers(found.sha256, limit, len(states))


def _compared(columns: Sequence[Column]) -> int:
    """Return how many columns come first that need no language model."""
    from_text = [column.group in (ColumnGroup.STRUCTURAL, ColumnGroup.TEXT) for column in columns]
    return from_text.index(False) if False in from_text else len(from_text)


def _folds(groups: Sequence[str]) -> list[int]:
    """Return the fold of each state: by group, as evenly as groups allow, in an order that no name suggests."""
    ordered = sorted(set(groups), key=lambda group: hashlib.sha256(group.encode()).digest())
    place = {group: number % FOLDS for number, group in enumerate(ordered)}
    return [place[group] for group in groups]


def _fit(states: Sequence[NDArray[np.float64]]) -> TrainingDistribution:
    rows = np.concatenate(states)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(spread > 10.0**-_DIGITS, spread, 1.0)
    standard = (rows - mean) / scale
    # Not by BLAS: the order in which it adds up depends on the number of threads.
    covariance = np.einsum("ri,rj->ij", standard, standard) / len(rows)
    precision = np.linalg.inv((1 - SHRINKAGE) * covariance + SHRINKAGE * np.eye(len(mean)))
    return TrainingDistribution(*(np.round(part, _DIGITS).astype(np.float32) for part in (mean, scale, precision)))
