"""Pair accuracy as the harm margin of a pair varies (paper, figure "Decision-conditioned historical relevance", b)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from drsr.offline.evaluation.analyses.analysis import Analysis
from drsr.offline.evaluation.analyses.figures import OURS, PAPER, THIRD, figure, margin_line
from drsr.offline.examples import ExampleFrame
from drsr.offline.metrics import Floats, count_pairs, grouping

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGINS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
PRIMARY = 0.02


def margin_sweep(frame: ExampleFrame, predictions: Mapping[str, Floats]) -> Analysis:
    """`predictions` are harms of every set by some name: the scorer's, a rule's."""
    group = grouping(frame, "state", True)
    rows = []
    for name, predicted in predictions.items():
        for margin in MARGINS:
            counts = count_pairs(predicted, frame.harm, group, frame.trajectory, margin or 1e-12)
            rows.append((name, margin, int(counts.pairs.sum()), counts.pooled))

    def draw(axes: Axes) -> None:
        for (name, _), colour in zip(predictions.items(), (OURS, PAPER, THIRD, "#8a5cc2", "#777777"), strict=False):
            mine = [row for row in rows if row[0] == name]
            axes.plot([row[1] for row in mine], [row[3] for row in mine], "o-", color=colour, label=name, markersize=3)
        margin_line(axes, PRIMARY, "primary margin")
        axes.set(xlabel="harms differ by at least, nats", ylabel="pairs ordered rightly")
        axes.legend(frameon=False)

    return Analysis(
        "margin_sweep",
        "Ordering harms, by margin",
        "Of the pairs of sets of one state and cardinality whose measured harms differ by the margin or more, the part "
        "that the predictions order rightly; equal predictions count one half.",
        ("prediction", "margin", "pairs", "pair accuracy"),
        tuple(rows),
        figure(draw),
    )
