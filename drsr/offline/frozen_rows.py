"""The frozen states of a trajectory together with their rows in the catalog: what labels and features start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select

from drsr.contracts import Tokenizer
from drsr.errors import ArtifactCorrupt, CatalogError
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.frozen import FreezingRule, is_rule
from drsr.offline.catalog.tables import DecisionState, Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.splits import Split
from drsr.offline.states import FrozenState, freeze_trajectory, request_hash
from drsr.offline.trajectories import Trajectory
from drsr.view import Caps


class TrajectoryItem(NamedTuple):
    """A trajectory with states to work on, as workers share them."""

    number: int
    """Its row number."""
    blob: str
    split: Split
    claimed_as: str


class StateRow(NamedTuple):
    """A frozen state and its row."""

    id: int
    state_key: str
    frozen: FrozenState


def load_states(
    catalog: Catalog,
    artifacts: ArtifactStore,
    item: TrajectoryItem,
    tokenizer: Tokenizer,
    caps: Caps,
    freezing: FreezingRule,
) -> list[StateRow]:
    """Freeze a stored trajectory again, in order of its decisions. What was frozen then must be what is frozen now."""
    states = freeze_trajectory(_stored(catalog, artifacts, item), tokenizer, caps).states
    columns = (DecisionState.id, DecisionState.state_key, DecisionState.decision_index, DecisionState.request_hash)
    query = select(*columns).where(DecisionState.trajectory_id == item.number, is_rule(DecisionState, freezing))
    with catalog.reading() as connection:
        rows = {decision: (number, key, there) for number, key, decision, there in connection.execute(query)}
    here = {state.decision: request_hash(state.state.history.request) for state in states}
    if here != {decision: there for decision, (_, _, there) in rows.items()}:
        raise CatalogError(
            f"trajectory {item.number} freezes to other states than the catalog has",
            where=catalog.location,
            hint="the rule changed without its version; put RULE_VERSION up and run drsr freeze",
        )
    return [StateRow(*rows[state.decision][:2], state) for state in states]


def _stored(catalog: Catalog, artifacts: ArtifactStore, item: TrajectoryItem) -> Trajectory:
    """The recorded run; where its bytes are damaged, the complaint names it as people know it."""
    try:
        return Trajectory.from_json(artifacts.get(item.blob))
    except ArtifactCorrupt as error:
        query = select(Source.name, TrajectoryRow.external_id).join(Source, Source.id == TrajectoryRow.source_id)
        with catalog.reading() as connection:
            source, external_id = connection.execute(query.where(TrajectoryRow.id == item.number)).one()
        raise ArtifactCorrupt(f"run {source}/{external_id}: {error.what}", where=error.where, hint=error.hint) from None


def all_damaged(complaints: Sequence[ArtifactCorrupt]) -> ArtifactCorrupt:
    """What `load_states` complained of at some runs, as one error, for the end of a run that left them out."""
    first = complaints[0]
    if len(complaints) == 1:
        return first
    which = "; ".join(complaint.what for complaint in complaints)
    return ArtifactCorrupt(f"{len(complaints):,} runs: {which}", where=first.where, hint=first.hint)
