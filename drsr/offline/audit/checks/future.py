"""The future cannot leak into a feature: shown by replacing it.

A state's features are computed from its recorded trajectory twice: with everything that was recorded behind the
pre-action position, and with garbage in its place. Not a bit may differ. And what the store holds must be what this
computation gives from the very tokens whose hash it recorded: to the bit where it is read from text alone, to rounding
elsewhere. Rounding is small beside the column's own deviation: a label hidden in the last digits of a column that
hardly varies would be as large as all that the scorer sees of it. In half precision rounding is not small beside every
column; there the shipped scorer must do as well on the numbers that come out now as on the stored ones.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState, Ineligible, freeze_rendered
from drsr.errors import DrsrError, FeatureViewError
from drsr.features.light import light_features
from drsr.features.vectors import CandidateFeatures, candidate_features
from drsr.features.view_layouts import Kind, kind_of
from drsr.offline.audit.checks.states import FROM_TEXT
from drsr.offline.audit.foreseen import FORESEEN, foreseen_by
from drsr.offline.audit.withheld import withheld_states
from drsr.offline.catalog.engine import Catalog
from drsr.offline.featurize.light_reader import LightReader, layout_read_by
from drsr.offline.featurize.stored import FeatureReader, StoredState, stored_states
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, get_view
from drsr.offline.freeze.rows import StateRow, load_states
from drsr.offline.ingest.absent_texts import states_without_text
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.target_nll import EXACT
from drsr.offline.publish.subject import Subject
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed, without_texts
from drsr.request.history import read_history
from drsr.request.protocol import violations
from drsr.request.rendering import render
from drsr.request.request import read_request
from drsr.request.view import Caps, caps_for
from drsr.settings import MIXED

AGREEMENT = {EXACT: 1e-5, MIXED: 4e-3, "float16": 4e-3, "bfloat16": 2e-2}
"""Largest difference between a stored number and the recomputed one, by the precision that it was read in; relative to
it where it is larger than 1. In half precision two ways of cutting one text into forwards round differently: by 1.3e-3
in float16-mixed and by 1.0e-2 in bfloat16 (SmolLM2-135M, a state of 441 tokens)."""
OF_DEVIATION = 1e-3
"""The same in float32 as a part of the column's deviation in training. Half precision rounds more than that."""
ROUNDING = 1e-6
"""Less than this, relative as above, is rounding. Columns that vary no more than that are ignored by a scorer."""
GARBAGE_MESSAGES = 4


class FutureAudit(NamedTuple):
    """The findings of the check."""

    states: int
    """Number that were looked at."""
    leaks: tuple[str, ...]
    """States whose features changed with their future: each would be a fault."""
    stale: tuple[str, ...]
    """States whose stored features were computed from other tokens, or are not those that come out now."""
    largest_difference: float
    """Between stored and recomputed numbers; relative where a number is larger than 1."""
    differences: tuple[float, ...] = ()
    """The same by state."""
    stored: int = 0
    """The number of states to draw from."""
    named: int = 0
    """Number of the states looked at that are in it whatever is drawn."""
    recomputed: Mapping[str, NDArray[np.float32]] = MappingProxyType({})
    """In half precision: the features of each state of `whole_splits` as they come out now."""

    @property
    def passed(self) -> bool:
        return self.states > 0 and not self.leaks and not self.stale


def audit_future(
    catalog: Catalog,
    artifacts: ArtifactStore,
    backbone: FrozenLM | LightReader,
    *,
    view: str | RegisteredView = DEFAULT_VIEW,
    sample: int | None = 10,
    seed: int = 0,
    state_keys: Sequence[str] | None = None,
    whole_splits: Collection[str] = (),
    deviation: NDArray[np.float64] | None = None,
    told: Told = lambda done, total: None,
) -> FutureAudit:
    """Look at a random sample of the states in a view, or at all. Each costs two forwards over its context, or in the
    view `light` none.

    They are drawn from the states of current trajectories, or from those that are named. The states of `whole_splits`
    are looked at whatever is drawn; those that were not drawn with one forward, without another future. `deviation` is
    that of each column in training.
    """
    caps = caps_for(backbone.window)
    with catalog.reading() as connection:
        found = get_view(connection, view) if isinstance(view, str) else view
        states = [state for state in stored_states(connection, found, state_keys) if state.has_text]
    _require_model(found, backbone)
    kind = kind_of(found.name)
    reader = FeatureReader(artifacts, found)
    leaks, stale, differences, recomputed = [], [], [], {}
    drawn = states if sample is None else random.Random(seed).sample(states, min(sample, len(states)))
    known = {state.state_key for state in drawn}
    more = [s for s in states if s.trajectory.split in whole_splits and s.state_key not in known]
    chosen = [*drawn, *more]
    dtype = found.identity.dtype
    from_text = np.array([column.group in FROM_TEXT for column in found.columns])
    for done, state in enumerate(chosen):
        told(done, len(chosen))
        row = _row_of(catalog, artifacts, backbone, found, state, caps)
        trajectory = Trajectory.from_json(artifacts.get(state.trajectory.blob))
        real = _features(backbone, row.frozen.state, kind)
        if state.state_key in known:
            other = features_without_future(backbone, trajectory, row.frozen.decision, caps, kind, seed=seed)
            if not _identical(real, other):
                leaks.append(state.state_key)
        if dtype != EXACT and state.trajectory.split in whole_splits:
            recomputed[state.state_key] = real.matrix
        stored = reader.matrix(state)
        differences.append(_difference(stored, real.matrix))
        if real.prefix_hash != state.prefix_hash or not _agree(stored, real.matrix, from_text, deviation, dtype):
            stale.append(state.state_key)
    counts, largest = (len(states), len(more)), max(differences, default=0.0)
    return FutureAudit(len(chosen), tuple(leaks), tuple(stale), largest, tuple(differences), *counts, recomputed)


