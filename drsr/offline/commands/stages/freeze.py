"""`drsr freeze`: choose decision states and freeze their candidates, before any label exists."""

from __future__ import annotations

import argparse
import json
import sys

from drsr.command_line import Commands, add_command

SHOWN = 20
"""Damaged trajectories that are named one by one; --json names all."""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "freeze",
        run,
        help="choose decision states and freeze their candidates",
        description="For every trajectory that is not frozen yet under this rule and tokenizer: up to three decision "
        "states with three or four candidate Blocks each, chosen without looking at any outcome.",
    )
    parser.add_argument("--source", help="only trajectories of this source")
    parser.add_argument("--backbone", help="whose tokens are counted (default: DRSR_BACKBONE, drsr.toml, smollm2-135m)")


def run(options: argparse.Namespace) -> int:
    from drsr.backbone.catalogue import load_tokenizer
    from drsr.offline.freeze.records import require_source
    from drsr.offline.freeze.stage import freeze
    from drsr.offline.store.artifacts import REPAIR_HINT
    from drsr.offline.store.place import opened
    from drsr.offline.store.progress import progress
    from drsr.request.view import caps_for
    from drsr.tables import printable

    with opened() as place, progress("freeze", "trajectories") as report:
        tokenizer, window = load_tokenizer(options.backbone or place.settings.backbone)
        with place.catalog.reading() as connection:
            require_source(connection, options.source)
        where = place.catalog, place.artifacts
        summary = freeze(*where, tokenizer, caps_for(window), source=options.source, progress=report)
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
