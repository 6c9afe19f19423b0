"""Frames: what the suites look at, read from the catalog and the artifact store. One file per dataset."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from drsr.expectations.frames.calibration import calibration_frames
from drsr.expectations.frames.features import features_frames
from drsr.expectations.frames.labels import labels_frames
from drsr.expectations.frames.policy import policy_frames
from drsr.expectations.frames.splits import splits_frames
from drsr.expectations.frames.states import states_frames
from drsr.expectations.frames.trajectories import trajectories_frames
from drsr.expectations.rules import Frames

if TYPE_CHECKING:
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.offline.store.kept import Kept

_IN_CATALOG: dict[str, Callable[[Catalog, ArtifactStore], Frames]] = {
    "labels": labels_frames,
    "features": features_frames,
    "calibration": calibration_frames,
    "policy": policy_frames,
}
_IN_RUNS: dict[str, Callable[[Catalog, ArtifactStore, Kept | None], Frames]] = {
    "trajectories": trajectories_frames,
    "states": states_frames,
}
"""Datasets for which every stored run is read, unless what is to be known of it is kept."""


def frames_of(
    dataset: str, catalog: Catalog, artifacts: ArtifactStore, parts: Collection[str], kept: Kept | None = None
) -> Frames:
    """Return the frames of a dataset, by part: at least those of `parts`."""
    if dataset == "splits":  # the one whose parts are judged apart
        return splits_frames(catalog, artifacts, parts, kept)
    if dataset in _IN_RUNS:
        return _IN_RUNS[dataset](catalog, artifacts, kept)
    return _IN_CATALOG[dataset](catalog, artifacts)
