"""The weights follow from the frames: trained again, they are the shipped ones.

Training draws no random number after the initial weights, and adds up in one order: the same frames give the same bits
on the same kind of processor. Another kind adds up in another order inside a product of matrices, and hundreds of
epochs carry that on; then not bits but scores are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from drsr.offline.params import train_params
from drsr.offline.publish.subject import Subject
from drsr.offline.train.ablations import column_group, find_ablation, prepare_frame
from drsr.offline.train.evaluations import Evaluation, read_history
from drsr.offline.train.learners.fit import FittedScorer, fit_scorer
from drsr.offline.train.learners.fold_scores import FoldScores
from drsr.offline.train.records import TRAINING_VERSION, TrainingRecord
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import load_fold_scores
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed
from drsr.scorer.weights import scorer_bytes

SCORES = 1e-3
"""Largest difference between the unsafe scores of two processors' trainings, and between their harms in nats per
token."""


def check_retrained_scorer(subject: Subject, told: Told) -> list[Verdict]:
    traced = subject.traced
    run, shipped = traced.run, subject.shipped_scorer
    if run.version != TRAINING_VERSION:
        detail = f"it was trained by {run.version}, this code is {TRAINING_VERSION}"
        return failed(CHECK, detail, "audit with the version of drsr that the policy names")
    params, ablation = train_params(run.params), find_ablation(run.ablation)
    groups = tuple(map(column_group, traced.view.columns))
    again = fit_scorer(
        traced.frames["train"],
        traced.frames["validation"],
        params,
        ablation=ablation,
        column_groups=groups,
        progress=lambda evaluations: told(evaluations[0].epoch, params.max_epochs),
        workers=1,
    )
    trained = again.scorer
    sets = sum(len(frame) for frame in traced.frames.values())
    said = f"{len(params.seeds)} members trained again on {len(traced.frames['train']):,} sets"
    if again.fold_scores is not None:
        said += f" and in {params.folds} folds"
        problem = _fold_problem(subject, again.fold_scores)
        if problem is not None:
            hint = "do not use the policy: its threshold was chosen by scores that do not come from these frames"
            return failed(CHECK, f"{said}: {problem}", hint)
    kept = read_history(subject.artifacts.get(run.history), f"artifact {run.history}")
    if problems := [*_other_evaluations(again, kept, run)]:
        hint = "do not use the policy: its epochs were not chosen by these validation states"
        return failed(CHECK, f"{said}: {first_of(problems)}", hint, problems)
    if scorer_bytes(trained) == scorer_bytes(shipped):
        return passed(CHECK, f"{said}: every weight is the shipped one, to the bit", same_bits=True, largest=0.0)
    frames = [prepare_frame(frame, ablation, groups) for frame in traced.frames.values()]
    pairs = [(score_frame(trained, frame), score_frame(shipped, frame)) for frame in frames]
    largest = max(
        float(np.abs(getattr(here, name) - getattr(there, name)).max(initial=0.0))
        for here, there in pairs
        for name in ("predicted_harm", "unsafe_mean", "unsafe_std")
    )
    if not largest <= SCORES:
        detail = f"{said}: the shipped weights are others, and their scores differ by up to {largest:.2g}"
        hint = "do not use the policy: its weights do not come from these frames; find out what they were fitted on"
        return failed(CHECK, detail, hint, same_bits=False, largest=largest)
    detail = (
        f"{said}: the bits are others, as on another kind of processor; the scores of {sets:,} sets agree to "
        f"{largest:.1g} (allowed {SCORES:g})"
    )
    return passed(CHECK, detail, same_bits=False, largest=largest)


def _other_evaluations(again: FittedScorer, kept: Sequence[Evaluation], run: TrainingRecord) -> Iterator[str]:
    """Yield each epoch that validation does not choose, and each kept evaluation that validation does not give.

    On another kind of processor a Brier score differs by at most twice what scores do, and training may end sooner or
    later.
    """
    for chosen, epoch in zip(again.chosen, run.chosen_epochs, strict=True):
        if chosen.epoch != epoch:
            yield f"member {chosen.seed} is of epoch {epoch}, by validation it is of epoch {chosen.epoch}"
    found = {(row.epoch, row.seed): row.quality.negative_brier for row in again.history}
    for row in kept:
        here = found.get((row.epoch, row.seed))
        if here is not None and not abs(here - row.quality.negative_brier) <= 2 * SCORES:
            yield (
                f"the Brier score of member {row.seed} at epoch {row.epoch} is {-here:.6g} on validation, kept was "
                f"{-row.quality.negative_brier:.6g}"
            )


def _fold_problem(subject: Subject, again: FoldScores) -> str | None:
    """Return how far the kept fold scores are from those that fold members trained again give, if too far."""
    run, frames = subject.traced.run, subject.traced.frames
    kept = load_fold_scores(subject.artifacts, run, frames["train"], frames["validation"])
    if kept is None:
        return "no fold scores were kept"
    found = again.scored(kept.frame)
    largest = float(np.abs(found.unsafe_mean - kept.unsafe_mean).max())
    return None if largest <= SCORES else f"the kept fold scores differ by up to {largest:.2g}"


CHECK = Check(
    "scorer trained again",
    Severity.CRITICAL,
    "Do the weights that decide come from the training split, and from nothing else?",
    "The ensemble is trained again from the policy's own states, labels and features, by the recorded parameters and "
    "seeds, on one thread. On the kind of processor that trained it, every weight must come out the same to the bit. "
    f"On another kind, the scores of all training and validation sets must agree to {SCORES:g}. The epochs must be "
    "those that validation chooses, and the evaluations that were kept those that validation gives.",
    check_retrained_scorer,
)
