"""`python -m drsr.flows.nightly`: a night on this machine, with its own Prefect server unless one is configured."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drsr.cli import exit_code
from drsr.command_line import Parser
from drsr.errors import DrsrError, ExpectationFailed, NothingThere, ReleaseRefused, SettingsError, SourceUnreachable

HOME = Path("var", "prefect")
"""Folder below the working directory in which the embedded server keeps its runs. `prefect server start` with this as
PREFECT_HOME shows them."""
_CHECKS = (ReleaseRefused, ExpectationFailed, NothingThere, SourceUnreachable)
_EXAMPLES = """\
examples:
  python -m drsr.flows.nightly runs --source agents
  python -m drsr.flows.nightly s3://bucket/runs --processes 4 --index packages
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a night. Exit codes are those of `drsr`: 0 done, 1 a check failed, 2 bad usage or input, 3 our fault, or try
    again.

    A place to read runs from that is away is 1: what was asked is right, and the feed is not.
    """
    options = _parser().parse_args(arguments)
    try:
        parameters = _parameters(options)
        with _server(Path.cwd() / HOME):
            from drsr.flows.nightly import nightly

            outcome: dict[str, Any] = nightly(**parameters)
    except DrsrError as error:
        print(f"drsr: {error}", file=sys.stderr)
        return 1 if isinstance(error, _CHECKS) else exit_code(error)
    except KeyboardInterrupt:
        print("drsr: interrupted; what was recorded stays, and the next run goes on from there", file=sys.stderr)
        return 130
    except Exception as error:  # whose traceback Prefect has shown
        print(f"drsr: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("  hint: this is a fault of drsr; report the traceback", file=sys.stderr)
        return 3
    print(json.dumps(outcome) if options.json else text(outcome))
    return 0


def text(outcome: dict[str, Any]) -> str:
    """Return what a refresh did, for a terminal."""
    from drsr.offline.publish.simple_index import install_command

    lines = [f"{stage + ':':<11} {did['said']}" for stage, did in outcome["stages"].items()]
    ended = outcome["outcome"]
    lines += ["", outcome["headline"] + (", recorded in dvc.lock" if outcome["recorded"] else "")]
    if "wheel" in ended:
        lines += [f"  {ended['wheel']}", f"  {install_command(Path(ended['index']))}"]
    return "\n".join([*lines, f"  journal {outcome['journal']}"])


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m drsr.flows.nightly",
        description="Ingest, freeze, label, featurize, train, calibrate, evaluate, publish: on what is new, and no "
        "further than the first check that fails. Run it again to do what is left.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("locations", nargs="+", metavar="URI", help="where the recorded runs are")
    parser.add_argument("--source", help="source name for all locations")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="for label and featurize (default: 1)")
    parser.add_argument("--certified", action="store_true", help="calibrate with a bound on the unsafe rate")
    parser.add_argument("--ablations", action="store_true", help="evaluate every configuration")
    parser.add_argument("--index", default="var/index", metavar="FOLDER", help="the index (default: var/index)")
    parser.add_argument("--docs", metavar="FOLDER", help="write pages there about what was expected of the data")
    parser.add_argument(
        "--skip-training-below",
        metavar="N",
        help="stop after featurize unless at least N states, or N%% of those that the latest scorer was trained "
        "on, have been labelled since",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Checked before anything is started."""
    from drsr.flows.parameters import FanOut, Location
    from drsr.offline.commands.run import require_enough

    try:
        locations = [Location(uri=uri, source=options.source) for uri in options.locations]
        fan_out = FanOut(processes=options.processes)
    except ValidationError as error:
        problem = error.errors()[0]
        raise SettingsError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None
    require_enough(options.skip_training_below)
    for name in ("index", "docs"):
        if getattr(options, name) == "":
            raise SettingsError(f"--{name} names no folder")
    is_repository = all(Path(name).exists() for name in (".dvc", "dvc.yaml"))
    passed_on = ("certified", "ablations", "index", "docs", "skip_training_below")
    same: dict[str, Any] = {name: getattr(options, name) for name in passed_on}
    return {"locations": locations, "fan_out": fan_out, "dvc": is_repository, **same}


def _load_stages() -> None:
    """Import the flow while the server starts. Torch is not part of it: a night that finds nothing new needs none."""
    import drsr.flows.nightly  # noqa: F401


@contextmanager
def _server(home: Path) -> Iterator[None]:
    """Use the configured server, or else a quiet one of ours for as long as the block lasts."""
    from prefect.settings import PREFECT_API_URL

    if PREFECT_API_URL.value():
        yield
        return
    from drsr.flows.embedded_server import with_embedded_server

    quieten_prefect(os.environ.get("PREFECT_LOGGING_LEVEL"))
    with with_embedded_server(home, _load_stages):
        yield


def quieten_prefect(level: str | None) -> None:
    """Let a terminal show warnings alone, and no failure that is said at the end; all of it where a level is chosen."""
    for name in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).setLevel(level or "WARNING")
    if level is None:
        import prefect.main  # noqa: F401 - which sets up what is shown

        for handler in logging.getLogger().handlers:  # not the one that keeps everything for Prefect's page
            handler.addFilter(_is_not_said_at_the_end)


def _is_not_said_at_the_end(record: logging.LogRecord) -> bool:
    """Return whether a log record is anything but one of our errors on its way through tasks and flows.

    Each of them would show it with a hundred lines of Prefect's own calls.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, DrsrError) and not record.getMessage().startswith("Finished in state ")
