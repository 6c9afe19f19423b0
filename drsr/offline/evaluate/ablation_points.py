"""At which operating point each configuration selects: its own calibration on validation, or no gate at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drsr.decide.selection import SelectionRule
from drsr.offline.calibrate.search import calibrate, calibrate_cross_fitted
from drsr.offline.params import CalibrateParams
from drsr.offline.train.ablations import Ablation, prepare_frame, trained_as
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.scored_sets import ScoredSets, score_frame
from drsr.scorer.frozen import FrozenScorer


class AblationPoint(NamedTuple):
    rule: SelectionRule
    """An infinite threshold is an open gate; minus infinity lets no set pass."""
    uncertainty_coefficient: float
    abstains_always: bool


def ablation_point(
    ablation: Ablation,
    ensembles: Mapping[str, FrozenScorer],
    validation: TrainingFrame,
    column_groups: Sequence[str],
    params: CalibrateParams,
    fold_scores: Mapping[str, ScoredSets[TrainingFrame]] | None = None,
) -> AblationPoint:
    """Return the configuration's own point, by the search that calibrates the full scorer. Without abstention there is
    nothing to choose. `fold_scores` has what cross-fitted configurations are calibrated by."""
    if not ablation.abstains:
        rule = SelectionRule(max(params.max_cardinalities), params.removal_cap, float("inf"))
        return AblationPoint(rule, 0.0, abstains_always=False)
    name = trained_as(ablation).name
    if fold_scores is not None and name in fold_scores:
        found = calibrate_cross_fitted(fold_scores[name], params)
    else:
        found = calibrate(score_frame(ensembles[name], prepare_frame(validation, ablation, column_groups)), params)
    coefficient = 0.0 if found.chosen is None else found.chosen.uncertainty_coefficient
    return AblationPoint(found.rule(params), coefficient, found.abstains_always)
