"""The noise floor of a labeler: how far its harms are from those of the same language model in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drsr.decide.candidates import DecisionState
from drsr.errors import SettingsError
from drsr.offline.label.harm import contexts_of
from drsr.offline.label.target_nll import EXACT, Method, Pair, TargetNll
from drsr.request.contracts import TokenIds
from drsr.settings import MIXED

LARGEST_SHARE = 0.25
"""A floor above this part of the tolerance is refused: labels near the tolerance would be decided by rounding."""

State = tuple[DecisionState, TokenIds]
"""A state and the output recorded next."""


class NoiseFloor(NamedTuple):
    """The effect of rounding on a harm, in nats per token."""

    reference: str
    """Reference of the comparison: `float32`, the same language model in that precision; or `direct`, in float32
    itself, one NLL of each context on its own, which costs nothing because the method is verified so anyway."""
    states: int
    compared: int
    """Harms that were compared."""
    mean: float
    p90: float
    """The floor: nine of ten harms are nearer than this to those of float32."""
    largest: float
    order: float | None = None
    """The largest change when the same contexts were computed in another order; None where that was not tried."""

    @property
    def said(self) -> str:
        """In words."""
        if self.reference == "direct":
            return f"two ways of computing agree to {self.largest:.1e} nats per token"
        order = "" if self.order is None else f"; {self.order:.1e} between two orders"
        return (
            f"{self.p90:.4f} nats per token against {self.reference} (mean {self.mean:.4f}, largest "
            f"{self.largest:.4f}, {self.compared:,} sets of {self.states:,} states{order})"
        )


def floor_from(recorded: Mapping[str, Any] | None) -> NoiseFloor | None:
    """Return a floor as the catalog holds it."""
    return None if recorded is None else NoiseFloor(**recorded)


def floor_said(recorded: Mapping[str, Any] | None) -> str:
    """Return in words what the catalog holds, even if it holds nothing."""
    floor = floor_from(recorded)
    return "not measured" if floor is None else floor.said


def noise_floor(scorer: TargetNll, exact: TargetNll, states: Sequence[State]) -> NoiseFloor | None:
    """Compare the harms of all sets of some states with those of `exact`, the same model in float32.

    None if no harm can be measured both ways.
    """
    here, there = _harms(scorer, states), _harms(exact, states)
    turned = _harms(scorer, states, backwards=True)
    both = sorted(here.keys() & there.keys())
    if not both:
        return None
    apart = np.array([abs(here[key] - there[key]) for key in both])
    order = max((abs(here[key] - turned[key]) for key in both if key in turned), default=None)
    p90, largest = float(np.quantile(apart, 0.9)), float(np.max(apart))
    measured = len({number for number, _ in both})
    return NoiseFloor(EXACT, measured, len(both), float(np.mean(apart)), p90, largest, order)


def agreement_of_ways(scorer: TargetNll) -> NoiseFloor | None:
    """Return what is known in float32 without computing anything more: how far two ways were apart on the first state.

    None where contexts are computed one by one, or nothing was scored."""
    if scorer.difference is None or scorer.method is Method.DIRECT:
        return None
    return NoiseFloor("direct", 1, 0, *(scorer.difference,) * 3)


def refuse_noisy(floor: NoiseFloor, tolerance: float, dtype: str) -> None:
    """Raise SettingsError if rounding is too large a part of what the labels are judged by."""
    better = EXACT if dtype == MIXED else f"{MIXED}, or {EXACT}"
    if not floor.p90 <= LARGEST_SHARE * tolerance:
        raise SettingsError(
            f"in {dtype} one harm in ten is off by more than {floor.p90:.4f} nats per token because of rounding alone, "
            f"more than a quarter of the tolerance {tolerance:g}",
            hint=f"set DRSR_DTYPE={better}; to label all the same: drsr label --accept-noise",
        )


def _harms(scorer: TargetNll, states: Sequence[State], *, backwards: bool = False) -> dict[tuple[int, int], float]:
    """Return measured harms by number of the state and mask."""
    found = {}
    for number, (state, target) in enumerate(states):
        contexts = contexts_of(state)
        pairs = [Pair(contexts.intact, target), *(Pair(context, target) for _, context in contexts.deleted)]
        nlls = scorer.score(pairs[::-1]).nlls[::-1] if backwards else scorer.score(pairs).nlls
        intact, *deleted = nlls
        for (deletion_set, _), nll in zip(contexts.deleted, deleted, strict=True):
            if isinstance(intact, float) and isinstance(nll, float):
                found[number, deletion_set.mask] = nll - intact
    return found
