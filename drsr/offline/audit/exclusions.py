"""Exclusions within their budget: how many deletion sets of each split have no label, why, and which.

A set that could not be measured takes no part in calibration, nor does a state without features, so whoever declares
the bad ones unmeasurable gets a better policy. `labels remeasured` and `no future in a feature` try every exclusion
again where they have the texts and the memory; this check needs neither. Reasons that follow from the text, such as an
output that is too long, are judged by the rules of the labels. What a machine could not do, for want of memory or
finite numbers, has a budget per split, and is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, Select, func, select

from drsr.offline.audit.withheld import labelled_without_features
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.label_tables import Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.tables import Candidate, DecisionState
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.featurize.exclusions import ExclusionReason
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed

BUDGET = 0.01
"""Share of a split's deletion sets that a machine may have failed to measure; one set in any case. Of the 10,105
sets of the public corpus it is one."""
_FEATURES = " of its features"
OF_THE_MACHINE = frozenset(
    f"{reason}{what}"
    for reason in (ExclusionReason.OUT_OF_MEMORY, ExclusionReason.NON_FINITE)
    for what in ("", _FEATURES)
)
"""Reasons that do not follow from the text."""


class Excluded(NamedTuple):
    """A set, or a whole state, that was not measured."""

    state_key: str
    split: str
    reason: str
    sets: int
    mask: int | None
    """None: all sets of the state."""

    @property
    def told(self) -> str:
        what = f"all {self.sets} sets" if self.mask is None else f"deletion set {self.mask}"
        return f"state {self.state_key} of {self.split}, {what}: excluded as {self.reason}"


def check_exclusions(subject: Subject, told: Told) -> list[Verdict]:
    with subject.catalog.reading() as connection:
        measured = _measured(connection, subject.labeler.id)
        excluded = [*_single_sets(connection, subject.labeler.id), *_whole_states(connection, subject.labeler.id)]
        excluded += _without_features(connection, subject)
    missing: Counter[str] = Counter()
    for each in excluded:
        if each.reason in OF_THE_MACHINE:
            missing[each.split] += each.sets
    by_reason: Counter[tuple[str, str]] = Counter()
    for each in excluded:
        by_reason[each.split, each.reason] += each.sets
    evidence = {
        "measured": measured,
        "excluded": [[split, reason, sets] for (split, reason), sets in sorted(by_reason.items())],
    }
    over = {split: sets for split, sets in sorted(missing.items()) if sets > allowed(measured.get(split, 0) + sets)}
    if over:
        shares = [
            f"{sets:,} of {measured.get(split, 0) + sets:,} sets of {split} were not measured "
            f"(allowed {allowed(measured.get(split, 0) + sets):,})"
            for split, sets in over.items()
        ]
        named = [each.told for each in excluded if each.split in over and each.reason in OF_THE_MACHINE]
        hint = "measure them on a machine with more memory under a new labeler; a policy without them is not comparable"
        return failed(CHECK, f"{first_of(shares)}: {first_of(named)}", hint, [*shares, *named], **evidence)
    counts = ", ".join(f"{sets:,} of {split} as {reason}" for (split, reason), sets in sorted(by_reason.items()))
    names = "; ".join(each.told for each in excluded if each.reason in OF_THE_MACHINE)
    said = f"sets without a label: {counts}{f' ({names})' if names else ''}" if excluded else "every set has its label"
    return passed(CHECK, f"{said}; the budget is {BUDGET:.0%} of a split's sets", **evidence)


def allowed(sets: int) -> int:
    """Return how many sets of so many may be excluded for reasons of the machine."""
    return max(1, int(BUDGET * sets))


def _measured(connection: Connection, labeler_id: int) -> Mapping[str, int]:
    counted = select(TrajectoryRow.split, func.count()).select_from(Label)
    query = _of_current_runs(counted, Label.state_id).where(Label.labeler_id == labeler_id)
    return dict(connection.execute(query.group_by(TrajectoryRow.split)).tuples().all())


def _single_sets(connection: Connection, labeler_id: int) -> list[Excluded]:
    columns = (DecisionState.state_key, TrajectoryRow.split, LabelExclusion.reason, LabelExclusion.mask)
    query = _of_current_runs(select(*columns).select_from(LabelExclusion), LabelExclusion.state_id)
    query = query.where(LabelExclusion.labeler_id == labeler_id)
    found = connection.execute(query.order_by(DecisionState.state_key, LabelExclusion.mask))
    return [Excluded(key, split, reason, 1, mask) for key, split, reason, mask in found]


def _whole_states(connection: Connection, labeler_id: int) -> list[Excluded]:
    candidates = select(func.count()).where(Candidate.state_id == DecisionState.id).scalar_subquery()
    columns = (DecisionState.state_key, TrajectoryRow.split, StateMeasurement.reason, candidates)
    query = _of_current_runs(select(*columns).select_from(StateMeasurement), StateMeasurement.state_id)
    query = query.where(StateMeasurement.labeler_id == labeler_id, StateMeasurement.outcome == "excluded")
    found = connection.execute(query.order_by(DecisionState.state_key))
    return [Excluded(key, split, reason or "", (1 << count) - 1, None) for key, split, reason, count in found]


def _without_features(connection: Connection, subject: Subject) -> list[Excluded]:
    """Labelled states that cannot be fitted or evaluated on."""
    candidates = select(func.count()).where(Candidate.state_id == DecisionState.id).scalar_subquery()
    columns = (DecisionState.state_key, TrajectoryRow.split, StateFeatures.reason, candidates)
    found = connection.execute(labelled_without_features(subject, *columns))
    return [Excluded(key, split, f"{reason}{_FEATURES}", (1 << n) - 1, None) for key, split, reason, n in found]


def _of_current_runs(query: Select, state_id: object) -> Select:  # type: ignore[type-arg]
    return (
        query.join(DecisionState, DecisionState.id == state_id)
        .join(TrajectoryRow, TrajectoryRow.id == DecisionState.trajectory_id)
        .where(TrajectoryRow.is_current())
    )


CHECK: Check[Subject] = Check(
    "exclusions within budget",
    Severity.CRITICAL,
    "How many deletion sets could not be measured, which, why, and are they few enough not to matter?",
    "Every set and every state of a current run that has no label, and every labelled state that has no "
    "features, is counted by split and reason. What a machine could "
    f"not do, for want of memory or of finite numbers, may be {BUDGET:.0%} of a split's sets, or one set, and each is "
    "named. Reasons that follow from the text are judged by the rules of the labels, and every exclusion is tried "
    "again where the texts are here (labels remeasured).",
    check_exclusions,
)
