"""Boosted trees by scikit-learn's histogram boosting, exported to plain arrays. Nothing is pickled.

A member is two models on its own draw of the tasks: a classifier of unsafe and a regressor of the harm. The same frame
gives the same bits: one thread for each member, and every random choice by its seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsr.offline.params import TrainParams, TreesParams
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.learners.described import DescribedSets, described_sets, drawn_weights, fit_members
from drsr.scorer.trees import Forest, TreeScorer


def fit_trees(
    frame: TrainingFrame, params: TrainParams, used: NDArray[np.int32], *, retained_context: bool, workers: int = 2
) -> TreeScorer:
    """Fit every member on a frame of any split."""
    limit, balance = params.trees.harm_limit, params.source_balance
    sets = described_sets(frame, used, limit, retained_context=retained_context, balance=balance)
    members = fit_members(lambda seed: fit_member(sets, params.trees, seed), params.seeds, workers)
    return TreeScorer(
        layout_hash=frame.layout_hash,
        seeds=params.seeds,
        layout_columns=frame.columns,
        used=used,
        forest=export_forest(members),
        retained_context=retained_context,
    )


def fit_member(sets: DescribedSets, params: TreesParams, seed: int) -> tuple[Any, Any]:
    """Return the models of one member, for the unsafe score and for the harm, as scikit-learn has them."""
    # Takes seconds to import; most processes that come here only read scorers.
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    weights = drawn_weights(sets.group, sets.unsafe, seed) * sets.weight
    drawn = weights > 0
    options = {
        "max_iter": params.trees,
        "learning_rate": params.learning_rate,
        "max_leaf_nodes": params.max_leaves,
        "min_samples_leaf": params.min_leaf_sets,
        "l2_regularization": params.l2,
        "max_features": params.column_share,
        "max_bins": params.bins,
        "early_stopping": False,
        "random_state": seed,
    }
    described, weights = sets.described[drawn], weights[drawn]
    unsafe = HistGradientBoostingClassifier(**options).fit(described, sets.unsafe[drawn], sample_weight=weights)
    harm = HistGradientBoostingRegressor(**options).fit(described, sets.harm[drawn], sample_weight=weights)
    return unsafe, harm


def export_forest(members: list[tuple[Any, Any]]) -> Forest:
    """Return the trees of all members and heads as arrays."""
    parts: list[NDArray[Any]] = []
    roots, baseline, offset = [], [], 0
    for models in members:
        for model in models:
            baseline.append(float(model._baseline_prediction.ravel()[0]))
            for (tree,) in model._predictors:
                roots.append(offset)
                parts.append(_nodes(tree.nodes, offset))
                offset += len(tree.nodes)
    shape = (len(members), len(members[0]))
    column, threshold, left, right, value = np.concatenate(parts, axis=1)
    return Forest(
        column.astype(np.int32),
        threshold,
        left.astype(np.int32),
        right.astype(np.int32),
        value,
        np.array(roots, dtype=np.int32).reshape(*shape, -1),
        np.array(baseline).reshape(shape),
    )


def _nodes(nodes: NDArray[Any], offset: int) -> NDArray[np.float64]:
    """Return column, threshold, left, right and value of a tree's nodes, (5, nodes), with branches shifted by
    `offset`."""
    leaf, here = nodes["is_leaf"].astype(np.bool_), offset + np.arange(len(nodes))
    return np.stack(
        [
            np.where(leaf, -1, nodes["feature_idx"]),
            np.where(leaf, 0.0, nodes["num_threshold"]),
            np.where(leaf, here, offset + nodes["left"]),
            np.where(leaf, here, offset + nodes["right"]),
            np.where(leaf, nodes["value"], 0.0),
        ]
    )
