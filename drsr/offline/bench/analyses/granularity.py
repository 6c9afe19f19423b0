"""Whole Steps against single Blocks as units of deletion (paper, figure "History granularity analysis").

For a state every older Step is deleted as a whole, and every Block of it alone; the same recorded output is scored
again. These contexts are not among the labels, so they are measured here, all contexts of a trajectory in one walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drsr.decide.candidates import DecisionState
from drsr.offline.bench.analyses.analysis import Analysis
from drsr.offline.bench.analyses.figures import OURS, PAPER, figure
from drsr.offline.bench.analyses.grouped_means import INTERVALS, grouped_median
from drsr.offline.bench.report.paper_tables import analyses
from drsr.offline.evaluate.cells import cell
from drsr.offline.featurize.exclusions import Exclusion
from drsr.offline.label.target_nll import Pair, TargetNll
from drsr.offline.train.metrics import Bootstrap, Floats, Metric, draw_trajectories, ratio_metric
from drsr.request.contracts import TokenIds
from drsr.request.history import Block, delete, removal
from drsr.request.protocol import new_violations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IN_THE_PAPER = {
    "median range of Step harms in a state": "granularity.step_harm_range",
    "median range of Block harms in a state": "granularity.block_harm_range",
    "unsafe Steps with a safe Block": "granularity.unsafe_steps_with_a_safe_block",
}


class StepHarm(NamedTuple):
    """One older Step of one state."""

    state: str
    position: float
    """0 for the oldest Step of the request, 1 for the latest."""
    harm: float
    """Harm of deleting the whole Step."""
    block_harms: tuple[float, ...]
    """Of deleting each of its Blocks alone."""
    task: str = ""
    """Task whose runs count as one draw of an interval; filled in where the run is known."""


def measure_steps(scorer: TargetNll, states: Sequence[tuple[str, DecisionState, TokenIds]]) -> list[StepHarm]:
    """Return every older Step of some states of one trajectory, with the output recorded next to each."""
    pairs: list[Pair] = []
    found: list[tuple[str, float, int, int, list[int]]] = []
    for name, state, target in states:
        intact = len(pairs)
        pairs.append(Pair(state.view.token_ids(state.rendering.token_ids), target))
        steps = [step for step in state.history.older if step.message >= state.view.first_message and step.complete]
        for step in steps:
            blocks = [block for block in step.blocks if not block.opaque and not block.pinned]
            if not blocks or len(blocks) != len(step.blocks) or not _allowed(state, blocks):
                continue
            whole = len(pairs)
            pairs.append(_without(state, blocks, target))
            single = []
            for block in blocks:
                if _allowed(state, [block]):
                    single.append(len(pairs))
                    pairs.append(_without(state, [block], target))
            position = step.index / max(1, len(state.history.steps) - 1)
            found.append((name, position, intact, whole, single))
    nlls = scorer.score(pairs).nlls
    harms = []
    for name, position, intact, whole, single in found:
        base, all_of_it = nlls[intact], nlls[whole]
        measured = [nll for nll in (nlls[index] for index in single) if not isinstance(nll, Exclusion)]
        if not isinstance(base, Exclusion) and not isinstance(all_of_it, Exclusion) and measured:
            harms.append(StepHarm(name, position, all_of_it - base, tuple(nll - base for nll in measured)))
    return harms


def granularity(steps: Sequence[StepHarm], harm_tolerance: float, bootstrap: Bootstrap) -> Analysis:
    by_state: dict[str, list[StepHarm]] = {}
    for step in steps:
        by_state.setdefault(step.state, []).append(step)
    several = [group for group in by_state.values() if len(group) > 1]
    unsafe = [step for step in steps if step.harm > harm_tolerance]
    tasks = {task: number for number, task in enumerate(sorted({step.task for step in steps}))}
    draws = draw_trajectories(np.arange(len(tasks)), bootstrap)

    def median(ranges: Sequence[float]) -> Metric:
        task = np.array([tasks[group[0].task] for group in several], dtype=np.int64)
        return grouped_median(np.array(ranges), task, draws, bootstrap)

    def by_task(some: Sequence[StepHarm]) -> Floats:
        return np.bincount([tasks[step.task] for step in some], minlength=len(tasks)).astype(np.float64)

    with_safe = by_task([step for step in unsafe if min(step.block_harms) <= harm_tolerance])
    values = (
        median([_range([step.harm for step in group]) for group in several]),
        median([_range([harm for step in group for harm in step.block_harms]) for group in several]),
        ratio_metric("share", "Steps, pooled", "none", with_safe, by_task(unsafe), draws, bootstrap),
    )
    rows = [
        (name, value.support, cell(value), analyses()[paper].value)
        for (name, paper), value in zip(IN_THE_PAPER.items(), values, strict=True)
    ]

    def draw(left: Axes, right: Axes) -> None:
        left.plot([step.position for step in steps], [step.harm for step in steps], "o", color=OURS, markersize=3)
        left.set(xlabel="place of the Step (0 oldest)", ylabel="harm of the Step, nats")
        lowest = [min(step.block_harms) for step in steps]
        right.plot([step.harm for step in steps], lowest, "o", color=PAPER, markersize=3)
        right.axhline(harm_tolerance, color="#777777", linewidth=0.8, linestyle="--")
        right.axvline(harm_tolerance, color="#777777", linewidth=0.8, linestyle="--")
        right.set(xlabel="harm of the Step, nats", ylabel="its least harmful Block")

    return Analysis(
        "granularity",
        "Steps against Blocks",
        f"Measured in addition to the labels, in {len(by_state):,} states. How widely harms vary within one state when "
        "whole Steps or single Blocks are deleted, and how often a Step that must stay holds a Block that may go "
        f"(right figure: right of and below the dashed lines). {INTERVALS}",
        ("measured", "of", "value", "in the paper"),
        tuple(rows),
        figure(draw, panels=2),
    )


def _allowed(state: DecisionState, blocks: Sequence[Block]) -> bool:
    rewritten = delete(state.history, blocks)
    return not new_violations(rewritten.request, rewritten.kept, state.violations)


def _without(state: DecisionState, blocks: Sequence[Block], target: TokenIds) -> Pair:
    removed = removal(state.history, blocks)
    return Pair(state.view.token_ids(state.rendering.without(removed)), target)


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)
