"""`drsr withdraw`: take a recorded run out of everything that is made from now on, with a reason that is kept."""

from __future__ import annotations

import argparse
import json

_EXAMPLES = """\
examples:
  drsr withdraw runs/a.json#7 --reason "the same session as runs/b.json#2"
  drsr withdraw --list
  drsr withdraw --undo runs/a.json#7
"""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "withdraw",
        help="take a recorded run out of everything that is made from now on",
        description="The run takes part in nothing any more: no stage reads it, no rule about the data looks at it, "
        "also if it is ingested again. What was made from it before can still be traced. The audit of a policy "
        "shows what was withdrawn, and why.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("run_name", nargs="?", metavar="SOURCE/ID", help="the run, as rules and audit name it")
    which.add_argument("--list", action="store_true", help="show what is withdrawn")
    which.add_argument("--undo", metavar="SOURCE/ID", help="let a withdrawn run take part again")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; needed, and shown by every audit")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.catalog.withdrawals import take_back, withdraw, withdrawn_runs
    from drsr.settings import load_settings
    from drsr.tables import table

    with open_catalog(load_settings().catalog_url) as catalog:
        if options.list:
            with catalog.reading() as connection:
                found = withdrawn_runs(connection)
        else:
            with catalog.writing() as connection:
                if options.undo:
                    found = [take_back(connection, options.undo)]
                else:
                    found = [withdraw(connection, options.run_name, options.reason)]
    if options.json:
        shown = [each._asdict() | {"withdrawn_at": each.withdrawn_at.isoformat(timespec="seconds")} for each in found]
        print(json.dumps({"withdrawn": shown} if options.list else shown[0]))
    elif options.list:
        rows = [(each.name, each.split, each.states, f"{each.withdrawn_at:%Y-%m-%d}", each.reason) for each in found]
        heads = ("run", "split", "states", "withdrawn", "reason")
        print(table(heads, rows) if rows else "nothing is withdrawn")
    elif options.undo:
        print(f"{found[0].name} takes part again; it was withdrawn for: {found[0].reason}")
    else:
        print(f"{found[0].name} ({found[0].split}, {found[0].states} states) takes part in nothing from now on")
        print("  a policy without it: drsr run, or drsr train, drsr calibrate, drsr publish")
        print(f"  to take it back: drsr withdraw --undo {found[0].name}")
    return 0
