"""The operating point is what the validation split gives: searched again, it is the shipped one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from drsr.offline.calibrate.files import read_search_table
from drsr.offline.calibrate.operating_curve import operating_curve
from drsr.offline.calibrate.stage import operating_numbers
from drsr.offline.params import calibrate_params
from drsr.offline.publish.gates import disagreements
from drsr.offline.publish.model_card import SECOND_OPINION
from drsr.offline.publish.subject import Subject
from drsr.offline.train.records import CALIBRATION_VERSION
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed

AGREEMENT = 1e-6
"""Relative, for numbers that are sums; counts and choices must be equal. On one machine the bits are the same."""
_NOT_CALIBRATED = ("key", SECOND_OPINION)
"""Numbers that a policy ships beside the record of its calibration."""
_SHIPPED = ("max_cardinality", "uncertainty_coefficient", "risk_threshold", "removal_cap")
"""Numbers that a policy decides by."""


def check_calibration(subject: Subject, told: Told) -> list[Verdict]:
    record, frames = subject.calibration, subject.traced.frames
    if record.version != CALIBRATION_VERSION:
        detail = f"it was made by {record.version}, this code is {CALIBRATION_VERSION}"
        return failed(CHECK, detail, "audit with the version of drsr that the policy names")
    params = calibrate_params(record.params)
    certified = record.mode == "certified"
    both, scorer = (frames["train"], frames["validation"]), subject.shipped_scorer
    numbers, table = operating_numbers(subject.artifacts, subject.run, scorer, both, params, certified=certified)
    problems = [
        f"recorded {problem}" for problem in different({name: getattr(record, name) for name in numbers}, numbers)
    ]
    if subject.has_policy:
        shipped = subject.policy.numbers
        decides = {name: getattr(shipped, name) for name in _SHIPPED}
        problems += [f"shipped {problem}" for problem in different(decides, numbers)]
        told_of = {name: value for name, value in shipped.calibration.items() if name not in _NOT_CALIBRATED}
        recorded = {name: getattr(record, name, None) for name in told_of}
        problems += [f"shipped {problem}" for problem in different(told_of, recorded | numbers)]
        problems += disagreements(shipped, subject.traced, {})[0]
    evidence = {
        "limits": {"unsafe_rate": params.max_unsafe_rate, "mean_harm": params.max_mean_harm},
        "chosen": {name: numbers[name] for name in (*_SHIPPED, "unsafe_rate", "mean_harm", "mean_removal", "selected")},
        "states": numbers["states"],
        "curve": None if certified else _curve(table, numbers),
    }
    if problems:
        hint = "calibrate again on the validation split and publish that; find out where the shipped numbers come from"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    same = "to the byte" if hashlib.sha256(table).hexdigest() == record.search_table else f"to {AGREEMENT:.0e}"
    found = "nothing is admissible, it abstains always" if record.abstains_always else _point(numbers)
    on = "validation states" if subject.run.fold_scores is None else "states, each by members that never saw its task"
    detail = f"searched again on {record.states:,} {on}: {found}; {record.tried:,} policies, same {same}"
    return passed(CHECK, detail, **evidence)


def different(claimed: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return the claimed numbers that differ from those found."""
    return [
        f"{name} is {value}, searched again it is {found[name]}"
        for name, value in claimed.items()
        if not _same(value, found[name])
    ]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=AGREEMENT, abs_tol=1e-12)
    return bool(one == other)


def _point(numbers: Mapping[str, Any]) -> str:
    point = f"K {numbers['max_cardinality']}, beta {numbers['uncertainty_coefficient']:g}"
    return f"{point}, tau {numbers['risk_threshold']:.6g} as shipped"


def _curve(table: bytes, numbers: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Unsafe rate and removal by threshold at the chosen K and beta, at most 400 points."""
    searched = read_search_table(table)
    curve = operating_curve(searched, numbers["max_cardinality"], numbers["uncertainty_coefficient"])
    rows = np.unique(np.linspace(0, len(curve.risk_threshold) - 1, 400).astype(np.int64))
    return {
        name: [None if math.isnan(value) else float(value) for value in getattr(curve, name)[rows]]
        for name in ("risk_threshold", "unsafe_rate", "mean_removal")
    }


CHECK = Check(
    "calibration repeated",
    Severity.CRITICAL,
    "Do the shipped threshold, K and beta follow from the validation split, and from nothing else?",
    "The shipped scorer scores every deletion set of the policy's validation states; every K, beta and observed "
    "score is tried again; the choice and all that is said about it must be what the policy and the catalog say. What "
    "else the policy ships, such as the harm tolerance, must be that of its labels and features. A "
    "label that was changed, or a state that does not belong to validation, gives another search. A cross-fitted "
    "policy is searched on train and validation, by the scores that training kept; --retrain computes those again.",
    check_calibration,
)
