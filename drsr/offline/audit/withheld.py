"""Labelled states that took no part in a fit or an evaluation because they are recorded as states without features.

Left out, a bad state makes a better policy, or a better evaluation of it. The journal tells nothing of features,
because they can be computed again; so that is done here.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select

from drsr.backbone.frozen_lm import FrozenLM
from drsr.features.view_layouts import kind_of
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.light_reader import LightReader
from drsr.offline.featurize.records import FeatureExclusion
from drsr.offline.featurize.stage import featurize_states
from drsr.offline.freeze.rows import TrajectoryItem, load_states
from drsr.offline.publish.subject import Subject
from drsr.request.view import caps_for


def withheld_states(subject: Subject, reader: FrozenLM | LightReader) -> list[str]:
    """Try the features of those states whose texts are here again; return a sentence for each that can be computed."""
    view, caps, problems = subject.view, caps_for(reader.window), []
    query = labelled_without_features(
        subject, DecisionState.id, *(Trajectory.id, Trajectory.blob, Trajectory.split), StateFeatures.reason
    )
    with subject.catalog.reading() as connection:
        rows = connection.execute(query.where(Trajectory.has_text())).all()
    for state_id, number, blob, split, reason in rows:
        run = TrajectoryItem(number, blob, split, "")
        found = load_states(subject.catalog, subject.artifacts, run, reader.tokenizer, caps, view.identity.freezing)
        row = next(row for row in found if row.id == state_id)
        (again,) = featurize_states(reader, [row], kind_of(view.name))
        if not isinstance(again.result, FeatureExclusion):
            problems.append(
                f"state {row.state_key} of {split}: recorded as without features ({reason}), and they can be computed"
            )
    return problems


def labelled_without_features(subject: Subject, *columns: Any) -> Select[Any]:
    """Return a query of the labelled states of all splits that have no features in the policy's view."""
    mine = (StateFeatures.view_id == subject.view.id, StateFeatures.outcome == "excluded")
    labelled = (StateMeasurement.labeler_id == subject.labeler.id, StateMeasurement.outcome == "labelled")
    return (
        select(*columns)
        .select_from(StateFeatures)
        .join(DecisionState, DecisionState.id == StateFeatures.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .where(*mine, *labelled, Trajectory.is_current())
        .order_by(DecisionState.state_key)
    )
