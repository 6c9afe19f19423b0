"""`drsr erase`: delete recorded runs for good, with all that was made of them but released policies."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command
from drsr.errors import InputError

if TYPE_CHECKING:
    from drsr.offline.erased_exports import Cleaned

_EXAMPLES = """\
examples:
  drsr erase agents/run-7 agents/run-8 --reason "asked for by the customer, ticket 4711"
  drsr erase --list runs.txt --reason "asked for by the customer, ticket 4711"
  drsr erase --source tenant-a --reason "contract ended"
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "erase",
        run,
        help="delete recorded runs for good, with everything that was made from them",
        description="Deletes the runs' text, states, labels and features from catalog, artifact store, exported parts, "
        "DVC's cache and remotes, and what this machine keeps. Name, hash and reason stay, so the runs are not taken "
        "in again. Policies made from them are named, with how to make a successor. Then every stored file is searched "
        "for ten texts of the runs; exit code 1 if one is still there. The recorded files themselves, and your own "
        "copies, are yours to delete. Run it when nothing else uses the catalog. To leave a run out but keep it, use "
        "drsr withdraw.",
        examples=_EXAMPLES,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("runs", nargs="*", default=[], metavar="SOURCE/ID", help="runs, as rules and audit name them")
    which.add_argument(
        "--list", metavar="FILE", help="a file that names the runs, one per line; - reads standard input"
    )
    which.add_argument("--source", help="all runs of a source")
    which.add_argument("--task", help="all runs of a task")
    parser.add_argument("--reason", metavar="TEXT", default="", help="the reason: required, and kept")
    parser.add_argument(
        "--exports", metavar="FOLDER", type=Path, default=Path("exports"), help="folder of exports (default: exports)"
    )


def run(options: argparse.Namespace) -> int:
    from drsr.offline.erase import (
        AT_ONCE,
        TABLES,
        erase,
        find_runs,
        holding,
        require_reason,
        sentences,
        state_keys,
        versions_of,
    )
    from drsr.offline.erased_exports import clean, keys_of
    from drsr.offline.store.claims import require_nobody_else
    from drsr.offline.store.kept import kept_here
    from drsr.offline.store.place import opened

    require_reason(options.reason)
    with opened() as place:
        runs: set[str] = set()
        states_gone: set[str] = set()
        with place.catalog.reading() as connection:
            require_nobody_else(connection, place.catalog.location)
            named = options.runs or _listed(options.list)
            names = find_runs(connection, runs=named, source=options.source, task=options.task)
            batches = [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]
            texts = sentences(place.artifacts, versions_of(connection, batches[0]))
            for batch in batches:
                doomed = versions_of(connection, batch)
                runs.update(version.export_key for version in doomed)
                states_gone.update(state_keys(connection, doomed))
        keys = keys_of(runs, states_gone, options.exports)
        cleaned = clean(Path.cwd(), options.exports, keys, texts)
        done = [erase(place.catalog, place.artifacts, batch, options.reason, kept_here()) for batch in batches]
        policies = sorted({policy for one in done for policy in one.policies})
        states, labels = sum(one.states for one in done), sum(one.labels for one in done)
        if not options.json:  # before the database is written anew, which can take long: nobody can say it afterwards
            _say(len(names), states, labels, cleaned, policies)
        place.catalog.compact(TABLES)
        left = [*holding(place.artifacts, texts), *cleaned.left]
    if options.json:
        told = {"runs": names, "states": states, "labels": labels, "policies": policies, "left": left}
        print(json.dumps(told | {"exports": cleaned.parts, "dvc_objects": cleaned.objects}))
        return 1 if left else 0
    if left:
        print(f"  text of them is still in {len(left):,} files: {', '.join(left[:5])}")
        print(
            "  another run in the store says the same: erase it as well; a file of yours that DVC keeps: dvc remove it"
        )
        return 1
    if texts:
        print(f"  none of {len(texts):,} texts of them is found in the artifact store")
    else:
        print("  nothing of their text was left before: they had been erased, or came without text")
    return 0


def _say(runs: int, states: int, labels: int, cleaned: Cleaned, policies: list[str]) -> None:
    erased = "1 run" if runs == 1 else f"{runs:,} runs"
    print(f"{erased} erased, with {states:,} states and {labels:,} labels")
    if cleaned.parts or cleaned.objects:
        print(f"  {cleaned.parts:,} exported parts written anew, {cleaned.objects:,} objects of DVC deleted")
    if policies:
        print(f"  released policies were made with them: {', '.join(policies)}")
        print(
            "  make and publish a successor without them: drsr train && drsr calibrate && drsr evaluate && drsr publish"
        )
    sys.stdout.flush()


def _listed(file: str | None) -> list[str]:
    """Return the runs that a file names; none without a file. InputError where it names none."""
    if file is None:
        return []
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=file, hint="a text file with a run per line") from None
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise InputError("names no run", where=file, hint="a run per line, as SOURCE/ID")
    return names
