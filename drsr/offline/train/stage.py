"""The train stage: one ensemble per configuration, unless the same inputs have given it before.

What a scorer is made from is hashed: the frames with every number, the parameters, the configuration. A run with that
hash is not repeated. A killed one continues from its checkpoint to the same bits; its row is written after its files.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import drsr
from drsr.errors import ArtifactCorrupt, FrameError, LayoutMismatch
from drsr.offline.catalog import ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import head, note
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.featurize.views import get_view
from drsr.offline.freeze.records import require_source
from drsr.offline.label.records import labeler_named
from drsr.offline.params import TrainParams
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.claims import POLL_SECONDS, Claims
from drsr.offline.train.ablations import FULL, Ablation, column_group, prepare_frame, trained_as, used_columns
from drsr.offline.train.checkpoints import frame_hash
from drsr.offline.train.evaluations import Evaluation, history_bytes
from drsr.offline.train.examples import TrainingFrame, check_frames, joined
from drsr.offline.train.frames import get_training_frame
from drsr.offline.train.learners.fit import FittedScorer, check_kind, fit_scorer
from drsr.offline.train.learners.fold_scores import read_fold_scores
from drsr.offline.train.metrics import Bootstrap, evaluate
from drsr.offline.train.records import (
    FOLD_SCORES,
    TRAINING_VERSION,
    TrainingRecord,
    find_training_run,
    record_training_run,
)
from drsr.offline.train.scored_sets import ScoredSets, score_frame
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.weights import read_scorer, scorer_bytes

Progress = Callable[[Ablation, list[Evaluation]], None]
"""Called after every evaluation, with one entry per member."""


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """The data that scorers are fitted on and chosen by, and its origin."""

    train: TrainingFrame
    validation: TrainingFrame
    view_id: int
    labeler_id: int
    column_groups: tuple[str, ...]
    """The layout's group of each feature column."""
    read_after: int = 0
    """The journal's latest event before they were read: everything up to it is in them."""
    source: str | None = None
    """The one source whose states they hold; None: all."""

    @cached_property
    def train_hash(self) -> str:
        return frame_hash(self.train)

    @cached_property
    def validation_hash(self) -> str:
        return frame_hash(self.validation)


class Trained(NamedTuple):
    record: TrainingRecord
    is_new: bool
    """False if this scorer was already trained from the same inputs, so that nothing was done."""


def read_inputs(
    catalog: Catalog,
    artifacts: ArtifactStore,
    view: str,
    labeler: str,
    purpose: Literal["train", "calibrate"],
    source: str | None = None,
) -> TrainingInputs:
    """Return both frames of a feature view and a labeler, of all sources or of one. Each read is recorded with its
    purpose."""
    with catalog.reading() as connection:
        found = get_view(connection, view)
        labeler_id = labeler_named(connection, labeler)
        latest = head(connection)
        require_source(connection, source)
    of: dict[str, Any] = {"purpose": purpose, "labeler": labeler, "source": source}
    train: TrainingFrame = get_training_frame(catalog, artifacts, view, split="train", **of)
    validation: TrainingFrame = get_training_frame(catalog, artifacts, view, split="validation", **of)
    check_frames(train, validation)
    if train.layout_hash != found.identity.layout_hash:
        raise LayoutMismatch("the feature view got a new version while it was read", where=view, hint="run again")
    if labeler_id is None:
        raise FrameError(f"no labeler is called {labeler!r}", hint="drsr label")
    groups = tuple(map(column_group, found.columns))
    return TrainingInputs(
        train, validation, found.id, labeler_id, groups, 0 if latest is None else latest.number, source
    )


def training_key(inputs: TrainingInputs, params: TrainParams, ablation: Ablation) -> str:
    """Return the SHA-256 over everything that determines a scorer's weights."""
    groups = inputs.column_groups
    return run_key(TRAINING_VERSION, params.recorded(), ablation, groups, inputs.train_hash, inputs.validation_hash)


def run_key(
    version: str,
    params: Mapping[str, Any],
    ablation: Ablation,
    column_groups: Sequence[str],
    train_hash: str,
    validation_hash: str,
) -> str:
    """Return the same key from what a recorded run says about itself."""
    return content_key(
        {
            "version": version,
            "params": params,
            "ablation": asdict(trained_as(ablation)),
            "column_groups": column_groups,
            "train": train_hash,
            "validation": validation_hash,
        }
    )


