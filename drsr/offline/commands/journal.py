"""`drsr journal`: the head of the catalog's journal, and a line of it in a file elsewhere."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from drsr.command_line import Commands, add_command

_EXAMPLES = """\
examples:
  drsr journal                                  the latest event and its SHA-256, which covers all of them
  drsr journal --list                           every event
  drsr journal --anchor /mnt/elsewhere/heads    add the head to a file that whoever trains cannot change
  drsr audit --anchor /mnt/elsewhere/heads      later: every head in it must be in the chain
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "journal",
        run,
        help="show the head of the catalog's journal, or write it down elsewhere",
        description="The journal has one row per event that changed what a policy can be made from, each with the hash "
        "of the one before. Give its head to somebody else to keep; drsr audit --anchor compares it later.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--list", action="store_true", help="show every event: number, moment, kind, rows, SHA-256")
    parser.add_argument("--anchor", type=Path, metavar="FILE", help="add the head to this file")


def run(options: argparse.Namespace) -> int:
    from drsr.errors import CatalogError
    from drsr.offline.catalog.journal import events, head
    from drsr.offline.store.place import opened
    from drsr.tables import table

    with opened() as (_, catalog, _), catalog.reading() as connection:
        found = head(connection)
        listed = [
            (event.number, f"{event.noted_at:%Y-%m-%d %H:%M:%S}", event.kind, _counts(event.rows), event.sha256)
            for event in (events(connection) if options.list else ())
        ]
    if found is None:
        raise CatalogError("the catalog has no journal", hint="drsr catalog upgrade")
    if options.anchor is not None:
        anchor(options.anchor, str(found))
    if options.json:
        print(json.dumps(found._asdict() | ({"events": listed} if options.list else {})))
    else:
        print(table(("event", "noted", "kind", "rows", "SHA-256"), listed) if options.list else found)
    return 0


def anchor(path: Path, head: str) -> None:
    """Add a head to a file, with the moment. A link is not followed."""
    import datetime
    import os

    from drsr.errors import InputError

    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        with os.fdopen(file, "a") as stream:
            stream.write(f"{head} {now}\n")
    except OSError as error:
        raise InputError(f"cannot be added to: {error.strerror}", where=str(path)) from None


def _counts(rows: dict[str, dict[str, str | None]]) -> str:
    return ", ".join(f"{len(change):,} {name}" for name, change in sorted(rows.items())) or "none"
