"""`drsr dashboard` and `drsr metrics`: the numbers of the catalog's history, as a page and as Prometheus text."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command

if TYPE_CHECKING:
    from drsr.offline.dashboard import Numbers


def add_commands(commands: Commands) -> None:
    page = add_command(
        commands,
        "dashboard",
        run_dashboard,
        json="print all numbers as JSON, and write no page",
        help="write a page about nights, sources, quarantine, labels, drift and releases",
        description="One HTML file that loads nothing, from the catalog's history. The nightly flow writes it too, "
        "where it has a folder for pages. Example: drsr dashboard var/dashboard.html",
    )
    page.add_argument(
        "path", nargs="?", type=Path, default=Path("var", "dashboard.html"), metavar="FILE", help="default: %(default)s"
    )
    metrics = add_command(
        commands,
        "metrics",
        run_metrics,
        json="print the numbers as JSON",
        help="print the numbers of the dashboard as Prometheus text",
        description="Made for node_exporter's textfile collector: run it from cron, or after the night. Example: drsr "
        "metrics --output /var/lib/node_exporter/drsr.prom",
    )
    metrics.add_argument("--output", type=Path, metavar="FILE", help="write to this file, whole or not at all")
    for parser in (page, metrics):
        parser.add_argument("--no-drift", action="store_true", help="leave feature files unread, and drift out")


def run_dashboard(options: argparse.Namespace) -> int:
    from drsr.offline.dashboard import write_dashboard

    numbers = _numbers(options)
    if options.json:
        print(json.dumps(numbers.to_json()))
        return 0
    write_dashboard(options.path, numbers)
    print(f"{options.path.absolute()}: {len(numbers.nights):,} nights, {len(numbers.releases):,} releases")
    return 0


def run_metrics(options: argparse.Namespace) -> int:
    from drsr.files import write_atomically
    from drsr.offline.dashboard import prometheus_text

    numbers = _numbers(options)
    text = json.dumps(numbers.to_json()) + "\n" if options.json else prometheus_text(numbers)
    if options.output is None:
        print(text, end="")
    else:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.output, text.encode())
    return 0


def _numbers(options: argparse.Namespace) -> Numbers:
    import datetime

    from drsr.offline.dashboard import read_numbers
    from drsr.offline.store.kept import kept_here
    from drsr.offline.store.place import opened

    with opened() as place:
        now = datetime.datetime.now(datetime.UTC)
        return read_numbers(place, now, kept_here(), with_drift=not options.no_drift)