def _allowed(dtype: str) -> str:
    beside = f", and {OF_DEVIATION:g} of a column's deviation" if dtype == EXACT else f" in {dtype}"
    return f"allowed {AGREEMENT[dtype]:.0e}{beside}"


def check_future(subject: Subject, told: Told) -> list[Verdict]:
    """Check the states that the policy was made from, by the language model that their features were read from."""
    view = subject.view
    identity = view.identity
    backbone = (
        subject.light_reader(identity.backbone, identity.backbone_identity)
        if view.is_light
        else subject.backbone(identity.backbone, identity.dtype, identity.backbone_identity)
    )
    order, keys = subject.order, subject.made_from
    try:
        train = subject.traced.frames["train"]
        deviation = train.features[train.present].std(axis=0, dtype=np.float64)
    except DrsrError:  # another check says so
        deviation = None
    found = audit_future(
        subject.catalog,
        subject.artifacts,
        backbone,
        view=view,
        sample=order.sample,
        seed=order.seed,
        state_keys=keys,
        whole_splits=("validation",) if subject.run.fold_scores is None else ("train", "validation"),
        deviation=deviation,
        told=told,
    )
    withheld = withheld_states(subject, backbone)
    evidence: dict[str, Any] = {
        "states": found.states,
        "of": found.stored,
        "differences": list(found.differences),
        "allowed": AGREEMENT[identity.dtype],
        "withheld": withheld,
    }
    if withheld:
        hint = "compute them again: throw the view away, drsr featurize, train and calibrate again"
        return failed(CHECK, first_of(withheld), hint, withheld, **evidence)
    with subject.catalog.reading() as connection:
        absent = states_without_text(connection, keys)
    what = f"the features of {absent:,} states"
    if absent and found.stored == 0:
        return without_texts(passed(CHECK, "no state has its text here, so no feature was computed again"), what)
    if found.states == 0:
        return failed(CHECK, "no state has stored features", "drsr featurize", **evidence)
    if keys is not None and found.stored + absent != len(set(keys)):
        missing = len(set(keys)) - found.stored - absent
        detail = f"{missing:,} of the {len(set(keys)):,} states that the policy was made from have no stored features"
        return failed(CHECK, detail, "restore the catalog from a copy", **evidence)
    if found.leaks:
        detail = f"features of {len(found.leaks)} of {found.states} states change with what was recorded behind them"
        return failed(
            CHECK, detail, "a column looks ahead: find it before anything is trained", found.leaks, **evidence
        )
    foreseen = foreseen_by(subject, found.recomputed) if found.recomputed and deviation is not None else ""
    if foreseen:
        return failed(CHECK, foreseen, _WRITTEN, [foreseen], **evidence)
    if found.stale:
        detail = (
            f"stored features of {len(found.stale)} of {found.states} states are not what the text before the decision "
            f"gives: they differ by up to {found.largest_difference:.2g}"
        )
        return failed(CHECK, detail, _WRITTEN, [f"state {key}" for key in found.stale], **evidence)
    decide = "of validation" if subject.run.fold_scores is None else "that decide the threshold"
    detail = (
        f"{found.states:,} of {found.stored:,} {subject.drawn_from}, all {decide} among them: not a bit of "
        f"{found.states - found.named:,} changes when the future is replaced; stored numbers agree to "
        f"{found.largest_difference:.1g} ({_allowed(identity.dtype)})"
    )
    return without_texts(passed(CHECK, detail, **evidence), what if absent else "")


