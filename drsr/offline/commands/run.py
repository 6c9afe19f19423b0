"""`drsr run`: all stages in order, each by its own command; stops at the first that fails."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from typing import Any


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="all stages in order: ingest, freeze, label, featurize, train, calibrate, publish",
        description="Runs one stage after the other, each on what is missing or stale, and stops at the first that "
        "fails. Run again it does what is left. Example: drsr run s3://bucket/runs --workers 2",
    )
    parser.add_argument("location", nargs="?", metavar="URI", help="what to ingest (default: the sample corpus)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes for label and featurize")
    parser.add_argument("--limit", type=int, metavar="N", help="label about N states only")
    parser.add_argument("--until", choices=STAGES, default=STAGES[-1], help="the last stage to run (default: publish)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with what every stage did")
    parser.set_defaults(run=run)


STAGES = ("ingest", "freeze", "label", "featurize", "train", "calibrate", "publish")
"""In the order of a run. `evaluate` reads the test split, so it is asked for by a person and not by a schedule."""


def run(options: argparse.Namespace) -> int:
    from drsr.cli import build_parser

    parser = build_parser()
    done: dict[str, Any] = {}
    for stage in STAGES[: STAGES.index(options.until) + 1]:
        arguments = [stage, *_arguments(stage, options), *(["--json"] if options.json else [])]
        if not options.json:
            print(f"{stage}:", flush=True)
        started = time.monotonic()
        chosen = parser.parse_args(arguments)
        said = StringIO()
        with redirect_stdout(said if options.json else sys.stdout):
            code: int = chosen.run(chosen)
        if code:
            return code
        done[stage] = {"seconds": round(time.monotonic() - started, 3)}
        if options.json:
            done[stage] |= {"did": json.loads(said.getvalue())}
    if options.json:
        print(json.dumps(done))
    return 0


def _arguments(stage: str, options: argparse.Namespace) -> list[str]:
    if stage == "ingest":
        return [options.location] if options.location else []
    if stage in ("label", "featurize"):
        limit = ["--limit", str(options.limit)] if options.limit and stage == "label" else []
        return ["--workers", str(options.workers), *limit]
    return []
