"""How far joint harm is from the sum of single harms, by cardinality (paper, figure "Interaction grows with ...")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drsr.offline.evaluation.analyses.analysis import Analysis
from drsr.offline.evaluation.analyses.figures import OURS, PAPER, figure
from drsr.offline.evaluation.paper_tables import analyses
from drsr.offline.examples import ExampleFrame
from drsr.offline.harm import HARM_TOLERANCE
from drsr.offline.singletons import Floats, aggregate, singleton_harms

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def residuals(frame: ExampleFrame) -> Floats:
    """I(A) = H(A) - the sum of its members' harms; NaN where a member was not measured alone."""
    return frame.harm - aggregate(frame, singleton_harms(frame, frame.harm), "sum")


def non_compositionality(frame: ExampleFrame) -> Analysis:
    found = residuals(frame)
    paper = {cardinality: analyses()[f"interaction.cardinality_{cardinality}"].value for cardinality in range(1, 5)}
    rows = []
    for cardinality in paper:
        mine = np.abs(found[(frame.cardinality == cardinality) & ~np.isnan(found)])
        if len(mine):
            above = float(np.mean(mine > HARM_TOLERANCE))
            mean, median, late = float(mine.mean()), float(np.median(mine)), float(np.quantile(mine, 0.9))
            rows.append((cardinality, len(mine), mean, median, late, above, paper[cardinality]))

    def draw(axes: Axes) -> None:
        axes.plot([row[0] for row in rows], [row[2] for row in rows], "o-", color=OURS, label="here")
        axes.plot(list(paper), list(paper.values()), "s--", color=PAPER, label="paper")
        axes.set(xlabel="Blocks deleted together", ylabel="mean |interaction|, nats", xticks=[1, 2, 3, 4])
        axes.legend(frameon=False)

    return Analysis(
        "non_compositionality",
        "Interaction by cardinality",
        "Joint harm less the sum of the members' own harms, in absolute value. Zero for one Block by definition. Above "
        f"the harm tolerance of {HARM_TOLERANCE} adding up single harms turns safe into unsafe or the other way round.",
        ("Blocks", "sets", "mean", "median", "90 % below", "share above tolerance", "mean in the paper"),
        tuple(rows),
        figure(draw),
    )
