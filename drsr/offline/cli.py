"""The offline sub-commands of `drsr`: one file each under `commands/`, which import what they need when they run."""

from __future__ import annotations

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
    run,
    status,
    withdraw,
)
from drsr.offline.commands.stages import calibrate, evaluate, freeze, ingest, measure, publish, train
from drsr.offline.sandbox import cli as sandbox


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
        catalog,
        harm,
    ):
        command.add_commands(commands)
    sandbox.add_commands(commands)
    price_report.join(commands)
