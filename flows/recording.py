"""DVC records a run: right after a stage succeeded, its export is committed to DVC's cache and named in dvc.lock.

    record("label")        exports/label/ holds the labels, dvc.lock says which, `dvc status` has nothing to say

A commit certifies whatever lies in the folder, so the export is made here, from the catalog, in the same breath.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from drsr.errors import InputError
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.views import DEFAULT_VIEW
from drsr.offline.params import PARAMS_FILE, load_params
from drsr.offline.stage_exports import Exporter, StageExport
from drsr.offline.stages import NAMES
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.dvc_calls import with_dvc
from drsr.settings import load_settings

EXPORTS, DVC_FILE = "exports", "dvc.yaml"


class Recorded(NamedTuple):
    """The entry of a stage in dvc.lock."""

    export: StageExport
    outputs: dict[str, str]
    """DVC's hash of every output by its path."""


def record(stage: str, labeler: str = "default", view: str = DEFAULT_VIEW) -> Recorded:
    """Export what a stage made and commit it. Call it in the order of dvc.yaml, right after the stage succeeded.

    The repository is the working directory, as for `dvc` itself: DVC looks up part of its paths from there.
    """
    repository = Path.cwd()
    require_repository(repository)
    settings = load_settings()
    with open_catalog(settings.catalog_url) as catalog:
        exporter = Exporter(
            catalog,
            ArtifactStore(settings.artifact_root),
            load_params(repository / PARAMS_FILE),
            repository / EXPORTS,
            labeler,
            view,
            may_replace=True,
        )
        export = exporter.export(stage)
    committed = with_dvc(repository, lambda repo: repo.commit(stage, force=True))
    return Recorded(export, _hashes(committed))


def locked() -> dict[str, str]:
    """Return what dvc.lock says here of the stages: DVC's hash of every output by its path."""
    require_repository(Path.cwd())
    return with_dvc(Path.cwd(), lambda repo: _hashes(stage for name in NAMES for stage in repo.stage.collect(name)))


def _hashes(stages: Iterable[Any]) -> dict[str, str]:
    return {out.def_path: str(out.hash_info.value) for stage in stages for out in stage.outs}


def changed() -> dict[str, Any]:
    """Return what `dvc status` says here of the stages: empty where every one is as dvc.lock has it."""
    require_repository(Path.cwd())
    found: dict[str, Any] = with_dvc(Path.cwd(), lambda repo: repo.status(targets=list(NAMES)))
    return found


def require_repository(repository: Path) -> None:
    """Raise InputError unless the folder's dvc.yaml has the stages."""
    for name in (".dvc", DVC_FILE, PARAMS_FILE):
        if not (repository / name).exists():
            raise InputError(
                f"is not a DVC repository with the stages of DRSR: it has no {name}",
                where=str(repository),
                hint="run in a clone of the project, or copy .dvc, dvc.yaml and params.yaml into a folder",
            )
