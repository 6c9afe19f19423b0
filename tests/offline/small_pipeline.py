"""A catalog that went through the real stages, small: made-up runs, a tiny language model, few epochs.

    pipeline = run_stages(folder)                            ingest, freeze, label, featurize, train, calibrate
    pipeline = run_stages(folder, name, labels="drawn")      the same with drawn harms, for a model that is slow
    published = publish_quickly(pipeline, order)             without expectations and audit, which take seconds

Harms that are drawn mean nothing; all else is as a data team would have it.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml
from sqlalchemy import select

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.deletion_sets import deletion_sets
from drsr.features.light import LIGHT_VIEW
from drsr.offline.audit.checks import calibration as calibration_check
from drsr.offline.audit.checks import chain, data_rules, golden, split_reads
from drsr.offline.calibrate.stage import calibrate
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import Trajectory
from drsr.offline.featurize.light_reader import load_light_reader
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.freeze.rows import StateRow, TrajectoryItem, load_states
from drsr.offline.freeze.stage import freeze, freezing_rule
from drsr.offline.freeze.states import rule_hash
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.harm import MeasuredHarm, StateHarms
from drsr.offline.label.records import LabelerIdentity, MeasuredState, ensure_labeler, record_measurements
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.params import Params
from drsr.offline.publish.stage import Published, PublishOrder, find_calibration, publish
from drsr.offline.publish.subject import Subject
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.records import CalibrationRecord
from drsr.offline.train.stage import read_inputs, train
from drsr.offline.verdicts import Told, Verdict, passed
from drsr.request.contracts import Backbone
from drsr.request.rendering import RENDERER_VERSION, render_output
from drsr.request.view import Caps, caps_for
from tests.offline.chat_files import chat, write_json
from tests.offline.frames import params
from tests.tiny_models import build_tiny

RUNS = {"train": 4, "validation": 3, "test": 1}
EPOCHS = 10


class Pipeline(NamedTuple):
    folder: Path
    catalog: Catalog
    artifacts: ArtifactStore
    backbone: str
    calibration: CalibrationRecord

    @property
    def settings(self) -> dict[str, str]:
        """The environment in which a command finds all this."""
        return {
            "DRSR_CATALOG_URL": f"sqlite:///{self.folder}/catalog.sqlite",
            "DRSR_ARTIFACT_ROOT": str(self.folder / "artifacts"),
            "DRSR_BACKBONE": self.backbone,
        }


def copy_of(pipeline: Pipeline, folder: Path) -> Pipeline:
    """The same in a folder of its own, to be changed at will. The model is shared."""
    shutil.copytree(pipeline.folder, folder, ignore=shutil.ignore_patterns("model", "checkpoints"))
    catalog = open_catalog(f"sqlite:///{folder}/catalog.sqlite")
    return pipeline._replace(folder=folder, catalog=catalog, artifacts=ArtifactStore(str(folder / "artifacts")))


def found(folder: Path, backbone: str | None = None) -> Pipeline:
    """The pipeline that went through its stages in a folder before, by default with its own model. It is closed."""
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite") as catalog:
        calibration = find_calibration(catalog, None)
    name = backbone or f"path:{folder / 'model'}"
    return Pipeline(folder, catalog, ArtifactStore(str(folder / "artifacts")), name, calibration)


def quick_params(**calibrate: Any) -> Params:
    """The real parameters with few epochs, two members, and limits that a model without sense can keep to."""
    found = params()
    loose = {"max_unsafe_rate": 0.9, "max_mean_harm": 1.0, **calibrate}
    return replace(
        found,
        train=replace(found.train, max_epochs=EPOCHS, seeds=(11, 29)),
        calibrate=replace(found.calibrate, **loose),
    )


def write_params(folder: Path) -> None:
    """The same as the file that commands read."""
    found = asdict(quick_params())
    (folder / "params.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(found))))  # tuples become lists


def run_stages(
    folder: Path,
    backbone: str | None = None,
    *,
    labels: Literal["measured", "drawn"] = "measured",
    runs: Mapping[str, int] = RUNS,
) -> Pipeline:
    """All stages before publishing; by default with a tiny model of its own. `runs` says how many of each split."""
    folder.mkdir(parents=True, exist_ok=True)
    name = backbone or f"path:{build_tiny('llama', folder / 'model')}"
    loaded = load_backbone(name)
    assert isinstance(loaded, FrozenLM)
    caps = caps_for(loaded.window)
    catalog = open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True)
    artifacts = ArtifactStore(str(folder / "artifacts"))
    add_runs(catalog, artifacts, folder, runs=runs)
    freeze(catalog, artifacts, loaded.tokenizer, caps)
    if labels == "measured":
        scorer = TargetNll(loaded)
        label(catalog, artifacts, scorer, label_run(scorer, "float32", caps))
    else:
        _draw_labels(catalog, artifacts, loaded, caps)
    featurize(catalog, artifacts, loaded, caps)
    return Pipeline(folder, catalog, artifacts, name, fit(catalog, artifacts, folder, quick_params()))


def fit(
    catalog: Catalog, artifacts: ArtifactStore, folder: Path, numbers: Params, view: str = "default"
) -> CalibrationRecord:
    """Train and calibrate on what is there."""
    source = numbers.train.source
    inputs = read_inputs(catalog, artifacts, view, "default", "train", source)
    train(catalog, artifacts, inputs, numbers.train, checkpoints=folder / "checkpoints", workers=1)
    inputs = read_inputs(catalog, artifacts, view, "default", "calibrate", source)
    return calibrate(catalog, artifacts, inputs, numbers).record


def with_light(pipeline: Pipeline) -> Pipeline:
    """The same catalog with the view `light` beside the other; the calibration is that of a light scorer."""
    reader = load_light_reader(pipeline.backbone)
    run = featurize_run(reader, "float32", caps_for(reader.window), view=LIGHT_VIEW)
    materialize(pipeline.catalog, pipeline.artifacts, reader, run)
    fitted = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(), LIGHT_VIEW)
    return pipeline._replace(calibration=fitted)


def publish_quickly(pipeline: Pipeline, order: PublishOrder) -> Published:
    """Publish its calibration with a double in place of the judge of the data, and the quick checks of the wheel."""
    quick = replace(
        order,
        checks=tuple(
            check._replace(run=passed_unseen) if check.name == data_rules.CHECK.name else check
            for check in order.checks
        ),
        wheel_checks=tuple(check for check in order.wheel_checks if check in QUICK),
    )
    return publish(pipeline.catalog, pipeline.artifacts, pipeline.calibration, quick)


QUICK = (chain.CHECK, split_reads.CHECK, calibration_check.CHECK, golden.CHECK)


def passed_unseen(subject: Subject, told: Told) -> list[Verdict]:
    """A double of a judge: it looks at nothing."""
    return passed(data_rules.CHECK, "passed unseen, by a double")


def add_runs(
    catalog: Catalog,
    artifacts: ArtifactStore,
    folder: Path,
    first: int = 0,
    runs: Mapping[str, int] = RUNS,
    source: str = "runs",
) -> None:
    """Ingest so many runs of every split."""
    for split, count in runs.items():
        tasks = (f"task-{number}" for number in itertools.count(first))
        mine = (task for task in tasks if assign_split(group_key("", "", task)) == split)
        for seed, task in enumerate(itertools.islice(mine, count)):
            run = chat(1_000 * len(split) + first + seed, steps=6) | {"task": task, "id": f"{split}-{first}-{seed}"}
            write_json(folder / source / f"{split}-{first}-{seed}.json", run)
    ingest(catalog, artifacts, str(folder / source), source=source)


def featurize(catalog: Catalog, artifacts: ArtifactStore, backbone: FrozenLM, caps: Caps) -> None:
    """Features of every state that has none."""
    materialize(catalog, artifacts, backbone, featurize_run(backbone, "float32", caps))


def _draw_labels(catalog: Catalog, artifacts: ArtifactStore, backbone: Backbone, caps: Caps) -> None:
    identity = LabelerIdentity(
        backbone.name, backbone.identity, "float32", RENDERER_VERSION, rule_hash(caps), caps.target
    )
    draw = np.random.default_rng(3)
    measured = []
    for row in _frozen(catalog, artifacts, backbone, caps):
        state = row.frozen.state
        target = render_output(row.frozen.next_output, backbone.tokenizer)
        harms = [
            MeasuredHarm(found, 2.0, 2.0 + float(draw.normal(0.01, 0.05)))
            for found in deletion_sets(state, len(state.candidates))
        ]
        measured.append(
            MeasuredState(row.id, target, len(state.rendering), StateHarms(2.0, tuple(harms), {}), "direct")
        )
    with catalog.writing() as connection:
        record_measurements(connection, ensure_labeler(connection, "default", identity), measured)


def _frozen(catalog: Catalog, artifacts: ArtifactStore, backbone: Backbone, caps: Caps) -> Iterator[StateRow]:
    rule = freezing_rule(backbone.tokenizer, caps)
    with catalog.reading() as connection:
        found = connection.execute(select(Trajectory.id, Trajectory.blob, Trajectory.split).order_by(Trajectory.id))
        items = [TrajectoryItem(number, blob, split, "") for number, blob, split in found]
    for item in items:
        yield from load_states(catalog, artifacts, item, backbone.tokenizer, caps, rule)
