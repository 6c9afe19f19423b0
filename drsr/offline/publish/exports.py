"""Scorer, operating point, evaluation and released policy as exported files: what the present data gave, and nothing
else.

A folder holds one result and is replaced as a whole by the next; DVC remembers the earlier ones. Nothing in it depends
on when or where it was made, so the same result gives the same bytes. JSON that holds numbers is sorted and indented.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from drsr.errors import InputError, ScorerNotTrained
from drsr.files import write_if_changed
from drsr.offline.calibrate.stage import calibration_of
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.tables import Table
from drsr.offline.evaluate.stage import latest_evaluation
from drsr.offline.params import Params
from drsr.offline.publish.records import ReleaseRecord, latest_releases
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import Summary, to_bytes
from drsr.offline.train.metrics import Metric, Metrics
from drsr.offline.train.records import CalibrationRecord, TrainingRecord
from drsr.offline.train.stage import TrainingInputs, find_trained

SCORER, CALIBRATION, EVALUATION, RELEASE = "scorer.json", "calibration.json", "evaluation.json", "release.json"
WEIGHTS, HISTORY, SEARCH = "scorer.safetensors", "history.csv", "search_table.csv"


def export_scorer(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, params: Params, folder: Path
) -> Summary:
    """Return the scorer of these inputs: weights, what they were made from, every evaluation of every member."""
    run = _trained(catalog, artifacts, inputs, params)
    write_folder(
        folder,
        {
            WEIGHTS: artifacts.get(run.weights),
            SCORER: to_bytes(_facts(TrainingRun, run)),
            HISTORY: _history(orjson.loads(artifacts.get(run.history))),
        },
    )
    shown = Metrics(*(Metric.from_json(value) for value in run.metrics["ensemble"]))
    return {
        "weights": run.weights,
        "train_sets": run.train_sets,
        "validation_sets": run.validation_sets,
        "validation": {name: metric.to_json()["value"] for name, metric in shown._asdict().items()},
    }


def export_calibration(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, params: Params, folder: Path
) -> Summary:
    """Export the operating point of that scorer (the later one, if there is a plain and a certified one), and every
    policy that was tried."""
    run = _trained(catalog, artifacts, inputs, params)
    both = (calibration_of(catalog, inputs, params, run, certified=certified) for certified in (False, True))
    found = [record for record in both if record is not None]
    if not found:
        raise ScorerNotTrained("the scorer of the present data is not calibrated yet", hint="drsr calibrate")
    record = max(found, key=lambda record: (record.calibrated_at, record.id))
    facts = _facts(CalibrationRun, record) | {"training_run": run.run_key}
    write_folder(folder, {CALIBRATION: to_bytes(facts), SEARCH: artifacts.get(record.search_table)})
    names = ("abstains_always", "max_cardinality", "uncertainty_coefficient", "risk_threshold", "states", "selected")
    numbers = ("unsafe_rate", "mean_harm", "mean_removal", "tried", "admissible")
    return {name: getattr(record, name) for name in (*names, *numbers)}


def export_evaluation(catalog: Catalog, artifacts: ArtifactStore, folder: Path) -> Summary:
    """Return the results of the latest evaluation."""
    found = latest_evaluation(catalog, artifacts)
    if found is None:
        raise InputError("nothing is evaluated yet", hint="drsr evaluate")
    write_folder(folder, {EVALUATION: found})
    study = orjson.loads(found)
    full = next(row for row in study["scorers"] if row["name"] == "full")
    policy = next((row for row in study["policies"] if row["name"] == "full"), None)
    return {
        **{name: study[name] for name in ("split", "states", "sets", "unsafe")},
        "scorer": {name: row["value"] for name, row in zip(Metrics._fields, full["metrics"], strict=True)},
        "policy": {} if policy is None else {row["name"]: row["value"] for row in policy["metrics"]},
    }


def export_release(catalog: Catalog, artifacts: ArtifactStore, folder: Path) -> Summary:
    """Export the released policy as its wheel; without one, a folder that says so."""
    with catalog.reading() as connection:
        released = latest_releases(connection, 1)
    if not released:
        write_folder(folder, {RELEASE: to_bytes({"version": None})})
        return {"version": None}
    record = released[0]
    files = {record.file_name: artifacts.get(record.wheel), RELEASE: to_bytes(_release(record))}
    write_folder(folder, files)
    return {name: getattr(record, name) for name in ("version", "wheel", "size", "abstains_always", "golden_requests")}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make these the folder's files. Files that exist are not written again; others are removed last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_if_changed(folder / name, data)
    for path in sorted(folder.iterdir()):
        if path.name not in files and path.is_file():
            path.unlink()


def _trained(catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, params: Params) -> TrainingRecord:
    run = find_trained(catalog, artifacts, inputs, params.train)
    if run is None:
        raise ScorerNotTrained("no scorer was trained on the present labels and features", hint="drsr train")
    return run


def _facts(table: type[Table], record: TrainingRecord | CalibrationRecord) -> dict[str, Any]:
    """Return a row without its number, the numbers of other rows, and when and where it was made."""
    columns = table.__table__.columns
    return {
        name: value
        for name, value in record._asdict().items()
        if name != "id" and not columns[name].foreign_keys and not columns[name].info.get("physical")
    }


def _release(record: ReleaseRecord) -> dict[str, Any]:
    names = ("version", "identity", "file_name", "wheel", "size", "lineage", "abstains_always", "requires")
    return {name: getattr(record, name) for name in (*names, "golden_requests")}


def _history(rows: list[dict[str, Any]]) -> bytes:
    """Return every evaluation of every member, for plots."""
    stream = io.StringIO()
    names = ("seed", "epoch", "loss", "unsafe_auroc", "pair_accuracy", "negative_brier")
    writer = csv.DictWriter(stream, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()
