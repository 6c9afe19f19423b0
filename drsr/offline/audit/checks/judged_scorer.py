"""The weights do on validation what the training run says they did: each member, and all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drsr.offline.params import train_params
from drsr.offline.publish.subject import Subject
from drsr.offline.train.ablations import column_group, find_ablation, prepare_frame
from drsr.offline.train.evaluations import FOLDS, NOT_SAID, Evaluation, broken_rule, read_history
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.metrics import Bootstrap, brier, evaluate
from drsr.offline.train.records import TrainingRecord
from drsr.offline.train.scored_sets import ScoredSets, score_frame
from drsr.offline.train.stage import load_fold_scores
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed
from drsr.scorer.frozen import FrozenScorer

AGREEMENT = 1e-5
"""In the Brier score, to which every score of every set adds its part. On one machine the ensemble's is the same to
the bit; a member's was measured in batches, which rounds otherwise."""
RANKED = 1e-3
"""In numbers that count how sets are ordered: another processor may break a tie the other way."""
_BRIER = "Brier score"
_END_OF_AN_INTERVAL = ("the low end of ", "the high end of ")


def check_judged_scorer(subject: Subject, told: Told) -> list[Verdict]:
    traced = subject.traced
    run, scorer = traced.run, subject.shipped_scorer
    groups = tuple(map(column_group, traced.view.columns))
    train, validation = (
        prepare_frame(traced.frames[split], find_ablation(run.ablation), groups) for split in ("train", "validation")
    )
    folds = load_fold_scores(subject.artifacts, run, train, validation)
    frame = validation if folds is None else folds.frame
    scored = score_frame(scorer, frame) if folds is None else folds
    history = read_history(subject.artifacts.get(run.history), f"artifact {run.history}")
    problems = [*_ensemble(scored, frame, run), *_history(history, run)]
    # Cross-fitted, a member is judged by what fold members of its seed say; what itself says of what it was fitted on
    # is its recorded loss.
    problems += _members(scorer, frame, run, "negative_brier" if folds is None else "loss")
    problems.sort(key=lambda problem: problem.startswith(_END_OF_AN_INTERVAL))  # what was scored, before its scatter
    if problems:
        hint = (
            "these weights are not those that were trained, or the record of training was changed: drsr audit --retrain"
        )
        return failed(CHECK, first_of(problems), hint, problems)
    said = next(found for found in run.metrics["ensemble"] if found["name"] == _BRIER)
    detail = (
        f"{len(run.seeds)} members and the ensemble score {len(frame):,} validation sets as training wrote down: "
        f"Brier score {said['value']:.6g}, the same to {AGREEMENT:.0e}"
    )
    if not any(row.split for row in history):
        detail += "; NOT SAID: the split that evaluations were computed on, which was not kept when it was trained"
    return passed(CHECK, detail)


def _ensemble(scored: ScoredSets[TrainingFrame], frame: TrainingFrame, run: TrainingRecord) -> Iterator[str]:
    """Yield each difference between the ensemble's results and the recorded ones."""
    gap = train_params(run.params).meaningful_gap
    found = evaluate(frame, scored.predicted_harm, scored.unsafe_mean, gap, Bootstrap())
    recorded = {(metric["name"], metric["grouping"]): metric for metric in run.metrics.get("ensemble", ())}
    for metric in found:
        here, there = metric.to_json(), recorded.pop((metric.name, metric.grouping), None)
        what = f"{metric.name} of the ensemble ({metric.grouping})"
        if there is None:
            yield f"{what} was not recorded"
            continue
        if here["support"] != there["support"]:
            yield f"{what} rests on {here['support']:,}, recorded are {there['support']:,}"
        allowed = AGREEMENT if metric.name == _BRIER else RANKED
        for part, end in zip(("", *_END_OF_AN_INTERVAL), ("value", "low", "high"), strict=True):
            if not _near(here[end], there.get(end), allowed):
                yield f"{part}{what} is {here[end]}, recorded is {there.get(end)}"
    for name, grouping in recorded:
        yield f"{name} of the ensemble ({grouping}) is recorded, and no check measures that"


def _members(scorer: FrozenScorer, frame: TrainingFrame, run: TrainingRecord, by: str) -> Iterator[str]:
    """Members that do otherwise than the checkpoint which was chosen for each."""
    recorded = {member["seed"]: member for member in run.metrics.get("members", ())}
    if list(scorer.seeds) != list(run.seeds) or sorted(recorded) != sorted(run.seeds):
        yield f"the weights are of seeds {list(scorer.seeds)}, recorded are {list(run.seeds)}"
        return
    for number, seed in enumerate(scorer.seeds):
        scored = score_frame(scorer.alone(number), frame)
        found, said = brier(scored.unsafe_mean, frame.unsafe), abs(recorded[seed][by])
        if not _near(found, said, AGREEMENT):
            yield f"the Brier score of member {seed} is {found}, recorded is {said}"


def _history(history: Sequence[Evaluation], run: TrainingRecord) -> Iterator[str]:
    """Yield each reason why the kept evaluations do not choose the recorded epoch of a member, and on validation."""
    params = train_params(run.params)
    split = FOLDS if params.folds else "validation"
    for other in sorted({row.split for row in history} - {split}):
        if other or any(row.split for row in history):
            yield f"evaluations that choose an epoch were computed on {other or 'a split that they do not name'}"
    if params.scorer == "network" and not params.folds:
        yield from broken_rule(history, params)
    best = {row.seed: row.to_json() for row in history if row.is_best}
    epochs = dict(zip(run.seeds, run.chosen_epochs, strict=False))
    for member in run.metrics.get("members", ()):
        seed = member["seed"]
        if best.get(seed) != {"split": NOT_SAID, **member} or epochs.get(seed) != member["epoch"]:
            yield f"the best of the kept evaluations of member {seed} is not the one that was recorded as chosen"


def _near(found: float | None, said: float | None, allowed: float) -> bool:
    if found is None or said is None:
        return found is said
    return abs(found - said) <= allowed  # NaN is near to nothing


CHECK = Check(
    "scorer judged again",
    Severity.CRITICAL,
    "Do the weights that decide do what the training run says they did?",
    "The shipped ensemble, and each of its members alone, score the policy's validation states. Pair accuracies, rank "
    f"correlation and AUROC must be the recorded ones to {RANKED:g}, Brier scores to {AGREEMENT:.0e}, with the ends "
    "of their intervals. The evaluations that training kept must be of validation, of every epoch that the parameters "
    "name, and choose by the rule of early stopping what was recorded as chosen. Weights fitted on other data "
    "would give other numbers. drsr audit --retrain shows whether these weights really came out of training.",
    check_judged_scorer,
)
