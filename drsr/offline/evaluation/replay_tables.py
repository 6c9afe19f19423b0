"""A replay as a table and the frontier of removal against unsafe rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from drsr.offline.commands.metric_cells import cell
from drsr.offline.evaluation.analyses.analysis import Analysis, Cell
from drsr.offline.evaluation.analyses.figures import OURS, PAPER, figure
from drsr.offline.evaluation.replay import Replayed
from drsr.offline.evaluation.replay_summary import MethodSummary, by_domain, summarise
from drsr.offline.metrics import Bootstrap, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTICE = (
    "A replay with a fixed target: how much less likely the recorded next output became under each rewritten request. "
    "It is not task reward: nobody acts on the rewritten request, and a summary is judged by an output that never saw "
    "one."
)
COLUMNS = (
    *("method", "trained", "decisions", "removed", "removed, equal-domain", "harm", "unsafe", "unsafe, equal-domain"),
    *("unsafe of changed", "left alone", "auxiliary tokens", "net removed", "ms", "invalid", "fell back", "task lost"),
)


def replay_table(rows: Sequence[Replayed], bootstrap: Bootstrap) -> Analysis:
    """Overall: every method on every recorded decision."""
    found = summarise(rows, bootstrap)
    cells = tuple(_cells(one) for one in found)

    def draw(axes: Axes) -> None:
        for one in found:
            ours = one.method.startswith("drsr")
            x, y = one.removal.value, one.unsafe.value
            if np.isnan(x) or np.isnan(y):
                continue
            axes.plot([100 * x], [100 * y], "D" if ours else "o", color=PAPER if ours else OURS, markersize=5)
            place = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 6}
            axes.annotate(one.title, (100 * x, 100 * y), **place)  # type: ignore[arg-type]
        axes.set(xlabel="removed, % of the request", ylabel="decisions made unsafe, %")

    states, runs = len({row.state_key for row in rows}), len({row.run for row in rows})
    return Analysis(
        "replay",
        "Every method on the same recorded decisions",
        f"{states} decisions of {runs} runs. {NOTICE} Every task counts once; 95 % intervals in brackets resample "
        "whole tasks. Right and low is good: much removed, little made unsafe.",
        COLUMNS,
        cells,
        figure(draw, width=7.5, height=4.2),
    )


def replay_by_domain(rows: Sequence[Replayed], bootstrap: Bootstrap) -> Analysis:
    """The same for each domain alone."""
    domains: Mapping[str, list[MethodSummary]] = by_domain(rows, bootstrap)
    cells = [(domain, *_cells(one)) for domain, found in domains.items() for one in found]
    return Analysis(
        "replay_by_domain",
        "The same by domain",
        "As above, for each domain alone.",
        ("domain", *COLUMNS),
        tuple(cells),
        b"",
    )


def _cells(found: MethodSummary) -> tuple[Cell, ...]:
    return (
        *(found.title, found.trained, found.decisions),
        *map(_metric, (found.removal, found.removal_by_domain, found.harm, found.unsafe, found.unsafe_by_domain)),
        *map(_metric, (found.unsafe_of_changed, found.abstained)),
        *(round(found.auxiliary_tokens.value, 1), _metric(found.net_removal), round(found.milliseconds, 1)),
        *(found.invalid, found.fell_back, found.lost_task),
    )


def _metric(metric: Metric) -> str:
    return cell(metric)
