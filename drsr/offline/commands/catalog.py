"""`drsr catalog upgrade | downgrade | check`: the database's tables and this code's, brought together."""

from __future__ import annotations

import argparse
import json

from drsr.command_line import Commands, add_command


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("catalog", help="upgrade, downgrade or check the catalog's database")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("upgrade", "bring the database to this code's revision, creating it if it does not exist"),
        ("downgrade", "bring the database back to an older revision"),
        ("check", "compare the database with this code; exit code 1 if they differ"),
    ):
        action = add_command(actions, name, run, help=text, description=text)
        if name == "downgrade":
            action.add_argument(
                "revision", metavar="REVISION", help="the older revision, or `base` for no tables at all"
            )
            action.add_argument("--yes", action="store_true", help="even if it deletes rows")


def run(options: argparse.Namespace) -> int:
    from drsr.offline.catalog.migrations import check_catalog, downgrade_catalog, upgrade_catalog
    from drsr.settings import load_settings

    url = load_settings().catalog_url
    if options.action == "check":
        result = check_catalog(url)
        if options.json:
            print(json.dumps(result._asdict() | {"passed": result.passed}))
        else:
            print(
                f"revision {result.revision}, expected {result.expected}: {'in order' if result.passed else 'differs'}"
            )
            for difference in result.differences:
                print(f"  {difference}")
        return 0 if result.passed else 1
    if options.action == "upgrade":
        change = upgrade_catalog(url)
    else:
        change = downgrade_catalog(url, options.revision, may_lose_rows=options.yes)
    if options.json:
        print(json.dumps(change._asdict()))
    elif change.before == change.after:
        print(f"nothing to do: the catalog is at revision {change.after}")
    else:
        print(f"the catalog went from revision {change.before or 'none'} to {change.after or 'none'}")
    return 0
