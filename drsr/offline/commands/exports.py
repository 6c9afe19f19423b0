"""`drsr export` and `drsr import`: what stages made, as immutable files, and what was measured into another catalog."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.command_line import Commands, add_command
from drsr.offline.stages import NAMES

if TYPE_CHECKING:
    from drsr.offline.stage_exports import StageExport
    from drsr.offline.store.exports import Imported

LABELS, FEATURES = "labels", "features"
MEASURED = ("label", "featurize")
"""Stages exported by default: those whose results take long to make."""


def add_commands(commands: Commands) -> None:
    export = add_command(
        commands,
        "export",
        run_export,
        help="write what stages made to a folder of immutable files",
        description="Adds to FOLDER/<stage> what is missing there: runs, states, labels and features as Parquet files "
        "named by their own bytes; scorer, operating point, evaluation and released policy as they are now. dvc.yaml "
        "names the same folders. Example: drsr export exports/ --stage label featurize",
    )
    export.add_argument(
        "--stage",
        nargs="+",
        choices=NAMES,
        metavar="NAME",
        default=MEASURED,
        help=f"stages to export, of {', '.join(NAMES)} (default: {' '.join(MEASURED)})",
    )
    export.add_argument(
        "--replace",
        action="store_true",
        help="remove files that were made under another rule, layout or language model, instead of refusing",
    )
    taking = add_command(
        commands,
        "import",
        run_import,
        help="take labels and features over from an export",
        description="Works only if language model, renderer, rule and feature layout are the same. Existing entries "
        "stay. An export that also holds runs and states needs no runs here: they are then known by their hashes, and "
        "what needs a text waits until they are ingested. Example: drsr import corpora/measured",
    )
    for parser in (export, taking):
        parser.add_argument("folder", metavar="FOLDER", type=Path)
        parser.add_argument("--labeler", default="default", metavar="NAME", help="whose labels (default: default)")
        parser.add_argument("--view", default="default", metavar="NAME", help="which features (default: default)")


def run_export(options: argparse.Namespace) -> int:
    from drsr.offline.params import load_params
    from drsr.offline.stage_exports import Exporter
    from drsr.offline.store.place import opened

    with opened() as (_, catalog, artifacts):
        exporter = Exporter(
            catalog, artifacts, load_params(), options.folder, options.labeler, options.view, options.replace
        )
        done = [exporter.export(stage) for stage in options.stage]
    if options.json:
        print(json.dumps({found.stage: _json(found) for found in done}))
        return 0
    for found in done:
        what = f"{found.folder}: "
        if found.added is None:
            print(f"{what}as it is now")
        else:
            new = f"{found.added.states:,} in {found.added.part}" if found.added.part else "nothing new"
            print(f"{what}{new}; {found.added.there:,} were exported before")
    return 0


def _json(found: StageExport) -> dict[str, Any]:
    added = None if found.added is None else found.added._asdict()
    return {"folder": str(found.folder), "added": added, "summary": found.summary}


def run_import(options: argparse.Namespace) -> int:
    from drsr.offline.ingest.absent_texts import absent_texts
    from drsr.offline.ingest.corpus.table import licences_of_sources
    from drsr.offline.label.exports import import_measured
    from drsr.offline.store.place import opened

    with opened(create=True) as (settings, catalog, artifacts):
        found = import_measured(catalog, artifacts, settings, options.folder, options.labeler, options.view)
        with catalog.reading() as connection:
            absent = absent_texts(connection)
    done: dict[str, Imported] = {LABELS: found.labels, FEATURES: found.features}
    done |= {f"{FEATURES} of the view {name}": imported for name, imported in found.further.items()}
    if options.json:
        runs = {} if found.runs is None else {"runs": found.runs._asdict()}
        shown = {name: imported._asdict() for name, imported in done.items()}
        print(json.dumps(runs | shown | {"without_text": absent.runs}))
        return 0
    if found.runs is not None:
        taken, there, other, states = found.runs
        changed = f", {other:,} have other content here" if other else ""
        print(f"runs: {taken:,} taken over with {states:,} states, {there:,} were there{changed}")
    for name, imported in done.items():
        print(f"{name}: {imported.taken:,} states taken over, {imported.there:,} were there{_unknown(imported)}")
    if absent:
        licences = licences_of_sources()
        named = sorted({licences.get(source, "not known") for source in absent.sources})
        print(f"{absent.said}, which training to publishing do not need (licences: {', '.join(named)})")
        print(f"  the texts: {absent.hint}")
    return 0


def _unknown(found: Any) -> str:
    return f", {found.unknown:,} are not frozen here (drsr freeze)" if found.unknown else ""
