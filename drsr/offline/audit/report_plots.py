"""The plots of an audit's report: inline SVG that takes its colours from the page, so that light, dark and print work.

Nothing in them refers to another place. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Drawn with colours that stand for those of the page, and replaced by them.
_INK, _A, _B, _C = "#010101", "#010102", "#010103", "#010104"
_COLOURS = {_INK: "currentColor", _A: "var(--plot-a)", _B: "var(--plot-b)", _C: "var(--plot-c)"}
_SPLITS = ("train", "validation", "test")
_PURPOSES = {"train": _A, "calibrate": _C, "evaluate": _B, "describe": _INK}


def harms(evidence: Mapping[str, Any]) -> tuple[str, str]:
    """Recorded against remeasured harm, and how far apart they are."""
    recorded, direct = evidence["recorded"], evidence["direct"]
    tolerance, agreement = evidence["tolerance"], evidence["agreement"]

    def draw(axes: Sequence[Axes]) -> None:
        left, right = axes
        ends = [min([*recorded, *direct, 0.0]), max([*recorded, *direct, tolerance])]
        left.plot(ends, ends, color=_INK, linewidth=0.8, alpha=0.6)
        left.plot(recorded, direct, "o", color=_A, markersize=3.5, alpha=0.7)
        left.axvline(tolerance, color=_B, linestyle="--", linewidth=1)
        left.axhline(tolerance, color=_B, linestyle="--", linewidth=1)
        left.set_xlabel("recorded harm, nats per token")
        left.set_ylabel("measured again")
        apart = [max(abs(one - other), 1e-9) for one, other in zip(recorded, direct, strict=True)]
        right.hist(apart, bins=_decades(1e-9, max([*apart, 2 * agreement])), color=_A)
        right.axvline(agreement, color=_B, linestyle="--", linewidth=1)
        right.set_xscale("log")
        right.set_xlabel("difference, nats per token")
        right.set_ylabel("labels")

    caption = (
        f"Harm of {len(recorded):,} deletion sets as recorded and as measured again. Dashed: the harm tolerance "
        f"({tolerance:g}) on the left, the largest allowed difference ({agreement:.0e}) on the right; differences "
        "below 1e-9 are drawn there."
    )
    return _svg("harms", draw, 2), caption


def feature_differences(evidence: Mapping[str, Any], allowed: float) -> tuple[str, str]:
    """Return how far stored features are from those computed again, by state."""
    differences = [min(max(difference, 1e-9), 1e3) for difference in evidence["differences"]]

    def draw(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        axis.plot(range(1, len(differences) + 1), sorted(differences), "o", color=_A, markersize=4)
        axis.axhline(allowed, color=_B, linestyle="--", linewidth=1)
        axis.set_yscale("log")
        axis.set_ylim(5e-10, max(10 * allowed, 3 * max(differences, default=0)))
        axis.set_xlabel("states, sorted")
        axis.set_ylabel("largest difference")

    caption = (
        f"The largest difference between stored and recomputed features of each of {len(differences):,} states, "
        "relative where a feature is larger than 1. Dashed: what is allowed for rounding."
    )
    return _svg("features", draw, 1, height=2.6), caption


def operating_curve(evidence: Mapping[str, Any]) -> tuple[str, str] | None:
    """Unsafe rate and removal by threshold, with the shipped point; None where no curve was searched."""
    curve, chosen, limits = evidence["curve"], evidence["chosen"], evidence["limits"]
    if curve is None:
        return None

    def draw(axes: Sequence[Axes]) -> None:
        left, right = axes
        thresholds = curve["risk_threshold"]
        rates = [float("nan") if rate is None else rate for rate in curve["unsafe_rate"]]
        left.plot(thresholds, rates, color=_A, drawstyle="steps-post")
        left.axhline(limits["unsafe_rate"], color=_B, linestyle="--", linewidth=1)
        left.set_ylabel("unsafe rate of selected sets")
        left.set_ylim(bottom=0)
        right.plot(thresholds, [100 * value for value in curve["mean_removal"]], color=_C, drawstyle="steps-post")
        right.set_ylabel("mean removal, % of a request")
        right.set_ylim(bottom=0)
        for axis, value in ((left, chosen["unsafe_rate"]), (right, 100 * chosen["mean_removal"])):
            axis.set_xlabel("risk threshold")
            if chosen["risk_threshold"] is not None:
                axis.plot([chosen["risk_threshold"]], [value], "o", color=_INK, markersize=6)

    caption = (
        f"The search on {evidence['states']:,} validation states, repeated with the shipped scorer, at K "
        f"{chosen['max_cardinality']} and beta {chosen['uncertainty_coefficient']:g}. Dot: the shipped operating "
        "point. Dashed: the largest allowed unsafe rate."
    )
    return _svg("curve", draw, 2), caption


def split_sizes(evidence: Mapping[str, Any]) -> tuple[str, str]:
    """Plot trajectories by split, and the states that the policy was made from."""
    rows = [("trajectories", evidence["trajectories"], _A), ("states behind the policy", evidence["policy_states"], _C)]

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (what, counts, colour) in zip(axes, rows, strict=True):
            values = [counts.get(split, 0) for split in _SPLITS]
            bars = axis.barh(_SPLITS, values, color=colour, height=0.6)
            axis.bar_label(bars, labels=[f"{value:,}" for value in values], padding=3, color=_INK, fontsize=9)
            axis.set_xlim(0, 1.2 * max([*values, 1]))
            axis.invert_yaxis()
            axis.set_xlabel(what)

    caption = (
        "Trajectories of each split, and its states that the policy was made from: none of the test split may be there."
    )
    return _svg("splits", draw, 2, height=2.0), caption


def reads(evidence: Mapping[str, Any]) -> tuple[str, str]:
    """Plot every recorded read, by split and time."""
    times = [datetime.fromisoformat(at) for _, _, at in evidence["reads"]]
    start = min(times, default=datetime.fromisoformat(evidence["trained_at"]))
    marks = {
        "trained": datetime.fromisoformat(evidence["trained_at"]),
        "calibrated": datetime.fromisoformat(evidence["calibrated_at"]),
    }
    span = (max([*times, *marks.values()]) - start).total_seconds()
    unit, seconds = next(((name, size) for name, size in _UNITS if span >= 2 * size), ("seconds", 1))

    def since(moment: datetime) -> float:
        return (moment - start).total_seconds() / seconds

    def draw(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        for purpose, colour in _PURPOSES.items():
            mine = [
                (since(at), _SPLITS.index(split))
                for at, (split, why, _) in zip(times, evidence["reads"], strict=True)
                if why == purpose
            ]
            if mine:
                # One purpose a little above the other: reads of one moment are all seen.
                shift = 0.12 * (list(_PURPOSES).index(purpose) - 1.5)
                places = [row + shift for _, row in mine]
                axis.plot(
                    [x for x, _ in mine], places, "|", color=colour, markersize=11, markeredgewidth=2, label=purpose
                )
        for (what, moment), style in zip(marks.items(), (":", "--"), strict=True):
            axis.axvline(since(moment), color=_INK, linewidth=1, linestyle=style, label=what)
        axis.set_yticks(range(len(_SPLITS)), _SPLITS)
        axis.set_ylim(2.6, -0.6)
        axis.set_xlabel(f"{unit} since the first read")
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), labelcolor=_INK, fontsize=9)

    caption = (
        f"{len(times):,} recorded reads of the splits by purpose, from {start:%Y-%m-%d %H:%M} UTC. Lines: when the "
        "policy's scorer was trained and calibrated."
    )
    return _svg("reads", draw, 1, height=2.6), caption


_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


def _decades(lowest: float, highest: float) -> list[float]:
    import numpy as np

    return [float(edge) for edge in np.logspace(np.log10(lowest), np.log10(highest), 28)]


def _svg(name: str, draw: Callable[[Sequence[Axes]], None], columns: int, height: float = 3.0) -> str:
    """A drawing as an element of the page. `name` keeps its ids apart from those of other drawings."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
    }
    for part in ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"):
        settings[part] = _INK
    with mpl.rc_context(settings):
        figure = Figure(figsize=(7.6, height), layout="constrained")
        figure.patch.set_visible(False)
        FigureCanvasSVG(figure)
        axes = figure.subplots(1, columns, squeeze=False)[0]
        for axis in axes:
            axis.patch.set_visible(False)
            axis.grid(alpha=0.18, color=_INK)
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
        draw(list(axes))
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _for_the_page(name, stream.getvalue())


def _for_the_page(name: str, svg: str) -> str:
    svg = svg[svg.index("<svg") :]
    before, _, described = svg.partition("<metadata>")
    svg = before + described.partition("</metadata>")[2]
    svg = (
        re.sub(r'\s(xmlns(:\w+)?|width|height|version)="[^"]*"', "", svg.partition(">")[0])
        + ">"
        + svg.partition(">")[2]
    )
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    for drawn, shown in _COLOURS.items():
        svg = svg.replace(drawn, shown)
    return svg.replace("<svg", '<svg role="img"', 1)
