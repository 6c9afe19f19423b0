"""Labels are what was measured: a sample computed once more, each context on its own."""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.absent_texts import states_without_text
from drsr.offline.label.remeasure import remeasure
from drsr.offline.label.target_nll import AGREEMENT
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed, without_texts
from drsr.request.view import caps_for


def check_labels(subject: Subject, told: Told) -> list[Verdict]:
    """The states that the policy was made from, by the language model that measured them."""
    labeler = subject.labeler
    identity = labeler.identity
    backbone = subject.backbone(identity.backbone, identity.dtype, identity.backbone_identity)
    order, keys, caps = subject.order, subject.made_from, caps_for(backbone.window)
    found = remeasure(
        subject.catalog,
        subject.artifacts,
        backbone,
        caps,
        labeler.id,
        order.sample,
        seed=order.seed,
        state_keys=keys,
        progress=told,
    )
    with subject.catalog.reading() as connection:
        absent = states_without_text(connection, keys)
    tolerance = identity.harm_tolerance
    evidence: dict[str, Any] = {
        "states": found.states,
        "of": found.labelled,
        "recorded": [label.recorded for label in found.compared],
        "direct": [label.direct for label in found.compared],
        "tolerance": tolerance,
        "agreement": found.agreement,
    }
    what = f"the harms of {absent:,} states"
    if absent and found.labelled == 0:
        return without_texts(passed(CHECK, "no state has its text here, so none was measured again"), what)
    if found.sets == 0:
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
    wrong = [*found.mismatches, *wrong]
    if wrong:
        detail = f"{len(wrong):,} of {found.sets:,} remeasured labels are not what is recorded: {first_of(wrong)}"
        return failed(CHECK, detail, "measure again under a new labeler, train and calibrate again", wrong, **evidence)
    detail = (
        f"{found.sets:,} labels of {found.states:,} of {found.labelled:,} {subject.drawn_from} measured again: the "
        f"largest difference is {found.largest_difference:.1g} nats per token "
        f"(allowed {found.agreement:g} in {identity.dtype})"
    )
    return without_texts(passed(CHECK, detail, **evidence), what if absent else "")


CHECK = Check(
    "labels remeasured",
    Severity.CRITICAL,
    "Is the recorded harm of a deletion what the language model says?",
    "For a random sample of the states that the policy was made from, the recorded next output is scored again under "
    "the intact history and under every deletion set, each context in a forward of its own; no prefix is shared and "
    "nothing stored is used but the trajectory. Harms must agree to what the dtype's rounding makes "
    f"({', '.join(f'{allowed:g} nats per token in {dtype}' for dtype, allowed in AGREEMENT.items())}), and unsafe must "
    "be what exceeds the tolerance.",
    check_labels,
)
