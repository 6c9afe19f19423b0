"""The ablation study: every configuration, control and singleton rule judged on the same examples.

Four tables: how well each configuration orders harms and detects unsafe sets (with its gain over the full scorer, both
drawn together); the result of singleton rules on sets of two or more, from measured and from predicted singleton harms,
compared with the scorer on the same sets; the scorer with another decision's relations; and the result here of each
configuration's policy, calibrated on validation. All intervals resample whole tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.decide.selection import SelectionRule
from drsr.errors import FrameError
from drsr.offline.calibrate.selection_path import selection_path
from drsr.offline.evaluate.ablation_points import AblationPoint, ablation_point
from drsr.offline.evaluate.singletons import JointMetrics, evaluate_rules, joint_metrics
from drsr.offline.params import CalibrateParams
from drsr.offline.train.ablations import (
    ABLATIONS,
    FULL,
    MISMATCH_SEED,
    Ablation,
    mismatch_states,
    prepare_frame,
    trained_as,
)
from drsr.offline.train.examples import ExampleFrame, TrainingFrame
from drsr.offline.train.metrics import (
    Bootstrap,
    Metric,
    Metrics,
    auroc_gain,
    count_pairs,
    draw_trajectories,
    evaluate,
    grouping,
    pair_gain,
    ratio_metric,
)
from drsr.offline.train.scored_sets import ScoredSets, score_frame
from drsr.scorer.frozen import FrozenScorer

Floats = NDArray[np.float64]

WITHIN_STATE = "pairs of one state and cardinality"
SCORED_MISMATCHED = "full, scored on mismatched states"


class Gains(NamedTuple):
    """Gains over the full scorer; negative if the row is better."""

    state_pairs: Metric
    unsafe_auroc: Metric


class ScorerRow(NamedTuple):
    """One configuration's predictions."""

    name: str
    what: str
    metrics: Metrics
    gains: Gains | None
    """Gains over the full scorer; None for the full scorer itself."""


class Missing(NamedTuple):
    """A configuration that could not be trained or judged on these examples."""

    name: str
    why: str


class SingletonRow(NamedTuple):
    """One rule's guesses for sets of two or more, or the scorer's own predictions for them."""

    rule: str
    singletons: str
    """`measured`, `predicted`, or `none needed`."""
    metrics: JointMetrics


class PolicyMetrics(NamedTuple):
    unsafe_rate: Metric
    """Unsafe share of the selected sets."""
    mean_harm: Metric
    """Exact, of the same sets."""
    pruned: Metric
    """Part of the states in which a set is selected."""
    mean_removal: Metric
    """Part of the full request, over all states."""


class PolicyRow(NamedTuple):
    """The results of a configuration's calibrated policy on these examples."""

    name: str
    rule: SelectionRule
    uncertainty_coefficient: float
    abstains_always: bool
    metrics: PolicyMetrics


class Study(NamedTuple):
    split: str
    states: int
    sets: int
    trajectories: int
    unsafe: int
    scorers: list[ScorerRow]
    """The full scorer first."""
    singletons: list[SingletonRow]
    matching: list[ScorerRow]
    """Own relations, another decision's when scoring only, and another's in training too (`EXCHANGED_SAYS`)."""
    policies: list[PolicyRow]
    missing: list[Missing]


@dataclass(frozen=True, eq=False)
class StudyInputs:
    examples: ExampleFrame
    """Examples that everything is judged on."""
    validation: TrainingFrame
    """Frame that the policies are calibrated on."""
    ensembles: Mapping[str, FrozenScorer]
    """Ensembles by ablation; `full` must be present. An ablation that differs only in selection needs none."""
    missing: Sequence[Missing]
    column_groups: Sequence[str]
    meaningful_gap: float
    calibrate: CalibrateParams
    bootstrap: Bootstrap = Bootstrap()
    fold_scores: Mapping[str, ScoredSets[TrainingFrame]] | None = None
    """Fold scores by ablation, if cross-fitted: then the policies are calibrated on these."""


def study(given: StudyInputs) -> Study:
    """Judge everything that was trained."""
    frame = given.examples
    scored, missing = {}, list(given.missing)
    for name, ensemble in given.ensembles.items():
        try:
            prepared = prepare_frame(frame, ABLATIONS[name], given.column_groups)
        except FrameError as error:  # too few examples to exchange states among
            missing.append(Missing(name, f"{frame.split}: {error.what}"))
        else:
            scored[name] = score_frame(ensemble, prepared)
    full, judge = scored[FULL.name], _Judge(given, scored[FULL.name])
    rows = {name: judge.row(name, ABLATIONS[name].what, found) for name, found in scored.items()}
    return Study(
        split=frame.split,
        states=len(frame.state_ids),
        sets=len(frame),
        trajectories=len(set(frame.trajectory_ids)),
        unsafe=int(frame.unsafe.sum()),
        scorers=list(rows.values()),
        singletons=_singletons(given, full),
        matching=_matching(given, judge, rows),
        policies=[row for ablation in ABLATIONS.values() for row in _policy(given, scored, ablation)],
        missing=missing,
    )


