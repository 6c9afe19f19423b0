"""`drsr label`: measure exact joint deletion harm for every deletion set of every state that has none yet."""

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
        "label",
        help="measure exact deletion harm for every set of every frozen state",
        description="Deletes each set of candidates, re-scores the same recorded next output, and writes the change of "
        "its mean NLL. Works on what is missing; can be killed, repeated, and run on many machines at once. "
        "Example: drsr label --workers 2 --where split=train --limit 100",
    )
    parser.add_argument("--source", help="only trajectories of this source")
    parser.add_argument("--where", action="append", default=[], metavar="split=NAME", help="only this split")
    parser.add_argument("--limit", type=int, metavar="N", help="stop after about N states")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes, one thread each (default: 1)")
    parser.add_argument("--labeler", default="default", metavar="NAME", help="name of this way of measuring")
    parser.add_argument(
        "--views",
        nargs="+",
        default=["default", "window"],
        metavar="NAME",
        help="feature views to fill in the same walk (default: default window); `semantic` keeps whole hidden states "
        "for analyses, about 20 KB per state",
    )
    parser.add_argument(
        "--again",
        choices=["out_of_memory", "non_finite"],
        help="measure again what was excluded for this reason, with more memory, say (DRSR_LABEL_MEMORY_MB)",
    )
    parser.add_argument(
        "--remeasure", type=int, metavar="SAMPLE", help="compute SAMPLE states again, directly; compare"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="draws the sample of --remeasure (default: a new one)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.errors import SettingsError
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.freeze.records import require_source
    from drsr.offline.freeze.selection import Selection, count_to_freeze
    from drsr.offline.freeze.stage import freezing_rule
    from drsr.offline.label.records import configured_identity, find_labeler
    from drsr.offline.label.stage import count_pending
    from drsr.request.view import caps_for
    from drsr.settings import load_settings

    for name in ("limit", "workers", "remeasure"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise SettingsError(f"--{name} must be at least 1, not {value}")
    if options.seed is not None and options.remeasure is None:
        raise SettingsError("--seed draws the sample of --remeasure, which is not given")
    if options.again is not None and options.remeasure is not None:
        raise SettingsError("--again measures, --remeasure compares: one of them")
    settings = load_settings()
    part = Selection.parsed(options.source, options.where)
    tokenizer, window = load_tokenizer(settings.backbone)
    caps = caps_for(window)
    identity, freezing = configured_identity(settings.backbone, settings.dtype, caps), freezing_rule(tokenizer, caps)

    def left() -> int:
        with open_catalog(settings.catalog_url) as catalog, catalog.reading() as connection:
            labeler_id = find_labeler(connection, options.labeler, identity)
            return count_pending(connection, freezing, labeler_id, part)

    with open_catalog(settings.catalog_url) as catalog, catalog.reading() as connection:
        require_source(connection, options.source)
        labeler_id = find_labeler(connection, options.labeler, identity)
    if options.again is not None and labeler_id is not None:
        _forget(settings, labeler_id, options.again, part)
    with open_catalog(settings.catalog_url) as catalog, catalog.reading() as connection:
        pending = count_pending(connection, freezing, labeler_id, part)
        to_freeze = count_to_freeze(connection, freezing, part)
    if options.remeasure is not None:
        return _remeasure(options, settings, labeler_id, part)
    if pending == 0:
        shown = {"states": 0} | ({"to_freeze": to_freeze} if to_freeze else {})
        print(json.dumps(shown) if options.json else "nothing to label: every frozen state is measured")
        code = 0
    else:
        code = _label(options, settings, part, pending, left)
    if to_freeze:
        print(f"drsr: {to_freeze:,} trajectories are not frozen yet\n  hint: drsr freeze, then again", file=sys.stderr)
    return code


def _forget(settings: Settings, labeler_id: int, reason: str, part: Selection) -> None:
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.label.records import forget_excluded

    with open_catalog(settings.catalog_url) as catalog, catalog.writing() as connection:
        count = forget_excluded(connection, labeler_id, reason, part)
    print(f"drsr: {count:,} states excluded as {reason} are measured again", file=sys.stderr)


def _label(
    options: argparse.Namespace, settings: Settings, part: Selection, pending: int, left: Callable[[], int]
) -> int:
    from drsr.offline.commands.stages.worker_losses import exit_code, says_what_is_left
    from drsr.offline.label.worker import LabelOrder, work
    from drsr.offline.store.progress import progress
    from drsr.offline.store.worker_processes import share, work_together

    order = LabelOrder(settings, options.labeler, part, share(options.limit, options.workers), tuple(options.views))
    total = pending if options.limit is None else min(pending, options.limit)
    with says_what_is_left(left), progress("label", "states") as report:
        summary = work_together(
            work, [order] * options.workers, lambda so_far: report(so_far["states"], max(total, so_far["states"]))
        )
    code = exit_code(summary, waited=pending, limit=options.limit, left=left)
    if options.json:
        print(json.dumps(summary))
        return code
    ratio = summary["tokens_naive"] / summary["tokens_processed"] if summary["tokens_processed"] else 1.0
    print(
        f"{summary['labelled']:,} states labelled with {summary['sets']:,} sets in {summary['seconds']:.0f} s\n"
        f"  {summary['tokens_processed']:,} tokens instead of {summary['tokens_naive']:,}: {ratio:.1f} times fewer"
    )
    if summary["featurized"]:
        print(f"  features of {summary['featurized']:,} states were collected in the same walk")
    for reason, count in summary["excluded"].items():
        print(f"  {count:,} states excluded: {reason}")
    if "out_of_memory" in summary["excluded"]:
        print("  with more memory (DRSR_LABEL_MEMORY_MB): drsr label --again out_of_memory")
    if summary.get("method") == "direct":
        print(f"  each context was computed on its own: {summary['why']}")
    return code


def _remeasure(options: argparse.Namespace, settings: Settings, labeler_id: int | None, part: Selection) -> int:
    import secrets

    from drsr.backbone.catalogue import load_backbone
    from drsr.errors import InputError
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.label.remeasure import remeasure
    from drsr.offline.store.artifacts import ArtifactStore
    from drsr.offline.store.progress import progress
    from drsr.request.view import caps_for

    if labeler_id is None:
        raise InputError(f"labeler {options.labeler!r} has measured nothing yet", hint="drsr label")
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    with open_catalog(settings.catalog_url) as catalog, progress("remeasure", "states") as report:
        result = remeasure(
            catalog,
            ArtifactStore(settings.artifact_root),
            backbone,
            caps_for(backbone.window),
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
