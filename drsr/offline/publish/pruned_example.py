"""A validation state that a calibrated policy prunes, for people to look at: its request, and what deleting cost there.

The states are scored from stored features, so none but the one that is shown needs the language model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import select

from drsr.offline.calibrate.selection_path import selection_path
from drsr.offline.calibrate.stage import frozen_rule
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.publish.lineage_rows import labeler_of, view_of
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.records import CalibrationRecord, get_training_run
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import load_trained, read_inputs
from drsr.request.contracts import Tokenizer
from drsr.request.view import Caps


class PrunedExample(NamedTuple):
    """The decision of a policy at one state."""

    run: str
    """Source and name of the recorded run."""
    request: Any
    """In wire form, as the agent would have sent it."""
    unsafe_score: float
    """Of the set that is chosen."""
    harm: float
    """Measured: what deleting that set did to the output that really followed, in nats per token."""
    removal: float
    """Part of the request."""
    pruned: int
    """States of validation that the policy prunes ..."""
    states: int
    """... of so many."""


def find_pruned_example(
    catalog: Catalog, artifacts: ArtifactStore, calibration: CalibrationRecord, tokenizer: Tokenizer, caps: Caps
) -> PrunedExample | None:
    """The state of validation at which most of the request goes; None where the policy abstains everywhere."""
    with catalog.reading() as connection:
        run = get_training_run(connection, calibration.training_run_id)
        view, labeler = view_of(connection, run.view_id).name, labeler_of(connection, run.labeler_id).name
    frame = read_inputs(catalog, artifacts, view, labeler, "calibrate").validation
    scored = score_frame(load_trained(artifacts, run), frame)
    rule, coefficient = frozen_rule(calibration), calibration.uncertainty_coefficient
    path = selection_path(scored, rule.max_cardinality, coefficient, rule.removal_cap)
    chosen = path.at(rule.risk_threshold)
    pruned = np.flatnonzero(chosen >= 0)
    if len(pruned) == 0:
        return None
    removal = frame.direct_saving[chosen[pruned]] / frame.request_tokens[pruned]
    state, row = int(pruned[removal.argmax()]), int(chosen[pruned[removal.argmax()]])
    query = (
        select(Trajectory.blob, DecisionState.decision_index)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .where(DecisionState.state_key == frame.state_ids[state])
    )
    with catalog.reading() as connection:
        blob, decision = connection.execute(query).one()
    frozen = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), tokenizer, caps)
    found = next(each.state for each in frozen.states if each.decision == decision)
    return PrunedExample(
        run=frame.trajectory_ids[state],
        request=found.history.request.to_wire(),
        unsafe_score=float(scored.unsafe_score(coefficient)[row]),
        harm=float(frame.harm[row]),
        removal=float(removal.max()),
        pruned=len(pruned),
        states=len(frame.state_ids),
    )
