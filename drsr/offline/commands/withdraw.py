"""`drsr withdraw`: take a recorded run out of everything that is made from now on, with a reason that is kept."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command

if TYPE_CHECKING:
    from drsr.offline.ingest.withdrawals import WithdrawnRun
    from drsr.offline.store.place import Place

_EXAMPLES = """\
examples:
  drsr withdraw runs/a.json#7 --reason "the same session as runs/b.json#2"
  drsr withdraw --duplicates
  drsr withdraw --list
  drsr withdraw --undo runs/a.json#7
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "withdraw",
        run,
        help="take a recorded run out of everything that is made from now on",
        description="The run no longer takes part in anything: no stage reads it and no rule judges it, even if it is "
        "ingested again. What was made from it before can still be traced. The audit of a policy shows what was "
        "withdrawn and why, even if it has been taken back since.",
        examples=_EXAMPLES,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("run_name", nargs="?", metavar="SOURCE/ID", help="the run, as rules and audit name it")
    which.add_argument(
        "--list",
        action="store_true",
        help="list the runs that are withdrawn and, separately, those that were taken back",
    )
    which.add_argument(
        "--undo", metavar="SOURCE/ID", help="let a withdrawn run take part again; that it was withdrawn stays on record"
    )
    which.add_argument(
        "--duplicates",
        action="store_true",
        help="of every two runs in different splits that say nearly the same, withdraw the one in train, or else the "
        "one in validation",
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="the reason: required, and shown by every audit")


def run(options: argparse.Namespace) -> int:
    from drsr.offline.ingest.withdrawals import take_back, taken_back_runs, withdraw, withdrawn_runs
    from drsr.offline.store.place import opened

    with opened() as place:
        catalog = place.catalog
        if options.duplicates:
            return _duplicates(place, as_json=options.json)
        if options.list:
            with catalog.reading() as connection:
                _list(withdrawn_runs(connection), taken_back_runs(connection), as_json=options.json)
            return 0
        with catalog.writing() as connection:
            if options.undo:
                found = take_back(connection, options.undo)
            else:
                found = withdraw(connection, options.run_name, options.reason)
    if options.json:
        print(json.dumps(found.to_json()))
    elif options.undo:
        print(f"{found.name} takes part again; it was withdrawn for: {found.reason}")
        print("  what was made meanwhile was made without it, and the audit says so")
    else:
        print(f"{found.name} ({found.split}, {found.states} states) takes part in nothing from now on")
        print("  a policy without it: drsr run, or drsr train, drsr calibrate, drsr publish")
        print(f"  to take it back: drsr withdraw --undo {found.name}")
    return 0


def _duplicates(place: Place, *, as_json: bool) -> int:
    """Withdraw what the rules against near-duplicates and copies in disguise would name, all at once."""
    from drsr.offline.ingest.feeds.disguises import disguised_pairs
    from drsr.offline.ingest.near_duplicates import leaked_pairs
    from drsr.offline.ingest.withdrawals import withdraw, without_duplicates
    from drsr.offline.store.kept import kept_here

    kept = kept_here()
    literal = leaked_pairs(place.catalog, place.artifacts, kept=kept)
    chosen = without_duplicates([*literal, *disguised_pairs(place.catalog, place.artifacts, kept)])
    with place.catalog.writing() as connection:
        found = [withdraw(connection, name, reason) for name, reason in chosen.items()]
    if as_json:
        print(json.dumps([run.to_json() for run in found]))
    elif not found:
        print("no two runs of different splits say nearly the same")
    for run in [] if as_json else found:
        print(f"{run.name} ({run.split}) takes part in nothing from now on: {run.reason}")
    return 0


def _list(withdrawn: list[WithdrawnRun], taken_back: list[WithdrawnRun], *, as_json: bool) -> None:
    """Return what is withdrawn now and, separately, what was withdrawn once."""
    from drsr.tables import table

    if as_json:
        found = {"withdrawn": withdrawn, "taken_back": taken_back}
        print(json.dumps({which: [run.to_json() for run in runs] for which, runs in found.items()}))
        return
    rows = [(run.name, run.split, run.states, f"{run.withdrawn_at:%Y-%m-%d}", run.reason) for run in withdrawn]
    print(table(("run", "split", "states", "withdrawn", "reason"), rows) if rows else "nothing is withdrawn")
    if taken_back:
        past = [
            (run.name, run.split, f"{run.withdrawn_at:%Y-%m-%d}", f"{run.taken_back_at:%Y-%m-%d}", run.reason)
            for run in taken_back
        ]
        print("\n" + table(("taken back", "split", "from", "to", "reason"), past))
