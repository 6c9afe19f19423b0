"""Remeasurement: a random sample of the labels computed once more, each context on its own, and compared.

Besides the sample, sets that somebody names; and all that is said not to be measurable is tried again. A night names
the sets that decide its threshold, most of which decided that of the night before: what was measured then is kept.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Select, select

from drsr.backbone.memory import is_out_of_memory
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.featurize.exclusions import ExclusionReason
from drsr.offline.freeze.selection import Selection, selected
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.label.harm import HARM_TOLERANCE, contexts_of, measure_harm
from drsr.offline.label.records import target_hash
from drsr.offline.label.target_nll import Pair, agreement_of, direct_nll, dtype_of, unmeasurable
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept, bytes_named
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
    """Largest difference between two computations in the dtype of the language model."""
    changed_unsafe: int
    """Sets recorded as unsafe that are safe by the direct computation, or the other way round."""
    changed_near: int
    """The same among sets so near to the tolerance that two computations in agreement may differ. Not a fault."""
    mismatches: tuple[str, ...]
    """States whose target or sets are not the recorded ones. Always a fault."""
    compared: tuple[ComparedSet, ...] = ()
    labelled: int = 0
    """Number of states to draw from."""
    tried: int = 0
    """Number of exclusions that were tried again, of single sets and of whole states."""

    @property
    def agrees(self) -> bool:
        return self.largest_difference <= self.agreement and not self.changed_unsafe and not self.mismatches


Masks = Mapping[str, Collection[int]]
"""Deletion sets by state."""


class _Again(NamedTuple):
    """A state as it comes out of its run now."""

    target: str
    """Hash of the tokens that are scored."""
    possible: list[int]
    """The masks of its deletion sets."""
    harms: dict[int, float]
    """Of the sets that were measured."""


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
    kept: Kept | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Remeasured:
    """Compute the labels of a random sample of states directly, and compare; None is all of them.

    The same seed draws the same states from the same catalog. They are drawn from all that the labeler has labelled, or
    from those that are named by `state_keys`. The sets of `named` are measured whatever is drawn. So is every set and
    every state of a current run, named or not, that is recorded as one that cannot be measured: where it can, that is
    a mismatch.
    With `kept`, a set that is only named is not computed again if that was done for the same bytes by the same code and
    language model, and agreed. What is drawn always is.
    """
    with catalog.reading() as connection:
        query = _measured(labeler_id, "labelled", StateMeasurement.target_hash)
        if state_keys is not None:
            query = query.where(among(connection, DecisionState.state_key, state_keys))
        rows = connection.execute(selected(query, part or Selection())).all()
        unmeasured = _excluded(connection, labeler_id)
        of_sets = select(LabelExclusion.state_id).where(LabelExclusion.labeler_id == labeler_id)
        others = _measured(labeler_id, "labelled", StateMeasurement.target_hash).where(Trajectory.is_current())
        others = others.where(DecisionState.id.in_(of_sets))
        beside = set(connection.execute(selected(others, part or Selection())).all()) - set(rows)
        excluded_states = _measured(labeler_id, "excluded", StateMeasurement.reason).where(Trajectory.is_current())
        excluded = connection.execute(selected(excluded_states, part or Selection())).all()
    drawn = set(rows if sample is None else random.Random(seed).sample(rows, min(sample, len(rows))))
    wanted = {row: _wanted(row, drawn, named or {}, unmeasured) for row in [*rows, *sorted(beside)]}
    chosen = [(row, masks) for row, masks in wanted.items() if masks is None or masks]
    question = f"harms by {backbone.identity} in {dtype_of(backbone)}, {caps}"
    known = _known(artifacts, kept, question, [(row.blob, row.decision_index) for row, masks in chosen if masks])
    comparing = _Comparing(artifacts, backbone, caps, agreement_of(backbone))
    new: dict[str, bytes] = {}
    for done, (row, masks) in enumerate(chosen):
        progress(done, len(chosen) + len(excluded))
        missing, wrong = unmeasured.get(row.id, {}), len(comparing.mismatches)
        content = _content(row.blob, row.decision_index)
        again = known.get(content)
        is_new = again is None or masks is None or bool(missing) or not set(masks) <= again.harms.keys()
        if is_new:
            again = comparing.measure(row, masks, missing, {} if again is None else again.harms)
        if again is None:
            continue
        agrees = comparing.compare(row, masks, missing, again, _labels(catalog, row.id, labeler_id))
        if is_new and agrees and len(comparing.mismatches) == wrong:
            new[content] = orjson.dumps([again.target, again.possible, list(again.harms.items())])
    if kept is not None and new:
        kept.keep(question, new)
    for done, (_, state_key, decision, blob, reason) in enumerate(excluded):
        progress(len(chosen) + done, len(chosen) + len(excluded))
        comparing.try_excluded(state_key, decision, blob, reason)
    return comparing.result(len(chosen), len(rows))


@dataclass
class _Comparing:
    """A remeasurement, and what it has found so far."""

    artifacts: ArtifactStore
    backbone: Backbone
    caps: Caps
    agreement: float
    compared: list[ComparedSet] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    changed: int = 0
    near: int = 0
    tried: int = 0

    def measure(
        self, row: Any, masks: Collection[int] | None, missing: Mapping[int, str], before: Mapping[int, float]
    ) -> _Again | None:
        """Compute the harms of the sets in `masks`, None being all, and try those that are `missing` from the labels.
        `before` holds harms that are known already. None where the state cannot be computed: that is a mismatch."""
        state = self._state(row.state_key, row.decision_index, row.blob)
        if state is None:
            return None
        target = render_output(state.next_output, self.backbone.tokenizer)
        contexts = {found.mask: context for found, context in contexts_of(state.state).deleted}
        asked = [mask for mask in contexts if masks is None or mask in masks]
        try:
            first = [mask for mask in asked if mask not in missing]
            measured = measure_harm(self.backbone, state.state, target, first)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self.mismatches.append(f"{row.state_key}: not enough memory for one forward over its context")
            return None
        direct = {found.deletion_set.mask: found.harm for found in measured}
        for mask in [mask for mask in asked if mask in missing]:
            where = f"state {row.state_key}, deletion set {mask}"
            self._try(Pair(contexts[mask], target), missing[mask], where)
        return _Again(target_hash(target), list(contexts), {**before, **direct})

    def compare(
        self,
        row: Any,
        masks: Collection[int] | None,
        missing: Mapping[int, str],
        again: _Again,
        labels: Mapping[int, tuple[float, bool]],
    ) -> bool:
        """Compare a state's labels with what came out, and return whether all harms agree."""
        if again.target != row.target_hash:
            self.mismatches.append(f"{row.state_key}: another target")
        if labels.keys() | missing.keys() != set(again.possible):
            self.mismatches.append(f"{row.state_key}: other deletion sets")
        agrees = True
        for mask in sorted(labels.keys() & again.harms.keys() & set(again.possible if masks is None else masks)):
            (harm, unsafe), direct = labels[mask], again.harms[mask]
            self.compared.append(ComparedSet(row.state_key, mask, harm, direct, unsafe))
            agrees = agrees and abs(harm - direct) <= self.agreement
            if unsafe != (direct > HARM_TOLERANCE):
                agrees, is_near = False, abs(direct - HARM_TOLERANCE) <= self.agreement
                self.changed, self.near = self.changed + (not is_near), self.near + is_near
        return agrees

    def try_excluded(self, state_key: str, decision: int, blob: str, reason: str) -> None:
        """Try again a state that is recorded as impossible to measure."""
        state = self._state(state_key, decision, blob)
        if state is not None:
            pair = Pair(contexts_of(state.state).intact, render_output(state.next_output, self.backbone.tokenizer))
            self._try(pair, reason, f"state {state_key}")

    def result(self, states: int, labelled: int) -> Remeasured:
        # A harm that came out as NaN is in no agreement, and max() would pass over it.
        differences = [abs(found.recorded - found.direct) for found in self.compared]
        largest = math.inf if any(map(math.isnan, differences)) else max(differences, default=0.0)
        return Remeasured(
            *(states, len(self.compared), largest, self.agreement, self.changed, self.near),
            *(tuple(self.mismatches), tuple(self.compared), labelled, self.tried),
        )

    def _try(self, pair: Pair, reason: str, where: str) -> None:
        """Measure what was excluded for a reason; where it can be measured, that is a mismatch."""
        self.tried += 1
        nll = _measured_after_all(self.backbone, pair, reason)
        if nll is not None:
            self.mismatches.append(f"{where}: excluded as {reason}, and can be measured: its NLL is {nll:.6f}")

    def _state(self, state_key: str, decision: int, blob: str) -> FrozenState | None:
        """Freeze the state's run again and return the state; if it is no longer a state, that is a mismatch."""
        run = RecordedRun.from_json(self.artifacts.get(blob))
        frozen = freeze_trajectory(run, self.backbone.tokenizer, self.caps)
        found = next((state for state in frozen.states if state.decision == decision), None)
        if found is None:
            self.mismatches.append(f"{state_key}: no longer a state")
        return found


