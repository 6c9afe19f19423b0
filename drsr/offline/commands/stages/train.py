"""`drsr train`: fit the set-risk scorer on the training labels, and whatever is taken away from it for comparison."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command, require_positive

if TYPE_CHECKING:
    from drsr.offline.params import Params
    from drsr.offline.train.ablations import Ablation
    from drsr.offline.train.evaluations import Evaluation
    from drsr.offline.train.records import TrainingRecord
    from drsr.offline.train.stage import Progress, Trained, TrainingInputs

ALL = "all"
DEFAULT_FOLDS = 5
"""Of --cross-fitted, where params.yaml names no number."""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "train",
        run,
        help="fit the set-risk scorer on the training labels",
        description="Fits an ensemble on the split `train`; `validation` chooses each member's epoch. The same labels, "
        "features and parameters are not trained twice; a killed run goes on where it stopped. Example: drsr train "
        "--ablation full no-pair-pooling",
    )
    parser.add_argument(
        "--ablation",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="configurations to train (default: full; `all` for every one; a wrong name lists them)",
    )
    parser.add_argument(
        "--learning-curve",
        nargs="+",
        type=int,
        metavar="TASKS",
        help="instead of training: show, by folds, how well scorers do that are fitted on these numbers of tasks",
    )
    parser.add_argument(
        "--choose-kind",
        nargs="*",
        metavar="KIND[:GROUP+GROUP]",
        help="instead of training: compare kinds of scorer, on these groups of columns, by nested folds of tasks: "
        "network, network-regularised, linear, trees, stack (default: all)",
    )
    add_frame_options(parser)
    add_scorer_options(parser)
    add_source_option(parser)
    add_training_options(parser)


def add_source_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that keeps to one source, such as one tenant's."""
    parser.add_argument("--source", metavar="NAME", help="only states of this source (default: train.source, or all)")


