"""A label hidden in what half precision rounds, found by what the scorer makes of it.

In float32, stored and recomputed numbers may differ by a thousandth of the column's deviation. In half precision
rounding alone differs by more than that beside a column that hardly varies, so numbers say nothing there. But rounding
favours neither safe nor unsafe sets: the shipped scorer must do as well on the numbers that come out now.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drsr.offline.publish.subject import Subject
from drsr.offline.train.ablations import column_group, find_ablation, prepare_frame
from drsr.offline.train.metrics import auroc
from drsr.offline.train.scored_sets import score_frame

FORESEEN = 0.05
"""Largest allowed gain in AUROC on the stored features. With every number of the measured corpus moved twice, at random
by up to 1.3e-3, scorers did better on the numbers that they were trained with by at most 0.005 (networks, 24 draws) and
0.022 (linear ones, 12)."""


def foreseen_by(subject: Subject, recomputed: Mapping[str, NDArray[np.float32]]) -> str:
    """Return how much better the shipped scorer is on the stored features of validation than on those that come out
    now, where that is more than rounding does."""
    traced = subject.traced
    groups, ablation = tuple(map(column_group, traced.view.columns)), find_ablation(traced.run.ablation)
    stored = traced.frames["validation"]
    features = stored.features.copy()
    for number, key in enumerate(stored.state_ids):
        if key in recomputed:
            features[number, : len(recomputed[key])] = recomputed[key]
    before, now = (
        auroc(score_frame(subject.shipped_scorer, prepare_frame(frame, ablation, groups)).unsafe_mean, stored.unsafe)
        for frame in (stored, replace(stored, features=features))
    )
    if before - now <= FORESEEN or math.isnan(before):
        return ""
    return (
        f"the shipped scorer tells unsafe sets of validation apart with an AUROC of {before:.3f} by the stored "
        f"features, and of {now:.3f} by those that the text before the decision gives: the difference is more than "
        "rounding"
    )
