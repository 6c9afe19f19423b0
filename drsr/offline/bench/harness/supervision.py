"""Refuse tasks that a policy may have learned from: those with recorded runs in train or validation."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select

from drsr.errors import TasksSupervised
from drsr.offline.bench.harness.manifest import Manifest
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Trajectory
from drsr.offline.evaluate.eval40 import evaluation_task
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.sandbox.corpus import corpus_tasks


def sample_supervision() -> set[str]:
    """Return the tasks of the sample corpus that policies made from it have learned from, whatever the present catalog
    has."""
    tasks = (task.identity for task in corpus_tasks())
    return {task for task in tasks if assign_split(group_key("sandbox", "", task)) != "test"}


def catalog_supervision(catalog: Catalog) -> set[str]:
    """Return the tasks of a catalog's train and validation split, also as Eval40 calls them."""
    query = select(Trajectory.task, Trajectory.external_id).where(Trajectory.split != "test", Trajectory.is_current())
    with catalog.reading() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    names = {name for row in rows for name in row if name}
    return names | {found for name in names if (found := evaluation_task(name)) is not None}


def refuse_supervised(manifest: Manifest, supervised: Iterable[str]) -> None:
    """Raises TasksSupervised."""
    found = sorted({task.id for task in manifest.tasks}.intersection(supervised))
    if found:
        raise TasksSupervised(
            f"{len(found)} of its tasks were learned from: {', '.join(found[:3])}",
            where=manifest.name,
            hint="leave them out, or evaluate with a catalog and a policy that never saw them",
        )
