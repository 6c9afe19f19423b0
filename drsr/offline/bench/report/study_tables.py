"""The study of ablations as tables for the report, with the paper's values next to ours where it has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drsr.offline.bench.analyses.analysis import Analysis, Cell, Section
from drsr.offline.bench.analyses.figures import OURS, figure
from drsr.offline.bench.report.paper_tables import analyses
from drsr.offline.evaluate.ablation_study import PolicyRow, ScorerRow, Study
from drsr.offline.evaluate.cells import cell
from drsr.offline.train.ablations import EXCHANGED_SAYS
from drsr.offline.train.metrics import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IN_THE_PAPER = {"max": "maximum", "min": "minimum"}
"""Names of rules that the paper calls differently."""

FEW_TRAJECTORIES = 10
"""Below this a percentile interval over resampled tasks is too narrow to be believed."""
FEW = " With so few trajectories the intervals of this report say little: they are too narrow."
NO_ABLATIONS = "they were not asked for: drsr report --ablations trains and judges them"


def study_section(study: Study, *, ablations: bool) -> Section:
    """Scorers, singleton rules, another decision's relations, and the policies."""
    few = FEW if study.trajectories < FEW_TRAJECTORIES else ""
    on = (
        f"On {study.sets:,} sets of {study.states:,} states of {study.trajectories:,} {study.split} trajectories, "
        f"{study.unsafe / study.sets:.0%} of them unsafe. 95 % intervals in brackets resample whole tasks, or "
        f"trajectories where no task is known.{few}"
    )
    tables = [_scorers(study.scorers, on), _rules(study), _policies(study.policies, study.split)]
    if study.matching:
        tables.insert(2, _matching(study.matching))
    left_out = {row.name: row.why for row in study.missing}
    if not ablations:
        left_out["ablations, the scorer with another decision's relations"] = NO_ABLATIONS
    return Section("The scorer, and the worth of its parts", tables, left_out)


def _scorers(rows: Sequence[ScorerRow], on: str) -> Analysis:
    def cells(row: ScorerRow) -> tuple[str, ...]:
        found = row.metrics
        metrics = (found.state_pairs, found.trajectory_pairs, found.spearman, found.unsafe_auroc, found.brier)
        return (row.name, row.what, *map(cell, metrics))

    def draw(axes: Axes) -> None:
        names = [row.name for row in rows][::-1]
        found = [row.metrics.unsafe_auroc for row in rows][::-1]
        _whiskers(axes, names, found)
        axes.axvline(0.5, color="#777777", linewidth=0.8, linestyle="--")
        axes.set(xlabel="unsafe AUROC")

    return Analysis(
        "scorers",
        "The scorer and its ablations",
        on,
        ("scorer", "what", "pairs in a state", "pairs in a trajectory", "Spearman", "unsafe AUROC", "Brier"),
        tuple(cells(row) for row in rows),
        figure(draw, width=6.5, height=0.32 * len(rows) + 1.0),
    )


def _rules(study: Study) -> Analysis:
    rows = []
    for row in study.singletons:
        name = f"singleton_aggregation.{IN_THE_PAPER.get(row.rule, row.rule)}"
        paper = analyses()[name].value if row.singletons == "measured" else None
        found = row.metrics
        metrics = (found.any_cardinality, found.equal_cardinality, found.unsafe_auroc)
        rows.append((row.rule, row.singletons, *map(cell, metrics), paper))

    def draw(axes: Axes) -> None:
        _whiskers(
            axes,
            [f"{row.rule}, {row.singletons}" for row in study.singletons][::-1],
            [row.metrics.any_cardinality for row in study.singletons][::-1],
        )
        axes.set(xlabel="pairs of sets ordered rightly")

    return Analysis(
        "singleton_rules",
        "Do single harms predict the harm of a set?",
        "Sets of two or more, ordered by what a rule makes of their members' own harms. The measured ones need every "
        "Block to be measured, which no policy can do.",
        ("rule", "single harms", "pairs in a state", "at equal cardinality", "unsafe AUROC", "pairs in the paper"),
        tuple(rows),
        figure(draw, width=6.5, height=0.32 * len(rows) + 1.0),
    )


def _matching(rows: Sequence[ScorerRow]) -> Analysis:
    def draw(axes: Axes) -> None:
        _whiskers(axes, [row.what for row in rows][::-1], [row.metrics.state_pairs for row in rows][::-1])
        axes.set(xlabel="pairs of sets of one state ordered rightly")

    return Analysis(
        "exchanged_relations",
        "The scorer with another decision's relations",
        f"{EXCHANGED_SAYS} The paper's control keeps the Block and changes the state alone: see the analysis of the "
        "same Block beside its own decision and others.",
        ("relations", "pairs in a state", "unsafe AUROC"),
        tuple((row.what, cell(row.metrics.state_pairs), cell(row.metrics.unsafe_auroc)) for row in rows),
        figure(draw, width=6.5, height=1.9),
    )


def _policies(rows: Sequence[PolicyRow], split: str) -> Analysis:
    def threshold(row: PolicyRow) -> str:
        if math.isinf(row.rule.risk_threshold):
            return "abstains always" if row.abstains_always else "no gate"
        return f"{row.rule.risk_threshold:.4f}"

    cells: list[tuple[Cell, ...]] = [
        (row.name, row.rule.max_cardinality, row.uncertainty_coefficient, threshold(row), *map(cell, row.metrics))
        for row in rows
    ]

    def draw(left: Axes, right: Axes) -> None:
        names = [row.name for row in rows][::-1]
        _whiskers(left, names, [row.metrics.mean_removal for row in rows][::-1])
        left.set(xlabel="mean removal, share of the request")
        _whiskers(right, ["" for _ in rows], [row.metrics.unsafe_rate for row in rows][::-1])
        right.set(xlabel="unsafe rate of selected sets")

    return Analysis(
        "policies",
        "Policies, calibrated on validation",
        f"What each configuration's policy does on the {split} split; a dash means that it selects nothing.",
        ("scorer", "K", "beta", "tau", "unsafe rate", "mean harm", "states pruned", "mean removal"),
        tuple(cells),
        figure(draw, panels=2, width=3.6, height=0.3 * len(rows) + 1.0),
    )


def _whiskers(axes: Axes, names: Sequence[str], found: Sequence[Metric]) -> None:
    for place, metric in enumerate(found):
        if not math.isnan(metric.value):
            axes.plot([metric.low, metric.high], [place, place], color=OURS, linewidth=1.2)
            axes.plot([metric.value], [place], "o", color=OURS, markersize=4)
    axes.set_yticks(range(len(names)), names)
