"""The plan of a run before it starts: what is missing per stage and why, in tokens. `cost.py` says what these take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Select, case, exists, func, select
from sqlalchemy.orm import aliased

from drsr.errors import AlignmentError, ArtifactCorrupt, RequestError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.tables import DecisionState, FrozenTrajectory, Trajectory
from drsr.offline.featurize.records import pending_features
from drsr.offline.featurize.views import ViewIdentity, present_view
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.selection import Selection, unfrozen_trajectories
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.harm import contexts_of
from drsr.offline.label.prefix_tree import build_tree
from drsr.offline.label.records import pending_states
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.rendering import render_output
from drsr.request.view import Caps

SAMPLE = 48
"""Trajectories whose tokens are really counted; the rest is estimated from them."""


class Stretch(NamedTuple):
    """Tokens that are computed about equally deep in their contexts, and so at about the same rate."""

    length: int
    """Of a plain context whose tokens cost as much: twice their mean position."""
    tokens: int


class FreezePlan(NamedTuple):
    """Trajectories without frozen states under this rule and tokenizer."""

    trajectories: int
    why: dict[str, int]
    """Trajectories by why they wait."""


class LabelPlan(NamedTuple):
    """The plan for labelling, including the states that freezing will bring."""

    trajectories: int
    states: int
    not_frozen: int
    """Of these states, those of trajectories that are not frozen yet: some were frozen in memory to count them."""
    sets: int
    """Deletion sets to measure; every state also has its intact context."""
    tokens_naive: int
    """Tokens if every context were computed on its own."""
    tokens_shared: int
    """Tokens with each distinct prefix computed once."""
    sampled: int
    """Trajectories that were read to count all this."""
    is_estimate: bool
    """Whether there are more of them, which were taken to be like the mean of these."""
    why: dict[str, int]
    """States by why they wait."""
    naive: tuple[Stretch, ...] = ()
    """The tokens one by one, by context length: each stretch is about twice as long as the one before."""
    shared: tuple[Stretch, ...] = ()
    """The same with each distinct prefix computed once."""


class Plan(NamedTuple):
    freeze: FreezePlan
    label: LabelPlan


class _Count(NamedTuple):
    """The contents of one trajectory or of several."""

    trajectories: int
    """Those with states."""
    states: int
    sets: int
    naive: tuple[Stretch, ...]
    """All contexts and targets one by one."""
    shared: tuple[Stretch, ...]
    """All contexts and targets as one radix tree per trajectory."""


def make_plan(
    catalog: Catalog,
    artifacts: ArtifactStore,
    tokenizer: Tokenizer,
    caps: Caps,
    labeler_id: int | None,
    part: Selection,
) -> Plan:
    """Count what is missing. Nothing is changed."""
    freezing = freezing_rule(tokenizer, caps)
    columns = [Trajectory.id, Trajectory.blob, func.count(), func.sum(_sets())]
    query = pending_states(columns, freezing, labeler_id, part).group_by(Trajectory.id, Trajectory.blob)
    measured_before = select(StateMeasurement.state_id).where(StateMeasurement.labeler_id != (labeler_id or -1))
    again = pending_states([func.count()], freezing, labeler_id, part).where(DecisionState.id.in_(measured_before))
    with catalog.reading() as connection:
        rows = connection.execute(query.order_by(Trajectory.id)).all()
        elsewhere = connection.execute(again).scalar_one()
        waiting = connection.execute(_unfrozen(freezing, part)).all()
    frozen, frozen_read = _counted(artifacts, [row[1] for row in rows], tokenizer, caps)
    unfrozen, unfrozen_read = _counted(artifacts, [row.blob for row in waiting], tokenizer, caps)
    states = sum(row[2] for row in rows)
    why = {
        "never measured": states - elsewhere,
        "measured by another labeler": elsewhere,
        "not frozen yet": unfrozen.states,
    }
    label = LabelPlan(
        trajectories=len(rows) + unfrozen.trajectories,
        states=states + unfrozen.states,
        not_frozen=unfrozen.states,
        sets=sum(int(row[3]) for row in rows) + unfrozen.sets,
        tokens_naive=tokens_of(frozen.naive) + tokens_of(unfrozen.naive),
        tokens_shared=tokens_of(frozen.shared) + tokens_of(unfrozen.shared),
        sampled=frozen_read + unfrozen_read,
        is_estimate=frozen_read + unfrozen_read < len(rows) + len(waiting),
        why=_without_zeros(why),
        naive=_by_length(frozen.naive + unfrozen.naive),
        shared=_by_length(frozen.shared + unfrozen.shared),
    )
    return Plan(FreezePlan(len(waiting), _without_zeros(Counter(map(_why_unfrozen, waiting)))), label)


def _sets() -> Any:
    """Non-empty subsets of a state's candidates: 7 or 15."""
    return case((DecisionState.candidates == 3, 7), else_=15)


