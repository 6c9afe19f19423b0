"""`drsr label` and `drsr featurize`: exact deletion harm, and features, of every state that has none yet."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.command_line import Commands, add_command, require_positive

if TYPE_CHECKING:
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.freeze.selection import Selection
    from drsr.offline.label.configured import Configured
    from drsr.offline.store.place import Place

_NOTHING = {
    "label": "nothing to label: every frozen state is measured",
    "featurize": "nothing to featurize: every frozen state has its features",
}


def add_commands(commands: Commands) -> None:
    label = add_command(
        commands,
        "label",
        run_label,
        help="measure exact deletion harm for every set of every frozen state",
        description="Deletes each set of candidates, re-scores the same recorded next output, and records the change "
        "in its mean NLL. Works on what is missing; can be killed, repeated, and run on many machines at once. "
        "Example: drsr label --workers 2 --where split=train --limit 100",
    )
    label.add_argument(
        "--labeler",
        default="default",
        metavar="NAME",
        help="name of the labeler, this way of measuring (default: default)",
    )
    label.add_argument(
        "--views",
        nargs="+",
        default=["default", "window"],
        metavar="NAME",
        help="feature views to fill in the same walk (default: default window); `semantic` keeps whole hidden states "
        "for analyses, about 20 KB per state",
    )
    label.add_argument(
        "--again",
        choices=["out_of_memory", "non_finite"],
        help="measure again what was excluded for this reason, for instance with more memory (DRSR_LABEL_MEMORY_MB)",
    )
    label.add_argument(
        "--accept-noise",
        action="store_true",
        help="label in half precision even if rounding is more than a quarter of the tolerance, or is not known",
    )
    label.add_argument("--remeasure", type=int, metavar="SAMPLE", help="compute SAMPLE states again, directly; compare")
    label.add_argument("--seed", type=int, metavar="N", help="draws the sample of --remeasure (default: a new one)")
    featurize = add_command(
        commands,
        "featurize",
        run_featurize,
        help="compute the features of every frozen state, one forward each",
        description="Reads each frozen state with the language model once and stores a feature row per candidate. "
        "Works on what is missing or stale (drsr label fills the same view where it can); can be killed, repeated, and "
        "run on many machines at once. Example: drsr featurize --workers 2 --where split=train --limit 100",
    )
    featurize.add_argument(
        "--view",
        default="default",
        metavar="NAME",
        help="name of the feature view (default: default); `window`, `wide` and `semantic` hold further columns, "
        "`light` needs no language model and takes milliseconds",
    )
    featurize.add_argument(
        "--statistics", action="store_true", help="compute nothing; show missing, constant, range and drift per column"
    )
    featurize.add_argument(
        "--feast",
        type=Path,
        metavar="FOLDER",
        help="compute nothing; write the view's features as a Feast repository: entities, a file source and a feature "
        "view over Parquet (docs/guides/make-a-policy.md)",
    )
    for parser in (label, featurize):
        add_part_options(parser)
        parser.add_argument("--limit", type=int, metavar="N", help="stop after about N states")
        parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes, one thread each")


def add_part_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a part of the states, for `Selection.parsed`."""
    parser.add_argument("--source", help="only trajectories of this source")
    parser.add_argument("--where", action="append", default=[], metavar="split=NAME", help="only this split")


def run_label(options: argparse.Namespace) -> int:
    from drsr.errors import SettingsError
    from drsr.offline.label.configured import configured
    from drsr.offline.label.records import forget_excluded
    from drsr.offline.store.place import opened

    require_positive(options, "limit", "workers", "remeasure")
    if options.seed is not None and options.remeasure is None:
        raise SettingsError("--seed draws the sample of --remeasure, which is not given")
    if options.again is not None and options.remeasure is not None:
        raise SettingsError("--again measures, --remeasure compares: one of them")
    with opened() as place:
        found, part = configured(place.settings), chosen_part(options, place.catalog)
        with place.catalog.reading() as connection:
            labeler_id = found.find_labeler(connection, options.labeler)
        if options.again is not None and labeler_id is not None:
            with place.catalog.writing() as connection:
                count = forget_excluded(connection, labeler_id, options.again, part)
            print(f"drsr: {count:,} states excluded as {options.again} are measured again", file=sys.stderr)
        if options.remeasure is not None:
            return _remeasure(options, place, found, labeler_id, part)
    return _work("label", options.labeler, options, found, part)


