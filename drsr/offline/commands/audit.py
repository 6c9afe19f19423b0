"""`drsr audit`: every leakage and lineage check of a policy, with a verdict, for people who trust nobody."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command, states_or_all

if TYPE_CHECKING:
    from drsr.offline.audit.running import Audit

_EXAMPLES = """\
examples:
  drsr audit                                               the latest release of the catalog, ten states computed again
  drsr audit --policy drsr_policy-2026.11.16-py3-none-any.whl --sample 50 --seed 7 --html audit.html
  drsr audit --sample all                                  every state; takes as long as measuring did
  drsr audit --retrain                                     the weights in any case; takes as long as training did
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "audit",
        run,
        help="check that nothing leaked into a policy and that every number of it can be computed again",
        description="Computes again what a policy rests on, from its wheel back to the recorded trajectories, and "
        "judges every expectation of the data. Reads the catalog and the artifact store, and writes nothing to "
        "them. Exit code 1: a check failed.",
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--policy",
        metavar="WHEEL",
        help="a wheel, a folder or an installed package (default: the latest release; where nothing is published yet, "
        "the latest drsr calibrate, or with --certified the latest drsr calibrate --certified)",
    )
    parser.add_argument(
        "--certified", action="store_true", help="where nothing is published yet: the latest certified calibration"
    )
    parser.add_argument(
        "--sample",
        type=states_or_all(1),
        default=10,
        metavar="N",
        help="states whose features and labels are computed again, or all (default: 10)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="seed that draws these states (default: random, and printed)",
    )
    parser.add_argument(
        "--retrain",
        action=argparse.BooleanOptionalAction,
        help="train the scorer again from the policy's own states and compare the weights, bit for bit on the same "
        "kind of processor (default: where training took under ten minutes)",
    )
    parser.add_argument(
        "--promise", type=Path, metavar="FILE", help="what drsr promise wrote before labels were read: compare with it"
    )
    parser.add_argument(
        "--anchor",
        type=Path,
        metavar="FILE",
        help="heads that drsr journal --anchor wrote elsewhere: compare with them",
    )
    parser.add_argument("--backbone", metavar="NAME", help="another name for the same language model: path:FOLDER")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots that can be handed on")


def _bytes_of(path: Path) -> bytes:
    from drsr.errors import InputError

    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None


def run(options: argparse.Namespace) -> int:
    import secrets

    from drsr.offline.audit.checks.data_rules import find_judge
    from drsr.offline.audit.report import check_writable, write_report
    from drsr.offline.audit.running import run_audit
    from drsr.offline.publish.subject import Order, Subject
    from drsr.offline.store.place import opened
    from drsr.offline.store.progress import progress

    find_judge()  # rather now than after an hour of measuring again
    if options.html is not None:
        check_writable(options.html)
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    with opened() as (settings, catalog, artifacts), progress("audit", "items") as report:
        order = Order(
            *(options.policy, options.sample, seed, options.backbone, settings.device, options.certified),
            retrain=options.retrain,
            promise=None if options.promise is None else _bytes_of(options.promise),
            anchor=None if options.anchor is None else _bytes_of(options.anchor),
        )
        subject = Subject(catalog, artifacts, order)
        audit = run_audit(subject, progress=lambda check, done, total: report(done, total or None, check.name))
    if options.html is not None:
        write_report(options.html, audit)
    print(json.dumps(audit.to_json(), default=float) if options.json else text(audit, options.html))
    if options.debug:
        for section in audit.sections:
            if section.trace:
                print(f"{section.check.name}:\n{section.trace}", file=sys.stderr)
    if not audit.passed:
        wrong = len(audit.failures)
        print(f"drsr: {wrong} of {len(audit.verdicts)} checks failed", file=sys.stderr)
    return 0 if audit.passed else 1


def text(audit: Audit, report: Path | None) -> str:
    """Return what was audited, the severity table, and of all that failed the first items and what to do.

    Names and texts come from whoever is audited: none of them may clear the screen or hide a line.
    """
    from drsr.tables import printable, table

    about = [f"  {name}: {value}" for name, value in audit.about.items()]
    rows = [
        (verdict.severity, verdict.check, verdict.word if verdict.passed else "FAILED", verdict.detail)
        for verdict in audit.summary
    ]
    lines = [
        *audit.first_lines,
        *([""] if audit.first_lines else []),
        *about,
        f"  states computed again: {'all' if audit.sample is None else audit.sample}, seed {audit.seed}",
        "",
        *table(("severity", "check", "verdict", "found"), rows).split("\n"),
    ]
    for verdict in audit.failures:
        lines += ["", f"{verdict.check}:"]
        lines += [f"  {item}" for item in verdict.items or (verdict.detail,)]
        lines += [f"  hint: {verdict.hint}"] if verdict.hint else []
    wrong = len(audit.failures)
    total = len(audit.verdicts)
    in_part = f", {len(audit.in_part)} of them in part" if audit.in_part else ""
    lines += ["", f"all {total} checks passed{in_part}" if wrong == 0 else f"{wrong} of {total} checks FAILED"]
    if report is not None:
        lines.append(f"wrote {report}")
    return "\n".join(map(printable, lines))
