"""`drsr report`: every table and figure on one static page, with the tables as CSV and Markdown next to it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from drsr.command_line import Commands, add_command
from drsr.offline.commands.stages.train import add_frame_options, add_training_options, training_progress

if TYPE_CHECKING:
    from drsr.offline.bench.analyses.granularity import StepHarm
    from drsr.offline.bench.report.report import Measured
    from drsr.offline.store.place import Place

RESULTS_FOLDER = Path("var") / "evaluation"


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "report",
        run,
        help="write one page with every table and figure",
        description="Judges the scorer, makes the paper's analyses, and takes in what `drsr evaluate --replay` "
        "and `--tasks` measured. Example: drsr report --ablations --steps 4 --output var/report",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("var") / "report", metavar="FOLDER", help="default: var/report"
    )
    parser.add_argument("--split", choices=("test", "validation"), default="test", help="what to judge on (test)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="default: var/evaluation/replay-SPLIT.jsonl")
    parser.add_argument("--ablations", action="store_true", help="add every ablation and control")
    parser.add_argument("--tasks", type=Path, metavar="FILE", help="default: var/evaluation/tasks-sandbox.jsonl")
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="measure whole Steps of about N states too")
    parser.add_argument(
        "--replicates", type=int, default=2_000, metavar="N", help="bootstrap replicates (default: 2000)"
    )
    add_frame_options(parser)
    add_training_options(parser)


def run(options: argparse.Namespace) -> int:
    from drsr.errors import SettingsError
    from drsr.offline.bench.report.inputs import Asked
    from drsr.offline.bench.report.output_folder import make_folder
    from drsr.offline.bench.report.page import write_report
    from drsr.offline.bench.report.report import build_report
    from drsr.offline.params import load_params
    from drsr.offline.store.place import opened
    from drsr.settings import cache_folder

    for name, least in (("replicates", 1), ("workers", 1), ("steps", 0)):
        if getattr(options, name) < least:
            raise SettingsError(f"--{name} must be at least {least}, not {getattr(options, name)}")
    params = load_params()
    make_folder(options.output)  # rather now than when everything is measured
    files = _files(options)
    asked = Asked(
        options.view,
        options.labeler,
        options.split,
        ablations=options.ablations,
        checkpoints=cache_folder() / "training",
        replicates=options.replicates,
        workers=options.workers,
        called=_called(options, files),
        replay=files.replay,
        tasks=files.tasks,
    )
    with opened() as place:
        measured = _measured(options, files, place)
        with training_progress(params.train.max_epochs) as progress:
            report = build_report(place.catalog, place.artifacts, params, asked, measured, progress)
    page = write_report(options.output, report)
    if options.json:
        tables = [found.name for found in report.analyses]
        print(json.dumps({"page": str(page), "tables": tables, "left_out": dict(report.left_out)}))
        return 0
    print(f"{len(report.analyses)} tables: {page}")
    for name, why in report.left_out.items():
        print(f"  left out: {name}: {why}")
    return 0


class _Files(NamedTuple):
    """The files to read results from; None for each that is missing."""

    replay: Path | None
    tasks: Path | None


def _files(options: argparse.Namespace) -> _Files:
    """Return the named files, else those in their usual places."""
    usual = (RESULTS_FOLDER / f"replay-{options.split}.jsonl", RESULTS_FOLDER / "tasks-sandbox.jsonl")
    replay, tasks = (path if path.exists() else None for path in usual)
    return _Files(options.replay or replay, options.tasks or tasks)


def _called(options: argparse.Namespace, files: _Files) -> tuple[str, ...]:
    """Return what would make this report again."""
    said = {
        "split": options.split,
        "replicates": options.replicates,
        "steps": options.steps or None,
        "replay": files.replay,
        "tasks": files.tasks,
        "view": None if options.view == "default" else options.view,
        "labeler": None if options.labeler == "default" else options.labeler,
        "output": options.output,
    }
    words = [word for name, value in said.items() if value is not None for word in (f"--{name}", str(value))]
    return (*words, *(["--ablations"] if options.ablations else []))


def _measured(options: argparse.Namespace, files: _Files, place: Place) -> Measured:
    from drsr.offline.bench.harness.results_file import read_results
    from drsr.offline.bench.replay.file import read_replay
    from drsr.offline.bench.report.inputs import refuse_other_replay
    from drsr.offline.bench.report.report import Measured

    replay = None if files.replay is None else read_replay(files.replay)
    if replay is not None:
        refuse_other_replay(place.catalog, replay.about, options.split, options.labeler, where=str(files.replay))
    tasks = None if files.tasks is None else read_results(files.tasks)
    return Measured(_steps(options, place) if options.steps else None, replay, tasks)


def _steps(options: argparse.Namespace, place: Place) -> list[StepHarm]:
    from drsr.offline.bench.replay.measured_steps import measured_steps
    from drsr.offline.bench.replay.recorded_runs import measuring, open_runs
    from drsr.offline.store.progress import progress

    settings, catalog, artifacts = place
    tools = measuring(settings)
    rows = open_runs(catalog, tools, options.split, labeler=options.labeler, view=options.view)
    with progress("steps", "states") as report:
        return measured_steps(catalog, artifacts, tools, rows, options.split, options.steps, RESULTS_FOLDER, report)
