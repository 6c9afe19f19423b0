"""The check that the shipped normaliser was fitted on the training states alone, by fitting it again.

So is the distribution that a policy compares requests with, on training and validation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drsr.decide.distribution import DISTRIBUTION_FILE, read_distribution
from drsr.offline.params import train_params
from drsr.offline.publish.candidate import distribution_of
from drsr.offline.publish.subject import Subject
from drsr.offline.train.ablations import column_group, find_ablation, prepare_frame, used_columns
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.learners.fit import normalised_on
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, passed
from drsr.scorer.ensemble import Ensemble, HarmScale, Normaliser, fit_harm_scale, fit_normaliser

AGREEMENT = 1e-6
"""Relative: processors add up in different orders. On one machine the bits are the same."""
_ROUNDED = 1e-4
"""The same of a distribution, whose numbers are rounded and come from a matrix that was inverted."""


def check_normaliser(subject: Subject, told: Told) -> list[Verdict]:
    traced = subject.traced
    run, shipped = traced.run, subject.shipped_scorer
    wrong = _other_distribution(subject)
    if wrong:
        return failed(CHECK, wrong[0], "publish again from the present frames, and find out who changed it", wrong)
    if not isinstance(shipped, Ensemble):
        detail = "this kind of scorer has no separate normaliser; drsr audit --retrain fits all of it again"
        known = subject.policy.numbers.distribution if subject.has_policy else None
        same = f"; the distribution of {known.states:,} states, fitted again, is the shipped one" if known else ""
        return passed(CHECK, detail + same)
    ablation = find_ablation(run.ablation)
    groups = tuple(map(column_group, traced.view.columns))
    params = train_params(run.params)
    used = used_columns(ablation, groups, params.column_groups)
    frames = {split: prepare_frame(frame, ablation, groups) for split, frame in traced.frames.items()}
    train = normalised_on(frames["train"], frames["validation"], params)
    candidates = train.features[train.present]
    found = fit_normaliser(candidates, used)
    scale = fit_harm_scale(train.harm, params.harm_scale_floor)
    differences = _differences(found, shipped.normaliser)
    largest = max(float(differences.max(initial=0.0)), _scale_difference(scale, shipped.harm_scale))
    mixed = _differences(fit_normaliser(_all_candidates(frames), used), shipped.normaliser)
    on, added = "the training split", "validation"
    if params.folds:
        on, added = "the states of both splits that it was not stopped by", "the others"
    evidence = {
        "columns": len(found.mean),
        "candidates": len(candidates),
        "largest": largest,
        "with_all": float(mixed.max(initial=0.0)),
    }
    if not largest <= AGREEMENT:
        wrong = [
            f"column {column.name}: differs by {difference:.2g} of itself"
            for column, difference in zip(traced.view.columns, differences, strict=False)
            if not difference <= AGREEMENT
        ]
        what = f"{len(wrong)} of {len(found.mean)} columns" if wrong else "mean and scale of the harms"
        fits = " It fits the training and validation splits together." if evidence["with_all"] <= AGREEMENT else ""
        detail = f"fitted again on {on}, {what} come out differently than shipped, by up to {largest:.2g}.{fits}"
        return failed(
            CHECK, detail, "train again from the present frames, and calibrate and publish", wrong, **evidence
        )
    same = "to the bit" if largest == 0 else f"to {largest:.1g}"
    detail = (
        f"means and scales of {len(found.mean):,} columns and of the harms, fitted again on {len(candidates):,} "
        f"candidates of {on}, are the shipped ones {same}; with {added} added they would differ by "
        f"up to {evidence['with_all']:.0%}"
    )
    return passed(CHECK, detail, **evidence)


def _other_distribution(subject: Subject) -> list[str]:
    """Return where the shipped distribution is not what the frames give. A policy from before there was one has none,
    and is not asked for it."""
    if not subject.has_policy or subject.policy.numbers.distribution is None:
        return []
    files = subject.policy
    claimed = files.numbers.distribution
    assert claimed is not None
    again = distribution_of(subject.traced)
    if again is None:
        return ["the policy ships a distribution of its training features, and there are too few states to fit one"]
    fitted, numbers = again
    shipped = read_distribution(files.others[DISTRIBUTION_FILE], files.scorer.columns, DISTRIBUTION_FILE)
    pairs = [(getattr(fitted, name), getattr(shipped, name)) for name in ("mean", "scale", "precision")]
    near = all(
        one.shape == other.shape and np.allclose(one, other, rtol=_ROUNDED, atol=_ROUNDED) for one, other in pairs
    )
    problems = [] if near else [f"fitted again, {DISTRIBUTION_FILE} comes out differently than shipped"]
    if claimed.states != numbers.states or not math.isclose(claimed.limit, numbers.limit, rel_tol=_ROUNDED):
        problems.append(
            f"fitted again, its limit is {numbers.limit:g} by {numbers.states:,} states, the policy has "
            f"{claimed.limit:g} by {claimed.states:,}"
        )
    return problems


def _all_candidates(frames: dict[str, TrainingFrame]) -> NDArray[np.float32]:
    return np.concatenate([frame.features[frame.present] for frame in frames.values()])


def _differences(found: Normaliser, shipped: Normaliser) -> NDArray[np.float64]:
    """By column, the larger of mean and scale, relative to the shipped one (at least to 1e-3). Infinite where the
    shapes differ."""
    if found.mean.shape != shipped.mean.shape:
        return np.full(len(found.mean), np.inf)
    largest = np.zeros(len(found.mean))
    for one, other in zip(found, shipped, strict=True):
        one, other = one.astype(np.float64), other.astype(np.float64)
        largest = np.maximum(largest, np.abs(one - other) / np.maximum(np.abs(other), 1e-3))
    return largest


def _scale_difference(found: HarmScale, shipped: HarmScale) -> float:
    return max(abs(one - other) / max(abs(other), 1e-3) for one, other in zip(found, shipped, strict=True))


CHECK = Check(
    "normaliser refitted",
    Severity.CRITICAL,
    "Were the means and scales that every feature passes through fitted on the training states alone?",
    "The mean and standard deviation of every feature column, and of the harms, are computed again over the candidates "
    "of the policy's training states (if it is cross-fitted, of all that it was not stopped by), read from the feature "
    "files, and compared with those in the policy's weight file. To show what the comparison can see, they are also "
    "computed with the other states of both splits added. The distribution that a policy compares requests with, and "
    "its limit, are fitted again on the training and validation states, and compared with those in the wheel.",
    check_normaliser,
)
