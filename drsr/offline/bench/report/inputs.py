"""Read and judge once what the report's tables are computed from: frames, scores, operating point, study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Select, select

from drsr.errors import FrameError, InputError
from drsr.features.view_layouts import Kind
from drsr.offline.calibrate.search import SearchTable
from drsr.offline.calibrate.stage import Calibrated, calibrate, plain_search
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source, Trajectory
from drsr.offline.evaluate.stage import Evaluated, evaluate_ablations, train_ablations
from drsr.offline.featurize.views import RegisteredView, find_view, get_view
from drsr.offline.ingest.splits import Split
from drsr.offline.label.records import recorded_floor, recorded_identity
from drsr.offline.params import Params
from drsr.offline.publish.records import latest_releases
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.ablations import FULL, MISMATCH_SEED, mismatch_states
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.frames import get_training_frame
from drsr.offline.train.metrics import Bootstrap
from drsr.offline.train.scored_sets import ScoredSets, score_frame
from drsr.offline.train.stage import Progress, TrainingInputs, load_trained, read_inputs
from drsr.scorer.frozen import FrozenScorer


class Asked(NamedTuple):
    """The inputs of a report."""

    view: str
    labeler: str
    split: Split
    """Split that is judged; the analyses of interactions take `train`."""
    ablations: bool
    """True to judge every ablation and control too; those that are not trained yet are trained then."""
    checkpoints: Path
    replicates: int
    workers: int
    called: tuple[str, ...]
    """The words after `drsr report` that make this one again."""
    replay: Path | None
    """The file that its replay was read from."""
    tasks: Path | None
    """And that of whole tasks."""


class Directions(NamedTuple):
    """Frames whose features hold directions of Blocks and states: whole ones if they are stored."""

    fitted: ExampleFrame
    """Frame of a split that is not judged."""
    judged: ExampleFrame
    columns: list[str]


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
    """Frames by split."""
    scored: Mapping[str, ScoredSets[ExampleFrame]]
    """Validation and what is judged, by the full scorer."""
    exchanged: ScoredSets[ExampleFrame] | None
    """Judged sets, scored by the same scorer given another decision's relations; None if there are too few
    decisions."""
    directions: Directions
    judged: Split
    domains: Mapping[str, str]
    """Domains of the trajectories that have one, named as in the frames."""
    released: str | None
    """The latest version of a policy, if one was published."""
    noise_floor: dict[str, Any] | None
    """Amount of rounding in a harm, as the labeler measured it; None if it did not."""

    @property
    def columns(self) -> list[str]:
        """Names of the feature columns, in order."""
        return [column.name for column in self.view.columns]


def refuse_other_replay(catalog: Catalog, about: Mapping[str, Any], split: Split, labeler: str, *, where: str) -> None:
    """Refuse a replay of another language model, or of another split, than the labels: they would be read as one."""
    if about["split"] != split:
        raise InputError(
            f"is a replay of the split {about['split']}, this report judges {split}",
            where=where,
            hint=f"drsr report --split {about['split']}, or replay that one: drsr evaluate --replay --split {split}",
        )
    with catalog.reading() as connection:
        found = recorded_identity(connection, labeler)
    if found is None:
        return  # whoever asks for its labels says so
    for name, here in found[1]._replace(method=None).facts.items():
        there = about["labeler"].get(name)
        if there != here and name != "backbone":
            raise InputError(
                f"was scored with {name} {there!r}, the labels of labeler {labeler!r} with {here!r}",
                where=where,
                hint="replay with the labeler's settings, or name the labeler that measures so: --labeler NAME",
            )


def read_report_inputs(
    catalog: Catalog, artifacts: ArtifactStore, params: Params, asked: Asked, progress: Progress
) -> ReportInputs:
    """Train what is not trained yet, and read every split for evaluation."""
    bootstrap = Bootstrap(asked.replicates)
    train_ablations(
        catalog,
        artifacts,
        params,
        view=asked.view,
        labeler=asked.labeler,
        checkpoints=asked.checkpoints,
        configurations=(FULL,),
        workers=asked.workers,
        progress=progress,
    )
    source = params.train.source
    inputs = read_inputs(catalog, artifacts, asked.view, asked.labeler, "calibrate", source)
    calibrated = calibrate(catalog, artifacts, inputs, params)  # before test is read: what follows a read is void
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
    frames: dict[str, ExampleFrame] = {"train": inputs.train, "validation": inputs.validation}
    if asked.split not in frames:
        frames[asked.split] = get_training_frame(
            catalog, artifacts, asked.view, split=asked.split, purpose="evaluate", labeler=asked.labeler, source=source
        )
    scorer = load_trained(artifacts, calibrated.run)
    with catalog.reading() as connection:
        view = get_view(connection, asked.view)
        releases = latest_releases(connection, 1)
        domains = {f"{source}/{run}": domain for source, run, domain in connection.execute(_domains())}
        floor = recorded_floor(connection, asked.labeler)
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
        exchanged=_exchanged(scorer, frames[asked.split], inputs.column_groups),
        directions=_whole_directions(catalog, artifacts, asked)
        or Directions(frames["train"], frames[asked.split], [column.name for column in view.columns]),
        judged=asked.split,
        domains=domains,
        released=releases[0].version if releases else None,
        noise_floor=floor,
    )


def _whole_directions(catalog: Catalog, artifacts: ArtifactStore, asked: Asked) -> Directions | None:
    """Return None if they are not stored for everything that is judged, or for no other split. An export holds those of
    validation and test, so training may have none."""
    with catalog.reading() as connection:
        view = find_view(connection, Kind.SEMANTIC.value)
    if view is None:
        return None

    def frame(split: Split) -> ExampleFrame | None:
        try:
            return get_training_frame(
                catalog, artifacts, view.name, split=split, purpose="evaluate", labeler=asked.labeler
            )
        except FrameError:
            return None

    judged = frame(asked.split)
    others: tuple[Split, ...] = ("train", "validation")
    fitted = next((found for split in others if split != asked.split and (found := frame(split)) is not None), None)
    if judged is None or fitted is None:
        return None
    return Directions(fitted, judged, [column.name for column in view.columns])


def _exchanged(
    scorer: FrozenScorer, frame: ExampleFrame, column_groups: Sequence[str]
) -> ScoredSets[ExampleFrame] | None:
    try:
        return score_frame(scorer, mismatch_states(frame, column_groups, MISMATCH_SEED))
    except FrameError:
        return None


def _domains() -> Select[Any]:
    return (
        select(Source.name, Trajectory.external_id, Trajectory.domain)
        .join(Source, Source.id == Trajectory.source_id)
        .where(Trajectory.is_current(), Trajectory.domain.is_not(None))
    )
