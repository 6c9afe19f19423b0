"""Choose the results of a file that fit one table: all methods on the same tasks with the same seeds.

A run that was stopped, or that was asked for some methods only, leaves methods with fewer tasks than others, and a mean
over four tasks cannot be compared with one over forty. So a table takes as many results as it can without a gap, always
including those of the baseline, and names what is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from drsr.offline.bench.harness.episode import Episode
from drsr.offline.bench.harness.runs import BASELINE

Run = tuple[str, int]
"""A task, and the seed that it was run with."""


class Shared(NamedTuple):
    episodes: list[Episode]
    """In the order in which they were given: of every method the same runs."""
    left_out: dict[str, str]
    """Methods that have too few of them, by title, with the reason."""
    runs_left_out: int
    """Tasks and seeds that some method of the table has and another has not."""


def shared_runs(episodes: Sequence[Episode]) -> Shared:
    """Return the largest choice of results that makes a table without a gap."""
    runs: dict[str, set[Run]] = {}
    for episode in episodes:
        runs.setdefault(episode.method, set()).add(_run(episode))
    # The baseline first, then whoever has most; each further method costs the runs that it has not got.
    order = sorted(runs, key=lambda method: (method != BASELINE, -len(runs[method])))
    common, best, kept = set().union(*runs.values()), set[Run](), 0
    for number, method in enumerate(order, start=1):
        common &= runs[method]
        if number * len(common) >= kept * len(best) and common:
            best, kept = set(common), number
    methods = set(order[:kept])
    titles = {episode.method: episode.title for episode in episodes}
    return Shared(
        [episode for episode in episodes if episode.method in methods and _run(episode) in best],
        {titles[method]: _why(runs[method], best) for method in order[kept:]},
        len(set().union(*(runs[method] for method in methods)) - best),
    )


def _why(mine: set[Run], shared: set[Run]) -> str:
    return (
        f"it was run on {len(mine & shared)} of the {len(shared)} that the others share: "
        "drsr evaluate --tasks with the same file runs what is missing"
    )


def _run(episode: Episode) -> Run:
    return episode.task, episode.seed
