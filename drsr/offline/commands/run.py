"""`drsr run`: all stages in order, each by its own command; stops at the first that fails."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.command_line import Commands, add_command, require_positive
from drsr.errors import DrsrError, SettingsError
from drsr.offline.run import Done, in_order
from drsr.offline.stages import LAST_BEFORE_TRAINING, NAMES

if TYPE_CHECKING:
    from drsr.offline.notices import Failure


class Ended(NamedTuple):
    """The end of a stage's command."""

    code: int
    printed: str
    """Its JSON; empty where people read along."""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "run",
        run,
        json="print one JSON object: what every stage did, and what failed",
        help=f"run all stages in order: {', '.join(NAMES)}",
        description="Runs one stage after the other, each on what is missing or stale, and stops at the first that "
        "fails. Run it again to do what is left. A policy that is worse on validation than the released one is not "
        "published. Example: drsr run s3://bucket/runs --workers 2",
    )
    parser.add_argument("location", nargs="?", metavar="URI", help="what to ingest (default: the sample corpus)")
    parser.add_argument("--source", help="name of the origin (default: the first folder below the URI)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes for label and featurize")
    parser.add_argument("--limit", type=int, metavar="N", help="label about N states only")
    parser.add_argument("--until", choices=NAMES, default=NAMES[-1], help="the last stage to run (default: publish)")
    parser.add_argument(
        "--skip-training-below",
        metavar="N",
        help="stop after featurize unless at least N states, or N%% of those that the latest scorer was trained "
        "on, have been labelled since; says what waits",
    )


def run(options: argparse.Namespace) -> int:
    """Run the stages. The exit code is that of the stage that failed; with --json what was done until then is printed
    all the same."""
    from drsr.cli import build_parser
    from drsr.offline.notices import Failure, failure_of

    # Rather now than after the stages before.
    require_positive(options, "limit", "workers")
    require_enough(options.skip_training_below)
    parser = build_parser()

    def one(stage: str) -> Ended:
        if not options.json:
            print(f"{stage}:", flush=True)
        chosen = parser.parse_args([stage, *_arguments(stage, options), *(["--json"] if options.json else [])])
        printed = StringIO()
        with redirect_stdout(printed if options.json else sys.stdout):
            code = chosen.run(chosen)
        return Ended(code, printed.getvalue())

    def check(stage: str, ended: Ended) -> bool:
        if ended.code != 0 or stage != LAST_BEFORE_TRAINING or options.skip_training_below is None:
            return ended.code == 0
        waits = _waits(options.skip_training_below)
        if waits is not None:
            print(f"train: {waits}", file=sys.stderr if options.json else sys.stdout)
        return waits is None

    done: Done[Ended] = Done()
    try:
        in_order(NAMES[: NAMES.index(options.until) + 1], one, check, done)
    except BaseException as error:
        if options.json:  # the stages before may have taken hours, and nobody else says what they did
            print(json.dumps(_told(done, error)), flush=True)
        if isinstance(error, Exception):
            _tell(failure_of("drsr run", error))
        raise
    if options.json:
        print(json.dumps(_told(done)))
    stage, ended = list(done.results.items())[-1]
    if ended.code != 0:
        said = f"drsr {stage} ended with exit code {ended.code}"
        _tell(Failure("drsr run", stage, said, f"drsr {stage} says why and what to do"))
    return ended.code


def _tell(failure: Failure) -> None:
    """Note a failure in the catalog, and tell the hook."""
    from drsr.offline.notices import note_failure, tell_failure

    note_failure(failure)
    tell_failure(failure)


def require_enough(wanted: str | None) -> None:
    """Raise SettingsError for anything but a number of states above 0 or a share."""
    from drsr.offline.publish.refreshes import says_enough

    if wanted is not None and not says_enough(wanted):
        hint = "a number such as 500, or a share of the states that the scorer has seen, such as 2%"
        raise SettingsError(f"--skip-training-below must be at least 1, not {wanted}", hint=hint)


def _waits(wanted: str) -> str | None:
    """Say what waits for training; None if there is enough, or nothing was trained yet."""
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.featurize.views import DEFAULT_VIEW
    from drsr.offline.params import load_params
    from drsr.offline.publish.refreshes import new_labels, note_waiting
    from drsr.settings import load_settings

    with open_catalog(load_settings().catalog_url) as catalog:
        new = new_labels(catalog, DEFAULT_VIEW, "default", load_params().train.source)
        if new is None or not new.are_too_few(wanted):
            return None
        note_waiting(catalog, new.waiting(wanted))
        return new.waiting(wanted)


def _told(done: Done[Ended], error: BaseException | None = None) -> dict[str, dict[str, Any]]:
    """Return what every stage did, and what ended the last one."""
    told: dict[str, dict[str, Any]] = {}
    for stage, seconds in done.seconds.items():
        told[stage] = {"seconds": round(seconds, 3)}
        if stage in done.results:
            code, printed = done.results[stage]
            told[stage] |= {"code": code} | ({"did": json.loads(printed)} if printed else {})
        elif error is not None:
            told[stage] |= {"error": _named(error)}
    return told


def _named(error: BaseException) -> str:
    """Return the reason why a stage ended; `drsr` chooses the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, DrsrError) else f"{type(error).__name__}: {error}"


def _arguments(stage: str, options: argparse.Namespace) -> list[str]:
    match stage:
        case "ingest":
            source = ["--source", options.source] if options.source is not None else []
            return [*([options.location] if options.location else []), *source]
        case "label" | "featurize":
            limit = ["--limit", str(options.limit)] if options.limit is not None and stage == "label" else []
            return ["--workers", str(options.workers), *limit]
        case "publish":
            return ["--not-worse"]
        case _:
            return []
