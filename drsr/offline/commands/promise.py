"""`drsr promise`: limits, seeds and rules, written down before labels are read, for an audit to compare."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from drsr.command_line import Commands, add_command

_EXAMPLES = """\
examples:
  drsr promise --to promise.json          then put it, or its SHA-256, where you cannot change it
  drsr audit --promise promise.json       later: compares
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "promise",
        run,
        help="write down limits, seeds and rules before labels are read",
        description="Writes the parameters of training and calibration, the number of rules of each dataset and how "
        "many states are labelled already. Whoever keeps the file, or its SHA-256, can have drsr audit compare it "
        "later.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--to", type=Path, default=Path("promise.json"), metavar="FILE", help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    import hashlib

    from drsr.errors import InputError
    from drsr.files import write_atomically
    from drsr.offline.audit.checks.promises import promise
    from drsr.offline.params import load_params
    from drsr.offline.store.place import opened

    if options.to.exists():
        raise InputError("already exists, and a promise is never replaced", where=str(options.to), hint="--to FILE")
    with opened() as (_, catalog, _):
        made = promise(catalog, load_params())
    write_atomically(options.to, made)
    sha256 = hashlib.sha256(made).hexdigest()
    if options.json:
        print(json.dumps({"promise": str(options.to), "sha256": sha256}))
    else:
        print(f"wrote {options.to}\nSHA-256 {sha256}\nkeep it where those who train cannot change it")
    return 0
