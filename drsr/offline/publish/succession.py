"""May a new policy take the released one's place? The rule, and the check before publishing that applies it.

Both are judged on the same examples, the present validation split, by the order in which calibration chooses: the one
that removes more is better, then the one with the lower unsafe rate, then the one with the lower mean harm. The new one
must not be worse. A released policy that no longer keeps to the limits on these examples does not block it; one that
cannot be judged on them, because it reads other features, does: the operator decides then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from drsr.decide.selection import SelectionRule
from drsr.offline.calibrate.selection_path import selection_path
from drsr.offline.calibrate.stage import frozen_rule
from drsr.offline.catalog.engine import Catalog
from drsr.offline.params import calibrate_params
from drsr.offline.publish.lineage_rows import view_of
from drsr.offline.publish.records import ReleaseRecord, latest_releases
from drsr.offline.publish.subject import Subject
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.records import CalibrationRecord, TrainingRecord, get_calibration, get_training_run
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import load_trained
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, passed
from drsr.request.contracts import SetScorer

_MOST_RELEASES = 1_000
"""Releases among which the newest of a kind is looked for."""


class Performance(NamedTuple):
    """The performance of a policy on a split."""

    mean_removal: float
    """Part of the full request, over all states; abstention counts 0."""
    unsafe_rate: float
    """Unsafe share of the sets it selects; 0 if it selects none."""
    mean_harm: float
    """Exact mean harm of the same sets; 0 if it selects none."""

    def keeps_to(self, max_unsafe_rate: float, max_mean_harm: float) -> bool:
        return self.unsafe_rate <= max_unsafe_rate and self.mean_harm <= max_mean_harm

    @property
    def rank(self) -> tuple[float, float, float]:
        """Larger is better."""
        return (self.mean_removal, -self.unsafe_rate, -self.mean_harm)

    def __str__(self) -> str:
        return f"{self.mean_removal:.2%} removed, unsafe rate {self.unsafe_rate:.3f}, mean harm {self.mean_harm:+.4f}"


class Comparison(NamedTuple):
    """Judge whether a new policy may take the released one's place, and say why."""

    may_follow: bool
    why: str


class Released(NamedTuple):
    """The newest release, and what it was made from."""

    release: ReleaseRecord
    calibration: CalibrationRecord
    run: TrainingRecord


def compare(new: Performance, released: Performance, max_unsafe_rate: float, max_mean_harm: float) -> Comparison:
    """Return the rule."""
    if not new.keeps_to(max_unsafe_rate, max_mean_harm):
        return Comparison(False, f"the new policy does not keep to the limits on validation: {new}")
    if not released.keeps_to(max_unsafe_rate, max_mean_harm):
        return Comparison(True, f"the released one no longer keeps to the limits ({released}); the new one: {new}")
    if new.rank >= released.rank:
        return Comparison(True, f"{new}; the released one: {released}")
    return Comparison(False, f"worse on validation: {new}; the released one: {released}")


def performance(scorer: SetScorer, frame: ExampleFrame, rule: SelectionRule, coefficient: float) -> Performance:
    """Return the performance of a scorer at an operating point on these examples."""
    scored = score_frame(scorer, frame)
    chosen = selection_path(scored, rule.max_cardinality, coefficient, rule.removal_cap).at(rule.risk_threshold)
    pruned = chosen >= 0
    rows = chosen[pruned]
    if not len(rows):
        return Performance(0.0, 0.0, 0.0)
    removal = frame.direct_saving[rows] / frame.request_tokens[pruned]
    states = len(frame.state_ids)
    return Performance(
        float(np.sum(removal)) / states, float(np.mean(frame.unsafe[rows])), float(np.mean(frame.harm[rows]))
    )


def released_policy(catalog: Catalog, *, light: bool = False, source: str | None = None) -> Released | None:
    """Return the newest release of a full policy, or of a light one, made of all sources or of one; None before the
    first."""
    with catalog.reading() as connection:
        for release in latest_releases(connection, _MOST_RELEASES):
            calibration = get_calibration(connection, release.calibration_run_id)
            run = get_training_run(connection, calibration.training_run_id)
            if run.source == source and view_of(connection, run.view_id).is_light == light:
                return Released(release, calibration, run)
    return None


def judge_succession(
    catalog: Catalog,
    artifacts: ArtifactStore,
    calibration: CalibrationRecord,
    run: TrainingRecord,
    validation: ExampleFrame,
) -> Comparison:
    """Apply the rule to a calibration and whatever is released now."""
    with catalog.reading() as connection:
        light = view_of(connection, run.view_id).is_light
    released = released_policy(catalog, light=light, source=run.source)
    if released is None:
        return Comparison(True, "nothing was released before")
    if released.calibration.id == calibration.id:
        return Comparison(True, f"it is the released one, {released.release.version}")
    if released.run.layout_hash != run.layout_hash:
        what = f"version {released.release.version} reads other features and cannot be judged on these examples"
        return Comparison(False, f"{what}; decide for yourself, and publish with drsr publish")
    limits = calibrate_params(calibration.params)
    new, old = (
        performance(load_trained(artifacts, trained), validation, frozen_rule(record), record.uncertainty_coefficient)
        for trained, record in ((run, calibration), (released.run, released.calibration))
    )
    return compare(new, old, limits.max_unsafe_rate, limits.max_mean_harm)


def not_worse(subject: Subject, told: Told) -> list[Verdict]:
    traced = subject.traced
    found = judge_succession(
        subject.catalog, subject.artifacts, traced.calibration, traced.run, traced.frames["validation"]
    )
    if found.may_follow:
        return passed(NOT_WORSE, found.why)
    return failed(NOT_WORSE, found.why, "the released policy stays; drsr publish publishes without this check")


NOT_WORSE: Check[Subject] = Check(
    "not worse than the released policy",
    Severity.MAJOR,
    "May the new policy take the released one's place?",
    "Both are judged on the present validation split, in the order in which calibration chooses.",
    not_worse,
)
"""For `PublishOrder.checks`; the nightly flow asks it."""
