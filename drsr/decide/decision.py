"""Algorithm 1 of the paper, top to bottom: one decision about one request.

Nothing here is caught: `Policy.prune` turns any failure into the original request with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.decide.background import NotInTime
from drsr.decide.candidates import DecisionState, Ineligible, freeze_rendered, invalid_protocol
from drsr.decide.deletion_sets import DeletionSet, deletion_sets
from drsr.decide.invariants import Evidence, Held, check_all
from drsr.decide.minimums import NO_MINIMUMS, Minimums
from drsr.decide.numbers import PolicyNumbers
from drsr.decide.representation import FeatureSource, Representation
from drsr.decide.selection import ProposedSets, Selection, Standing, select, verdicts
from drsr.errors import AlignmentError, LayoutMismatch
from drsr.features.vectors import CandidateFeatures
from drsr.request.contracts import SetScorer, SetScores, TokenIds, Tokenizer
from drsr.request.history import Block, Protect, Rewrite, read_history, rewrite
from drsr.request.protocol import violations
from drsr.request.remembered_tokens import RememberedTokens
from drsr.request.rendering import render
from drsr.request.request import Request
from drsr.request.tokens_read import noting


class Reason(StrEnum):
    """The reason why a request was not pruned, or why a session removed nothing more."""

    UNREADABLE_REQUEST = "unreadable_request"
    """Not a request in OpenAI chat or Anthropic form; the endpoint judges it."""
    INVALID_PROTOCOL = "invalid_protocol"
    """The request itself breaks a rule of its protocol."""
    ALIGNMENT_FAILURE = "alignment_failure"
    """Its tokens cannot be located exactly."""
    RECENT_EXCEEDS_VIEW = "recent_exceeds_view"
    """The two latest Steps alone are longer than the context cap."""
    BELOW_MINIMUM = "below_minimum"
    """It is too short, or can save too little, to be worth a decision: `min_request_tokens`, `min_saving_tokens`."""
    TOO_FEW_CANDIDATES = "too_few_candidates"
    """Fewer than three Blocks may be proposed."""
    ALWAYS_ABSTAINS = "always_abstains"
    """The policy's calibration found nothing admissible."""
    NO_VALID_SET = "no_valid_set"
    OVER_REMOVAL_CAP = "over_removal_cap"
    """Every valid set saves more than the removal cap allows."""
    OVER_RISK_THRESHOLD = "over_risk_threshold"
    """Every set within the cap has too high an unsafe score."""
    NOT_WORTH_REWRITING = "not_worth_rewriting"
    """In a session: rewriting the cached prefix would cost more than the deletion is expected to save."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    """The request was not read in time. Reading continues in the background, for the run's next request."""
    INVARIANT_VIOLATED = "invariant_violated"
    """The rewrite failed one of the eight checks; it was thrown away."""
    INTERNAL_FAILURE = "internal_failure"
    """A fault of drsr's or of its surroundings: `detail` names the exception's class."""


class Frozen(NamedTuple):
    """The frozen inputs of Algorithm 1: everything but the request."""

    numbers: PolicyNumbers
    representation: Representation
    scorer: SetScorer


class Admitted(NamedTuple):
    """A session's say about one set."""

    refused: Standing | None = None
    """Reason why the set may not be taken now; None if it may."""
    worth: float = 0.0
    """Amount of money that the set is expected to save."""


