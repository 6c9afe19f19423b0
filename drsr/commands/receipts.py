"""`drsr explain | diff | restore ID`: what a decision considered, what it removed, and the request as it was."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from drsr.command_line import Commands, add_command

RECEIPTS_FILE = "receipts.jsonl"


def add_commands(commands: Commands) -> None:
    helps = {
        "explain": "every set that a decision considered, and why it was not chosen",
        "diff": "what a decision removed from its request",
        "restore": "the request as it was before a decision",
    }
    runs = {"explain": run_explain, "diff": run_diff, "restore": run_restore}
    for name, text in helps.items():
        parser = add_command(commands, name, runs[name], help=text, description=f"From a file of receipts: {text}.")
        parser.add_argument("id", metavar="ID", help="the decision's id, or its beginning")
        parser.add_argument(
            "--receipts", default=RECEIPTS_FILE, metavar="FILE", help=f"the file of receipts (default: {RECEIPTS_FILE})"
        )


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
