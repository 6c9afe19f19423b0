"""`drsr erase`: delete recorded runs for good, with all that was made of them but released policies."""

from __future__ import annotations

import argparse
import json

from drsr.command_line import Commands, add_command

_EXAMPLES = """\
examples:
  drsr erase runs/a.json#7 --reason "asked for by the customer, ticket 4711"
  drsr erase --source tenant-a --reason "contract ended"
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "erase",
        run,
        help="delete recorded runs for good, with everything that was made from them",
        description="The runs' text, states, labels and features are deleted from catalog, artifact store and what "
        "this machine keeps; name, hash and reason stay. They are not taken in again. Policies made of them are named: "
        "drsr run makes a successor without them. Then every stored file is searched for ten texts of the runs; exit "
        "code 1 if one is still there. The recorded files themselves, and backups, are yours to delete. To leave a run "
        "out and keep it: drsr withdraw.",
        examples=_EXAMPLES,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("run_name", nargs="?", metavar="SOURCE/ID", help="the run, as rules and audit name it")
    which.add_argument("--source", help="all runs of a source")
    which.add_argument("--task", help="all runs of a task")
    parser.add_argument("--reason", metavar="TEXT", default="", help="the reason: required, and kept")


def run(options: argparse.Namespace) -> int:
    from drsr.offline.erase import AT_ONCE, erase, find_runs, holding, sentences, versions_of
    from drsr.offline.store.kept import kept_here
    from drsr.offline.store.place import opened

    with opened() as place:
        with place.catalog.reading() as connection:
            names = find_runs(connection, run=options.run_name, source=options.source, task=options.task)
            texts = sentences(place.artifacts, versions_of(connection, names[:AT_ONCE]))
        batches = [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]
        done = [erase(place.catalog, place.artifacts, batch, options.reason, kept_here()) for batch in batches]
        left = holding(place.artifacts, texts)
    policies = sorted({policy for one in done for policy in one.policies})
    states, labels = sum(one.states for one in done), sum(one.labels for one in done)
    if options.json:
        told = {"runs": names, "states": states, "labels": labels, "policies": policies, "left": left}
        print(json.dumps(told))
        return 1 if left else 0
    print(f"{len(names):,} runs erased, with {states:,} states and {labels:,} labels")
    if policies:
        print(f"  released policies were made with them: {', '.join(policies)}; drsr run makes a successor without")
    if left:
        print(f"  text of them is still in {len(left):,} stored files: {', '.join(left[:5])}")
        print("  another run says the same; erase it as well")
        return 1
    print(f"  none of {len(texts):,} texts of them is found in the artifact store")
    return 0
