"""The frames of `splits`: who is where, how large the splits are, what was read for what.

A few columns of the catalog: 110 bytes a trajectory, 70 bytes a place, of which a state has three; 40 microseconds a
trajectory in all, measured at 48,000, 1,000 times the sample corpus. The log of reads grows with the number of runs.
For `subjects` every stored trajectory is read once, one at a time, which takes 1.4 ms at 16 KB of text, unless hashes
of its subject are kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
from sqlalchemy import select

from drsr.expectations.frames.reading import TRAJECTORY, read_frame, with_trajectory
from drsr.expectations.rules import Frames
from drsr.offline.catalog.feature_tables import FeatureFile, SplitRead, StateFeatures
from drsr.offline.catalog.label_tables import Label
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.tables import DecisionState, Source, SplitGroup, Trajectory
from drsr.offline.ingest.corpus.task_names import all_task_names
from drsr.offline.ingest.shared_subjects import SharedSubject, subjects_on_two_sides

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.offline.store.kept import Kept


SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}


def splits_frames(
    catalog: Catalog, artifacts: ArtifactStore, parts: Container[str], kept: Kept | None = None
) -> Frames:
    """Only the parts asked for are read: most stages change one or two of them, and `subjects` takes longest by far."""
    frames = {}
    if "subjects" in parts:
        found = subjects_on_two_sides(catalog, artifacts, kept)
        frames["subjects"] = pd.DataFrame(found, columns=list(SharedSubject._fields))
    readers = {"trajectories": _trajectories, "shares": _shares, "places": _places, "reads": _reads, "fits": _fits}
    with catalog.reading() as connection:
        return frames | {part: read(connection) for part, read in readers.items() if part in parts}


def _shares(connection: Connection) -> pd.DataFrame:
    """Leave out groups that a corpus places, such as those of its test corpus: the hash did not choose their split."""
    placed = all_task_names().placed_groups
    groups = connection.execute(select(SplitGroup.group_key, SplitGroup.split)).tuples()
    return shares_frame(Counter(split for group, split in groups if group not in placed))


def shares_frame(counts: Mapping[str, int]) -> pd.DataFrame:
    """Return one row per split that there should be or is, from the number of groups in each."""
    total = sum(counts.values())
    rows = [(split, counts.get(split, 0), total, SHARES.get(split, 0.0)) for split in {**SHARES, **counts}]
    return pd.DataFrame(rows, columns=["split", "groups", "all_groups", "asked_share"])


def _trajectories(connection: Connection) -> pd.DataFrame:
    """Every version that was ever seen, but of runs that were withdrawn: an old one was trained on, once."""
    query = (
        select(
            *TRAJECTORY,
            Trajectory.version,
            Trajectory.task,
            Trajectory.split,
            SplitGroup.split.label("group_split"),
        )
        .join(Source, Source.id == Trajectory.source_id)
        .outerjoin(SplitGroup, SplitGroup.group_key == Trajectory.group_key)
        .where(~Trajectory.is_withdrawn())
        .order_by(Trajectory.id)
    )
    return with_trajectory(read_frame(connection, query))


def _places(connection: Connection) -> pd.DataFrame:
    """Wherever something of a state is kept by split: itself and its sets with the trajectory, features by file."""
    state = select(
        *TRAJECTORY,
        DecisionState.decision_index.label("decision"),
        Trajectory.split,
        DecisionState.id.label("state_id"),
    )
    state = state.join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
    state = state.join(Source, Source.id == Trajectory.source_id)
    states = with_trajectory(read_frame(connection, state))
    labelled = set(connection.execute(select(Label.state_id).distinct()).scalars())
    files = read_frame(
        connection,
        select(StateFeatures.state_id, FeatureFile.split).join(FeatureFile, FeatureFile.id == StateFeatures.file_id),
    )
    features = files.merge(states[["state_id", "trajectory", "decision"]], on="state_id", how="left")
    places = {"state": states, "sets": states[states["state_id"].isin(labelled)], "features": features}
    return pd.concat(
        [
            frame[["trajectory", "decision", "split"]].assign(place=place)
            for place, frame in places.items()
            if len(frame) or place == "state"
        ],
        ignore_index=True,
    )


def _reads(connection: Connection) -> pd.DataFrame:
    return read_frame(
        connection,
        select(SplitRead.id.label("read"), SplitRead.purpose, SplitRead.split, SplitRead.read_at).order_by(
            SplitRead.id
        ),
    )


def _fits(connection: Connection) -> pd.DataFrame:
    """Everything that was fitted, with how often what it was fitted on had been read for that purpose by then."""
    read = select(SplitRead.split, SplitRead.purpose, SplitRead.view_id, SplitRead.labeler_id, SplitRead.read_at)
    reads: dict[tuple[Any, ...], list[Any]] = {}
    for *what, at in connection.execute(read.order_by(SplitRead.read_at)):
        reads.setdefault(tuple(what), []).append(at)
    trained = select(TrainingRun.run_key, TrainingRun.view_id, TrainingRun.labeler_id, TrainingRun.trained_at)
    calibrated = select(
        CalibrationRun.calibration_key, TrainingRun.view_id, TrainingRun.labeler_id, CalibrationRun.calibrated_at
    ).join(TrainingRun, TrainingRun.id == CalibrationRun.training_run_id)
    rows = []
    for fitted, query, split, purpose in (
        ("scorer", trained, "train", "train"),
        ("calibration", calibrated, "validation", "calibrate"),
    ):
        for key, view_id, labeler_id, at in connection.execute(query):
            earlier = bisect_right(reads.get((split, purpose, view_id, labeler_id), []), at)
            rows.append((fitted, key, earlier))
    return pd.DataFrame(rows, columns=["fitted", "key", "reads"])
