"""Labels are what was measured: all that decide the threshold and a sample of the rest, each context on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drsr.errors import DrsrError
from drsr.offline.calibrate.search import source_weights
from drsr.offline.calibrate.selection_path import selection_path
from drsr.offline.calibrate.stage import scores_of
from drsr.offline.ingest.absent_texts import states_without_text
from drsr.offline.label.remeasure import Remeasured, remeasure
from drsr.offline.label.target_nll import AGREEMENT
from drsr.offline.params import calibrate_params
from drsr.offline.publish.subject import Subject
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed, without_texts
from drsr.request.view import caps_for

NEIGHBOURS = 5
"""So many choices above the threshold are measured, too: the first that a higher one would have let in."""


def check_labels(subject: Subject, told: Told) -> list[Verdict]:
    """Check the states that the policy was made from, by the language model that measured them."""
    labeler = subject.labeler
    identity = labeler.identity
    order, keys = subject.order, subject.made_from
    with subject.catalog.reading() as connection:
        absent = states_without_text(connection, keys)
        silent = states_without_text(connection, subject.state_keys)
    what = f"the harms of {absent:,} states"
    if silent == len(set(subject.state_keys)):
        return without_texts(_without_measuring(subject), what)
    deciding, unknown = _deciding_or_none(subject)
    backbone = subject.backbone(identity.backbone, identity.dtype, identity.backbone_identity)
    found = remeasure(
        subject.catalog,
        subject.artifacts,
        backbone,
        caps_for(backbone.window),
        labeler.id,
        order.sample,
        seed=order.seed,
        state_keys=keys,
        named={key: {mask} for key, mask in deciding.items()},
        kept=subject.kept,
        progress=told,
    )
    tolerance = identity.harm_tolerance
    evidence: dict[str, Any] = {
        "states": found.states,
        "of": found.labelled,
        "recorded": [label.recorded for label in found.compared],
        "direct": [label.direct for label in found.compared],
        "tolerance": tolerance,
        "agreement": found.agreement,
        "deciding": len(deciding),
        "exclusions tried": found.tried,
    }
    nothing_asked = order.sample == 0 and not deciding and not unknown
    if found.sets == 0 and not nothing_asked and not found.mismatches:
        return failed(CHECK, "no label could be remeasured", "drsr label", found.mismatches, **evidence)
    if keys is not None and found.labelled + absent != len(set(keys)):
        missing = len(set(keys)) - found.labelled - absent
        detail = f"{missing:,} of the {len(set(keys)):,} states that the policy was made from have no labels"
        return failed(CHECK, detail, "restore the catalog from a copy", **evidence)
    wrong = [
        f"state {label.state_key}, deletion set {label.mask}: recorded {label.recorded:+.6f}"
        f"{' unsafe' if label.unsafe else ' safe'}, measured {label.direct:+.6f}"
        for label in found.compared
        if not abs(label.recorded - label.direct) <= found.agreement or label.unsafe != (label.recorded > tolerance)
    ]
    wrong = [*found.mismatches, *wrong, *(_beyond_the_limits(subject, found, tolerance) if deciding else ())]
    if wrong:
        detail = f"{len(wrong):,} of {found.sets:,} remeasured labels are not what is recorded: {first_of(wrong)}"
        return failed(CHECK, detail, "measure again under a new labeler, train and calibrate again", wrong, **evidence)
    decides = unknown or f"all {len(deciding):,} sets that decide the threshold among them"
    tried = f"; {found.tried:,} exclusions tried again, all hold" if found.tried else ""
    detail = (
        f"{found.sets:,} labels of {found.states:,} of {found.labelled:,} {subject.drawn_from} measured again, "
        f"{decides}: the largest difference is {found.largest_difference:.1g} nats per token "
        f"(allowed {found.agreement:g} in {identity.dtype}){tried}"
    )
    return without_texts(passed(CHECK, detail, **evidence), what if absent else "")


def deciding_sets(subject: Subject, neighbours: int = NEIGHBOURS) -> dict[str, int]:
    """Return the set of each state that the operating point selects, and those that the next thresholds would."""
    frame, rows = _deciding_rows(subject, neighbours)
    return {frame.state_ids[frame.state[row]]: int(frame.mask[row]) for row in rows}


def _deciding_rows(subject: Subject, neighbours: int) -> tuple[TrainingFrame, list[int]]:
    """The same as rows of a frame; where a state is in both, what is selected comes last, and counts."""
    record, frames = subject.calibration, subject.traced.frames
    if record.risk_threshold is None:
        return frames["validation"], []
    certified = record.mode == "certified"
    both = (frames["train"], frames["validation"])
    scored = scores_of(subject.artifacts, subject.run, subject.shipped_scorer, both, certified=certified).chosen_by
    beta = record.uncertainty_coefficient
    path = selection_path(scored, record.max_cardinality, beta, record.removal_cap)
    above = np.flatnonzero(path.threshold > record.risk_threshold)
    following = path.row[above[np.argsort(path.threshold[above], kind="stable")][:neighbours]]
    chosen = path.at(record.risk_threshold)
    return scored.frame, [*following.tolist(), *chosen[chosen >= 0].tolist()]


def near_the_tolerance(
    subject: Subject, tolerance: float, agreement: float, measured: Mapping[tuple[str, int], float] | None = None
) -> tuple[list[str], str]:
    """Return the selected sets whose harm is too near to the tolerance to tell its side, and how the limit would break
    if all were unsafe. Calibration counts them as recorded (decision 23).

    `measured` has harms by state and mask that came out now; the others are those that are recorded. The limit is kept
    twice, over the states as they are and with sources weighted, like calibration does (decision 25).
    """
    record = subject.calibration
    if record.risk_threshold is None:
        return [], ""
    frame, rows = _deciding_rows(subject, neighbours=0)
    names = [(frame.state_ids[frame.state[row]], int(frame.mask[row])) for row in rows]
    recorded = frame.harm[rows].tolist()
    harms = np.array([(measured or {}).get(name, harm) for name, harm in zip(names, recorded, strict=True)])
    near = (tolerance - agreement < harms) & (harms <= tolerance)
    named = [f"state {names[at][0]}, deletion set {names[at][1]}: {harms[at]:+.6f}" for at in np.flatnonzero(near)]
    unsafe, params = near | (harms > tolerance), calibrate_params(record.params)
    weights = source_weights(frame, params)[frame.state[rows]]
    for weight, how in ((np.ones_like(weights), ""), (weights, ", with sources weighted")):
        rate = float((weight * unsafe).sum() / max(weight.sum(), 1))
        if rate > params.max_unsafe_rate:
            said = f"{int(unsafe.sum())} of {len(rows)} selected sets are unsafe or too near to the tolerance to tell"
            return named, f"{said} ({len(named)}): {rate:.2%}{how}; the limit is {params.max_unsafe_rate:.1%}"
    return named, ""


def _without_measuring(subject: Subject) -> list[Verdict]:
    """Judge what the recorded harms say by themselves."""
    tolerance, dtype = subject.labeler.identity.harm_tolerance, subject.labeler.identity.dtype
    said = "no state has its text here, so none was measured again"
    try:
        near, broken = near_the_tolerance(subject, tolerance, AGREEMENT[dtype])
    except DrsrError as error:  # another check fails then
        return passed(CHECK, f"{said}; which sets decide the threshold cannot be read ({error.what})")
    if broken:
        return failed(CHECK, broken, "calibrate again below the limit", [broken, *near], near=near)
    count = f"; {len(near):,} selected sets are too near to the tolerance to tell, and the limit holds with them"
    return passed(CHECK, f"{said}{count if near else ''}", near=near)


def _deciding_or_none(subject: Subject) -> tuple[dict[str, int], str]:
    """The same; where it cannot be read, none and the reason. Another check fails then, and the sample is measured."""
    try:
        return deciding_sets(subject), ""
    except DrsrError as error:
        return {}, f"not those that decide the threshold, which cannot be read ({error.what})"


def _beyond_the_limits(subject: Subject, found: Remeasured, tolerance: float) -> list[str]:
    """Return how a limit is broken by what was measured now, and the sets that are too near to tell."""
    measured = {(label.state_key, label.mask): label.direct for label in found.compared}
    near, broken = near_the_tolerance(subject, tolerance, found.agreement, measured)
    return [broken, *near] if broken else []


CHECK = Check(
    "labels remeasured",
    Severity.CRITICAL,
    "Is the recorded harm of a deletion what the language model says?",
    "For a random sample of the states that the policy was made from, the recorded next output is scored again under "
    "the intact history and under every deletion set, each context in its own forward; no prefix is shared and "
    "nothing stored is used but the trajectory. Whatever is drawn, every set that the operating point selects is "
    f"measured, and the {NEIGHBOURS} that the next thresholds would select; every set or state that was excluded is "
    "tried again: one that can be measured is a failure. Harms must agree to what the dtype's rounding makes "
    f"({', '.join(f'{allowed:g} nats per token in {dtype}' for dtype, allowed in AGREEMENT.items())}), and unsafe must "
    "be what exceeds the tolerance.",
    check_labels,
)
