"""Fits LRE's regression on the trajectories of the train split, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from sqlalchemy import select

from drsr.errors import AlignmentError, OneClassOnly
from drsr.offline.bench.comparators.lre import LreModel
from drsr.offline.bench.comparators.lre_features import LabelledSteps, label_steps
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.history import read_history
from drsr.request.request import Request, read_request


def train_requests(catalog: Catalog, artifacts: ArtifactStore) -> Iterator[Request]:
    """Yield the runs of the train split in their current version, in a fixed order."""
    query = (
        select(TrajectoryRow.blob)
        .join(Source, Source.id == TrajectoryRow.source_id)
        .where(TrajectoryRow.split == "train", TrajectoryRow.is_current(), TrajectoryRow.has_text())
        .order_by(Source.name, TrajectoryRow.external_id)
    )
    with catalog.reading() as connection:
        blobs = [row.blob for row in connection.execute(query)]
    for blob in blobs:
        trajectory = Trajectory.from_json(artifacts.get(blob))
        yield read_request(trajectory.request, protocol=trajectory.protocol, where=trajectory.external_id)


def fit_lre(requests: Iterable[Request], counts: TokenCounts, *, strength: float = 1.0) -> LreModel:
    """Return an L2 logistic regression over standardised features. `strength` is the inverse of the penalty's
    weight."""
    from sklearn.linear_model import LogisticRegression

    runs = [run for request in requests if (run := _labelled(request, counts)) is not None and len(run.matters)]
    features = np.concatenate([run.features for run in runs]) if runs else np.empty((0, 0))
    matters = np.concatenate([run.matters for run in runs]) if runs else np.empty(0, dtype=bool)
    if not matters.any() or matters.all():
        raise OneClassOnly(
            f"of {len(matters)} Steps in {len(runs)} runs {int(matters.sum())} introduce something that recurs",
            where="LRE's train split",
            hint="LRE needs Steps of both kinds: ingest more, or longer, runs",
        )
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale[scale == 0] = 1.0
    fitted = LogisticRegression(C=strength, max_iter=1_000).fit((features - mean) / scale, matters)
    return LreModel(
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        weights=tuple(fitted.coef_[0].tolist()),
        intercept=float(fitted.intercept_[0]),
        trajectories=len(runs),
        steps=len(matters),
        share_that_matters=float(matters.mean()),
    )


def _labelled(request: Request, counts: TokenCounts) -> LabelledSteps | None:
    """Return the labelled Steps; None for a run that the tokenizer cannot represent, which freezing leaves out too."""
    try:
        return label_steps(read_history(request), counts)
    except AlignmentError:
        return None
