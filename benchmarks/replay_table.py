"""Print a replay as the Markdown of docs/benchmarks.md, finished or not: `python -m benchmarks.replay_table JOURNAL`.

Reads journals of `drsr evaluate --replay` alone: no catalog, no text and no language model. Prints the decisions that
every method has by now, the methods that removed anything, and where DRSR ranks among those that keep to an unsafe
rate. `--figure FILE.svg` draws the frontier, `--domains` adds the same by domain, `--methods A,B` looks at some alone:
a row that has few decisions yet takes the others from the table of all. Several journals, of sources that were replayed
in parallel, count as one; `--joined FILE` keeps them as one, from which a replay can continue.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import markdown
from drsr.errors import DrsrError, InputError
from drsr.offline.bench.replay.chosen_methods import wanted_names
from drsr.offline.bench.replay.file import Replay, ReplayFile, chosen_rows, read_replay
from drsr.offline.bench.replay.stage import Replayed
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


class Reading(NamedTuple):
    """One way to read the limit."""

    name: str
    unsafe: Callable[[MethodSummary], Metric]


READINGS = (
    Reading("Of all decisions", lambda one: one.unsafe),
    Reading("Of what it changed", lambda one: one.unsafe_of_changed),
)
"""The first is kinder to methods that change little; policies are calibrated by the second."""


def some_methods(replay: Replay, wanted: Sequence[str] | None) -> Replay:
    """Return the replay with every decision that was ever asked for, of these methods or of all."""
    if wanted is not None and (unknown := sorted(set(wanted) - replay.present.keys())):
        raise InputError(
            f"no rows of {', '.join(unknown)}", where="journal", hint=f"there are {', '.join(sorted(replay.present))}"
        )
    versions = {name: version for name, version in replay.present.items() if wanted is None or name in wanted}
    return replay._replace(rows=chosen_rows(replay.rows, None, versions), decisions=None)


def join(journals: Sequence[tuple[Path, Replay]]) -> Replay:
    """Join several journals into one, each decision and method once; if a method has several versions, the last
    counts."""
    (first, whole), *others = journals
    for path, other in others:
        if other.about != whole.about:
            raise InputError(
                f"was made otherwise than {first}: {_difference(whole, other)}",
                where=str(path),
                hint="print them one by one",
            )
    rows = {(row.state_key, row.method, row.version): row for _, each in reversed(journals) for row in each.rows}
    notes = {name: note for _, each in journals for name, note in each.notes.items()}
    return Replay(whole.about, notes, list(rows.values()))


def _difference(one: Replay, other: Replay) -> str:
    names = sorted(one.about.keys() | other.about.keys())
    return ", ".join(name for name in names if one.about.get(name) != other.about.get(name))


def keep(replay: Replay, path: Path) -> None:
    """Write a replay as a new journal."""
    if path.exists():
        raise InputError("is there already", where=str(path), hint="name a new file with --joined")
    about = {name: value for name, value in replay.about.items() if name != "format"}
    with ReplayFile(path, about) as file:
        file.describe(replay.notes.values(), {row.state_key for row in replay.rows})
        file.add(replay.rows)


def table(found: Comparison) -> str:
    """Methods by what they remove, DRSR's own in bold, and the rest in a sentence."""
    ordered = sorted(found.methods, key=lambda one: -one.removal.value)
    rows = [_cells(one) for one in ordered if one.removal.value >= LEAST_REMOVED]
    idle = [one.method for one in ordered if one.removal.value < LEAST_REMOVED]
    said = f"\n\nBelow {LEAST_REMOVED:.1%} removed: {', '.join(idle)}." if idle else ""
    return markdown(HEADER, rows) + said


def standing(rows: Sequence[Replayed], found: Comparison, bootstrap: Bootstrap) -> str:
    """Report where each of DRSR's policies ranks among the methods that keep to the limit, by both readings of it, and
    compared with its other policy; `found` compares `rows`."""
    others = [one for one in found.methods if not one.method.startswith("drsr")]
    said = [
        f"{ours.method} removes {_percent(ours.removal)} %. "
        + " ".join(_ranked(reading, ours, others, rows, bootstrap) for reading in READINGS)
        for ours in found.methods
        if ours.method in OUR_METHODS
    ]
    ours = [name for name in OUR_METHODS if any(one.method == name for one in found.methods)]
    for one, other in itertools.combinations(reversed(ours), 2):
        lead = difference(rows, one, other, bootstrap)
        said.append(f"Decision by decision {one} removes {_percent(lead)} points more than {other}.")
    return " ".join(said) or "DRSR has no row here."


