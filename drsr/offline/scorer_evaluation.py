"""The study of ablations on a catalog: trains what is not trained yet, then judges everything on the test split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import drsr
from drsr.errors import FrameError, SettingsError
from drsr.offline.ablation_study import Missing, Study, StudyInputs, study
from drsr.offline.ablations import ABLATIONS, FULL, Ablation, trained_as
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.records import finish_run, start_run
from drsr.offline.checkpoints import frame_hash
from drsr.offline.feature_store import get_training_frame
from drsr.offline.metrics import Bootstrap
from drsr.offline.params import Params
from drsr.offline.splits import Split
from drsr.offline.train import Progress, Trained, TrainingInputs, check_configuration, load_trained, read_inputs, train


class Evaluated(NamedTuple):
    study: Study
    scorers: list[Trained]
    """What was judged, by configuration."""
    examples_hash: str
    """SHA-256 over every number that it was judged on."""


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
    inputs = read_inputs(catalog, artifacts, view, labeler, "train")
    wanted, missing = _possible(inputs, [*ABLATIONS.values()] if configurations is None else configurations)
    scorers = train(
        catalog, artifacts, inputs, params.train, wanted, checkpoints=checkpoints, workers=workers, progress=progress
    )
    with catalog.writing() as connection:
        run_id = start_run(connection, "evaluate", f"ablations on {split}", drsr.__version__)
    validation = get_training_frame(catalog, artifacts, view, split="validation", purpose="calibrate", labeler=labeler)
    examples = get_training_frame(catalog, artifacts, view, split=split, purpose="evaluate", labeler=labeler)
    found = study(
        StudyInputs(
            examples=examples,
            validation=validation,
            ensembles={result.record.ablation: load_trained(artifacts, result.record) for result in scorers},
            missing=missing,
            column_groups=inputs.column_groups,
            meaningful_gap=params.train.meaningful_gap,
            calibrate=params.calibrate,
            bootstrap=bootstrap,
        )
    )
    with catalog.writing() as connection:
        finish_run(connection, run_id, {"scorers": len(found.scorers), "sets": found.sets})
    return Evaluated(found, scorers, frame_hash(examples))


def _possible(inputs: TrainingInputs, configurations: Sequence[Ablation]) -> tuple[list[Ablation], list[Missing]]:
    """The configurations that these examples can be trained in, and why not the others. The full one must be."""
    check_configuration(inputs, FULL)
    possible, missing = [], []
    for ablation in dict.fromkeys(map(trained_as, configurations)):
        try:
            check_configuration(inputs, ablation)
        except (FrameError, SettingsError) as error:
            missing.append(Missing(ablation.name, error.what))
        else:
            possible.append(ablation)
    return possible, missing
