"""Everything the report says, computed from a catalog: the study, the paper's analyses, a replay where there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import drsr
from drsr.errors import FrameError
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.calibrate import Calibrated, calibrate, plain_search
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.releases import latest_releases
from drsr.offline.evaluation.analyses.analysis import Analysis
from drsr.offline.evaluation.analyses.attention_cases import attention_cases
from drsr.offline.evaluation.analyses.granularity import StepHarm, granularity
from drsr.offline.evaluation.analyses.interaction_properties import interaction_properties
from drsr.offline.evaluation.analyses.layer_relations import layer_relations
from drsr.offline.evaluation.analyses.margin_sweep import margin_sweep
from drsr.offline.evaluation.analyses.non_compositionality import non_compositionality
from drsr.offline.evaluation.analyses.reconstruction import reconstruction
from drsr.offline.evaluation.analyses.risk_scores import beta_sensitivity, gate_curve, score_distributions
from drsr.offline.evaluation.replay import Replayed
from drsr.offline.evaluation.replay_tables import NOTICE, replay_by_domain, replay_table
from drsr.offline.evaluation.report_page import Report
from drsr.offline.evaluation.study_tables import study_tables
from drsr.offline.examples import ExampleFrame
from drsr.offline.feature_store import get_training_frame
from drsr.offline.feature_views import get_view
from drsr.offline.harm import HARM_TOLERANCE
from drsr.offline.metrics import Bootstrap
from drsr.offline.operating_curve import operating_curve, uncertainty_sensitivity
from drsr.offline.params import Params
from drsr.offline.scored_sets import ScoredSets, score_frame
from drsr.offline.scorer_evaluation import Evaluated, evaluate_ablations
from drsr.offline.singletons import aggregate, singleton_harms
from drsr.offline.splits import Split
from drsr.offline.train import Progress, load_trained, read_inputs
from drsr.rendering import RENDERER_VERSION


class Asked(NamedTuple):
    """What a report is made of."""

    view: str
    labeler: str
    split: Split
    """What is judged; the analyses of interactions take `train`."""
    checkpoints: Path
    replicates: int
    workers: int


class Measured(NamedTuple):
    """What was measured beside the labels; None where it was not."""

    steps: Sequence[StepHarm] | None
    replay: Sequence[Replayed] | None
    summariser: str


def build_report(
    catalog: Catalog, artifacts: ArtifactStore, params: Params, asked: Asked, measured: Measured, progress: Progress
) -> Report:
    """Trains what is not trained yet, reads every split for evaluation, and puts all tables together."""
    evaluated = evaluate_ablations(
        catalog,
        artifacts,
        params,
        view=asked.view,
        labeler=asked.labeler,
        checkpoints=asked.checkpoints,
        split=asked.split,
        bootstrap=Bootstrap(asked.replicates),
        workers=asked.workers,
        progress=progress,
    )
    inputs = read_inputs(catalog, artifacts, asked.view, asked.labeler, "calibrate")
    calibrated = calibrate(catalog, artifacts, inputs, params)
    frames: dict[str, ExampleFrame] = {"train": inputs.train, "validation": inputs.validation}
    if asked.split not in frames:
        frames[asked.split] = get_training_frame(
            catalog, artifacts, asked.view, split=asked.split, purpose="evaluate", labeler=asked.labeler
        )
    with catalog.reading() as connection:
        view = get_view(connection, asked.view)
        releases = latest_releases(connection, 1)
    columns = [column.name for column in view.columns]
    scorer = load_trained(artifacts, calibrated.run)
    scored: dict[str, ScoredSets[ExampleFrame]] = {
        split: score_frame(scorer, frames[split]) for split in dict.fromkeys(("validation", asked.split))
    }
    judged, record = frames[asked.split], calibrated.record
    threshold = -1.0 if record.risk_threshold is None else record.risk_threshold  # below every score: nothing passes
    search = plain_search(artifacts, inputs, calibrated, params.calibrate)
    predictions = {
        "the scorer": scored[asked.split].predicted_harm,
        "sum of measured single harms": aggregate(judged, singleton_harms(judged, judged.harm), "sum"),
    }
    made: list[tuple[str, Callable[[], Analysis]]] = [
        ("non_compositionality", lambda: non_compositionality(frames["train"])),
        ("reconstruction", lambda: reconstruction(frames["train"])),
        ("interaction_properties", lambda: interaction_properties(frames["train"], columns)),
        (
            "layer_relations",
            lambda: layer_relations(
                frames["train"], judged, columns, inputs.column_groups, params.train.meaningful_gap
            ),
        ),
        ("margin_sweep", lambda: margin_sweep(judged, predictions)),
        (
            "score_distributions",
            lambda: score_distributions(scored, record.uncertainty_coefficient, threshold),
        ),
        (
            "gate_curve",
            lambda: gate_curve(
                operating_curve(search, record.max_cardinality, record.uncertainty_coefficient), threshold
            ),
        ),
        ("beta_sensitivity", lambda: beta_sensitivity(uncertainty_sensitivity(search, params.calibrate))),
        ("attention_cases", lambda: attention_cases(judged, columns, HARM_TOLERANCE)),
    ]
    analyses, left_out = _make(made)
    left_out |= {row.name: row.why for row in evaluated.study.missing}
    if measured.steps:
        analyses.insert(2, granularity(measured.steps, HARM_TOLERANCE))
    else:
        left_out["granularity"] = "no Steps were measured: drsr report --steps N measures those of N states"
    first: list[Analysis] = []
    if measured.replay:
        bootstrap = Bootstrap(asked.replicates)
        first = [replay_table(measured.replay, bootstrap)]
        if len({row.domain for row in measured.replay}) > 1:
            first.append(replay_by_domain(measured.replay, bootstrap))
    else:
        left_out["replay"] = "nothing was replayed: drsr evaluate --replay"
    return Report(
        title="DRSR: what the policy was made from, and what it does",
        notice=NOTICE,
        facts=_facts(calibrated, evaluated, view.identity._asdict(), frames, measured)
        | {"released policy": releases[0].version if releases else "none yet"},
        differences=_differences(view.identity.backbone),
        commands=("drsr ingest", "drsr freeze", "drsr label", "drsr featurize", "drsr train", "drsr calibrate")
        + ("drsr evaluate --replay", "drsr report"),
        analyses=[*first, *study_tables(evaluated.study), *analyses],
        left_out=left_out,
    )


def _make(made: Sequence[tuple[str, Callable[[], Analysis]]]) -> tuple[list[Analysis], dict[str, str]]:
    """Every analysis that these examples allow, and why not the others."""
    found, left_out = [], {}
    for name, make in made:
        try:
            found.append(make())
        except FrameError as error:
            left_out[name] = error.what
    return found, left_out


def _facts(
    calibrated: Calibrated,
    evaluated: Evaluated,
    view: Mapping[str, object],
    frames: Mapping[str, ExampleFrame],
    measured: Measured,
) -> dict[str, str]:
    record = calibrated.record
    sizes = ", ".join(
        f"{split} {len(frame):,} sets of {len(frame.state_ids):,} states" for split, frame in frames.items()
    )
    return {
        "drsr": drsr.__version__,
        "renderer": RENDERER_VERSION,
        **{f"features: {name}": str(value) for name, value in view.items()},
        "labels": sizes,
        "labeler": next(iter(frames.values())).labeler,
        "examples that were judged": evaluated.examples_hash,
        "training run": calibrated.run.run_key,
        "calibration": record.calibration_key,
        "operating point": record.explanation,
        "summaries in the replay by": measured.summariser,
        "parameters of calibration": ", ".join(f"{name} {value}" for name, value in record.params.items()),
    }


def _differences(backbone: str) -> list[str]:
    return [
        f"Language model: {backbone} here, Qwen3.5-9B in the paper.",
        "Runs: those of this catalog here; 1,000 runs of WorkBuddyBench tasks in the paper.",
        "Reward: not measured here. The replay keeps the recorded output fixed; the paper's end-to-end tables run "
        "tasks.",
        "Values of the paper stand beside ours for orientation; with another model and other runs they need not agree.",
    ]