def _content(blob: str, decision: int) -> str:
    return f"{bytes_named(blob)} {decision}"


def _known(
    artifacts: ArtifactStore, kept: Kept | None, question: str, states: Sequence[tuple[str, int]]
) -> dict[str, _Again]:
    """Return what is kept of some states, by run and decision; nothing of a run whose file is gone."""
    if kept is None:
        return {}
    gone = artifacts.missing(blob for blob, _ in states)
    found = kept.find(question, [_content(blob, decision) for blob, decision in states if blob not in gone])
    values = {content: orjson.loads(value) for content, value in found.items()}
    return {content: _Again(target, masks, dict(harms)) for content, (target, masks, harms) in values.items()}


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


def _excluded(connection: Connection, labeler_id: int) -> dict[int, dict[int, str]]:
    """Reasons by state and mask."""
    query = select(LabelExclusion.state_id, LabelExclusion.mask, LabelExclusion.reason)
    found: dict[int, dict[int, str]] = {}
    for state_id, mask, reason in connection.execute(query.where(LabelExclusion.labeler_id == labeler_id)):
        found.setdefault(state_id, {})[mask] = reason
    return found


def _labels(catalog: Catalog, state_id: int, labeler_id: int) -> dict[int, tuple[float, bool]]:
    query = select(Label.mask, Label.harm, Label.unsafe).where(
        Label.state_id == state_id, Label.labeler_id == labeler_id
    )
    with catalog.reading() as connection:
        return {mask: (harm, unsafe) for mask, harm, unsafe in connection.execute(query)}
