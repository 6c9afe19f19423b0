"""A median with its interval: as for means, whole groups are resampled."""

from __future__ import annotations

import numpy as np

from drsr.offline.train.metrics import Bootstrap, Floats, Ints, Metric, interval


def grouped_median(values: Floats, group: Ints, draws: Floats, bootstrap: Bootstrap) -> Metric:
    """Return the median of values that belong to numbered groups; `draws` says how often each group is drawn in each
    replicate."""
    value = float(np.median(values)) if len(values) else float("nan")
    low, high = interval(_medians(values, draws[:, group]), bootstrap)
    return Metric("median", "pooled", "none", value, low, high, len(values), len(np.unique(group)))


def _medians(values: Floats, times: Floats) -> Floats:
    """Return the median of each replicate, in which each value occurs a given number of times; NaN if none does."""
    if len(values) == 0:
        return np.full(len(times), np.nan)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(times[:, order], axis=1)
    half = reached[:, -1:] / 2
    # Where half is reached exactly the middle lies between two values, else both are the same one.
    below, above = np.argmax(reached >= half, axis=1), np.argmax(reached > half, axis=1)
    middle = (values[order][below] + values[order][above]) / 2
    medians: Floats = np.where(half[:, 0] > 0, middle, np.nan)
    return medians