def _unfrozen(freezing: FreezingRule, part: Selection) -> Select[Any]:
    """Select trajectories that wait to be frozen, with the columns that say why."""
    older, marker = aliased(Trajectory), aliased(FrozenTrajectory)
    mine = (older.source_id == Trajectory.source_id, older.external_id == Trajectory.external_id)
    columns = [
        Trajectory.blob,
        exists().where(marker.trajectory_id == Trajectory.id).label("frozen_otherwise"),
        exists().where(*mine, older.superseded_by.is_not(None)).label("has_older"),
    ]
    return unfrozen_trajectories(columns, freezing, part).order_by(Trajectory.id)


def _why_unfrozen(row: Any) -> str:
    if row.frozen_otherwise:
        return "frozen under another rule or tokenizer"
    return "a run that has changed since" if row.has_older else "never frozen"


def tokens_of(stretches: Iterable[Stretch]) -> int:
    """Return how many tokens some stretches have together."""
    return sum(stretch.tokens for stretch in stretches)


def stretches_of(
    artifacts: ArtifactStore, blobs: Sequence[str], tokenizer: Tokenizer, caps: Caps, *, shared: bool
) -> tuple[Stretch, ...]:
    """Return the tokens that labelling some trajectories takes, with or without shared prefixes."""
    counted, _ = _counted(artifacts, blobs, tokenizer, caps)
    return _by_length(counted.shared if shared else counted.naive)


def _counted(artifacts: ArtifactStore, blobs: Sequence[str], tokenizer: Tokenizer, caps: Caps) -> tuple[_Count, int]:
    """Return what is in some trajectories by what is in some of them, and how many these are."""
    read = blobs[:: max(1, -(-len(blobs) // SAMPLE))]
    if not read:
        return _Count(0, 0, 0, (), ()), 0
    counts = [_count(artifacts, blob, tokenizer, caps) for blob in read]
    scale = len(blobs) / len(read)
    trajectories, states, sets = (
        round(scale * sum(column)) for column in zip(*(count[:3] for count in counts), strict=True)
    )
    naive = _scaled([count.naive for count in counts], scale)
    return _Count(trajectories, states, sets, naive, _scaled([count.shared for count in counts], scale)), len(read)


def _scaled(counted: Sequence[tuple[Stretch, ...]], scale: float) -> tuple[Stretch, ...]:
    stretches = _by_length(stretch for one in counted for stretch in one)
    return tuple(Stretch(length, round(scale * tokens)) for length, tokens in stretches)


def _by_length(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Join what is about equally long; the length of each is the mean of its tokens."""
    alike: dict[int, list[Stretch]] = {}
    for stretch in stretches:
        if stretch.tokens:
            alike.setdefault(stretch.length.bit_length(), []).append(stretch)
    return tuple(
        Stretch(round(sum(one.length * one.tokens for one in found) / tokens_of(found)), tokens_of(found))
        for _, found in sorted(alike.items())
    )


def _count(artifacts: ArtifactStore, blob: str, tokenizer: Tokenizer, caps: Caps) -> _Count:
    try:
        states = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), tokenizer, caps).states
    except (RequestError, AlignmentError, ArtifactCorrupt):  # it gives no states, as the stage itself will say
        states = ()
    sequences, sets = [], 0
    for state in states:
        target = render_output(state.next_output, tokenizer)
        contexts = contexts_of(state.state)
        sets += len(contexts.deleted)
        sequences += [np.concatenate([c, target]) for c in (contexts.intact, *(c for _, c in contexts.deleted))]
    naive = tuple(Stretch(len(sequence), len(sequence)) for sequence in sequences)
    return _Count(int(bool(states)), len(states), sets, naive, _computed_once(sequences))


def _computed_once(sequences: Sequence[TokenIds]) -> tuple[Stretch, ...]:
    """Return the nodes of the sequences' radix tree, each by its position."""
    nodes = build_tree(dict(enumerate(sequences))).walk()
    return tuple(Stretch(node.start + node.stop, len(node.tokens)) for node in nodes)


def _without_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if count}


class FeaturizePlan(NamedTuple):
    """States without features."""

    states: int
    """All states that wait."""
    with_labels: int
    """Of these, states that wait for their labels, too: labelling collects their features in the same walk."""
    trajectories: int
    """Trajectories of the others, which drsr featurize has to read."""
    tokens: int
    """Tokens that it has to run for them, each distinct prefix of a trajectory once."""
    sampled: int
    """Trajectories that the tokens were counted in; the rest is estimated by their mean."""
    stretches: tuple[Stretch, ...] = ()
    """The tokens by context length."""

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
    counted = [_contexts(artifacts, row[1], tokenizer, caps) for row in rows[:: max(1, -(-len(rows) // SAMPLE))]]
    scale = len(rows) / len(counted) if counted else 0.0
    alone = sum(row[2] for row in rows)
    tokens = _scaled(counted, scale)
    return FeaturizePlan(states, states - alone, len(rows), tokens_of(tokens), len(counted), tokens)


def _contexts(artifacts: ArtifactStore, blob: str, tokenizer: Tokenizer, caps: Caps) -> tuple[Stretch, ...]:
    """Tokens of a trajectory's contexts as one radix tree."""
    frozen = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), tokenizer, caps)
    contexts = [state.state.view.token_ids(state.state.rendering.token_ids) for state in frozen.states]
    return _computed_once(contexts)
