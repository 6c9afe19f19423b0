"""Advise whether to deploy a policy, and why, in one sentence each: from the numbers of its calibration alone."""

from __future__ import annotations

import math
from typing import NamedTuple

from drsr.decide.numbers import PolicyNumbers
from drsr.offline.publish.lineage import Traced

FEWEST_TASKS = 30
"""Minimum number of tasks: below it an interval says more about the few tasks than about the policy."""
_TWO_SIDED_95 = 1.96


class Advice(NamedTuple):
    """The advice on a policy, and the reason for it."""

    verdict: str
    why: str


def advice_of(numbers: PolicyNumbers, traced: Traced) -> Advice:
    """Advise on a policy by what it did on the states that it was calibrated on."""
    record = traced.calibration
    splits = ("validation",) if traced.run.fold_scores is None else ("train", "validation")
    return advise(
        removal=0.0 if numbers.always_abstains else record.mean_removal,
        unsafe_rate=record.unsafe_rate,
        limit=record.params["max_unsafe_rate"],
        pruned=record.selected,
        tasks=len({state.group_key for state in traced.states if state.split in splits}),
        bound=record.unsafe_bound if record.mode == "certified" else None,
    )


def advise(
    *, removal: float, unsafe_rate: float | None, limit: float, pruned: int, tasks: int, bound: float | None = None
) -> Advice:
    """Advise by removal, by the interval of the unsafe rate against its limit, and by the number of tasks.

    States of one task resemble each other, so the interval treats each task as one observation. A certified `bound`
    takes the place of its upper end.
    """
    if not removal > 0 or not pruned or unsafe_rate is None:
        return Advice("do not deploy it", "It removes nothing from the states that it was calibrated on.")
    low, high = _wilson(unsafe_rate, min(pruned, tasks))
    high = high if bound is None else bound
    found = (
        f"It removes {removal:.1%} of a request on average; of what it pruned {unsafe_rate:.1%} was unsafe (between "
        f"{low:.1%} and {high:.1%}, limit {limit:.1%}), on {tasks} tasks that it was calibrated on."
    )
    if low > limit:
        return Advice("do not deploy it", f"{found} That is above the limit.")
    if tasks < FEWEST_TASKS:
        return Advice("try it in shadow mode first", f"{found} So few tasks promise little: {FEWEST_TASKS} are needed.")
    if high > limit:
        return Advice("try it in shadow mode first", f"{found} On new tasks its unsafe rate may lie above the limit.")
    return Advice("deploy it", f"{found} The whole interval lies within the limit.")


def _wilson(rate: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate by Wilson."""
    if count == 0:
        return 0.0, 1.0
    square = _TWO_SIDED_95**2
    centre = rate + square / (2 * count)
    half = _TWO_SIDED_95 * math.sqrt(rate * (1 - rate) / count + square / (4 * count * count))
    return max((centre - half) / (1 + square / count), 0.0), min((centre + half) / (1 + square / count), 1.0)
