"""`drsr query`: SQL over exported runs, states, labels and features."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from drsr.command_line import Commands, add_command


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "query",
        run,
        json="print a JSON object per row",
        help="ask SQL questions about exported runs, states, labels and features",
        description="One SELECT over the tables runs, states, measurements, labels and features of `drsr export`, by "
        'DuckDB in memory: no file is read or written but these exports. Example: drsr query "select split, '
        'avg(unsafe::int) from labels join states using (state_key) group by all" --exports corpora/measured',
    )
    parser.add_argument("question", metavar="SQL")
    parser.add_argument(
        "--exports",
        type=Path,
        default=Path("exports"),
        metavar="FOLDER",
        help="folder that drsr export wrote (default: exports)",
    )


def run(options: argparse.Namespace) -> int:
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.query import answer
    from drsr.settings import load_settings
    from drsr.tables import table

    found = answer(options.question, options.exports, lambda: open_catalog(load_settings().catalog_url))
    if options.json:
        for row in found.rows:
            print(json.dumps(dict(zip(found.columns, row, strict=True)), default=str))
    else:
        print(table(found.columns, found.rows) if found.rows else "no rows")
    return 0