def find_trained(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, params: TrainParams, ablation: Ablation = FULL
) -> TrainingRecord | None:
    """Return the scorer of these inputs, if it is recorded and its files exist."""
    with catalog.reading() as connection:
        found = find_training_run(connection, training_key(inputs, params, ablation))
    return found if found is not None and _is_whole(artifacts, found) else None


def load_trained(artifacts: ArtifactStore, record: TrainingRecord) -> FrozenScorer:
    """Return the scorer of a recorded run; its bytes are checked against their hash."""
    where = f"weights of training run {record.run_key}"
    return read_scorer(artifacts.get(record.weights), record.layout_hash, where)


def load_fold_scores(
    artifacts: ArtifactStore, record: TrainingRecord, train: TrainingFrame, validation: TrainingFrame
) -> ScoredSets[TrainingFrame] | None:
    """Return the scores by members that never saw the task they score, of both splits in one frame; None for a run that
    was not cross-fitted. `train` and `validation` are the run's own frames."""
    key = record.fold_scores
    if key is None:
        return None
    frame = joined(train, validation)
    return read_fold_scores(artifacts.get(key), frame).scored(frame)


def train(
    catalog: Catalog,
    artifacts: ArtifactStore,
    inputs: TrainingInputs,
    params: TrainParams,
    ablations: Sequence[Ablation] = (FULL,),
    *,
    checkpoints: Path,
    workers: int = 2,
    progress: Progress = lambda ablation, evaluations: None,
) -> list[Trained]:
    """Train what these inputs have not given yet, each configuration once. Rerunning changes nothing.

    `checkpoints` is a folder of this machine; a killed run continues from what it left there.
    """
    wanted = list(dict.fromkeys(trained_as(ablation) for ablation in ablations))
    for ablation in wanted:
        check_configuration(inputs, ablation, params)
    keys = {ablation.name: training_key(inputs, params, ablation) for ablation in wanted}
    found = {ablation.name: find_trained(catalog, artifacts, inputs, params, ablation) for ablation in wanted}
    results = {name: Trained(record, is_new=False) for name, record in found.items() if record is not None}
    if len(results) < len(wanted):
        with catalog.writing() as connection:
            names = [ablation.name for ablation in wanted if ablation.name not in results]
            subject = ", ".join(names) if len(names) < 3 else f"{len(names)} configurations"
            run_id = start_run(connection, "train", subject, drsr.__version__)
        with Claims(catalog, "train") as claims:
            for ablation in wanted:
                key = keys[ablation.name]
                if ablation.name not in results and not _wait_for_turn(catalog, artifacts, claims, key):
                    checkpoint = checkpoints / f"{key}.safetensors"
                    record = _train_one(catalog, artifacts, inputs, params, ablation, checkpoint, workers, progress)
                    results[ablation.name] = Trained(record, is_new=True)
                    with catalog.writing() as connection:
                        claims.release(connection, key)
        counts = {"trained": [name for name, result in results.items() if result.is_new]}
        with catalog.writing() as connection:
            finish_run(connection, run_id, counts)
            for ablation in wanted:  # those that another worker trained meanwhile
                other = find_training_run(connection, keys[ablation.name])
                if ablation.name not in results and other is not None:
                    results[ablation.name] = Trained(other, is_new=False)
    return [results[ablation.name] for ablation in wanted]


def check_configuration(inputs: TrainingInputs, ablation: Ablation, params: TrainParams) -> None:
    """Refuse a configuration that these inputs cannot be trained in, before anything is fitted."""
    check_frames(inputs.train, inputs.validation)
    if inputs.source != params.source:
        raise FrameError(f"the examples are of source {inputs.source}, the parameters say {params.source}")
    check_kind(params, ablation)
    used_columns(ablation, inputs.column_groups, params.column_groups)
    for frame in (inputs.train, inputs.validation):
        prepare_frame(frame, ablation, inputs.column_groups)


def _is_whole(artifacts: ArtifactStore, record: TrainingRecord) -> bool:
    kept = [record.weights, record.history, *([] if record.fold_scores is None else [record.fold_scores])]
    return not artifacts.missing(kept)


