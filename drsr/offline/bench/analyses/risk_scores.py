"""Unsafe scores of safe and unsafe sets, and what the gate does as it opens (paper, figures on the risk gate)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from drsr.offline.bench.analyses.analysis import Analysis
from drsr.offline.bench.analyses.figures import OURS, PAPER, THIRD, figure, margin_line
from drsr.offline.bench.report.paper_tables import calibration
from drsr.offline.calibrate.operating_curve import OperatingCurve, Sensitivity
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.scored_sets import ScoredSets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
NOTHING_CHOSEN = "Calibration found nothing admissible: no threshold was chosen, and nothing passes the gate."


def score_distributions(
    scored: Mapping[str, ScoredSets[ExampleFrame]], uncertainty_coefficient: float, risk_threshold: float | None
) -> Analysis:
    """Return the distributions of `scored`, by split; a threshold appears only if one was admissible."""
    rows = []
    for split, sets in scored.items():
        score = sets.unsafe_score(uncertainty_coefficient)
        for verdict, mine in (("safe", ~sets.frame.unsafe), ("unsafe", sets.frame.unsafe)):
            if mine.any():
                passed = 0.0 if risk_threshold is None else float(np.mean(score[mine] <= risk_threshold))
                rows.append((split, verdict, int(mine.sum()), *np.quantile(score[mine], QUANTILES).tolist(), passed))

    def draw(*panels: Axes) -> None:
        for axes, (split, sets) in zip(panels, scored.items(), strict=True):
            score = sets.unsafe_score(uncertainty_coefficient)
            edges = np.linspace(min(0.0, float(score.min())), max(1.0, float(score.max())), 26)
            for verdict, mine, colour in (("safe", ~sets.frame.unsafe, OURS), ("unsafe", sets.frame.unsafe, PAPER)):
                axes.hist(score[mine], edges.tolist(), color=colour, alpha=0.6, label=verdict)
            if risk_threshold is not None:
                margin_line(axes, risk_threshold, "threshold")
            axes.set(xlabel="unsafe score", ylabel="sets", title=split)
            axes.legend(frameon=False, fontsize=7)

    return Analysis(
        "score_distributions",
        "Unsafe scores of safe and unsafe sets",
        (NOTHING_CHOSEN if risk_threshold is None else "What the risk gate lets through is left of the dashed line.")
        + " A gap between the two is not a guarantee: the score is a decision score, not the probability of a failure.",
        ("split", "measured", "sets", *(f"{quantile:.0%} below" for quantile in QUANTILES), "passes the gate"),
        tuple(rows),
        figure(draw, panels=len(scored)),
    )


def gate_curve(curve: OperatingCurve, risk_threshold: float | None) -> Analysis:
    """Return the calibration's own search, for the K and beta that were chosen."""
    columns = (curve.risk_threshold, curve.coverage, curve.unsafe_rate, curve.mean_harm, curve.mean_removal)
    step = max(1, len(curve.risk_threshold) // 40)
    kept = sorted({*range(0, len(curve.risk_threshold), step), len(curve.risk_threshold) - 1})
    rows = [tuple(float(column[number]) for column in columns) for number in kept]

    def draw(left: Axes, right: Axes) -> None:
        left.step(curve.risk_threshold, curve.unsafe_rate, where="post", color=PAPER)
        left.set(xlabel="risk threshold", ylabel="unsafe rate of selected sets")
        right.step(curve.risk_threshold, curve.mean_removal, where="post", color=OURS)
        right.set(xlabel="risk threshold", ylabel="mean removal")
        if risk_threshold is not None:
            for axes in (left, right):
                margin_line(axes, risk_threshold, "chosen")

    return Analysis(
        "gate_curve",
        "What the gate does as it opens",
        "On the validation split: each row is a threshold; abstention counts 0 in the mean removal. "
        + (NOTHING_CHOSEN if risk_threshold is None else "The dashed line is the threshold that was frozen."),
        ("risk threshold", "coverage", "unsafe rate", "mean harm", "mean removal"),
        tuple(rows),
        figure(draw, panels=2),
    )


def beta_sensitivity(found: list[Sensitivity]) -> Analysis:
    """Return the best result of each single K and beta within the limits."""
    paper = calibration()
    rows = []
    for row in found:
        best = row.best
        numbers = (
            (best.risk_threshold, best.selected, best.unsafe_rate, best.mean_harm, best.mean_removal) if best else ()
        )
        rows.append((row.max_cardinality, row.uncertainty_coefficient, *(numbers or (None,) * 5)))

    def draw(*panels: Axes) -> None:
        shown = ((3, "states pruned"), (6, "best mean removal"), (4, "unsafe rate of selected sets"))
        for axes, (column, name) in zip(panels, shown, strict=True):
            for cardinality, colour in zip(sorted({row[0] for row in rows}), (OURS, PAPER, THIRD), strict=False):
                mine = [row for row in rows if row[0] == cardinality]
                values = [np.nan if row[column] is None else row[column] for row in mine]
                axes.plot([row[1] for row in mine], values, "o-", color=colour, label=f"K {cardinality}", markersize=3)
            axes.set(xlabel="uncertainty coefficient beta", ylabel=name)
        panels[0].legend(frameon=False)

    return Analysis(
        "beta_sensitivity",
        "Sensitivity to the uncertainty coefficient",
        "For each K and beta the admissible threshold that removes most on validation; empty where none is admissible. "
        f"The paper froze K {paper['max_cardinality'].frozen:g}, beta {paper['uncertainty_coefficient'].frozen:g}.",
        ("K", "beta", "risk threshold", "states pruned", "unsafe rate", "mean harm", "mean removal"),
        tuple(rows),
        figure(draw, panels=3, width=2.8),
    )