_WRITTEN = "throw the view's files away, featurize and train again, and find out who wrote them"
CHECK = Check(
    "no future in a feature",
    Severity.CRITICAL,
    "Does any feature depend on something that was not known when the decision was made?",
    "The features of a random sample of the states that the policy was made from, also of those whose runs have gone "
    "on since, are computed from the recorded trajectory twice: with all that was recorded after the decision, and "
    "with random text in its place. Not a bit may differ. The stored features, which the scorer was trained on, must "
    "be the same numbers: columns read from text to the bit, the others up to rounding "
    f"({AGREEMENT[EXACT]:.0e}, and {OF_DEVIATION:g} of the column's deviation in training; in half precision "
    f"{', '.join(f'{limit:g} in {dtype}' for dtype, limit in AGREEMENT.items() if dtype != EXACT)}; there the shipped "
    f"scorer's AUROC on validation may be {FORESEEN:g} lower by the numbers that come out now). All states of "
    "validation are compared, whatever is drawn, and of a cross-fitted policy all of train, too. A labelled state that "
    "is recorded as one without features is tried again.",
    check_future,
)


def _features(backbone: FrozenLM | LightReader, state: DecisionState, kind: Kind) -> CandidateFeatures:
    return (
        light_features(state) if isinstance(backbone, LightReader) else candidate_features(backbone, state, kind=kind)
    )


def features_without_future(
    backbone: FrozenLM | LightReader,
    trajectory: Trajectory,
    decision: int,
    caps: Caps,
    kind: Kind = Kind.FULL,
    *,
    seed: int = 0,
) -> CandidateFeatures | Ineligible:
    """Return features before a decision of a recorded run whose every message from the decision on is garbage.

    By the offline path: the whole run is read and rendered once, then cut before the decision.
    """
    messages = [*trajectory.request["messages"][:decision], *_garbage(seed)]
    changed = trajectory.request | {"messages": messages}
    request = read_request(changed, protocol=trajectory.protocol, where=trajectory.external_id)
    rendering = render(request, backbone.tokenizer).before(decision)
    before = request.with_messages(request.messages[:decision])
    lead = len(backbone.tokenizer.lead)
    state = freeze_rendered(read_history(before), rendering, violations(before), lead, caps.context)
    return _features(backbone, state, kind) if isinstance(state, DecisionState) else state


def _garbage(seed: int) -> list[dict[str, Any]]:
    """Messages that say nothing: other words, another length, another number of them."""
    draw = random.Random(seed)
    roles = ("assistant", "user") * (GARBAGE_MESSAGES // 2)
    return [
        {"role": role, "content": "".join(draw.choices("abcdefgh 0123456789\n<>{}", k=draw.randrange(20, 400))).strip()}
        for role in roles
    ]


def _row_of(
    catalog: Catalog,
    artifacts: ArtifactStore,
    backbone: FrozenLM | LightReader,
    view: RegisteredView,
    state: StoredState,
    caps: Caps,
) -> StateRow:
    freezing = view.identity.freezing
    rows = load_states(catalog, artifacts, state.trajectory, backbone.tokenizer, caps, freezing)
    return next(row for row in rows if row.id == state.state_id)


def _require_model(view: RegisteredView, backbone: FrozenLM | LightReader) -> None:
    layout = layout_read_by(backbone, view.name).hash
    if (view.identity.backbone_identity, view.identity.layout_hash) != (backbone.identity, layout):
        raise FeatureViewError(
            f"the view was read from {view.identity.backbone!r}, and not with this version of {backbone.name!r}",
            where=f"feature view {view.shown}",
            hint="set DRSR_BACKBONE to the view's language model, or run drsr featurize",
        )


def _identical(one: CandidateFeatures, other: CandidateFeatures | Ineligible) -> bool:
    """To the last bit, and from the same tokens."""
    return isinstance(other, CandidateFeatures) and (
        one.matrix.tobytes() == other.matrix.tobytes() and one[1:] == other[1:]
    )


def _agree(
    stored: NDArray[np.float32],
    recomputed: NDArray[np.float32],
    from_text: NDArray[np.bool_],
    deviation: NDArray[np.float64] | None,
    dtype: str = EXACT,
) -> bool:
    """To the bit in columns from text; in the others to what the precision rounds. In float32 that is little beside the
    column's deviation, and must be."""
    if stored.shape != recomputed.shape:
        return False
    if stored[:, from_text].tobytes() != recomputed[:, from_text].tobytes():
        return False
    size = np.maximum(1.0, np.abs(recomputed.astype(np.float64)))
    allowed = AGREEMENT[dtype] * size
    if deviation is not None and dtype == EXACT:
        allowed = np.minimum(allowed, np.maximum(ROUNDING * size, OF_DEVIATION * deviation))
    return bool((np.abs(stored.astype(np.float64) - recomputed) <= allowed).all())


def _difference(stored: Any, recomputed: Any) -> float:
    """The largest one; relative where a number is larger than 1. Infinite where the shapes differ."""
    if stored.shape != recomputed.shape:
        return float("inf")
    return float((np.abs(stored - recomputed) / np.maximum(1.0, np.abs(recomputed))).max())
