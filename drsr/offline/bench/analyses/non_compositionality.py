"""Compare joint harm with the sum of single harms, by cardinality (paper, figure "Interaction grows with ...")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from drsr.errors import FrameError
from drsr.offline.bench.analyses.analysis import Analysis
from drsr.offline.bench.analyses.figures import COLOURS, OURS, PAPER, figure
from drsr.offline.bench.analyses.grouped_means import INTERVALS, GroupedMeans, draw_line
from drsr.offline.bench.report.paper_tables import analyses
from drsr.offline.evaluate.cells import cell
from drsr.offline.evaluate.singletons import Floats, aggregate, singleton_harms
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap, Metric
from drsr.scorer.network import MAX_CANDIDATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def residuals(frame: ExampleFrame) -> Floats:
    """Return I(A) = H(A) - the sum of its members' harms; NaN if a member was not measured alone."""
    return frame.harm - aggregate(frame, singleton_harms(frame, frame.harm), "sum")


def non_compositionality(frame: ExampleFrame, bootstrap: Bootstrap) -> Analysis:
    found, means = residuals(frame), GroupedMeans(frame, bootstrap)
    other = (frame.harm - found > HARM_TOLERANCE) != frame.unsafe
    paper = {cardinality: analyses()[f"interaction.cardinality_{cardinality}"].value for cardinality in range(1, 5)}
    rows, drawn = [], {}
    for cardinality in paper:
        mine = (frame.cardinality == cardinality) & ~np.isnan(found)
        if mine.any():
            size = np.abs(found[mine])
            drawn[cardinality] = means.mean(np.abs(found), mine)
            middle, late = float(np.median(size)), float(np.quantile(size, 0.9))
            shares = (float(np.mean(size > HARM_TOLERANCE)), cell(means.mean(other.astype(np.float64), mine)))
            rows.append((cardinality, len(size), cell(drawn[cardinality]), middle, late, *shares, paper[cardinality]))

    def draw(axes: Axes) -> None:
        draw_line(axes, list(drawn), list(drawn.values()), "o-", OURS, "here")
        axes.plot(list(paper), list(paper.values()), "s--", color=PAPER, label="paper")
        axes.set(xlabel="Blocks deleted together", ylabel="mean |interaction|, nats", xticks=[1, 2, 3, 4])
        axes.legend(frameon=False)

    return Analysis(
        "non_compositionality",
        "Interaction by cardinality",
        f"Labels of the {frame.split} split. Joint harm less the sum of the members' own harms, in absolute value; "
        "zero for one Block by definition. Then the share of sets in which this exceeds the harm tolerance of "
        f"{HARM_TOLERANCE}, and the share of those that adding up would call safe although they are unsafe, or the "
        f"other way round. No label has more than four Blocks. {INTERVALS}",
        (
            *("Blocks", "sets", "mean", "median", "90 % below", "share above tolerance", "share judged otherwise"),
            "mean in the paper",
        ),
        tuple(rows),
        figure(draw),
    )


def non_compositionality_by_domain(frame: ExampleFrame, domains: Mapping[str, str], bootstrap: Bootstrap) -> Analysis:
    """Return the same for each domain (paper, figure "Full non-compositionality analysis"); `domains` by trajectory.

    Raises FrameError if there are fewer than two.
    """
    mine = np.array([domains.get(run, "") for run in frame.trajectory_ids])[frame.state]
    names = sorted(set(mine.tolist()) - {""})
    if len(names) < 2:
        raise FrameError("the labelled runs are not of several domains", where=frame.split)
    found, means = residuals(frame), GroupedMeans(frame, bootstrap)
    drawn: dict[str, dict[int, Metric]] = {name: {} for name in names}
    for name in names:
        for cardinality in range(1, MAX_CANDIDATES + 1):
            rows = (mine == name) & (frame.cardinality == cardinality) & ~np.isnan(found)
            if rows.any():
                drawn[name][cardinality] = means.mean(np.abs(found), rows)

    def draw(axes: Axes) -> None:
        for name, colour in zip(names, COLOURS, strict=False):
            draw_line(axes, list(drawn[name]), list(drawn[name].values()), "o-", colour, name)
        axes.set(xlabel="Blocks deleted together", ylabel="mean |interaction|, nats", xticks=[1, 2, 3, 4])
        axes.legend(frameon=False, fontsize=7)

    more = f" The figure has the first {len(COLOURS)}." if len(names) > len(COLOURS) else ""
    return Analysis(
        "non_compositionality_by_domain",
        "Interaction by cardinality and domain",
        f"Labels of the {frame.split} split, as above, for each domain alone.{more} The paper draws this without "
        f"numbers, and also for sets of more than four Blocks, which no label here has. {INTERVALS}",
        ("domain", "Blocks", "sets", "mean"),
        tuple(
            (name, cardinality, one.support, cell(one))
            for name, by_size in drawn.items()
            for cardinality, one in by_size.items()
        ),
        figure(draw),
    )