Admit = Callable[[DecisionState, Sequence[DeletionSet]], Sequence[Admitted]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a decision, with everything that was examined on the way."""

    reason: Reason | None
    """None when something is deleted."""
    detail: str
    evidence: Evidence
    """Evidence for the invariants; the request to send is `evidence.returned`."""
    checks: tuple[Held, ...]
    milliseconds: dict[str, float]
    sets: tuple[DeletionSet, ...] = ()
    verdicts: tuple[Standing, ...] = ()
    """Standing of each set: why it was chosen or not."""
    scores: SetScores | None = None
    """Scores of each set; None if nothing was scored."""
    removed: tuple[Block, ...] = ()
    """The original's Blocks that are missing from what is returned."""
    renamed: dict[str, Block] = field(default_factory=dict)
    """In a session: the Blocks of the base, by name, whose name differs in the original, with the original's Block."""


class Stopwatch:
    """Milliseconds per phase, in order."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Add the time since the last lap to this phase."""
        now = time.perf_counter()
        self.milliseconds[phase] = self.milliseconds.get(phase, 0.0) + 1000 * (now - self._last)
        self._last = now


class CountedSource:
    """Count how often the representation model is asked during one decision."""

    def __init__(self, source: FeatureSource, read: Sequence[TokenIds]) -> None:
        """`read` collects the tokens that the model reads."""
        self._source = source
        self.passes = 0
        self.read = read

    def features(self, state: DecisionState) -> CandidateFeatures:
        found = self._source.features(state)
        self.passes += 1
        return found


def decide(
    request: Request,
    frozen: Frozen,
    *,
    protect: Protect | None = None,
    source: FeatureSource | None = None,
    admit: Admit | None = None,
    tokenizer: Tokenizer | None = None,
    minimums: Minimums = NO_MINIMUMS,
) -> Outcome:
    """Decide one request: return it without the chosen Blocks, or unchanged.

    The representation model is run exactly once for an eligible request. A session hands in its own `source` of
    features, its `tokenizer` and its `admit`; if that admits no set, there is nothing to score and the model is not
    run. Nor is it run below the `minimums`.
    """
    with noting() as read:
        model = CountedSource(source or frozen.representation, read)
        tokenizer = tokenizer or RememberedTokens(frozen.representation.tokenizer)
        return _decide(request, frozen, protect, model, admit, tokenizer, minimums)


def _decide(
    request: Request,
    frozen: Frozen,
    protect: Protect | None,
    model: CountedSource,
    admit: Admit | None,
    tokenizer: Tokenizer,
    minimums: Minimums,
) -> Outcome:
    numbers = frozen.numbers
    watch = Stopwatch()
    conclude = partial(_conclude, model, watch)

    # Lines 1 and 2: protect prefix and Recent2, align, build the view, construct outcome-blind candidates.
    found = violations(request)
    history = read_history(request, protect)
    evidence = Evidence(history, request, _whole(request), tuple(found), numbers.rule)
    invalid = invalid_protocol(found)
    if invalid is not None:
        return conclude(evidence, Reason(invalid.reason), invalid.detail)
    below = minimums.why_below(request, numbers.removal_cap)
    if below is not None:
        return conclude(evidence, Reason.BELOW_MINIMUM, below)
    try:
        rendering = render(request, tokenizer)
    except AlignmentError as error:
        return conclude(evidence, Reason.ALIGNMENT_FAILURE, str(error))
    evidence = replace(evidence, tokens_before=len(rendering), tokens_after=len(rendering))
    below = minimums.why_short(len(rendering), numbers.removal_cap)
    if below is not None:
        return conclude(evidence, Reason.BELOW_MINIMUM, below)
    state = freeze_rendered(history, rendering, found, len(tokenizer.lead), numbers.view_cap)
    watch.lap("freeze")

    # Lines 3 to 5: without enough candidates return C_t.
    if isinstance(state, Ineligible):
        return conclude(evidence, Reason(state.reason), state.detail)
    evidence = replace(evidence, state=state)
    if numbers.always_abstains:
        return conclude(evidence, Reason.ALWAYS_ABSTAINS, "calibration found nothing admissible")

    # Lines 7 and 8, what needs no model: all non-empty sets of at most K candidates, measured on the full request.
    sets = deletion_sets(state, numbers.max_cardinality)
    admitted = admit(state, sets) if admit else [Admitted()] * len(sets)
    refused = _refused(admitted, sets, minimums)
    watch.lap("enumerate")
    if all(refused):
        return conclude(evidence, *_none_admitted(refused), sets, refused)

    # Line 6: the features of all candidates, from one pass over the intact view.
    try:
        features = model.features(state)
    except NotInTime as late:
        return conclude(evidence, Reason.DEADLINE_EXCEEDED, str(late), sets, refused)
    finally:
        watch.lap("features")

    # Line 7: score all sets in one batch.
    scores = _scored(frozen.scorer, features, state, sets)
    watch.lap("score")

    # Line 8: the feasible sets. Line 12: the largest saving (in a session: of money), then the lower unsafe score, then
    # the lower harm.
    worth = np.array([one.worth for one in admitted]) if admit else None
    proposed = _proposed(sets, refused, scores, worth, numbers.uncertainty_coefficient)
    selection = select(proposed, len(rendering), numbers.rule)
    reached = verdicts(proposed, len(rendering), numbers.rule, selection)
    said = [why or verdict for why, verdict in zip(refused, reached, strict=True)]
    evidence = replace(evidence, sets=sets, proposed=proposed, selection=selection, features=features)
    watch.lap("select")

    # Lines 9 to 11: nothing feasible, return C_t.
    if selection.chosen is None:
        return conclude(evidence, *_nothing_feasible(selection, said), sets, said, scores)

    # Line 13: delete jointly, serialise again; line 14: return it if it is valid, otherwise C_t.
    chosen = sets[selection.chosen]
    returned = rewrite(request, chosen.removal)
    evidence = replace(evidence, returned=returned, tokens_after=rendering.length_of(request, returned, tokenizer))
    watch.lap("rewrite")
    removed = tuple(state.candidates[member].block for member in chosen.members)
    return conclude(evidence, None, "", sets, said, scores, removed)


def _conclude(
    model: CountedSource,
    watch: Stopwatch,
    evidence: Evidence,
    reason: Reason | None,
    detail: str,
    sets: Sequence[DeletionSet] = (),
    said: Sequence[Standing | None] = (),
    scores: SetScores | None = None,
    removed: tuple[Block, ...] = (),
) -> Outcome:
    """Check all invariants on the outcome and return it; if one is violated, return the request unchanged instead."""
    evidence = replace(evidence, passes=model.passes, tokens_read=tuple(model.read))
    checks = check_all(evidence)
    watch.lap("validate")
    for name, problem in checks:
        if problem is not None:
            reason, detail, removed = Reason.INVARIANT_VIOLATED, f"{name}: {problem}", ()
            evidence = replace(evidence, returned=_whole(evidence.base), tokens_after=evidence.tokens_before)
            break
    shown = tuple(verdict or Standing.NOT_SCORED for verdict in said)
    return Outcome(reason, detail, evidence, checks, watch.milliseconds, tuple(sets), shown, scores, removed)


def _whole(request: Request) -> Rewrite:
    """Return the request itself as the result of deleting nothing."""
    return Rewrite(request, tuple(range(len(request.messages))))


def _refused(admitted: Sequence[Admitted], sets: Sequence[DeletionSet], minimums: Minimums) -> list[Standing | None]:
    """Return for each set why it is out of the question before it is scored: refused by the session, or too small."""
    too_small = [found.direct_saving < minimums.saving_tokens for found in sets]
    return [
        one.refused or (Standing.BELOW_MINIMUM if small else None)
        for one, small in zip(admitted, too_small, strict=True)
    ]


def _scored(
    scorer: SetScorer, features: CandidateFeatures, state: DecisionState, sets: Sequence[DeletionSet]
) -> SetScores:
    if features.layout_hash != scorer.layout_hash:
        raise LayoutMismatch(f"features of layout {features.layout_hash}, a scorer for {scorer.layout_hash}")
    return scorer.score(
        features.matrix,
        [candidate.direct_saving for candidate in state.candidates],
        [found.mask for found in sets],
        [found.direct_saving for found in sets],
    )


def _proposed(
    sets: Sequence[DeletionSet],
    refused: Sequence[Standing | None],
    scores: SetScores,
    worth: NDArray[np.float64] | None,
    uncertainty_coefficient: float,
) -> ProposedSets:
    """Return the scored sets as the arrays that `select` reads."""
    return ProposedSets(
        cardinality=np.array([len(found.members) for found in sets], dtype=np.int64),
        direct_saving=np.array([found.direct_saving for found in sets], dtype=np.int64),
        protocol_safe=np.array([not (found.violations or why) for found, why in zip(sets, refused, strict=True)]),
        unsafe_score=scores.unsafe_score(uncertainty_coefficient),
        predicted_harm=scores.predicted_harm,
        worth=worth,
    )


def _none_admitted(refused: Sequence[Standing | None]) -> tuple[Reason, str]:
    first = (Reason.NOT_WORTH_REWRITING, Reason.BELOW_MINIMUM)
    reason = next((why for why in first if why.value in refused), Reason.OVER_REMOVAL_CAP)
    return reason, f"none of {len(refused)} sets may be taken now"


def _nothing_feasible(selection: Selection, said: Sequence[Standing]) -> tuple[Reason, str]:
    reason = Reason(str(selection.reason))
    if reason is Reason.NO_VALID_SET:
        others = (Reason.NOT_WORTH_REWRITING, Reason.BELOW_MINIMUM)
        reason = next((why for why in others if why.value in said), reason)
    counts = ", ".join(f"{said.count(verdict)} {verdict}" for verdict in dict.fromkeys(said))
    return reason, f"of {len(said)} sets {counts}"
