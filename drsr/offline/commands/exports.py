"""`drsr export` and `drsr import`: what was measured, as immutable files, from one catalog into another."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drsr.offline.exports import Exported
    from drsr.offline.label_exports import Imported

LABELS, FEATURES = "labels", "features"
"""The folders of an export."""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = commands.add_parser(
        "export",
        help="write labels and features to a folder of immutable files",
        description="Adds what is not there yet: one Parquet file of labels and one of features, each named by its own "
        "bytes. Example: drsr export exports/",
    )
    taking = commands.add_parser(
        "import",
        help="take labels and features over from an export",
        description="For states that are frozen here too, and only if language model, renderer, rule and feature "
        "layout are the same. What is there already stays. Example: drsr import exports/",
    )
    for parser, run in ((export, run_export), (taking, run_import)):
        parser.add_argument("folder", metavar="FOLDER", type=Path)
        parser.add_argument("--labeler", default="default", metavar="NAME", help="whose labels (default: default)")
        parser.add_argument("--view", default="default", metavar="NAME", help="which features (default: default)")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(run=run)


def run_export(options: argparse.Namespace) -> int:
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.feature_exports import export_features
    from drsr.offline.label_exports import export_labels
    from drsr.settings import load_settings

    settings = load_settings()
    with open_catalog(settings.catalog_url) as catalog:
        artifacts = ArtifactStore(settings.artifact_root)
        done: dict[str, Exported] = {
            LABELS: export_labels(catalog, options.folder / LABELS, options.labeler),
            FEATURES: export_features(catalog, artifacts, options.folder / FEATURES, options.view),
        }
    if options.json:
        print(json.dumps({name: found._asdict() for name, found in done.items()}))
        return 0
    for name, found in done.items():
        new = f"{found.states:,} states in {found.part}" if found.part else "nothing new"
        print(f"{name}: {new}; {found.there:,} states were exported before")
    return 0


def run_import(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_config, load_tokenizer
    from drsr.features.geometry import geometry_from
    from drsr.features.vectors import layout_of
    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.feature_exports import import_features
    from drsr.offline.featurize import identity_without_weights
    from drsr.offline.label_exports import import_labels
    from drsr.offline.labels import configured_identity
    from drsr.settings import load_settings
    from drsr.view import caps_for

    settings = load_settings()
    tokenizer, window = load_tokenizer(settings.backbone)
    caps = caps_for(window)
    view = identity_without_weights(settings.backbone, settings.dtype, caps, tokenizer)
    columns = layout_of(geometry_from(load_config(settings.backbone), settings.backbone)).columns
    labeler = configured_identity(settings.backbone, settings.dtype, caps)
    with open_catalog(settings.catalog_url) as catalog:
        artifacts = ArtifactStore(settings.artifact_root)
        done: dict[str, Imported] = {
            LABELS: import_labels(catalog, options.folder / LABELS, labeler, options.labeler),
            FEATURES: import_features(catalog, artifacts, options.folder / FEATURES, view, columns, options.view),
        }
    if options.json:
        print(json.dumps({name: found._asdict() for name, found in done.items()}))
        return 0
    for name, found in done.items():
        print(f"{name}: {found.taken:,} states taken over, {found.there:,} were there{_unknown(found)}")
    return 0


def _unknown(found: Any) -> str:
    return f", {found.unknown:,} are not frozen here (drsr freeze)" if found.unknown else ""
