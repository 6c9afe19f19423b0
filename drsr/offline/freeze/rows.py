"""The frozen states of a trajectory together with their rows in the catalog: the starting point of labels and features.

The query that is run for every trajectory is composed once: composing a statement takes longer than SQLite takes to
answer it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, select

from drsr.errors import ArtifactCorrupt, CatalogError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.tables import DecisionState, Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.freeze.records import FreezingRule, is_rule
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.splits import Split
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import Tokenizer
from drsr.request.view import Caps


class TrajectoryItem(NamedTuple):
    """A trajectory with states to work on, as workers share them."""

    number: int
    """Its row number."""
    blob: str
    split: Split
    claimed_as: str
    place: int = 0
    """Its place in the order in which it is worked on, from 1."""


class StateRow(NamedTuple):
    """A frozen state and its row."""

    id: int
    state_key: str
    frozen: FrozenState


ITEM_COLUMNS = (TrajectoryRow.id, TrajectoryRow.blob, TrajectoryRow.split)


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
    with catalog.reading() as connection:
        found = connection.execute(_rows_of_a_trajectory(freezing), {"trajectory": item.number})
        rows = {decision: (number, key, there) for number, key, decision, there in found}
    here = {state.decision: content_key(state.state.history.request.to_wire()) for state in states}
    if here != {decision: there for decision, (_, _, there) in rows.items()}:
        raise CatalogError(
            f"trajectory {item.number} now freezes to states other than those in the catalog",
            where=catalog.location,
            hint="the rule changed without its version: raise RULE_VERSION and run drsr freeze",
        )
    return [StateRow(*rows[state.decision][:2], state) for state in states]


@lru_cache(maxsize=8)
def _rows_of_a_trajectory(freezing: FreezingRule) -> Select[Any]:
    columns = (DecisionState.id, DecisionState.state_key, DecisionState.decision_index, DecisionState.request_hash)
    mine = DecisionState.trajectory_id == bindparam("trajectory")
    return select(*columns).where(mine, is_rule(DecisionState, freezing))


def _stored(catalog: Catalog, artifacts: ArtifactStore, item: TrajectoryItem) -> Trajectory:
    """Return the recorded run; if its bytes are damaged, the error names the run as the user knows it."""
    try:
        return Trajectory.from_json(artifacts.get(item.blob))
    except ArtifactCorrupt as error:
        query = select(Source.name, TrajectoryRow.external_id).join(Source, Source.id == TrajectoryRow.source_id)
        with catalog.reading() as connection:
            source, external_id = connection.execute(query.where(TrajectoryRow.id == item.number)).one()
        raise ArtifactCorrupt(f"run {source}/{external_id}: {error.what}", where=error.where, hint=error.hint) from None
