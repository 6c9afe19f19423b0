"""The evaluate stage: trains what is to be judged and not trained yet, then judges it on the test split.

What came out is kept as JSON in the artifact store, and the run's row names it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from sqlalchemy import select

import drsr
from drsr.errors import FrameError, SettingsError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.catalog.tables import Execution
from drsr.offline.evaluate.ablation_study import Missing, PolicyRow, ScorerRow, Study, StudyInputs, study
from drsr.offline.ingest.splits import Split
from drsr.offline.params import Params, TrainParams
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.ablations import ABLATIONS, FULL, Ablation, trained_as
from drsr.offline.train.checkpoints import frame_hash
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.frames import get_training_frame
from drsr.offline.train.metrics import Bootstrap
from drsr.offline.train.scored_sets import ScoredSets
from drsr.offline.train.stage import (
    Progress,
    Trained,
    TrainingInputs,
    check_configuration,
    load_fold_scores,
    load_trained,
    read_inputs,
    train,
)
from drsr.scorer.frozen import FrozenScorer

_KEPT = "evaluation"
"""Under which name a run's counts have the key of what was kept."""


class Evaluated(NamedTuple):
    study: Study
    scorers: list[Trained]
    """Scorers that were judged, one per configuration."""
    examples_hash: str
    """SHA-256 over every number that it was judged on."""

    def to_json(self) -> dict[str, Any]:
        """Return the study, with what was judged and on what."""
        return {
            **_study_json(self.study),
            "examples_hash": self.examples_hash,
            "training_runs": {result.record.ablation: result.record.run_key for result in self.scorers},
        }


class TrainedAblations(NamedTuple):
    """Scorers of every configuration that the examples allow."""

    inputs: TrainingInputs
    scorers: list[Trained]
    missing: list[Missing]

    def ensembles(self, artifacts: ArtifactStore) -> dict[str, FrozenScorer]:
        """Return the ensembles by configuration; a configuration that differs only in selection has no ensemble."""
        return {result.record.ablation: load_trained(artifacts, result.record) for result in self.scorers}

    def fold_scores(self, artifacts: ArtifactStore) -> dict[str, ScoredSets[TrainingFrame]]:
        """Return the fold scores by configuration, for those that were cross-fitted."""
        frames = self.inputs.train, self.inputs.validation
        found = {row.record.ablation: load_fold_scores(artifacts, row.record, *frames) for row in self.scorers}
        return {name: scored for name, scored in found.items() if scored is not None}


def train_ablations(
    catalog: Catalog,
    artifacts: ArtifactStore,
    params: Params,
    *,
    view: str,
    labeler: str,
    checkpoints: Path,
    configurations: Sequence[Ablation] | None = None,
    workers: int = 2,
    progress: Progress = lambda ablation, evaluations: None,
) -> TrainedAblations:
    """Train what is not trained yet; `configurations` leaves all others out, the full one must be among them."""
    inputs = read_inputs(catalog, artifacts, view, labeler, "train", params.train.source)
    wanted, missing = _possible(
        inputs, params.train, [*ABLATIONS.values()] if configurations is None else configurations
    )
    scorers = train(
        catalog, artifacts, inputs, params.train, wanted, checkpoints=checkpoints, workers=workers, progress=progress
    )
    return TrainedAblations(inputs, scorers, missing)


def evaluate_ablations(
    catalog: Catalog,
    artifacts: ArtifactStore,
    params: Params,
    *,
    view: str,
    labeler: str,
    checkpoints: Path,
    split: Split = "test",
    bootstrap: Bootstrap = Bootstrap(),  # noqa: B008 - frozen
    configurations: Sequence[Ablation] | None = None,
    workers: int = 2,
    progress: Progress = lambda ablation, evaluations: None,
) -> Evaluated:
    """Judge the full scorer, every ablation and control, and the singleton rules.

    `configurations` leaves all others out; the full one must be among them.
    """
    trained = train_ablations(
        catalog,
        artifacts,
        params,
        view=view,
        labeler=labeler,
        checkpoints=checkpoints,
        configurations=configurations,
        workers=workers,
        progress=progress,
    )
    with catalog.writing() as connection:
        run_id = start_run(connection, "evaluate", f"ablations on {split}", drsr.__version__)
    source = params.train.source
    validation = get_training_frame(
        catalog, artifacts, view, split="validation", purpose="calibrate", labeler=labeler, source=source
    )
    examples = get_training_frame(
        catalog, artifacts, view, split=split, purpose="evaluate", labeler=labeler, source=source
    )
    found = study(
        StudyInputs(
            examples=examples,
            validation=validation,
            ensembles=trained.ensembles(artifacts),
            missing=trained.missing,
            column_groups=trained.inputs.column_groups,
            meaningful_gap=params.train.meaningful_gap,
            calibrate=params.calibrate,
            bootstrap=bootstrap,
            fold_scores=trained.fold_scores(artifacts),
        )
    )
    evaluated = Evaluated(found, trained.scorers, frame_hash(examples))
    kept = artifacts.put(orjson.dumps(evaluated.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
    with catalog.writing() as connection:
        finish_run(connection, run_id, {"scorers": len(found.scorers), "sets": found.sets, _KEPT: kept})
    return evaluated


def latest_evaluation(catalog: Catalog, artifacts: ArtifactStore) -> bytes | None:
    """Return the latest finished evaluation as JSON, or None."""
    query = (
        select(Execution.counts)
        .where(Execution.stage == "evaluate", Execution.finished_at.is_not(None))
        .order_by(Execution.id.desc())
    )
    with catalog.reading() as connection:
        for counts in connection.execute(query).scalars():
            if counts and _KEPT in counts:
                return artifacts.get(counts[_KEPT])
    return None


def _possible(
    inputs: TrainingInputs, params: TrainParams, configurations: Sequence[Ablation]
) -> tuple[list[Ablation], list[Missing]]:
    """Return the configurations that can be trained on these examples, and why the others cannot. The full one must
    be."""
    check_configuration(inputs, FULL, params)
    possible, missing = [], []
    for ablation in dict.fromkeys(map(trained_as, configurations)):
        try:
            check_configuration(inputs, ablation, params)
        except (FrameError, SettingsError) as error:
            missing.append(Missing(ablation.name, error.what))
        else:
            possible.append(ablation)
    return possible, missing


def _study_json(study: Study) -> dict[str, Any]:
    """Return every table of a study; NaN is null."""
    return {
        **{name: getattr(study, name) for name in ("split", "states", "sets", "trajectories", "unsafe")},
        "scorers": [_scorer(row) for row in study.scorers],
        "singletons": [
            {**row._asdict(), "metrics": [metric.to_json() for metric in row.metrics]} for row in study.singletons
        ],
        "matching": [_scorer(row) for row in study.matching],
        "policies": [_policy(row) for row in study.policies],
        "missing": [row._asdict() for row in study.missing],
    }


def _scorer(row: ScorerRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "what": row.what,
        "metrics": [metric.to_json() for metric in row.metrics],
        "gains": [metric.to_json() for metric in row.gains or ()],
    }


def _policy(row: PolicyRow) -> dict[str, Any]:
    threshold = row.rule.risk_threshold
    return {
        "name": row.name,
        "max_cardinality": row.rule.max_cardinality,
        "uncertainty_coefficient": row.uncertainty_coefficient,
        "risk_threshold": None if math.isinf(threshold) else threshold,
        "has_risk_gate": threshold != math.inf,
        "abstains_always": row.abstains_always,
        "removal_cap": row.rule.removal_cap,
        "metrics": [metric.to_json() for metric in row.metrics],
    }
