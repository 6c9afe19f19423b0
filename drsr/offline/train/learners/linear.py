"""Logistic and ridge regression on standardised descriptions, by scikit-learn, exported to plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsr.offline.params import LinearParams, TrainParams
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.learners.described import DescribedSets, described_sets, drawn_weights, fit_members
from drsr.scorer.linear import LinearScorer

_CONSTANT = 1e-9
"""A number of the description whose deviation is below this part of its mean never varied."""


def fit_linear(
    frame: TrainingFrame, params: TrainParams, used: NDArray[np.int32], *, retained_context: bool, workers: int = 2
) -> LinearScorer:
    """Fit every member on a frame of any split."""
    limit, balance = params.linear.harm_limit, params.source_balance
    sets = described_sets(frame, used, limit, retained_context=retained_context, balance=balance)
    mean, deviation = sets.described.mean(axis=0), sets.described.std(axis=0)
    varies = deviation > _CONSTANT * np.maximum(np.abs(mean), 1.0)
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    standard = sets._replace(described=(sets.described - mean) * inverse)
    members = fit_members(lambda seed: fit_member(standard, params.linear, seed), params.seeds, workers)
    return LinearScorer(
        layout_hash=frame.layout_hash,
        seeds=params.seeds,
        layout_columns=frame.columns,
        used=used,
        mean=mean,
        inverse_scale=inverse,
        weights=np.array([[model.coef_.ravel() for model in models] for models in members]),
        intercept=np.array([[float(np.ravel(model.intercept_)[0]) for model in models] for models in members]),
        retained_context=retained_context,
    )


def fit_member(standard: DescribedSets, params: LinearParams, seed: int) -> tuple[Any, Any]:
    """Return the models of one member, for the unsafe score and for the harm, as scikit-learn has them."""
    # Takes seconds to import; most processes that come here only read scorers.
    from sklearn.linear_model import LogisticRegression, Ridge

    weights = drawn_weights(standard.group, standard.unsafe, seed) * standard.weight
    drawn = weights > 0
    described, weights = standard.described[drawn], weights[drawn]
    unsafe = LogisticRegression(C=params.inverse_penalty, max_iter=2_000, tol=1e-8)
    harm = Ridge(alpha=1 / params.inverse_penalty)
    return (
        unsafe.fit(described, standard.unsafe[drawn], sample_weight=weights),
        harm.fit(described, standard.harm[drawn], sample_weight=weights),
    )
