"""`drsr freeze`: choose decision states and freeze their candidates, before any label exists."""

from __future__ import annotations

import argparse
import json
import sys

SHOWN = 20
"""Damaged trajectories that are named one by one; --json names all."""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "freeze",
        help="choose decision states and freeze their candidates",
        description="For every trajectory that is not frozen yet under this rule and tokenizer: up to three decision "
        "states with three or four candidate Blocks each, chosen without looking at any outcome.",
    )
    parser.add_argument("--source", help="only trajectories of this source")
    parser.add_argument("--backbone", help="whose tokens are counted (default: DRSR_BACKBONE, drsr.toml, smollm2-135m)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.freeze.records import require_source
    from drsr.offline.freeze.stage import freeze
    from drsr.offline.store.artifacts import REPAIR_HINT, ArtifactStore
    from drsr.offline.store.progress import progress
    from drsr.request.view import caps_for
    from drsr.settings import load_settings
    from drsr.tables import printable

    settings = load_settings()
    tokenizer, window = load_tokenizer(options.backbone or settings.backbone)
    with open_catalog(settings.catalog_url) as catalog, progress("freeze", "trajectories") as report:
        with catalog.reading() as connection:
            require_source(connection, options.source)
        summary = freeze(
            catalog,
            ArtifactStore(settings.artifact_root),
            tokenizer,
            caps_for(window),
            source=options.source,
            progress=report,
        )
    for complaint in summary.damaged[:SHOWN]:
        print(f"drsr: {printable(complaint)}", file=sys.stderr)
    if summary.damaged:
        waiting = f"{len(summary.damaged):,} trajectories wait: their stored bytes are missing or damaged"
        print(f"drsr: {waiting}\n  hint: {REPAIR_HINT}", file=sys.stderr)
    code = 1 if summary.damaged else 0
    if options.json:
        print(json.dumps(summary._asdict()))
        return code
    if summary.frozen == 0 and not summary.damaged:
        print(f"nothing to freeze: all {summary.up_to_date:,} trajectories are frozen")
        return 0
    print(f"{summary.frozen:,} trajectories frozen: {summary.states:,} decision states")
    for reason, count in summary.without_states.items():
        print(f"  {count:,} without an eligible decision: {reason}")
    if summary.cut_short:
        print(f"  {summary.cut_short:,} used up to a message that cannot be read or tokenized")
    return code