def _ranked(
    reading: Reading,
    ours: MethodSummary,
    others: Sequence[MethodSummary],
    rows: Sequence[Replayed],
    bootstrap: Bootstrap,
) -> str:
    mine = reading.unsafe(ours)
    name = f"{reading.name} {_percent(mine)} % are unsafe"
    if not mine.value <= UNSAFE_LIMIT:
        return f"{name}, more than the {UNSAFE_LIMIT:.0%} that it must keep to."
    name += f" (the interval reaches above {UNSAFE_LIMIT:.0%})" if mine.high > UNSAFE_LIMIT else ""
    within = [one for one in others if reading.unsafe(one).value <= UNSAFE_LIMIT and one.removal.value >= LEAST_REMOVED]
    if not within:
        return f"{name}: no other method that removes {LEAST_REMOVED:.1%} or more keeps to {UNSAFE_LIMIT:.0%}."
    best = max(within, key=lambda one: one.removal.value)
    more = "more than any other method" if ours.removal.value > best.removal.value else "not the most"
    apart = ours.removal.low > best.removal.high or best.removal.low > ours.removal.high
    lead = difference(rows, ours.method, best.method, bootstrap)
    return (
        f"{name}: {more} within {UNSAFE_LIMIT:.0%}. The {'next' if more.startswith('more') else 'best'} is "
        f"{best.method}, {_percent(best.removal)} % at {_percent(reading.unsafe(best))} % unsafe; the intervals "
        f"{'do not overlap' if apart else 'overlap'}. Decision by decision {ours.method} removes {_percent(lead)} "
        "points more."
    )


def difference(rows: Sequence[Replayed], one: str, other: str, bootstrap: Bootstrap) -> Metric:
    """Compare the removals of two methods, decision by decision, on those that every method has measured."""
    theirs = {row.state_key: row for row in rows if row.method == other}
    apart = [
        row._replace(method="difference", removed_tokens=row.removed_tokens - theirs[row.state_key].removed_tokens)
        for row in rows
        if row.method == one and row.state_key in theirs
    ]
    return next(each.removal for each in compare([*rows, *apart], bootstrap).methods if each.method == "difference")


def _cells(one: MethodSummary) -> list[str]:
    name = f"**{one.method}**" if one.method in OUR_METHODS else one.method
    harm = f"{one.harm.value:.3f} [{one.harm.low:.3f}, {one.harm.high:.3f}]"
    rates = (one.unsafe, one.unsafe_of_changed, one.abstained)
    return [name, _percent(one.removal), harm, *map(_percent, rates), f"{one.auxiliary_tokens.value:,.0f}"]


def _percent(metric: Metric) -> str:
    """Return a percentage, without an interval if a single task gives none."""
    if metric.value != metric.value:
        return "-"
    interval = "" if metric.low != metric.low else f" [{100 * metric.low:.1f}, {100 * metric.high:.1f}]"
    return f"{100 * metric.value:.1f}{interval}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replay_table", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("journal", type=Path, nargs="+", help="what drsr evaluate --replay wrote")
    parser.add_argument("--joined", type=Path, metavar="FILE", help="keep all of them as one new journal")
    parser.add_argument("--methods", metavar="A,B", help="only these")
    parser.add_argument("--figure", type=Path, metavar="FILE.svg", help="draw the frontier as well")
    parser.add_argument("--domains", action="store_true", help="the same by domain as well")
    parser.add_argument("--replicates", type=int, default=2_000, metavar="N", help="of the intervals (default: 2000)")
    options = parser.parse_args()
    try:
        whole = join([(path, read_replay(path)) for path in options.journal])
        if options.joined:
            keep(whole, options.joined)
        replay = some_methods(whole, wanted_names(options.methods))
        found = compare(replay.rows, bootstrap := Bootstrap(options.replicates)) if replay.rows else None
        if found is None or not found.decisions:
            raise InputError("no decision has a row of every method", where="journal", hint="--methods A,B")
    except DrsrError as error:
        print(error, file=sys.stderr)
        return 2
    print(
        "\n\n".join(
            [found.population, table(found), f"**Where DRSR stands**: {standing(replay.rows, found, bootstrap)}"]
        )
    )
    if options.domains:
        for domain, mine in by_domain(replay.rows, bootstrap).items():
            print("\n" + "\n\n".join([f"{domain}. {mine.population}", table(mine)]))
    if options.figure:
        options.figure.write_bytes(draw_frontier(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
