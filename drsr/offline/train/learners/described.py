"""The sets of a frame as trees and linear models read them, the tasks that each member draws, and fitting them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.source_balance import WHOLE, state_weights
from drsr.scorer.set_description import describe, width

Floats = NDArray[np.float64]
Member = TypeVar("Member")


class DescribedSets(NamedTuple):
    """The inputs of a learner."""

    described: Floats
    """(sets, numbers), in the frame's order."""
    unsafe: NDArray[np.bool_]
    harm: Floats
    """Limited: a single extreme harm must not bend a whole fit."""
    group: NDArray[np.int64]
    """The task of each set."""
    weight: Floats
    """Weight of each set, by its source."""


def describe_frame(frame: ExampleFrame, used: NDArray[np.int32], *, retained_context: bool) -> Floats:
    """(sets, numbers): the description of every labelled set, by the code that describes when deciding."""
    described = np.empty((len(frame), width(len(used))))
    for count in np.unique(frame.candidate_counts):
        states = np.flatnonzero(frame.candidate_counts == count)
        place = np.full(len(frame.state_ids), -1, dtype=np.int64)
        place[states] = np.arange(len(states))
        rows = np.flatnonzero(place[frame.state] >= 0)
        within, column = place[frame.state[rows]], frame.mask[rows] - 1
        savings = np.zeros((len(states), (1 << int(count)) - 1), dtype=np.int64)
        savings[within, column] = frame.direct_saving[rows]
        everything = describe(
            frame.features[states, :count][:, :, used],
            frame.candidate_savings[states, :count],
            savings,
            retained_context=retained_context,
        )
        described[rows] = everything[within, column]
    return described


def described_sets(
    frame: ExampleFrame, used: NDArray[np.int32], harm_limit: float, *, retained_context: bool, balance: float = 0.0
) -> DescribedSets:
    """Return everything that a learner is given about a frame."""
    return DescribedSets(
        describe_frame(frame, used, retained_context=retained_context),
        frame.unsafe,
        np.clip(frame.harm, -harm_limit, harm_limit),
        frame.state_group[frame.state],
        state_weights(frame, balance)[frame.state] / WHOLE,
    )


def drawn_weights(group: NDArray[np.int64], unsafe: NDArray[np.bool_], seed: int) -> Floats:
    """Return how often each set counts for a member: tasks are drawn with replacement, as many draws as tasks.

    Tasks and not sets: sets of one task resemble each other, and members that all saw every task would agree more than
    what they know allows. A draw whose sets are all safe or all unsafe teaches nothing and is drawn again.
    """
    groups = int(group.max()) + 1
    generator = np.random.default_rng(seed)
    while True:
        counts = np.bincount(generator.integers(0, groups, groups), minlength=groups)
        weights = counts[group].astype(np.float64)
        drawn = unsafe[weights > 0]
        if drawn.any() and not drawn.all():
            return weights


def fit_members(fit: Callable[[int], Member], seeds: Sequence[int], workers: int) -> list[Member]:
    """Fit the member of each seed. `workers` threads share the members; each member is fitted by one thread, so that
    the same frame gives the same bits with any number of them."""
    # OpenMP counts its threads per calling thread, so each thread of the pool is limited by itself.
    alone = partial(threadpool_limits, limits=1)
    with alone(), ThreadPoolExecutor(workers, initializer=alone) as pool:
        return list(pool.map(fit, seeds))
