"""Labels and features from an export into this catalog, if the present settings would have measured the same."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from drsr.offline.catalog.engine import Catalog
from drsr.offline.featurize.exports import FURTHER, import_features
from drsr.offline.featurize.views import DEFAULT_VIEW
from drsr.offline.label.configured import configured
from drsr.offline.label.exports import import_labels
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import Imported, place_of
from drsr.settings import Settings


class ImportedMeasurements(NamedTuple):
    labels: Imported
    features: Imported
    further: dict[str, Imported]
    """By name the views that travelled with the features."""


def import_measured(
    catalog: Catalog,
    artifacts: ArtifactStore,
    settings: Settings,
    root: Path,
    labeler: str = "default",
    view: str = DEFAULT_VIEW,
) -> ImportedMeasurements:
    """Take over what lies below `root`, a folder of exports. InputError: it was measured otherwise."""
    here, folder = configured(settings), place_of(root, "featurize")

    def features(folder: Path, view: str) -> Imported:
        return import_features(catalog, artifacts, folder, here.view(view), here.columns(view), view)

    return ImportedMeasurements(
        import_labels(catalog, place_of(root, "label"), here.labeler, labeler),
        features(folder, view),
        {name: features(folder / name, name) for name in FURTHER if (folder / name).is_dir() and name != view},
    )
