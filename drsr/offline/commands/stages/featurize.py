"""`drsr featurize`: the features of every frozen state that has none yet in a feature view."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from drsr.offline.freeze.selection import Selection
    from drsr.settings import Settings


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "featurize",
        help="compute the features of every frozen state, one forward each",
        description="Reads each frozen state with the language model once and stores a feature row per candidate. "
        "Works on what is missing or stale (drsr label fills the same view where it can); can be killed, repeated, and "
        "run on many machines at once. Example: drsr featurize --workers 2 --where split=train --limit 100",
    )
    parser.add_argument("--source", help="only trajectories of this source")
    parser.add_argument("--where", action="append", default=[], metavar="split=NAME", help="only this split")
    parser.add_argument("--limit", type=int, metavar="N", help="stop after about N states")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes, one thread each (default: 1)")
    parser.add_argument(
        "--view",
        default="default",
        metavar="NAME",
        help="name of the feature view (default: default); `window`, `wide` and `semantic` hold further columns, "
        "`light` needs no language model and takes milliseconds",
    )
    parser.add_argument(
        "--statistics", action="store_true", help="compute nothing; show missing, constant, range and drift per column"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.errors import SettingsError
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.featurize.stage import count_waiting, identity_without_weights
    from drsr.offline.freeze.records import require_source
    from drsr.offline.freeze.selection import Selection, count_to_freeze
    from drsr.offline.freeze.stage import freezing_rule
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.request.view import caps_for
    from drsr.settings import load_settings

    for name in ("limit", "workers"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise SettingsError(f"--{name} must be at least 1, not {value}")
    settings = load_settings()
    if options.statistics:
        return _statistics(options, settings)
    part = Selection.parsed(options.source, options.where)
    tokenizer, window = load_tokenizer(settings.backbone)
    with open_catalog(settings.catalog_url) as catalog, catalog.reading() as connection:
        require_source(connection, options.source)
        to_freeze = count_to_freeze(connection, freezing_rule(tokenizer, caps_for(window)), part)
    identity = identity_without_weights(settings.backbone, settings.dtype, caps_for(window), tokenizer, options.view)

    def left() -> int:
        with open_catalog(settings.catalog_url) as catalog:
            return count_waiting(catalog, ArtifactStore(settings.artifact_root), options.view, identity, part)

    pending = left()
    if pending == 0:
        what = "nothing to featurize: every frozen state has its features"
        shown = {"states": 0} | ({"to_freeze": to_freeze} if to_freeze else {})
        print(json.dumps(shown) if options.json else what)
        code = 0
    else:
        code = _featurize(options, settings, part, pending, left)
    if to_freeze:
        print(f"drsr: {to_freeze:,} trajectories are not frozen yet\n  hint: drsr freeze, then again", file=sys.stderr)
    return code


def _featurize(
    options: argparse.Namespace, settings: Settings, part: Selection, pending: int, left: Callable[[], int]
) -> int:
    from drsr.offline.commands.stages.worker_losses import exit_code, says_what_is_left
    from drsr.offline.featurize.worker import FeaturizeOrder, work
    from drsr.offline.store.progress import progress
    from drsr.offline.store.worker_processes import share, work_together

    order = FeaturizeOrder(settings, options.view, part, share(options.limit, options.workers))
    total = pending if options.limit is None else min(pending, options.limit)
    with says_what_is_left(left), progress("featurize", "states") as report:
        summary = work_together(
            work, [order] * options.workers, lambda so_far: report(so_far["states"], max(total, so_far["states"]))
        )
    code = exit_code(summary, waited=pending, limit=options.limit, left=left)
    if options.json:
        print(json.dumps(summary))
        return code
    print(
        f"{summary['featurized']:,} states featurized with {summary['rows']:,} rows in {summary['seconds']:.0f} s, "
        f"feature view {options.view}"
    )
    if summary["lost"]:
        print(f"  files of {summary['lost']:,} states were gone from the artifact store")
    for reason, count in summary["excluded"].items():
        print(f"  {count:,} states excluded: {reason}")
    return code


def _statistics(options: argparse.Namespace, settings: Settings) -> int:
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.featurize.column_statistics import column_statistics, statistics_text
    from drsr.offline.store.artifacts import ArtifactStore

    with open_catalog(settings.catalog_url) as catalog:
        statistics = column_statistics(catalog, ArtifactStore(settings.artifact_root), options.view)
    print(json.dumps(statistics.to_json()) if options.json else statistics_text(statistics))
    return 0