def _wait_for_turn(catalog: Catalog, artifacts: ArtifactStore, claims: Claims, key: str) -> bool:
    """Wait and return True once another worker has trained it, or False as soon as it is this worker's turn to
    train."""
    while True:
        with catalog.writing() as connection:
            found = find_training_run(connection, key)
            taken = claims.take(connection, key)
        if taken:
            return found is not None and _is_whole(artifacts, found)
        time.sleep(POLL_SECONDS)


def _train_one(
    catalog: Catalog,
    artifacts: ArtifactStore,
    inputs: TrainingInputs,
    params: TrainParams,
    ablation: Ablation,
    checkpoint: Path,
    workers: int,
    progress: Progress,
) -> TrainingRecord:
    started = time.monotonic()
    trained = fit_scorer(
        inputs.train,
        inputs.validation,
        params,
        ablation=ablation,
        column_groups=inputs.column_groups,
        progress=lambda evaluations: progress(ablation, evaluations),
        checkpoint=checkpoint,
        workers=workers,
    )
    weights = artifacts.put(scorer_bytes(trained.scorer))
    history = artifacts.put(history_bytes(trained.history))
    row = {
        "run_key": training_key(inputs, params, ablation),
        "ablation": ablation.name,
        "version": TRAINING_VERSION,
        "params": params.recorded(),
        "view_id": inputs.view_id,
        "labeler_id": inputs.labeler_id,
        "layout_hash": inputs.train.layout_hash,
        "train_hash": inputs.train_hash,
        "validation_hash": inputs.validation_hash,
        "train_sets": len(inputs.train),
        "train_trajectories": len(set(inputs.train.trajectory_ids)),
        "validation_sets": len(inputs.validation),
        "validation_trajectories": len(set(inputs.validation.trajectory_ids)),
        "seeds": list(params.seeds),
        "chosen_epochs": [row.epoch for row in trained.chosen],
        "metrics": _metrics(trained, inputs, params, ablation) | _fold_facts(artifacts, trained),
        "weights": weights,
        "history": history,
        "code_version": drsr.__version__,
        "seconds": time.monotonic() - started,
        "trained_at": datetime.datetime.now(datetime.UTC),
    }
    with catalog.writing() as connection:
        before = ledger.trainings(connection, training_key(inputs, params, ablation))
        record = record_training_run(connection, row)
        made = ledger.changed(before, ledger.trainings(connection, record.run_key))
        note(connection, "train", {"training": made}, read_after=inputs.read_after)
    if record.weights != weights:  # its files were lost, and this machine computes other bits than the one before
        raise ArtifactCorrupt(
            f"the weights of training run {record.run_key} are missing, and training again gave others",
            where=artifacts.location,
            hint="restore the artifact folder from a copy",
        )
    checkpoint.unlink(missing_ok=True)
    return record


def _metrics(trained: FittedScorer, inputs: TrainingInputs, params: TrainParams, ablation: Ablation) -> dict[str, Any]:
    """Return how the ensemble and each member do on tasks that they were not fitted on: those of validation, or where
    they were cross-fitted those of each fold."""
    train, validation = (
        prepare_frame(frame, ablation, inputs.column_groups) for frame in (inputs.train, inputs.validation)
    )
    if trained.fold_scores is None:
        frame, scored = validation, score_frame(trained.scorer, validation)
    else:
        frame = joined(train, validation)
        scored = trained.fold_scores.scored(frame)
    judged = evaluate(frame, scored.predicted_harm, scored.unsafe_mean, params.meaningful_gap, Bootstrap())
    return {
        "ensemble": [metric.to_json() for metric in judged],
        "members": [row.to_json() for row in trained.chosen],
    }


def _fold_facts(artifacts: ArtifactStore, trained: FittedScorer) -> dict[str, Any]:
    """Return the facts of a cross-fitted run: where its fold scores are, and what they rest on."""
    if trained.fold_scores is None:
        return {}
    assert trained.histograms is not None  # whoever has the one has the other
    return {FOLD_SCORES: artifacts.put(trained.fold_scores.to_bytes()), "histograms": trained.histograms._asdict()}
