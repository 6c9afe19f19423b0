"""`drsr run`: all stages in order, each by its own command; stops at the first that fails."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from drsr.errors import DrsrError, SettingsError

STAGES = ("ingest", "freeze", "label", "featurize", "train", "calibrate", "evaluate", "publish")
"""In the order of a run."""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help=f"all stages in order: {', '.join(STAGES)}",
        description="Runs one stage after the other, each on what is missing or stale, and stops at the first that "
        "fails. Run again it does what is left. A policy that is worse on validation than the released one is not "
        "published. Example: drsr run s3://bucket/runs --workers 2",
    )
    parser.add_argument("location", nargs="?", metavar="URI", help="what to ingest (default: the sample corpus)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes for label and featurize")
    parser.add_argument("--limit", type=int, metavar="N", help="label about N states only")
    parser.add_argument("--until", choices=STAGES, default=STAGES[-1], help="the last stage to run (default: publish)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object: what every stage did, and what failed"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """The exit code is that of the stage that failed; with --json what was done until then is printed all the same."""
    from drsr.cli import build_parser

    for name in ("limit", "workers"):  # rather now than after the stages before
        value = getattr(options, name)
        if value is not None and value < 1:
            raise SettingsError(f"--{name} must be at least 1, not {value}")
    parser = build_parser()
    done: dict[str, Any] = {}
    code = 0
    for stage in STAGES[: STAGES.index(options.until) + 1]:
        arguments = [stage, *_arguments(stage, options), *(["--json"] if options.json else [])]
        if not options.json:
            print(f"{stage}:", flush=True)
        started = time.monotonic()
        chosen = parser.parse_args(arguments)
        said = StringIO()
        try:
            with redirect_stdout(said if options.json else sys.stdout):
                code = chosen.run(chosen)
        except BaseException as error:
            if options.json:  # the stages before may have taken hours, and nobody else says what they did
                seconds = round(time.monotonic() - started, 3)
                print(json.dumps({**done, stage: {"seconds": seconds, "error": _told(error)}}), flush=True)
            raise
        done[stage] = {"seconds": round(time.monotonic() - started, 3), "code": code}
        if options.json and said.getvalue():
            done[stage] |= {"did": json.loads(said.getvalue())}
        if code:
            break
    if options.json:
        print(json.dumps(done))
    return code


def _told(error: BaseException) -> str:
    """Return what ended a stage, in words; `drsr` chooses the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, DrsrError) else f"{type(error).__name__}: {error}"


def _arguments(stage: str, options: argparse.Namespace) -> list[str]:
    match stage:
        case "ingest":
            return [options.location] if options.location else []
        case "label" | "featurize":
            limit = ["--limit", str(options.limit)] if options.limit is not None and stage == "label" else []
            return ["--workers", str(options.workers), *limit]
        case "publish":
            return ["--not-worse"]
        case _:
            return []