class _Judge:
    """Metrics of any predictions for the examples, and what they gain on the full scorer's."""

    def __init__(self, given: StudyInputs, full: ScoredSets[ExampleFrame]) -> None:
        self.given, self.full, self.frame = given, full, given.examples
        self.draws = draw_trajectories(self.frame.trajectory_group, given.bootstrap)
        self.within = grouping(self.frame, "state", equal_cardinality=True)

    def row(self, name: str, what: str, scored: ScoredSets[ExampleFrame]) -> ScorerRow:
        gap, bootstrap = self.given.meaningful_gap, self.given.bootstrap
        metrics = evaluate(self.frame, scored.predicted_harm, scored.unsafe_mean, gap, bootstrap)
        return ScorerRow(name, what, metrics, None if scored is self.full else self._gains(scored))

    def _gains(self, scored: ScoredSets[ExampleFrame]) -> Gains:
        frame, bootstrap = self.frame, self.given.bootstrap
        mine, baseline = (
            count_pairs(each.predicted_harm, frame.harm, self.within, frame.trajectory, self.given.meaningful_gap)
            for each in (scored, self.full)
        )
        scores = (scored.unsafe_mean, self.full.unsafe_mean)
        return Gains(
            pair_gain(mine, baseline, WITHIN_STATE, self.draws, bootstrap),
            auroc_gain(*scores, frame.unsafe, frame.trajectory, "all sets", self.draws, bootstrap),
        )


def _singletons(given: StudyInputs, full: ScoredSets[ExampleFrame]) -> list[SingletonRow]:
    frame, gap, bootstrap = given.examples, given.meaningful_gap, given.bootstrap
    direct = joint_metrics(frame, full.predicted_harm, full.unsafe_mean, gap, bootstrap)
    rows = [SingletonRow("the scorer itself", "none needed", direct)]
    for singletons, harm in (("measured", frame.harm), ("predicted", full.predicted_harm)):
        rules = evaluate_rules(frame, harm, gap, bootstrap)
        rows += [SingletonRow(rule.rule, singletons, rule.metrics) for rule in rules]
    return rows


def _matching(given: StudyInputs, judge: _Judge, rows: Mapping[str, ScorerRow]) -> list[ScorerRow]:
    if "mismatched-state" not in rows:  # then `missing` says why
        return []
    mismatched = mismatch_states(given.examples, given.column_groups, MISMATCH_SEED)
    scored = score_frame(given.ensembles[FULL.name], mismatched)
    return [
        rows[FULL.name]._replace(what="matched"),
        judge.row(SCORED_MISMATCHED, "mismatched when judged", scored),
        rows["mismatched-state"]._replace(what="mismatched in training too"),
    ]


def _policy(given: StudyInputs, scored: Mapping[str, ScoredSets[ExampleFrame]], ablation: Ablation) -> list[PolicyRow]:
    if trained_as(ablation).name not in scored:
        return []
    point = ablation_point(
        ablation, given.ensembles, given.validation, given.column_groups, given.calibrate, given.fold_scores
    )
    return [_policy_row(given, scored[trained_as(ablation).name], ablation.name, point)]


def _policy_row(given: StudyInputs, scored: ScoredSets[ExampleFrame], name: str, point: AblationPoint) -> PolicyRow:
    frame, rule = given.examples, point.rule
    path = selection_path(scored, rule.max_cardinality, point.uncertainty_coefficient, rule.removal_cap)
    chosen = path.at(rule.risk_threshold)
    pruned = chosen >= 0
    row = chosen[pruned]
    trajectory, count = frame.state_trajectory, len(frame.trajectory_group)

    def by_trajectory(values: Floats, where: NDArray[np.int64]) -> Floats:
        return np.bincount(where, weights=values, minlength=count).astype(np.float64)

    selected = by_trajectory(np.ones(len(row)), trajectory[pruned])
    unsafe = by_trajectory(frame.unsafe[row].astype(np.float64), trajectory[pruned])
    states = by_trajectory(np.ones(len(trajectory)), trajectory)
    harm = by_trajectory(frame.harm[row], trajectory[pruned])
    removal = by_trajectory(frame.direct_saving[row] / frame.request_tokens[pruned], trajectory[pruned])
    draws = draw_trajectories(frame.trajectory_group, given.bootstrap)
    metrics = [
        ratio_metric(metric, over, "none", total, number, draws, given.bootstrap)
        for metric, over, total, number in (
            ("unsafe rate", "selected sets", unsafe, selected),
            ("mean harm", "selected sets", harm, selected),
            ("pruned", "all states", selected, states),
            ("mean removal", "all states", removal, states),
        )
    ]
    return PolicyRow(name, *point, PolicyMetrics(*metrics))
