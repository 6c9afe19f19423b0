"""The frames of `states`: one row per frozen state of a current trajectory, and one per candidate.

A few columns of the catalog each: 600 bytes and 40 microseconds a state with its candidates, measured at 98,000 states,
1,000 times the sample corpus. Where Recent2 begins is counted from the recorded run: every trajectory with states is
read once, one at a time: 0.3 ms for the 4 KB of a sample run, and no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from sqlalchemy import and_, select

from drsr.expectations.frames.reading import TRAJECTORY, read_frame, with_trajectory
from drsr.expectations.frames.recent_steps import first_recent_steps
from drsr.expectations.rules import Frames
from drsr.offline.catalog.tables import Candidate, DecisionState, FrozenTrajectory, Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest.trajectories import Trajectory

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore


def states_frames(catalog: Catalog, artifacts: ArtifactStore) -> Frames:
    with catalog.reading() as connection:
        states, candidates = _states(connection), _candidates(connection)
    of_trajectory = states.groupby(["trajectory_id", "rule"])["state_id"].transform("size")
    rows = candidates.groupby("state_id")["candidate"].agg(["size", "max"]).reindex(states["state_id"])
    states["states_of_trajectory"] = of_trajectory
    states["candidate_rows"] = rows["size"].fillna(0).to_numpy()
    states["positions"] = (rows["max"].fillna(-1) + 1).to_numpy()
    states["recent_step"] = _recent_steps(artifacts, states)
    place = states.set_index("state_id")
    for name in ("trajectory", "decision", "recent_step"):
        candidates[name] = place[name].reindex(candidates["state_id"]).to_numpy()
    # Those of one state stand together, in the order of their positions.
    first = candidates["candidate"] == 0
    candidates["step_before"] = candidates["step"].shift(1).where(~first, -1)
    return {
        "states": states.drop(columns=["trajectory_id", "blob", "state_id", "recent_step"]),
        "candidates": candidates.drop(columns=["state_id"]),
    }


def _states(connection: Connection) -> pd.DataFrame:
    same_rule = [
        getattr(FrozenTrajectory, name) == getattr(DecisionState, name)
        for name in ("trajectory_id", "rule_hash", "renderer_version", "tokenizer_identity")
    ]
    rule = DecisionState.rule_hash + DecisionState.renderer_version + DecisionState.tokenizer_identity
    query = (
        select(
            *TRAJECTORY,
            DecisionState.decision_index.label("decision"),
            DecisionState.id.label("state_id"),
            DecisionState.state_key,
            DecisionState.trajectory_id,
            rule.label("rule"),
            DecisionState.candidates,
            DecisionState.status,
            TrajectoryRow.messages,
            TrajectoryRow.blob,
            (FrozenTrajectory.id.is_not(None)).label("freezing_complete"),
            DecisionState.frozen_at,
            TrajectoryRow.created_at.label("ingested_at"),
        )
        .join(TrajectoryRow, TrajectoryRow.id == DecisionState.trajectory_id)
        .join(Source, Source.id == TrajectoryRow.source_id)
        .outerjoin(FrozenTrajectory, and_(*same_rule))
        .where(TrajectoryRow.is_current())
        .order_by(DecisionState.id)
    )
    return with_trajectory(read_frame(connection, query))


def _candidates(connection: Connection) -> pd.DataFrame:
    query = (
        select(
            Candidate.state_id,
            Candidate.position.label("candidate"),
            Candidate.step_index.label("step"),
            Candidate.direct_saving,
        )
        .join(DecisionState, DecisionState.id == Candidate.state_id)
        .join(TrajectoryRow, TrajectoryRow.id == DecisionState.trajectory_id)
        .where(TrajectoryRow.is_current())
        .order_by(Candidate.state_id, Candidate.position)
    )
    return read_frame(connection, query)


def _recent_steps(artifacts: ArtifactStore, states: pd.DataFrame) -> pd.Series:
    """By row the first Step of Recent2 before that decision."""
    found = pd.Series(-1, index=states.index, dtype="int64")
    for blob, rows in states.groupby("blob")["decision"]:
        steps = first_recent_steps(Trajectory.from_json(artifacts.get(str(blob))), set(rows))
        found[rows.index] = [steps[decision] for decision in rows]
    return found
