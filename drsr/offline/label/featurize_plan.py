"""What featurizing would take, before it does it: which states wait, and how many tokens they are."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.records import pending_features
from drsr.offline.featurize.views import ViewIdentity, present_view
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.prefix_tree import build_tree, total_tokens
from drsr.offline.label.records import Selection, pending_states
from drsr.offline.plan import SAMPLE
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import Tokenizer
from drsr.request.view import Caps


class FeaturizePlan(NamedTuple):
    """States without features."""

    states: int
    """All that wait."""
    with_labels: int
    """Of these, states that wait for their labels, too: labelling collects their features in the same walk."""
    trajectories: int
    """Trajectories of the others, which drsr featurize has to read."""
    tokens: int
    """What it has to run for them, each distinct prefix of a trajectory once."""
    sampled: int
    """Trajectories that the tokens were counted in; the rest is estimated by their mean."""

    def with_unfrozen(self, states: int) -> FeaturizePlan:
        """Together with states of trajectories that are not frozen yet: they wait for labels as well."""
        return self._replace(states=self.states + states, with_labels=self.with_labels + states)


def plan_featurize(
    catalog: Catalog,
    artifacts: ArtifactStore,
    tokenizer: Tokenizer,
    caps: Caps,
    view: str,
    identity: ViewIdentity,
    labeler_id: int | None,
    part: Selection,
) -> FeaturizePlan:
    """Count what is missing. Nothing is changed."""
    with catalog.reading() as connection:
        present = present_view(connection, view, identity)
        view_id = present.id if present else None
        states = connection.execute(pending_features([func.count()], view_id, identity.freezing, part)).scalar_one()
        unlabelled = pending_states([DecisionState.id], identity.freezing, labeler_id, part)
        only = pending_features([Trajectory.id, Trajectory.blob, func.count()], view_id, identity.freezing, part)
        only = only.where(DecisionState.id.not_in(unlabelled)).group_by(Trajectory.id, Trajectory.blob)
        rows = connection.execute(only.order_by(Trajectory.id)).all()
    counted = [_tokens(artifacts, row[1], tokenizer, caps) for row in rows[:: max(1, -(-len(rows) // SAMPLE))]]
    scale = len(rows) / len(counted) if counted else 0.0
    alone = sum(row[2] for row in rows)
    return FeaturizePlan(states, states - alone, len(rows), round(scale * sum(counted)), len(counted))


def _tokens(artifacts: ArtifactStore, blob: str, tokenizer: Tokenizer, caps: Caps) -> int:
    """Tokens of a trajectory's contexts as one radix tree."""
    frozen = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), tokenizer, caps)
    contexts = [state.state.view.token_ids(state.state.rendering.token_ids) for state in frozen.states]
    return total_tokens(build_tree(dict(enumerate(contexts))))
