"""A replay as a section of the report: what each method removes and breaks, the frontier, costs, and assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drsr.offline.bench.analyses.analysis import Analysis, Section
from drsr.offline.bench.analyses.figures import OURS, PAPER, figure
from drsr.offline.bench.replay.file import MethodNote, Replay
from drsr.offline.bench.replay.label_placing import PlotLabel, place_labels
from drsr.offline.bench.replay.summary import Comparison, MethodSummary, by_domain, compare
from drsr.offline.bench.trainings import different_trainings
from drsr.offline.train.metrics import Bootstrap, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTICE = (
    "A replay with a fixed target: how much less likely the recorded next output became under each rewritten request. "
    "It is not task reward: nobody acts on the rewritten request, and a summary is judged by an output that never saw "
    "one."
)
EFFECTS = (
    *("removed", "removed, equal-domain", "removed tokens", "harm", "unsafe", "unsafe, equal-domain"),
    *("unsafe of changed", "left alone"),
)
OUR_METHODS = ("drsr", "drsr_light")
"""Whole policies of DRSR; its ablations are others."""
MOST_NUMBERS = 3
"""More methods than this at one place of the figure are counted, not listed."""
PANELS = 4
"""Largest number of domains that get a separate panel."""


class Point(NamedTuple):
    """A point of the frontier: methods in the same place share one point."""

    numbers: tuple[int, ...]
    """Numbers of the methods, as in the table."""
    title: str
    """Title of DRSR if it is among them, else of the first."""
    removal: float
    unsafe: float
    ours: bool
    best: bool
    """True if no method removes as much with fewer unsafe decisions, or more with as few."""

    @property
    def label(self) -> str:
        """Return the text next to the point: numbers, and names where they matter."""
        if len(self.numbers) > MOST_NUMBERS:
            return f"{self.title} and {len(self.numbers) - 1} others"
        numbers = ", ".join(map(str, self.numbers))
        return f"{numbers} {self.title}" if self.best or self.ours else numbers


def replay_section(replay: Replay | None, bootstrap: Bootstrap) -> Section:
    """Return everything that a replay shows or, without one, a note that there is none."""
    title = "Every method on the same recorded decisions"
    rows = [] if replay is None else replay.current
    if replay is None or not rows:
        return Section(title, [], {"replay": "nothing was replayed: drsr evaluate --replay"})
    found = compare(rows, bootstrap)
    if not found.decisions:
        why = f"no decision has a row of every method: {found.population} drsr evaluate --replay replays the others"
        return Section(title, [], {"replay": why})
    analyses = [_effects(found, replay), _costs(found)]
    if failures := _failures(found):
        analyses.append(failures)
    if found.domains > 1:
        analyses.append(_domains(by_domain(rows, bootstrap)))
    left_out = {note.title: note.left_out for note in replay.notes.values() if note.left_out}
    described = [_methods(replay.described)] if replay.described else []
    return Section(title, [*analyses, *described], left_out)


def frontier(found: Iterable[tuple[int, MethodSummary]], *, equal_domain: bool = False) -> list[Point]:
    """Return removal and unsafe rate of every numbered method, and which of them are unbeaten."""
    places: dict[tuple[float, float], list[tuple[int, MethodSummary]]] = {}
    for number, one in found:
        removal, unsafe = (one.removal_by_domain, one.unsafe_by_domain) if equal_domain else (one.removal, one.unsafe)
        if not np.isnan(removal.value) and not np.isnan(unsafe.value):
            places.setdefault((round(removal.value, 6), round(unsafe.value, 6)), []).append((number, one))
    return [
        Point(
            tuple(number for number, _ in mine),
            next((one.title for _, one in mine if one.method in OUR_METHODS), mine[0][1].title),
            removal,
            unsafe,
            any(one.method in OUR_METHODS for _, one in mine),
            not any(
                other_removal >= removal
                and other_unsafe <= unsafe
                and (other_removal, other_unsafe) != (removal, unsafe)
                for other_removal, other_unsafe in places
            ),
        )
        for (removal, unsafe), mine in places.items()
    ]


def draw_frontier(found: Comparison) -> bytes:
    """Return the frontier as SVG, its points numbered in the order of the methods; with several domains, a second panel
    in which every domain counts once."""
    several = found.domains > 1
    numbered = list(enumerate(found.methods, start=1))

    def draw(*panels: Axes) -> None:
        points = [frontier(numbered, equal_domain=equal_domain) for equal_domain in (False, True)[: len(panels)]]
        for axes, mine, title in zip(
            panels, points, ("every task counts once", "every domain counts once"), strict=False
        ):
            _draw(axes, mine)
            if several:
                axes.set_title(title, fontsize=9)
        _label(panels, points)

    return figure(draw, panels=1 + several, width=4.6 if several else 7.4, height=4.4)


def _effects(found: Comparison, replay: Replay) -> Analysis:
    older = ", ".join(f"{title} {number:,}" for title, number in replay.earlier.items())
    apart = different_trainings(replay.described)
    return Analysis(
        "replay",
        "What each method removes, and what that does to the recorded output",
        f"{NOTICE} {found.population} Removed is a share of the request, removed tokens are per decision, unsafe is a "
        "share of the measured decisions, harm is in nats per token of the output. Every task counts once, in the "
        "columns named so every domain. 95 % intervals in brackets resample whole tasks. In the figure right and low "
        "is good; the line joins the methods that no other beats in both, and the numbers are those of the table."
        + (f" {apart}" if apart else "")
        + (f" Rows of earlier versions that are not shown: {older}." if older else ""),
        ("no", "method", *EFFECTS),
        tuple((number, one.title, *effects_of(one)) for number, one in enumerate(found.methods, start=1)),
        draw_frontier(found),
    )


def _costs(found: Comparison) -> Analysis:
    columns = ("removed", "auxiliary tokens", "net removed", "ms", "invalid", "fell back", "task lost", "claims broken")
    return Analysis(
        "replay_costs",
        "What each method costs, and what it breaks",
        f"Of all {found.decisions:,} decisions, measured or not; so is removed here. Auxiliary tokens are those of the "
        "method's own model calls, per decision it was asked about; net removed takes them off. ms is the median time "
        "to rewrite a request on this machine. Invalid are rewrites that broke the protocol: they were not sent, and "
        "the request went on unchanged; that, and any other failure, counts as falling back. Task lost: requests that "
        "went on without the user's task as the user put it. Claims broken: without something that the method claims "
        "to keep.",
        ("no", "method", "trained", *columns),
        tuple(
            (
                *(number, one.title, one.trained, one.removal_of_all),
                *(round(one.auxiliary_tokens.value, 1), one.net_removal, round(one.milliseconds, 1)),
                *(one.invalid, one.fell_back, one.lost_task, one.claims_broken),
            )
            for number, one in enumerate(found.methods, start=1)
        ),
        b"",
    )


def _failures(found: Comparison) -> Analysis | None:
    """Return the failures; None if nothing failed."""
    rows = tuple(
        (number, one.title, reason, times)
        for number, one in enumerate(found.methods, start=1)
        for reason, times in sorted(one.why_fell_back.items())
    )
    if not rows:
        return None
    return Analysis(
        "replay_failures",
        "Why requests went on as they were",
        "Rewrites that were not sent: the rules of the protocol they broke, or what failed.",
        ("no", "method", "reason", "decisions"),
        rows,
        b"",
    )


def _domains(domains: Mapping[str, Comparison]) -> Analysis:
    shown = list(domains)[:PANELS]

    def draw(*panels: Axes) -> None:
        points = [frontier(enumerate(domains[domain].methods, start=1)) for domain in shown]
        for axes, mine, domain in zip(panels, points, shown, strict=True):
            _draw(axes, mine)
            axes.set_title(domain, fontsize=9)
        _label(panels, points)

    return Analysis(
        "replay_by_domain",
        "The same by domain",
        "As above, for each domain alone; the last three columns are of all decisions."
        + ("" if len(domains) <= PANELS else f" The figure has {PANELS} of them."),
        (
            *("domain", "no", "method", "decisions", "measured"),
            *(name for name in EFFECTS if not name.endswith("equal-domain")),
            *("auxiliary tokens", "ms", "invalid"),
        ),
        tuple(
            (
                *(domain, number, one.title, found.decisions, found.measured),
                *effects_in_domain(one),
                *(round(one.auxiliary_tokens.value, 1), round(one.milliseconds, 1), one.invalid),
            )
            for domain, found in domains.items()
            for number, one in enumerate(found.methods, start=1)
        ),
        figure(draw, panels=len(shown), width=3.2),
    )


def _methods(notes: Sequence[MethodNote]) -> Analysis:
    trained = (
        "untrained: an ordinary model takes the place of a trained one; stand-in: a simple rule does; handed in: a "
        "trained model that --model named"
    )
    return Analysis(
        "methods",
        "The methods, and what was assumed",
        "What a method claims to keep is checked on every output; where it was not kept, the table of costs counts a "
        f"broken claim. {trained}; here: trained on our own train split.",
        ("method", "trained", "version", "claims to keep", "assumptions"),
        tuple(
            (note.title, note.trained, _short(note.version), ", ".join(note.keeps), " ".join(note.assumptions))
            for note in notes
        ),
        b"",
    )


def effects_of(found: MethodSummary) -> tuple[Metric, ...]:
    return (
        *(found.removal, found.removal_by_domain, found.removed_tokens),
        *(found.harm, found.unsafe, found.unsafe_by_domain, found.unsafe_of_changed, found.abstained),
    )


def effects_in_domain(found: MethodSummary) -> tuple[Metric, ...]:
    return (found.removal, found.removed_tokens, found.harm, found.unsafe, found.unsafe_of_changed, found.abstained)


def _short(version: str) -> str:
    """Enough of a hash to tell it from others."""
    return " ".join(word[:12] if len(word) == 64 else word for word in version.split(" "))


def _draw(axes: Axes, points: Sequence[Point]) -> None:
    best = _line(points)
    axes.plot([x for x, _ in best], [y for _, y in best], "-", color=OURS, linewidth=0.8)
    for point in points:
        mark, colour = ("D", PAPER) if point.ours else ("o", OURS)
        axes.plot([100 * point.removal], [100 * point.unsafe], mark, color=colour, markersize=4.5)
    axes.margins(x=0.12, y=0.1)
    axes.set(xlabel="removed, % of the request", ylabel="measured decisions made unsafe, %")


def _label(panels: Sequence[Axes], points: Sequence[Sequence[Point]]) -> None:
    """Label the points of every panel, once all are drawn: names first, which need most room."""
    for axes, mine in zip(panels, points, strict=True):
        ordered = sorted(mine, key=lambda point: (not point.ours, -len(point.label), point.numbers))
        labels = [PlotLabel(point.label, 100 * point.removal, 100 * point.unsafe) for point in ordered]
        if left_out := place_labels(axes, labels, _line(mine)):
            axes.set_xlabel(f"{axes.get_xlabel()}; points without room for a label: {len(left_out)}")


def _line(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return the corners of the line that joins the unbeaten points."""
    return sorted((100 * point.removal, 100 * point.unsafe) for point in points if point.best)
