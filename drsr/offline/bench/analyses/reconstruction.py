"""Joint harm from singles, and from singles with exact pair terms (paper, table "Joint-harm reconstruction")."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from drsr.offline.bench.analyses.analysis import Analysis, Cell
from drsr.offline.bench.analyses.figures import OURS, PAPER, figure
from drsr.offline.bench.analyses.grouped_means import INTERVALS, GroupedMeans
from drsr.offline.bench.analyses.non_compositionality import residuals
from drsr.offline.bench.report.paper_tables import analyses
from drsr.offline.evaluate.cells import cell
from drsr.offline.evaluate.singletons import Floats, aggregate, singleton_harms
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap, Metric
from drsr.scorer.network import MAX_CANDIDATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IN_THE_PAPER = {"single harms added up": "singleton_additive", "with exact pair terms": "with_exact_pairs"}
REDUCTION = "taken away by pair terms"


def with_pairs(frame: ExampleFrame) -> Floats:
    """Return the sum of single harms and of all measured pair interactions J_ij in a set; NaN if one is missing."""
    joint = residuals(frame)
    pairs = {
        (int(frame.state[row]), int(frame.mask[row])): joint[row] for row in np.flatnonzero(frame.cardinality == 2)
    }
    guess = aggregate(frame, singleton_harms(frame, frame.harm), "sum")
    for row, (state, mask) in enumerate(zip(frame.state, frame.mask, strict=True)):
        members = [number for number in range(MAX_CANDIDATES) if mask >> number & 1]
        for one, other in combinations(members, 2):
            guess[row] += pairs.get((int(state), 1 << one | 1 << other), np.nan)
    return guess


def reconstruction(frame: ExampleFrame, bootstrap: Bootstrap) -> Analysis:
    guesses = {
        "single harms added up": aggregate(frame, singleton_harms(frame, frame.harm), "sum"),
        "with exact pair terms": with_pairs(frame),
    }
    both = ~np.isnan(guesses["single harms added up"]) & ~np.isnan(guesses["with exact pair terms"])
    paper = {name: analyses()[f"reconstruction.{theirs}"].value for name, theirs in IN_THE_PAPER.items()}
    means, of_two, of_three = (
        GroupedMeans(frame, bootstrap),
        both & (frame.cardinality >= 2),
        both & (frame.cardinality >= 3),
    )
    errors = {
        name: [means.mean(np.abs(guess - frame.harm), part) for part in (of_two, of_three)]
        for name, guess in guesses.items()
    }
    rows: list[tuple[Cell, ...]] = [
        (name, two.support, cell(two), three.support, cell(three), paper[name]) for name, (two, three) in errors.items()
    ]
    two, three = (_reduction(*found) for found in zip(*errors.values(), strict=True))
    rows.append((REDUCTION, rows[0][1], two, rows[0][3], three, f"{analyses()['reconstruction.reduction'].value:.1%}"))

    def draw(axes: Axes) -> None:
        places = np.arange(len(errors))
        shown = [three.value for _, three in errors.values()]
        axes.bar(places - 0.2, np.nan_to_num(shown), 0.38, color=OURS, label="here, three or more Blocks")
        axes.bar(places + 0.2, list(paper.values()), 0.38, color=PAPER, label="paper")
        axes.set(xticks=places, xticklabels=["singles", "and pairs"], ylabel="mean absolute error, nats")
        axes.legend(frameon=False)

    return Analysis(
        "reconstruction",
        "Joint harm reconstructed",
        f"Labels of the {frame.split} split. Distance of a set's harm from the sum. Pair terms are measured, so they "
        "reconstruct sets of two exactly; sets of three or more show what third and higher orders contribute. Neither "
        f"is known online. {INTERVALS}",
        ("method", "sets of two or more", "error", "sets of three or more", "error of these", "error in the paper"),
        tuple(rows),
        figure(draw),
    )


def _reduction(singles: Metric, pairs: Metric) -> str:
    """Return how much of the error the pair terms take away."""
    return f"{1 - pairs.value / singles.value:.1%}" if singles.value > 0 else "-"
