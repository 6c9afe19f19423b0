"""Is a feature a label in disguise? How well each feature column puts the rows into the order of a label column.

A column that equals a label, or is any increasing or decreasing function of it, ranks the rows exactly as the label
does: Spearman's rank correlation is 1 or -1, also after rounding to 32 bits. A copy of the whole is a copy of every
part, so a bounded sample of rows finds it, however much data there is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

MINIMUM = 14
"""Number of different values. They can be ordered in 14! ways, so by chance one of 1,000 columns has the order of one
of ten labels, or its reverse, less than once in a million times. Fewer prove nothing."""


class Agreement(NamedTuple):
    """For every feature column the label that it agrees with most."""

    correlation: NDArray[np.float64]
    """Absolute rank correlation, from 0 to 1."""
    label: list[str]
    """Name of the label; empty if none could be compared."""
    labels: int
    """Number of labels that were compared."""
    rows: int
    """Number of rows that had one of them."""


def rank_agreement(features: NDArray[Any], labels: Mapping[str, NDArray[Any]], states: Sequence[Hashable]) -> Agreement:
    """Return the largest rank correlation of each column of `features` [rows, columns] with any of the labels [rows].

    `states` says whose row it is. Rows without the label (NaN) do not count. A label with too few values to have an
    order is left out, and so is a feature that is constant.
    """
    best = np.zeros(features.shape[1])
    names = np.full(features.shape[1], "", dtype=object)
    labels_compared, rows_compared = 0, np.zeros(len(features), dtype=np.bool_)
    whole = _standardised(rankdata(features, axis=0)) if len(features) else features
    for name, values in labels.items():
        known = np.isfinite(values)
        if not has_an_order(values[known], [state for state, is_known in zip(states, known, strict=True) if is_known]):
            continue
        labels_compared += 1
        rows_compared |= known
        ranks = whole if known.all() else _standardised(rankdata(features[known], axis=0))
        found = np.abs(_standardised(rankdata(values[known])[:, None])[:, 0] @ ranks)
        better = found > best
        best[better], names[better] = found[better], name
    return Agreement(np.minimum(best, 1.0), names.tolist(), labels_compared, int(rows_compared.sum()))


def split_agreement(
    features: NDArray[Any], labels: Mapping[str, NDArray[Any]], states: Sequence[Hashable], splits: Sequence[str]
) -> Agreement:
    """Return the same over all rows together and over each split's rows alone: a copy may be in one split only."""
    found = rank_agreement(features, labels, states)
    side = np.asarray(splits, dtype=object)
    for split in dict.fromkeys(splits):
        mine = np.flatnonzero(side == split)
        there = {name: values[mine] for name, values in labels.items()}
        alone = rank_agreement(features[mine], there, [states[int(row)] for row in mine])
        names = [
            f"{theirs} in {split}" if more > most else label
            for label, most, theirs, more in zip(
                found.label, found.correlation, alone.label, alone.correlation, strict=True
            )
        ]
        best = np.maximum(found.correlation, alone.correlation)
        found = found._replace(correlation=best, label=names, labels=max(found.labels, alone.labels))
    return found


def has_an_order(values: NDArray[Any], states: Sequence[Hashable]) -> bool:
    """Return whether there are enough different values or, for a verdict, enough states with an unusual one."""
    found, counts = np.unique(values, return_counts=True)
    if len(found) >= MINIMUM or len(found) < 2:
        return len(found) >= MINIMUM
    usual = found[counts.argmax()]
    return len({state for state, value in zip(states, values, strict=True) if value != usual}) >= MINIMUM


def _standardised(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns with mean 0 and length 1; 0 where constant."""
    centred = ranks - ranks.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    unit: NDArray[np.float64] = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return unit
