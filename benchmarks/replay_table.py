"""Print a replay as the Markdown of docs/benchmarks.md, finished or not: `python -m benchmarks.replay_table JOURNAL`.

Reads a journal of `drsr evaluate --replay` alone: no catalog, no text and no language model. Prints the decisions that
every method has by now, the methods that removed anything, and where DRSR ranks among those that keep to an unsafe
rate. `--figure FILE.svg` draws the frontier, `--domains` adds the same by domain, `--methods A,B` looks at some alone:
a row that has few decisions yet takes the others from the table of all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.corpus import markdown
from drsr.errors import DrsrError, InputError
from drsr.offline.bench.replay.chosen_methods import wanted_names
from drsr.offline.bench.replay.file import Replay, chosen_rows, read_replay
from drsr.offline.bench.replay.summary import Comparison, MethodSummary, by_domain, compare
from drsr.offline.bench.replay.tables import OUR_METHODS, draw_frontier
from drsr.offline.train.metrics import Bootstrap, Metric

UNSAFE_LIMIT = 0.10
LEAST_REMOVED = 0.001
"""A method that removes less than this part of a request is named below the table."""
HEADER = (
    *("method", "removed, %", "harm, nats per token", "unsafe decisions, %", "unsafe of changed, %"),
    *("left alone, %", "auxiliary tokens"),
)


def some_methods(replay: Replay, wanted: Sequence[str] | None) -> Replay:
    """The replay with every decision that was ever asked for, of these methods or of all."""
    if wanted is not None and (unknown := sorted(set(wanted) - replay.present.keys())):
        raise InputError(
            f"no rows of {', '.join(unknown)}", where="journal", hint=f"there are {', '.join(sorted(replay.present))}"
        )
    versions = {name: version for name, version in replay.present.items() if wanted is None or name in wanted}
    return replay._replace(rows=chosen_rows(replay.rows, None, versions), decisions=None)


def table(found: Comparison) -> str:
    """Methods by what they remove, DRSR's own in bold, and the rest in a sentence."""
    ordered = sorted(found.methods, key=lambda one: -one.removal.value)
    rows = [_cells(one) for one in ordered if one.removal.value >= LEAST_REMOVED]
    idle = [one.method for one in ordered if one.removal.value < LEAST_REMOVED]
    said = f"\n\nBelow {LEAST_REMOVED:.1%} removed: {', '.join(idle)}." if idle else ""
    return markdown(HEADER, rows) + said


def standing(found: Comparison, limit: float = UNSAFE_LIMIT) -> str:
    """Say of each of DRSR's policies where it ranks among the methods that keep to the limit."""
    others = [one for one in found.methods if not one.method.startswith("drsr")]
    within = sorted((one for one in others if one.unsafe.value <= limit), key=lambda one: -one.removal.value)
    said = [_ranked(one, within, limit) for one in found.methods if one.method in OUR_METHODS]
    return " ".join(said) or "DRSR has no row here."


def _ranked(ours: MethodSummary, within: Sequence[MethodSummary], limit: float) -> str:
    name = f"{ours.method} removes {_percent(ours.removal)} % with {_percent(ours.unsafe)} % of the decisions unsafe"
    if ours.unsafe.value > limit:
        return f"{name}: more than the {limit:.0%} that it must keep to."
    if not within:
        return f"{name}: no other method keeps to {limit:.0%}."
    best = within[0]
    rival = f"{best.method} ({_percent(best.removal)} % at {_percent(best.unsafe)} % unsafe)"
    if ours.removal.low > best.removal.high:
        return f"{name}: more than any other method at most {limit:.0%} unsafe, clearly: the next is {rival}."
    if best.removal.low > ours.removal.high:
        return f"{name}: less than {rival}, clearly."
    more = "more than any other method" if ours.removal.value > best.removal.value else "not the most"
    return f"{name}: {more} at most {limit:.0%} unsafe, but the interval overlaps that of {rival}."


def _cells(one: MethodSummary) -> list[str]:
    name = f"**{one.method}**" if one.method in OUR_METHODS else one.method
    harm = f"{one.harm.value:.3f} [{one.harm.low:.3f}, {one.harm.high:.3f}]"
    rates = (one.unsafe, one.unsafe_of_changed, one.abstained)
    return [name, _percent(one.removal), harm, *map(_percent, rates), f"{one.auxiliary_tokens.value:,.0f}"]


def _percent(metric: Metric) -> str:
    """Without an interval where one task alone gives none."""
    if metric.value != metric.value:
        return "-"
    interval = "" if metric.low != metric.low else f" [{100 * metric.low:.1f}, {100 * metric.high:.1f}]"
    return f"{100 * metric.value:.1f}{interval}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replay_table", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("journal", type=Path, help="what drsr evaluate --replay wrote")
    parser.add_argument("--methods", metavar="A,B", help="only these")
    parser.add_argument("--figure", type=Path, metavar="FILE.svg", help="draw the frontier as well")
    parser.add_argument("--domains", action="store_true", help="the same by domain as well")
    parser.add_argument("--replicates", type=int, default=2_000, metavar="N", help="of the intervals (default: 2000)")
    options = parser.parse_args()
    try:
        replay = some_methods(read_replay(options.journal), wanted_names(options.methods))
        found = compare(replay.rows, bootstrap := Bootstrap(options.replicates)) if replay.rows else None
        if found is None or not found.decisions:
            raise InputError("no decision has a row of every method", where=str(options.journal), hint="--methods A,B")
    except DrsrError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n\n".join([found.population, table(found), f"**Where DRSR stands**: {standing(found)}"]))
    if options.domains:
        for domain, mine in by_domain(replay.rows, bootstrap).items():
            print("\n" + "\n\n".join([f"{domain}. {mine.population}", table(mine), standing(mine)]))
    if options.figure:
        options.figure.write_bytes(draw_frontier(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
