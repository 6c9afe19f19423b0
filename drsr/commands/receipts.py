"""`drsr receipts`: what decisions saved, in tokens and money; `drsr explain | diff | restore ID`: a single decision."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

from drsr.command_line import Commands, add_command

RECEIPTS_FILE = "receipts.jsonl"
_EXAMPLES = """\
examples:
  drsr receipts                                       what all decisions saved, in tokens and money
  drsr receipts --by model --receipts var/receipts.jsonl
  drsr receipts --by day --csv > savings.csv
  drsr receipts --last 20                             the latest decisions, one per line
"""


def add_commands(commands: Commands) -> None:
    totals = add_command(
        commands,
        "receipts",
        run_receipts,
        help="add up what decisions saved, in tokens and money, by reason, model or day",
        description="Adds up a file of receipts: tokens and money with and without pruning. What an upstream refused "
        "saved nothing. Money is shown for models whose price is known.",
        examples=_EXAMPLES,
    )
    _add_file(totals)
    totals.add_argument("--by", choices=("reason", "model", "day"), help="one line per reason, model or day")
    totals.add_argument("--last", type=int, metavar="N", help="only the latest N; without --by one line for each")
    totals.add_argument("--csv", action="store_true", help="print CSV")
    helps = {
        "explain": "show every set that a decision considered, and why it was not chosen",
        "diff": "show what a decision removed from its request",
        "restore": "print the request as it was before a decision",
    }
    runs = {"explain": run_explain, "diff": run_diff, "restore": run_restore}
    for name, text in helps.items():
        parser = add_command(commands, name, runs[name], help=text, description=f"From a file of receipts, {text}.")
        parser.add_argument("id", metavar="ID", help="the decision's id, or its beginning")
        _add_file(parser)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--receipts", default=RECEIPTS_FILE, metavar="FILE", help=f"the file of receipts (default: {RECEIPTS_FILE})"
    )


def run_receipts(options: argparse.Namespace) -> int:
    from collections import deque

    from drsr.command_line import require_positive
    from drsr.receipts.receipt_file import read_receipts
    from drsr.receipts.totals import COLUMNS, add_up, listed, newest, told
    from drsr.tables import plain_cell

    require_positive(options, "last")
    records = iter(newest(read_receipts(Path(options.receipts))))
    if options.last is not None:
        records = iter(deque(records, maxlen=options.last))
    if options.last is not None and options.by is None and not options.csv:
        latest = list(records)
        print(json.dumps(latest) if options.json else listed(latest))
        return 0
    totals = add_up(records, options.by)
    if options.csv:
        writer = csv.DictWriter(sys.stdout, COLUMNS)
        writer.writeheader()
        writer.writerows({"group": plain_cell(name), **total.to_json()} for name, total in totals.items())
    elif options.json:
        print(json.dumps({name: total.to_json() for name, total in totals.items()}))
    else:
        print(told(totals, options.by))
    return 0


def run_explain(options: argparse.Namespace) -> int:
    from drsr.receipts.receipt import explain
    from drsr.receipts.receipt_file import find_receipt

    record = find_receipt(Path(options.receipts), options.id)
    print(json.dumps(record, indent=2) if options.json else explain(record))
    return 0


def run_diff(options: argparse.Namespace) -> int:
    from drsr.receipts.receipt import diff
    from drsr.receipts.receipt_file import find_receipt

    record = find_receipt(Path(options.receipts), options.id)
    lines = diff(record)
    print(json.dumps({"removed": record["removed"], "lines": lines}, indent=2) if options.json else "\n".join(lines))
    return 0


def run_restore(options: argparse.Namespace) -> int:
    from drsr.receipts.receipt import restore
    from drsr.receipts.receipt_file import find_receipt

    print(json.dumps(restore(find_receipt(Path(options.receipts), options.id)), ensure_ascii=options.json))
    return 0
