"""Remeasurement: a random sample of the labels computed once more, each context on its own, and compared."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.featurize.exclusions import is_out_of_memory
from drsr.offline.freeze.selection import Selection, selected
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.harm import HARM_TOLERANCE, measure_harm
from drsr.offline.label.records import target_hash
from drsr.offline.label.target_nll import agreement_of
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import Backbone
from drsr.request.rendering import render_output
from drsr.request.view import Caps


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
    """The comparison of a sample of labels with the direct computation."""

    states: int
    sets: int
    largest_difference: float
    """In H, nats per token."""
    agreement: float
    """How far two computations may be apart in the dtype of the language model."""
    changed_unsafe: int
    """Sets recorded as unsafe that are safe by the direct computation, or the other way round."""
    changed_near: int
    """The same among sets so near to the tolerance that two computations in agreement may differ. Not a fault."""
    mismatches: tuple[str, ...]
    """States whose target or sets are not the recorded ones. Always a fault."""
    compared: tuple[ComparedSet, ...] = ()
    labelled: int = 0
    """How many states there were to draw from."""

    @property
    def agrees(self) -> bool:
        return self.largest_difference <= self.agreement and not self.changed_unsafe and not self.mismatches


def remeasure(
    catalog: Catalog,
    artifacts: ArtifactStore,
    backbone: Backbone,
    caps: Caps,
    labeler_id: int,
    sample: int | None,
    *,
    seed: int,
    part: Selection | None = None,
    state_keys: Sequence[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Remeasured:
    """Compute the labels of a random sample of states directly, and compare; None is all of them.

    The same seed draws the same states from the same catalog. They are drawn from all that the labeler has labelled, or
    from those that are named.
    """
    columns = (DecisionState.id, DecisionState.state_key, DecisionState.decision_index, Trajectory.blob)
    query = (
        select(*columns, StateMeasurement.target_hash)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateMeasurement.labeler_id == labeler_id, StateMeasurement.outcome == "labelled")
        .order_by(DecisionState.state_key)
    )
    with catalog.reading() as connection:
        if state_keys is not None:
            query = query.where(among(connection, DecisionState.state_key, state_keys))
        rows = connection.execute(selected(query, part or Selection())).all()
    chosen = rows if sample is None else random.Random(seed).sample(rows, min(sample, len(rows)))
    agreement = agreement_of(backbone)
    compared: list[ComparedSet] = []
    changed, near, mismatches = 0, 0, []
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
        try:
            direct = {harm.deletion_set.mask: harm for harm in measure_harm(backbone, state.state, target)}
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            mismatches.append(f"{state_key}: not enough memory for one forward over its context")
            continue
        if labels.keys() | _excluded(catalog, state_id, labeler_id) != direct.keys():
            mismatches.append(f"{state_key}: other deletion sets")
        for mask in sorted(labels.keys() & direct.keys()):
            harm, unsafe = labels[mask]
            compared.append(ComparedSet(state_key, mask, harm, direct[mask].harm, unsafe))
            if unsafe != direct[mask].unsafe:
                is_near = abs(direct[mask].harm - HARM_TOLERANCE) <= agreement
                changed, near = changed + (not is_near), near + is_near
    # A harm that came out as NaN is in no agreement, and max() would pass over it.
    differences = [abs(found.recorded - found.direct) for found in compared]
    largest = math.inf if any(map(math.isnan, differences)) else max(differences, default=0.0)
    return Remeasured(
        *(len(chosen), len(compared), largest, agreement, changed, near, tuple(mismatches), tuple(compared), len(rows))
    )


def _excluded(catalog: Catalog, state_id: int, labeler_id: int) -> set[int]:
    query = select(LabelExclusion.mask).where(
        LabelExclusion.state_id == state_id, LabelExclusion.labeler_id == labeler_id
    )
    with catalog.reading() as connection:
        return set(connection.execute(query).scalars())


def _labels(catalog: Catalog, state_id: int, labeler_id: int) -> dict[int, tuple[float, bool]]:
    query = select(Label.mask, Label.harm, Label.unsafe).where(
        Label.state_id == state_id, Label.labeler_id == labeler_id
    )
    with catalog.reading() as connection:
        return {mask: (harm, unsafe) for mask, harm, unsafe in connection.execute(query)}
