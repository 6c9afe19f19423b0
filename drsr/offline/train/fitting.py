"""Training the ensemble: all members at once, each as if it were alone.

Every member starts from its own seed, has its own loss, gradient clipping and early stopping; they share one pass over
the data. Batches are computed in parallel, their gradients are added in the batches' order, and no random number is
drawn after the initial weights: the same inputs give the same bits on one machine, with any number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drsr.offline.params import TrainParams
from drsr.offline.train.ablations import FULL, Ablation, prepare_frame, used_columns
from drsr.offline.train.batches import TargetBatch, make_batches, predict, with_targets
from drsr.offline.train.checkpoints import Checkpoint, fingerprint_of, load_checkpoint, save_checkpoint
from drsr.offline.train.evaluations import EarlyStopping, Evaluation, Quality
from drsr.offline.train.examples import TrainingFrame, check_frames
from drsr.offline.train.metrics import auroc, brier, count_pairs, grouping
from drsr.offline.train.objective import Objective, positive_weight
from drsr.scorer.ensemble import Ensemble, HarmScale, Normaliser, fit_harm_scale, fit_normaliser
from drsr.scorer.network import initial_parameters

Progress = Callable[[list[Evaluation]], None]
"""Called after every evaluation, with one entry per member."""


class TrainedScorer(NamedTuple):
    ensemble: Ensemble
    """Each member at its best evaluation."""
    chosen: tuple[Evaluation, ...]
    """That evaluation, for each member."""
    history: tuple[Evaluation, ...]


class HowToFit(TypedDict, total=False):
    """The options of `train_scorer`, for what passes them on."""

    ablation: Ablation
    column_groups: Sequence[str] | None
    progress: Progress | None
    checkpoint: Path | None
    workers: int


def train_scorer(
    train: TrainingFrame,
    validation: TrainingFrame,
    params: TrainParams,
    *,
    ablation: Ablation = FULL,
    column_groups: Sequence[str] | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    workers: int = 2,
) -> TrainedScorer:
    """Fit an ensemble on `train`, choosing each member's epoch by `validation`.

    `column_groups` (the layout's group of each feature column) is needed if the ablation distinguishes groups. With
    `checkpoint` the run is saved at every evaluation, and a run found there continues. `workers` threads share the
    batches of an epoch.
    """
    check_frames(train, validation)
    groups = column_groups if column_groups is not None else [""] * train.columns
    train, validation = (prepare_frame(frame, ablation, groups) for frame in (train, validation))
    used = used_columns(ablation, groups, params.column_groups)
    normaliser = fit_normaliser(train.features[train.present], used)
    harm_scale = fit_harm_scale(train.harm, params.harm_scale_floor)
    with _one_thread_each(workers) as pool:
        run = _Run(train, validation, params, ablation, normaliser, harm_scale)
        if checkpoint is not None:
            configuration = json.dumps(
                {"params": params.recorded(), "ablation": asdict(ablation), "groups": list(groups)}
            )
            fingerprint = fingerprint_of({"train": train, "validation": validation}, configuration)
            run.restore(load_checkpoint(checkpoint, fingerprint))
        while not run.finished:
            loss = run.step(pool)
            if run.epoch % params.evaluate_every == 0 or run.epoch == params.max_epochs:
                evaluations = run.evaluate(loss)
                if checkpoint is not None:
                    save_checkpoint(checkpoint, fingerprint, run.checkpoint())
                if progress is not None:
                    progress(evaluations)
        return run.result()


class _Run:
    """A training run between two epochs."""

    def __init__(
        self,
        train: TrainingFrame,
        validation: TrainingFrame,
        params: TrainParams,
        ablation: Ablation,
        normaliser: Normaliser,
        harm_scale: HarmScale,
    ) -> None:
        self.params, self.parts = params, ablation.parts
        self.normaliser, self.harm_scale = normaliser, harm_scale
        self.train_batches: list[TargetBatch] = with_targets(make_batches(train, normaliser), train, harm_scale, params)
        self.validation, self.validation_batches = validation, make_batches(validation, normaliser)
        self.within_state = grouping(validation, "state", equal_cardinality=True)
        self.objective = Objective(
            params,
            rows=len(train),
            pairs=sum(len(part.targets.first) for part in self.train_batches),
            positive_weight=positive_weight(train.unsafe, params.max_positive_weight),
        )
        members = [initial_parameters(train.columns, seed) for seed in params.seeds]
        self.parameters = {
            name: torch.from_numpy(np.concatenate([member[name] for member in members])).requires_grad_()
            for name in members[0]
        }
        self.optimizer = torch.optim.AdamW(
            list(self.parameters.values()), lr=params.learning_rate, weight_decay=params.weight_decay
        )
        self.best = {name: tensor.detach().clone() for name, tensor in self.parameters.items()}
        self.members = [EarlyStopping(params.patience) for _ in params.seeds]
        self.history: list[Evaluation] = []
        self.epoch = 0

    @property
    def finished(self) -> bool:
        return self.epoch >= self.params.max_epochs or all(member.stopped for member in self.members)

    def step(self, pool: Executor) -> NDArray[np.float64]:
        """Run one epoch, a single step on the whole frame, and return each member's loss."""
        total = torch.zeros(len(self.members))
        gradients = [torch.zeros_like(tensor) for tensor in self.parameters.values()]
        for share, parts in pool.map(self._gradient, self.train_batches):  # in order, whoever is done first
            total += share
            for gradient, part in zip(gradients, parts, strict=True):
                gradient += part
        clip_by_member(gradients, self.params.gradient_clip)
        for tensor, gradient in zip(self.parameters.values(), gradients, strict=True):
            tensor.grad = gradient
        self.optimizer.step()
        self.epoch += 1
        return total.numpy().astype(np.float64)

    def _gradient(self, part: TargetBatch) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return one batch's share of each member's loss, and of its gradient."""
        outputs = predict(self.parameters, part.batch, self.parts)
        share = self.objective.total(self.objective.losses(outputs, part.targets))
        return share.detach(), torch.autograd.grad(share.sum(), list(self.parameters.values()))

    def evaluate(self, loss: NDArray[np.float64]) -> list[Evaluation]:
        """Judge every member on validation and keep its weights if they are its best."""
        harm, unsafe = self._validation_scores()
        evaluations = []
        for number, (seed, member) in enumerate(zip(self.params.seeds, self.members, strict=True)):
            quality = self._quality(harm[number], unsafe[number])
            is_best, split = member.judge(quality), self.validation.split
            if is_best:
                for name, tensor in self.parameters.items():
                    self.best[name][number] = tensor.detach()[number]
            evaluations.append(
                Evaluation(self.epoch, seed, float(loss[number]), quality, is_best, member.stopped, split)
            )
        self.history += evaluations
        return evaluations

    def _validation_scores(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        shape = (len(self.members), len(self.validation))
        harm, unsafe = np.empty(shape), np.empty(shape)
        with torch.no_grad():
            for batch in self.validation_batches:
                outputs = predict(self.parameters, batch, self.parts)
                harm[:, batch.rows] = outputs.harm.numpy()
                unsafe[:, batch.rows] = torch.sigmoid(outputs.unsafe_logit.double()).numpy()
        return harm, unsafe

    def _quality(self, harm: NDArray[np.float64], unsafe: NDArray[np.float64]) -> Quality:
        frame = self.validation
        pairs = count_pairs(harm, frame.harm, self.within_state, frame.trajectory, self.params.meaningful_gap)
        return Quality(
            unsafe_auroc=auroc(unsafe, frame.unsafe),
            pair_accuracy=pairs.pooled if pairs.pairs.any() else 0.0,
            negative_brier=-brier(unsafe, frame.unsafe),
        )

    def checkpoint(self) -> Checkpoint:
        tensors = {}
        for name, tensor in self.parameters.items():
            state = self.optimizer.state[tensor]
            tensors[f"weights.{name}"] = tensor
            tensors[f"best.{name}"] = self.best[name]
            tensors[f"moment1.{name}"] = state["exp_avg"]
            tensors[f"moment2.{name}"] = state["exp_avg_sq"]
        members = [(member.waited, member.stopped) for member in self.members]
        return Checkpoint(tensors, {"epoch": self.epoch, "members": members, "history": self.history})

    def restore(self, found: Checkpoint | None) -> None:
        """Go on from a checkpoint, if there is one."""
        if found is None:
            return
        tensors, progress = found
        self.epoch = progress["epoch"]
        self.history = [_evaluation(row) for row in progress["history"]]
        for number, (waited, stopped) in enumerate(progress["members"]):
            best = self._chosen().get(self.params.seeds[number])
            self.members[number] = EarlyStopping(self.params.patience, best and best.quality, waited, stopped)
        for name, tensor in self.parameters.items():
            with torch.no_grad():
                tensor.copy_(tensors[f"weights.{name}"])
            self.best[name] = tensors[f"best.{name}"].clone()
            self.optimizer.state[tensor] = {
                "step": torch.tensor(float(self.epoch)),
                "exp_avg": tensors[f"moment1.{name}"].clone(),
                "exp_avg_sq": tensors[f"moment2.{name}"].clone(),
            }

    def result(self) -> TrainedScorer:
        ensemble = Ensemble(
            layout_hash=self.validation.layout_hash,
            seeds=self.params.seeds,
            normaliser=self.normaliser,
            harm_scale=self.harm_scale,
            parameters={name: tensor.numpy().copy() for name, tensor in self.best.items()},
            parts=self.parts,
        )
        chosen = self._chosen()
        return TrainedScorer(ensemble, tuple(chosen[seed] for seed in self.params.seeds), tuple(self.history))

    def _chosen(self) -> dict[int, Evaluation]:
        """Return each member's best evaluation so far, by its seed."""
        return {row.seed: row for row in self.history if row.is_best}


def clip_by_member(gradients: Sequence[Tensor], limit: float) -> None:
    """Scale each member's gradient to a norm of at most `limit`, in place; the first axis is the member's."""
    squares = torch.stack([(gradient**2).flatten(start_dim=1).sum(dim=1) for gradient in gradients])
    factor = (limit / (squares.sum(dim=0).sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient *= factor.reshape(-1, *[1] * (gradient.ndim - 1))


def _evaluation(row: list[Any]) -> Evaluation:
    epoch, seed, loss, quality, *rest = row
    return Evaluation(epoch, seed, loss, Quality(*quality), *rest)


@contextmanager
def _one_thread_each(workers: int) -> Iterator[Executor]:
    """Workers that each compute on one thread: a sum split over threads would depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)
