"""A replay as a section of the report: what each method removes and breaks, the frontier, costs, and assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drsr.offline.commands.metric_cells import cell, cells
from drsr.offline.evaluation.analyses.analysis import Analysis, Cell, Section
from drsr.offline.evaluation.analyses.figures import OURS, PAPER, figure
from drsr.offline.evaluation.replay import Replayed
from drsr.offline.evaluation.replay_file import MethodNote, Replay
from drsr.offline.evaluation.replay_summary import MethodSummary, by_domain, summarise
from drsr.offline.metrics import Bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTICE = (
    "A replay with a fixed target: how much less likely the recorded next output became under each rewritten request. "
    "It is not task reward: nobody acts on the rewritten request, and a summary is judged by an output that never saw "
    "one."
)
EFFECTS = (
    *("removed", "removed, equal-domain", "harm", "unsafe", "unsafe, equal-domain"),
    *("unsafe of changed", "left alone"),
)
OUR_METHOD = "drsr"
MOST_NUMBERS = 3
"""More methods than this at one place of the figure are counted, not listed."""
PANELS = 4
"""Most domains that get a panel of their own."""


class Point(NamedTuple):
    """Where methods stand in the frontier: those at one place are one point."""

    numbers: tuple[int, ...]
    """Of the methods, as in the table."""
    title: str
    """Of DRSR where it is among them, else of the first."""
    removal: float
    unsafe: float
    ours: bool
    best: bool
    """Nobody removes as much with fewer unsafe decisions, or more with as few."""

    @property
    def label(self) -> str:
        """What the figure says beside it: numbers, and names where they matter."""
        if len(self.numbers) > MOST_NUMBERS:
            return f"{self.title} and {len(self.numbers) - 1} others"
        numbers = ", ".join(map(str, self.numbers))
        return f"{numbers} {self.title}" if self.best or self.ours else numbers


def replay_section(replay: Replay | None, bootstrap: Bootstrap) -> Section:
    """Everything that a replay says; without one, that there is none."""
    title = "Every method on the same recorded decisions"
    if replay is None or not replay.rows:
        return Section(title, [], {"replay": "nothing was replayed: drsr evaluate --replay"})
    rows, found = replay.rows, summarise(replay.rows, bootstrap)
    analyses = [_effects(rows, found), _costs(found)]
    if len({row.domain for row in rows}) > 1:
        analyses.append(_domains(rows, bootstrap))
    left_out = {note.title: note.left_out for note in replay.notes.values() if note.left_out}
    described = [note for note in replay.notes.values() if not note.left_out]
    return Section(title, [*analyses, _methods(described)] if described else analyses, left_out)


def frontier(found: Iterable[tuple[int, MethodSummary]], *, equal_domain: bool = False) -> list[Point]:
    """Removal and unsafe rate of every numbered method; which of them nobody beats."""
    places: dict[tuple[float, float], list[tuple[int, MethodSummary]]] = {}
    for number, one in found:
        removal, unsafe = (one.removal_by_domain, one.unsafe_by_domain) if equal_domain else (one.removal, one.unsafe)
        if not np.isnan(removal.value) and not np.isnan(unsafe.value):
            places.setdefault((round(removal.value, 6), round(unsafe.value, 6)), []).append((number, one))
    return [
        Point(
            tuple(number for number, _ in mine),
            next((one.title for _, one in mine if one.method == OUR_METHOD), mine[0][1].title),
            removal,
            unsafe,
            any(one.method == OUR_METHOD for _, one in mine),
            not any(
                other_removal >= removal
                and other_unsafe <= unsafe
                and (other_removal, other_unsafe) != (removal, unsafe)
                for other_removal, other_unsafe in places
            ),
        )
        for (removal, unsafe), mine in places.items()
    ]


def _effects(rows: Sequence[Replayed], found: Sequence[MethodSummary]) -> Analysis:
    several = len({row.domain for row in rows}) > 1
    numbered = list(enumerate(found, start=1))

    def draw(*panels: Axes) -> None:
        for axes, equal_domain in zip(panels, (False, True), strict=False):
            _draw(axes, frontier(numbered, equal_domain=equal_domain))
            if several:
                axes.set_title("every domain counts once" if equal_domain else "every task counts once", fontsize=9)

    states, runs, tasks = (len({getattr(row, name) for row in rows}) for name in ("state_key", "run", "task"))
    return Analysis(
        "replay",
        "What each method removes, and what that does to the recorded output",
        f"{states:,} decisions of {runs:,} runs, tasks: {tasks:,}. {NOTICE} Removed and unsafe are shares of the "
        "request and of the decisions, harm is in nats per token of the output. Every task counts once, in the columns "
        "named so every domain. 95 % intervals in brackets resample whole tasks. In the figure right and low is good; "
        "the line joins the methods that nobody beats in both, numbers are those of the table.",
        ("no", "method", *EFFECTS),
        tuple((number, one.title, *_effect_cells(one)) for number, one in numbered),
        figure(draw, panels=1 + several, width=4.6 if several else 7.4, height=4.4),
    )


def _costs(found: Sequence[MethodSummary]) -> Analysis:
    columns = ("decisions", "measured", "auxiliary tokens", "net removed", "ms", "invalid", "fell back", "task lost")
    return Analysis(
        "replay_costs",
        "What each method costs, and what it breaks",
        "Auxiliary tokens are those of the method's own model calls, per decision it was asked about; net removed "
        "takes them off. ms is the median time to rewrite a request on this machine. Invalid are rewrites that broke "
        "the protocol: they were not sent, the request went on as it was; that, and any other failure, is falling "
        "back. Task lost: the user's task is no longer there as it was put.",
        ("no", "method", "trained", *columns),
        tuple(
            (
                *(number, one.title, one.trained, one.decisions, one.measured),
                *(round(one.auxiliary_tokens.value, 1), cell(one.net_removal), round(one.milliseconds, 1)),
                *(one.invalid, one.fell_back, one.lost_task),
            )
            for number, one in enumerate(found, start=1)
        ),
        b"",
    )


def _domains(rows: Sequence[Replayed], bootstrap: Bootstrap) -> Analysis:
    domains = by_domain(rows, bootstrap)
    shown = list(domains)[:PANELS]

    def draw(*panels: Axes) -> None:
        for axes, domain in zip(panels, shown, strict=True):
            _draw(axes, frontier(enumerate(domains[domain], start=1)))
            axes.set_title(domain, fontsize=9)

    return Analysis(
        "replay_by_domain",
        "The same by domain",
        "As above, for each domain alone." + ("" if len(domains) <= PANELS else f" The figure has {PANELS} of them."),
        ("domain", "no", "method", "decisions", *(name for name in EFFECTS if not name.endswith("equal-domain"))),
        tuple(
            (
                *(domain, number, one.title, one.decisions),
                *cells([one.removal, one.harm, one.unsafe, one.unsafe_of_changed, one.abstained]),
            )
            for domain, found in domains.items()
            for number, one in enumerate(found, start=1)
        ),
        figure(draw, panels=len(shown), width=3.2),
    )


def _methods(notes: Sequence[MethodNote]) -> Analysis:
    trained = "untrained: an ordinary model takes the place of a trained one; stand-in: a simple rule does"
    return Analysis(
        "methods",
        "The methods, and what was assumed",
        f"What a method claims to keep is checked on every output. {trained}; here: trained on our own train split.",
        ("method", "trained", "claims to keep", "assumptions"),
        tuple((note.title, note.trained, ", ".join(note.keeps), " ".join(note.assumptions)) for note in notes),
        b"",
    )


def _effect_cells(found: MethodSummary) -> tuple[Cell, ...]:
    metrics = (found.removal, found.removal_by_domain, found.harm, found.unsafe, found.unsafe_by_domain)
    return tuple(cells([*metrics, found.unsafe_of_changed, found.abstained]))


def _draw(axes: Axes, points: Sequence[Point]) -> None:
    best = sorted((100 * point.removal, 100 * point.unsafe) for point in points if point.best)
    axes.plot([x for x, _ in best], [y for _, y in best], "-", color=OURS, linewidth=0.8)
    for point in points:
        x, y = 100 * point.removal, 100 * point.unsafe
        axes.plot([x], [y], "D" if point.ours else "o", color=PAPER if point.ours else OURS, markersize=4.5)
        # Many do no harm: their labels go below, so that the longest, of those that do nothing, has room.
        above = 5 if y or len(point.numbers) > MOST_NUMBERS else -10
        axes.annotate(point.label, (x, y), xytext=(3, above), textcoords="offset points", fontsize=6.5)
    axes.margins(x=0.12, y=0.1)
    axes.set(xlabel="removed, % of the request", ylabel="decisions made unsafe, %")
