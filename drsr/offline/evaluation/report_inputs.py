"""What the report's tables are computed from, read and judged once: frames, scores, operating point, study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from drsr.offline.ablations import FULL
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.calibrate import Calibrated, calibrate, plain_search
from drsr.offline.calibration import SearchTable
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.releases import latest_releases
from drsr.offline.examples import ExampleFrame
from drsr.offline.feature_store import RegisteredView, get_training_frame, get_view
from drsr.offline.metrics import Bootstrap
from drsr.offline.params import Params
from drsr.offline.scored_sets import ScoredSets, score_frame
from drsr.offline.scorer_evaluation import Evaluated, evaluate_ablations
from drsr.offline.splits import Split
from drsr.offline.train import Progress, TrainingInputs, load_trained, read_inputs


class Asked(NamedTuple):
    """What a report is made of."""

    view: str
    labeler: str
    split: Split
    """What is judged; the analyses of interactions take `train`."""
    ablations: bool
    """Whether every ablation and control is judged too; those that are not trained yet are trained then."""
    checkpoints: Path
    replicates: int
    workers: int


class ReportInputs(NamedTuple):
    params: Params
    bootstrap: Bootstrap
    evaluated: Evaluated
    inputs: TrainingInputs
    view: RegisteredView
    calibrated: Calibrated
    search: SearchTable
    """Everything that a plain calibration tries."""
    frames: Mapping[str, ExampleFrame]
    """By split."""
    scored: Mapping[str, ScoredSets[ExampleFrame]]
    """Validation and what is judged, by the full scorer."""
    judged: Split
    released: str | None
    """The latest version of a policy, if one was published."""

    @property
    def columns(self) -> list[str]:
        """Names of the feature columns, in order."""
        return [column.name for column in self.view.columns]

    @property
    def risk_threshold(self) -> float:
        """Below every score where calibration found nothing admissible: then nothing passes."""
        threshold = self.calibrated.record.risk_threshold
        return -1.0 if threshold is None else threshold


def read_report_inputs(
    catalog: Catalog, artifacts: ArtifactStore, params: Params, asked: Asked, progress: Progress
) -> ReportInputs:
    """Train what is not trained yet, and read every split for evaluation."""
    bootstrap = Bootstrap(asked.replicates)
    evaluated = evaluate_ablations(
        catalog,
        artifacts,
        params,
        view=asked.view,
        labeler=asked.labeler,
        checkpoints=asked.checkpoints,
        split=asked.split,
        bootstrap=bootstrap,
        workers=asked.workers,
        configurations=None if asked.ablations else (FULL,),
        progress=progress,
    )
    inputs = read_inputs(catalog, artifacts, asked.view, asked.labeler, "calibrate")
    calibrated = calibrate(catalog, artifacts, inputs, params)
    frames: dict[str, ExampleFrame] = {"train": inputs.train, "validation": inputs.validation}
    if asked.split not in frames:
        frames[asked.split] = get_training_frame(
            catalog, artifacts, asked.view, split=asked.split, purpose="evaluate", labeler=asked.labeler
        )
    scorer = load_trained(artifacts, calibrated.run)
    with catalog.reading() as connection:
        view = get_view(connection, asked.view)
        releases = latest_releases(connection, 1)
    return ReportInputs(
        params=params,
        bootstrap=bootstrap,
        evaluated=evaluated,
        inputs=inputs,
        view=view,
        calibrated=calibrated,
        search=plain_search(artifacts, inputs, calibrated, params.calibrate),
        frames=frames,
        scored={split: score_frame(scorer, frames[split]) for split in dict.fromkeys(("validation", asked.split))},
        judged=asked.split,
        released=releases[0].version if releases else None,
    )
