"""`drsr calibrate`: choose the operating point of the trained scorer on validation, and freeze it."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command
from drsr.offline.commands.stages.train import (
    add_frame_options,
    add_scorer_options,
    add_source_option,
    chosen_scorer,
)

if TYPE_CHECKING:
    from drsr.offline.calibrate.operating_curve import Sensitivity
    from drsr.offline.calibrate.search import SearchTable
    from drsr.offline.params import CalibrateParams
    from drsr.offline.train.records import CalibrationRecord


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "calibrate",
        run,
        help="choose the operating point of the trained scorer on validation",
        description="Tries every K, beta and observed validation score as threshold and takes the policy that removes "
        "most within the limits on unsafe rate and mean harm. If none stays within them, the policy always abstains. "
        "Example: drsr calibrate --plots plots",
    )
    parser.add_argument(
        "--certified",
        action="store_true",
        help="only policies whose unsafe rate on new trajectories is bounded with confidence",
    )
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write operating curve and beta sensitivity there")
    add_frame_options(parser)
    add_scorer_options(parser)
    add_source_option(parser)


def run(options: argparse.Namespace) -> int:
    from drsr.offline.calibrate.files import write_files
    from drsr.offline.calibrate.operating_curve import uncertainty_sensitivity
    from drsr.offline.calibrate.stage import calibrate, operating_point, plain_search
    from drsr.offline.params import load_params
    from drsr.offline.store.place import opened
    from drsr.offline.train.stage import read_inputs, train
    from drsr.settings import cache_folder

    params = chosen_scorer(load_params(), options, options.source)
    source = params.train.source
    with opened() as (_, catalog, artifacts):
        if options.cross_fitted:  # whose members are fitted here, unless they were before
            fitted_on = read_inputs(catalog, artifacts, options.view, options.labeler, "train", source)
            train(catalog, artifacts, fitted_on, params.train, checkpoints=cache_folder() / "training")
        inputs = read_inputs(catalog, artifacts, options.view, options.labeler, "calibrate", source)
        calibrated = calibrate(catalog, artifacts, inputs, params, certified=options.certified)
        searched = plain_search(artifacts, inputs, calibrated, params.calibrate)
    record = calibrated.record
    files: list[Path] = []
    if options.plots is not None:
        files = write_files(options.plots, searched, operating_point(record), params.calibrate)
    sensitivity = uncertainty_sensitivity(searched, params.calibrate)
    if options.json:
        shown = record.to_json() | {
            "is_new": calibrated.is_new,
            "scorer": calibrated.run.weights,
            "beta_sensitivity": [
                row._asdict() | {"best": None if row.best is None else row.best._asdict()} for row in sensitivity
            ],
            "files": [str(path) for path in files],
        }
        print(json.dumps(shown))
    else:
        where = "on validation" if calibrated.run.fold_scores is None else "on train and validation, by folds"
        print(_text(record, sensitivity, searched, params.calibrate, where=where, is_new=calibrated.is_new))
        if options.certified:
            origin = "fixed beforehand" if calibrated.run.fold_scores is not None else "from the training split"
            print("\n" + _tried(artifacts.get(record.search_table), origin))
        for path in files:
            print(f"wrote {path}")
    if record.abstains_always:
        print(f"drsr: warning: {record.explanation}", file=sys.stderr)
    return 0


def _text(
    record: CalibrationRecord,
    sensitivity: list[Sensitivity],
    searched: SearchTable,
    params: CalibrateParams,
    *,
    where: str,
    is_new: bool,
) -> str:
    from drsr.tables import table

    lines = [] if is_new else ["nothing to calibrate: already calibrated from these inputs"]
    lines += [record.explanation, "", table((where, "value", "limit"), _numbers(record, params)), ""]
    if record.incomplete_states:
        lines.append(
            f"{record.incomplete_states:,} of {record.states:,} states lack the label of some deletion set; online the "
            "policy may meet sets of their kind"
        )
    lines += [
        f"the best of each K and beta alone, of {len(searched):,} policies:",
        table(("K", "beta", "tau", "pruned", "unsafe rate", "mean harm", "mean removal"), _best_rows(sensitivity)),
    ]
    return "\n".join(lines)


def _numbers(record: CalibrationRecord, params: CalibrateParams) -> list[tuple[str, str, str]]:
    rate = "-" if record.unsafe_rate is None else f"{record.unsafe_rate:.4f}"
    harm = "-" if record.mean_harm is None else f"{record.mean_harm:+.4f}"
    rows = [
        ("key of this calibration", record.calibration_key[:12], ""),
        ("states pruned", f"{record.selected:,} of {record.states:,}", ""),
        ("unsafe rate of the selected sets", rate, f"{params.max_unsafe_rate:g}"),
        ("their mean harm, nats per token", harm, f"{params.max_mean_harm:g}"),
        ("mean removal over all states", f"{record.mean_removal:.2%}", f"{params.removal_cap:.0%} of one request"),
    ]
    if record.mode == "certified":
        bound = "-" if record.unsafe_bound is None else f"{record.unsafe_bound:.4f}"
        what = f"unsafe rate on new trajectories, below with {record.confidence:.0%} confidence"
        rows.append((what, bound, f"{params.certified.max_unsafe_rate:g}"))
    return rows


def _tried(search_table: bytes, origin: str) -> str:
    """The thresholds that were to be certified, and the outcome for each."""
    from drsr.tables import table

    rows = [
        (
            int(row["max_cardinality"]),
            row["uncertainty_coefficient"],
            f"{float(row['risk_threshold']):.6f}",
            f"{int(row['unsafe']):,} of {int(row['selected']):,}",
            f"{float(row['unsafe_bound']):.4f}",
            "yes" if row["certified"] == "1" else "no",
        )
        for row in csv.DictReader(io.StringIO(search_table.decode("utf-8")))
    ]
    headers = ("K", "beta", "tau", "unsafe", "bound", "certified")
    return f"thresholds {origin}, tested in rising order:\n" + table(headers, rows)


def _best_rows(sensitivity: list[Sensitivity]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for k, beta, best in sensitivity:
        if best is None:
            rows.append((k, f"{beta:g}", "none admissible", "", "", "", ""))
        else:
            tau = f"{best.risk_threshold:.6f}"
            numbers = (f"{best.unsafe_rate:.4f}", f"{best.mean_harm:+.4f}", f"{best.mean_removal:.2%}")
            rows.append((k, f"{beta:g}", tau, best.selected, *numbers))
    return rows
