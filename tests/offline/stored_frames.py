"""A catalog with made-up examples of all three splits, for the tests of training, calibrating and evaluating."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drsr.features.layout import Column, ColumnGroup, Unit
from drsr.offline.catalog.engine import Catalog
from drsr.offline.featurize.views import register_view
from drsr.offline.ingest.splits import Split
from drsr.offline.params import Params
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline import frames
from tests.offline.stored_examples import Rows, identity, store_examples

GROUPS = ("attention", "structural", "structural", "hidden", "projection", "projection")
"""The rule of the made-up harms looks at column 0 alone."""
SIZES: dict[Split, int] = {"train": 16, "validation": 10, "test": 12}


def quick_params(**train: Any) -> Params:
    """The real parameters with few epochs and two members."""
    params, quick = frames.params(), {"max_epochs": 10, "seeds": (11, 29)}
    changes: dict[str, Any] = quick | train
    return replace(params, train=replace(params.train, **changes))


def fill(
    catalog: Catalog,
    artifacts: ArtifactStore,
    change: Callable[[Split, Rows], Rows] = lambda split, rows: rows,
    sizes: dict[Split, int] = SIZES,
    **options: Any,
) -> None:
    """Store examples of every split; `change` may spoil them first."""
    columns = [Column(f"feature_{number:04d}", ColumnGroup(group), Unit.COUNT) for number, group in enumerate(GROUPS)]
    with catalog.writing() as connection:
        register_view(connection, "default", identity(), columns)
    for split, trajectories in sizes.items():
        rows = change(split, Rows(*frames.rows(split, trajectories, **options)))
        store_examples(catalog, artifacts, split, rows)
