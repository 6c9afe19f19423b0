"""`drsr evaluate`: the scorer, and what each part of it is worth, on examples that nothing was fitted on."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command, require_positive
from drsr.offline.bench.commands import replay, tasks
from drsr.offline.commands.stages.train import (
    add_frame_options,
    add_scorer_options,
    add_training_options,
    chosen_scorer,
    training_progress,
)

if TYPE_CHECKING:
    from drsr.offline.evaluate.ablation_study import PolicyRow, ScorerRow, Study


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "evaluate",
        run,
        help="judge scorer, ablations and singleton rules on the test split",
        description="Judges the scorer and its policy beside singleton rules on the test split, with intervals that "
        "resample whole tasks. --ablations adds every ablation and control, and trains those that are missing. "
        "--replay has every comparator rewrite the recorded decisions instead; with --ablations, DRSR's ablations join "
        "in. Example: drsr evaluate --replay --ablations --policy WHEEL",
    )
    parser.add_argument("--ablations", action="store_true", help="add every ablation and control")
    parser.add_argument(
        "--split", choices=("test", "validation"), default="test", help="what to judge on (default: test)"
    )
    parser.add_argument(
        "--replicates", type=int, default=2_000, metavar="N", help="bootstrap replicates (default: 2000)"
    )
    replay.add_options(parser)
    tasks.add_options(parser)
    add_frame_options(parser)
    add_scorer_options(parser)
    add_training_options(parser)


def run(options: argparse.Namespace) -> int:
    from drsr.errors import SettingsError
    from drsr.offline.evaluate.stage import evaluate_ablations
    from drsr.offline.params import load_params
    from drsr.offline.store.place import opened
    from drsr.offline.train.ablations import FULL
    from drsr.offline.train.metrics import Bootstrap
    from drsr.settings import cache_folder

    require_positive(options, "replicates", "workers")
    if options.tasks is not None:
        return tasks.run(options)
    if options.replay:
        return replay.run(options)
    params = chosen_scorer(load_params(), options, options.source)
    if params.train.folds and options.split == "validation":
        raise SettingsError("a cross-fitted scorer has seen validation", hint="leave out --split validation")
    with opened() as place, training_progress(params.train.max_epochs) as progress:
        evaluated = evaluate_ablations(
            place.catalog,
            place.artifacts,
            params,
            view=options.view,
            labeler=options.labeler,
            split=options.split,
            checkpoints=cache_folder() / "training",
            bootstrap=Bootstrap(replicates=options.replicates),
            workers=options.workers,
            configurations=None if options.ablations else (FULL,),
            progress=progress,
        )
    print(json.dumps(evaluated.to_json()) if options.json else _text(evaluated.study, params.train.meaningful_gap))
    return 0


def _text(study: Study, meaningful_gap: float) -> str:
    from drsr.offline.bench.report.study_tables import FEW_TRAJECTORIES
    from drsr.offline.evaluate.cells import cells
    from drsr.tables import table

    few = "; of so few trajectories they say little" if study.trajectories < FEW_TRAJECTORIES else ""
    parts = [
        f"{study.split}: {study.sets:,} sets of {study.states:,} states of {study.trajectories:,} trajectories, "
        f"{study.unsafe / study.sets:.1%} unsafe\n"
        f"95 % intervals in brackets resample whole tasks{few}; equal predictions of a pair count one half",
        f"ordering harms: pair accuracy where harms differ by {meaningful_gap:g} or more, at equal cardinality\n"
        + table(
            ("scorer", "in a state, pooled", "in a state, by trajectory", "in a trajectory, pooled", "by trajectory"),
            [(row.name, *cells(row.metrics[:4])) for row in study.scorers],
        ),
        "telling unsafe sets, and rank correlation in a state\n"
        + table(
            ("scorer", "unsafe AUROC", "Brier", "Spearman", "gain in pairs", "gain in AUROC"),
            [_scores(row) for row in study.scorers],
        ),
        "singleton rules on sets of two or more (AUROC of a rule: its guess as score)\n"
        + table(
            ("rule", "singleton harms", "pairs in a state", "at equal cardinality", "unsafe AUROC"),
            [(row.rule, row.singletons, *cells(row.metrics)) for row in study.singletons],
        ),
    ]
    if study.matching:
        parts.append(
            "the scorer with another decision's relations, Block and state both exchanged\n"
            + table(
                ("state", "pairs in a state", "unsafe AUROC", "gain in pairs", "gain in AUROC"),
                [
                    (row.what, *cells([row.metrics.state_pairs, row.metrics.unsafe_auroc]), *_gains(row))
                    for row in study.matching
                ],
            )
        )
    parts.append(
        f"policies, each calibrated on validation, on {study.split}\n"
        + table(
            ("scorer", "K", "beta", "tau", "unsafe rate", "mean harm", "states pruned", "mean removal"),
            [_policy(row) for row in study.policies],
        )
    )
    if study.missing:
        parts.append("\n".join(f"left out: {name}: {why}" for name, why in study.missing))
    return "\n\n".join(parts)


def _scores(row: ScorerRow) -> list[str]:
    from drsr.offline.evaluate.cells import cells

    metrics = row.metrics
    return [row.name, *cells([metrics.unsafe_auroc, metrics.brier, metrics.spearman]), *_gains(row)]


def _gains(row: ScorerRow) -> list[str]:
    from drsr.offline.evaluate.cells import cells

    return ["", ""] if row.gains is None else cells(row.gains, signed=True)


def _policy(row: PolicyRow) -> list[object]:
    from drsr.offline.evaluate.cells import cells

    tau = f"{row.rule.risk_threshold:.4f}"
    if math.isinf(row.rule.risk_threshold):
        tau = "abstains always" if row.abstains_always else "no gate"
    return [row.name, row.rule.max_cardinality, f"{row.uncertainty_coefficient:g}", tau, *cells(row.metrics)]
