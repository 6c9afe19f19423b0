"""What a run would do and cost, before it does it: what is missing per stage and why, tokens, and minutes."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import case, func, select

from drsr.contracts import Tokenizer
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.freeze import freezing_rule
from drsr.offline.harm import contexts_of
from drsr.offline.labels import Selection, pending_states
from drsr.offline.prefix_tree import build_tree, total_tokens
from drsr.offline.states import freeze_trajectory
from drsr.offline.status import read_status
from drsr.offline.target_nll import Pair, TargetNll
from drsr.offline.trajectories import Trajectory as RecordedRun
from drsr.rendering import render_output
from drsr.view import Caps

SAMPLE = 48
"""Trajectories whose tokens are really counted; the rest is estimated from them."""
PROBE_CONTEXT, PROBE_TARGET = 1_024, 64
"""Tokens of the measured calibration."""


class LabelPlan(NamedTuple):
    """What labelling would take."""

    trajectories: int
    states: int
    sets: int
    """Deletion sets to measure; every state also has its intact context."""
    tokens_naive: int
    """Tokens if every context were computed on its own."""
    tokens_shared: int
    """Tokens with each distinct prefix computed once."""
    sampled: int
    """Trajectories that the two token counts were taken from; the rest is estimated by their mean."""
    why: dict[str, int]
    """States by why they wait."""


class Plan(NamedTuple):
    to_freeze: int
    """Trajectories without frozen states under this rule and tokenizer."""
    label: LabelPlan


class Price(NamedTuple):
    """What this machine needs."""

    tokens_per_second: float
    """Of one worker, measured now."""
    minutes: float
    """For the whole plan with the workers given."""


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
    waiting = sum(row.to_freeze for row in read_status(catalog, freezing).sources if part.source in (None, row.source))
    columns = [Trajectory.id, Trajectory.blob, func.count(), func.sum(_sets())]
    query = pending_states(columns, freezing, labeler_id, part).group_by(Trajectory.id, Trajectory.blob)
    measured_before = select(StateMeasurement.state_id).where(StateMeasurement.labeler_id != (labeler_id or -1))
    again = pending_states([func.count()], freezing, labeler_id, part).where(DecisionState.id.in_(measured_before))
    with catalog.reading() as connection:
        rows = connection.execute(query.order_by(Trajectory.id)).all()
        elsewhere = connection.execute(again).scalar_one()
    states = sum(row[2] for row in rows)
    step = max(1, -(-len(rows) // SAMPLE))
    counted = [_tokens(artifacts, row[1], tokenizer, caps) for row in rows[::step]]
    scale = len(rows) / len(counted) if counted else 0.0
    why = {"never measured": states - elsewhere, "measured by another labeler": elsewhere}
    label = LabelPlan(
        trajectories=len(rows),
        states=states,
        sets=sum(int(row[3]) for row in rows),
        tokens_naive=round(scale * sum(naive for naive, _ in counted)),
        tokens_shared=round(scale * sum(shared for _, shared in counted)),
        sampled=len(counted),
        why={reason: count for reason, count in why.items() if count},
    )
    return Plan(waiting, label)


def price(scorer: TargetNll, plan: LabelPlan, workers: int) -> Price:
    """Minutes for a plan, from a short measurement on this machine with this language model."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(0, 256, PROBE_CONTEXT + PROBE_TARGET).astype(np.int32)
    pair = Pair(tokens[:PROBE_CONTEXT], tokens[PROBE_CONTEXT:])
    scorer.verify(tokens)
    scorer.score([pair])  # the first forward also allocates
    started = time.perf_counter()
    scored = scorer.score([pair])
    rate = scored.tokens_processed / (time.perf_counter() - started)
    return Price(rate, plan.tokens_shared / rate / workers / 60)


def _sets() -> Any:
    """Non-empty subsets of a state's candidates: 7 or 15."""
    return case((DecisionState.candidates == 3, 7), else_=15)


def _tokens(artifacts: ArtifactStore, blob: str, tokenizer: Tokenizer, caps: Caps) -> tuple[int, int]:
    """Tokens of all contexts and targets of a trajectory's states: one by one, and as one radix tree."""
    sequences = []
    for state in freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), tokenizer, caps).states:
        target = render_output(state.next_output, tokenizer)
        contexts = contexts_of(state.state)
        sequences += [np.concatenate([c, target]) for c in (contexts.intact, *(c for _, c in contexts.deleted))]
    return sum(map(len, sequences)), total_tokens(build_tree(dict(enumerate(sequences))))
