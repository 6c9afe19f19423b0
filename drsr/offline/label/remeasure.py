"""Remeasurement: a random sample of the labels computed once more, each context on its own, and compared.

Besides the sample, sets that somebody names; and all that is said not to be measurable is tried again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.featurize.exclusions import ExclusionReason, is_out_of_memory
from drsr.offline.freeze.selection import Selection, selected
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.harm import HARM_TOLERANCE, contexts_of, measure_harm
from drsr.offline.label.records import target_hash
from drsr.offline.label.target_nll import Pair, agreement_of, direct_nll, unmeasurable
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
    tried: int = 0
    """How many exclusions were tried again, of single sets and of whole states."""

    @property
    def agrees(self) -> bool:
        return self.largest_difference <= self.agreement and not self.changed_unsafe and not self.mismatches


Masks = Mapping[str, Collection[int]]
"""Deletion sets by state."""


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
    named: Masks | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Remeasured:
    """Compute the labels of a random sample of states directly, and compare; None is all of them.

    The same seed draws the same states from the same catalog. They are drawn from all that the labeler has labelled, or
    from those that are named by `state_keys`. The sets of `named` are measured whatever is drawn. So is every set, and
    every state of a current run, that is recorded as one that cannot be measured: where it can, that is a mismatch.
    """
    with catalog.reading() as connection:
        query = _measured(labeler_id, "labelled", StateMeasurement.target_hash)
        if state_keys is not None:
            query = query.where(among(connection, DecisionState.state_key, state_keys))
        rows = connection.execute(selected(query, part or Selection())).all()
        excluded_states = _measured(labeler_id, "excluded", StateMeasurement.reason).where(Trajectory.is_current())
        excluded = connection.execute(selected(excluded_states, part or Selection())).all()
    drawn = set(rows if sample is None else random.Random(seed).sample(rows, min(sample, len(rows))))
    unmeasured = _excluded(catalog, labeler_id)
    wanted = {row: _wanted(row, drawn, named or {}, unmeasured) for row in rows}
    chosen = [(row, masks) for row, masks in wanted.items() if masks is None or masks]
    agreement = agreement_of(backbone)
    compared: list[ComparedSet] = []
    changed, near, tried, mismatches = 0, 0, 0, []
    for done, ((state_id, state_key, decision, blob, recorded_target), masks) in enumerate(chosen):
        progress(done, len(chosen) + len(excluded))
        state = _state(artifacts, blob, decision, backbone, caps)
        labels, missing = _labels(catalog, state_id, labeler_id), unmeasured.get(state_id, {})
        if state is None:
            mismatches.append(f"{state_key}: no longer a state")
            continue
        target = render_output(state.next_output, backbone.tokenizer)
        if target_hash(target) != recorded_target:
            mismatches.append(f"{state_key}: another target")
        possible = [found.mask for found, _ in contexts_of(state.state).deleted]
        if labels.keys() | missing.keys() != set(possible):
            mismatches.append(f"{state_key}: other deletion sets")
        asked = possible if masks is None else [mask for mask in possible if mask in masks]
        try:
            first = [mask for mask in asked if mask not in missing]
            direct = {harm.deletion_set.mask: harm for harm in measure_harm(backbone, state.state, target, first)}
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            mismatches.append(f"{state_key}: not enough memory for one forward over its context")
            continue
        for mask in [mask for mask in asked if mask in missing]:
            tried += 1
            context = next(context for found, context in contexts_of(state.state).deleted if found.mask == mask)
            nll = _measured_after_all(backbone, Pair(context, target), missing[mask])
            if nll is not None:
                said = f"excluded as {missing[mask]}, and can be measured: its NLL is {nll:.6f}"
                mismatches.append(f"state {state_key}, deletion set {mask}: {said}")
        for mask in sorted(labels.keys() & direct.keys()):
            harm, unsafe = labels[mask]
            compared.append(ComparedSet(state_key, mask, harm, direct[mask].harm, unsafe))
            if unsafe != direct[mask].unsafe:
                is_near = abs(direct[mask].harm - HARM_TOLERANCE) <= agreement
                changed, near = changed + (not is_near), near + is_near
    for done, (_, state_key, decision, blob, reason) in enumerate(excluded):
        progress(len(chosen) + done, len(chosen) + len(excluded))
        state = _state(artifacts, blob, decision, backbone, caps)
        if state is None:
            mismatches.append(f"{state_key}: no longer a state")
            continue
        tried += 1
        pair = Pair(contexts_of(state.state).intact, render_output(state.next_output, backbone.tokenizer))
        nll = _measured_after_all(backbone, pair, reason)
        if nll is not None:
            mismatches.append(f"state {state_key}: excluded as {reason}, and can be measured: its NLL is {nll:.6f}")
    # A harm that came out as NaN is in no agreement, and max() would pass over it.
    differences = [abs(found.recorded - found.direct) for found in compared]
    largest = math.inf if any(map(math.isnan, differences)) else max(differences, default=0.0)
    return Remeasured(
        *(len(chosen), len(compared), largest, agreement, changed, near, tuple(mismatches), tuple(compared)),
        *(len(rows), tried),
    )


def _measured(labeler_id: int, outcome: str, column: Any) -> Select[Any]:
    """States of an outcome, in an order that depends on content only."""
    columns = (DecisionState.id, DecisionState.state_key, DecisionState.decision_index, Trajectory.blob)
    return (
        select(*columns, column)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateMeasurement.labeler_id == labeler_id, StateMeasurement.outcome == outcome)
        .order_by(DecisionState.state_key)
    )


def _wanted(row: Any, drawn: set[Any], named: Masks, unmeasured: Mapping[int, Mapping[int, str]]) -> set[int] | None:
    """Return the sets of a state to measure; None is all of them."""
    return None if row in drawn else {*named.get(row.state_key, ()), *unmeasured.get(row.id, ())}


def _state(artifacts: ArtifactStore, blob: str, decision: int, backbone: Backbone, caps: Caps) -> FrozenState | None:
    frozen = freeze_trajectory(RecordedRun.from_json(artifacts.get(blob)), backbone.tokenizer, caps)
    return next((state for state in frozen.states if state.decision == decision), None)


def _measured_after_all(backbone: Backbone, pair: Pair, reason: str) -> float | None:
    """Return the NLL of what was excluded for a reason, or None where the reason holds."""
    why = unmeasurable(pair, backbone.window)
    if why is not None:
        return None if why.reason == reason else math.nan
    try:
        nll = direct_nll(backbone, pair.context, pair.target)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None if reason == ExclusionReason.OUT_OF_MEMORY else math.nan
    return None if reason == ExclusionReason.NON_FINITE and not math.isfinite(nll) else nll


def _excluded(catalog: Catalog, labeler_id: int) -> dict[int, dict[int, str]]:
    """Reasons by state and mask."""
    query = select(LabelExclusion.state_id, LabelExclusion.mask, LabelExclusion.reason)
    found: dict[int, dict[int, str]] = {}
    with catalog.reading() as connection:
        for state_id, mask, reason in connection.execute(query.where(LabelExclusion.labeler_id == labeler_id)):
            found.setdefault(state_id, {})[mask] = reason
    return found


def _labels(catalog: Catalog, state_id: int, labeler_id: int) -> dict[int, tuple[float, bool]]:
    query = select(Label.mask, Label.harm, Label.unsafe).where(
        Label.state_id == state_id, Label.labeler_id == labeler_id
    )
    with catalog.reading() as connection:
        return {mask: (harm, unsafe) for mask, harm, unsafe in connection.execute(query)}
