"""The feature store: views are registered, materialized, and read back, the same numbers offline and online.

    materialize(catalog, artifacts, backbone, run)                           what is missing or stale, several workers
    get_training_frame(catalog, artifacts, split="train", purpose="train")   candidates, sets, labels and splits, joined
    get_online_features(request, backbone)                                   the same columns for a request of right now

This is the door; each of these lives in a file of its own.
"""

from __future__ import annotations

from drsr.features.online import get_online_features
from drsr.offline.featurize.stage import FeaturizeRun, FeaturizeSummary, featurize_run, materialize
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, ViewIdentity, find_view, get_view, register_view
from drsr.offline.train.frames import Purpose, get_training_frame

__all__ = [
    "DEFAULT_VIEW",
    "FeaturizeRun",
    "FeaturizeSummary",
    "Purpose",
    "RegisteredView",
    "ViewIdentity",
    "featurize_run",
    "find_view",
    "get_online_features",
    "get_training_frame",
    "get_view",
    "materialize",
    "register_view",
]