def add_scorer_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose another scorer than `params.yaml` does."""
    parser.add_argument("--scorer", metavar="KIND", help="network, linear, trees or stack (default: train.scorer)")
    parser.add_argument(
        "--cross-fitted",
        action="store_true",
        help="fit on train and validation, and score every state by members that never saw its task (as train.folds)",
    )


def chosen_scorer(params: Params, options: argparse.Namespace, source: str | None = None) -> Params:
    """Return the parameters with the scorer that the options name, and the source that it is for."""
    train = params.train if source is None else replace(params.train, source=source)
    if options.scorer is not None:
        train = replace(train, scorer=options.scorer)
    if options.cross_fitted and not train.folds:
        train = replace(train, folds=DEFAULT_FOLDS)
    return replace(params, train=train)


def add_frame_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the examples."""
    parser.add_argument("--view", default="default", metavar="NAME", help="feature view (default: default)")
    parser.add_argument("--labeler", default="default", metavar="NAME", help="whose labels (default: default)")


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to compute. None of them changes a bit of the result."""
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads (default: 2)")


def run(options: argparse.Namespace) -> int:
    from drsr.offline.params import load_params
    from drsr.offline.store.place import opened
    from drsr.offline.train.ablations import ABLATIONS, find_ablation
    from drsr.offline.train.stage import read_inputs, train
    from drsr.settings import cache_folder

    require_positive(options, "workers")
    names = options.ablation or ["full"]
    ablations = [*ABLATIONS.values()] if ALL in names else [find_ablation(name) for name in names]
    params = chosen_scorer(load_params(), options, options.source)
    with opened() as (_, catalog, artifacts):
        inputs = read_inputs(catalog, artifacts, options.view, options.labeler, "train", params.train.source)
        if options.learning_curve is not None:
            return _learning_curve(inputs, params, options)
        if options.choose_kind is not None:
            return _choose_kind(inputs, params, options)
        with training_progress(params.train.max_epochs) as progress:
            results = train(
                catalog,
                artifacts,
                inputs,
                params.train,
                ablations,
                checkpoints=cache_folder() / "training",
                workers=options.workers,
                progress=progress,
            )
    if options.json:
        print(json.dumps([{**result.record.to_json(), "is_new": result.is_new} for result in results]))
    else:
        print(_text(results, ablations))
    return 0


def _learning_curve(inputs: TrainingInputs, params: Params, options: argparse.Namespace) -> int:
    from drsr.errors import SettingsError
    from drsr.offline.evaluate.learning_curve import learning_curve
    from drsr.offline.train.examples import joined
    from drsr.tables import table

    if min(options.learning_curve) < 2:
        raise SettingsError(f"--learning-curve needs at least 2 tasks, not {min(options.learning_curve)}")
    everything = joined(inputs.train, inputs.validation)
    points = learning_curve(everything, params.train, params.calibrate, inputs.column_groups, options.learning_curve)
    if options.json:
        print(json.dumps([point.to_json() for point in points]))
        return 0
    rows = [
        (
            point.tasks,
            *(f"{value:.3f}" for value in (point.unsafe_auroc, point.state_pairs, point.equal_pairs)),
            f"{point.mean_removal:.1%}",
            f"{point.pruned:.0%}",
            "-" if point.unsafe_rate is None else f"{point.unsafe_rate:.3f}",
        )
        for point in points
    ]
    headers = ("tasks", "unsafe AUROC", "pairs in a state", "of equal size", "removal", "pruned", "unsafe rate")
    print(f"{params.train.scorer} on {len(everything.state_ids):,} states of {len(set(everything.group_ids)):,} tasks")
    print(table(headers, rows))
    return 0


def _choose_kind(inputs: TrainingInputs, params: Params, options: argparse.Namespace) -> int:
    from drsr.offline.evaluate.nested_folds import KINDS, compare_kinds, parse_kind
    from drsr.offline.store.progress import progress
    from drsr.offline.train.examples import joined
    from drsr.tables import table

    kinds = [parse_kind(text, params.train) for text in options.choose_kind or KINDS]
    everything = joined(inputs.train, inputs.validation)
    with progress("choose a kind", "fits") as report:
        found = compare_kinds(
            everything, kinds, params.calibrate, inputs.column_groups, workers=options.workers, progress=report
        )
    if options.json:
        best = None if found.best is None else found.best.name
        print(json.dumps({"kinds": [row.to_json() for row in found.outcomes], "best": best, "said": found.said}))
        return 0
    rows = [
        (
            row.name,
            *("-" if value is None else f"{value:.3f}" for value in row[1:4]),
            f"{row.mean_removal:.1%}",
            f"{min(row.fold_removals):.1%} to {max(row.fold_removals):.1%}",
            f"{row.pruned:.0%}",
            "-" if row.unsafe_rate is None else f"{row.unsafe_rate:.3f}",
        )
        for row in found.outcomes
    ]
    headers = (
        "kind",
        "unsafe AUROC",
        "pairs in a state",
        "of equal size",
        "removal",
        "by fold",
        "pruned",
        "unsafe rate",
    )
    print(
        f"{len(everything.state_ids):,} states of {len(set(everything.group_ids)):,} tasks, thresholds from other folds"
    )
    print(f"{table(headers, rows)}\n{found.said}")
    return 0


@contextmanager
def training_progress(epochs: int) -> Iterator[Progress]:
    """Shows the epoch and how the members do on validation."""
    from drsr.offline.store.progress import progress

    with progress("train", "epochs") as report:

        def show(ablation: Ablation, evaluations: list[Evaluation]) -> None:
            report(evaluations[0].epoch, epochs, f"{ablation.name}: {_note(evaluations)}")

        yield show


def _note(evaluations: list[Evaluation]) -> str:
    loss = sum(row.loss for row in evaluations) / len(evaluations)
    area, pairs, brier = (
        sum(column) / len(evaluations) for column in zip(*(row.quality for row in evaluations), strict=True)
    )
    stopped = sum(row.stopped for row in evaluations)
    return (
        f"loss {loss:.4f}, validation AUROC {area:.3f}, pairs {pairs:.3f}, Brier {-brier:.3f}, "
        f"{stopped} of {len(evaluations)} members stopped"
    )


def _text(results: list[Trained], ablations: list[Ablation]) -> str:
    from drsr.offline.train.ablations import trained_as

    lines: list[str] = []
    for record, is_new in results:
        how = f"trained in {record.seconds:.0f} s" if is_new else "nothing to train: already trained from these inputs"
        lines.append(f"{record.ablation}: {how}")
    for ablation in ablations:
        other = trained_as(ablation)
        if other is not ablation:
            lines.append(f"{ablation.name}: trained as {other.name}, differs in selection only")
    first = results[0].record
    of_train = f"{first.train_sets:,} sets of {first.train_trajectories:,} trajectories"
    of_validation = f"{first.validation_sets:,} sets of {first.validation_trajectories:,} others"
    if first.source is not None:
        lines.append(f"only of the source {first.source}")
    kind, folds = first.params.get("scorer", "network"), first.params.get("folds", 0)
    if folds:
        lines += [f"{kind}, fitted on {of_train} and {of_validation}; judged in {folds} folds by task", ""]
    else:
        how = "epochs chosen" if kind == "network" else "judged"
        lines += [f"{kind}, fitted on {of_train}; {how} by {of_validation}", ""]
    if len(results) == 1:
        lines.append(_members(first))
    return "\n".join([*lines, _ensembles([result.record for result in results])])


def _members(record: TrainingRecord) -> str:
    from drsr.tables import table

    rows = [
        (row["seed"], row["epoch"], row["loss"], row["unsafe_auroc"], row["pair_accuracy"], -row["negative_brier"])
        for row in record.metrics["members"]
    ]
    headers = ("seed", "epoch", "training loss", "unsafe AUROC", "pair accuracy", "Brier")
    return table(headers, rows) + "\n"


def _ensembles(records: list[TrainingRecord]) -> str:
    from drsr.offline.evaluate.cells import cells
    from drsr.offline.train.metrics import Metric, Metrics
    from drsr.tables import table

    rows = []
    for record in records:
        metrics = Metrics(*(Metric.from_json(value) for value in record.metrics["ensemble"]))
        shown = (metrics.state_pairs, metrics.spearman, metrics.unsafe_auroc, metrics.brier)
        rows.append((record.ablation, *cells(shown), record.weights[:12]))
    where = "by folds" if records[0].fold_scores is not None else "on validation"
    headers = (where, "pairs in a state", "Spearman", "unsafe AUROC", "Brier", "weights")
    return table(headers, rows)
