"""The frames of `trajectories`: a row per current trajectory, per unsettled source, per leaking pair, per copy in
disguise.

The first two are a few columns of the catalog. For the others every stored trajectory is read and shingled once, one at
a time: 0.25 ms for the 4 KB of a sample run, 11 ms for 48 KB of text, unless its signature is kept; 1 KB of signature
each stays in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from sqlalchemy import select

from drsr.expectations.frames.reading import TRAJECTORY, read_frame, with_trajectory
from drsr.expectations.rules import Frames
from drsr.offline.catalog.tables import Source, Trajectory
from drsr.offline.ingest.feeds.disguises import DisguisedPair, disguised_pairs
from drsr.offline.ingest.feeds.limits import Feed, feeds, load_limits
from drsr.offline.ingest.near_duplicates import LeakedPair, leaked_pairs

if TYPE_CHECKING:
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.offline.store.kept import Kept


def trajectories_frames(catalog: Catalog, artifacts: ArtifactStore, kept: Kept | None = None) -> Frames:
    query = (
        select(
            *TRAJECTORY,
            Trajectory.content_hash,
            Trajectory.protocol,
            Trajectory.split,
            Trajectory.messages,
            Trajectory.assistant_messages,
        )
        .join(Source, Source.id == Trajectory.source_id)
        .where(Trajectory.is_current())
        .order_by(Trajectory.id)
    )
    with catalog.reading() as connection:
        trajectories = with_trajectory(read_frame(connection, query))
        unsettled = [feed for feed in feeds(connection, load_limits()) if not feed.is_settled]
    pairs = leaked_pairs(catalog, artifacts, kept=kept)
    disguised = disguised_pairs(catalog, artifacts, kept)
    return {
        "trajectories": trajectories,
        "unsettled_feeds": pd.DataFrame(unsettled, columns=list(Feed._fields)),
        "near_duplicates": pd.DataFrame(pairs, columns=list(LeakedPair._fields)),
        "disguised_copies": pd.DataFrame(disguised, columns=list(DisguisedPair._fields)),
    }
