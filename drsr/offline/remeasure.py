"""Remeasurement: a random sample of the labels computed once more, each context on its own, and compared."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import select

from drsr.contracts import Backbone
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.harm import measure_harm
from drsr.offline.labels import target_hash
from drsr.offline.states import freeze_trajectory
from drsr.offline.trajectories import Trajectory as RecordedRun
from drsr.rendering import render_output
from drsr.view import Caps

AGREEMENT = 1e-4
"""How far two computations of one harm may be apart, in nats per token."""


class ComparedSet(NamedTuple):
    """One label, as it is recorded and as it comes out now."""

    state_key: str
    mask: int
    recorded: float
    """H, nats per token."""
    direct: float
    unsafe: bool
    """As recorded."""


class Remeasured(NamedTuple):
    """How a sample of labels compares with the direct computation."""

    states: int
    sets: int
    largest_difference: float
    """In H, nats per token."""
    changed_unsafe: int
    """Sets that are unsafe by one computation and safe by the other."""
    mismatches: tuple[str, ...]
    """States whose target or sets are not the recorded ones. Always a fault."""
    compared: tuple[ComparedSet, ...] = ()


def remeasure(
    catalog: Catalog,
    artifacts: ArtifactStore,
    backbone: Backbone,
    caps: Caps,
    labeler_id: int,
    sample: int | None,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Remeasured:
    """Compute the labels of a random sample of states directly, and compare; None is all of them."""
    columns = (DecisionState.id, DecisionState.state_key, DecisionState.decision_index, Trajectory.blob)
    query = (
        select(*columns, StateMeasurement.target_hash)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(StateMeasurement.labeler_id == labeler_id, StateMeasurement.outcome == "labelled")
        .order_by(DecisionState.state_key)
    )
    with catalog.reading() as connection:
        rows = connection.execute(query).all()
    chosen = rows if sample is None else random.Random(seed).sample(rows, min(sample, len(rows)))
    compared: list[ComparedSet] = []
    changed, mismatches = 0, []
    for done, (state_id, state_key, decision, blob, recorded_target) in enumerate(chosen):
        progress(done, len(chosen))
        frozen = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), backbone.tokenizer, caps)
        state = next((state for state in frozen.states if state.decision == decision), None)
        labels = _labels(catalog, state_id, labeler_id)
        if state is None:
            mismatches.append(f"{state_key}: no longer a state")
            continue
        target = render_output(state.next_output, backbone.tokenizer)
        if target_hash(target) != recorded_target:
            mismatches.append(f"{state_key}: another target")
        direct = {harm.deletion_set.mask: harm for harm in measure_harm(backbone, state.state, target)}
        if not labels.keys() <= direct.keys():
            mismatches.append(f"{state_key}: other deletion sets")
        for mask in sorted(labels.keys() & direct.keys()):
            harm, unsafe = labels[mask]
            compared.append(ComparedSet(state_key, mask, harm, direct[mask].harm, unsafe))
            changed += unsafe != direct[mask].unsafe
    largest = max((abs(found.recorded - found.direct) for found in compared), default=0.0)
    return Remeasured(len(chosen), len(compared), largest, changed, tuple(mismatches), tuple(compared))


def _labels(catalog: Catalog, state_id: int, labeler_id: int) -> dict[int, tuple[float, bool]]:
    query = select(Label.mask, Label.harm, Label.unsafe).where(
        Label.state_id == state_id, Label.labeler_id == labeler_id
    )
    with catalog.reading() as connection:
        return {mask: (harm, unsafe) for mask, harm, unsafe in connection.execute(query)}
