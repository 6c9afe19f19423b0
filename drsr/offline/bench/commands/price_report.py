"""`drsr prune --price-report TRAJECTORY`: recorded runs in tokens, cached tokens and money, for every way of pruning.

Reading recorded runs belongs to the offline side of the import boundary, so this part of `drsr prune` is added from
here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drsr.offline.bench.price_report import Bill, RunBill
    from drsr.offline.ingest.trajectories import Quarantined, Trajectory

EXAMPLE_PRICES = "3,0.3,3.75,15"


def join(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the option to the existing command."""
    parser = commands.choices["prune"]
    prune = parser.get_default("run")
    group = parser.add_argument_group("price report", "what recorded runs would have cost with this policy")
    group.add_argument(
        "--price-report",
        metavar="TRAJECTORY",
        help="instead of pruning a request: no pruning, per request and session on the runs at this location, in any "
        "format that drsr ingest reads",
    )
    group.add_argument(
        "--prices",
        default=EXAMPLE_PRICES,
        metavar="IN,CACHED,WRITE,OUT",
        help=f"per million tokens of input, cached input, cache write and output (default, an example: "
        f"{EXAMPLE_PRICES})",
    )
    group.add_argument(
        "--expected-calls",
        type=int,
        metavar="N",
        help="calls expected per run (default: estimated from the calls so far)",
    )
    group.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="write each run's bill here as it is computed, and skip runs that are here already",
    )
    group.add_argument("--limit", type=int, metavar="N", help="only the first N runs")
    parser.set_defaults(run=lambda options: run(options) if options.price_report else prune(options))


def run(options: argparse.Namespace) -> int:
    from drsr.errors import InputError
    from drsr.offline.bench.price_report import kept_bills, price_runs, totals
    from drsr.offline.ingest.trajectories import Quarantined
    from drsr.offline.store.progress import progress
    from drsr.policy.loading import load_policy
    from drsr.sessions.prices import Prices
    from drsr.sessions.pruning_session import check_expected_calls
    from drsr.settings import load_settings

    if options.request is not None:
        raise InputError("a price report takes no request", hint="drsr prune --policy POLICY --price-report TRAJECTORY")
    prices = Prices.parse(options.prices)
    check_expected_calls(options.expected_calls)
    device = options.device or load_settings().device
    policy = load_policy(options.policy, backbone=options.backbone, device=device, dtype=options.dtype)
    policy.prepare()
    bills: list[RunBill] = []
    kept = kept_bills(options.resume, policy, prices, options.expected_calls) if options.resume else None
    runs = _runs(options.price_report, options.limit)
    try:
        with progress("price report", "runs") as report:
            for bill in price_runs(runs, policy, prices, options.expected_calls, kept):
                if isinstance(bill, Quarantined):
                    _complain(bill)
                else:
                    bills.append(bill)
                report(len(bills), options.limit)
    except KeyboardInterrupt:
        if kept is not None:
            print(
                f"drsr: {len(bills)} runs are kept in {options.resume}; run the same command to go on", file=sys.stderr
            )
        raise
    if not bills:
        raise InputError("holds no run that can be read", where=options.price_report)
    total = totals(bills)
    if options.json:
        print(json.dumps(_plain(bills, total, options, prices.to_json()), indent=2))
    else:
        print(_text(bills, total, options, policy.version, policy.numbers.backbone.name))
    return 0


def _runs(uri: str, limit: int | None) -> Iterator[Trajectory]:
    from drsr.offline.ingest.formats import read_runs
    from drsr.offline.ingest.trajectories import Trajectory

    taken = 0
    for item in read_runs(uri):
        if not isinstance(item, Trajectory):
            _complain(item)
        elif limit is None or taken < limit:
            taken += 1
            yield item
        else:
            return


def _complain(item: Quarantined) -> None:
    from drsr.tables import printable

    print(printable(f"drsr: left out: {item.location}: {item.reason}: {item.detail}"), file=sys.stderr)


def _plain(
    bills: list[RunBill], total: dict[str, Bill], options: argparse.Namespace, prices: dict[str, float | None]
) -> dict[str, object]:
    return {
        "prices": prices,
        "expected_calls": options.expected_calls,
        "total": {mode: asdict(bill) for mode, bill in total.items()},
        "runs": [{"run": run.name, **{mode: asdict(bill) for mode, bill in run.bills.items()}} for run in bills],
    }


def _text(
    bills: list[RunBill], total: dict[str, Bill], options: argparse.Namespace, version: str, backbone: str
) -> str:
    from drsr.offline.bench.price_report import NO_PRUNING
    from drsr.tables import table

    plain = total[NO_PRUNING]
    rows = [
        (
            mode,
            bill.calls,
            bill.pruned,
            bill.input_tokens,
            bill.cached_tokens,
            bill.output_tokens,
            bill.cost,
            f"{bill.input_tokens / plain.input_tokens - 1:+.1%}",
            f"{bill.cost / plain.cost - 1:+.1%}" if plain.cost else "",
        )
        for mode, bill in total.items()
    ]
    headers = ("mode", "calls", "pruned", "input tokens", "cached", "output", "cost", "tokens", "money")
    return "\n".join(
        [
            f"{len(bills)} runs, policy {version} with {backbone}; prices {options.prices} per million tokens (input, "
            f"cached input, cache write, output); sessions expect {_expected(options.expected_calls)}",
            "",
            table(headers, rows),
        ]
    )


def _expected(calls: int | None) -> str:
    from drsr.sessions.prices import CALLS_PER_CALL_TO_COME

    return f"one more call for every {CALLS_PER_CALL_TO_COME} before" if calls is None else f"{calls} calls"
