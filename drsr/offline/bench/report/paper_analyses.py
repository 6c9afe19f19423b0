"""The paper's analyses, each on the labels of this catalog: what these examples allow, and why not the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from drsr.errors import FrameError
from drsr.offline.bench.analyses.analysis import Analysis, Section
from drsr.offline.bench.analyses.attention_cases import attention_cases
from drsr.offline.bench.analyses.granularity import StepHarm, granularity
from drsr.offline.bench.analyses.interaction_properties import interaction_properties
from drsr.offline.bench.analyses.layer_relations import layer_relations
from drsr.offline.bench.analyses.margin_sweep import margin_sweep
from drsr.offline.bench.analyses.non_compositionality import non_compositionality, non_compositionality_by_domain
from drsr.offline.bench.analyses.reconstruction import reconstruction
from drsr.offline.bench.analyses.risk_scores import beta_sensitivity, gate_curve, score_distributions
from drsr.offline.bench.analyses.state_relations import relation_margins, state_relations
from drsr.offline.bench.report.inputs import ReportInputs
from drsr.offline.calibrate.operating_curve import operating_curve, uncertainty_sensitivity
from drsr.offline.calibrate.selection_path import selection_path
from drsr.offline.calibrate.stage import frozen_rule
from drsr.offline.evaluate.singletons import aggregate, singleton_harms
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.train.ablations import EXCHANGED_SAYS

EXCHANGED = "the scorer, given another decision's relations"
NO_STEPS = "no Steps were measured: drsr report --steps N measures those of about N states"


def paper_analyses(given: ReportInputs, steps: Sequence[StepHarm] | None) -> Section:
    """`steps` are those measured in addition to the labels, if any."""
    record, bootstrap = given.calibrated.record, given.bootstrap
    train, judged, columns = given.frames["train"], given.frames[given.judged], given.columns
    gap = given.params.train.meaningful_gap
    predictions = {
        "the scorer": given.scored[given.judged].predicted_harm,
        **({} if given.exchanged is None else {EXCHANGED: given.exchanged.predicted_harm}),
        "sum of measured single harms": aggregate(judged, singleton_harms(judged, judged.harm), "sum"),
    }
    made: dict[str, Callable[[], Analysis]] = {
        "non_compositionality": lambda: non_compositionality(train, bootstrap),
        "non_compositionality_by_domain": lambda: non_compositionality_by_domain(train, given.domains, bootstrap),
        "reconstruction": lambda: reconstruction(train, bootstrap),
        "granularity": lambda: granularity(_measured(steps), HARM_TOLERANCE, bootstrap),
        "interaction_properties": lambda: interaction_properties(train, columns, bootstrap),
        "state_relations": lambda: state_relations(*given.directions, gap, bootstrap),
        "relation_margins": lambda: relation_margins(*given.directions, gap, bootstrap),
        "layer_relations": lambda: layer_relations(train, judged, columns, given.inputs.column_groups, gap, bootstrap),
        "margin_sweep": lambda: margin_sweep(
            judged, predictions, bootstrap, "" if given.exchanged is None else EXCHANGED_SAYS
        ),
        "score_distributions": lambda: score_distributions(
            given.scored, record.uncertainty_coefficient, record.risk_threshold
        ),
        "gate_curve": lambda: gate_curve(
            operating_curve(given.search, record.max_cardinality, record.uncertainty_coefficient), record.risk_threshold
        ),
        "beta_sensitivity": lambda: beta_sensitivity(uncertainty_sensitivity(given.search, given.params.calibrate)),
        "attention_cases": lambda: attention_cases(judged, columns, HARM_TOLERANCE, _selected(given)),
    }
    found, left_out = [], {}
    for name, make in made.items():
        try:
            found.append(make())
        except FrameError as error:
            left_out[name] = error.what
    return Section("The paper's analyses", found, left_out)


def _measured(steps: Sequence[StepHarm] | None) -> Sequence[StepHarm]:
    if not steps:
        raise FrameError(NO_STEPS)
    return steps


def _selected(given: ReportInputs) -> NDArray[np.int64]:
    """Return what the frozen policy deletes in each judged state, as a mask; 0 if it abstains."""
    record, scored = given.calibrated.record, given.scored[given.judged]
    rule = frozen_rule(record)
    path = selection_path(scored, rule.max_cardinality, record.uncertainty_coefficient, rule.removal_cap)
    chosen = path.at(rule.risk_threshold)
    return np.where(chosen >= 0, scored.frame.mask[chosen], 0)
