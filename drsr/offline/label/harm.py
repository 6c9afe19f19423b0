"""Exact joint deletion harm H(A) of every deletion set of a state: measured on the real rewrite, never added up.

`measure_states` measures all states of a trajectory in one go and shares what they have in common; `measure_harm` takes
one state, computes every context on its own and works with any backbone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from drsr.decide.candidates import DecisionState
from drsr.decide.deletion_sets import DeletionSet, deletion_sets
from drsr.offline.featurize.exclusions import Exclusion
from drsr.offline.label.target_nll import Method, Pair, TargetNll, direct_nll
from drsr.request.contracts import Backbone, TokenIds

if TYPE_CHECKING:
    from drsr.backbone.continuation import Watch

HARM_TOLERANCE = 0.020
"""delta_H: a set is unsafe when its harm exceeds it."""


class MeasuredHarm(NamedTuple):
    """The harm of one deletion set: how much less likely the recorded output became."""

    deletion_set: DeletionSet
    intact_nll: float
    deleted_nll: float

    @property
    def harm(self) -> float:
        """H(A), in nats per token of the output."""
        return self.deleted_nll - self.intact_nll

    @property
    def unsafe(self) -> bool:
        return self.harm > HARM_TOLERANCE


class StateHarms(NamedTuple):
    """The measurements of one state: every set is either among the harms or excluded with a reason."""

    intact_nll: float
    harms: tuple[MeasuredHarm, ...]
    excluded: dict[int, Exclusion]
    """The sets that could not be measured, by mask."""


class MeasuredStates(NamedTuple):
    """The measurements of some states of one trajectory."""

    results: tuple[StateHarms | Exclusion, ...]
    """One for each state; an Exclusion where nothing of it could be measured."""
    method: Method
    tokens_processed: int
    """Tokens that went through the model."""
    tokens_in_pairs: int
    """Tokens that would go through it if every context were computed on its own."""


class _Contexts(NamedTuple):
    """The contexts of one state, in tokens of its view."""

    intact: TokenIds
    deleted: tuple[tuple[DeletionSet, TokenIds], ...]
    """Every non-empty subset of the candidates with the rewrite's tokens."""


def contexts_of(state: DecisionState) -> _Contexts:
    """Return the intact context, and D_A(C) for every set A."""
    view, rendering = state.view, state.rendering
    sets = deletion_sets(state, len(state.candidates))
    deleted = tuple((found, view.token_ids(rendering.without(found.removal))) for found in sets)
    return _Contexts(view.token_ids(rendering.token_ids), deleted)


def measure_harm(
    backbone: Backbone, state: DecisionState, target: TokenIds, masks: Collection[int] | None = None
) -> Iterator[MeasuredHarm]:
    """H(A) for every non-empty subset of the candidates, each context computed on its own, the intact one once.

    `masks` asks for these sets only.
    """
    contexts = contexts_of(state)
    intact = direct_nll(backbone, contexts.intact, target)
    for deletion_set, context in contexts.deleted:
        if masks is not None and deletion_set.mask not in masks:
            continue
        yield MeasuredHarm(deletion_set, intact, direct_nll(backbone, context, target))


def measure_states(
    scorer: TargetNll, states: Sequence[tuple[DecisionState, TokenIds]], watches: Mapping[int, Watch] | None = None
) -> MeasuredStates:
    """H(A) for every non-empty subset of the candidates of every state; each comes with the output recorded next.

    The states should be of one trajectory: what their contexts have in common is computed once. `watches` are shown the
    intact contexts of the states they are given for (by position) while these are computed; if the `method` that comes
    back is `direct`, they were not.
    """
    contexts = [contexts_of(state) for state, _ in states]
    pairs: list[Pair] = []
    starts: list[int] = []
    for found, (_, target) in zip(contexts, states, strict=True):
        starts.append(len(pairs))
        # One and the same array of target tokens under every context: H compares nothing else.
        pairs += [Pair(found.intact, target), *(Pair(deleted, target) for _, deleted in found.deleted)]
    by_pair = {starts[number]: watch for number, watch in (watches or {}).items()}
    scores = scorer.score(pairs, by_pair)
    results = []
    for found, start in zip(contexts, starts, strict=True):
        nlls = scores.nlls[start : start + 1 + len(found.deleted)]
        results.append(_state_harms([deletion_set for deletion_set, _ in found.deleted], nlls))
    return MeasuredStates(tuple(results), scores.method, scores.tokens_processed, scores.tokens_in_pairs)


def _state_harms(sets: Sequence[DeletionSet], nlls: Sequence[float | Exclusion]) -> StateHarms | Exclusion:
    """Measure one state's harms. Without the intact NLL, or without any other, there is no label at all."""
    intact, *deleted = nlls
    if isinstance(intact, Exclusion):
        return intact
    harms, excluded = [], {}
    for deletion_set, nll in zip(sets, deleted, strict=True):
        if isinstance(nll, Exclusion):
            excluded[deletion_set.mask] = nll
        else:
            harms.append(MeasuredHarm(deletion_set, intact, nll))
    if not harms:
        return next(iter(excluded.values()))
    return StateHarms(intact, tuple(harms), excluded)


Harms = Mapping[int, float]
"""Measured harm H(A) of the sets of one state, by mask."""


def interactions(harms: Harms) -> dict[int, float]:
    """I(A) = H(A) - the sum of its members' harms, for every set of two or more all of whose parts were measured."""
    return {mask: harms[mask] - sum(harms[m] for m in members(mask)) for mask in harms if _is_joint(harms, mask)}


def members(mask: int) -> list[int]:
    """Return the singletons of a set, as masks."""
    return [1 << bit for bit in range(mask.bit_length()) if mask & (1 << bit)]


def _is_joint(harms: Harms, mask: int) -> bool:
    return mask.bit_count() > 1 and all(member in harms for member in members(mask))
