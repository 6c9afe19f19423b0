"""The offline sub-commands of `drsr`: one file each under `commands/`, which import what they need when they run."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from drsr.command_line import Commands
from drsr.offline.bench.commands import harm, price_report, report
from drsr.offline.commands import (
    audit,
    catalog,
    corpus,
    dashboard,
    erase,
    exports,
    journal,
    plan,
    promise,
    query,
    run,
    status,
    withdraw,
)
from drsr.offline.commands.stages import calibrate, evaluate, freeze, ingest, measure, publish, train
from drsr.offline.sandbox import cli as sandbox
from drsr.offline.stages import STAGES


def add_commands(commands: Commands) -> None:
    """Called by `drsr.cli` through the entry-point group `drsr.commands`, in the order of a run."""
    stages = (ingest, freeze, plan, measure, train, calibrate, evaluate, publish)
    for command in (
        corpus,
        *stages,
        run,
        promise,
        journal,
        audit,
        report,
        status,
        dashboard,
        withdraw,
        erase,
        exports,
        query,
        catalog,
        harm,
    ):
        command.add_commands(commands)
    for stage in STAGES:
        _emit_lineage(commands.choices[stage.name], stage.name)
    sandbox.add_commands(commands)
    price_report.join(commands)


def _emit_lineage(parser: argparse.ArgumentParser, stage: str) -> None:
    """Let a stage's command emit OpenLineage events around what it does."""
    run: Callable[[argparse.Namespace], int] = parser.get_default("run")

    def emitting_run(options: argparse.Namespace) -> int:
        from drsr.offline.notices import emitting

        uri = getattr(options, "uri", None)  # of ingest
        with emitting(stage, [] if uri is None else [uri]) as ending:
            code = run(options)
            ending.failed = f"exit code {code}" if code else None
        return code

    parser.set_defaults(run=emitting_run)
