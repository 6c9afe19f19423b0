"""A study of scorers as JSON: what `drsr evaluate --json` prints, and what is kept of an evaluation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drsr.offline.evaluate.ablation_study import PolicyRow, ScorerRow, Study


def study_json(study: Study) -> dict[str, Any]:
    """Return every table of a study; NaN is null."""
    return {
        **{name: getattr(study, name) for name in ("split", "states", "sets", "trajectories", "unsafe")},
        "scorers": [_scorer(row) for row in study.scorers],
        "singletons": [
            {**row._asdict(), "metrics": [metric.to_json() for metric in row.metrics]} for row in study.singletons
        ],
        "matching": [_scorer(row) for row in study.matching],
        "policies": [_policy(row) for row in study.policies],
        "missing": [row._asdict() for row in study.missing],
    }


def _scorer(row: ScorerRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "what": row.what,
        "metrics": [metric.to_json() for metric in row.metrics],
        "gains": [metric.to_json() for metric in row.gains or ()],
    }


def _policy(row: PolicyRow) -> dict[str, Any]:
    threshold = row.rule.risk_threshold
    return {
        "name": row.name,
        "max_cardinality": row.rule.max_cardinality,
        "uncertainty_coefficient": row.uncertainty_coefficient,
        "risk_threshold": None if math.isinf(threshold) else threshold,
        "has_risk_gate": threshold != math.inf,
        "abstains_always": row.abstains_always,
        "removal_cap": row.rule.removal_cap,
        "metrics": [metric.to_json() for metric in row.metrics],
    }
