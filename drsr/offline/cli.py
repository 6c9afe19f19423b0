"""The offline sub-commands of `drsr`: one file each under `commands/`, which import what they need when they run."""

from __future__ import annotations

import argparse

from drsr.offline.bench.commands import harm, price_report, report
from drsr.offline.commands import audit, catalog, corpus, exports, plan, run, status, withdraw
from drsr.offline.commands.stages import calibrate, evaluate, featurize, freeze, ingest, label, publish, train
from drsr.offline.sandbox import cli as sandbox


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Called by `drsr.cli` through the entry-point group `drsr.commands`, in the order of a run."""
    stages = (ingest, freeze, plan, label, featurize, train, calibrate, evaluate, publish)
    for command in (corpus, *stages, run, audit, report, status, withdraw, exports, catalog, harm):
        command.add_command(commands)
    sandbox.add_commands(commands)
    price_report.join(commands)
