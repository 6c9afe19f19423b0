"""A catalog that took over what another one measured, and has read none of the runs.

bare = imported_from(pipeline, folder)      everything but the texts of the runs, and nothing fitted yet
read_runs(bare, pipeline)                   the runs come after all
"""

from __future__ import annotations

from pathlib import Path

from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest.recorder import IngestSummary
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.exports import ImportedMeasurements, import_measured
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.artifacts import ArtifactStore
from drsr.settings import Settings
from tests.offline.frames import params
from tests.offline.small_pipeline import Pipeline

STAGES = ("ingest", "freeze", "label", "featurize")


def exported(pipeline: Pipeline, root: Path) -> Path:
    """Write what the pipeline measured, without a text."""
    exporter = Exporter(pipeline.catalog, pipeline.artifacts, params(), root)
    for stage in STAGES:
        exporter.export(stage)
    return root


def imported_from(pipeline: Pipeline, folder: Path) -> tuple[Pipeline, ImportedMeasurements]:
    """A catalog of its own with everything that the pipeline measured. Its calibration is still the pipeline's."""
    folder.mkdir(parents=True)
    root = exported(pipeline, folder / "exports")
    catalog = open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True)
    bare = pipeline._replace(folder=folder, catalog=catalog, artifacts=ArtifactStore(str(folder / "artifacts")))
    return bare, import_again(bare, root)


def import_again(bare: Pipeline, root: Path) -> ImportedMeasurements:
    settings = Settings(
        catalog_url=f"sqlite:///{bare.folder}/catalog.sqlite",
        artifact_root=str(bare.folder / "artifacts"),
        backbone=bare.backbone,
    )
    return import_measured(bare.catalog, bare.artifacts, settings, root)


def read_runs(bare: Pipeline, pipeline: Pipeline) -> IngestSummary:
    """Ingest the recorded runs themselves."""
    return ingest(bare.catalog, bare.artifacts, str(pipeline.folder / "runs"), source="runs")
