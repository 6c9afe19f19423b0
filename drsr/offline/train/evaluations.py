"""Evaluations of members while they are fitted: which epoch the rule chooses, and how they are kept for an audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from drsr.errors import ArtifactCorrupt
from drsr.offline.params import TrainParams

FOLDS = "folds"
"""In place of a split: scores by members that never saw the task, of train and validation."""
NOT_SAID = ""
"""In place of a split: the evaluation was kept before evaluations said theirs."""


class Quality(NamedTuple):
    """The quality of a checkpoint on validation: larger is better, the first difference decides."""

    unsafe_auroc: float
    pair_accuracy: float
    """Meaningful-gap pairs within one state and cardinality, pooled; 0 if validation has no such pair."""
    negative_brier: float


class Evaluation(NamedTuple):
    """One member at one epoch."""

    epoch: int
    seed: int
    loss: float
    """Loss of the training step that ended this epoch."""
    quality: Quality
    is_best: bool
    stopped: bool
    """True if the member's patience ended here, or earlier."""
    split: str
    """Split on which its quality was measured."""

    def to_json(self) -> dict[str, Any]:
        """Return the values that are kept; whether the member had stopped follows from the others."""
        kept = {"epoch": self.epoch, "seed": self.seed, "loss": self.loss, **self.quality._asdict()}
        return kept | {"is_best": self.is_best, "split": self.split}


@dataclass
class EarlyStopping:
    """The rule that chooses a member's epoch: its best evaluation before its patience ends."""

    patience: int
    best: Quality | None = None
    waited: int = 0
    stopped: bool = False

    def judge(self, quality: Quality) -> bool:
        """Take the next evaluation into account, and return whether it is the best so far."""
        is_best = not self.stopped and (self.best is None or quality > self.best)
        if is_best:
            self.best = quality
        self.waited = 0 if is_best else self.waited + 1
        self.stopped = self.stopped or self.waited >= self.patience
        return is_best


def history_bytes(history: Sequence[Evaluation]) -> bytes:
    """Return all evaluations as the artifact that a training run names."""
    return orjson.dumps([row.to_json() for row in history])


def read_history(data: bytes, where: str) -> list[Evaluation]:
    """Read them back; whether a member had stopped was not kept, and is False."""
    try:
        return [_read(row) for row in orjson.loads(data)]
    except (orjson.JSONDecodeError, TypeError, KeyError, ValueError):
        raise ArtifactCorrupt("is not a list of evaluations", where=where) from None


def broken_rule(history: Sequence[Evaluation], params: TrainParams) -> Iterator[str]:
    """Yield each way in which the kept evaluations of networks break the rule of these parameters."""
    last, every = params.max_epochs, params.evaluate_every
    schedule = [epoch for epoch in range(1, last + 1) if epoch % every == 0 or epoch == last]
    if {row.seed for row in history} != set(params.seeds):
        yield f"evaluations were kept of other members than {list(params.seeds)}"
    rules = [EarlyStopping(params.patience) for _ in params.seeds]
    for seed, rule in zip(params.seeds, rules, strict=True):
        kept = [row for row in history if row.seed == seed]
        if [row.epoch for row in kept] != schedule[: len(kept)] or len(kept) * len(rules) != len(history):
            yield f"evaluations of member {seed} are missing, or not of every {every} epochs"
        for row in kept:
            if rule.judge(row.quality) is not row.is_best:
                says = "was marked as its best and is not" if row.is_best else "is better than the one that was chosen"
                yield f"by the kept evaluations epoch {row.epoch} of member {seed} {says}"
    ended = max((row.epoch for row in history), default=0)
    if ended != last and not all(rule.stopped for rule in rules):
        yield f"evaluations were kept up to epoch {ended}, where no rule ends the training"


def _read(row: dict[str, Any]) -> Evaluation:
    quality = Quality(*(_number(row[name]) for name in Quality._fields))
    split = str(row.get("split", NOT_SAID))
    return Evaluation(
        int(row["epoch"]), int(row["seed"]), _number(row["loss"]), quality, row["is_best"] is True, False, split
    )


def _number(value: Any) -> float:
    """Return a number from JSON, where null means NaN; each is a new NaN, as no NaN equals another."""
    return float("nan") if value is None else float(value)
