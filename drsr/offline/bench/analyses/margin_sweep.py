"""Pair accuracy of predicted set harms as the harm margin of a pair varies.

The paper's sweep (figure "Decision-conditioned historical relevance", b) covers relations of single Blocks to decision
states: that one is `relation_margins`. This one covers whole scorers and rules.

Only sets of two or more, as in the singleton rules: for one Block the sum of measured single harms is right by
definition. And only sets for which every prediction has a value, so that all are judged on the same pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from drsr.offline.bench.analyses.analysis import Analysis
from drsr.offline.bench.analyses.figures import COLOURS, figure, margin_line
from drsr.offline.bench.analyses.grouped_means import INTERVALS, GroupedMeans, draw_line
from drsr.offline.evaluate.cells import cell
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap, Floats, Metric, count_pairs, grouping

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGINS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
PRIMARY = 0.02


def margin_sweep(
    frame: ExampleFrame, predictions: Mapping[str, Floats], bootstrap: Bootstrap, about: str = ""
) -> Analysis:
    """Sweep the margin. `predictions` are harms of every set by name: the scorer's, a rule's. NaN if there is none.
    `about` says more about them to the reader."""
    known = np.all([~np.isnan(predicted) for predicted in predictions.values()], axis=0)
    rows = np.flatnonzero(known & (frame.cardinality >= 2))
    group, trajectory, means = (
        grouping(frame, "state", True)[rows],
        frame.trajectory[rows],
        GroupedMeans(frame, bootstrap),
    )
    found: dict[str, list[Metric]] = {}
    for name, predicted in predictions.items():
        for margin in MARGINS:
            counts = count_pairs(predicted[rows], frame.harm[rows], group, trajectory, margin or 1e-12)
            found.setdefault(name, []).append(means.accuracy(counts))

    def draw(axes: Axes) -> None:
        for (name, accuracies), colour in zip(found.items(), COLOURS, strict=False):
            draw_line(axes, MARGINS, accuracies, "o-", colour, name)
        margin_line(axes, PRIMARY, "primary margin")
        axes.set(xlabel="harms differ by at least, nats", ylabel="pairs ordered rightly")
        axes.legend(frameon=False, fontsize=7)

    return Analysis(
        "margin_sweep",
        "Ordering harms, by margin",
        f"On {len(rows):,} sets of two or more Blocks of the {frame.split} split, those for which every prediction has "
        "a value. The share of pairs that the predictions order rightly, among pairs of one state and cardinality "
        "whose measured harms differ by the margin or more; equal predictions count one half. The paper sweeps the "
        "margin for relations of single Blocks: that is the table of the same Block by margin. "
        + " ".join(filter(None, (about, INTERVALS))),
        ("prediction", "margin", "pairs", "pair accuracy"),
        tuple(
            (name, margin, one.support, cell(one))
            for name, accuracies in found.items()
            for margin, one in zip(MARGINS, accuracies, strict=True)
        ),
        figure(draw, width=5.0),
    )