def run_featurize(options: argparse.Namespace) -> int:
    from drsr.errors import SettingsError
    from drsr.offline.featurize.column_statistics import column_statistics, statistics_text
    from drsr.offline.label.configured import configured
    from drsr.offline.store.place import opened

    require_positive(options, "limit", "workers")
    if options.feast is not None and (options.statistics or options.source or options.where or options.limit):
        raise SettingsError("--feast writes all of a view", hint="leave --statistics, --source, --where, --limit out")
    with opened() as place:
        if options.feast is not None:
            return _write_feast(place, options)
        if options.statistics:
            statistics = column_statistics(place.catalog, place.artifacts, options.view)
            print(json.dumps(statistics.to_json()) if options.json else statistics_text(statistics))
            return 0
        found, part = configured(place.settings), chosen_part(options, place.catalog)
    return _work("featurize", options.view, options, found, part)


def _write_feast(place: Place, options: argparse.Namespace) -> int:
    from drsr.offline.featurize.feast_repository import write_feast

    written = write_feast(place.catalog, place.artifacts, options.feast, options.view)
    if options.json:
        print(json.dumps(written._asdict()))
    else:
        print(
            f"{written.states:,} states of view {written.view}: {written.rows:,} rows of {written.columns:,} features\n"
            f"  cd {options.feast} && feast apply"
        )
    return 0


def chosen_part(options: argparse.Namespace, catalog: Catalog) -> Selection:
    """Return the part that was asked for; InputError if no source has that name."""
    from drsr.offline.freeze.records import require_source
    from drsr.offline.freeze.selection import Selection

    with catalog.reading() as connection:
        require_source(connection, options.source)
    return Selection.parsed(options.source, options.where)


def _work(stage: str, name: str, options: argparse.Namespace, found: Configured, part: Selection) -> int:
    """Do the waiting work in the requested number of processes, and return the outcome."""
    from drsr.features.view_layouts import Kind, kind_of
    from drsr.offline.freeze.selection import count_to_freeze
    from drsr.offline.label.configured import count_left
    from drsr.offline.label.worker import WorkOrder, placed, placement_said, work
    from drsr.offline.store.place import opened
    from drsr.offline.store.progress import progress
    from drsr.offline.store.worker_processes import WorkerFailed, share, work_together

    def left() -> int:
        with opened(found.settings) as place:  # anew: the work may have taken days
            return count_left(place, found, stage, name, part)

    with opened(found.settings) as place, place.catalog.reading() as connection:
        to_freeze = count_to_freeze(connection, found.freezing, part)
    waited, code = left(), 0
    # What is joined from two stored views needs no text, so it does not wait for one either.
    joins = stage == "featurize" and kind_of(name) is Kind.WIDE
    if waited == 0 and not joins:
        shown = {"states": 0} | ({"to_freeze": to_freeze} if to_freeze else {})
        print(json.dumps(shown) if options.json else _NOTHING[stage])
    else:
        limit = share(options.limit, options.workers)
        order = WorkOrder(stage, found.settings, name, part, limit, workers=options.workers)
        if stage == "label":
            order = order._replace(views=tuple(options.views), accept_noise=options.accept_noise)
        orders = placed(order)
        if (where := placement_said(orders)) is not None:
            print(f"drsr: {where}", file=sys.stderr)
        wanted = waited if options.limit is None else min(options.limit, waited)
        try:
            with progress(stage, "states") as report:
                summary = work_together(
                    work,
                    orders,
                    lambda so_far: report(so_far["states"], max(wanted, so_far["states"])),
                )
        except WorkerFailed as error:
            error.hint = f"{left():,} states are left; {error.hint}"
            raise
        if summary.get("lost_workers"):
            summary["left"] = left()
            code = _tell_losses(summary["endings"], wanted - (waited - summary["left"]), wanted)
        print(json.dumps(summary) if options.json else "\n".join(_lines(stage, name, summary)))
    if to_freeze:
        print(f"drsr: {to_freeze:,} trajectories are not frozen yet\n  hint: drsr freeze, then again", file=sys.stderr)
    return code


def _tell_losses(endings: list[str], undone: int, wanted: int) -> int:
    """Tell how workers ended that were killed; returns 1 if work was left undone because of it."""
    for ending in endings:
        print(f"drsr: {ending}", file=sys.stderr)
    if undone <= 0:
        print("  the others did its work", file=sys.stderr)
        return 0
    print(f"  {undone:,} of {wanted:,} states were not done because of it; run again", file=sys.stderr)
    return 1


def _lines(stage: str, name: str, summary: dict[str, Any]) -> list[str]:
    excluded = [f"  {count:,} states excluded: {reason}" for reason, count in summary["excluded"].items()]
    if stage == "featurize":
        featurized = f"{summary['featurized']:,} states featurized with {summary['rows']:,} rows"
        lines = [f"{featurized} in {summary['seconds']:.0f} s, feature view {name}"]
        if summary["lost"]:
            lines.append(f"  files of {summary['lost']:,} states were gone from the artifact store")
        return lines + excluded
    ratio = summary["tokens_naive"] / summary["tokens_processed"] if summary["tokens_processed"] else 1.0
    lines = [
        f"{summary['labelled']:,} states labelled with {summary['sets']:,} sets in {summary['seconds']:.0f} s",
        f"  {summary['tokens_processed']:,} tokens instead of {summary['tokens_naive']:,}: {ratio:.1f} times fewer",
    ]
    if summary["featurized"]:
        lines.append(f"  features of {summary['featurized']:,} states were collected in the same walk")
    lines += excluded
    if "out_of_memory" in summary["excluded"]:
        lines.append("  with more memory (DRSR_LABEL_MEMORY_MB): drsr label --again out_of_memory")
    if summary.get("method") == "direct":
        lines.append(f"  each context was computed on its own: {summary['why']}")
    return lines


def _remeasure(
    options: argparse.Namespace, place: Place, found: Configured, labeler_id: int | None, part: Selection
) -> int:
    import secrets

    from drsr.backbone.catalogue import load_backbone
    from drsr.errors import InputError
    from drsr.offline.label.remeasure import remeasure
    from drsr.offline.store.progress import progress

    if labeler_id is None:
        raise InputError(f"labeler {options.labeler!r} has measured nothing yet", hint="drsr label")
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    settings = place.settings
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    with progress("remeasure", "states") as report:
        result = remeasure(
            place.catalog,
            place.artifacts,
            backbone,
            found.caps,
            labeler_id,
            options.remeasure,
            seed=seed,
            part=part,
            progress=report,
        )
    if result.states == 0:
        raise InputError(f"labeler {options.labeler!r} has labelled no state of this part", hint="drsr label")
    if options.json:
        shown = {name: value for name, value in result._asdict().items() if name != "compared"}
        print(json.dumps(shown | {"seed": seed, "agrees": result.agrees}))
    else:
        print(
            f"{result.states:,} states, {result.sets:,} sets computed directly: largest difference in harm "
            f"{result.largest_difference:.1e} (at most {result.agreement:g} in {settings.dtype}), "
            f"{result.changed_unsafe} verdicts changed, {result.changed_near} so near to the tolerance that they may\n"
            f"  the sample of seed {seed}"
        )
        for mismatch in result.mismatches:
            print(f"  mismatch: {mismatch}")
    return 0 if result.agrees else 1
